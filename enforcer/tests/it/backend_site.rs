//! What backend tests stand on.
//!
//! Invariant: everything is in namespaces that die with the test; a missing privilege skips a test unless
//! `NETLAB_TEST_REQUIRE` names it.

use std::process::Command;

use netlab_node::Netns;

/// True when this machine has all of `needed` (`netns`, `nft`). Says what is missing.
///
/// # Panics
/// When something missing is required by `NETLAB_TEST_REQUIRE`.
pub(crate) fn has(needed: &[&str]) -> bool {
    let required = std::env::var("NETLAB_TEST_REQUIRE").unwrap_or_default();
    for need in needed {
        let there = match *need {
            "netns" => Netns::create().is_ok(),
            "nft" => {
                Command::new("nft").arg("--version").output().is_ok_and(|output| output.status.success())
            }
            other => panic!("unknown requirement {other}"),
        };
        if !there {
            assert!(!required.split(',').any(|name| name == *need), "{need} is required and not there");
            eprintln!("skipped: {need} is not available");
            return false;
        }
    }
    true
}
