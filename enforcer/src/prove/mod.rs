//! `prove`: predict a verdict, send the packet through the real program, and compare.
//!
//! Four witnesses are asked: the specification, the compiled tables, the program on the live maps (test-run) and
//! the wire. Invariant: they are asked independently, and disagreement is reported, never resolved.

pub mod predict;
pub mod proof;
