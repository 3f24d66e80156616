//! Integration tests of the enforcer: one binary.
#![expect(clippy::print_stderr, reason = "a skipped test says why")]

mod backend_agreement;
mod backend_contract;
mod backend_nft;
mod backend_pins;
mod backend_site;
mod backend_tc;
mod backend_traffic;
mod bpf_agreement;
mod bpf_drops;
mod bpf_frames;
mod bpf_load;
mod bpf_require;
mod bpf_speed;
mod bpf_wire;
mod bpf_world;
mod conformance;
mod corners_buffers;
mod corners_flows;
mod corners_fragments;
mod corners_fuzz;
mod corners_headers;
mod corners_icmp;
mod corners_link;
mod corners_node;
mod corners_rig;
mod corners_wire;
mod drill_writer;
mod flip_drill;
mod flip_world;
mod mutation_nft;
mod mutation_tc;
mod mutation_world;
mod program_agreement;
mod prove;
mod seeds;
