//! Policies that the API does not order, as users meet them: no command gives the tables' deny for the API's answer.

use crate::run::{is_root, netlab_reading};

const POLICIES: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
status: {podIP: 10.0.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop}
status: {podIP: 10.0.0.2}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: opens}
spec:
  priority: 5
  subject: {namespaces: {}}
  ingress: [{action: Allow, from: [{namespaces: {}}], ports: [{portRange: {start: 80, end: 81}}]}]
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: closes}
spec:
  tier: Admin
  priority: 5
  subject: {namespaces: {}}
  ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}]
";

const WHO: &str = "tie between AdminNetworkPolicy opens and ClusterNetworkPolicy closes";

fn ask(words: &str) -> crate::run::Run {
    let words = format!("policy {words} -f - --from shop/web --to shop/db");
    netlab_reading(POLICIES, &words.split(' ').collect::<Vec<_>>())
}

#[test]
fn eval_cannot_tell_and_names_both_rules() {
    for expect in ["", " --expect deny", " --expect allow"] {
        let run = ask(&format!("eval --port 80{expect}"));
        assert_eq!(run.code, Some(3), "{expect}: {}", run.stderr);
        assert!(run.stdout.starts_with("undefined  shop/web -> shop/db 80/tcp\n"), "{}", run.stdout);
        for rule in ["AdminNetworkPolicy opens spec.ingress[0].from[0] Allow", "ClusterNetworkPolicy closes"]
        {
            assert!(run.stdout.contains(&format!("tie               {rule}")), "{}", run.stdout);
        }
        assert!(run.stderr.contains("give one of them another priority"), "{}", run.stderr);
    }
    assert_eq!(ask("eval --port 81").code, Some(0));
}

#[test]
fn a_proof_shows_what_the_tables_do_and_proves_nothing() {
    let backend = if is_root() { "tc" } else { "none" };
    for expect in ["", " --expect deny", " --expect allow", " --allow-simulated"] {
        let run = ask(&format!("prove --port 80 --backend {backend}{expect}"));
        assert_eq!(run.code, Some(3), "{expect}: {}", run.stderr);
        let first = "UNDEFINED  shop/web -> shop/db 80/tcp: the API gives no verdict\n";
        assert!(run.stdout.starts_with(first), "{}", run.stdout);
    }
    let run = ask(&format!("prove --port 80 --backend {backend} -o json"));
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((&json["outcome"], &json["predicted"]), (&"inconclusive".into(), &"undefined".into()));
    assert_eq!((&json["undefined"], &json["complete"]), (&WHO.into(), &false.into()));
    assert_eq!(json["witnesses"][0]["verdict"], "undefined");
    assert_eq!(json["witnesses"][1]["verdict"], "deny");
    if backend == "tc" {
        assert_eq!(json["observed"], "deny");
    }
}

const TWO_OF_ONE_PRIORITY: &str = "apiVersion: v1
kind: Pod
metadata: {name: a, namespace: x}
status: {podIP: 10.0.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: x, labels: {app: b}}
status: {podIP: 10.0.0.2}
---
apiVersion: v1
kind: Pod
metadata: {name: c, namespace: x, labels: {app: c}}
status: {podIP: 10.0.0.3}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: c, namespace: x}
spec: {podSelector: {matchLabels: {app: c}}, policyTypes: [Egress]}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: one}
spec:
  priority: 5
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}}
  ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{portRange: {protocol: TCP, start: 80, end: 90}}]}]
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: two}
spec:
  priority: 5
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}}
  ingress: [{action: Allow, from: [{namespaces: {}}], ports: [{portRange: {protocol: TCP, start: 85, end: 95}}]}]
";

#[test]
fn only_packets_of_a_tie_are_undefined() {
    let packet = |port: &str| -> Vec<Option<i32>> {
        let ask = |command: &[&str]| {
            let arguments: Vec<&str> = ["policy"].iter().chain(command).copied().collect();
            let ends = ["-f", "-", "-n", "x", "--from", "a", "--to", "b", "--port", port];
            netlab_reading(TWO_OF_ONE_PRIORITY, &[&arguments, &ends[..]].concat()).code
        };
        vec![ask(&["eval"]), ask(&["prove", "--backend", "none", "--allow-simulated"]), ask(&["connections"])]
    };
    for (port, expected) in [
        ("79", [Some(0), Some(0), Some(0)]),
        ("84", [Some(1), Some(0), Some(0)]),
        ("85", [Some(3), Some(3), Some(3)]),
        ("90", [Some(3), Some(3), Some(3)]),
        ("91", [Some(0), Some(0), Some(0)]),
        ("90/udp", [Some(0), Some(0), Some(0)]),
    ] {
        assert_eq!(packet(port), expected, "{port}");
    }
    // Ends that have nothing to do with it, and a sender that may send nothing anyway.
    let list = |more: &[&str]| {
        let arguments = ["policy", "connections", "-f", "-", "-n", "x"];
        netlab_reading(TWO_OF_ONE_PRIORITY, &[&arguments, more].concat()).code
    };
    assert_eq!(list(&[]), Some(3));
    let as_data = netlab_reading(TWO_OF_ONE_PRIORITY, &["policy", "connections", "-f", "-", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&as_data.stdout).expect("JSON");
    let names: Vec<_> = json["ties"][0]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|policy| policy["name"].as_str())
        .collect();
    assert_eq!((names, json["ties"].as_array().map(Vec::len)), (vec!["one", "two"], Some(1)));
    assert_eq!(list(&["--to", "a"]), Some(0));
    assert_eq!(list(&["--from", "b"]), Some(0));
    assert_eq!(list(&["--from", "a", "--to", "b"]), Some(3));
    assert_eq!(list(&["--from", "c", "--to", "b"]), Some(0));
    assert_eq!(list(&["--from", "203.0.113.7"]), Some(0));
}

#[test]
fn a_difference_between_undefined_and_undefined_is_not_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("set.yaml");
    std::fs::write(&file, POLICIES).expect("a file");
    let path = file.to_str().expect("UTF-8");
    let run = crate::run::netlab(["policy", "diff", path, path]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(3), "no connection of TCP, UDP or SCTP changed\n"));
    for side in ["before", "after"] {
        let words = format!(
            "{side}: AdminNetworkPolicy opens and ClusterNetworkPolicy closes of one priority decide"
        );
        assert!(run.stderr.contains(&words), "{}", run.stderr);
    }
    let data = crate::run::netlab(["policy", "diff", path, path, "-o", "json"]);
    let data: serde_json::Value = serde_json::from_str(&data.stdout).expect("JSON");
    assert_eq!((&data["complete"], data["notExamined"].as_array().map(Vec::len)), (&false.into(), Some(2)));
}
