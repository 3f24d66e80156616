//! Every fault of a lab, diagnosed live from the pod that suffers, and once more from what was recorded.
//!
//! Invariant: the table is the score. What a fault's diagnosis says is asserted for each fault, and a fault that is not in the
//! table fails the test. `NETLAB_FAULT` names the faults to try alone, `NETLAB_KEEP` a directory for what was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use netlab_dnsdiag::gather::NEVER_READ;
use netlab_dnsdiag::rules::RULES;

use crate::lab::Labs;
use crate::run::{netlab, root, root_or_skip};

/// The pod that asks; it is on node-1, with the first DNS pod.
const CLIENT: &str = "shop/api";
/// Labs side by side: a diagnosis mostly waits.
const LABS: usize = 5;

/// A fault, what is asked of its victim, and what has to be found.
struct Case {
    fault: &'static str,
    /// The names that fail, and `--libc` where only one fails.
    asked: &'static str,
    /// The mode of the verdict, or its class where it is none.
    verdict: &'static str,
}

const fn case(fault: &'static str, asked: &'static str, verdict: &'static str) -> Case {
    Case { fault, asked, verdict }
}

/// Of each fault that is listed, something has to stand here.
const CASES: &[Case] = &[
    case("dns-policy", "cache", "F01"),
    case("dns-policy-udp-only", "cache", "F02"),
    case("dns-policy-tcp-only", "cache", "F01"),
    case("dns-policy-service-port", "cache", "F03"),
    case("dns-ingress-policy", "cache", "F04"),
    case("dns-egress-policy", "example.com", "F06"),
    case("no-endpoints", "cache", "F11"),
    case("selector", "cache", "F12"),
    case("target-port", "cache", "F13"),
    case("service-without-tcp", "cache", "F09"),
    case("stolen-ip", "cache", "F14"),
    case("internal-traffic-local", "cache", "F89"),
    case("crash-loop", "cache", "F15"),
    case("out-of-memory", "cache", "F18"),
    case("headless-not-ready", "peers", "F55"),
    case("external-name", "billing", "F59"),
    case("no-udp-rule", "cache", "F08"),
    case("no-tcp-rule", "cache", "F09"),
    case("no-proxy", "cache", "F10"),
    // The rule that leads astray is named, and there is no mode of it.
    case("bad-rule", "cache", "undetermined"),
    case("stale-udp", "cache", "F30"),
    case("undnat-udp", "cache", "F31"),
    case("conntrack-full", "cache", "F28"),
    case("lost-twin", "cache", "F27"),
    // Nobody has a mode of it: no policy drops, and no Service is wrong.
    case("egress-drop", "cache", "undetermined"),
    case("tcp-drop", "cache", "undetermined"),
    case("udp-drop", "cache", "undetermined"),
    case("refuse", "cache", "undetermined"),
    case("prohibit", "cache", "undetermined"),
    case("replies-lost", "cache", "F07"),
    case("other-source", "cache", "F73"),
    case("partition", "cache", "F74"),
    case("large-udp-lost", "large.example.com", "F52"),
    case("sidecar-capture", "cache", "F77"),
    case("after-dns", "cache --connect 6379", "F95"),
    case("bad-replica", "cache", "F20"),
    case("loop", "cache", "F17"),
    case("not-synced", "cache", "F19"),
    case("slow-server", "cache", "F21"),
    case("truncation-without-tcp", "cache", "F50"),
    case("aaaa-dropped", "cache", "F45"),
    case("aaaa-nxdomain", "cache --libc musl:1.2.5", "F43"),
    case("aaaa-servfail", "cache --libc musl:1.2.5", "F44"),
    case("a-dropped", "cache", "F46"),
    case("negative-cache", "cache", "F62"),
    case("shadowed-name", "example.com", "F80"),
    case("refused-above-limit", "example.com", "F81"),
    case("stub-domain-down", "www.corp.example", "F79"),
    case("upstream-down", "example.com", "F22"),
    case("upstream-slow", "example.com", "F23"),
    case("upstream-limit", "example.com", "F24"),
    case("mixed-upstreams", "example.org", "F25"),
    case("servfail-suffix", "example.com --libc musl:1.2.5", "F41"),
    case("nodata-suffix", "example.com --libc musl:1.2.5", "F42"),
    case("refused-suffix", "nowhere", "F47"),
    case("wildcard-suffix", "example.com", "F67"),
    case("oversize", "www.example.com", "F54"),
    case("node-stub", "example.com", "F68"),
    case("nodelocal-down", "cache", "F70"),
    case("nodelocal-policy", "cache", "F05"),
    case("nodelocal-upstream", "cache", "F71"),
    // Nothing is broken: names that are not there, or not from there.
    case("", "monitoring/scraper api", "F60"),
    case("", "chache", "F61"),
    case("", "cache.", "F63"),
    case("wrong-cluster-ip", "cache", "F33"),
    case("no-cluster-dns", "cache", "F34"),
    case("domain-typo", "cache", "F35"),
    case("dns-policy-default", "cache", "F36"),
    case("dns-policy-none", "cache", "F38"),
    case("ndots-low", "cache.shop --libc musl:1.2.5", "F39"),
    case("mixed-nameservers", "cache", "F26"),
    case("dead-first-nameserver", "cache", "F48"),
    case("ipv6-nameserver", "cache", "F49"),
    case("search-dot", "cache --libc musl:1.2.3", "F66"),
    case("long-search", "cache --libc musl:1.2.5", "F65"),
    case("host-alias", "cache", "F87"),
    case("stale-file", "cache", "F69"),
    case("nsswitch", "cache", "F88"),
];

/// What a diagnosis came to.
struct Line {
    fault: &'static str,
    verdict: &'static str,
    /// As it was found: a mode, else a class.
    found: String,
    said: String,
    seconds: f64,
    /// What is wrong with it beside its verdict.
    wrong: Vec<String>,
}

fn found(diagnosis: &Value) -> String {
    let verdict = &diagnosis["verdict"];
    let word = verdict["mode"].as_str().or(verdict["class"].as_str());
    word.unwrap_or("no verdict").to_owned()
}

fn diagnose(labs: &Labs, case: &Case) -> Line {
    let Case { fault, asked, verdict } = *case;
    if !fault.is_empty() {
        labs.good(&format!("netlab lab break {fault} --pod {CLIENT}"));
    }
    let record = labs.directory.path().join("records").join(format!("{verdict}-{fault}"));
    let subject = if asked.contains('/') { String::new() } else { format!("{CLIENT} ") };
    let start = Instant::now();
    let (_, live) =
        labs.json(&format!("netlab dns diagnose {subject}{asked} --lab lab --record {}", record.display()));
    let seconds = start.elapsed().as_secs_f64();
    let (_, again) = labs.json(&format!("netlab dns diagnose --bundle {}", record.display()));
    let mut wrong = Vec::new();
    for part in ["verdict", "because", "steps"] {
        if live[part] != again[part] {
            wrong.push(format!("its record gives another {part}: {:#}", again[part]));
        }
    }
    if seconds > 9.0 {
        wrong.push(format!("took {seconds:.1} s"));
    }
    if let Ok(keep) = std::env::var("NETLAB_KEEP") {
        let to = std::path::Path::new(&keep).join(format!("{verdict}-{fault}"));
        let copied = std::process::Command::new("cp").arg("-r").arg(&record).arg(&to).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot write to {keep}");
    }
    if !fault.is_empty() {
        labs.good(&format!("netlab lab mend {fault}"));
    }
    let said = live["verdict"]["summary"].as_str().unwrap_or_default().to_owned();
    Line { fault, verdict, found: found(&live), said, seconds, wrong }
}

#[test]
fn every_fault_is_diagnosed_live_and_from_its_record() {
    if !root_or_skip("every_fault_is_diagnosed_live_and_from_its_record") {
        return;
    }
    let labs = Labs::new();
    let (_, listed) = labs.json("netlab lab break --list -v");
    let listed: BTreeSet<&str> = listed["faults"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|fault| fault["name"].as_str())
        .collect();
    let known: BTreeSet<&str> =
        CASES.iter().map(|case| case.fault).filter(|fault| !fault.is_empty()).collect();
    assert_eq!(listed, known, "each fault needs a line in the table");

    let only = std::env::var("NETLAB_FAULT").unwrap_or_default();
    let wanted = |case: &&Case| only.is_empty() || only.split_whitespace().any(|word| word == case.fault);
    let waiting = Mutex::new(CASES.iter().filter(wanted).rev().collect::<Vec<_>>());
    let lines = Mutex::new(Vec::new());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.pop());
    std::thread::scope(|scope| {
        for index in 0..LABS {
            let (lines, next) = (&lines, &next);
            scope.spawn(move || {
                // Not all at the same moment.
                std::thread::sleep(Duration::from_millis(150) * u32::try_from(index).unwrap_or(0));
                let labs = Labs::new();
                labs.good("netlab lab up -f examples/shop --dns");
                while let Some(case) = next() {
                    let line = diagnose(&labs, case);
                    lines.lock().expect("nobody failed").push(line);
                }
            });
        }
    });
    let lines = lines.into_inner().expect("nobody failed");
    let mut table = String::new();
    let mut wrong = String::new();
    let mut right = 0;
    let place =
        |line: &Line| CASES.iter().position(|case| (case.fault, case.verdict) == (line.fault, line.verdict));
    let mut sorted: Vec<&Line> = lines.iter().collect();
    sorted.sort_by_key(|line| place(line));
    for line in sorted {
        let Line { fault, verdict, found, said, seconds, .. } = line;
        let good = found == verdict && line.wrong.is_empty();
        right += usize::from(good);
        let mark = if good { "right" } else { "WRONG" };
        let row = format!("{fault:<24} {verdict:<12} {found:<12} {mark} {seconds:>4.1} s  {said}");
        let _ = writeln!(table, "{row}");
        if !good {
            let _ = writeln!(wrong, "{row}\n    {}", line.wrong.join("\n    "));
        }
    }
    // The score, whatever it is; `--nocapture` shows it.
    let modes: BTreeSet<&str> =
        lines.iter().filter(|line| line.found == line.verdict).map(|line| line.verdict).collect();
    let modes = modes.iter().filter(|mode| mode.starts_with('F')).count();
    let _ = writeln!(
        std::io::stderr(),
        "{table}{right} of {} right, {modes} modes of the catalogue among them",
        lines.len()
    );
    assert!(wrong.is_empty(), "{wrong}");
}

/// `docs/dns-live.md`: what each mode of the catalogue comes to in a live run.
#[test]
fn the_page_says_of_each_mode_how_it_fares_live() {
    const BEGIN: &str = "<!-- live: written by the tests -->\n";
    let listed: Value = serde_json::from_str(&netlab(["lab", "break", "--list", "-v", "-o", "json"]).stdout)
        .expect("a catalogue");
    let imitated: BTreeMap<&str, &str> = listed["faults"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|fault| Some((fault["name"].as_str()?, fault["mode"].as_str()?)))
        .collect();
    let mut rules: Vec<_> = RULES.iter().collect();
    rules.sort_by_key(|rule| rule.mode);
    let mut live = 0;
    let mut table =
        "| mode | id | fault of the lab | asked | live verdict |\n|---|---|---|---|---|\n".to_owned();
    for rule in rules {
        let of_it: Vec<&Case> = CASES
            .iter()
            .filter(|case| case.verdict == rule.mode || imitated.get(case.fault) == Some(&rule.mode))
            .collect();
        live += usize::from(of_it.iter().any(|case| case.verdict == rule.mode));
        for case in &of_it {
            let fault = if case.fault.is_empty() { "none".to_owned() } else { format!("`{}`", case.fault) };
            let verdict = if case.verdict == rule.mode { rule.id } else { case.verdict };
            let _ =
                writeln!(table, "| {} | {} | {fault} | `{}` | {verdict} |", rule.mode, rule.id, case.asked);
        }
        if of_it.is_empty() {
            let never: Vec<&str> =
                rule.needs.iter().copied().filter(|need| NEVER_READ.contains(need)).collect();
            let why = if never.is_empty() {
                "as its evidence has it; a recorded case holds the rule".to_owned()
            } else {
                format!("never: a live run reads no {}", never.join(", no "))
            };
            let _ = writeln!(table, "| {} | {} | – | – | {why} |", rule.mode, rule.id);
        }
    }
    let table = format!("{live} of {} modes are diagnosed live by the tests.\n\n{table}", RULES.len());
    let path = root().join("docs/dns-live.md");
    let text = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = text.split_once(BEGIN).expect("a place for the table");
    let (_, after) = rest.split_once("<!-- end -->").expect("its end");
    let written = format!("{before}{BEGIN}{table}<!-- end -->{after}");
    if std::env::var_os("NETLAB_BLESS").is_some() {
        std::fs::write(&path, &written).expect("write the page");
    } else {
        assert!(text == written, "docs/dns-live.md is not up to date: NETLAB_BLESS=1 writes it");
    }
}
