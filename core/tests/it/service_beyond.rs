//! Rules and policies outside of the proxy's chains: FORWARD, INPUT and OUTPUT. What drops packets for certain is told
//! with what clients see, what lets them through is no fault, and what no dump tells is said not to be examined.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::fault::Kind;
use netlab_core::service::follow::{Client, Symptom};
use netlab_core::service::iptables::{dump::parse, emit};
use netlab_core::service::nftables::{Layout, dump, listing};
use netlab_core::service::trace::{Rules, ServiceTrace, Status, trace};
use serde_json::{Value, json};

use crate::service_world::{cluster, options};

/// A Service with a pod and one with a pod that has the node's network.
const WORLD: &str = "
apiVersion: v1
kind: Node
metadata: {name: worker}
status: {addresses: [{type: InternalIP, address: 192.168.0.5}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: t}
spec: {type: NodePort, clusterIP: 10.96.0.1, ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: v1
kind: Service
metadata: {name: host, namespace: t}
spec: {clusterIP: 10.96.0.2, ports: [{port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: t, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: '', port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.1.1], nodeName: worker}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: host-1, namespace: t, labels: {kubernetes.io/service-name: host}}
addressType: IPv4
ports: [{name: '', port: 6443, protocol: TCP}]
endpoints: [{addresses: [192.168.0.5], nodeName: worker}]
";

const OUT: Symptom = Symptom { timeout_share: 1.0, refused_share: 0.0 };
const REFUSED: Symptom = Symptom { timeout_share: 0.0, refused_share: 1.0 };
const NONE: Symptom = Symptom { timeout_share: 0.0, refused_share: 0.0 };

fn ports() -> Vec<ExpectedPort> {
    expected(&cluster(WORLD), "worker", AddressType::Ipv4)
}

/// What each way sees: pods to web and to host, the node itself to both, who is outside to the node port of web.
#[derive(Clone, Copy)]
struct Ways {
    pods: [Symptom; 2],
    node: [Symptom; 2],
    outside: Symptom,
}

const WELL: Ways = Ways { pods: [NONE, NONE], node: [NONE, NONE], outside: NONE };

#[track_caller]
fn check(name: &str, trace: &ServiceTrace, ways: Ways, examined: bool) {
    let symptom = |service: &str, from: Client| {
        let port = trace.ports.iter().find(|port| port.service == service).expect("the port");
        port.addresses.iter().find(|address| address.from == from).expect("the way").symptom
    };
    let of = |from: Client| ["t/web", "t/host"].map(|service| symptom(service, from));
    assert_eq!(of(Client::Pod), ways.pods, "{name}: of pods {trace:#?}");
    assert_eq!(of(Client::Node), ways.node, "{name}: of the node {trace:#?}");
    assert_eq!(symptom("t/web", Client::Outside), ways.outside, "{name}: from outside {trace:#?}");
    assert_eq!(trace.not_examined.is_empty(), examined, "{name}: {:?}", trace.not_examined);
    for port in &trace.ports {
        let fails = port.addresses.iter().any(|address| !address.symptom.is_none());
        assert_eq!(port.status == Status::Broken, fails, "{name}: {port:#?}");
        let told = port.faults().any(|fault| fault.kind == Kind::Foreign && !fault.place.chain.is_empty());
        assert_eq!(told, fails, "{name}: {port:#?}");
        let stays = port.heals.is_some_and(|words| words.starts_with("not by itself"));
        assert_eq!(stays, fails, "{name}: no proxy writes there: {port:#?}");
    }
}

fn of_save(text: &str) -> ServiceTrace {
    trace(&Rules::Iptables(parse(text).expect("well formed")), &ports(), "worker")
}

/// The rules of a node with these lines before the filter table's own, and its chains with these policies.
fn save(policies: &[(&str, &str)], rules: &[&str]) -> String {
    let good = emit(&ports(), &options());
    let (nat, filter) = good.split_once("*filter\n").expect("a filter table");
    let declared: Vec<String> =
        policies.iter().map(|(chain, policy)| format!(":{chain} {policy} [0:0]\n")).collect();
    let declared = declared.concat();
    let mut lines: Vec<&str> = filter.lines().filter(|line| !declared_in(line, policies)).collect();
    let at = lines.iter().position(|line| line.starts_with("-A")).expect("rules");
    lines.splice(at..at, rules.iter().copied());
    format!("{nat}*filter\n{declared}{}\n", lines.join("\n"))
}

fn declared_in(line: &str, policies: &[(&str, &str)]) -> bool {
    policies.iter().any(|(chain, _)| line.starts_with(&format!(":{chain} ")))
}

#[test]
fn chains_of_the_filter_table_are_followed() {
    let pods_out = Ways { pods: [OUT, NONE], ..WELL };
    let forward_out = Ways { outside: OUT, ..pods_out };
    let host_out = Ways { pods: [NONE, OUT], node: [NONE, OUT], ..WELL };
    let drop = ("FORWARD", "DROP");
    for (name, policies, rules, ways) in [
        ("nothing", &[][..], &[][..], WELL),
        // What is masqueraded has the proxy's mark, which KUBE-FORWARD lets through.
        ("FORWARD drops", &[drop], &[], pods_out),
        ("FORWARD drops, pods are let in", &[drop], &["-A FORWARD -d 10.244.0.0/16 -j ACCEPT"], WELL),
        ("FORWARD drops, pods are let out", &[drop], &["-A FORWARD -s 10.244.0.0/16 -j ACCEPT"], WELL),
        (
            "FORWARD drops, another port is let in",
            &[drop],
            &["-A FORWARD -p tcp --dport 80 -j ACCEPT"],
            pods_out,
        ),
        (
            "FORWARD drops, the port is let in",
            &[drop],
            &["-A FORWARD -p tcp -m multiport --dports 22,8000:9000 -j ACCEPT"],
            WELL,
        ),
        (
            "FORWARD drops, replies are let in",
            &[drop],
            &["-A FORWARD -m state --state RELATED,ESTABLISHED -j ACCEPT"],
            pods_out,
        ),
        (
            "FORWARD drops, what is translated is let in",
            &[drop],
            &["-A FORWARD -m conntrack --ctstate ESTABLISHED,DNAT -j ACCEPT"],
            WELL,
        ),
        (
            "FORWARD drops, a chain lets in",
            &[drop],
            &["-A FORWARD -j NET", "-A NET -p udp -j RETURN", "-A NET -p tcp -j ACCEPT"],
            WELL,
        ),
        (
            "FORWARD drops, a chain goes back",
            &[drop],
            &["-A FORWARD -j NET", "-A NET -p tcp -j RETURN", "-A NET -j ACCEPT"],
            pods_out,
        ),
        (
            "a rule refuses",
            &[],
            &["-A FORWARD -p tcp -d 10.244.1.0/24 -j REJECT --reject-with tcp-reset"],
            Ways { pods: [REFUSED, NONE], outside: REFUSED, ..WELL },
        ),
        ("a rule drops", &[], &["-A FORWARD -d 10.244.1.1/32 -j DROP"], forward_out),
        ("a rule drops UDP", &[], &["-A FORWARD -p udp -j DROP", "-A FORWARD -p icmp -j DROP"], WELL),
        ("a rule drops all but TCP", &[], &["-A FORWARD ! -p tcp -j DROP"], WELL),
        // Answers to the node come in there, too.
        ("INPUT drops", &[("INPUT", "DROP")], &[], Ways { node: [OUT, OUT], ..host_out }),
        (
            "INPUT drops all but answers",
            &[("INPUT", "DROP")],
            &["-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"],
            host_out,
        ),
        (
            "INPUT drops, not what comes by the loopback",
            &[("INPUT", "DROP")],
            &["-A INPUT -i lo -j ACCEPT"],
            Ways { pods: [NONE, OUT], node: [OUT, NONE], ..WELL },
        ),
        (
            "INPUT drops, the port is open",
            &[("INPUT", "DROP")],
            &["-A INPUT -p tcp -m tcp --dport 6443 -j ACCEPT"],
            Ways { node: [OUT, OUT], ..WELL },
        ),
        // So do the node's own answers to pods go out.
        ("OUTPUT drops", &[("OUTPUT", "DROP")], &[], Ways { pods: [NONE, OUT], node: [OUT, OUT], ..WELL }),
        (
            "a rule of OUTPUT refuses",
            &[],
            &["-A OUTPUT -d 10.244.0.0/16 -j REJECT"],
            Ways { pods: [NONE, OUT], node: [REFUSED, NONE], ..WELL },
        ),
        ("an old mark of kubelet's", &[], &["-A OUTPUT -m mark --mark 0x8000/0x8000 -j DROP"], WELL),
    ] {
        check(name, &of_save(&save(policies, rules)), ways, true);
    }
}

#[test]
fn what_a_save_does_not_tell_is_not_examined() {
    for (name, policies, rules) in [
        ("an interface", &[][..], &["-A FORWARD -i docker0 -j DROP"][..]),
        ("no interface", &[], &["-A FORWARD ! -o eth0 -j DROP"]),
        ("a set", &[], &["-A FORWARD -m set --match-set blocked src -j DROP"]),
        ("FORWARD drops, an interface is let in", &[("FORWARD", "DROP")], &["-A FORWARD -i cni0 -j ACCEPT"]),
        ("in a chain", &[], &["-A FORWARD -o cali+ -j NET", "-A NET -p tcp -j DROP"]),
        (
            "an unknown mark",
            &[],
            &["-A FORWARD -i eth0 -j MARK --set-xmark 0x1/0x1", "-A FORWARD -m mark --mark 0x1/0x1 -j DROP"],
        ),
        ("a queue", &[], &["-A FORWARD -j NFQUEUE --queue-num 1"]),
        ("a return", &[], &["-A FORWARD -i eth0 -j RETURN", "-A FORWARD -p tcp -j DROP"]),
        ("half of them", &[], &["-A INPUT -m statistic --mode random --probability 0.5 -j DROP"]),
    ] {
        check(name, &of_save(&save(policies, rules)), WELL, false);
    }
    let told = of_save(&save(&[], &["-A FORWARD -i docker0 -j DROP"])).not_examined.join("\n");
    for words in ["from pods to 10.244.1.1:8080", "interfaces", "filter FORWARD (line "] {
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn tables_before_translation_are_followed_for_the_node_s_own_packets_too() {
    let good = emit(&ports(), &options());
    let with = |table: &str, chain: &str, rule: &str| {
        format!("*{table}\n:{chain} ACCEPT [0:0]\n-A {chain} {rule}\nCOMMIT\n{good}")
    };
    let node_out = Ways { node: [OUT, NONE], ..WELL };
    check("mangle OUTPUT", &of_save(&with("mangle", "OUTPUT", "-d 10.96.0.1/32 -j DROP")), node_out, true);
    check(
        "mangle INPUT",
        &of_save(&with("mangle", "INPUT", "-p tcp -j DROP")),
        Ways { pods: [NONE, OUT], node: [OUT, OUT], ..WELL },
        true,
    );
    let nat = good.replacen(
        "-A OUTPUT -j KUBE-SERVICES",
        "-A OUTPUT -d 10.96.0.1/32 -j ACCEPT\n-A OUTPUT -j KUBE-SERVICES",
        1,
    );
    check("nat OUTPUT", &of_save(&nat), node_out, true);
    let perhaps = with("mangle", "PREROUTING", "-i eth0 -p tcp -j DROP");
    check("mangle PREROUTING, perhaps", &of_save(&perhaps), WELL, false);
    let policy = good.replacen("*nat", "*raw\n:PREROUTING DROP [0:0]\nCOMMIT\n*nat", 1);
    // What endpoints answer to the node comes in by it, too.
    let all = Ways { pods: [OUT, OUT], node: [OUT, OUT], outside: OUT };
    check("raw PREROUTING drops", &of_save(&policy), all, true);
}

fn of_nft(layout: Layout, others: &[Value]) -> ServiceTrace {
    let mut listing = listing(&ports(), AddressType::Ipv4, layout, &options());
    listing["nftables"].as_array_mut().expect("a list").extend(others.iter().cloned());
    trace(&Rules::Nftables(dump::parse(&listing.to_string()).expect("well formed")), &ports(), "worker")
}

/// A base chain of a table of somebody else.
fn base(family: &str, hook: &str, priority: i64, policy: &str, rules: &[Value]) -> Vec<Value> {
    let chain = |name: &str| json!({"family": family, "table": "own", "name": name, "handle": 1});
    let mut base = chain("base");
    for (field, value) in [
        ("type", json!("filter")),
        ("hook", json!(hook)),
        ("prio", json!(priority)),
        ("policy", json!(policy)),
    ] {
        base[field] = value;
    }
    let mut items = vec![
        json!({"table": {"family": family, "name": "own", "handle": 1}}),
        json!({"chain": base}),
        json!({"chain": chain("other")}),
        json!({"set": {"family": family, "table": "own", "name": "open", "type": "inet_service", "elem": [22, {"range": [8000, 9000]}]}}),
    ];
    items.extend(rules.iter().enumerate().map(|(index, rule)| {
        let (chain, expression) = match rule.get("in_other") {
            Some(expression) => ("other", expression.clone()),
            None => ("base", rule.clone()),
        };
        json!({"rule": {"family": family, "table": "own", "chain": chain, "handle": 10 + index, "expr": expression}})
    }));
    items
}

#[test]
fn base_chains_of_other_tables_are_followed() {
    let is = |left: Value, right: Value| json!({"match": {"op": "==", "left": left, "right": right}});
    let payload = |protocol: &str, field: &str| json!({"payload": {"protocol": protocol, "field": field}});
    let meta = |key: &str| json!({"meta": {"key": key}});
    let to_pods = is(payload("ip", "daddr"), json!({"prefix": {"addr": "10.244.0.0", "len": 16}}));
    let dport = |right: Value| is(payload("tcp", "dport"), right);
    let states = json!({"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [
        ["established", {"accept": null}], ["related", {"accept": null}], ["invalid", {"drop": null}]]}}});
    let (accept, drop, reject) = (json!({"accept": null}), json!({"drop": null}), json!({"reject": null}));
    let jump = json!({"jump": {"target": "other"}});
    let eth0 = is(meta("iifname"), json!("eth0"));
    let lo = is(meta("iifname"), json!("lo"));
    let forward_out = Ways { pods: [OUT, NONE], outside: OUT, ..WELL };
    let host_out = Ways { pods: [NONE, OUT], node: [NONE, OUT], ..WELL };
    for layout in [Layout::Maps, Layout::Chains] {
        for (name, hook, priority, policy, rules, ways, examined) in [
            ("nothing", "forward", 0, "accept", vec![], WELL, true),
            ("forward drops", "forward", 0, "drop", vec![json!([states])], forward_out, true),
            (
                "forward drops, pods are let in",
                "forward",
                10,
                "drop",
                vec![json!([states]), json!([to_pods, accept])],
                WELL,
                true,
            ),
            (
                "forward drops, the port is let in",
                "forward",
                0,
                "drop",
                vec![json!([dport(json!("@open")), accept])],
                // Answers are to the client's own port: those of others than Linux may be in that range.
                Ways { pods: [OUT, NONE], ..WELL },
                false,
            ),
            (
                "forward drops, what is translated is let in",
                "forward",
                0,
                "drop",
                vec![json!([is(json!({"ct": {"key": "status"}}), json!("dnat")), accept])],
                WELL,
                true,
            ),
            (
                "forward drops, a chain lets in",
                "forward",
                0,
                "drop",
                vec![json!([jump]), json!({"in_other": [dport(json!({"set": [8080, 22]})), accept]})],
                forward_out,
                true,
            ),
            (
                "forward drops, an interface is let in",
                "forward",
                0,
                "drop",
                vec![json!([eth0, accept])],
                WELL,
                false,
            ),
            (
                "a rule refuses",
                "forward",
                0,
                "accept",
                vec![json!([to_pods, {"counter": {"packets": 0, "bytes": 0}}, reject])],
                Ways { pods: [REFUSED, NONE], outside: REFUSED, ..WELL },
                true,
            ),
            (
                "a rule drops UDP",
                "forward",
                0,
                "accept",
                vec![json!([is(meta("l4proto"), json!("udp")), drop])],
                WELL,
                true,
            ),
            (
                "answers are dropped",
                "forward",
                0,
                "accept",
                vec![json!([is(json!({"ct": {"key": "state"}}), json!(["established", "related"])), drop])],
                forward_out,
                true,
            ),
            (
                "answers of a pod are dropped",
                "forward",
                0,
                "accept",
                vec![json!([
                    is(payload("ip", "saddr"), json!("10.244.1.1")),
                    is(payload("tcp", "sport"), json!(8080)),
                    is(json!({"ct": {"key": "direction"}}), json!("reply")),
                    drop
                ])],
                forward_out,
                true,
            ),
            ("a target of iptables", "forward", 0, "accept", vec![json!([{"xt": null}])], WELL, false),
            ("an interface's", "forward", 0, "accept", vec![json!([eth0, drop])], WELL, false),
            (
                "what came by iptables",
                "forward",
                0,
                "accept",
                vec![json!([{"xt": {"type": "match", "name": "set"}}, drop])],
                WELL,
                false,
            ),
            (
                "a limit",
                "input",
                0,
                "accept",
                vec![json!([{"limit": {"rate": 5, "per": "second"}}, drop])],
                WELL,
                false,
            ),
            ("input drops", "input", 0, "drop", vec![json!([states])], host_out, true),
            (
                "input drops, not what comes by the loopback",
                "input",
                0,
                "drop",
                vec![json!([lo, accept])],
                // Pods' answers to the node itself come in there, too.
                Ways { pods: [NONE, OUT], node: [OUT, NONE], ..WELL },
                true,
            ),
            (
                "output drops",
                "output",
                0,
                "drop",
                vec![json!([lo, accept])],
                // So do answers of pods that have the node's network go out.
                Ways { pods: [NONE, OUT], node: [OUT, NONE], ..WELL },
                true,
            ),
            (
                "output before translation",
                "output",
                -300,
                "accept",
                vec![json!([is(payload("ip", "daddr"), json!("10.96.0.1")), drop])],
                Ways { node: [OUT, NONE], ..WELL },
                true,
            ),
            (
                "after translation",
                "prerouting",
                -90,
                "accept",
                vec![json!([dport(json!(8080)), drop])],
                forward_out,
                true,
            ),
            (
                "before translation, in a chain",
                "prerouting",
                -150,
                "accept",
                vec![json!([jump]), json!({"in_other": [dport(json!(80)), drop]})],
                Ways { pods: [OUT, NONE], ..WELL },
                true,
            ),
        ] {
            for family in ["ip", "inet"] {
                let trace = of_nft(layout, &base(family, hook, priority, policy, &rules));
                check(&format!("{layout:?}, {family}: {name}"), &trace, ways, examined);
            }
            // Another family's rules see none of these packets.
            check(name, &of_nft(layout, &base("ip6", hook, priority, policy, &rules)), WELL, true);
        }
        let bridge = of_nft(layout, &base("bridge", "forward", 0, "drop", &[]));
        check("a table of bridges", &bridge, WELL, false);
    }
}
