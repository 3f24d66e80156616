//! Tests of the lab against the kernel.

mod cluster;
mod plan;
mod require;
mod topology;
mod traffic;
