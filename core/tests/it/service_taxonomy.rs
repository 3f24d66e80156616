//! The ways in which a Service is broken that a dump can show, one test a row of `docs/service.md`, on what a real
//! kube-proxy wrote; and what looks odd and is none of them.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::fault::{Difference, Fault, Kind};
use netlab_core::service::trace::{Rules, ServiceTrace, Status, trace};
use netlab_core::service::{iptables, nftables};

use crate::service_world::cluster;

pub(crate) const WORLD: &str = include_str!("../kube-proxy/world.yaml");
pub(crate) const SAVE: &str = include_str!("../kube-proxy/iptables-1.36.3.save");
pub(crate) const SAVE6: &str = include_str!("../kube-proxy/ip6tables-1.36.3.save");
const NFT: &str = include_str!("../kube-proxy/nft-ip-1.36.3.json");

fn ports(world: &str, family: AddressType) -> Vec<ExpectedPort> {
    expected(&cluster(world), "worker", family)
}

pub(crate) fn of_save(text: &str) -> ServiceTrace {
    let dump = iptables::dump::parse(text).expect("well formed");
    trace(&Rules::Iptables(dump), &ports(WORLD, AddressType::Ipv4), "worker")
}

fn of_nft(text: &str) -> ServiceTrace {
    let dump = nftables::dump::parse(text).expect("well formed");
    trace(&Rules::Nftables(dump), &ports(WORLD, AddressType::Ipv4), "worker")
}

/// The text without the first line that has all of these words.
pub(crate) fn without(text: &str, words: &[&str]) -> String {
    let at = text.lines().position(|line| words.iter().all(|word| line.contains(word)));
    let at = at.unwrap_or_else(|| panic!("no line has {words:?}"));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.remove(at);
    lines.join("\n") + "\n"
}

/// The text with something else on the first line that has these words.
pub(crate) fn changed(text: &str, words: &[&str], from: &str, to: &str) -> String {
    let mut done = false;
    let line = |line: &str| {
        let is_it = !done && words.iter().all(|word| line.contains(word)) && line.contains(from);
        done |= is_it;
        format!("{}\n", if is_it { line.replacen(from, to, 1) } else { line.to_owned() })
    };
    let text: String = text.lines().map(line).collect();
    assert!(done, "no line has {words:?} and {from}");
    text
}

/// The text with a line more, before the first that has these words.
pub(crate) fn with(text: &str, words: &[&str], line: &str) -> String {
    let at = text.lines().position(|known| words.iter().all(|word| known.contains(word)));
    let at = at.unwrap_or_else(|| panic!("no line has {words:?}"));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(at, line);
    lines.join("\n") + "\n"
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "nothing reads {from}");
    text.replacen(from, to, 1)
}

/// The faults of one service port.
fn faults(trace: &ServiceTrace, service: &str, port: &str) -> Vec<Fault> {
    let found = trace.ports.iter().find(|found| found.service == service && found.port == port);
    found.expect("the port").faults().cloned().collect()
}

#[track_caller]
fn is_told(faults: &[Fault], difference: Difference, kind: Kind) {
    assert!(faults.iter().any(|fault| (fault.difference, fault.kind) == (difference, kind)), "{faults:?}");
}

/// What is told about web:http, the usual victim.
fn web(trace: &ServiceTrace) -> Vec<Fault> {
    faults(trace, "t/web", "http")
}

const HTTP: &[&str] = &["-A KUBE-SERVICES", "t/web:http"];
const FIRST: &[&str] = &["t/web:http -> 10.244.1.1:8080"];
const LAST: &[&str] = &["t/web:http -> 10.244.2.1:8080"];
const DNAT: &[&str] = &["\"t/web:http\"", "--to-destination 10.244.1.1:8080"];
const ELEMENT: &str = r#"{"concat": ["10.96.0.1", "tcp", 80]}"#;

#[test]
fn row_1_no_entry() {
    is_told(&web(&of_save(&without(SAVE, HTTP))), Difference::Missing, Kind::Frontend);
    let other = replaced(NFT, ELEMENT, r#"{"concat": ["10.96.0.99", "tcp", 80]}"#);
    is_told(&web(&of_nft(&other)), Difference::Missing, Kind::Frontend);
}

#[test]
fn row_2_an_entry_to_another_chain() {
    let to_plain = changed(SAVE, HTTP, "KUBE-SVC-LRRAIHV5BJDVCG76", "KUBE-SVC-E65MTZXIXDGT3HKZ");
    is_told(&web(&of_save(&to_plain)), Difference::Wrong, Kind::FrontendTarget);
    let element = format!(r#"[{ELEMENT}, {{"goto": {{"target": "service-RNBVDMZH-t/web/tcp/http"}}}}]"#);
    let to_plain = replaced(
        NFT,
        &element,
        &element.replace("service-RNBVDMZH-t/web/tcp/http", "service-4TVBWGJX-t/plain/tcp/"),
    );
    is_told(&web(&of_nft(&to_plain)), Difference::Wrong, Kind::FrontendTarget);
}

#[test]
fn row_3_no_way_to_an_endpoint() {
    for line in [FIRST, LAST] {
        is_told(&web(&of_save(&without(SAVE, line))), Difference::Missing, Kind::Backend);
    }
    let hole =
        replaced(NFT, r#"[1, {"concat": ["10.244.2.1", 8080]}]"#, r#"[7, {"concat": ["10.244.2.1", 8080]}]"#);
    let trace = of_nft(&hole);
    is_told(&web(&trace), Difference::Wrong, Kind::Shares);
}

#[test]
fn row_4_an_endpoint_s_chain_that_nothing_leads_to() {
    let faults = web(&of_save(&without(SAVE, FIRST)));
    assert!(faults.iter().any(|fault| fault.detail.contains("its own chain is there")), "{faults:?}");
}

#[test]
fn row_5_an_endpoint_s_chain_that_does_not_translate() {
    is_told(&web(&of_save(&without(SAVE, DNAT))), Difference::Missing, Kind::Empty);
}

#[test]
fn row_6_an_endpoint_s_chain_that_translates_to_something_else() {
    for to in ["10.244.1.1:8081", "10.244.1.99:8080"] {
        let other =
            changed(SAVE, DNAT, "--to-destination 10.244.1.1:8080", &format!("--to-destination {to}"));
        is_told(&web(&of_save(&other)), Difference::Wrong, Kind::BackendTarget);
    }
    let of_udp = changed(SAVE, DNAT, "-p tcp", "-p udp");
    is_told(&web(&of_save(&of_udp)), Difference::Wrong, Kind::BackendTarget);
}

#[test]
fn row_7_an_endpoint_that_is_gone() {
    let now = WORLD.replace(
        "{addresses: [10.244.2.1], nodeName: other}, {addresses: [10.244.2.2]",
        "{addresses: [10.244.2.3], nodeName: other}, {addresses: [10.244.2.2]",
    );
    assert_ne!(now, WORLD);
    let ports = ports(&now, AddressType::Ipv4);
    let rules = [
        Rules::Iptables(iptables::dump::parse(SAVE).expect("well formed")),
        Rules::Nftables(nftables::dump::parse(NFT).expect("well formed")),
    ];
    for rules in rules {
        let found = web(&trace(&rules, &ports, "worker"));
        is_told(&found, Difference::Extra, Kind::Stale);
        is_told(&found, Difference::Missing, Kind::Backend);
    }
}

#[test]
fn row_8_shares_that_are_not_equal() {
    let skewed = changed(SAVE, FIRST, "0.50000000000", "0.25000000000");
    is_told(&web(&of_save(&skewed)), Difference::Wrong, Kind::Shares);
    let ends = changed(
        SAVE,
        LAST,
        "-j KUBE-SEP",
        "-m statistic --mode random --probability 0.50000000000 -j KUBE-SEP",
    );
    is_told(&web(&of_save(&ends)), Difference::Wrong, Kind::Shares);
    let divisor = NFT.replace(r#""mod": 2"#, r#""mod": 3"#);
    is_told(&web(&of_nft(&divisor)), Difference::Wrong, Kind::Shares);
}

#[test]
fn row_9_an_endpoint_twice() {
    let line = SAVE.lines().find(|line| line.contains(FIRST[0])).expect("the rule");
    is_told(&web(&of_save(&with(SAVE, FIRST, line))), Difference::Extra, Kind::Shares);
    let twice =
        replaced(NFT, r#"[1, {"concat": ["10.244.2.1", 8080]}]"#, r#"[1, {"concat": ["10.244.1.1", 8080]}]"#);
    is_told(&web(&of_nft(&twice)), Difference::Wrong, Kind::Shares);
}

#[test]
fn row_10_refused_or_dropped_where_it_should_not_be_and_the_reverse() {
    let none = without(SAVE, &["-d 10.96.0.8/32", "has no endpoints"]);
    is_told(&faults(&of_save(&none), "t/nobody", ""), Difference::Missing, Kind::End);
    let other = changed(SAVE, &["-d 10.96.0.9/32", "has no local endpoints"], "-j DROP", "-j REJECT");
    is_told(&faults(&of_save(&other), "t/elsewhere", ""), Difference::Wrong, Kind::End);
    let line = "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"t/web:http has no endpoints\" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable";
    let shadowed = with(SAVE, &["-d 10.96.0.8/32", "has no endpoints"], line);
    is_told(&web(&of_save(&shadowed)), Difference::Extra, Kind::End);
    let element = r#"{"elem": {"val": {"concat": ["10.96.0.9", "tcp", 80]}, "comment": "t/elsewhere"}}, {"drop": null}"#;
    let other = replaced(
        NFT,
        element,
        &element.replace(r#"{"drop": null}"#, r#"{"goto": {"target": "reject-chain"}}"#),
    );
    is_told(&faults(&of_nft(&other), "t/elsewhere", ""), Difference::Wrong, Kind::End);
}

#[test]
fn row_11_packets_whose_replies_find_no_way_back() {
    for words in [&["-j MASQUERADE"][..], &["-A KUBE-MARK-MASQ"], &["-A POSTROUTING", "KUBE-POSTROUTING"]] {
        let trace = of_save(&without(SAVE, words));
        assert!(trace.shared.iter().any(|shared| shared.fault.kind == Kind::Masquerade), "{words:?}");
        assert!(trace.ports.iter().all(|port| port.status == Status::Broken), "{words:?}");
    }
    let bit = changed(SAVE, &["-A KUBE-MARK-MASQ"], "0x4000/0x4000", "0x8000/0x8000");
    assert!(of_save(&bit).shared.iter().any(|shared| shared.fault.detail.contains("0x8000")));
    for words in
        [&["-s 10.244.1.1/32", "\"t/web:http\""][..], &["! -s 10.244.0.0/16 -d 10.96.0.1/32", "--dport 80 "]]
    {
        is_told(&web(&of_save(&without(SAVE, words))), Difference::Missing, Kind::Masquerade);
    }
}

#[test]
fn row_12_no_way_from_the_kernel_s_chains() {
    for (words, chain) in [
        (&["-A PREROUTING", "KUBE-SERVICES"][..], "PREROUTING"),
        (&["-A OUTPUT", "service portals", "-j KUBE-SERVICES"], "OUTPUT"),
    ] {
        let trace = of_save(&without(SAVE, words));
        let told = trace
            .shared
            .iter()
            .any(|shared| shared.fault.kind == Kind::Jump && shared.fault.place.chain == chain);
        assert!(told, "{words:?}: {:?}", trace.shared);
    }
    let tail = SAVE.lines().find(|line| line.contains("this must be the last rule")).expect("the rule");
    let early =
        with(&without(SAVE, &["this must be the last rule"]), &["-A KUBE-SERVICES -d 10.96.0.4"], tail);
    assert!(of_save(&early).shared.iter().any(|shared| shared.fault.detail.contains("it is not last")));
}

#[test]
fn row_13_who_may_come_to_a_balancer_s_address() {
    let range = without(SAVE, &["-A KUBE-FW-", "-s 203.0.113.0/24", "t/balanced:dns"]);
    is_told(&faults(&of_save(&range), "t/balanced", "dns"), Difference::Missing, Kind::SourceRange);
    let open = without(SAVE, &["-A KUBE-PROXY-FIREWALL -d 198.51.100.7/32"]);
    is_told(&faults(&of_save(&open), "t/balanced", "dns"), Difference::Missing, Kind::SourceRange);
}

#[test]
fn row_14_clients_that_do_not_stay() {
    for rules in [
        without(SAVE, &["t/balanced:dns -> 10.244.1.5:5353", "--rcheck"]),
        changed(SAVE, &["t/balanced:dns -> 10.244.1.5:5353", "--rcheck"], "--seconds 10800", "--seconds 60"),
        changed(
            SAVE,
            &["t/balanced:dns -> 10.244.1.5:5353", "--rcheck"],
            "--name KUBE-SEP-",
            "--name KUBE-SEQ-",
        ),
        changed(SAVE, &["\"t/balanced:dns\"", "--to-destination 10.244.1.5:5353"], "--set ", "--rcheck "),
    ] {
        let found = faults(&of_save(&rules), "t/balanced", "dns");
        assert!(found.iter().any(|fault| fault.kind == Kind::Affinity), "{found:?}");
    }
    let set = "affinity-BXF5E73N-t/balanced/udp/dns__10.244.1.5/5353\", \"table\": \"kube-proxy\", \"type\": \"ipv4_addr\", \"handle\": 106, \"size\": 65535, \"flags\": [\"timeout\"], \"timeout\": ";
    let short = replaced(NFT, &format!("{set}10800"), &format!("{set}60"));
    is_told(&faults(&of_nft(&short), "t/balanced", "dns"), Difference::Wrong, Kind::Affinity);
}

#[test]
fn row_16_one_family_only() {
    let mut whole = of_save(SAVE);
    let six = iptables::dump::parse(&without(SAVE6, &["t/web:http -> [fd00:10:244:2::1]:8080"]))
        .expect("well formed");
    whole.merge(trace(&Rules::Iptables(six), &ports(WORLD, AddressType::Ipv6), "worker"));
    let of_web: Vec<_> = whole
        .ports
        .iter()
        .filter(|port| port.service == "t/web" && port.port == "http")
        .map(|port| (port.family, port.status))
        .collect();
    assert_eq!(of_web, [("IPv4", Status::Ok), ("IPv6", Status::Broken)]);
}

#[test]
fn row_17_one_port_only() {
    let trace = of_save(&without(SAVE, LAST));
    let broken: Vec<_> = trace.ports.iter().filter(|port| port.status == Status::Broken).collect();
    assert!(matches!(&broken[..], [port] if port.service == "t/web" && port.port == "http"), "{broken:?}");
}

#[test]
fn row_18_rules_of_others() {
    for (line, to) in [
        (
            "-A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 192.0.2.80:80",
            Some("192.0.2.80:80"),
        ),
        ("-A PREROUTING -d 10.96.0.0/24 -j RETURN", None),
    ] {
        let trace = of_save(&with(SAVE, &["-A PREROUTING", "KUBE-SERVICES"], line));
        let found = web(&trace);
        is_told(&found, Difference::Extra, Kind::Foreign);
        assert_eq!(
            found
                .iter()
                .find(|fault| fault.kind == Kind::Foreign)
                .and_then(|fault| fault.endpoint.as_deref()),
            to
        );
        let port =
            trace.ports.iter().find(|port| port.service == "t/web" && port.port == "http").expect("the port");
        assert!((port.symptom.timeout_share - 1.0).abs() < 1e-9, "{line}: {:?}", port.symptom);
    }
    let table = r#"{"nftables": [{"chain": {"family": "inet", "table": "fw", "name": "early", "handle": 1, "type": "filter", "hook": "prerouting", "prio": -300, "policy": "accept"}}, {"rule": {"family": "inet", "table": "fw", "chain": "early", "handle": 9, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": "10.96.0.1"}}, {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 80}}, {"drop": null}]}}, {"chain": {"family": "ip", "table": "nat", "name": "KUBE-SERVICES", "handle": 3}}, "#;
    let trace = of_nft(&replaced(NFT, r#"{"nftables": ["#, table));
    let found = web(&trace);
    assert!(
        found.iter().any(|fault| fault.kind == Kind::Foreign && fault.place.handle == Some(9)),
        "{found:?}"
    );
    assert!(
        !faults(&trace, "t/web", "metrics").iter().any(|fault| fault.kind == Kind::Foreign),
        "another port"
    );
    assert!(
        trace.shared.iter().any(|shared| shared.fault.kind == Kind::Leftover),
        "iptables mode's chain is there, too"
    );
}

/// What a proxy of more than a thousand endpoints, a partial sync, or a moment between two syncs leaves behind.
#[test]
fn what_is_odd_and_no_fault() {
    let is_ok = |trace: &ServiceTrace, what: &str| {
        assert_eq!(trace.shared, [], "{what}");
        for port in &trace.ports {
            assert_eq!((port.status, port.faults().count()), (Status::Ok, 0), "{what}: {port:?}");
        }
    };
    let uncommented: String = SAVE
        .lines()
        .map(|line| match (line.find(" -m comment --comment \""), line.starts_with("-A KUBE-SERVICES")) {
            (Some(start), false) => {
                let after = &line[start + " -m comment --comment \"".len()..];
                let end = after.find('"').expect("the quote is closed");
                format!("{}{}\n", &line[..start], &after[end + 1..])
            }
            _ => format!("{line}\n"),
        })
        .collect();
    assert!(uncommented.len() < SAVE.len());
    is_ok(&of_save(&uncommented), "no comments in a large cluster");
    let stale = with(
        SAVE,
        &[":KUBE-SERVICES - ", ""],
        ":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]",
    );
    is_ok(&of_save(&stale), "chains that are to be deleted");
    let counted: String = SAVE
        .lines()
        .map(|line| if line.starts_with("-A") { format!("[7:420] {line}\n") } else { format!("{line}\n") })
        .collect();
    is_ok(&of_save(&counted), "counters");
    let chain = r#"{"nftables": [{"chain": {"family": "ip", "table": "kube-proxy", "name": "service-AAAAAAAA-t/gone/tcp/", "handle": 999}}, "#;
    is_ok(&of_nft(&replaced(NFT, r#"{"nftables": ["#, chain)), "an empty chain");
    for harmless in [
        "-A PREROUTING -i eth9 -j RETURN",
        "-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER\n-A DOCKER -i docker0 -j RETURN\n\
         -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80",
        "-A PREROUTING -m comment --comment \"cali:6gwbT8clXdHdC1b1\" -j cali-PREROUTING\n\
         -A cali-PREROUTING -j cali-fip-dnat\n-A cali-fip-dnat -d 192.0.2.77/32 -j DNAT --to-destination 10.244.0.9",
        "-A PREROUTING -d 10.96.0.0/12 -m conntrack --ctstate ESTABLISHED -j RETURN",
    ] {
        let rules = with(SAVE, &["-A PREROUTING", "KUBE-SERVICES"], harmless);
        is_ok(
            &of_save(&rules),
            "a rule of others that names no address of a Service, or takes no first packet",
        );
    }
    let perhaps =
        with(SAVE, &["-A PREROUTING", "KUBE-SERVICES"], "-A PREROUTING -i eth9 -d 10.96.0.0/12 -j RETURN");
    is_told(&web(&of_save(&perhaps)), Difference::Wrong, Kind::Unread);
}
