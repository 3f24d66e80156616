//! Namespaces come and go with their descriptors, and never with the caller.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;

use netlab_node::{Netlink, Netns, sysctl};

use crate::require;

#[test]
fn a_fresh_namespace_is_another_one_and_the_caller_stays() {
    if !require::netns() {
        return;
    }
    let before = Netns::current().expect("own").identity();
    let fresh = Netns::create().expect("create");
    assert_ne!(fresh.identity(), before);
    let inside = fresh.run(|| Netns::current().expect("inside").identity()).expect("run");
    assert_eq!(inside, fresh.identity());
    assert_eq!(Netns::current().expect("own").identity(), before);
}

#[test]
fn a_namespace_is_found_through_a_process_in_it() {
    if !require::netns() {
        return;
    }
    let fresh = Netns::create().expect("create");
    let mut child =
        fresh.run(|| std::process::Command::new("sleep").arg("60").spawn().expect("sleep")).expect("run");
    let found = Netns::from_pid(child.id()).expect("from_pid").identity();
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!(found, fresh.identity());
}

#[test]
fn sysctls_belong_to_the_namespace_of_the_thread() {
    if !require::netns() {
        return;
    }
    let before = sysctl::read("ipv4/ip_forward");
    let (fresh, inside) = Netns::create_with(|| {
        for value in ["0", "1"] {
            sysctl::write(&sysctl::Sysctl::new("ipv4/ip_forward", value)).expect("write");
        }
        sysctl::read("ipv4/ip_forward")
    })
    .expect("create");
    assert_eq!(inside.as_deref(), Some("1"));
    assert_eq!(fresh.run(|| sysctl::read("ipv4/ip_forward")).expect("run").as_deref(), Some("1"));
    assert_eq!(sysctl::read("ipv4/ip_forward"), before);
}

#[test]
fn a_missing_sysctl_is_named() {
    let error = sysctl::write(&sysctl::Sysctl::new("ipv4/no_such_thing", "1")).expect_err("missing");
    assert_eq!(error.to_string(), "cannot set net/ipv4/no_such_thing = 1");
}

#[test]
fn a_panic_inside_reaches_the_caller() {
    if !require::netns() {
        return;
    }
    let fresh = Netns::create().expect("create");
    let outcome = std::panic::catch_unwind(|| fresh.run(|| panic!("inside")));
    assert!(outcome.is_err());
}

#[test]
fn a_handle_outlives_the_one_it_was_cloned_from() {
    if !require::netns() {
        return;
    }
    let first = Netns::create().expect("create");
    let second = first.try_clone().expect("clone");
    drop(first);
    let links = Netlink::open_in(&second).expect("open").links().expect("links");
    assert_eq!(links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo"]);
}

#[test]
fn a_cookie_is_of_one_namespace_for_ever() {
    if !require::netns() {
        return;
    }
    let cookie = |netns: &Netns| netns.cookie().expect("readable");
    let first = Netns::create().expect("create");
    let again = Netns::from_path(format!("/proc/self/fd/{}", first.as_raw_fd())).expect("open");
    assert_eq!(cookie(&first), cookie(&again));
    let mut seen = BTreeSet::from([cookie(&first)]);
    drop((first, again));
    // One after the other: their inodes may be the same, their cookies never.
    for _ in 0..20 {
        assert!(seen.insert(cookie(&Netns::create().expect("create"))));
    }
}
