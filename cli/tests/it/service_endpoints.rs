//! What proxies do with Services, as users ask it.

use std::fs;

use crate::run::{netlab, netlab_reading, root};

const SERVICES: [&str; 4] = ["web", "web-local", "web-outside", "web-close"];

/// The table that `examples/service-prediction` ships: every Service of it, on every node.
#[test]
fn the_prediction_is_the_one_that_is_shipped() {
    let mut predicted = String::new();
    for service in SERVICES {
        let name = format!("mynet/{service}");
        let run = netlab(["service", "endpoints", "-f", "examples/service-prediction", &name]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{service}");
        predicted +=
            &format!("$ netlab service endpoints -f examples/service-prediction {name}\n{}\n", run.stdout);
    }
    let path = root().join("examples/service-prediction/predicted.txt");
    if std::env::var_os("NETLAB_BLESS").is_some() {
        fs::write(&path, &predicted).expect("written");
    }
    let shipped = fs::read_to_string(&path).expect("it is shipped");
    assert_eq!(shipped, predicted, "run with NETLAB_BLESS=1 if the change is wanted");
}

#[test]
fn json_has_the_node_s_ports_at_the_top() {
    let ask = |service: &str, node: &[&str]| {
        let question = ["service", "endpoints", "-f", "examples/service-prediction", service, "-o", "json"];
        let run = netlab(question.iter().chain(node));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        serde_json::from_str::<serde_json::Value>(&run.stdout).expect("JSON")
    };
    let worker = ask("mynet/web-outside", &["--node", "worker"]);
    assert_eq!((&worker["kind"], &worker["node"]), (&"ServiceEndpoints".into(), &"worker".into()));
    let port = &worker["ports"][0];
    assert_eq!(
        [&port["service"], &port["port"], &port["protocol"], &port["mode"]],
        ["mynet/web-outside", "http", "TCP", "all"]
    );
    let count = |field: &str| port[field].as_array().map(Vec::len);
    assert_eq!((count("cluster"), count("local"), count("reachable")), (Some(6), Some(2), Some(6)));
    assert!(port["reason"].as_str().is_some_and(|why| why.contains("never none")));
    let all = ask("mynet/web-outside", &[]);
    let local: Vec<Option<usize>> = all["nodes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|node| node["ports"][0]["local"].as_array().map(Vec::len))
        .collect();
    assert_eq!(local, [Some(4), Some(2)], "each node has its own");
}

#[test]
fn what_does_not_answer_is_exit_1_and_says_how() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("s.yaml");
    let world = "apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: t, labels: {app: p}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Service
metadata: {name: here, namespace: t}
spec: {clusterIP: 10.96.0.1, selector: {app: p}, internalTrafficPolicy: Local, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody, namespace: t}
spec: {clusterIP: 10.96.0.2, selector: {app: q}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: by-hand, namespace: t}
spec: {clusterIP: 10.96.0.3, ports: [{port: 80}]}
";
    fs::write(&file, world).expect("written");
    let path = file.to_str().expect("UTF-8");
    for (service, node, code, said) in [
        ("t/here", "n1", 0, "internalTrafficPolicy Local"),
        ("t/here", "n2", 1, "10.96.0.1:80 dropped, no endpoint of the node can answer"),
        ("t/nobody", "n1", 1, "10.96.0.2:80 refused, no endpoint can answer anywhere"),
        ("t/by-hand", "n1", 3, "it has no selector"),
    ] {
        let run = netlab(["service", "endpoints", "-f", path, service, "--node", node]);
        assert_eq!(run.code, Some(code), "{service} {node}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains(said), "{service} {node}: {}", run.stdout);
    }
    for (arguments, said) in [
        (["t/her", "--node", "n1"], "did you mean `svc/t/here`"),
        (["t/here", "--node", "n3"], "did you mean"),
        (["pod/p", "--node", "n1"], "is no Service"),
    ] {
        let run = netlab(["service", "endpoints", "-f", path].iter().chain(&arguments));
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn a_service_that_is_not_there_is_answered_with_those_that_are() {
    let hint = |name: &str| {
        let run = netlab(["service", "endpoints", "-f", "examples/service-prediction", name]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        run.stderr
    };
    assert!(hint("web").contains("no Service `default/web` in the input"));
    for elsewhere in ["web", "other/web"] {
        assert!(hint(elsewhere).contains("did you mean `svc/mynet/web`"), "{}", hint(elsewhere));
    }
    let all = hint("nothing/alike-at-all");
    assert!(all.contains("there are `mynet/web`, `mynet/web-close`"), "{all}");
}

/// What is easily overlooked in slices is said, each once.
#[test]
fn what_nearly_matches_is_said() {
    let answer = |service: &str, ports: &str, endpoints: &str| {
        let text = format!(
            "apiVersion: v1
kind: Node
metadata: {{name: n1}}
---
apiVersion: v1
kind: Node
metadata: {{name: n2}}
---
apiVersion: v1
kind: Service
metadata: {{name: s, namespace: t}}
spec: {{clusterIP: 10.96.0.1, {service}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: s-1, namespace: t, labels: {{kubernetes.io/service-name: s}}}}
addressType: IPv4
ports: [{ports}]
endpoints: [{endpoints}]
"
        );
        let run = netlab_reading(&text, &["service", "endpoints", "t/s", "-f", "-"]);
        let words = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        (run.code, words)
    };
    let http = "ports: [{name: http, port: 80}]";
    let one = "{addresses: [10.244.1.1], nodeName: n1}";
    let dns = "{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}";
    let local = format!("internalTrafficPolicy: Local, ports: [{dns}]");
    let ending = "{addresses: [10.244.1.1], nodeName: n1, conditions: {ready: false, serving: true, terminating: true}}";
    let on_n2 = "{addresses: [10.244.2.1], nodeName: n2, hints: {forNodes: [{name: n2}]}}";
    for (service, ports, endpoints, code, said) in [
        (
            http,
            "{name: http, port: 8080, protocol: UDP}",
            one,
            1,
            "the port of this name in slice s-1 is UDP, not TCP",
        ),
        (
            http,
            "{name: web, port: 8080}",
            one,
            1,
            "proxies go by a port's name, and slice s-1 has the name web",
        ),
        (http, "{port: 8080}", one, 1, "proxies go by a port's name, and slice s-1 has no name"),
        (&local, dns, "{addresses: [10.244.1.1]}", 1, "every node: 10.96.0.1:53 UDP dropped"),
        (&local, dns, one, 1, "n2: 10.96.0.1:53 TCP dropped"),
        (
            &local,
            dns,
            ending,
            1,
            "of the node's own endpoints none is ready: those that are ending and still answer are used",
        ),
        (
            http,
            "{name: http, port: 80}",
            on_n2,
            0,
            "n1: no ready endpoint is meant for node n1, and none has a zone hint",
        ),
    ] {
        let (found, text) = answer(service, ports, endpoints);
        assert_eq!(found, Some(code), "{service} {ports}: {text}");
        assert!(text.contains(said), "{service} {ports}: {text}");
    }
}

/// A sidecar's named port is one of the pod's, for Services and for policies.
#[test]
fn a_sidecar_s_port_is_known_to_services_and_policies() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("s.yaml");
    let world = |restart: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: n1}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: t, labels: {{app: web}}}}\n\
             spec: {{nodeName: n1, containers: [{{name: c}}], initContainers: [{{name: proxy{restart}, ports: [{{name: http, containerPort: 15001}}]}}]}}\n\
             status: {{podIP: 10.0.0.1}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: client, namespace: t}}\nspec: {{nodeName: n1}}\nstatus: {{podIP: 10.0.0.2}}\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: t}}\nspec: {{clusterIP: 10.96.0.1, selector: {{app: web}}, ports: [{{port: 80, targetPort: http}}]}}\n---\n\
             apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: http, namespace: t}}\n\
             spec: {{podSelector: {{matchLabels: {{app: web}}}}, policyTypes: [Ingress], ingress: [{{ports: [{{port: http}}]}}]}}\n"
        )
    };
    let file_name = file.to_str().expect("UTF-8");
    for (restart, verdict, shown) in
        [(", restartPolicy: Always", 0, "10.0.0.1:15001"), ("", 1, "it has no endpoint at all")]
    {
        fs::write(&file, world(restart)).expect("written");
        let run = netlab(["policy", "eval", "-f", file_name, "--from", "t/client", "--to", "t/web:15001"]);
        assert_eq!(run.code, Some(verdict), "{restart}: {}{}", run.stdout, run.stderr);
        let run = netlab(["service", "endpoints", "-f", file_name, "t/web", "-o", "json"]);
        assert_eq!(run.code, Some(verdict), "{}", run.stdout);
        assert!(run.stdout.contains(shown), "{restart}: {}", run.stdout);
    }
}

#[test]
fn who_may_come_to_a_balancer_is_said() {
    let world = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: t}\n\
        spec: {type: LoadBalancer, clusterIP: 10.96.0.1, loadBalancerSourceRanges: [203.0.113.0/24, '2001:db8::/32'], ports: [{port: 80, nodePort: 30080}]}\n\
        status: {loadBalancer: {ingress: [{ip: 198.51.100.7}]}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
        metadata: {name: web-1, namespace: t, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{name: '', port: 80}]\nendpoints: [{addresses: [10.0.0.1]}]\n";
    let question = ["service", "endpoints", "-f", "-", "t/web"];
    let run = netlab_reading(world, &question);
    let text = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "only for 203.0.113.0/24 (loadBalancerSourceRanges), others are dropped, pods too";
    assert_eq!((run.code, text.matches(said).count()), (Some(0), 1), "{}", run.stdout);
    let run = netlab_reading(world, &[&question[..], &["-o", "json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let ranges: Vec<(&str, &serde_json::Value)> = value["nodes"][0]["ports"][0]["routes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|route| (route["to"].as_str().expect("a kind"), &route["sourceRanges"]))
        .collect();
    let null = serde_json::Value::Null;
    let only = serde_json::json!(["203.0.113.0/24"]);
    assert_eq!(ranges, [("clusterIp", &null), ("nodePort", &null), ("loadBalancer", &only)]);
}

/// One node port of a Service of both families answers in one and refuses in the other: each is said with its family.
#[test]
fn a_node_port_of_both_families_is_told_by_family() {
    let world = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: t}\n\
        spec: {type: NodePort, clusterIPs: [10.96.0.1, 'fd00::1'], ipFamilyPolicy: RequireDualStack, ports: [{port: 80, nodePort: 30080}]}\n---\n\
        apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1, namespace: t, labels: {kubernetes.io/service-name: web}}\n\
        addressType: IPv4\nports: [{name: '', port: 80}]\nendpoints: [{addresses: [10.0.0.1]}]\n";
    let run = netlab_reading(world, &["service", "endpoints", "-f", "-", "t/web"]);
    assert!(run.stdout.contains("30080 IPv4 1 endpoint"), "{}", run.stdout);
    assert!(run.stdout.contains("30080 IPv6 refused"), "{}", run.stdout);
}
