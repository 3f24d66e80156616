//! `-o json` carries everything that the table says: every number and every name of each form for people stands in the
//! JSON of the same command, for every policy command, on the examples and on the cases of other projects.
//!
//! A *name* is a word of the table that the input has too, or that no prose has: with a digit, a capital within, a slash or
//! a sign. What a table leaves out it counts (`and 3 more`, `… +2`); only those counts are not asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run::{Run, netlab, root};

/// The words of a text, what names are made of, each with what follows it at once.
fn words_and_next(text: &str) -> impl Iterator<Item = (&str, Option<char>)> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c| !is_part(c));
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            let trimmed = word.trim_matches(['.', '-']);
            if word.is_empty() || !trimmed.is_empty() {
                return (!word.is_empty()).then(|| (trimmed, after.chars().next()));
            }
        }
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    words_and_next(text).map(|(word, _)| word)
}

/// Every word of a value: of keys, of texts, and every number.
fn words_of(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => _ = into.insert(number.to_string()),
        Value::String(text) => into.extend(words(text).map(str::to_owned)),
        Value::Array(list) => list.iter().for_each(|value| words_of(value, into)),
        Value::Object(fields) => {
            for (key, value) in fields {
                into.extend(words(key).map(str::to_owned));
                words_of(value, into);
            }
        }
    }
}

/// The numbers that only say how much a table leaves out.
fn without_cuts(text: &str) -> String {
    let mut kept = String::new();
    let tokens: Vec<&str> = text.split_whitespace().collect();
    for (index, token) in tokens.iter().enumerate() {
        let is_number = |token: &str| token.chars().all(|c| c.is_ascii_digit());
        let cut_before = index > 0 && ["and", "for"].contains(&tokens[index - 1]);
        let more = tokens.get(index + 1).is_some_and(|next| next.starts_with("more"));
        let plus = token.strip_prefix('+').is_some_and(is_number);
        if !(plus || (cut_before && more && is_number(token))) {
            kept.push_str(token);
        }
        kept.push(' ');
    }
    kept
}

/// A truth table numbers its lines, has the numbers for headings, and explains its signs.
fn without_positions(form: &str, text: &str) -> String {
    if form != "matrix" {
        return text.to_owned();
    }
    let position = |line: &str| line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let lines = text.lines().filter(|line| !line.starts_with("FROM") && !line.starts_with("# everything"));
    // The last line is the summary, whose numbers are none of these.
    let (summary, rows): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains(" pair"));
    rows.into_iter().map(position).collect::<Vec<_>>().join("\n") + "\n" + &summary.join("\n")
}

/// Every value in the files of an input; what is followed by a colon is a field, or stands beside `=` in tables.
fn input_words(paths: &[PathBuf]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for path in paths {
        let mut found = Vec::new();
        files(path, &mut found);
        let is_manifest = |file: &PathBuf| {
            file.extension()
                .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
        };
        for file in found.into_iter().filter(is_manifest) {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            // A comment names nothing.
            let lines = text.lines().map(|line| line.split_once('#').map_or(line, |(code, _)| code));
            let values = lines.flat_map(words_and_next).filter(|(_, next)| *next != Some(':'));
            all.extend(values.map(|(word, _)| word.to_owned()));
        }
    }
    all
}

fn files(path: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else { return into.push(path.to_owned()) };
    for entry in entries.flatten() {
        files(&entry.path(), into);
    }
}

/// Words of the commands' own prose that some input has for a name.
const PROSE: [&str; 3] = ["all", "none", "outside"];

/// What the table says and the JSON does not.
fn missing(table: &str, json: &Value, input: &BTreeSet<String>) -> BTreeSet<String> {
    let mut carried = BTreeSet::new();
    words_of(json, &mut carried);
    let carried: BTreeSet<String> = carried.iter().map(|word| word.to_lowercase()).collect();
    let is_name = |word: &str| {
        let within = |c: char| c.is_uppercase() || matches!(c, '.' | '_');
        // Headings, and the word that a proof begins with.
        let shouted = word.chars().all(|c| c.is_ascii_uppercase());
        !shouted
            && (input.contains(word) && !PROSE.contains(&word)
                || word.chars().any(|c| c.is_ascii_digit())
                || word.chars().skip(1).any(within))
    };
    let table = without_cuts(table);
    let named = words_and_next(&table).filter(|(word, next)| *next == Some('=') || is_name(word));
    named.map(|(word, _)| word.to_owned()).filter(|word| !carried.contains(&word.to_lowercase())).collect()
}

/// Runs a command in each form for people and as JSON, and compares.
fn compare(arguments: &[&str], inputs: &[&str], forms: &[&str], faults: &mut Vec<String>) -> Run {
    let as_json = netlab(arguments.iter().chain(&["-o", "json"]));
    let json: Value = serde_json::from_str(&as_json.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}{}", as_json.stdout, as_json.stderr));
    let input = input_words(&inputs.iter().map(|path| root().join(path)).collect::<Vec<_>>());
    for form in forms {
        let run = netlab(arguments.iter().chain(&["-o", form]));
        assert_eq!(run.code, as_json.code, "{arguments:?} -o {form}: {}", run.stderr);
        let missing = missing(&without_positions(form, &run.stdout), &json, &input);
        if !missing.is_empty() {
            faults.push(format!("{} -o {form}: {missing:?}\n{}", arguments.join(" "), run.stdout));
        }
    }
    as_json
}

#[test]
fn differences_and_claims_say_in_json_what_their_tables_say() {
    let mut faults = Vec::new();
    let (old, new) = ("examples/edit/old", "examples/edit/new");
    let pods = ["-f", "examples/edit/pods.yaml"];
    for more in [&[][..], &["--external", "off"], &["-n", "monitoring"]] {
        let diff = [&["policy", "diff", old, new], &pods[..], more].concat();
        compare(&diff, &["examples/edit"], &["table", "wide", "csv"], &mut faults);
    }
    let shop = ["policy", "diff", "-f", "examples/shop", "--without", "NetworkPolicy/shop/db"];
    compare(&shop, &["examples/shop"], &["table", "wide", "csv"], &mut faults);
    let claims = ["policy", "test", "-f", "examples/shop", "examples/claims/shop.yaml"];
    compare(&claims, &["examples/shop"], &["table", "wide"], &mut faults);
    let broken =
        [&claims[..], &["--without", "NetworkPolicy/shop/db", "--without", "NetworkPolicy/shop/api"]]
            .concat();
    let run = compare(&broken, &["examples/shop"], &["table", "wide"], &mut faults);
    assert!(run.stdout.contains("\"fails\""), "{}", run.stdout);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_cases_of_another_project_say_in_json_what_their_tables_say() {
    let Some(cases) = std::env::var_os("NETLAB_CASES").map(PathBuf::from) else { return };
    let mut faults = Vec::new();
    let named = [
        "anp_and_banp_using_networks_and_nodes_test",
        "anp_banp_blog_demo",
        "multiple_topology_resources_1",
        "new_online_boutique",
        "test_with_named_ports_changed_netpol",
        "semanticDiff-different-topologies-policy-a-with-ipblock",
    ];
    for name in named {
        let path = cases.join("policy/netpol-analyzer").join(name).join("input");
        let path = path.to_str().expect("a path in UTF-8");
        let listed = ["policy", "connections", "-f", path, "--skip-invalid"];
        compare(&listed, &[path], &["table", "wide", "matrix"], &mut faults);
        compare(&[&listed[..], &["--exposure"]].concat(), &[path], &["table"], &mut faults);
        compare(&["policy", "lint", "-f", path, "--skip-invalid"], &[path], &["table", "wide"], &mut faults);
        compare(&["policy", "compile", "-f", path, "--skip-invalid"], &[path], &["wide"], &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_summary_of_a_list_is_data_number_by_number() {
    for (more, pairs, outside) in
        [(&[][..], "11 of 30 pairs, ", true), (&["--external", "off"], "11 of 30 pairs; ", false)]
    {
        let arguments = [&["policy", "connections", "-f", "examples/shop"], more].concat();
        let table = netlab(&arguments).stdout;
        assert!(table.lines().last().is_some_and(|line| line.starts_with(pairs)), "{table}");
        let json = netlab(arguments.iter().chain(&["-o", "json"])).stdout;
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let summary = &json["summary"];
        assert_eq!(
            (&summary["workloads"], &summary["pairs"], &summary["allowed"]),
            (&6.into(), &30.into(), &11.into())
        );
        assert_eq!(summary["allowedOutside"].as_u64().is_some_and(|number| number > 0), outside, "{summary}");
        assert_eq!(summary["isolated"], serde_json::json!({"ingress": 6, "egress": 0}));
        assert_eq!(json["asked"]["from"], Value::Null);
    }
}

#[test]
fn every_policy_command_says_in_json_what_its_table_says() {
    let mut faults = Vec::new();
    for directory in
        ["examples/shop", "examples/tiers", "examples/clean", "examples/edit/old", "examples/stale"]
    {
        everything(directory, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every command on one input, asked in several ways.
fn everything(directory: &str, faults: &mut Vec<String>) {
    let input = ["-f", directory];
    let mut run = |words: &[&str], forms: &[&str]| {
        compare(&[&["policy"], words, &input].concat(), &[directory], forms, faults)
    };
    let listed = run(&["connections"], &["table", "wide", "matrix", "md", "csv"]);
    run(&["connections", "--exposure"], &["table", "wide"]);
    run(&["connections", "--external", "off"], &["table", "matrix"]);
    run(&["lint"], &["table", "wide", "md"]);
    run(&["compile"], &["table", "wide"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let workloads = listed["peers"].as_array().into_iter().flatten();
    let ids: Vec<String> = workloads
        .filter(|peer| peer["kind"] != "IPBlock")
        .filter_map(|peer| {
            let kind = match peer["workloadKind"].as_str()? {
                "ReplicaSet" | "Deployment" => "deploy",
                "StatefulSet" => "sts",
                "DaemonSet" => "ds",
                "Pod" => "pod",
                _ => return None,
            };
            let name = peer["owner"].as_str().or(peer["name"].as_str())?;
            Some(format!("{kind}/{}/{name}", peer["namespace"].as_str()?))
        })
        .collect();
    for one in ids.iter().take(4) {
        let there = netlab(["policy", "describe", one, "-f", directory, "-q", "--skip-invalid"]);
        if there.code == Some(2) {
            continue;
        }
        run(&["describe", one], &["table", "wide"]);
        run(&["connections", "--from", one], &["table", "matrix"]);
        for other in ids.iter().filter(|other| *other != one).take(3) {
            let packet = ["--from", one, "--to", other, "--port", "5432"];
            run(&[&["eval"], &packet[..]].concat(), &["table", "wide"]);
            run(&[&["prove", "--backend", "none"], &packet[..]].concat(), &["table"]);
        }
    }
}
