//! Tests of the node crate against the kernel, each in namespaces of its own.

mod capability;
mod container;
mod dump;
mod netlink;
mod netns;
mod require;
