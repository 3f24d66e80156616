//! `policy lint`: exactly the findings that `examples/shop/expected-lint.txt` lists, none in `examples/clean`, every form
//! and the exit code. `NETLAB_BLESS=1 cargo test -p netlab --test it lint` writes the list anew.

use serde_json::Value;

use crate::findings::{hold, json, lines};
use crate::run::{Run, netlab, netlab_reading, root};

const SHOP: &str = "examples/shop";
const EXPECTED: &str = "examples/shop/expected-lint.txt";
const ORED: &str = "NL0301=NetworkPolicy/shop/cache";

fn lint(more: &[&str]) -> Run {
    netlab(["policy", "lint", "-f", SHOP].iter().chain(more))
}

#[test]
fn the_shop_has_exactly_the_expected_findings() {
    let found = lines(&json(&lint(&["-o", "json"])));
    hold(&found, EXPECTED, "lint", "NL0301");
}

#[test]
fn the_clean_example_has_no_findings() {
    let run = netlab(["policy", "lint", "-f", "examples/clean"]);
    assert_eq!(
        (run.code, run.stdout.as_str(), run.stderr.as_str()),
        (Some(0), "nothing found in 4 policies\n", "")
    );
}

#[test]
fn a_finding_shows_its_line_and_what_to_do() {
    let run = lint(&[]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stdout.contains(
            "\
warning[NL0301]: two peers where one seems meant: admits shop/db, shop/web too
  --> examples/shop/policies/cache.yaml:13:7  NetworkPolicy shop/cache spec.ingress[0].from[1]
   |
13 |     - podSelector: {matchLabels: {app: api}}
   |       ^
   = help: delete the dash to AND them (1 pod, not 3); `netlab explain NL0301`
"
        ),
        "{}",
        run.stdout
    );
    let wide = lint(&["-o", "wide"]).stdout;
    assert!(wide.contains("  why:  Both selectors in one element"), "{wide}");
    let finding = json(&lint(&["-o", "json"]));
    let all = finding["findings"].as_array().expect("a list");
    let one = all.iter().find(|one| one["code"] == "NL0301").expect("the finding");
    assert_eq!(one["object"]["name"], "cache");
    assert_eq!(one["path"], "spec.ingress[0].from[1]");
    assert_eq!((&one["count"], &one["counted"]), (&Value::from(2), &Value::from("pods")));
}

#[test]
fn suppressed_findings_are_gone_and_useless_suppressions_told() {
    let run = lint(&["--suppress", ORED, "--suppress", "NL0302=NetworkPolicy/shop/db", "-o", "json"]);
    let answer = json(&run);
    assert!(answer["findings"].as_array().expect("a list").iter().all(|one| one["code"] != "NL0301"));
    assert_eq!(answer["suppressed"], 1);
    assert_eq!(answer["unusedSuppressions"], serde_json::json!(["NL0302=NetworkPolicy/shop/db"]));
    assert!(
        run.stderr.contains("`--suppress NL0302=NetworkPolicy/shop/db` matches no finding"),
        "{}",
        run.stderr
    );
    let wrong = lint(&["--suppress", "NL9999=NetworkPolicy/shop/db"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("there is no code `NL9999`"), "{}", wrong.stderr);
    let wrong = lint(&["--suppress", "NL0301"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("CODE=Kind/namespace/name"), "{}", wrong.stderr);
}

#[test]
fn the_exit_code_follows_the_level() {
    assert_eq!(lint(&["-q"]).code, Some(1));
    assert_eq!(lint(&["--fail-on", "error"]).code, Some(0));
    assert_eq!(lint(&["--severity", "error"]).code, Some(0), "what is not shown does not fail");
    assert_eq!(lint(&["-n", "monitoring"]).code, Some(0), "nothing is wrong in that namespace");
    assert_eq!(lint(&["-l", "app=db"]).code, Some(2));
    assert_eq!(lint(&["-o", "dot"]).code, Some(2));
}

#[test]
fn an_object_that_cannot_be_used_is_a_finding_and_hides_no_other() {
    let text = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: typo, namespace: a}
spec: {podSelector: {}, ingres: []}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: b, namespace: a}
spec: {podSelector: {}, egress: []}
";
    let run = netlab_reading(text, &["policy", "lint", "-f", "-", "-o", "json"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let answer = json(&run);
    assert_eq!((&answer["kind"], &answer["complete"]), (&Value::from("Findings"), &Value::from(false)));
    let found = lines(&answer);
    assert!(found.contains("-:4:25: error[NL0202]"), "{found}");
    assert!(found.contains("-:9:25: warning[NL0311]"), "{found}");
    let skipping = netlab_reading(text, &["policy", "lint", "-f", "-", "--skip-invalid"]);
    assert_eq!(skipping.code, Some(1));
}

#[test]
fn sarif_has_a_rule_for_each_result_and_exact_places() {
    let run = lint(&["-o", "sarif"]);
    assert_eq!(run.code, Some(1));
    let log = json(&run);
    assert_eq!(log["version"], "2.1.0");
    let scan = &log["runs"][0];
    let rules = scan["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = scan["results"].as_array().expect("results");
    assert!(!results.is_empty());
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().expect("an index")).expect("small");
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().expect("a level")));
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().expect("a URI");
        let region =
            |field: &str| usize::try_from(place["region"][field].as_u64().expect("a number")).expect("small");
        let file = std::fs::read_to_string(root().join(uri)).expect("the URI is relative to where we are");
        let line = file.lines().nth(region("startLine") - 1).expect("the file has the line");
        assert!(line.chars().count() >= region("startColumn"), "{uri} {line}");
    }
    for rule in rules {
        assert!(
            rule["shortDescription"]["text"].is_string() && rule["help"]["markdown"].is_string(),
            "{rule}"
        );
    }
    let clean = json(&netlab(["policy", "lint", "-f", "examples/clean", "-o", "sarif"]));
    assert_eq!(clean["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn markdown_is_fit_for_a_review() {
    let markdown = lint(&["-o", "md"]).stdout;
    assert!(markdown.starts_with("### netlab: "), "{markdown}");
    assert!(
        markdown.contains("\n| warning | NL0301 | `NetworkPolicy shop/cache`<br>`spec.ingress[0].from[1]`<br>`examples/shop/policies/cache.yaml:13` | "),
        "{markdown}"
    );
}
