//! Services as ends: what is asked is what is behind them.

use crate::run::{netlab, netlab_reading, root_or_skip};

/// A Service whose port is another on its pods, and by name a different one on each.
const BEHIND: &str = "apiVersion: v1
kind: Pod
metadata: {name: a, namespace: x, labels: {app: a}}
spec: {containers: [{name: c, ports: [{name: web, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: x, labels: {app: a}}
spec: {containers: [{name: c, ports: [{name: web, containerPort: 9090}]}]}
status: {podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: x}
spec: {containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.3}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: x}
spec:
  clusterIP: 10.96.0.1
  selector: {app: a}
  ports: [{name: http, port: 80, targetPort: web}, {name: admin, port: 81, targetPort: 7000}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a, namespace: x}
spec:
  podSelector: {matchLabels: {app: a}}
  ingress: [{ports: [{port: 8080}]}]
";

const SLICE: &str = "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, namespace: x, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], conditions: {ready: true}}
- {addresses: [10.0.0.2], conditions: {ready: false}}
";

fn eval(text: &str, port: &str) -> (Option<i32>, serde_json::Value, String) {
    let question =
        ["policy", "eval", "-f", "-", "--from", "x/client", "--to", "svc/x/s", "--port", port, "-o", "json"];
    let run = netlab_reading(text, &question);
    (run.code, serde_json::from_str(&run.stdout).expect("JSON"), run.stderr)
}

#[test]
fn the_port_may_stand_behind_the_service() {
    let asked = |to: &str, more: &[&str]| {
        let question = ["policy", "eval", "-f", "-", "--from", "x/client", "--to", to, "-o", "json"];
        let run = netlab_reading(BEHIND, &[&question, more].concat());
        (run.code, run.stdout, run.stderr)
    };
    let (code, json, _) = asked("svc/x/s", &["--port", "http"]);
    assert_eq!(code, Some(3), "{json}");
    for (to, more) in [("svc/x/s:http", &[][..]), ("svc/x/s:http/tcp", &["--port", "http/tcp"])] {
        let (code, same, stderr) = asked(to, more);
        assert_eq!((code, same.as_str(), stderr.as_str()), (Some(3), json.as_str(), ""), "{to}");
    }
    let (code, _, stderr) = asked("svc/x/s:http", &["--port", "81"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("the port is http in `svc/x/s:http`, and 81 by itself"), "{stderr}");
}

#[test]
fn lists_and_claims_take_the_port_behind_the_service_too() {
    let list = |more: &[&str]| {
        let question = ["policy", "connections", "-f", "-", "--external", "off"];
        netlab_reading(BEHIND, &[&question, more].concat())
    };
    let (behind, alone) = (list(&["--to", "svc/x/s:http"]), list(&["--to", "svc/x/s", "--port", "http"]));
    assert_eq!((behind.code, behind.stdout.as_str()), (Some(0), alone.stdout.as_str()), "{}", behind.stderr);
    assert!(behind.stdout.contains("x/a"), "{}", behind.stdout);
    assert_ne!(behind.stdout, list(&["--to", "svc/x/s:admin"]).stdout);
    assert_eq!(list(&["--to", "svc/x/s:http", "--port", "81"]).code, Some(2));

    let directory = tempfile::tempdir().expect("a directory");
    let tried = |claim: &str| {
        let claims = directory.path().join("claims.yaml");
        let text = format!("apiVersion: netlab.dev/v1\nkind: Claims\nclaims:\n- {claim}\n");
        std::fs::write(&claims, text).expect("written");
        netlab_reading(BEHIND, &["policy", "test", "-f", "-", claims.to_str().expect("UTF-8")])
    };
    let held = tried("{from: x/client, to: '10.0.0.1:8080', expect: allow}");
    assert_eq!(held.code, Some(0), "{}{}", held.stdout, held.stderr);
    let wrong = tried("{from: x/client, to: '10.0.0.1:8081', expect: allow}");
    assert_eq!(wrong.code, Some(1), "{}{}", wrong.stdout, wrong.stderr);
    let twice = tried("{from: x/client, to: '10.0.0.1:8080', port: 8081, expect: allow}");
    assert_eq!(twice.code, Some(2), "{}{}", twice.stdout, twice.stderr);
    assert!(twice.stderr.contains("claims.yaml:4:"), "{}", twice.stderr);
}

#[test]
fn each_endpoint_has_its_own_port_and_verdict() {
    let (code, json, _) = eval(BEHIND, "http");
    assert_eq!((code, &json["verdict"]), (Some(3), &"mixed".into()));
    let endpoints: Vec<_> = json["endpoints"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| format!("{} {} {} {}", one["endpoint"], one["address"], one["port"], one["verdict"]))
        .collect();
    let expected = [r#""x/a" "10.0.0.1" 8080 "allow""#, r#""x/b" "10.0.0.2" 9090 "deny""#];
    assert_eq!(endpoints, expected);
    assert!(json["notes"][0].as_str().expect("a note").contains("port 80 of svc/x/s is port 8080 or 9090"));
    assert_eq!(eval(BEHIND, "81").0, Some(1), "a number is the same on both");
}

#[test]
fn slices_of_the_input_decide_where_there_are_some() {
    let with_slice = format!("{BEHIND}{SLICE}");
    let (code, json, _) = eval(&with_slice, "http");
    assert_eq!((code, json["endpoints"].as_array().map(Vec::len)), (Some(0), Some(1)));
    let (code, json, _) = eval(&with_slice, "admin");
    assert_eq!((code, &json["verdict"]), (Some(3), &"undefined".into()));
    assert!(json["notes"][0].as_str().expect("a note").contains("no endpoint"), "{json}");
}

#[test]
fn the_ports_of_the_pods_are_no_ports_of_the_service() {
    let (code, json, _) = eval(BEHIND, "7000");
    assert_eq!(code, Some(2));
    let text = json.to_string();
    assert!(text.contains("has no port 7000") && text.contains("--port 81/tcp"), "{text}");
}

#[test]
fn connections_to_a_service_are_those_to_its_pods() {
    let run = netlab(["policy", "connections", "-f", "examples/shop", "--to", "svc/shop/api", "-o", "csv"]);
    assert_eq!(run.stdout, "from,to,allowed\nshop/web[Deployment],shop/api[Deployment],TCP 8080\n");
    assert_eq!(run.code, Some(0));
}

/// A port that the Service has on one pod only is not listed of another.
#[test]
fn connections_to_a_service_are_those_to_the_port_of_each_pod() {
    let question = ["policy", "connections", "-f", "-", "--to", "svc/x/s", "--external", "off", "-o", "csv"];
    let run = netlab_reading(BEHIND, &question);
    assert_eq!(run.stdout, "from,to,allowed\nx/b[Pod],x/a[Pod],TCP 8080\nx/client[Pod],x/a[Pod],TCP 8080\n");
}

const ALIASES: &str = "---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: x}
spec: {type: ExternalName, externalName: db.example.org, ports: [{port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: inside, namespace: x}
spec: {type: ExternalName, externalName: s.x.svc.cluster.local.}
---
apiVersion: v1
kind: Service
metadata: {name: bare, namespace: x}
spec: {clusterIP: None, selector: {app: a}, ports: [{port: 80}]}
";

/// A policy cannot know what a name leads to: nobody is told that it may or may not be reached, but what to ask instead.
#[test]
fn an_alias_has_no_verdict_and_says_what_to_ask() {
    let text = format!("{BEHIND}{ALIASES}");
    for (name, wanted) in [
        (
            "outside",
            "DNS answers with db.example.org, and policies judge what that name leads to; ask about one of its",
        ),
        (
            "inside",
            "DNS answers with s.x.svc.cluster.local., and policies judge what that name leads to; ask about svc/x/s",
        ),
    ] {
        for command in ["eval", "prove"] {
            let to = format!("svc/x/{name}");
            let run = netlab_reading(
                &text,
                &["policy", command, "-f", "-", "--from", "x/client", "--to", &to, "--port", "5432"],
            );
            let said = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{said}");
            assert!(said.contains(wanted), "{command} {name}: {said}");
        }
    }
    for (name, wanted) in [
        (
            "outside",
            "no proxy has rules for x/outside: it is of type ExternalName: DNS answers with db.example.org",
        ),
        ("bare", "no proxy has rules for x/bare: it is headless"),
    ] {
        let service = format!("x/{name}");
        let run = netlab_reading(
            &text,
            &["service", "trace", &service, "-f", "-", "--iptables-save", "examples/broken/ok.save"],
        );
        let said = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{said}");
        assert!(said.contains(wanted), "{name}: {said}");
        let run = netlab_reading(&text, &["service", "endpoints", &service, "-f", "-"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.starts_with(&format!("no proxy handles x/{name}: it is ")), "{run:?}");
    }
}

const BY_ADDRESS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: x}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {podCIDRs: [10.0.0.0/24, 'fd00:0:0:1::/64']}
status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {podCIDRs: [10.0.1.0/24, 'fd00:0:0:2::/64']}
status: {addresses: [{type: InternalIP, address: 192.168.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: x, labels: {app: client}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.0.0.2}, {ip: 'fd00:0:0:1::2'}], conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: here, namespace: x, labels: {app: web, version: one}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.0.0.3}, {ip: 'fd00:0:0:1::3'}], conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: there, namespace: x, labels: {app: web, version: two}}
spec: {nodeName: n2, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.0.1.3}, {ip: 'fd00:0:0:2::3'}], conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: x}
spec:
  type: LoadBalancer
  clusterIPs: [10.96.0.7, 'fd00:96::7']
  ipFamilyPolicy: RequireDualStack
  internalTrafficPolicy: Local
  loadBalancerSourceRanges: [203.0.113.0/24, 10.0.0.0/8]
  externalIPs: [198.51.100.7]
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 198.51.100.8}]}}
";
const TO_ONE: &str = "
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p, namespace: x}
spec:
  podSelector: {matchLabels: {app: client}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {version: one}}}, {ipBlock: {cidr: 192.168.0.0/24}}]}]
";

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|one| (*one).to_owned()).collect()
}

/// What is asked, and where each packet of it comes out with which verdict.
fn by_address(more: &str, from: &str, to: &str) -> (String, Vec<String>, String) {
    let text = format!("{BY_ADDRESS}{more}");
    let run = netlab_reading(&text, &["policy", "eval", "-f", "-", "--from", from, "--to", to, "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let packets = json["pairs"].as_array().into_iter().flatten();
    let packets = packets.map(|one| format!("{} {}", one["destination"], one["verdict"]).replace('"', ""));
    (json["verdict"].to_string().replace('"', ""), packets.collect(), json["notes"].to_string())
}

/// `internalTrafficPolicy` is about cluster IPs alone: pods that ask by another address are led to all endpoints.
#[test]
fn the_address_decides_which_endpoints_and_which_family_are_asked() {
    let all = ["10.0.0.3 allow", "10.0.1.3 deny"];
    for (from, to, verdict, packets) in [
        ("x/client", "svc/x/web:80", "allow", &["10.0.0.3 allow", "fd00:0:0:1::3 allow"][..]),
        ("x/client", "10.96.0.7:80", "allow", &["10.0.0.3 allow"]),
        ("x/client", "[fd00:96::7]:80", "allow", &["fd00:0:0:1::3 allow"]),
        ("x/client", "198.51.100.7:80", "mixed", &all),
        ("x/client", "198.51.100.8:80", "mixed", &all),
        ("x/client", "192.168.0.1:30080", "mixed", &all),
        ("fd00:0:0:1::2", "10.96.0.7:80", "undefined", &[]),
    ] {
        let (found, sent, notes) = by_address(TO_ONE, from, to);
        assert_eq!((found.as_str(), sent.as_slice()), (verdict, owned(packets).as_slice()), "{to}: {notes}");
    }
}

/// Proxies drop who is outside of a balancer's ranges before any policy is asked, pods and nodes too.
#[test]
fn who_is_outside_of_a_balancer_s_ranges_gets_no_verdict_but_the_reason() {
    let narrow = BY_ADDRESS.replace("[203.0.113.0/24, 10.0.0.0/8]", "[203.0.113.0/24]");
    let ask = |text: &str, from: &str, to: &str| {
        let run =
            netlab_reading(text, &["policy", "eval", "-f", "-", "--from", from, "--to", to, "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        (json["verdict"].to_string().replace('"', ""), json["notes"].to_string())
    };
    for (from, to, verdict, said) in [
        ("203.0.113.1", "198.51.100.8:80", "allow", None),
        ("198.18.0.1", "198.51.100.8:80", "undefined", Some("proxies drop what comes from 198.18.0.1")),
        ("x/client", "198.51.100.8:80", "undefined", Some("proxies drop what comes from 10.0.0.2")),
        ("198.18.0.1", "198.51.100.7:80", "allow", None),
        ("x/client", "10.96.0.7:80", "allow", None),
    ] {
        let (found, notes) = ask(&narrow, from, to);
        assert_eq!(found, verdict, "{from} {to}: {notes}");
        assert_eq!(said.map(|said| notes.contains(said)), said.map(|_| true), "{from} {to}: {notes}");
        assert_eq!(said.is_some(), notes.contains("loadBalancerSourceRanges"), "{from} {to}: {notes}");
    }
    let (found, notes) = ask(BY_ADDRESS, "x/client", "198.51.100.8:80");
    assert!(!notes.contains("loadBalancerSourceRanges"), "it is within 10.0.0.0/8: {notes}");
    assert_ne!(found, "deny");
    let chosen = narrow.replace("podIPs: [{ip: 10.0.0.2}, {ip: 'fd00:0:0:1::2'}], ", "");
    let (found, notes) = ask(&chosen, "x/client", "198.51.100.8:80");
    assert_eq!(found, "undefined", "{notes}");
    assert!(notes.contains("the address of x/client is not in the input"), "{notes}");
    let v6 = narrow.replace("ingress: [{ip: 198.51.100.8}]", "ingress: [{ip: '2001:db8::8'}]");
    let (found, notes) = ask(&v6, "2001:db8:1::1", "[2001:db8::8]:80");
    assert_eq!(found, "allow", "ranges of one family say nothing of the other: {notes}");
}

/// Under `externalTrafficPolicy: Cluster` policies of the endpoints see a node and not the client, whom they may admit.
#[test]
fn a_client_outside_behind_a_balancer_is_not_judged_by_its_own_address() {
    let admits = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: x}\n\
        spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: 203.0.113.0/24}}]}]}\n";
    for to in ["198.51.100.8:80", "198.51.100.7:80"] {
        let (verdict, _, notes) = by_address(admits, "203.0.113.1", to);
        assert_eq!(verdict, "undefined", "{to}: {notes}");
        assert!(notes.contains("externalTrafficPolicy Cluster"), "{to}: {notes}");
        let (verdict, _, notes) = by_address("", "203.0.113.1", to);
        assert_eq!(verdict, "allow", "no policy sees it: {notes}");
    }
    let local = BY_ADDRESS
        .replace("  type: LoadBalancer\n", "  type: LoadBalancer\n  externalTrafficPolicy: Local\n");
    let question =
        ["policy", "eval", "-f", "-", "--from", "203.0.113.1", "--to", "198.51.100.8:80", "-o", "json"];
    let run = netlab_reading(&format!("{local}{admits}"), &question);
    assert!(run.stdout.contains("\"verdict\": \"allow\",\n  \"egress\""), "{}", run.stdout);
}

/// Who is no pod and asks by a cluster IP is masqueraded, too.
#[test]
fn a_client_outside_behind_a_cluster_ip_is_not_judged_by_its_own_address() {
    let admits = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: x}\n\
        spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: 203.0.113.0/24}}]}]}\n";
    for (from, to, verdict) in [
        ("203.0.113.1", "10.96.0.7:80", "undefined"),
        ("203.0.113.1", "svc/x/web:80", "undefined"),
        ("2001:db8::1", "[fd00:96::7]:80", "undefined"),
        // Its own address is what a pod's peer sees, whether the input knows the pod or not.
        ("10.0.0.99", "10.96.0.7:80", "deny"),
        ("x/client", "10.96.0.7:80", "deny"),
        ("203.0.113.1", "10.0.0.3:8080", "allow"),
    ] {
        let (found, _, notes) = by_address(admits, from, to);
        assert_eq!(found, verdict, "{from} {to}: {notes}");
        let said = notes.contains("the cluster IP of svc/x/web");
        assert_eq!(said, verdict == "undefined", "{from} {to}: {notes}");
    }
    let (verdict, _, notes) = by_address("", "203.0.113.1", "10.96.0.7:80");
    assert_eq!(verdict, "allow", "no policy sees it: {notes}");
}

fn headless() -> String {
    let text = BY_ADDRESS
        .replace("  type: LoadBalancer\n  clusterIPs: [10.96.0.7, 'fd00:96::7']\n", "  clusterIP: None\n")
        .replace(", nodePort: 30080", "")
        .replace(
            "  loadBalancerSourceRanges: [203.0.113.0/24, 10.0.0.0/8]\n  externalIPs: [198.51.100.7]\n",
            "",
        );
    text.split("status: {loadBalancer").next().expect("a text").to_owned()
}

/// Its name leads to the pods, so a number is a port of theirs, whatever `targetPort` says.
#[test]
fn a_headless_service_translates_no_port() {
    // Its port 80 has targetPort 8080, and web's pods are open at 8080 alone, then at 80 alone.
    let admits = |port: u16| {
        format!(
            "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: one, namespace: x}}\nspec: {{podSelector: {{matchLabels: {{app: web}}}}, ingress: [{{ports: [{{port: {port}}}]}}]}}\n"
        )
    };
    for (open, to, verdict, said) in [
        (
            8080,
            "80",
            "deny",
            "nothing translates its port 80, so asked is port 80 of its pods; its targetPort is 8080",
        ),
        (80, "80", "allow", "nothing translates its port 80"),
        (8080, "8080", "allow", "has no port 8080/tcp; it is headless"),
        (8080, "8080", "allow", "which is the targetPort of its port 80"),
        (80, "8080", "deny", "asked is port 8080 of them"),
        (8080, "9999", "deny", "asked is port 9999 of them"),
    ] {
        let text = headless() + &admits(open);
        let to_port = format!("svc/x/web:{to}");
        let ends = ["--from", "x/client", "--to", &to_port];
        let ask = |command: &str, more: &[&str]| {
            let head = ["policy", command, "-f", "-"];
            netlab_reading(&text, &[&head[..], &ends, more].concat())
        };
        let run = ask("eval", &["-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(json["verdict"], verdict, "{open} {to}: {}", run.stdout);
        assert!(json["notes"].to_string().contains(said), "{open} {to}: {}", json["notes"]);
        let proof = ask("prove", &["--backend", "none", "--allow-simulated"]);
        assert!(
            proof.stdout.contains(&format!(" {verdict}")),
            "{open} {to}: {}{}",
            proof.stdout,
            proof.stderr
        );
        let list = ask("connections", &["--external", "off"]);
        assert_eq!(
            list.stdout.contains(&format!("TCP {to}\n")),
            verdict == "allow",
            "{open} {to}: {}",
            list.stdout
        );
        assert!(list.stderr.contains(said), "{open} {to}: {}", list.stderr);
    }
    // Both, where no port is named.
    let text = headless() + &admits(80);
    let run = netlab_reading(
        &text,
        &["policy", "connections", "-f", "-", "--external", "off", "--from", "x/client", "--to", "svc/x/web"],
    );
    assert!(run.stdout.contains("TCP 80\n"), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("nothing keeps clients to its ports"), "{}", run.stderr);
}

/// By its name a port is the one that SRV records name.
#[test]
fn a_named_port_of_a_headless_service_is_the_pods_own() {
    let text = headless().replace("ports: [{port: 80", "ports: [{name: http, port: 80");
    assert!(text.contains("name: http"), "{text}");
    let run = netlab_reading(
        &text,
        &["policy", "eval", "-f", "-", "--from", "x/client", "--to", "svc/x/web:http", "-o", "json"],
    );
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let notes = json["notes"].to_string();
    assert!(
        notes.contains("asked is port 8080 of its pods, which the SRV records of its port http name"),
        "{notes}"
    );
}

/// Another node leads on from its port to endpoints, and nobody asked their policies.
#[test]
fn a_node_port_of_another_node_is_never_simply_allowed() {
    for from in ["x/client", "203.0.113.1"] {
        let (verdict, _, notes) = by_address(TO_ONE, from, "192.168.0.2:30080");
        assert_eq!(verdict, "undefined", "{from}: {notes}");
        assert!(notes.contains("port 30080 of node n2 is a node port of svc/x/web"), "{notes}");
    }
    let (verdict, ..) = by_address(TO_ONE, "x/client", "192.168.0.2:30081");
    assert_eq!(verdict, "allow", "any other port of the node is the node's own");
    let closed = TO_ONE.replace(", {ipBlock: {cidr: 192.168.0.0/24}}", "");
    let (verdict, ..) = by_address(&closed, "x/client", "192.168.0.2:30080");
    assert_eq!(verdict, "deny", "what does not leave the pod is led nowhere");
}

/// Several Services at one address are told apart by their ports; a node's address may be a balancer's or an external one.
#[test]
fn whose_an_address_is_depends_on_the_port() {
    const MORE: &str = "---
apiVersion: v1
kind: Service
metadata: {name: names, namespace: x}
spec: {type: LoadBalancer, clusterIP: 10.96.0.8, selector: {app: web}, ports: [{port: 53, protocol: UDP}]}
status: {loadBalancer: {ingress: [{ip: 198.51.100.8}, {ip: 192.168.0.2}, {ip: 198.51.100.20, ipMode: Proxy}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p, namespace: x}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 203.0.113.0/24}}]}]}
";
    for (from, to, verdict, said) in [
        ("203.0.113.1", "198.51.100.8:53/udp", "undefined", "an address of svc/x/names"),
        ("203.0.113.1", "198.51.100.8:80", "undefined", "an address of svc/x/web"),
        ("198.51.100.99", "192.168.0.2:53/udp", "undefined", "an address of svc/x/names"),
        // As any other port of the node.
        ("198.51.100.99", "192.168.0.2:53/tcp", "allow", ""),
        ("x/client", "192.168.0.2:53/udp", "undefined", "an address of svc/x/names"),
        // Nobody knows from where such a balancer goes on.
        ("x/client", "198.51.100.20:53/udp", "undefined", "ends connections itself"),
        ("x/client", "198.51.100.20:54/udp", "allow", ""),
    ] {
        let (found, _, notes) = by_address(MORE, from, to);
        assert_eq!(found, verdict, "{from} {to}: {notes}");
        assert!(notes.contains(said), "{from} {to}: {notes}");
    }
}

/// Before the API server gave it one, a Service has no cluster IP: clients outside are masqueraded there all the same.
#[test]
fn a_service_without_an_address_yet_is_no_way_past_the_node() {
    let text = BY_ADDRESS.replace("  clusterIPs: [10.96.0.7, 'fd00:96::7']\n", "")
        + "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: x}\n\
           spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 203.0.113.0/24}}]}]}\n";
    for (from, verdict) in [("203.0.113.1", "undefined"), ("198.51.100.9", "undefined"), ("x/client", "deny")]
    {
        let question = ["policy", "eval", "-f", "-", "--from", from, "--to", "svc/x/web:80", "-o", "json"];
        let run = netlab_reading(&text, &question);
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(json["verdict"], verdict, "{from}: {json:#}");
        let notes = json["notes"].to_string();
        assert!(notes.contains("has no cluster IP in the input"), "{notes}");
        assert!(notes.contains("internalTrafficPolicy Local"), "{notes}");
    }
}

/// The node itself, and pods with its network: its own proxy decides to which endpoints they are led, and a node port at the
/// loopback is a matter of the proxy's settings.
#[test]
fn a_node_is_led_by_its_own_proxy() {
    const HOST: &str = "---
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: x}
spec: {nodeName: n1, hostNetwork: true, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 192.168.0.1}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: two, namespace: x}
spec: {podSelector: {matchLabels: {version: two}}, ingress: []}
";
    for from in ["node/n1", "x/host", "192.168.0.1"] {
        // internalTrafficPolicy Local: never the endpoint of the other node.
        let (verdict, packets, notes) = by_address(HOST, from, "10.96.0.7:80");
        assert_eq!((verdict.as_str(), packets), ("allow", owned(&["10.0.0.3 allow"])), "{from}: {notes}");
        let (verdict, _, notes) = by_address(HOST, from, "127.0.0.1:30080");
        assert_eq!(verdict, "undefined", "{from}: {notes}");
        assert!(notes.contains("--iptables-localhost-nodeports"), "{from}: {notes}");
        let (verdict, ..) = by_address(HOST, from, "127.0.0.1:30081");
        assert_eq!(verdict, "allow", "{from}: no node port");
    }
    // Counted as local, so past externalTrafficPolicy Local to all endpoints.
    let both = ["10.0.0.3 allow", "10.0.1.3 deny"];
    let (verdict, packets, notes) = by_address(HOST, "node/n1", "198.51.100.7:80");
    assert_eq!((verdict.as_str(), packets), ("mixed", owned(&both)), "{notes}");
    // A pod's loopback is its own.
    let (verdict, ..) = by_address(HOST, "x/client", "127.0.0.1:30080");
    assert_eq!(verdict, "allow");
}

#[test]
fn each_address_of_a_service_is_proved() {
    if !root_or_skip("each_address_of_a_service_is_proved") {
        return;
    }
    let text = format!("{BY_ADDRESS}{TO_ONE}");
    for proxy in ["nftables", "iptables"] {
        for (to, said) in [("198.51.100.8:80", "PROVED mixed"), ("10.96.0.7:80", "PROVED allow")] {
            let question = ["policy", "prove", "-f", "-", "--from", "x/client", "--to", to, "--proxy", proxy];
            let run = netlab_reading(&text, &question);
            assert!(run.stdout.starts_with(said), "{to} {proxy}: {}{}", run.stdout, run.stderr);
        }
    }
}

/// A node's addresses after the first of a family have node ports in iptables mode alone, where nobody says otherwise.
#[test]
fn a_node_port_beside_the_primary_address_is_said_to_depend_on_the_proxy() {
    let world = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: ExternalIP, address: 203.0.113.1}, {type: InternalIP, address: 192.168.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: t}
spec: {nodeName: n1}
status: {podIP: 10.244.0.1, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: t, labels: {app: b}}
spec: {nodeName: n1}
status: {podIP: 10.244.0.2, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: b, namespace: t}
spec: {type: NodePort, clusterIP: 10.96.0.6, selector: {app: b}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
";
    let note = "203.0.113.1 is not the primary address of node n1 (192.168.0.1)";
    for (address, port, told) in
        [("203.0.113.1", "30080", true), ("192.168.0.1", "30080", false), ("10.96.0.6", "80", false)]
    {
        let question =
            ["policy", "eval", "-f", "-", "--from", "pod/t/a", "--to", address, "--port", port, "-o", "json"];
        let run = netlab_reading(world, &question);
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!((&json["verdict"], run.code), (&serde_json::json!("allow"), Some(0)), "{}", run.stdout);
        assert_eq!(json["notes"].to_string().contains(note), told, "{address}: {}", json["notes"]);
    }
}
