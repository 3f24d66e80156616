//! Integration tests of `netlab-dnsdiag`, one binary.

mod bed;
mod bundle_errors;
mod bundle_schema;
mod bundles;
mod coredns_peer;
mod corefile_peer;
mod coverage;
mod gather;
mod kubelet;
mod lint;
mod lint_pages;
mod lint_pods;
mod lint_property;
mod lint_reports;
mod live;
mod plan;
mod probe;
mod records;
mod require;
mod resolv_conf;
mod scenario;
mod vector;
