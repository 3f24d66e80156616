//! `netlab dns diagnose` over a bundle: the verdict, its exit code, and what cannot be read.

use std::os::fd::AsRawFd;

use netlab_node::Netns;

use crate::run::{is_root, netlab, required};

const EXAMPLE: &str = "examples/dns-bundle";

#[test]
fn the_verdict_is_the_first_line_and_the_exit_code() {
    let run = netlab(["dns", "diagnose", "--bundle", EXAMPLE]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let first = run.stdout.lines().next().unwrap_or_default();
    assert_eq!(first, "NOT DNS  policy drops what shop/web asks    POLICY-EGRESS-DENY  high");
    assert!(run.stdout.contains("netlab policy prove --from shop/web"), "{}", run.stdout);
    let data = netlab(["dns", "diagnose", "--bundle", EXAMPLE, "-o", "json"]);
    assert_eq!(data.code, Some(1));
    let data: serde_json::Value = serde_json::from_str(&data.stdout).expect("JSON");
    assert_eq!(data["verdict"]["class"], "not-dns");
    assert_eq!((&data["verdict"]["mode"], &data["kind"]), (&"F01".into(), &"Diagnosis".into()));
    assert_eq!(data["complete"], false, "not everything was recorded");
}

#[test]
fn an_expectation_turns_the_exit_code() {
    for (expected, code) in
        [("F01", 0), ("policy-egress-deny", 0), ("not-dns", 0), ("F02", 1), ("healthy", 1)]
    {
        let run = netlab(["dns", "diagnose", "--bundle", EXAMPLE, "--expect", expected]);
        assert_eq!(run.code, Some(code), "{expected}: {}", run.stdout);
    }
}

#[test]
fn an_expectation_that_no_verdict_can_meet_is_refused_at_once() {
    for expected in ["nonsense", "F00", "F999", ""] {
        // Before anything is read: what is not there is not missed.
        let run = netlab(["dns", "diagnose", "--bundle", "examples/nowhere", "--expect", expected]);
        assert_eq!(run.code, Some(2), "{expected}: {}", run.stdout);
        assert!(run.stderr.contains("no verdict is called so"), "{expected}: {}", run.stderr);
    }
}

#[test]
fn a_namespace_of_another_pod_is_refused() {
    if !is_root() {
        assert!(!required("root"), "NETLAB_TEST_REQUIRE says that root is there");
        return;
    }
    let netns = Netns::create().expect("root can make a namespace");
    let path = format!("/proc/{}/fd/{}", std::process::id(), netns.as_raw_fd());
    let run =
        netlab(["dns", "diagnose", "shop/cache", "kubernetes", "-f", "examples/shop", "--netns", &path]);
    assert_eq!(run.code, Some(2), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("is not that of shop/cache"), "{}", run.stderr);
    assert!(run.stderr.contains("10.244.0.11"), "{}", run.stderr);
    assert!(run.stdout.is_empty(), "{}", run.stdout);
}

#[test]
fn what_is_no_bundle_and_what_is_nowhere_is_said() {
    for (arguments, words) in [
        (vec!["--bundle", "examples/shop"], "this is no bundle"),
        (vec!["--bundle", "examples/nowhere"], "cannot be read"),
        (vec![], "no pod was named"),
        (vec!["svc/kube-system/kube-dns", "--pid", "1"], "DNS is diagnosed for one pod"),
        (vec!["shop/web"], "nothing says where shop/web is"),
        (vec!["shop/web", "--netns", "/nowhere"], "cannot open the network namespace at /nowhere"),
        (
            vec!["shop/nobody", "-f", "examples/shop", "--netns", "/nowhere"],
            "no Pod `shop/nobody` in the input",
        ),
    ] {
        let run = netlab(["dns", "diagnose"].into_iter().chain(arguments.iter().copied()));
        assert_eq!(run.code, Some(2), "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
    }
}
