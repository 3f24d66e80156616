//! The contract tests over every in-tree backend, directly and through JSON.

use netlab_enforcer::backend::dry_run::DryRun;
use netlab_plugin::contract_tests;
use netlab_plugin::loopback::Loopback;

#[test]
fn dry_run_keeps_the_contract() {
    contract_tests::run(&mut || Box::new(DryRun::new()));
}

#[test]
fn dry_run_keeps_the_contract_through_json() {
    contract_tests::run(&mut || Box::new(Loopback::new(DryRun::new())));
}
