//! The object loads: the verifier accepts the programs, and a second instance is the same but for what it saw.

use netlab_ebpf::abi::Direction;
use netlab_enforcer::maps::PolicyMaps;
use netlab_enforcer::{LoadOptions, maps::MapSizes};

use super::bpf_require::datapath;

#[test]
fn the_verifier_accepts_both_programs_in_lab_and_on_a_node() {
    let node = LoadOptions { sizes: MapSizes::LAB, ..LoadOptions::NODE };
    for options in [LoadOptions::LAB, node] {
        let Some(datapath) = datapath("bpf_load", &options) else { return };
        let identity = datapath.identity().expect("identity");
        assert_ne!(identity.tags[&Direction::Egress], identity.tags[&Direction::Ingress], "two programs");
        assert_eq!(identity.policy_maps.keys().copied().collect::<Vec<_>>(), {
            let mut names = PolicyMaps::NAMES.to_vec();
            names.sort_unstable();
            names
        });
    }
}

/// What a load costs, counted: it was 51,000 before parts were verified by themselves.
#[test]
fn the_verifier_follows_each_part_about_once() {
    let Some(datapath) = datapath("bpf_load", &LoadOptions::LAB) else { return };
    for (name, program) in [
        ("from_pod", datapath.program(Direction::Egress)),
        ("to_pod", datapath.program(Direction::Ingress)),
        ("to_wire", datapath.to_wire()),
    ] {
        let verified = program.verified_instructions();
        eprintln!("{name}: {verified} instructions verified");
        assert!((1..24_000).contains(&verified), "{name}: {verified} instructions verified");
    }
}

#[test]
fn a_second_instance_is_the_same_but_for_what_it_saw() {
    let Some(datapath) = datapath("bpf_load", &LoadOptions::LAB) else { return };
    let start = std::time::Instant::now();
    let second = datapath.second_instance().expect("second instance");
    eprintln!("second instance: {:?}", start.elapsed());
    assert_eq!(second.identity().expect("identity"), datapath.identity().expect("identity"));
    assert_ne!(second.state().counters.id(), datapath.state().counters.id());
    assert_ne!(second.state().conntrack4.id(), datapath.state().conntrack4.id());
    drop(datapath);
    second.policy().peers.get(&[0; 16]).expect("the maps live as long as one instance does");
}
