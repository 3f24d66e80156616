//! What is dropped after the first packet, what matters only where a node drops what nobody accepts, and what changes whom a
//! Service sees: each told with what clients see of it.

use netlab_core::service::fault::{Difference, Fault, Kind};
use netlab_core::service::follow::{Client, Symptom};
use netlab_core::service::trace::{PortTrace, ServiceTrace, Status};

use crate::service_taxonomy::{SAVE, changed, of_save, with, without};

const OUT: Symptom = Symptom { timeout_share: 1.0, refused_share: 0.0 };
const HALF: Symptom = Symptom { timeout_share: 0.5, refused_share: 0.0 };
const NONE: Symptom = Symptom { timeout_share: 0.0, refused_share: 0.0 };
const WEB: &str = "KUBE-SVC-LRRAIHV5BJDVCG76";

fn port<'a>(trace: &'a ServiceTrace, service: &str) -> &'a PortTrace {
    trace.ports.iter().find(|port| port.service == service && port.port != "metrics").expect("the port")
}

/// With rules before, or after, all others of FORWARD or INPUT.
fn before(rule: &str) -> String {
    with(SAVE, &[&rule.split(' ').take(2).collect::<Vec<_>>().join(" ")], rule)
}

fn after(text: &str, rule: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let chain = rule.split(' ').take(2).collect::<Vec<_>>().join(" ") + " ";
    let at = lines.iter().rposition(|line| line.starts_with(&chain)).expect("the chain");
    lines.insert(at + 1, rule);
    lines.join("\n") + "\n"
}

/// With a policy of the filter table.
fn dropping(text: &str, chain: &str) -> String {
    let (before, filter) = text.split_once("*filter").expect("the table");
    let accepts = format!(":{chain} ACCEPT");
    assert!(filter.contains(&accepts));
    format!("{before}*filter{}", filter.replacen(&accepts, &format!(":{chain} DROP"), 1))
}

#[track_caller]
fn is_told(
    name: &str,
    text: &str,
    service: &str,
    (difference, kind, chain): (Difference, Kind, &str),
    symptom: Symptom,
) {
    let trace = of_save(text);
    let port = port(&trace, service);
    assert_eq!(
        (port.status, port.symptom),
        (Status::Broken, symptom),
        "{name}: {port:#?} {:#?}",
        trace.shared
    );
    let shared = trace.shared.iter().map(|shared| &shared.fault);
    let all: Vec<&Fault> = port.faults().chain(shared).collect();
    let is_it =
        |fault: &&Fault| (fault.difference, fault.kind, &*fault.place.chain) == (difference, kind, chain);
    assert!(all.iter().any(is_it), "{name}: {all:#?}");
}

const FOREIGN: (Difference, Kind, &str) = (Difference::Extra, Kind::Foreign, "FORWARD");

#[test]
fn answers_that_are_dropped_are_none() {
    for (rule, service, symptom) in [
        ("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j DROP", "t/web", OUT),
        ("-A FORWARD -m conntrack --ctstate ESTABLISHED -j DROP", "t/node-port", OUT),
        ("-A FORWARD -m conntrack --ctstate ESTABLISHED -j DROP", "t/balanced", OUT),
        ("-A FORWARD -m conntrack --ctstate ESTABLISHED -j REJECT", "t/web", OUT),
        ("-A FORWARD -s 10.244.2.1/32 -p tcp -m tcp --sport 8080 -j DROP", "t/web", HALF),
        ("-A FORWARD -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP", "t/web", OUT),
    ] {
        is_told(rule, &before(rule), service, FOREIGN, symptom);
    }
    let trace = of_save(&before("-A FORWARD -m conntrack --ctstate ESTABLISHED -j DROP"));
    let words: Vec<&str> = port(&trace, "t/balanced").faults().map(|fault| &*fault.detail).collect();
    assert!(
        words.iter().any(|words| words.contains("packets of 10.244.1.5:5353 that answer pods are dropped")),
        "{words:?}"
    );
    // KUBE-FORWARD lets answers through before.
    let late = after(SAVE, "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j DROP");
    assert_eq!(port(&of_save(&late), "t/web").status, Status::Ok);
}

/// Where packets come in, before they are translated: what follows the first is dropped there, or not tracked and so
/// nobody's. Each was measured on a node with real clients.
#[test]
fn what_comes_in_after_the_first_packet_is_followed_from_the_start() {
    let with = |table: &str, rule: &str| {
        let chain = rule.split(' ').nth(1).expect("a chain");
        format!("*{table}\n:{chain} ACCEPT [0:0]\n{rule}\nCOMMIT\n{SAVE}")
    };
    let all = [OUT; 2];
    for (table, rule, service, [pods, node]) in [
        ("mangle", "-A PREROUTING -p tcp -m tcp --sport 8080 -j DROP", "t/web", all),
        ("mangle", "-A PREROUTING -m conntrack --ctstate ESTABLISHED -j DROP", "t/web", all),
        ("raw", "-A PREROUTING -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -j DROP", "t/web", all),
        ("mangle", "-A OUTPUT -m conntrack --ctstate ESTABLISHED -j DROP", "t/web", [NONE, OUT]),
        ("raw", "-A PREROUTING -s 10.244.2.1/32 -j DROP", "t/web", [HALF; 2]),
        ("raw", "-A PREROUTING -p tcp -m tcp --sport 8080 -j CT --notrack", "t/web", all),
        ("raw", "-A PREROUTING -p tcp -m tcp --sport 8080 -j NOTRACK", "t/web", all),
        ("raw", "-A PREROUTING -j CT --notrack", "t/web", all),
        ("raw", "-A PREROUTING -p tcp -m tcp --sport 8081 -j CT --notrack", "t/web", [NONE; 2]),
        ("raw", "-A PREROUTING -p udp -j CT --notrack", "t/web", [NONE; 2]),
    ] {
        let trace = of_save(&with(table, rule));
        let port = port(&trace, service);
        for (client, sees) in [(Client::Pod, pods), (Client::Node, node)] {
            let found = port.addresses.iter().find(|address| address.from == client).expect("clients");
            assert_eq!(
                found.symptom,
                sees,
                "{table} {rule} {client:?} {:?}",
                port.faults().collect::<Vec<_>>()
            );
        }
        let broken = pods != NONE || node != NONE;
        assert_eq!(port.status == Status::Broken, broken, "{table} {rule}");
        let foreign = |fault: &Fault| fault.kind == Kind::Foreign && fault.place.table == table;
        assert_eq!(port.faults().any(foreign), broken, "{table} {rule}: the rule is named");
    }
}

#[test]
fn what_lets_through_matters_where_the_rest_is_dropped() {
    let answers = &["-A KUBE-FORWARD", "RELATED,ESTABLISHED"];
    let marked = &["-A KUBE-FORWARD", "--mark"];
    let forward = (Difference::Missing, Kind::Forward, "KUBE-FORWARD");
    is_told("nothing is dropped", &without(SAVE, answers), "t/web", forward, NONE);
    is_told("nor is a first packet", &without(SAVE, marked), "t/node-port", forward, NONE);
    let pods = "-A FORWARD -s 10.244.0.0/16 -m conntrack --ctstate NEW -j ACCEPT";
    let strict = after(&dropping(SAVE, "FORWARD"), pods);
    assert_eq!(port(&of_save(&strict), "t/web").symptom, NONE);
    assert_eq!(port(&of_save(&strict), "t/node-port").symptom, NONE);
    is_told("answers are", &without(&strict, answers), "t/web", forward, OUT);
    is_told("first packets are", &without(&strict, marked), "t/node-port", forward, OUT);
    let jump = without(&strict, &["-A FORWARD", "-j KUBE-FORWARD"]);
    is_told("no jump", &jump, "t/web", (Difference::Missing, Kind::Jump, "FORWARD"), OUT);
}

#[test]
fn health_checks_are_let_in() {
    let rule = &["-A KUBE-NODEPORTS", "health check node port"];
    let missing = (Difference::Missing, Kind::HealthCheck, "KUBE-NODEPORTS");
    is_told("no rule", &without(SAVE, rule), "t/balanced-local", missing, NONE);
    let extra = (Difference::Extra, Kind::HealthCheck, "INPUT");
    let known = "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT";
    let strict = after(&dropping(SAVE, "INPUT"), known);
    assert_eq!(
        port(&of_save(&strict), "t/balanced-local").status,
        Status::Ok,
        "the proxy's rule lets them in"
    );
    is_told("nor another", &without(&strict, rule), "t/balanced-local", extra, NONE);
    let dropped = before("-A INPUT -p tcp -m tcp --dport 30999 -j DROP");
    is_told("a rule of others", &dropped, "t/balanced-local", extra, NONE);
    let harmless = before("-A INPUT -p tcp -m tcp --dport 30081 -j DROP");
    assert_eq!(port(&of_save(&harmless), "t/node-port").status, Status::Ok, "they are translated before");
}

#[test]
fn what_fails_nobody_is_told_all_the_same() {
    let web = &[&*format!("-A {WEB} ! -s")];
    let all = changed(SAVE, web, " ! -s 10.244.0.0/16", "");
    is_told("pods lose their source", &all, "t/web", (Difference::Wrong, Kind::Masquerade, WEB), NONE);
    let (first, last) = ("KUBE-SEP-M3IBOPYYY456YBT7", "KUBE-SEP-YQSACVHHLEHYKBWW");
    let swapped = changed(SAVE, &["t/web:http -> 10.244.1.1:8080"], first, last);
    let swapped = changed(&swapped, &["t/web:http -> 10.244.2.1:8080"], last, first);
    is_told("exchanged", &swapped, "t/web", (Difference::Wrong, Kind::BackendTarget, WEB), NONE);
    let entry = SAVE.lines().find(|line| line.starts_with("-A KUBE-SERVICES -d 10.96.0.1/32")).expect("it");
    let later = after(SAVE, &entry.replace(WEB, "KUBE-SVC-E65MTZXIXDGT3HKZ"));
    is_told("a second entry", &later, "t/web", (Difference::Extra, Kind::Frontend, "KUBE-SERVICES"), NONE);
    let reset = changed(SAVE, &["-d 10.96.0.8/32", "has no endpoints"], "icmp-port-unreachable", "tcp-reset");
    is_told("refused otherwise", &reset, "t/nobody", (Difference::Wrong, Kind::End, "KUBE-SERVICES"), NONE);
}
