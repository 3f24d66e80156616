//! Manifests that a peer tool refuses or warns of: an error with its place, and at least a warning.

use std::path::PathBuf;

use crate::run::netlab;

#[test]
fn what_a_peer_refuses_is_an_error_and_what_it_warns_of_at_least_a_warning() {
    let Some(cases) = std::env::var_os("NETLAB_CASES").map(PathBuf::from) else { return };
    let base = cases.join("policy/bad-input");
    let index = std::fs::read_to_string(base.join("index.tsv")).expect("the index");
    let mut silent = Vec::new();
    for line in index.lines().skip(1) {
        let (directory, severity) = line.split_once('\t').expect("a directory and a severity");
        let path = base.join(directory);
        let run = netlab(["policy", "connections", "-f", path.to_str().expect("UTF-8")]);
        let has = |word: &str| {
            let mut findings = run.stderr.split(word).skip(1);
            findings.any(|finding| {
                let place = finding.lines().find_map(|line| line.trim_start().strip_prefix("--> "));
                let place = place.and_then(|place| place.split_whitespace().next()).unwrap_or_default();
                place.rsplit(':').take(2).all(|number| number.parse::<u32>().is_ok())
            })
        };
        let heard = match severity {
            "fatal" => has("error[") && matches!(run.code, Some(2 | 3)),
            _ => has("error[") || has("warning["),
        };
        if !heard {
            silent.push(format!("{directory} ({severity}): exit {:?}\n{}", run.code, run.stderr));
        }
    }
    assert!(index.lines().count() > 30, "only {} cases were found", index.lines().count());
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}
