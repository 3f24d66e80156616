//! Tests of the command as users meet it: streams, exit codes, messages, printed examples.

mod answers;
mod bad_input;
mod check;
mod claims;
mod connections;
mod connections_ends;
mod describe;
mod diff;
mod dns_diagnose;
mod dns_query;
mod exposure;
mod garbage;
mod help;
mod input;
mod lab;
mod leftovers;
mod lint;
mod run;
mod service_conntrack;
mod service_endpoints;
mod service_netns;
mod service_trace;
mod services;
mod tie;
mod transcripts;
mod what_if;
