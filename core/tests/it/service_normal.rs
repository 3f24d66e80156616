//! Normal states of a node in iptables mode that look like faults, and what looks like them and is one. The rules are
//! in the words of a real `iptables-save`.

use netlab_core::model::service::AddressType;
use netlab_core::service::RouteKind;
use netlab_core::service::expected::ExpectedPort;
use netlab_core::service::fault::{Fault, Kind};
use netlab_core::service::follow::{Client, Symptom};
use netlab_core::service::iptables::dump::parse;
use netlab_core::service::iptables::emit;
use netlab_core::service::nftables::{Layout, dump, listing};
use netlab_core::service::trace::{PortTrace, Rules, ServiceTrace, Status, trace};

use serde_json::{Value, json};

use crate::service_world::{all_kinds, options, ports};

const NONE: Symptom = Symptom { timeout_share: 0.0, refused_share: 0.0 };
const OUT: Symptom = Symptom { timeout_share: 1.0, refused_share: 0.0 };
const REFUSED: Symptom = Symptom { timeout_share: 0.0, refused_share: 1.0 };
const DNS: &str = "---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 10.96.0.10, ports: [{port: 53, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns-1, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports: [{name: '', port: 53, protocol: UDP}]
endpoints: [{addresses: [10.244.1.9], nodeName: worker}]
";

fn of_save(text: &str, ports: &[ExpectedPort]) -> ServiceTrace {
    trace(&Rules::Iptables(parse(text).expect("well formed")), ports, "worker")
}

fn of<'a>(trace: &'a ServiceTrace, service: &str) -> &'a PortTrace {
    trace.ports.iter().find(|port| port.service == service).expect("it is there")
}

fn of_pods(port: &PortTrace) -> Symptom {
    port.addresses.iter().find(|address| address.from == Client::Pod).expect("pods").symptom
}

fn without(text: &str, words: &[&str]) -> String {
    let is_it = |line: &&str| words.iter().all(|word| line.contains(word));
    assert!(text.lines().any(|line| is_it(&line)), "nothing reads {words:?}");
    let left: Vec<&str> = text.lines().filter(|line| !is_it(line)).collect();
    left.join("\n") + "\n"
}

/// The rule before the first of its chain in the nat table.
fn first(text: &str, rule: &str) -> String {
    let start = format!("-A {} ", rule.split(' ').nth(1).expect("a chain"));
    assert!(text.contains(&start), "nothing of {start}");
    text.replacen(&start, &format!("{rule}\n{start}"), 1)
}

fn faults(trace: &ServiceTrace, service: &str) -> Vec<Fault> {
    of(trace, service).faults().cloned().collect()
}

#[test]
fn ranges_are_networks_however_they_are_written() {
    let good = ports(&all_kinds());
    let (iptables, of_all) =
        (emit(&good, &options()), |text: &str| ports(&all_kinds().replace("203.0.113.0/24", text)));
    let rule = iptables.lines().find(|line| line.contains("-s 203.0.113.0/24")).expect("the range's rule");
    let twice = iptables.replacen(rule, &format!("{rule}\n{rule}"), 1);
    let (hosts, both) = (of_all("203.0.113.77/24"), of_all("203.0.113.77/24, 203.0.113.0/24"));
    for (text, ports) in [(&iptables, &hosts), (&iptables, &both), (&twice, &both)] {
        let trace = of_save(text, ports);
        let port = of(&trace, "t/balanced");
        assert_eq!((port.status, port.symptom), (Status::Ok, NONE), "{port:#?}");
        let told = port.addresses.iter().find_map(|address| address.source_ranges.clone());
        assert_eq!(told, Some(vec!["203.0.113.0/24".to_owned()]));
    }
    for layout in [Layout::Maps, Layout::Chains] {
        let family = AddressType::Ipv4;
        let table = listing(&good, family, layout, &options()).to_string();
        let rules = Rules::Nftables(dump::parse(&table).expect("well formed"));
        for ports in [&hosts, &both] {
            assert_eq!(faults(&trace(&rules, ports, "worker"), "t/balanced"), [], "{layout:?}");
        }
    }
    let other = of_save(&iptables, &of_all("203.0.112.77/24"));
    assert_eq!(of(&other, "t/balanced").status, Status::Broken);
}

#[test]
fn who_has_no_node_port_misses_no_way_to_them() {
    let ports = ports(&all_kinds());
    let none = without(&emit(&ports, &options()), &["-A KUBE-SERVICES", "-j KUBE-NODEPORTS"]);
    let trace = of_save(&none, &ports);
    assert_eq!(trace.shared, []);
    // One has none, and one has no endpoints: what goes to its node port is refused by another list.
    for service in ["t/local", "t/nobody"] {
        assert_eq!(of(&trace, service).status, Status::Ok, "{service}");
    }
    let port = of(&trace, "t/outside");
    assert_eq!((port.status, port.failing.as_deref()), (Status::Broken, Some("node port 30080")));
    let told = |fault: &Fault| fault.kind == Kind::Jump && fault.detail.contains("--nodeport-addresses");
    assert!(faults(&trace, "t/outside").iter().any(told), "{port:#?}");
}

#[test]
fn nobody_listens_at_a_node_port_that_is_not_translated() {
    let ports = ports(&all_kinds());
    let none = without(&emit(&ports, &options()), &["-A KUBE-NODEPORTS", "30080"]);
    let node_port = |text: &str| {
        let trace = of_save(text, &ports);
        let port = of(&trace, "t/outside");
        let is_node_port =
            |address: &&netlab_core::service::trace::AddressTrace| address.address.starts_with("node port");
        (port.status, port.addresses.iter().find(is_node_port).expect("a node port").symptom)
    };
    assert_eq!(node_port(&none), (Status::Broken, REFUSED));
    let drops =
        none.replacen("-A INPUT ", "-A INPUT -p tcp -m tcp --dport 30000:32767 -j DROP\n-A INPUT ", 1);
    assert_ne!(drops, none);
    assert_eq!(node_port(&drops), (Status::Broken, OUT));
    let others = none.replacen("-A INPUT ", "-A INPUT -p tcp -m tcp --dport 22 -j DROP\n-A INPUT ", 1);
    assert_eq!(node_port(&others), (Status::Broken, REFUSED));
}

/// A list of nftables with a chain of somebody else's that has one rule.
fn listed_with(ports: &[ExpectedPort], hook: &str, priority: i64, rule: &Value) -> ServiceTrace {
    let mut list = listing(ports, AddressType::Ipv4, Layout::Maps, &options());
    list["nftables"].as_array_mut().expect("a list").extend([
        json!({"table": {"family": "ip", "name": "x", "handle": 1}}),
        json!({"chain": {"family": "ip", "table": "x", "name": "c", "handle": 1, "type": "filter", "hook": hook,
                         "prio": priority, "policy": "accept"}}),
        json!({"rule": rule}),
    ]);
    trace(&Rules::Nftables(dump::read(&list).expect("a list")), ports, "worker")
}

#[test]
fn nobody_listens_at_a_node_port_that_no_element_translates() {
    let ports = ports(&all_kinds());
    let list = listing(&ports, AddressType::Ipv4, Layout::Maps, &options());
    let dport = |right: Value| json!({"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": right}});
    for (name, expression, symptom) in [
        ("nothing else", json!([]), REFUSED),
        ("a firewall", json!([dport(json!({"range": [30000, 32767]})), {"drop": null}]), OUT),
        ("another's port", json!([dport(json!(22)), {"drop": null}]), REFUSED),
    ] {
        let mut list = list.clone();
        for item in list["nftables"].as_array_mut().expect("a list") {
            if item["map"]["name"] == "service-nodeports" {
                let elements = item["map"]["elem"].as_array_mut().expect("elements");
                elements.retain(|element| !element.to_string().contains("30080"));
            }
        }
        list["nftables"].as_array_mut().expect("a list").extend([
            json!({"table": {"family": "inet", "name": "x", "handle": 1}}),
            json!({"chain": {"family": "inet", "table": "x", "name": "c", "handle": 1, "type": "filter", "hook": "input",
                             "prio": 0, "policy": "accept"}}),
            json!({"rule": {"family": "inet", "table": "x", "chain": "c", "handle": 2, "expr": expression}}),
        ]);
        let trace = trace(&Rules::Nftables(dump::read(&list).expect("a list")), &ports, "worker");
        let port = of(&trace, "t/outside");
        let address = port.addresses.iter().find(|address| address.address.starts_with("node port"));
        assert_eq!((port.status, address.expect("a node port").symptom), (Status::Broken, symptom), "{name}");
    }
}

#[test]
fn node_local_dns_is_told_in_nftables_mode_too() {
    let ports = ports(&(all_kinds() + DNS));
    let field = |protocol: &str, field: &str, right: Value| json!({"match": {"op": "==", "left": {"payload": {"protocol": protocol, "field": field}}, "right": right}});
    let own = json!({"set": ["10.96.0.10", "169.254.20.10"]});
    for (to, comment, is_own) in [
        (own, None, true),
        (json!("10.96.0.10"), Some("NodeLocal DNS Cache: skip conntrack"), true),
        (json!("10.96.0.10"), None, false),
    ] {
        let expression =
            json!([field("ip", "daddr", to), field("udp", "dport", json!(53)), {"notrack": null}]);
        let mut rule = json!({"family": "ip", "table": "x", "chain": "c", "handle": 2, "expr": expression});
        if let Some(comment) = comment {
            rule["comment"] = json!(comment);
        }
        let trace = listed_with(&ports, "prerouting", -300, &rule);
        let port = of(&trace, "kube-system/kube-dns");
        let expected = if is_own { (Status::Ok, NONE) } else { (Status::Broken, OUT) };
        assert_eq!((port.status, of_pods(port)), expected, "{rule}");
        let told = |line: &String| line.contains("10.96.0.10:53") && line.contains("NodeLocal DNSCache");
        assert_eq!(trace.not_examined.iter().any(told), is_own, "{:?}", trace.not_examined);
    }
}

#[test]
fn node_local_dns_is_a_normal_state_and_told() {
    let ports = ports(&(all_kinds() + DNS));
    let good = emit(&ports, &options());
    for target in ["CT --notrack", "NOTRACK"] {
        let raw = |comment: &str| {
            let rule = |chain, what: &str, port| {
                format!("-A {chain} {what} 10.96.0.10/32 -p udp -m udp {port} 53 {comment}-j {target}\n")
            };
            format!(
                "*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n{}{}{}COMMIT\n{good}",
                rule("PREROUTING", "-d", "--dport"),
                rule("OUTPUT", "-d", "--dport"),
                rule("OUTPUT", "-s", "--sport"),
            )
        };
        let trace = of_save(&raw("-m comment --comment \"NodeLocal DNS Cache: skip conntrack\" "), &ports);
        assert_eq!(faults(&trace, "kube-system/kube-dns"), []);
        assert_eq!(of(&trace, "kube-system/kube-dns").status, Status::Ok);
        let told = |line: &String| line.contains("10.96.0.10:53") && line.contains("NodeLocal DNSCache");
        assert!(trace.not_examined.iter().any(told), "{:?}", trace.not_examined);
        // The same rules of somebody else leave the packets with nobody.
        let trace = of_save(&raw(""), &ports);
        let port = of(&trace, "kube-system/kube-dns");
        assert_eq!((port.status, of_pods(port)), (Status::Broken, OUT), "{target}");
    }
}

#[test]
fn what_takes_packets_by_their_port_at_any_address_is_found() {
    let ports = ports(&all_kinds());
    let good = emit(&ports, &options());
    for (rule, symptom) in [
        ("-A PREROUTING -p tcp -m tcp --dport 79:90 -j REDIRECT --to-ports 1", REFUSED),
        ("-A PREROUTING -p tcp -m multiport --dports 81,80 -j REDIRECT", REFUSED),
        ("-A PREROUTING -p tcp -m tcp --dport 80 -j DNAT --to-destination 203.0.113.9", OUT),
        ("-A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 203.0.113.9", OUT),
        // To where the Service's endpoint on this node is, at the port that it listens at.
        (
            "-A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.1.1:8080",
            NONE,
        ),
    ] {
        let trace = of_save(&first(&good, rule), &ports);
        let port = of(&trace, "t/local");
        assert_eq!((port.status, of_pods(port)), (Status::Broken, symptom), "{rule}");
        let told = faults(&trace, "t/local");
        assert!(told.iter().all(|fault| fault.kind == Kind::Foreign), "{rule}: {told:?}");
        assert_eq!(told.len(), 1, "{rule}: {told:?}");
    }
    let kept = first(
        &good,
        "-A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 203.0.113.9",
    );
    assert_eq!(of(&of_save(&kept, &ports), "t/local").extra[0].endpoint.as_deref(), Some("203.0.113.9:80"));
    for rule in [
        "-A PREROUTING -p tcp -m tcp --dport 81:90 -j REDIRECT --to-ports 1",
        "-A PREROUTING -p udp -m udp --dport 79:90 -j REDIRECT --to-ports 1",
        "-A PREROUTING -p tcp -m multiport ! --dports 80 -j REDIRECT",
        "-A PREROUTING -i lo -p tcp -m tcp --dport 80 -j REDIRECT",
    ] {
        let trace = of_save(&first(&good, rule), &ports);
        assert_eq!(faults(&trace, "t/local"), [], "{rule}");
        assert!(!trace.not_examined.iter().any(|line| line.contains("10.96.0.1:80")), "{rule}");
    }
    let perhaps = first(&good, "-A PREROUTING -i eth7 -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 1");
    let trace = of_save(&perhaps, &ports);
    assert_eq!(faults(&trace, "t/local"), []);
    let told = |line: &String| line.contains("REDIRECT") && line.contains("10.96.0.1:80");
    assert!(trace.not_examined.iter().any(told), "{:?}", trace.not_examined);
}

/// The port of t/local alone; of many a line that tells what is not examined names a few.
fn local() -> Vec<ExpectedPort> {
    let mut ports = ports(&all_kinds());
    ports.retain(|port| port.name.service.to_string() == "t/local");
    ports
}

fn is_open(trace: &ServiceTrace, words: &str) -> bool {
    trace.not_examined.iter().any(|line| line.contains(words))
}

#[test]
fn a_chain_of_others_that_may_take_packets_is_not_examined() {
    let ports = local();
    let good = emit(&ports, &options());
    let with = |jump: &str, inside: &str| {
        let text = first(&good, &format!("-A PREROUTING {jump} -j OTHERS"));
        of_save(&text.replacen("*nat\n", &format!("*nat\n:OTHERS - [0:0]\n-A OTHERS {inside}\n"), 1), &ports)
    };
    let takes = "-p tcp -m tcp --dport 80 -j REDIRECT --to-ports 1";
    for jump in
        ["-i eth7", "-m set --match-set x dst", "-d 10.96.0.0/16 -i eth7", "-i eth7 -p tcp -m tcp --dport 80"]
    {
        let trace = with(jump, takes);
        assert_eq!(faults(&trace, "t/local"), [], "{jump}");
        assert!(
            is_open(
                &trace,
                "chain OTHERS may take them before, and no dump tells what nat PREROUTING (line "
            ),
            "{jump}: {:?}",
            trace.not_examined
        );
        assert_eq!(trace.not_examined.iter().filter(|line| line.contains("OTHERS")).count(), 1, "{jump}");
        for inside in [
            "-d 172.17.0.0/16 -j RETURN",
            "-j CONNMARK --set-xmark 0x80/0x80",
            "-p udp -m udp --dport 9999 -j REDIRECT --to-ports 1",
        ] {
            assert!(!is_open(&with(jump, inside), "OTHERS"), "{jump} {inside}");
        }
    }
    assert!(!is_open(&with("-d 172.17.0.0/16 -i eth7", takes), "OTHERS"));
    assert_eq!(of_pods(of(&with("-d 10.96.0.0/16", takes), "t/local")), REFUSED);
}

#[test]
fn a_rule_of_others_that_leads_to_several_addresses_is_followed_to_each() {
    let ports = ports(&all_kinds());
    let good = emit(&ports, &options());
    let to = |to: &str| {
        let rule =
            format!("-A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination {to}");
        of_save(&first(&good, &rule), &ports)
    };
    for (addresses, lost) in [
        ("10.244.1.1-10.244.1.1:8080", 0.0),
        ("10.244.1.0-10.244.1.1:8080", 0.5),
        ("10.244.1.0-10.244.1.3:8080", 0.75),
        ("203.0.113.1-203.0.113.9", 1.0),
        ("203.0.113.9-203.0.113.1", 1.0),
        ("10.0.0.0-10.255.255.255:8080", 1.0),
    ] {
        let trace = to(addresses);
        let port = of(&trace, "t/local");
        let symptom = Symptom { timeout_share: lost, refused_share: 0.0 };
        assert_eq!((port.status, of_pods(port)), (Status::Broken, symptom), "{addresses}");
        assert_eq!(port.extra.len(), 1, "{addresses}");
    }
    assert_eq!(
        of(&to("10.244.1.0-10.244.1.3:8080"), "t/local").extra[0].endpoint.as_deref(),
        Some("10.244.1.0-10.244.1.3:8080")
    );
}

#[test]
fn a_rule_of_others_that_leaves_packets_few_hops_is_not_examined() {
    let ports = local();
    let good = emit(&ports, &options());
    let with = |chain: &str, rule: &str| {
        of_save(&format!("*mangle\n:{chain} ACCEPT [0:0]\n-A {chain} {rule}\nCOMMIT\n{good}"), &ports)
    };
    for (chain, rule, open) in [
        ("PREROUTING", "-d 10.96.0.0/16 -j TTL --ttl-set 1", true),
        ("PREROUTING", "-j TTL --ttl-dec 60", true),
        ("FORWARD", "-d 10.244.0.0/16 -j TTL --ttl-set 1", true),
        ("PREROUTING", "-d 172.17.0.0/16 -j TTL --ttl-set 1", false),
        ("PREROUTING", "-j TTL --ttl-set 64", false),
        ("POSTROUTING", "-j TTL --ttl-inc 1", false),
        ("PREROUTING", "-j DSCP --set-dscp 0x0a", false),
    ] {
        let trace = with(chain, rule);
        assert_eq!(faults(&trace, "t/local"), [], "{rule}");
        let to = if chain == "FORWARD" { "10.244." } else { "10.96.0." };
        let told = |line: &String| line.contains(&format!("mangle {chain} (line 3)")) && line.contains(to);
        let all: Vec<&String> = trace.not_examined.iter().filter(|line| told(line)).collect();
        assert_eq!(all.len(), usize::from(open), "{rule}: {:?}", trace.not_examined);
    }
}

/// Each was measured to take the packets of some clients.
#[test]
fn what_may_take_packets_by_other_conditions_is_not_examined() {
    let ports = local();
    let good = emit(&ports, &options());
    let told = |rule: &str| {
        let chain = rule.split(' ').nth(1).expect("a chain");
        let trace = of_save(&first(&good, rule), &ports);
        assert_eq!(faults(&trace, "t/local"), [], "{rule}");
        let line =
            |line: &String| line.contains(&format!("nat {chain} (line ")) && line.contains("10.96.0.1:80");
        trace.not_examined.iter().filter(|open| line(open)).count()
    };
    for rule in [
        "-A PREROUTING -i eth0 -p tcp -j REDIRECT --to-ports 15006",
        "-A PREROUTING -i cni0 -j ACCEPT",
        "-A PREROUTING -i cni0 -j RETURN",
        "-A PREROUTING -m mark --mark 0x0 -p tcp -j REDIRECT --to-ports 1",
        "-A PREROUTING -m conntrack --ctdir ORIGINAL -j ACCEPT",
        "-A PREROUTING -m statistic --mode random --probability 0.5 -j ACCEPT",
        "-A PREROUTING -s 10.244.1.9/32 -p tcp -j ACCEPT",
        "-A OUTPUT ! -s 10.9.9.9/32 -j ACCEPT",
        "-A OUTPUT -m owner --uid-owner 0 -j REDIRECT --to-ports 1",
    ] {
        assert_eq!(told(rule), 1, "{rule}");
    }
    for rule in [
        "-A PREROUTING -i eth0 -p udp -j REDIRECT --to-ports 15006",
        "-A PREROUTING -i eth0 -d 172.17.0.0/16 -j ACCEPT",
        "-A PREROUTING -i lo -j ACCEPT",
        "-A PREROUTING -i cni0 -j LOG",
        "-A OUTPUT -o lo -j ACCEPT",
        "-A PREROUTING -i eth0 -m addrtype --dst-type LOCAL -j ACCEPT",
    ] {
        assert_eq!(told(rule), 0, "{rule}");
    }
    let raw =
        format!("*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -i eth0 -j CT --notrack\nCOMMIT\n{good}");
    assert!(is_open(&of_save(&raw, &ports), "raw PREROUTING (line 3)"));
    let all = self::ports(&all_kinds());
    let with = |rule: &str| of_save(&first(&emit(&all, &options()), rule), &all);
    let some = with("-A PREROUTING -s 192.0.2.0/24 -j ACCEPT");
    assert!(is_open(&some, "nat PREROUTING (line "), "{:?}", some.not_examined);
    // The address may be the node's.
    let named = with("-A PREROUTING -d 192.0.2.11/32 -p tcp -m tcp --dport 30080 -j REDIRECT --to-ports 1");
    let told = |line: &String| line.contains("node port 30080 come to the proxy's rules");
    assert!(named.not_examined.iter().any(told), "{:?}", named.not_examined);
    // Who comes from outside is none of the pods, so that is certain.
    let strangers = with("-A PREROUTING ! -s 10.244.0.0/16 -j REDIRECT --to-ports 1");
    let outside = of(&strangers, "t/outside").addresses.iter().find(|way| way.from == Client::Outside);
    assert_eq!(outside.expect("clients outside").sees, REFUSED);
    assert!(faults(&strangers, "t/outside").iter().any(|fault| fault.detail.contains("from outside to")));
    let at_node = first(&emit(&all, &options()), "-A PREROUTING ! -d 10.244.2.2/32 -j RETURN");
    let trace = of_save(&at_node, &all);
    let at_node = of(&trace, "t/outside").addresses.iter().find(|way| way.to == RouteKind::NodePort);
    assert_eq!(at_node.expect("a node port").sees, REFUSED, "nobody listens there");
}

/// What ends the way of packets to a Service without endpoints before the proxy refuses them leaves clients waiting; to
/// others that changes nothing. Each was measured on a node with real clients.
#[test]
fn a_refusal_that_no_packet_comes_to_is_missed_where_there_is_nobody_alone() {
    let ports = ports(&all_kinds());
    let good = emit(&ports, &options());
    let filter = |rule: &str| {
        let (nat, filter) = good.split_once("*filter").expect("two tables");
        of_save(&format!("{nat}*filter{}", first(filter, rule)), &ports)
    };
    for rule in [
        "-A FORWARD -j ACCEPT",
        "-A FORWARD -j RETURN",
        "-A FORWARD -p tcp -m tcp --dport 80 -j DROP",
        "-A FORWARD -d 10.96.0.4/32 -j DROP",
    ] {
        let trace = filter(rule);
        assert_eq!(trace.shared, [], "{rule}");
        for service in ["t/local", "t/outside", "t/balanced", "t/elsewhere"] {
            assert_eq!(of(&trace, service).status, Status::Ok, "{rule}: {service}");
        }
        let nobody = of(&trace, "t/nobody");
        assert_eq!((nobody.status, of_pods(nobody)), (Status::Broken, OUT), "{rule}: {nobody:#?}");
        let is_it = |fault: &Fault| fault.kind == Kind::Foreign && fault.place.chain == "FORWARD";
        assert!(nobody.faults().any(is_it), "{rule}: {:?}", nobody.faults().collect::<Vec<_>>());
    }
    for rule in [
        "-A FORWARD -d 10.96.0.4/32 -j REJECT",
        "-A FORWARD -p udp -j DROP",
        "-A FORWARD -d 172.17.0.0/16 -j DROP",
    ] {
        let trace = filter(rule);
        assert_eq!(of(&trace, "t/nobody").status, Status::Ok, "{rule}");
    }
    let unsure = filter("-A FORWARD -i eth7 -j ACCEPT");
    assert!(is_open(&unsure, "10.96.0.4:80"), "{:?}", unsure.not_examined);
}

#[test]
fn what_others_take_off_the_tracking_or_translate_later_in_nftables_mode() {
    let ports = ports(&all_kinds());
    let field = |key: &str, of: Value, right: Value| json!({"match": {"op": "==", "left": {key: of}, "right": right}});
    let port_of = |field: &str, number: u16| json!({"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": field}}, "right": number}});
    let with = |hook: &str, expression: Value| {
        let rule = json!({"family": "ip", "table": "x", "chain": "c", "handle": 2, "expr": expression});
        listed_with(&ports, hook, -300, &rule)
    };
    for (hook, expression, symptom) in [
        ("prerouting", json!([port_of("sport", 8080), {"notrack": null}]), OUT),
        ("prerouting", json!([port_of("sport", 8081), {"notrack": null}]), NONE),
        ("output", json!([port_of("sport", 8080), {"notrack": null}]), NONE),
    ] {
        let trace = with(hook, expression.clone());
        let local = of(&trace, "t/local");
        assert_eq!((of_pods(local), local.status == Status::Ok), (symptom, symptom == NONE), "{expression}");
    }
    let perhaps = json!([field("meta", json!({"key": "iifname"}), json!("eth7")), {"notrack": null}]);
    let open = with("prerouting", perhaps);
    assert_eq!(faults(&open, "t/local"), []);
    assert!(is_open(&open, "x c (handle 2)"), "{:?}", open.not_examined);
    // A chain of type nat behind the proxy's is not asked for what that translated.
    for (kind, priority, status) in [("nat", -90, Status::Ok), ("filter", -90, Status::Broken)] {
        let mut list = listing(&ports, AddressType::Ipv4, Layout::Maps, &options());
        let drop = json!([port_of("dport", 8080), {"drop": null}]);
        list["nftables"].as_array_mut().expect("a list").extend([
            json!({"table": {"family": "ip", "name": "x", "handle": 1}}),
            json!({"chain": {"family": "ip", "table": "x", "name": "c", "handle": 1, "type": kind, "hook": "prerouting",
                             "prio": priority, "policy": "accept"}}),
            json!({"rule": {"family": "ip", "table": "x", "chain": "c", "handle": 2, "expr": drop}}),
        ]);
        let trace = trace(&Rules::Nftables(dump::read(&list).expect("a list")), &ports, "worker");
        assert_eq!(of(&trace, "t/local").status, status, "{kind}");
    }
}
