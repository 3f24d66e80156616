//! Integration tests of `netlab-dnsdiag`, one binary.

mod probe;
mod require;
mod resolv_conf;
