//! `netlab dns query`: what is asked, from where, and what is said of it.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use netlab_node::Netns;

use crate::run::{is_root, netlab, required};

/// Answers one question with this return code (the low half of the fourth byte, RFC 1035 section 4.1.1).
fn answering(rcode: u8) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = socket.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        let (length, from) = socket.recv_from(&mut bytes).expect("a question");
        bytes[2] |= 0x80;
        bytes[3] = rcode;
        socket.send_to(&bytes[..length], from).expect("sent");
    });
    server
}

#[test]
fn a_no_is_an_answer() {
    let run = netlab(["dns", "query", "nobody.example", "--server", &answering(3)]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("NXDOMAIN  nobody.example A from 127.0.0.1:"), "{}", run.stdout);
    let run = netlab(["dns", "query", "nobody.example", "--server", &answering(2), "-o", "json"]);
    assert!(run.stdout.contains(r#""rcode": "SERVFAIL""#), "{}", run.stdout);
}

#[test]
fn who_refused_is_named() {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let run = netlab(["dns", "query", "nobody.example", "--server", &port.to_string()]);
    assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("ECONNREFUSED  nobody.example A"), "{}", run.stdout);
    assert!(run.stdout.contains("3/3 (ECONNREFUSED) from 127.0.0.1"), "{}", run.stdout);
}

#[test]
fn the_question_goes_out_from_the_namespace_that_is_named() {
    if !is_root() {
        assert!(!required("root"), "NETLAB_TEST_REQUIRE says that root is there");
        return;
    }
    // Nothing is up in a fresh namespace: what the machine itself could reach is out of reach there.
    let netns = Netns::create().expect("root can make a namespace");
    let path = format!("/proc/{}/fd/{}", std::process::id(), netns.as_raw_fd());
    let server = answering(0);
    let run = netlab(["dns", "query", "nobody.example", "--server", &server, "--netns", &path]);
    assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("ENETUNREACH  nobody.example A: not sent"), "{}", run.stdout);
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_reason() {
    for (arguments, words) in [
        (["a..b", "--server", "127.0.0.1"], "a dot with nothing before it"),
        (["example.com", "--server", "ns1"], "a server is an address"),
        (["example.com", "--server=127.0.0.1", "--type=ADDRESS"], "no record type"),
        (
            ["example.com", "--server=127.0.0.1", "--netns=/nowhere"],
            "cannot open the network namespace at /nowhere",
        ),
    ] {
        let run = netlab(["dns", "query"].into_iter().chain(arguments));
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.stdout);
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn an_empty_name_is_refused_wherever_a_name_is_asked_about() {
    for arguments in [
        ["query", "", "--server", "127.0.0.1"].as_slice(),
        &["query", " ", "--server", "127.0.0.1"],
        &["plan", "", "--resolv-conf", "examples/dns/pod.conf"],
        &["diagnose", "shop/web", "", "--netns", "/nowhere"],
        &["diagnose", "--bundle", "examples/dns-bundle", ""],
    ] {
        let run = netlab(["dns"].iter().chain(arguments));
        assert_eq!(run.code, Some(2), "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("the name is empty"), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn a_file_that_is_no_network_namespace_is_refused_before_anything_is_asked() {
    if !is_root() {
        assert!(!required("root"), "NETLAB_TEST_REQUIRE says that root is there");
        return;
    }
    let mounts = format!("/proc/{}/ns/mnt", std::process::id());
    for (place, words) in [
        ("/etc/passwd", "it is no namespace"),
        ("/proc", "it is no namespace"),
        // A namespace, and not of a network.
        (&*mounts, "Invalid argument"),
        ("/nowhere", "No such file"),
    ] {
        for arguments in [
            vec!["query", "example.com", "--server", "127.0.0.1", "--netns", place],
            vec!["diagnose", "shop/web", "cache", "--netns", place],
            vec!["diagnose", "shop/web", "cache", "--netns", place, "--node-netns", place],
        ] {
            let run = netlab(["dns"].into_iter().chain(arguments.iter().copied()));
            assert_eq!(run.code, Some(2), "{arguments:?}: {}{}", run.stdout, run.stderr);
            assert!(run.stderr.contains(words) && run.stdout.is_empty(), "{arguments:?}: {}", run.stderr);
        }
    }
}
