//! What is not known of a Service's endpoints is said by every command that asks for them, and is no verdict.

use serde_json::Value;

use crate::run::{Run, netlab_reading};

fn node(name: &str, zone: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}}}}}\n\
         status: {{addresses: [{{type: InternalIP, address: 192.0.2.{}}}]}}\n",
        &name[1..]
    )
}

fn pod(name: &str, node: &str, address: &str, version: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: x, labels: {{app: {}, ver: {version}}}}}\n\
         spec: {{nodeName: {node}, containers: [{{name: c}}]}}\n\
         status: {{phase: Running, podIPs: [{{ip: {address}}}], conditions: [{{type: Ready, status: 'True'}}]}}\n",
        if name == "client" { "client" } else { "s" }
    )
}

fn service(annotations: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s, namespace: x, annotations: {{{annotations}}}}}\n\
         spec: {{clusterIP: 10.96.0.1, selector: {{app: s}}, ports: [{{port: 80}}]{spec}}}\n"
    )
}

/// The client may ask pods of the first version alone.
const POLICY: &str = "---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: e, namespace: x}
spec:
  podSelector: {matchLabels: {app: client}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {ver: v1}}}]}]
";

const AUTO: &str = "service.kubernetes.io/topology-mode: Auto";
const HINTS: &str = "hints of svc/x/s in proportion to CPUs (topology-mode: Auto), which are not predicted: with them nodes \
                     use only some of its endpoints";
const LEFT_OUT: &str = "endpoints of svc/x/s: pod b is left out: the input has Nodes, and none is called n9";

fn world(annotations: &str, pods: &[(&str, &str, &str)]) -> String {
    let pods: String = pods
        .iter()
        .enumerate()
        .map(|(number, (name, on, version))| pod(name, on, &format!("10.244.1.{}", number + 20), version))
        .collect();
    node("n1", "za")
        + &node("n2", "zb")
        + &pod("client", "n1", "10.244.1.10", "v1")
        + &service(annotations, "")
        + &pods
        + POLICY
}

const PROVE: [&str; 5] = ["policy", "prove", "--backend", "none", "--allow-simulated"];

fn ask(command: &[&str], to: &str, text: &str) -> (Run, Value) {
    let question = ["-f", "-", "--from", "x/client", "--to", to, "-o", "json"];
    let run = netlab_reading(text, &[command, &question].concat());
    let value = serde_json::from_str(&run.stdout).expect("JSON");
    (run, value)
}

#[test]
fn a_pod_on_a_node_that_the_input_does_not_have_is_named() {
    let some = world("", &[("a", "n1", "v1"), ("b", "n9", "v2")]);
    let known = world("", &[("a", "n1", "v1"), ("b", "n2", "v1")]);
    for to in ["svc/x/s:80", "10.96.0.1:80"] {
        for command in [&["policy", "eval"][..], &PROVE] {
            let (run, value) = ask(command, to, &some);
            assert_eq!((run.code, &value["complete"]), (Some(3), &false.into()), "{to}: {value}");
            let named = value["notExamined"].as_array().expect("a list").iter().any(|what| what == LEFT_OUT);
            assert!(named, "{to}: {value}");
            assert_eq!(run.stderr.contains(LEFT_OUT), command.contains(&"prove"), "{}", run.stderr);
            let (run, value) = ask(command, to, &known);
            assert_eq!(run.code, Some(0), "{to}: {value}");
            assert!(!value["notExamined"].to_string().contains("left out"), "{value}");
        }
        let (_, value) = ask(&["policy", "connections"], to, &some);
        assert!(value["notes"].to_string().contains(LEFT_OUT), "{value}");
    }
    let run =
        netlab_reading(&some, &["policy", "eval", "-f", "-", "--from", "x/client", "--to", "svc/x/s:80"]);
    assert!(
        run.stdout.contains("not seen          endpoints of svc/x/s: pod b is left out"),
        "{}",
        run.stdout
    );
}

/// Of a Service whose every pod is left out that is why it has no endpoint.
#[test]
fn a_service_without_endpoints_says_which_pods_are_left_out() {
    // Nothing holds the client: what it may send to an address that leads nowhere is decided before.
    let none = world("", &[("b", "n9", "v2")])
        .replace("podSelector: {matchLabels: {app: client}}", "podSelector: {matchLabels: {app: other}}");
    let (run, value) = ask(&["policy", "eval"], "svc/x/s:80", &none);
    assert_eq!((run.code, &value["verdict"]), (Some(3), &"undefined".into()), "{value}");
    assert!(value["notes"].to_string().contains(LEFT_OUT), "{value}");
    let (run, value) = ask(&PROVE, "svc/x/s:80", &none);
    assert!(value["notExamined"].to_string().contains(LEFT_OUT), "{value} {}", run.stderr);
}

#[test]
fn hints_in_proportion_to_cpus_are_said_to_be_unknown_where_slices_are_predicted() {
    let two = [("a", "n1", "v1"), ("b", "n2", "v2")];
    let endpoints = |text: &str| {
        let run = netlab_reading(text, &["service", "endpoints", "x/s", "-f", "-", "-o", "json"]);
        let value: Value = serde_json::from_str(&run.stdout).expect("JSON");
        (run.code, value["notExamined"].clone())
    };
    let open = world(AUTO, &two);
    assert_eq!(endpoints(&open), (Some(3), [HINTS].into()));
    let (run, value) = ask(&["policy", "eval"], "svc/x/s:80", &open);
    assert_eq!((run.code, &value["notExamined"]), (Some(3), &[HINTS].into()), "{value}");
    let (run, value) = ask(&PROVE, "svc/x/s:80", &open);
    assert_eq!(run.code, Some(3), "{value}");
    assert!(value["notExamined"].to_string().contains(HINTS), "{value}");
    let (_, value) = ask(&["policy", "connections"], "svc/x/s:80", &open);
    assert!(value["notes"].to_string().contains(HINTS), "{value}");
    // Nobody's choice of endpoints makes another verdict of these.
    let alike = world(AUTO, &[("a", "n1", "v1"), ("b", "n2", "v1")]);
    assert_eq!(ask(&["policy", "eval"], "svc/x/s:80", &alike).0.code, Some(0));
    let slice = "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s-1, namespace: x, \
                 labels: {kubernetes.io/service-name: s}}\naddressType: IPv4\nports: [{name: '', port: 80}]\nendpoints: \
                 [{addresses: [10.244.1.20], nodeName: n1, conditions: {ready: true}}]\n";
    for (why, text) in [
        ("slices are given", open.clone() + slice),
        ("the annotation is another", world("service.kubernetes.io/topology-mode: disabled", &two)),
        ("one endpoint gets no hint", world(AUTO, &two[..1])),
        ("nor do those of one zone", open.replace("zone: zb", "zone: za")),
    ] {
        assert_eq!(endpoints(&text), (Some(0), Value::Array(Vec::new())), "{why}");
    }
}

/// What is undefined for `policy eval` since nothing reaches an endpoint is so for `policy prove`, too.
#[test]
fn a_proof_of_what_leads_nowhere_cannot_tell() {
    let all = [("b", "n2", "v1")];
    let client = world("", &all);
    let local = client.replace("selector: {app: s}", "selector: {app: s}, internalTrafficPolicy: Local");
    let families = client
        .replace("ip: 10.244.1.20", "ip: 'fd00::20'")
        .replace("clusterIP: 10.96.0.1", "clusterIP: 'fd00:96::1'");
    let balanced = client.replace(
        "ports: [{port: 80}]}",
        "ports: [{port: 80}], type: LoadBalancer, loadBalancerSourceRanges: [203.0.113.0/24]}\n\
         status: {loadBalancer: {ingress: [{ip: 198.51.100.9}]}}",
    );
    for (why, to, text) in [
        ("no endpoint", "svc/x/s:80", world("", &[])),
        ("none on the node", "svc/x/s:80", local),
        ("no common family", "svc/x/s:80", families),
        ("out of the ranges", "198.51.100.9:80", balanced),
    ] {
        let text = text
            .replace("podSelector: {matchLabels: {app: client}}", "podSelector: {matchLabels: {app: other}}");
        let (run, value) = ask(&["policy", "eval"], to, &text);
        assert_eq!((run.code, &value["verdict"]), (Some(3), &"undefined".into()), "{why}: {value}");
        let (run, _) = ask(&PROVE, to, &text);
        assert_eq!(run.code, Some(3), "{why}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn claims_say_what_is_not_known_of_endpoints() {
    let directory = tempfile::tempdir().expect("a directory");
    let claims = directory.path().join("claims.yaml");
    let text = "claims:\n- {from: x/client, to: 'svc/x/s:80', expect: allow}\n";
    std::fs::write(&claims, text).expect("written");
    let tried = |text: &str| {
        let question = ["policy", "test", "-f", "-", claims.to_str().expect("UTF-8"), "-o", "json"];
        let run = netlab_reading(text, &question);
        let value: Value = serde_json::from_str(&run.stdout).expect("JSON");
        (run.code, value["notExamined"].clone(), run.stderr)
    };
    let (code, not_examined, told) = tried(&world("", &[("a", "n1", "v1"), ("b", "n9", "v2")]));
    assert_eq!((code, not_examined), (Some(3), [LEFT_OUT].into()));
    assert!(told.contains(LEFT_OUT), "{told}");
    let none = Value::Array(Vec::new());
    assert_eq!(
        tried(&world(AUTO, &[("a", "n1", "v1"), ("b", "n2", "v1")])),
        (Some(0), none, String::new()),
        "whichever hints choose"
    );
    let (_, not_examined, _) = tried(&world(AUTO, &[("a", "n1", "v1"), ("b", "n2", "v2")]));
    assert_eq!(not_examined, Value::from([HINTS]));
}
