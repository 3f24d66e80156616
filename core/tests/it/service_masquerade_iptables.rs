//! Whose connections fail where kube-proxy's iptables mode does not masquerade: who comes from outside, in or out of the
//! cluster, and endpoints that ask their own Service; on what a real kube-proxy wrote.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::expected;
use netlab_core::service::fault::Kind;
use netlab_core::service::follow::{Client, Symptom};
use netlab_core::service::iptables::dump;
use netlab_core::service::trace::{PortTrace, Rules, ServiceTrace, Status, trace};

use crate::service_world::cluster;

const WORLD: &str = include_str!("../kube-proxy/world.yaml");
const IPV4: &str = include_str!("../kube-proxy/iptables-1.36.3.save");
const IPV6: &str = include_str!("../kube-proxy/ip6tables-1.36.3.save");
const NONE: f64 = 0.0;

fn compare(save: &str, family: AddressType) -> ServiceTrace {
    let ports = expected(&cluster(WORLD), "worker", family);
    trace(&Rules::Iptables(dump::parse(save).expect("well formed")), &ports, "worker")
}

/// What of a Service's packets is not known; of many a line names a few.
fn open(save: &str, service: &str) -> Vec<String> {
    let mut ports = expected(&cluster(WORLD), "worker", AddressType::Ipv4);
    ports.retain(|port| port.name.service.to_string() == service);
    trace(&Rules::Iptables(dump::parse(save).expect("well formed")), &ports, "worker").not_examined
}

/// The rules without all those that hold these words.
fn without(words: &[&str]) -> String {
    let kept: Vec<&str> = IPV4.lines().filter(|line| !words.iter().all(|word| line.contains(word))).collect();
    assert!(kept.len() < IPV4.lines().count(), "nothing is taken out: {words:?}");
    kept.join("\n") + "\n"
}

fn with(from: &str, to: &str) -> String {
    assert!(IPV4.contains(from), "{from}");
    IPV4.replace(from, to)
}

fn port<'a>(trace: &'a ServiceTrace, service: &str, name: &str) -> &'a PortTrace {
    let mut ports = trace.ports.iter();
    ports.find(|port| port.service == service && port.port == name).expect("the port")
}

const fn out(share: f64) -> Symptom {
    Symptom { timeout_share: share, refused_share: 0.0 }
}

fn worse(port: &PortTrace, clients: &str) -> Symptom {
    let mut all = port.addresses.iter().flat_map(|address| &address.worse);
    all.find(|worse| worse.clients.contains(clients)).map_or(out(NONE), |worse| worse.symptom)
}

/// What share times out: of node-port from outside at its node port, and from outside of the cluster to web's cluster IP,
/// half of whose endpoints are elsewhere; of web for its endpoint on the node.
#[track_caller]
fn check(name: &str, save: &str, outside: f64, strangers: f64, hairpin: f64) {
    let trace = compare(save, AddressType::Ipv4);
    for address in &port(&trace, "t/node-port", "").addresses {
        let share = if address.from == Client::Outside { outside } else { NONE };
        assert_eq!(address.symptom, out(share), "{name}: {} {:?}", address.address, address.from);
    }
    let web = port(&trace, "t/web", "http");
    assert_eq!(worse(web, "outside of the cluster"), out(strangers), "{name}");
    assert_eq!(worse(web, "10.244.1.1, its own endpoint"), out(hairpin), "{name}");
    assert_eq!(web.failing.is_some(), strangers + hairpin > 0.0, "{name}: {web:#?}");
    assert_eq!(web.symptom, out(f64::max(strangers, hairpin)), "{name}");
    assert_eq!(web.status == Status::Broken, *save != *IPV4, "{name}");
}

#[test]
fn who_fails_where_packets_keep_their_source() {
    let (all, half) = (1.0, 0.5);
    check("well", IPV4, NONE, NONE, NONE);
    let own = "-A KUBE-SEP-M3IBOPYYY456YBT7 -s";
    check("no mark of an endpoint", &without(&[own]), NONE, NONE, half);
    check(
        "the mark of another",
        &with(&format!("{own} 10.244.1.1/"), &format!("{own} 10.244.1.9/")),
        NONE,
        NONE,
        half,
    );
    check("the chain that marks is empty", &without(&["-A KUBE-MARK-MASQ"]), all, half, half);
    check("nothing leads to masquerading", &without(&["-A POSTROUTING"]), all, half, half);
    check("the chain that masquerades is empty", &without(&["-A KUBE-POSTROUTING"]), all, half, half);
    check(
        "another bit is set",
        &with("MARK --set-xmark 0x4000/0x4000", "MARK --set-xmark 0x8000/0x8000"),
        all,
        half,
        half,
    );
    check(
        "another bit is asked for",
        &with("! --mark 0x4000/0x4000", "! --mark 0x8000/0x8000"),
        all,
        half,
        half,
    );
    let others = ["! -s 10.244.0.0/16", "t/web:http"];
    check("no mark of who is no pod", &without(&others), NONE, half, NONE);
}

#[test]
fn nobody_fares_worse_where_nothing_is_wrong() {
    for (save, family) in [(IPV4, AddressType::Ipv4), (IPV6, AddressType::Ipv6)] {
        let trace = compare(save, family);
        let asked: Vec<_> = trace.ports.iter().flat_map(|port| &port.addresses).collect();
        assert!(!asked.is_empty());
        for address in asked {
            assert!(address.worse.is_empty(), "{}: {:?}", address.address, address.worse);
        }
        assert!(
            !trace.not_examined.iter().any(|words| words.contains("POSTROUTING")),
            "{:?}",
            trace.not_examined
        );
    }
}

/// A proxy that was not told who is a pod masquerades nobody from outside, and that is no fault.
#[test]
fn without_a_network_of_pods_strangers_are_not_judged() {
    let trace = compare(&without(&["! -s 10.244.0.0/16"]), AddressType::Ipv4);
    assert_eq!(worse(port(&trace, "t/web", "http"), "outside of the cluster"), out(NONE));
    let nothing = without(&["-A POSTROUTING"]);
    let trace = compare(&nothing.replace("! -s 10.244.0.0/16 ", ""), AddressType::Ipv4);
    assert_eq!(
        worse(port(&trace, "t/web", "http"), "outside of the cluster"),
        out(0.5),
        "everybody is marked"
    );
}

/// What else stands at POSTROUTING may masquerade, and nobody can say.
#[test]
fn rules_of_others_that_may_masquerade_leave_it_open() {
    let save = IPV4.replace(
        "-A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING",
        "-A POSTROUTING -o eth0 -j MASQUERADE",
    );
    let trace = compare(&save, AddressType::Ipv4);
    let web = port(&trace, "t/web", "http");
    assert!(web.addresses.iter().all(|address| address.worse.is_empty()), "{web:#?}");
    let open = open(&save, "t/web");
    for words in ["from the endpoint itself to 10.244.1.1:8080", "from outside to 10.244.2.1:8080"] {
        assert!(open.iter().any(|line| line.contains(words)), "{open:?}");
    }
    assert_eq!(open.len(), 1, "one question, asked once: {open:?}");
}

const MANGLE: &str = "*mangle\n:FORWARD ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:OTHERS - [0:0]\n";

/// With rules of others: in nat before the proxy's, else in a mangle table.
fn with_others(rules: &[&str]) -> String {
    let rules = rules.join("\n") + "\n";
    if rules.contains("-j OTHERS") || !rules.starts_with("-A POSTROUTING") {
        return format!("{MANGLE}{rules}COMMIT\n{IPV4}");
    }
    with("-A POSTROUTING ", &format!("{rules}-A POSTROUTING "))
}

#[test]
fn a_rule_of_others_by_which_packets_keep_their_source_is_the_fault() {
    let (all, half) = (1.0, 0.5);
    let clear = "-j MARK --set-xmark 0x0/0xffffffff";
    let forward = format!("-A FORWARD {clear}");
    let called = [format!("-A OTHERS {clear}"), "-A FORWARD -j OTHERS".to_owned()];
    let mut cases: Vec<(&str, String, f64, f64, f64, &str)> = vec![
        ("accepted", with_others(&["-A POSTROUTING -d 10.244.0.0/16 -j ACCEPT"]), all, half, half, "ACCEPT"),
        ("returned", with_others(&["-A POSTROUTING -d 10.244.0.0/16 -j RETURN"]), all, half, half, "RETURN"),
        (
            "between pods",
            with_others(&["-A POSTROUTING -s 10.244.0.0/16 -d 10.244.0.0/16 -j ACCEPT"]),
            NONE,
            NONE,
            half,
            "ACCEPT",
        ),
        (
            "cleared at last",
            with_others(&["-A POSTROUTING -j MARK --set-xmark 0x0/0x4000"]),
            all,
            half,
            half,
            "MARK",
        ),
        ("cleared", with_others(&[&forward]), all, half, half, "MARK"),
        ("cleared by a chain", with_others(&[&called[0], &called[1]]), all, half, half, "MARK"),
    ];
    let after = format!("*mangle\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING {clear}\nCOMMIT\n{IPV4}");
    cases.push(("cleared where they leave", after, all, half, half, "MARK"));
    for (name, save, outside, strangers, hairpin, word) in &cases {
        check(name, save, *outside, *strangers, *hairpin);
        let trace = compare(save, AddressType::Ipv4);
        assert_eq!(trace.shared, [], "{name}");
        let web = port(&trace, "t/web", "http");
        let faults: Vec<_> = web.faults().collect();
        let line = faults[0].place.line.and_then(|line| save.lines().nth(line - 1)).expect("its line");
        assert!(line.contains(&format!("-j {word}")), "{name}: {line}");
        assert_eq!((faults.len(), faults[0].kind, &*faults[0].object), (1, Kind::Foreign, *word), "{name}");
        assert!(faults[0].detail.contains("keep their source"), "{name}: {}", faults[0].detail);
        assert!(web.heals.is_some_and(|heals| heals.starts_with("not by itself")), "{name}");
    }
}

#[test]
fn rules_of_others_that_leave_the_proxy_s_mark_alone_are_no_fault() {
    for rule in [
        "-A FORWARD -j MARK --set-xmark 0x0/0xffff0000",
        "-A FORWARD -o eth0 -j MARK --set-xmark 0x0/0xffff0000",
        "-A FORWARD -o eth0 -j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80",
        "-A FORWARD -j CONNMARK --set-xmark 0x80/0x80",
        "-A FORWARD -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff",
        "-A POSTROUTING -d 172.17.0.0/16 -j ACCEPT",
        "-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
    ] {
        let trace = compare(&with_others(&[rule]), AddressType::Ipv4);
        assert!(trace.ports.iter().all(|port| port.status == Status::Ok), "{rule}");
        let open = trace.not_examined.iter().find(|words| words.contains("get an address of the node"));
        assert_eq!(open, None, "{rule}");
    }
}

#[test]
fn a_rule_of_others_that_may_clear_the_mark_is_not_examined() {
    for rules in [
        ["-A FORWARD -o eth0 -j MARK --set-xmark 0x0/0xffffffff", ""],
        ["-A FORWARD -o eth0 -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff", ""],
        ["-A FORWARD -i eth0 -j ACCEPT", "-A FORWARD -j MARK --set-xmark 0x0/0xffffffff"],
        ["-A OTHERS -j MARK --set-xmark 0x0/0xffffffff", "-A FORWARD -i eth0 -j OTHERS"],
        ["-A OTHERS -i eth0 -j RETURN", "-A OTHERS -j MARK --set-xmark 0x0/0xffffffff\n-A FORWARD -j OTHERS"],
    ] {
        let save = with_others(&rules);
        let trace = compare(&save, AddressType::Ipv4);
        let web = port(&trace, "t/web", "http");
        assert_eq!((web.status, web.symptom), (Status::Ok, out(NONE)), "{rules:?}: {web:#?}");
        let at = 1 + save.lines().position(|line| line.contains("MARK --")).expect("the rule that marks");
        let named = format!("(line {at}, ");
        let open = open(&save, "t/web");
        for words in ["from the endpoint itself to 10.244.1.1:8080", "from outside to 10.244.2.1:8080"] {
            let told = |line: &String| line.contains(words) && line.contains(&named);
            assert!(open.iter().any(told), "{rules:?} {open:?}");
        }
    }
}
