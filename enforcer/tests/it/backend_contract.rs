//! The contract tests over every in-tree backend, directly and through JSON.

use netlab_enforcer::backend::dry_run::DryRun;
use netlab_enforcer::backend::nft::NftBackend;
use netlab_node::Netns;
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
