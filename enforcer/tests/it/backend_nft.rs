//! What only the nft backend does: tables beside others', other processes' tables, what other programs change.

use std::process::Command;

use netlab_enforcer::backend::nft::NftBackend;
use netlab_plugin::contract::Backend;

use crate::backend_site::{DB, has, open};
use crate::backend_traffic::{Counting, Enforced, assert_silent, connect, db_isolated, listen, nft_by_hand};

#[test]
fn what_others_change_is_drift_and_asking_again_mends_it() {
    let Some(mut place) = Enforced::nft() else { return };
    let change = place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    nft_by_hand(place.site.node(), "insert rule inet netlab postrouting accept\n");
    let drift = place.backend.observe().expect("observation").drift;
    assert!(drift.iter().any(|line| line.contains("postrouting")), "{drift:?}");
    place.backend.apply(&change).expect("applied again");
    assert_eq!(place.backend.observe().expect("observation").drift, Vec::<String>::new());

    nft_by_hand(place.site.node(), "delete table inet netlab\n");
    let observation = place.backend.observe().expect("observation");
    assert_eq!(observation.generation, 0);
    assert_eq!(observation.drift, ["table inet netlab is gone"]);
    place.backend.apply(&change).expect("applied again");
    let _listener = listen(place.site.pod("db"), DB[0], 81);
    assert_silent(connect(place.site.pod("web"), DB[0], 81));
}

#[test]
fn counters_go_on_over_a_change_and_two_tables_live_in_one_namespace() {
    let Some(mut place) = Enforced::nft() else { return };
    let change = place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    assert_silent(connect(place.site.pod("web"), DB[0], 81));
    let before = place.backend.counted();
    assert!(before[&65] > 0);
    let handle = place.site.node().try_clone().expect("a second handle");
    let mut other = NftBackend::inside(handle).table("netlab_other").expect("a name");
    other.apply(&change).expect("applied");
    place.apply(2, vec![open(1), db_isolated(2)], 1, 2);
    assert!(place.backend.counted()[&65] >= before[&65], "kept over a change");
    assert!(place.backend.teardown().is_empty());
    let observation = other.observe().expect("observation");
    assert_eq!((observation.generation, observation.drift), (1, vec![]));
}

#[test]
fn a_second_process_refuses_to_go_back() {
    let Some(mut place) = Enforced::nft() else { return };
    let mut change = place.apply(7, vec![open(1), db_isolated(2)], 1, 2);
    // Another backend over the same table knows nothing of the first.
    let mut second = NftBackend::inside(place.site.node().try_clone().expect("a second handle"));
    let observation = second.observe().expect("observation");
    assert_eq!(observation.generation, 7);
    assert!(observation.drift[0].contains("another process"), "{:?}", observation.drift);
    change.generation = 6;
    let error = second.apply(&change).expect_err("older");
    assert!(error.message.contains("older"), "{error}");
    change.generation = 8;
    second.apply(&change).expect("newer");
    assert_eq!(second.observe().expect("observation").drift, Vec::<String>::new());
}

/// The datapath without root: the traffic test of this binary once more, in a user namespace.
#[test]
fn without_root_in_a_user_namespace_packets_meet_the_same_rules() {
    if !has(&["userns", "nft"]) {
        return;
    }
    let binary = std::env::current_exe().expect("this binary");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(binary)
        .args(["--exact", "backend_traffic::nft::allows_and_denies_by_one_entry_each_in_both_families"])
        .env("NETLAB_TEST_REQUIRE", "netns,nft")
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{errors}");
}

#[test]
fn without_the_right_the_error_says_what_to_do() {
    if !has(&["userns", "nft"]) {
        return;
    }
    // A user namespace that owns no network namespace of its own has no right over the machine's.
    let binary = std::env::current_exe().expect("this binary");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(binary)
        .args(["--exact", "backend_nft::refused_here", "--ignored", "--nocapture"])
        .env("NETLAB_TEST_REFUSED", "1")
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Run by the test above, where nothing may be changed: a table in the machine's own namespace must be refused.
#[test]
#[ignore = "only where nothing may be changed"]
fn refused_here() {
    // Whoever runs all ignored tests as root would make a table where they work.
    assert!(std::env::var_os("NETLAB_TEST_REFUSED").is_some(), "only for the test that starts this one");
    let mut nft = NftBackend::here().table("netlab_refused").expect("a name");
    let missing = nft.probe().missing;
    assert!(missing.iter().any(|line| line.contains("CAP_NET_ADMIN")), "{missing:?}");
    let error = nft.apply(&netlab_plugin::contract_tests::sample(1)).expect_err("not allowed");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("user namespace")), "{error:?}");
}
