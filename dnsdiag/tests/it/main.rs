//! Integration tests of `netlab-dnsdiag`, one binary.

mod resolv_conf;
