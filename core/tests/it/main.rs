//! What users of the library see, one topic per file.

mod agreement;
mod agreement_faults;
mod agreement_manifests;
mod catalog;
mod cnp_conformance;
mod connections_agreement;
mod connections_cases;
mod connections_diff;
mod describe;
mod e2e;
mod endpoint_ref;
mod input_cases;
mod input_examples;
mod input_faults;
mod input_files;
mod input_hostile;
mod input_model;
mod oracle_boundary;
mod oracle_cases;
mod oracle_generator;
mod service_endpoints;
mod service_iptables;
mod service_select;
mod sides;
mod tier_answers;
mod tier_faults;
