//! What a real kube-proxy wrote, in another order or with other conditions, bits and sources: each is told with its
//! object, and with what clients see. What options of kube-proxy write is no fault.

use netlab_core::service::RouteKind;
use netlab_core::service::fault::{Fault, Kind};
use netlab_core::service::follow::Symptom;
use netlab_core::service::trace::{PortTrace, ServiceTrace, Status};

use crate::service_taxonomy::{SAVE, changed, of_save, with, without};

const WEB: &str = "KUBE-SVC-LRRAIHV5BJDVCG76";
const WEB_ENDPOINT: &str = "KUBE-SEP-YQSACVHHLEHYKBWW";
const STICKY: &str = "KUBE-SVC-4ZD2B4I6L5MATCS7";
const FIREWALL: &str = "KUBE-FW-4ZD2B4I6L5MATCS7";
const BALANCED: &str = "KUBE-EXT-4ZD2B4I6L5MATCS7";
const NODE_PORT: &str = "KUBE-EXT-5R46ZP723NPRCLHL";
const OUTSIDE: &str = "KUBE-EXT-2M7Q6IFM5MKBQ7BT";
const OUT: Symptom = Symptom { timeout_share: 1.0, refused_share: 0.0 };
/// Of those who do not fare as most do: endpoints that ask themselves, and who comes from outside of the cluster.
const HALF: Symptom = Symptom { timeout_share: 0.5, refused_share: 0.0 };
const NONE: Symptom = Symptom { timeout_share: 0.0, refused_share: 0.0 };
const MARK: &str = "KUBE-MARK-MASQ";

/// The text with the first line that has these words after the last of its chain.
fn last(words: &[&str]) -> String {
    let line = SAVE.lines().find(|line| words.iter().all(|word| line.contains(word))).expect("the rule");
    let chain = line.split(' ').nth(1).expect("a chain");
    after(&without(SAVE, words), chain, line)
}

/// The text with a line after the last of a chain.
fn after(text: &str, chain: &str, line: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let of_chain = |known: &&str| known.starts_with(&format!("-A {chain} "));
    let at = lines.iter().rposition(of_chain).expect("the chain");
    lines.insert(at + 1, line);
    lines.join("\n") + "\n"
}

/// The text with a rule before the first of its chain.
fn first(rule: &str) -> String {
    let chain = rule.split(' ').nth(1).expect("a chain");
    with(SAVE, &[&format!("-A {chain} ")], rule)
}

fn port<'a>(trace: &'a ServiceTrace, service: &str) -> &'a PortTrace {
    trace.ports.iter().find(|port| port.service == service && port.port != "metrics").expect("the port")
}

/// Told with this object in this chain; clients from outside see the symptom at the Service's worst address.
#[track_caller]
fn is_told(
    name: &str,
    text: &str,
    service: &str,
    (kind, object, chain): (Kind, &str, &str),
    symptom: Symptom,
) {
    let trace = of_save(text);
    let port = port(&trace, service);
    assert_eq!((port.status, port.symptom), (Status::Broken, symptom), "{name}: {port:#?}");
    let shared = trace.shared.iter().map(|shared| &shared.fault);
    let all: Vec<&Fault> = port.faults().chain(shared).collect();
    let is_it = |fault: &&Fault| {
        (fault.kind, &*fault.object, &*fault.place.chain) == (kind, object, chain)
            && fault.place.line.is_some()
            && !fault.detail.is_empty()
    };
    assert!(all.iter().any(is_it), "{name}: {all:#?}");
}

#[track_caller]
fn is_ok(name: &str, text: &str) {
    let trace = of_save(text);
    assert_eq!(trace.shared, [], "{name}");
    for port in &trace.ports {
        assert_eq!((port.status, port.symptom), (Status::Ok, NONE), "{name}: {port:#?}");
    }
    assert_eq!(trace.not_examined, [""; 0], "{name}");
}

#[test]
fn who_may_come_is_not_opened_by_another_rule() {
    let source = Kind::SourceRange;
    let all = after(SAVE, FIREWALL, &format!("-A {FIREWALL} -j {BALANCED}"));
    is_told("every source", &all, "t/balanced", (source, BALANCED, FIREWALL), NONE);
    let all = first(&format!("-A {FIREWALL} -p udp -j {BALANCED}"));
    is_told("a protocol", &all, "t/balanced", (source, BALANCED, FIREWALL), NONE);
    let not = first(&format!("-A {FIREWALL} ! -s 203.0.113.0/24 -j {BALANCED}"));
    is_told("every other source", &not, "t/balanced", (source, BALANCED, FIREWALL), NONE);
    let past = first(&format!("-A {FIREWALL} -s 192.0.2.0/24 -j {STICKY}"));
    is_told("past its chain", &past, "t/balanced", (source, STICKY, FIREWALL), NONE);
    for rule in ["-j RETURN", "-d 198.51.100.0/24 -j RETURN", "-p udp -m udp --dport 53 -j ACCEPT"] {
        let text = first(&format!("-A KUBE-PROXY-FIREWALL {rule}"));
        let word = rule.rsplit(' ').next().expect("a word");
        is_told(rule, &text, "t/balanced", (source, word, "KUBE-PROXY-FIREWALL"), NONE);
    }
    let some = changed(SAVE, &["-A KUBE-PROXY-FIREWALL -d 198.51.100.7/32"], " -p udp", " -i eth9 -p udp");
    let trace = of_save(&some);
    assert!(port(&trace, "t/balanced").wrong.iter().any(|fault| fault.object == "DROP"));
    // The other Services' addresses are as they were.
    let one = first("-A KUBE-PROXY-FIREWALL -d 198.51.100.7/32 -j RETURN");
    assert_eq!(port(&of_save(&one), "t/elsewhere-outside").status, Status::Ok);
}

#[test]
fn marks_come_before_what_takes_packets_away() {
    let masquerade = Kind::Masquerade;
    let late = last(&[&format!("-A {WEB} ! -s")]);
    is_told("of the Service", &late, "t/web", (masquerade, MARK, WEB), HALF);
    let late = last(&[&format!("-A {NODE_PORT} "), "-j KUBE-MARK-MASQ"]);
    is_told("from outside", &late, "t/node-port", (masquerade, MARK, NODE_PORT), OUT);
    let late = last(&[&format!("-A {WEB_ENDPOINT} -s")]);
    // It asks where it is, on another node.
    is_told("hairpin", &late, "t/web", (masquerade, MARK, WEB_ENDPOINT), NONE);
    let own = "KUBE-SEP-M3IBOPYYY456YBT7";
    let late = last(&[&format!("-A {own} -s")]);
    is_told("hairpin of this node", &late, "t/web", (masquerade, MARK, own), HALF);
    let late = last(&[&format!("-A {OUTSIDE} "), "-j KUBE-MARK-MASQ"]);
    is_told("of the node", &late, "t/outside", (masquerade, MARK, OUTSIDE), NONE);
    let local = "KUBE-SVL-2M7Q6IFM5MKBQ7BT";
    let early = first(&format!("-A {OUTSIDE} -j {local}"));
    is_told("local first", &early, "t/outside", (Kind::Backend, local, OUTSIDE), NONE);
    // A mark for packets of clients outside that should keep their source.
    let more = first(&format!("-A {OUTSIDE} -j {MARK}"));
    is_told("one mark more", &more, "t/outside", (Kind::Foreign, MARK, OUTSIDE), NONE);
    let text = first(&format!("-A {WEB} -j MARK --set-xmark 0x0/0x4000"));
    is_told("a mark taken away", &text, "t/web", (Kind::Foreign, "MARK", WEB), NONE);
}

#[test]
fn clients_that_stay_are_looked_for_first() {
    let rules: Vec<&str> = SAVE
        .lines()
        .filter(|line| line.starts_with(&format!("-A {STICKY} ")) && line.contains("--rcheck"))
        .collect();
    let text = rules.iter().fold(SAVE.to_owned(), |text, rule| after(&without(&text, &[rule]), STICKY, rule));
    let endpoint = "KUBE-SEP-5KQCKSAL75XKUS7G";
    is_told("after the choices", &text, "t/balanced", (Kind::Affinity, endpoint, STICKY), NONE);
    let sticky = &[&*format!("-A {STICKY} "), "--rcheck"];
    for (from, to) in [
        ("--rsource", "--rdest"),
        ("--mask 255.255.255.255", "--mask 255.255.0.0"),
        ("--seconds 10800", "--seconds 10800 --hitcount 5"),
        ("--rcheck", "--update"),
    ] {
        let text = changed(SAVE, sticky, from, to);
        is_told(to, &text, "t/balanced", (Kind::Affinity, endpoint, STICKY), NONE);
    }
}

#[test]
fn what_is_marked_is_masqueraded_and_nothing_else() {
    let (masquerade, leaving) = (Kind::Masquerade, "KUBE-POSTROUTING");
    let late = last(&["-A KUBE-POSTROUTING -m mark ! "]);
    is_told("RETURN last", &late, "t/node-port", (masquerade, "RETURN", leaving), NONE);
    let late = last(&["-A KUBE-POSTROUTING -j MARK"]);
    is_told("MARK last", &late, "t/node-port", (masquerade, "MARK", leaving), NONE);
    let text = first("-A KUBE-MARK-MASQ -j RETURN");
    is_told("nothing marked", &text, "t/node-port", (masquerade, "RETURN", MARK), OUT);
    let text = first("-A KUBE-POSTROUTING -j RETURN");
    is_told("nothing masqueraded", &text, "t/node-port", (masquerade, "RETURN", leaving), OUT);
    for rule in ["-j ACCEPT", "-j RETURN"] {
        let text = first(&format!("-A POSTROUTING {rule}"));
        let word = rule.trim_start_matches("-j ");
        is_told("taken before", &text, "t/node-port", (Kind::Foreign, word, "POSTROUTING"), OUT);
    }
    let text = changed(SAVE, &["-A KUBE-POSTROUTING", "-j MASQUERADE"], " -m comment", " -o eth9 -m comment");
    is_told("some interface", &text, "t/node-port", (masquerade, "MASQUERADE", leaving), OUT);
    let text = changed(SAVE, &["-A KUBE-MARK-MASQ"], " -j MARK", " -p udp -j MARK");
    is_told("some protocol", &text, "t/node-port", (masquerade, "MARK", MARK), OUT);
    let of_udp = of_save(&text);
    assert_eq!(port(&of_udp, "t/balanced").symptom, NONE, "packets of UDP are marked");
    for clear in ["0x8000/0x0", "0x4000/0xffffffff", "0x0/0xffffffff", "0x4000/0x4000"] {
        let text = changed(SAVE, &["-A KUBE-POSTROUTING -j MARK"], "0x4000/0x0", clear);
        is_told(clear, &text, "t/node-port", (masquerade, "MARK", leaving), NONE);
    }
    for asked in ["0x4000/0x8000", "0x8000/0x8000", "0x4000"] {
        let text = changed(SAVE, &["-A KUBE-POSTROUTING -m mark"], "0x4000/0x4000", asked);
        let trace = of_save(&text);
        let told = trace.shared.iter().any(|shared| shared.fault.detail.contains("is looked for"));
        assert!(told, "{asked}: {:?}", trace.shared);
    }
}

#[test]
fn who_is_a_pod_is_asked_everywhere_alike() {
    let of_web = &[&*format!("-A {WEB} ! -s")];
    let text = changed(SAVE, of_web, "! -s", "-s");
    is_told("pods in place of others", &text, "t/web", (Kind::Masquerade, MARK, WEB), HALF);
    let text = changed(SAVE, of_web, "10.244.0.0/16", "10.245.0.0/16");
    is_told("another network", &text, "t/web", (Kind::Masquerade, MARK, WEB), NONE);
    let of_pods = &[&*format!("-A {OUTSIDE} -s")];
    let text = changed(SAVE, of_pods, "10.244.0.0/16", "10.245.0.0/16");
    let target = "KUBE-SVC-2M7Q6IFM5MKBQ7BT";
    is_told("another network outside", &text, "t/outside", (Kind::Backend, target, OUTSIDE), NONE);
}

/// Without masquerading an endpoint of another node answers past this one: clients outside wait, and pods do not.
#[test]
fn answers_that_find_no_way_back_are_a_symptom() {
    for (name, text) in [
        ("no mark", without(SAVE, &[&format!("-A {NODE_PORT} "), "-j KUBE-MARK-MASQ"])),
        ("an empty chain", without(SAVE, &["-A KUBE-MARK-MASQ"])),
        ("no way there", without(SAVE, &["-A POSTROUTING", "KUBE-POSTROUTING"])),
        ("no rule there", without(SAVE, &["-j MASQUERADE"])),
    ] {
        let trace = of_save(&text);
        let port = port(&trace, "t/node-port");
        assert_eq!((port.status, port.symptom), (Status::Broken, OUT), "{name}: {port:#?}");
        assert_ne!(port.failing.as_deref(), Some("10.96.0.5:80"), "{name}");
        for address in &port.addresses {
            let inside = address.to == RouteKind::ClusterIp;
            assert_eq!(address.symptom, if inside { NONE } else { OUT }, "{name}: {address:#?}");
        }
        let spared = self::port(&trace, "t/outside");
        assert!(
            spared.addresses.iter().all(|address| address.symptom == NONE),
            "{name}: endpoints of this node answer through it: {spared:#?}"
        );
    }
    // Half of the endpoints are on this node.
    let trace = of_save(&without(SAVE, &["-A KUBE-MARK-MASQ"]));
    assert_eq!(port(&trace, "t/balanced").symptom, HALF);
    // Others masquerade all that leaves.
    let others =
        with(&without(SAVE, &["-A KUBE-MARK-MASQ"]), &["-A POSTROUTING "], "-A POSTROUTING -j MASQUERADE");
    assert_eq!(port(&of_save(&others), "t/node-port").symptom, NONE);
    let perhaps = with(
        &without(SAVE, &["-A KUBE-MARK-MASQ"]),
        &["-A POSTROUTING "],
        "-A POSTROUTING -o eth0 -j MASQUERADE",
    );
    let perhaps = of_save(&perhaps);
    assert_eq!(port(&perhaps, "t/node-port").symptom, NONE);
    assert!(
        perhaps.not_examined.iter().any(|words| words.contains("get an address of the node")),
        "{:?}",
        perhaps.not_examined
    );
}

#[test]
fn what_heals_by_itself() {
    let never = "not by itself";
    let sync = "at the proxy's next sync";
    let hour = "within 1 h";
    for (name, text, service, heals) in [
        ("FORWARD", with(SAVE, &["-A FORWARD"], "-A FORWARD -d 10.244.2.0/24 -j DROP"), "t/web", never),
        (
            "refused",
            with(SAVE, &["-A FORWARD"], "-A FORWARD -d 10.244.2.0/24 -p tcp -m tcp --dport 8080 -j REJECT"),
            "t/web",
            never,
        ),
        ("a policy", changed(SAVE, &[":FORWARD"], "ACCEPT", "DROP"), "t/web", never),
        ("before", first("-A PREROUTING -j ACCEPT"), "t/web", never),
        (
            "not tracked",
            format!(
                "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 10.96.0.1/32 -j CT --notrack\nCOMMIT\n{SAVE}"
            ),
            "t/web",
            never,
        ),
        (
            "node ports",
            changed(SAVE, &["-A KUBE-NODEPORTS", "t/node-port"], "--dport 30081", "--dport 30085"),
            "t/node-port",
            sync,
        ),
        ("all Services", without(SAVE, &["-A KUBE-SERVICES -d 10.96.0.5/32"]), "t/node-port", sync),
        ("its own", without(SAVE, &[&format!("-A {WEB} "), "statistic"]), "t/web", hour),
        ("its endpoint", without(SAVE, &[&format!("-A {WEB_ENDPOINT} -p")]), "t/web", hour),
    ] {
        let trace = of_save(&text);
        let found = port(&trace, service);
        assert_eq!(found.status, Status::Broken, "{name}");
        let words = found.heals.unwrap_or_default();
        assert!(words.contains(heals), "{name}: {words} {found:#?}");
    }
}

#[test]
fn a_chain_that_leads_back_is_one_fault_with_its_line() {
    let rule = format!("-A {WEB} -j {WEB}");
    let trace = of_save(&first(&rule));
    let faults: Vec<&Fault> = port(&trace, "t/web").faults().collect();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert!(
        faults.iter().all(|fault| fault.place.line.is_some() && fault.kind == Kind::Foreign),
        "{faults:#?}"
    );
    assert!(faults.iter().any(|fault| fault.detail.contains("leads back")), "{faults:#?}");
    assert_eq!(port(&trace, "t/web").symptom, NONE);
}

/// Options of kube-proxy, and what they write.
#[test]
fn other_options_are_no_fault() {
    let tail = SAVE.lines().find(|line| line.contains("this must be the last rule")).expect("the rule");
    let at = |address: &str| {
        let rule = tail.replace("! -d 127.0.0.0/8", &format!("-d {address}/32"));
        rule.replace("-m addrtype --dst-type LOCAL ", "")
    };
    let one = SAVE.replace(tail, &at("192.0.2.20"));
    is_ok("one address with node ports", &one);
    is_ok("two of them", &SAVE.replace(tail, &format!("{}\n{}", at("192.0.2.20"), at("192.0.2.21"))));
    is_ok("no --masquerade-all to tell", SAVE);
    let lines =
        |edit: &dyn Fn(&str) -> String| SAVE.lines().map(|line| edit(line) + "\n").collect::<String>();
    let of_service = |line: &str| line.starts_with("-A KUBE-SVC-") || line.starts_with("-A KUBE-SVL-");
    let all = lines(&|line| {
        if of_service(line) { line.replace(" ! -s 10.244.0.0/16", "") } else { line.to_owned() }
    });
    is_ok("--masquerade-all", &all);
    for interface in ["cni0", "veth+"] {
        let by = lines(&|line| {
            if of_service(line) && line.contains(" ! -s 10.244.0.0/16 ") {
                let line = line.replace(" ! -s 10.244.0.0/16", "");
                line.replace(" -p ", &format!(" ! -i {interface} -p "))
            } else if line.starts_with("-A KUBE-EXT-") {
                line.replace(" -s 10.244.0.0/16", &format!(" -i {interface}"))
            } else {
                line.to_owned()
            }
        });
        assert!(by.contains(&format!("! -i {interface}")));
        is_ok(interface, &by);
        let web = &[&*format!("-A {WEB} "), "! -i"];
        let other = changed(&by, web, interface, "eth9");
        is_told("another interface", &other, "t/web", (Kind::Masquerade, MARK, WEB), NONE);
        let positive = changed(&by, web, "! -i", "-i");
        is_told("pods in place of others", &positive, "t/web", (Kind::Masquerade, MARK, WEB), HALF);
    }
    let nobody = SAVE.lines().filter(|line| {
        !(of_service(line) && line.contains(" ! -s ")
            || line.starts_with("-A KUBE-EXT-") && line.contains("-s 10.244"))
    });
    is_ok("nobody is known to be a pod", &(nobody.collect::<Vec<_>>().join("\n") + "\n"));
    let address = format!(
        "-A {FIREWALL} -s 198.51.100.7/32 -m comment --comment \"t/balanced:dns loadbalancer IP\" -j {BALANCED}"
    );
    is_ok("the balancer's own address", &first(&address));
    let another = address.replace("198.51.100.7", "198.51.100.8");
    let trace = of_save(&first(&another));
    assert!(port(&trace, "t/balanced").extra.iter().any(|fault| fault.kind == Kind::SourceRange));
}
