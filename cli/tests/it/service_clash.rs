//! Two Services with one address and port: which of them is asked is chance, and no answer hangs on their names.

use crate::run::{netlab_reading, root_or_skip};

const PLACE: &str = "apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: x, labels: {ver: one, app: web}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, namespace: x, labels: {ver: two, app: web}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: x, labels: {app: client}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.3}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: client, namespace: x}
spec:
  podSelector: {matchLabels: {app: client}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {ver: one}}}]}]
";

/// A Service that leads port 80 to port 8080 of some pods.
fn service(name: &str, cluster_ip: &str, label: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: x}}\nspec:\n  clusterIP: {cluster_ip}\n  \
         selector: {{{label}}}\n{more}"
    )
}

const EXTERNAL: &str = "  externalIPs: [203.0.113.9]\n  ports: [{name: http, port: 80, targetPort: 8080}]\n  externalTrafficPolicy: Local\n";
const NODE_PORT: &str =
    "  type: NodePort\n  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}]\n";
const PLAIN: &str = "  ports: [{name: http, port: 80, targetPort: 8080}]\n";
const BALANCED: &str = "  type: LoadBalancer
  ports: [{name: http, port: 80, targetPort: 8080}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}
";

fn ask(command: &str, text: &str, to: &str) -> (Option<i32>, serde_json::Value) {
    let question = ["policy", command, "-f", "-", "--from", "x/client", "--to", to, "-o", "json"];
    let run = netlab_reading(text, &question);
    let json = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    (run.code, json)
}

fn notes(json: &serde_json::Value) -> String {
    json["notes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|note| note.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// By what is shared: the text with both Services, and what is asked for.
fn clashes(first: &str, second: &str) -> Vec<(String, &'static str)> {
    let both = |of: [&str; 2], more: &str| {
        let services = [service(first, of[0], "ver: one", more), service(second, of[1], "ver: two", more)];
        PLACE.to_owned() + &services.concat()
    };
    let apart = ["10.96.0.1", "10.96.0.2"];
    vec![
        (both(apart, EXTERNAL), "203.0.113.9:80"),
        (both(apart, BALANCED), "203.0.113.9:80"),
        (both(apart, NODE_PORT), "192.0.2.11:30080"),
        (both(["10.96.0.1", "10.96.0.1"], PLAIN), "10.96.0.1:80"),
    ]
}

#[test]
fn which_of_two_services_is_asked_is_open_whatever_their_names() {
    for (first, second) in [("a", "b"), ("b", "a")] {
        for (text, to) in clashes(first, second) {
            let (code, json) = ask("eval", &text, to);
            assert_eq!((code, &json["verdict"]), (Some(3), &"undefined".into()), "{to}: {json:#}");
            let said = notes(&json);
            assert!(said.contains(&format!("svc/x/a and svc/x/b both claim {to}/tcp")), "{to}: {said}");
            let ends: Vec<_> =
                json["pairs"].as_array().into_iter().flatten().map(|pair| &pair["to"]).collect();
            assert_eq!(ends, ["x/one", "x/two"], "{to}: {json:#}");
        }
    }
}

#[test]
fn it_does_not_matter_where_each_service_alone_gives_the_same_answer() {
    for (label, code, verdict) in
        [("ver: one", 0, "allow"), ("ver: two", 1, "deny"), ("app: web", 3, "mixed")]
    {
        let services =
            [service("a", "10.96.0.1", label, EXTERNAL), service("b", "10.96.0.2", label, EXTERNAL)];
        let (found, json) = ask("eval", &(PLACE.to_owned() + &services.concat()), "203.0.113.9:80");
        assert_eq!((found, &json["verdict"]), (Some(code), &verdict.into()), "{label}: {json:#}");
        let said = notes(&json);
        assert!(said.contains("svc/x/a and svc/x/b both claim 203.0.113.9:80/tcp"), "{label}: {said}");
    }
}

#[test]
fn one_of_them_may_have_no_endpoint() {
    for (label, code, verdict) in [("ver: one", 3, "undefined"), ("ver: two", 1, "deny")] {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let services = [
                service(first, "10.96.0.1", label, EXTERNAL),
                service(second, "10.96.0.2", "app: nobody", EXTERNAL),
            ];
            let (found, json) = ask("eval", &(PLACE.to_owned() + &services.concat()), "203.0.113.9:80");
            assert_eq!((found, &json["verdict"]), (Some(code), &verdict.into()), "{label}: {json:#}");
        }
    }
}

#[test]
fn other_ports_of_one_address_are_no_clash() {
    let other = EXTERNAL.replace("port: 80,", "port: 81,");
    let services =
        [service("a", "10.96.0.1", "ver: one", EXTERNAL), service("b", "10.96.0.2", "ver: two", &other)];
    let text = PLACE.to_owned() + &services.concat();
    for (to, code) in [("203.0.113.9:80", 0), ("203.0.113.9:81", 1)] {
        let (found, json) = ask("eval", &text, to);
        assert_eq!(found, Some(code), "{to}: {json:#}");
        assert!(!notes(&json).contains("claim"), "{to}: {json:#}");
    }
}

#[test]
fn lists_say_whose_address_it_is_too() {
    for (text, to) in clashes("a", "b").into_iter().filter(|(_, to)| to.ends_with(":80")) {
        let run = netlab_reading(&text, &["policy", "connections", "-f", "-", "--to", to]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let said = format!("svc/x/a and svc/x/b both claim {to}/tcp");
        assert!(run.stderr.contains(&said), "{}", run.stderr);
    }
}

#[test]
fn a_kernel_contradicts_nothing_that_is_open() {
    if !root_or_skip("a_kernel_contradicts_nothing_that_is_open") {
        return;
    }
    for (text, to) in clashes("b", "a") {
        let (code, json) = ask("prove", &text, to);
        assert_eq!((code, &json["outcome"]), (Some(3), &"inconclusive".into()), "{to}: {json:#}");
        let undefined = json["undefined"].as_str().unwrap_or_default();
        assert!(undefined.contains("svc/x/a and svc/x/b both claim"), "{to}: {json:#}");
        let all = std::iter::once(&json).chain(json["others"].as_array().into_iter().flatten());
        let mut observed: Vec<_> = all.map(|proof| proof["observed"].as_str().unwrap_or("nothing")).collect();
        observed.sort_unstable();
        assert_eq!(observed, ["allow", "deny"], "each is led to in turn, {to}: {json:#}");
    }
}
