//! Faults: each is seen by the one who asks, and none leaves a trace when it is mended.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::lab::Labs;
use crate::run::root_or_skip;

/// The pod that asks; it is on node-1, with the first DNS pod.
const CLIENT: &str = "shop/api";

/// Fault, probe, and what is then seen. Of each fault that is listed, something has to stand here.
const SEEN: &[(&str, &[(&str, &str)])] = &[
    ("dns-policy", &[("vip", "silent"), ("vip tcp", "silent"), ("connect", "open"), ("node", "10.96.12.9")]),
    ("dns-policy-udp-only", &[("vip", "10.96.12.9"), ("vip tcp", "silent")]),
    ("dns-policy-tcp-only", &[("vip", "silent"), ("vip tcp", "10.96.12.9")]),
    ("dns-policy-service-port", &[("vip", "silent"), ("node 5353", "10.96.12.9")]),
    ("dns-ingress-policy", &[("vip", "silent"), ("scraper", "10.96.12.9")]),
    ("dns-egress-policy", &[("vip", "10.96.12.9"), ("outside", "silent")]),
    ("no-endpoints", &[("vip", "refused"), ("ep", "10.96.12.9")]),
    ("selector", &[("vip", "refused"), ("ep", "10.96.12.9")]),
    ("target-port", &[("vip", "refused"), ("ep", "10.96.12.9")]),
    ("service-without-tcp", &[("vip", "10.96.12.9"), ("vip tcp", "refused")]),
    ("stolen-ip", &[("vip", "refused"), ("ep", "10.96.12.9")]),
    ("internal-traffic-local", &[("vip", "silent"), ("ep", "10.96.12.9")]),
    ("crash-loop", &[("vip", "refused"), ("node", "refused")]),
    ("out-of-memory", &[("vip", "refused"), ("node", "refused")]),
    ("headless-not-ready", &[("peers", "NXDOMAIN")]),
    ("external-name", &[("billing", "NOERROR")]),
    ("no-udp-rule", &[("vip", "refused"), ("vip tcp", "10.96.12.9")]),
    ("no-tcp-rule", &[("vip", "10.96.12.9"), ("vip tcp", "refused")]),
    ("no-proxy", &[("vip", "silent"), ("ep", "10.96.12.9")]),
    ("bad-rule", &[("vip often", "10.96.12.9 silent")]),
    ("stale-udp", &[("conntrack 20053", "src=10.244.254.9"), ("vip", "10.96.12.9")]),
    ("undnat-udp", &[("conntrack 20054", "src=10.96.0.10"), ("vip", "10.96.12.9")]),
    ("conntrack-full", &[("ep often", "silent")]),
    ("lost-twin", &[("glibc both", "slow 10.96.12.9"), ("vip aaaa", "NOERROR"), ("vip", "10.96.12.9")]),
    ("egress-drop", &[("vip", "silent"), ("connect", "open")]),
    ("tcp-drop", &[("vip", "10.96.12.9"), ("vip tcp", "silent")]),
    ("udp-drop", &[("vip", "silent"), ("vip tcp", "10.96.12.9")]),
    ("refuse", &[("vip", "refused ICMP 3/3"), ("connect", "open")]),
    ("prohibit", &[("vip", "ICMP 3/13")]),
    ("replies-lost", &[("vip", "silent"), ("node", "10.96.12.9")]),
    ("other-source", &[("vip", "silent"), ("vip from-any", "10.244.0.5")]),
    ("partition", &[("ep", "10.96.12.9"), ("ep2", "silent")]),
    ("large-udp-lost", &[("large", "silent"), ("vip", "10.96.12.9")]),
    ("sidecar-capture", &[("vip", "refused"), ("node", "10.96.12.9")]),
    ("after-dns", &[("vip tcp", "10.96.12.9"), ("connect", "closed")]),
    ("bad-replica", &[("ep", "10.96.12.9"), ("ep2", "silent")]),
    ("loop", &[("vip", "refused"), ("node resolv.conf", "127.0.0.53")]),
    ("not-synced", &[("vip", "SERVFAIL"), ("outside", "198.51.100.80")]),
    ("slow-server", &[("vip", "late 10.96.12.9")]),
    ("truncation-without-tcp", &[("vip", "TC"), ("vip tcp", "refused")]),
    ("aaaa-dropped", &[("vip aaaa", "silent"), ("vip", "10.96.12.9")]),
    ("aaaa-nxdomain", &[("vip aaaa", "NXDOMAIN"), ("vip", "10.96.12.9")]),
    ("aaaa-servfail", &[("vip aaaa", "SERVFAIL"), ("vip", "10.96.12.9")]),
    ("a-dropped", &[("vip", "silent"), ("vip aaaa", "NOERROR")]),
    ("negative-cache", &[("ep", "NXDOMAIN"), ("ep2", "10.96.12.9")]),
    ("shadowed-name", &[("outside", "SERVFAIL"), ("org", "198.51.100.82")]),
    ("refused-above-limit", &[("org often", "198.51.100.82 REFUSED")]),
    ("stub-domain-down", &[("corp", "silent"), ("outside", "198.51.100.80")]),
    ("upstream-down", &[("outside", "silent"), ("vip", "10.96.12.9")]),
    ("upstream-slow", &[("outside", "silent"), ("vip", "10.96.12.9")]),
    ("upstream-limit", &[("org often", "198.51.100.82 silent")]),
    ("mixed-upstreams", &[("org often", "198.51.100.82 NXDOMAIN")]),
    ("servfail-suffix", &[("corp", "SERVFAIL"), ("resolv.conf", "corp.example")]),
    ("nodata-suffix", &[("corp", "NOERROR"), ("resolv.conf", "corp.example")]),
    ("refused-suffix", &[("corp", "REFUSED"), ("resolv.conf", "corp.example")]),
    ("wildcard-suffix", &[("corp", "198.51.100.99"), ("resolv.conf", "corp.example")]),
    ("oversize", &[("www", "198.51.100.60")]),
    ("node-stub", &[("outside", "SERVFAIL"), ("node resolv.conf", "127.0.0.53")]),
    (
        "nodelocal-down",
        &[("resolv.conf", "nameserver 169.254.20.10\n"), ("cache", "refused ICMP 3/3"), ("ep", "10.96.12.9")],
    ),
    ("nodelocal-policy", &[("resolv.conf", "nameserver 169.254.20.10\n"), ("node cache", "10.96.12.9")]),
    ("nodelocal-upstream", &[("cache", "SERVFAIL"), ("ep", "10.96.12.9")]),
    ("wrong-cluster-ip", &[("resolv.conf", "nameserver 10.96.0.2\n")]),
    ("no-cluster-dns", &[("resolv.conf", "nameserver 192.0.2.53\n"), ("glibc", "none")]),
    ("domain-typo", &[("resolv.conf", "shop.svc.clouster.local"), ("glibc", "none")]),
    ("dns-policy-default", &[("resolv.conf", "nameserver 192.0.2.53\n"), ("glibc", "none")]),
    ("dns-policy-none", &[("glibc", "none"), ("vip", "10.96.12.9")]),
    ("ndots-low", &[("resolv.conf", "options ndots:1\n")]),
    ("mixed-nameservers", &[("resolv.conf", "nameserver 192.0.2.54\n"), ("glibc", "none")]),
    ("dead-first-nameserver", &[("resolv.conf", "nameserver 10.96.0.2\nnameserver 10.96.0.10\n")]),
    ("ipv6-nameserver", &[("resolv.conf", "nameserver 2001:db8:dead::53\n")]),
    ("search-dot", &[("resolv.conf", "search . shop.svc.cluster.local")]),
    ("long-search", &[("resolv.conf", "department-12.corp.example")]),
    ("host-alias", &[("glibc", "198.51.100.66"), ("hosts", "198.51.100.66\tcache")]),
    ("stale-file", &[("resolv.conf", "nameserver 10.96.0.2\n")]),
    ("nsswitch", &[("glibc", "none"), ("vip", "10.96.12.9")]),
];

/// The same before and after.
const UNCHANGED: &[&str] = &["10.96.12.9", "open", "198.51.100.80", "198.51.100.82", "NOERROR"];

/// What the client sees.
fn probe(labs: &Labs, what: &str) -> String {
    const TARGET: &str = "cache.shop.svc.cluster.local";
    let (vip, ep, ep2) = ("10.96.0.10", "10.244.0.5", "10.244.1.5");
    let ask = |question: &str| ask(labs, CLIENT, question);
    let file = |place: &str, file: &str| labs.good(&format!("netlab lab exec {place} -- cat /etc/{file}"));
    match what {
        "vip" => ask(&format!("{TARGET} --server {vip}")),
        "cache" => ask(&format!("{TARGET} --server 169.254.20.10")),
        "node cache" => self::ask(labs, "node/node-1", &format!("{TARGET} --server 169.254.20.10")),
        "vip tcp" => ask(&format!("{TARGET} --server {vip} --tcp")),
        "vip aaaa" => ask(&format!("{TARGET} --type AAAA --server {vip}")),
        "vip from-any" => {
            let line = format!(
                "netlab lab exec {CLIENT} -- netlab dns query {TARGET} --server {vip} --from-any --timeout 700ms"
            );
            let (_, answer) = labs.json(&line);
            answer.to_string()
        }
        "vip often" => often(labs, &format!("{TARGET} --server {vip}")),
        "ep" => ask(&format!("{TARGET} --server {ep}")),
        "ep2" => ask(&format!("{TARGET} --server {ep2}")),
        "ep often" => often(labs, &format!("{TARGET} --server {ep}")),
        "node" => self::ask(labs, "node/node-1", &format!("{TARGET} --server {ep}")),
        "node 5353" => self::ask(labs, "node/node-1", &format!("{TARGET} --server {ep}:5353")),
        "scraper" => self::ask(labs, "monitoring/scraper", &format!("{TARGET} --server {ep2}")),
        "outside" => ask(&format!("example.com --server {ep}")),
        "www" => ask(&format!("www.example.com --server {ep}")),
        "org" => ask(&format!("example.org --server {ep}")),
        "org often" => often(labs, &format!("example.org --server {ep}")),
        "large" => ask(&format!("large.example.com --server {ep} --edns 1232")),
        "peers" => ask(&format!("peers.shop.svc.cluster.local --server {ep}")),
        "billing" => ask(&format!("billing.shop.svc.cluster.local --server {ep}")),
        "corp" => ask(&format!("x.corp.example --server {ep}")),
        "resolv.conf" | "hosts" => file(CLIENT, what),
        "node resolv.conf" => file("node/node-1", "resolv.conf"),
        "glibc" => {
            let run = labs.shell(&format!("netlab lab exec {CLIENT} -- timeout 20 getent ahostsv4 cache"));
            if run.code == Some(0) { run.stdout } else { "none".to_owned() }
        }
        "glibc both" => {
            let start = Instant::now();
            let run = labs.shell(&format!("netlab lab exec {CLIENT} -- timeout 20 getent ahosts cache"));
            let slow = if start.elapsed() >= Duration::from_secs(4) { "slow " } else { "" };
            format!("{slow}{}", run.stdout)
        }
        "connect" => {
            let connect = "timeout 0.7 bash -c 'echo >/dev/tcp/10.244.0.11/6379'";
            // Nobody listens there: a refusal is the pod's own.
            match labs.shell(&format!("netlab lab exec {CLIENT} -- {connect}")).code {
                Some(1) => "open".to_owned(),
                _ => "closed".to_owned(),
            }
        }
        _ => match what.strip_prefix("conntrack ") {
            Some(port) => {
                let table = labs.good("netlab lab exec node/node-1 -- cat /proc/net/nf_conntrack");
                let flows = table.lines().filter(|line| line.contains(&format!("sport={port} ")));
                // What comes back, as the kernel expects it.
                flows
                    .filter_map(|line| line.match_indices("src=").nth(1).map(|(at, _)| line[at..].to_owned()))
                    .collect()
            }
            None => panic!("no such probe: {what}"),
        },
    }
}

/// One question in words.
fn ask(labs: &Labs, place: &str, question: &str) -> String {
    let line = format!("netlab lab exec {place} -- netlab dns query {question} --timeout 700ms");
    let (_, said) = labs.json(&line);
    let answer = &said["answer"];
    let outcome = said["outcome"].as_str().unwrap_or_default();
    if outcome != "answered" {
        let icmp = &said["refusals"][0];
        let numbers = match (icmp["icmpType"].as_u64(), icmp["icmpCode"].as_u64()) {
            (Some(kind), Some(code)) => format!(" ICMP {kind}/{code}"),
            _ => String::new(),
        };
        return format!("{outcome}{numbers}");
    }
    let mut words = Vec::new();
    if said["microseconds"].as_u64().is_some_and(|time| time >= 400_000) {
        words.push("late");
    }
    if answer["truncated"] == true {
        words.push("TC");
    }
    let records = answer["answers"].as_array().map(Vec::as_slice).unwrap_or_default();
    words.extend(records.iter().filter_map(|record| record["data"].as_str()));
    if records.is_empty() {
        words.push(answer["rcode"].as_str().unwrap_or_default());
    }
    words.join(" ")
}

/// The same question many times at once: everything that was seen.
fn often(labs: &Labs, question: &str) -> String {
    let seen: BTreeSet<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..16).map(|_| scope.spawn(|| ask(labs, CLIENT, question))).collect();
        asked.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    seen.into_iter().collect::<Vec<_>>().join(" ")
}

/// Everything that a fault could have left in a lab: rules of every place, files.
fn state(labs: &Labs) -> BTreeMap<String, String> {
    let (_, status) = labs.json("netlab lab status --lab lab");
    let lab = &status["labs"][0];
    let names = |field: &str| -> Vec<String> {
        lab[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let nodes = names("nodes").into_iter().map(|node| format!("node/{node}"));
    let places = nodes.chain(names("pods")).chain(["fabric".to_owned()]);
    let mut state: BTreeMap<String, String> = places
        .map(|place| {
            let rules = labs.good(&format!("netlab lab exec {place} -- nft -s list ruleset"));
            (place, rules)
        })
        .collect();
    let mut directories = vec![labs.directory.path().join("run/lab.files")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("the lab's files").flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                state.insert(path.display().to_string(), std::fs::read_to_string(&path).expect("a file"));
            }
        }
    }
    state
}

#[test]
fn every_fault_is_seen_and_leaves_no_trace() {
    if !root_or_skip("every_fault_is_seen_and_leaves_no_trace") {
        return;
    }
    let labs = Labs::new();
    let (_, listed) = labs.json("netlab lab break --list");
    let listed: BTreeSet<String> = listed["faults"]
        .as_array()
        .expect("faults")
        .iter()
        .map(|fault| fault["name"].as_str().expect("a name").to_owned())
        .collect();
    let known: BTreeSet<String> = SEEN.iter().map(|(fault, _)| (*fault).to_owned()).collect();
    assert_eq!(listed, known, "each fault needs a line in the table");

    labs.good("netlab lab up -f examples/shop --dns");
    let whole = state(&labs);
    let mut healthy: BTreeMap<&str, String> = BTreeMap::new();
    for (what, expected) in SEEN.iter().flat_map(|(_, probes)| *probes) {
        let seen = healthy.entry(what).or_insert_with(|| probe(&labs, what));
        let differs = !seen.contains(expected)
            || *what == "peers"
            || UNCHANGED.contains(expected)
            || expected.contains(' ');
        assert!(differs, "without a fault `{what}` already gives `{expected}`: {seen}");
    }
    let only = std::env::var("NETLAB_FAULT").unwrap_or_default();
    let mut wrong = Vec::new();
    for (fault, probes) in
        SEEN.iter().filter(|(fault, _)| only.is_empty() || only.split_whitespace().any(|word| word == *fault))
    {
        labs.good(&format!("netlab lab break {fault} --pod {CLIENT}"));
        for (what, expected) in *probes {
            let seen = probe(&labs, what);
            if !seen.contains(expected) && !expected.split(' ').all(|word| seen.contains(word)) {
                wrong.push(format!(
                    "{fault}: `{what}` should give `{expected}`, and gives `{}`",
                    seen.trim_end()
                ));
            }
        }
        labs.good(&format!("netlab lab mend {fault}"));
        let mended = state(&labs);
        for (place, rules) in whole.iter().filter(|(place, rules)| mended.get(*place) != Some(rules)) {
            wrong.push(format!("{fault}: {place} is not what it was\n{rules}\n--\n{:?}", mended.get(place)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for what in ["vip", "vip tcp", "vip aaaa", "ep", "ep2", "outside", "glibc", "connect"] {
        assert_eq!(Some(&probe(&labs, what)), healthy.get(what).or(Some(&probe(&labs, what))), "{what}");
    }
}

#[test]
fn faults_are_put_in_once_and_together_and_taken_out_one_by_one() {
    if !root_or_skip("faults_are_put_in_once_and_together_and_taken_out_one_by_one") {
        return;
    }
    let labs = Labs::new();
    // A lab without DNS cannot be broken, and says what can.
    labs.good("netlab lab up -f examples/shop --lab second");
    let run = labs.shell("netlab lab break partition --lab second");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("no DNS") && run.stderr.contains("hint:"), "{}", run.stderr);

    labs.good("netlab lab up -f examples/shop --dns");
    let whole = state(&labs);
    assert_eq!(labs.good("netlab lab mend"), "MENDED  lab: nothing is broken\n");
    let said = labs.good("netlab lab break partition");
    assert!(said.contains("getent hosts") && !said.contains("F74"), "{said}");
    let verbose = labs.good("netlab lab break selector -v");
    assert!(verbose.contains("F12") && verbose.contains("label"), "{verbose}");
    for (line, words) in [
        ("netlab lab break partition", "is in already"),
        ("netlab lab break partitoin", "did you mean `partition`?"),
        ("netlab lab break nsswitch --pod shop/nobody", "no pod shop/nobody"),
        ("netlab lab break nsswitch --pod kube-system/coredns-7c65d6cfc9-4xqzt", "cannot be the one"),
        ("netlab lab mend nsswitch", "broken are: partition, selector"),
        ("netlab lab mend", "which?"),
    ] {
        let run = labs.shell(line);
        assert_eq!(run.code, Some(2), "`{line}`: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(words), "`{line}`: {}", run.stderr);
    }
    assert_eq!(probe(&labs, "vip"), "refused ICMP 3/3");
    labs.good("netlab lab mend selector");
    assert_eq!((probe(&labs, "ep"), probe(&labs, "ep2")), ("10.96.12.9".to_owned(), "silent".to_owned()));
    labs.good("netlab lab mend");
    assert_eq!(state(&labs), whole);
    // What is not enforced cannot be broken by a policy.
    labs.good("netlab enforce detach");
    let run = labs.shell("netlab lab break dns-policy");
    assert_eq!(run.code, Some(2), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("enforce attach"), "{}", run.stderr);
}

#[test]
fn a_broken_lab_that_is_killed_leaves_nothing_outside() {
    if !root_or_skip("a_broken_lab_that_is_killed_leaves_nothing_outside") {
        return;
    }
    let labs = Labs::new();
    let rules = || labs.good("nft -s list ruleset; true");
    let before = rules();
    labs.good("netlab lab up -f examples/shop --dns");
    let (_, status) = labs.json("netlab lab status");
    let pid = status["labs"][0]["pid"].as_u64().expect("a supervisor");
    for fault in ["partition", "dns-policy", "stale-udp", "wrong-cluster-ip", "no-proxy"] {
        labs.good(&format!("netlab lab break {fault}"));
    }
    // In the middle of one more.
    let mut middle = crate::run::command(env!("CARGO_BIN_EXE_netlab"))
        .args(["lab", "break", "crash-loop"])
        .env("NETLAB_RUN_DIR", labs.directory.path().join("run"))
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("netlab starts");
    std::thread::sleep(Duration::from_millis(30));
    labs.good(&format!("kill -9 {pid}"));
    let _ = middle.wait();
    let deadline = Instant::now() + Duration::from_secs(5);
    while Path::new(&format!("/proc/{pid}/ns")).exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(labs.good("netlab lab status"), "no lab is up\n");
    let left: Vec<_> = std::fs::read_dir(labs.directory.path().join("run"))
        .expect("the directory")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(rules(), before);
}
