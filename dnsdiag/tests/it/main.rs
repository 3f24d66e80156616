//! Integration tests of `netlab-dnsdiag`, one binary.

mod bundles;
mod kubelet;
mod plan;
mod probe;
mod records;
mod require;
mod resolv_conf;
mod vector;
