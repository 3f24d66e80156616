//! `policy connections --exposure`: pods that do not exist yet, and workloads under no policy.

use crate::run::{netlab, netlab_reading};

const PODS: &str = "apiVersion: v1
kind: Namespace
metadata: {name: x, labels: {team: a}}
---
apiVersion: v1
kind: Pod
metadata: {name: api, namespace: x, labels: {app: api}}
---
apiVersion: v1
kind: Pod
metadata: {name: free, namespace: x, labels: {app: free}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: api, namespace: x}
spec:
  podSelector: {matchLabels: {app: api}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: batch}}}]
    ports: [{port: 80}]
  - from: [{namespaceSelector: {matchLabels: {team: b}}, podSelector: {matchExpressions: [{key: role, operator: Exists}]}}]
    ports: [{port: 81}]
  - from: [{podSelector: {matchLabels: {app: z}, matchExpressions: [{key: app, operator: NotIn, values: [z]}]}}]
  - from: [{podSelector: {matchLabels: {app: free}}}]
    ports: [{port: 82}]
  egress:
  - to: [{podSelector: {matchLabels: {app: cache}}}]
    ports: [{port: 6379}]
";

fn exposed(more: &[&str]) -> crate::run::Run {
    let command = ["policy", "connections", "-f", "-", "--external", "off", "--exposure"];
    netlab_reading(PODS, &[&command[..], more].concat())
}

#[test]
fn each_selector_that_matches_nobody_yet_has_a_representative() {
    let run = exposed(&["-o", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let exposure = &json["exposure"];
    let with_api: Vec<String> = exposure["connections"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|pair| pair["from"] == "x/api[Pod]" || pair["to"] == "x/api[Pod]")
        .map(|pair| {
            format!("{} {} {}", pair["from"], pair["to"], pair["allowed"][0]["ports"]).replace('"', "")
        })
        .collect();
    assert_eq!(
        with_api,
        [
            "x/api[Pod] [pods with app=cache of x] 6379",
            "[pods with app=batch of x] x/api[Pod] 80",
            "[pods with role exists of namespaces with team=b] x/api[Pod] 81",
        ]
    );
    assert_eq!(exposure["impossible"], serde_json::json!(["pods with app=z, app!=z of x"]));
    assert_eq!(
        exposure["unprotected"],
        serde_json::json!({"ingress": ["x/free[Pod]"], "egress": ["x/free[Pod]"]})
    );
    let names = exposure["representatives"].as_array().expect("a list");
    assert!(names.contains(&"[any other pod]".into()), "{names:?}");
    assert!(!names.contains(&"[any other pod of x]".into()), "it is as any other pod: {names:?}");
    // The list of present workloads is what it is without.
    assert_eq!(json["connections"].as_array().map(Vec::len), Some(1), "{}", run.stdout);
}

#[test]
fn every_form_that_lists_says_the_same() {
    let table = exposed(&[]).stdout;
    for line in [
        "[pods with app=batch of x]",
        "under no policy for ingress: x/free[Pod]",
        "no pod can ever be one of: pods with app=z",
    ] {
        assert!(table.contains(line), "{line}: {table}");
    }
    assert!(exposed(&["-o", "csv"]).stdout.contains("\n[pods with app=batch of x],x/api[Pod],TCP 80\n"));
    assert!(
        exposed(&["-o", "md"]).stdout.contains("| `[pods with app=batch of x]` | `x/api[Pod]` | TCP 80 |")
    );
    assert_eq!(exposed(&["-o", "dot"]).code, Some(2));
    let only = exposed(&["--to", "x/api", "-o", "csv"]).stdout;
    assert!(
        only.contains("[pods with app=batch of x],x/api[Pod]") && !only.contains("x/api[Pod],["),
        "{only}"
    );
    let shop =
        netlab(["policy", "connections", "-f", "examples/shop", "--external", "off", "--exposure"]).stdout;
    assert!(shop.contains("\n[any other pod of shop]         shop/cache           TCP 6379\n"), "{shop}");
    assert!(shop.contains("\nunder no policy for ingress: none\nunder no policy for egress: "), "{shop}");
    let two = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: x}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: x}\n";
    let all = netlab_reading(two, &["policy", "connections", "-f", "-", "--exposure"]);
    assert!(all.stdout.contains("\nunder no policy for ingress: every workload\n"), "{}", all.stdout);
}
