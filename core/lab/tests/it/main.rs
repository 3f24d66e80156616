//! Tests of the lab against the kernel.

mod cleanup;
mod cluster;
mod named;
mod plan;
mod print;
mod process;
mod proxy;
mod require;
mod topology;
mod traffic;
