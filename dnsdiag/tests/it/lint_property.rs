//! Whatever the text, reading it gives an answer: no panic, no endless circle, places inside of the text. The corpus is
//! every case of the other tests, cut and mixed; `NETLAB_SEED` and `NETLAB_WORLDS` make others.

use fastrand::Rng;
use netlab_core::input::Document;
use netlab_dnsdiag::corefile::parse;
use netlab_dnsdiag::kubelet::{HostFile, KubeletConfig};
use netlab_dnsdiag::lint::Finding;
use netlab_dnsdiag::resolv_conf::{Dialect, read};

use crate::lint::{Files, report};

const COREFILES: &str = include_str!("../data/corefiles.txt");
const REPORTS: &str = include_str!("../data/reports.txt");

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Pieces of the corpus in another order, with characters that mean something in between.
fn mixed(rng: &mut Rng, corpus: &[&str]) -> String {
    const SPICE: [&str; 16] = [
        "{",
        "}",
        "\"",
        "\\",
        "#",
        "\n",
        " ",
        "\t",
        "\r",
        ",",
        "import a\n",
        "(a) {\n",
        "{$X}",
        "\u{feff}",
        "import *\n",
        "é",
    ];
    let mut text = String::new();
    for _ in 0..rng.usize(1..12) {
        let piece = corpus[rng.usize(0..corpus.len())];
        let characters: Vec<char> = piece.chars().collect();
        let from = rng.usize(0..=characters.len());
        let to = rng.usize(from..=characters.len());
        text.extend(&characters[from..to]);
        text.push_str(SPICE[rng.usize(0..SPICE.len())]);
    }
    text
}

#[test]
fn no_text_is_too_much() {
    let seed = number("NETLAB_SEED", 6);
    let mut rng = Rng::with_seed(seed);
    let lines: Vec<&str> = COREFILES.lines().chain(REPORTS.lines()).collect();
    for round in 0..number("NETLAB_WORLDS", 4000) {
        let text = mixed(&mut rng, &lines);
        let place = |what: &str| format!("seed {seed} round {round} {what}: {text:?}");
        let file = parse(&text);
        let last = u32::try_from(text.matches('\n').count() + 1).expect("a short text");
        for problem in &file.problems {
            assert!((1..=last).contains(&problem.position.line), "{}", place("problem"));
        }
        for token in file.blocks.iter().flat_map(|block| &block.keys) {
            assert!((1..=last).contains(&token.position.line), "{}", place("key"));
        }
        // YAML ends lines at carriage returns too.
        let last = u32::try_from(text.matches(['\n', '\r']).count() + 1).expect("a short text");
        let files = Files {
            corefile: Some(text.clone()),
            kubelet: Some(text.clone()),
            node_file: Some(text.clone()),
            ..Files::default()
        };
        let ours = |finding: &Finding| finding.diagnostic.code.starts_with("NL07");
        for finding in report(&files).findings.into_iter().filter(ours) {
            let line = finding.diagnostic.position.map_or(1, |position| position.line);
            assert!((1..=last).contains(&line), "{}", place(&finding.diagnostic.message));
        }
    }
}

/// Two readers of a node's file: the one that the plan shares with the libcs, and the one that keeps lines.
#[test]
fn both_readings_of_a_node_s_file_agree() {
    let mut rng = Rng::with_seed(number("NETLAB_SEED", 6));
    let words = [
        "nameserver",
        "search",
        "options",
        "domain",
        "#",
        ";",
        "10.0.0.1",
        "fe80::1%eth0",
        "a.example",
        "b.",
        ".",
        "ndots:2",
        "ndots:3",
        "edns0",
        " ",
        "\t",
        "\r",
        "\n",
        "\n",
    ];
    for _ in 0..number("NETLAB_WORLDS", 4000) {
        let mut text = String::new();
        for _ in 0..rng.usize(0..30) {
            text.push_str(words[rng.usize(0..words.len())]);
            text.push_str(if rng.bool() { " " } else { "" });
        }
        let Ok(file) = HostFile::read(&text) else { continue };
        let conf = read(text.as_bytes(), Dialect::Kubelet);
        let values = |lines: &[netlab_dnsdiag::kubelet::HostLine]| {
            lines.iter().map(|line| line.value.clone()).collect::<Vec<_>>()
        };
        let nameservers: Vec<String> = conf.nameservers.iter().map(|server| server.text.clone()).collect();
        assert_eq!(values(&file.nameservers), nameservers, "{text:?}");
        assert_eq!(values(&file.searches), conf.search, "{text:?}");
        assert_eq!(values(&file.options), conf.option_words, "{text:?}");
    }
}

#[test]
fn circles_of_snippets_end() {
    let circle = "(a) {\nimport b\n}\n(b) {\nimport a\n}\n.:53 {\nimport a\n}\n";
    assert!(parse(circle).problems.iter().any(|problem| problem.message.contains("without end")));
    let mut doubling = "(s0) {\nerrors\nerrors\n}\n".to_owned();
    for level in 1..40 {
        let below = level - 1;
        doubling += &format!("(s{level}) {{\nimport s{below}\nimport s{below}\n}}\n");
    }
    doubling += ".:53 {\nimport s39\n}\n";
    assert!(parse(&doubling).problems.iter().any(|problem| problem.message.contains("without end")));
    let deep = format!(".:53 {{\nforward . 9.9.9.9 {}", "{ a ".repeat(100_000));
    assert!(!parse(&deep).problems.is_empty());
}

#[test]
fn a_kubelet_s_file_of_any_shape_gives_an_answer() {
    let mut rng = Rng::with_seed(number("NETLAB_SEED", 6));
    let words = [
        "kind: KubeletConfiguration\n",
        "clusterDNS:",
        " [",
        "]",
        "10.96.0.10",
        ",",
        "\n",
        "- ",
        "  ",
        "clusterDomain: ",
        "cluster.local",
        "resolvConf: \"\"",
        "{",
        "}",
        "&a ",
        "*a",
        "kubeletconfig:\n",
        "---\n",
    ];
    let mut read = 0;
    for _ in 0..number("NETLAB_WORLDS", 4000) {
        let text: String = (0..rng.usize(0..16)).map(|_| words[rng.usize(0..words.len())]).collect();
        read += usize::from(KubeletConfig::read(&Document { name: "f".into(), text: text.into() }).is_ok());
    }
    assert!(read > 0, "no text was a configuration");
}
