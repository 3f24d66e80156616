//! `dns lint`: exactly the findings that `examples/dns/expected-lint.txt` lists, none in `examples/dns/clean`, every form
//! and the exit code. `NETLAB_BLESS=1 cargo test -p netlab --test it dns_lint` writes the list anew.

use crate::findings::{hold, json, lines};
use crate::run::{Run, netlab, netlab_reading};

const EXPECTED: &str = "examples/dns/expected-lint.txt";
const OBJECTS: [&str; 6] =
    ["dns", "lint", "-f", "examples/dns/broken", "--kubelet-config", "examples/dns/kubelet.yaml"];
const FILES: [&str; 6] =
    ["dns", "lint", "--corefile", "examples/dns/Corefile", "--resolv-conf", "examples/dns/node-resolv.conf"];

fn with(arguments: &[&str], more: &[&str]) -> Run {
    netlab(arguments.iter().chain(more))
}

#[test]
fn the_broken_example_has_exactly_the_expected_findings() {
    let found = [OBJECTS, FILES].map(|arguments| lines(&json(&with(&arguments, &["-o", "json"])))).join("\n");
    hold(&found, EXPECTED, "dns_lint", "NL0705");
}

#[test]
fn the_clean_example_has_no_findings() {
    let run = netlab(["dns", "lint", "-f", "examples/dns/clean"]);
    let answer = "nothing found in 1 Corefile, 1 kubelet configuration, 1 DNS Service, 3 pods\n";
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), answer), "{}", run.stderr);
    assert_eq!(
        run.stderr,
        "note: not examined: what nodes themselves ask: no resolv.conf of a node was given\n"
    );
}

#[test]
fn a_finding_in_a_config_map_has_its_line_of_the_manifest() {
    let run = with(&OBJECTS, &[]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stdout.contains(
            "warning[NL0708]: 10.0.0.2 and 8.8.8.8 are asked at random, and the first answer\n  is final\n  \
             --> examples/dns/broken/dns.yaml:18:19  ConfigMap kube-system/coredns data.Corefile\n   |\n\
             18 |         forward . 10.0.0.2 8.8.8.8\n   |                   ^\n"
        ),
        "{}",
        run.stdout
    );
}

#[test]
fn the_same_is_told_in_every_form() {
    let answer = json(&with(&OBJECTS, &["-o", "json"]));
    let number = answer["findings"].as_array().map_or(0, Vec::len);
    assert_eq!((answer["kind"].as_str(), answer["complete"].as_bool()), (Some("Findings"), Some(false)));
    assert_eq!(answer["examined"][0]["what"], "Corefile");
    let log = json(&with(&OBJECTS, &["-o", "sarif"]));
    assert_eq!(log["runs"][0]["results"].as_array().map_or(0, Vec::len), number);
    let tags = &log["runs"][0]["tool"]["driver"]["rules"][1]["properties"]["tags"];
    assert!(tags.to_string().contains("dns"), "{tags}");
    let markdown = with(&OBJECTS, &["-o", "md"]).stdout;
    assert_eq!(markdown.matches("| NL0").count(), number, "{markdown}");
    let quiet = with(&OBJECTS, &["-q"]).stdout;
    assert!(quiet.starts_with("4 errors, ") && quiet.lines().count() == 1, "{quiet}");
}

#[test]
fn levels_and_suppressions_decide_the_exit_code() {
    let only = ["dns", "lint", "--resolv-conf", "examples/dns/node-resolv.conf"];
    assert_eq!(with(&only, &[]).code, Some(1));
    assert_eq!(with(&only, &["--fail-on", "error"]).code, Some(0));
    let suppress = ["--suppress", "NL0732=Pod/shop/resolver", "-o", "json"];
    let answer = json(&with(&OBJECTS, &suppress));
    assert_eq!(answer["suppressed"], 1);
    assert!(!answer["findings"].to_string().contains("NL0732"));
}

#[test]
fn what_cannot_be_read_is_no_answer() {
    let run = netlab(["dns", "lint"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.starts_with("error: nothing to look at\n"), "{}", run.stderr);
    let run = netlab(["dns", "lint", "--corefile", "nowhere"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let run = netlab(["dns", "lint", "--corefile", "-", "--kubelet-config", "-"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let bad = "kind: KubeletConfiguration\nclusterDNS: 10.96.0.10\n";
    let run = netlab_reading(bad, &["dns", "lint", "--kubelet-config", "-"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stdout.contains("expected a list, found the string `10.96.0.10`"), "{}", run.stdout);
    assert!(run.stdout.contains("--> -:2:1"), "{}", run.stdout);
    let run = netlab_reading(bad, &["dns", "lint", "--kubelet-config", "-", "--skip-invalid"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
}
