//! Integration tests of `netlab-dnsdiag`, one binary.

mod bundles;
mod probe;
mod require;
mod resolv_conf;
