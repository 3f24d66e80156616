//! The contract tests over every in-tree backend, directly and through JSON.

use netlab_enforcer::LoadOptions;
use netlab_enforcer::backend::dry_run::DryRun;
use netlab_enforcer::backend::nft::NftBackend;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_node::netlink::{Batch, Mac, VethEnd};
use netlab_node::{Netlink, Netns};
use netlab_plugin::contract_tests;
use netlab_plugin::loopback::Loopback;

use crate::backend_site::has;

#[test]
fn dry_run_keeps_the_contract() {
    contract_tests::run(&mut || Box::new(DryRun::new()));
}

#[test]
fn dry_run_keeps_the_contract_through_json() {
    contract_tests::run(&mut || Box::new(Loopback::new(DryRun::new())));
}

#[test]
fn nft_keeps_the_contract() {
    if !has(&["netns", "nft"]) {
        return;
    }
    contract_tests::run(&mut || Box::new(NftBackend::inside(Netns::create().expect("namespace"))));
}

#[test]
fn nft_keeps_the_contract_through_json() {
    if !has(&["netns", "nft"]) {
        return;
    }
    contract_tests::run(&mut || {
        Box::new(Loopback::new(NftBackend::inside(Netns::create().expect("namespace"))))
    });
}

/// A namespace with the interfaces that the contract tests name; their far ends are in the other one.
pub(crate) fn interfaces() -> (Netns, Netns) {
    let (node, far) = (Netns::create().expect("namespace"), Netns::create().expect("namespace"));
    let mut batch = Batch::new();
    for (number, name) in (1..).zip(contract_tests::INTERFACES) {
        let end = |name, side| VethEnd { name, mac: Mac([2, 0, 0, 0, side, number]) };
        batch.veth(end(name, 1), end(name, 2), &far);
    }
    Netlink::open_in(&node).expect("netlink").apply(&batch).expect("links");
    (node, far)
}

#[test]
fn tc_keeps_the_contract() {
    if !has(&["netns", "bpf"]) {
        return;
    }
    let (node, _far) = interfaces();
    contract_tests::run(&mut || {
        let node = node.try_clone().expect("a second handle");
        Box::new(TcBackend::load(node, &LoadOptions::LAB).expect("loaded"))
    });
}

#[test]
fn tc_keeps_the_contract_through_json() {
    if !has(&["netns", "bpf"]) {
        return;
    }
    let (node, _far) = interfaces();
    contract_tests::run(&mut || {
        let node = node.try_clone().expect("a second handle");
        Box::new(Loopback::new(TcBackend::load(node, &LoadOptions::LAB).expect("loaded")))
    });
}
