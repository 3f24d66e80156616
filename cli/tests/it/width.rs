//! Tables on a screen of 80 columns, and in pipes: real output of every `policy` command over real inputs.

use std::path::PathBuf;

use crate::run::{Run, command, finish, netlab, root};

/// Larger than most, with long names, blocks and tiers.
const CASES: [&str; 3] =
    ["minikube_resources", "multiple_topology_resources_3", "anp_test_10_swapping_rules"];

fn inputs() -> Vec<PathBuf> {
    let mut inputs = vec![root().join("examples/shop")];
    if let Some(cases) = std::env::var_os("NETLAB_CASES").map(PathBuf::from) {
        inputs.extend(CASES.iter().map(|case| cases.join("policy/netpol-analyzer").join(case).join("input")));
    }
    inputs
}

fn at_80(arguments: &[&str]) -> Run {
    finish(command(env!("CARGO_BIN_EXE_netlab")).args(arguments).env("COLUMNS", "80"))
}

/// Lines that do not fit. What must be copied whole, a path or an object's name, stays so and stands alone.
fn too_wide(run: &Run) -> Vec<&str> {
    let is_one_word = |line: &str| line.trim_start().trim_start_matches("--> ").split(' ').count() == 1;
    let lines = run.stdout.lines().chain(run.stderr.lines());
    lines.filter(|line| line.chars().count() > 80 && !is_one_word(line)).collect()
}

#[test]
fn every_policy_command_fits_80_columns() {
    let claims = std::env::temp_dir().join(format!("netlab-width-{}.yaml", std::process::id()));
    for input in inputs() {
        let input = input.to_str().expect("UTF-8");
        let listed = netlab(["policy", "connections", "-f", input, "-o", "json"]).stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
        let ends: Vec<String> = listed["peers"]
            .as_array()
            .expect("peers")
            .iter()
            .filter(|peer| peer["namespace"].is_string())
            .filter_map(|peer| peer["id"].as_str()?.split('[').next().map(str::to_owned))
            .collect();
        let (from, to) = (ends[ends.len() - 2].as_str(), ends[ends.len() - 1].as_str());
        let draft = netlab([
            "policy",
            "test",
            "--record",
            "-f",
            input,
            "-n",
            from.split('/').next().expect("a namespace"),
        ]);
        std::fs::write(&claims, draft.stdout.replacen("expect: allow", "expect: deny", 3)).expect("written");
        let file = claims.to_str().expect("UTF-8");
        let empty = root().join("examples/clean");
        for arguments in [
            &["connections"][..],
            &["connections", "-o", "matrix"],
            &["connections", "-o", "wide"],
            &["connections", "-o", "wide", "--exposure"],
            &["compile", "-o", "wide"],
            &["eval", "-o", "wide", "--from", from, "--to", to, "--port", "80"],
            &["connections", "--exposure"],
            &["connections", "--from", from, "--to", to],
            &["lint"],
            &["lint", "-o", "wide"],
            &["compile"],
            &["describe", to],
            &["eval", "--from", from, "--to", to, "--port", "80"],
            &["prove", "--from", from, "--to", to, "--port", "80", "--backend", "none"],
            &["test", file],
        ] {
            let all = [&["policy"], arguments, &["-f", input]].concat();
            let run = at_80(&all);
            assert!(matches!(run.code, Some(0 | 1 | 3)), "{all:?}: {}", run.stderr);
            assert_eq!(too_wide(&run), Vec::<&str>::new(), "{all:?}");
        }
        let run = at_80(&["policy", "diff", input, empty.to_str().expect("UTF-8")]);
        assert_eq!(too_wide(&run), Vec::<&str>::new(), "diff of {input}");
    }
    std::fs::remove_file(claims).expect("removed");
}

#[test]
fn a_fitted_table_says_what_a_piped_one_does() {
    for input in inputs() {
        let input = input.to_str().expect("UTF-8");
        let words = |run: &Run| {
            let text: String = run.stdout.chars().filter(|c| !c.is_whitespace()).collect();
            let mut signs: Vec<char> = text.chars().collect();
            signs.sort_unstable();
            signs
        };
        for form in ["table", "wide"] {
            let piped = netlab(["policy", "connections", "-f", input, "-o", form]);
            let fitted = at_80(&["policy", "connections", "-f", input, "-o", form]);
            assert_eq!(words(&piped), words(&fitted), "{input}");
            // In a pipe each row is one line.
            let rows = piped.stdout.lines().count();
            assert!(fitted.stdout.lines().count() >= rows, "{input}");
        }
    }
}
