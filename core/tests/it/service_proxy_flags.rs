//! Flags of a real kube-proxy that change its rules of nftables mode, and what of a Service each family has: normal
//! states are ok, and what is left out of them is found. The tables are those that a real kube-proxy wrote, changed as
//! `pkg/proxy/nftables/proxier.go` writes them with the flag.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::expected;
use netlab_core::service::fault::{Difference, Kind};
use netlab_core::service::follow::Symptom;
use netlab_core::service::iptables;
use netlab_core::service::nftables::dump;
use netlab_core::service::trace::{PortTrace, Rules, ServiceTrace, Status, trace};
use serde_json::{Value, json};

use crate::service_world::cluster;

const WORLD: &str = include_str!("../kube-proxy/world.yaml");
const REFUSED: Symptom = Symptom { timeout_share: 0.0, refused_share: 1.0 };

/// The tables, with the family, the words of that family and an address of the node.
fn tables() -> Vec<(&'static str, Value)> {
    [
        ("ip", include_str!("../kube-proxy/nft-ip-1.36.3.json")),
        ("ip", include_str!("../kube-proxy/nft-ip-1.34.4.json")),
        ("ip6", include_str!("../kube-proxy/nft-ip6-1.36.3.json")),
        ("ip6", include_str!("../kube-proxy/nft-ip6-1.34.4.json")),
    ]
    .map(|(family, text)| (family, serde_json::from_str(text).expect("JSON")))
    .into()
}

fn of_family(family: &str) -> AddressType {
    if family == "ip6" { AddressType::Ipv6 } else { AddressType::Ipv4 }
}

fn compare(table: &Value, world: &str, family: &str) -> ServiceTrace {
    let ports = expected(&cluster(world), "worker", of_family(family));
    assert!(ports.len() >= 5, "{}", ports.len());
    trace(&Rules::Nftables(dump::parse(&table.to_string()).expect("well formed")), &ports, "worker")
}

fn of<'a>(trace: &'a ServiceTrace, service: &str) -> &'a PortTrace {
    trace.ports.iter().find(|port| port.service == service).expect("it is there")
}

#[track_caller]
fn is_ok(name: &str, trace: &ServiceTrace) {
    assert_eq!(trace.shared, [], "{name}");
    for port in &trace.ports {
        let faults: Vec<_> = port.faults().collect();
        assert!(faults.is_empty(), "{name} {}: {faults:?}", port.service);
        assert_eq!((port.status, port.symptom), (Status::Ok, Symptom::default()), "{name} {port:?}");
    }
}

fn items(table: &mut Value) -> &mut Vec<Value> {
    table["nftables"].as_array_mut().expect("a list")
}

fn with_node(addresses: &str) -> String {
    let spec = "spec: {podCIDRs: [10.244.0.0/16, 'fd00:10:244::/48']}";
    assert!(WORLD.contains(spec));
    WORLD.replacen(spec, &format!("{spec}\nstatus: {{addresses: [{addresses}]}}"), 1)
}

fn address(ip: &str) -> String {
    format!("{{type: InternalIP, address: '{ip}'}}")
}

/// With `--nodeport-addresses` that names some addresses, or without one: the default is `primary`.
fn primary(table: &Value, ip: &str, addresses: &[&str]) -> Value {
    let mut table = table.clone();
    let asked = json!({"match": {"op": "==", "left": {"payload": {"protocol": ip, "field": "daddr"}}, "right": "@nodeport-ips"}});
    let mut changed = 0;
    for item in items(&mut table) {
        let is_it = |map: &str| {
            item["rule"]["expr"]
                .as_array()
                .and_then(|all| all.last())
                .is_some_and(|last| last["vmap"]["data"] == map)
        };
        if is_it("@service-nodeports") || is_it("@no-endpoint-nodeports") {
            let expression = item["rule"]["expr"].as_array_mut().expect("statements");
            let lookup = expression.pop().expect("the last");
            *expression = vec![asked.clone(), lookup];
            changed += 1;
        }
    }
    assert_eq!(changed, 2);
    let mut set =
        json!({"family": ip, "name": "nodeport-ips", "table": "kube-proxy", "handle": 999, "type": "x"});
    if !addresses.is_empty() {
        set["elem"] = json!(addresses);
    }
    items(&mut table).push(json!({"set": set}));
    table
}

#[test]
fn node_ports_at_the_nodes_primary_address_are_the_default() {
    let worlds = [
        WORLD.to_owned(),
        with_node(&format!("{}, {}", address("192.0.2.20"), address("2001:db8::20"))),
        // The others of a node with several do not answer, by the same default.
        with_node(&[address("192.0.2.20"), address("192.0.2.21"), address("2001:db8::20")].join(", ")),
    ];
    for (family, table) in tables() {
        let own = if family == "ip6" { "2001:db8::20" } else { "192.0.2.20" };
        for world in &worlds {
            is_ok(family, &compare(&primary(&table, family, &[own]), world, family));
        }
    }
}

#[test]
fn node_ports_at_no_address_of_the_node_are_found() {
    let known = with_node(&format!("{}, {}", address("192.0.2.20"), address("2001:db8::20")));
    for (family, table) in tables() {
        let own = if family == "ip6" { "2001:db8::20" } else { "192.0.2.20" };
        let other = if family == "ip6" { "2001:db8::99" } else { "192.0.2.99" };
        // A node may have addresses that its status does not list, by which its proxy was told to take them.
        let trace = compare(&primary(&table, family, &[other]), &known, family);
        is_ok(family, &trace);
        let said = format!("whether {other} is worker's: node ports are taken there alone");
        assert!(trace.not_examined.iter().any(|what| what.starts_with(&said)), "{:?}", trace.not_examined);
        for (world, addresses, object) in [(WORLD, &[][..], "nodeport-ips"), (&known, &[], own)] {
            let trace = compare(&primary(&table, family, addresses), world, family);
            assert_eq!(trace.shared, [], "{family}");
            let port = of(&trace, "t/outside");
            let found: Vec<_> =
                port.faults().map(|fault| (fault.difference, fault.kind, fault.object.as_str())).collect();
            assert_eq!(found, [(Difference::Missing, Kind::Frontend, object)], "{family} {addresses:?}");
            assert_eq!(
                (port.symptom, port.failing.as_deref()),
                (REFUSED, Some("node port 30080")),
                "{family}"
            );
            assert_eq!(of(&trace, "t/web").status, Status::Ok, "{family}");
        }
    }
}

/// With `--detect-local-mode` `BridgeInterface` or `InterfaceNamePrefix`.
fn by_interface(table: &Value, name: &str) -> Value {
    let mut table = table.clone();
    let mut changed = 0;
    for item in items(&mut table) {
        let rule = item.get_mut("rule").filter(|rule| {
            let chain = rule["chain"].as_str().unwrap_or_default();
            chain != "cluster-ips-check" && !chain.starts_with("firewall-")
        });
        let statements = rule.and_then(|rule| rule["expr"].as_array_mut()).into_iter().flatten();
        for condition in statements.filter_map(|statement| statement.get_mut("match")) {
            let length = &condition["right"]["prefix"]["len"];
            if condition["left"]["payload"]["field"] == "saddr" && (*length == 16 || *length == 48) {
                condition["left"] = json!({"meta": {"key": "iifname"}});
                condition["right"] = json!(name);
                changed += 1;
            }
        }
    }
    assert!(changed >= 2, "{changed}");
    table
}

#[test]
fn pods_are_told_by_the_interface_too() {
    for (family, table) in tables() {
        for name in ["cni0", "cali*"] {
            is_ok(name, &compare(&by_interface(&table, name), WORLD, family));
        }
    }
}

/// The proxy's own rules may ask for an interface where they ask for pods, and nowhere else.
#[test]
fn an_interface_anywhere_else_is_found() {
    for (family, table) in tables() {
        for (chain, last) in
            [("services", true), ("nat-postrouting", true), ("service-RNBVDMZH-t/web/tcp/http", true)]
        {
            let mut table = table.clone();
            let mut of_chain = items(&mut table).iter_mut().filter(|item| item["rule"]["chain"] == chain);
            let rule = if last { of_chain.next_back() } else { of_chain.next() }.expect("a rule");
            let only = json!({"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth9"}});
            rule["rule"]["expr"].as_array_mut().expect("statements").insert(0, only);
            let trace = compare(&table, WORLD, family);
            let is_broken = trace.ports.iter().any(|port| port.status == Status::Broken);
            assert!(is_broken, "{family} {chain}");
        }
    }
}

/// The firewalls of IPv4 with these sources admitted, too.
fn admitting(table: &Value, sources: &[(&str, &str)]) -> Value {
    let mut table = table.clone();
    for (service, source) in sources {
        let is_it = |item: &&mut Value| {
            let chain = item["rule"]["chain"].as_str().unwrap_or_default();
            chain.starts_with("firewall-") && chain.contains(&format!("{service}/"))
        };
        let rule = items(&mut table).iter_mut().find(is_it).expect("the firewall");
        let right = &mut rule["rule"]["expr"][0]["match"]["right"];
        match right["set"].as_array_mut() {
            Some(nets) => nets.push(json!(source)),
            None => *right = json!({"set": [right.clone(), source]}),
        }
    }
    table
}

#[test]
fn a_balancers_own_address_is_a_source_where_the_nodes_is_in_the_ranges() {
    let within = with_node(&address("203.0.113.5"));
    let outside = with_node(&address("192.0.2.20"));
    for (family, table) in tables().into_iter().filter(|(family, _)| *family == "ip") {
        let elsewhere = ("t/elsewhere-outside", "198.51.100.11");
        let admits = admitting(&table, &[("t/balanced", "198.51.100.7"), elsewhere]);
        let another = admitting(&table, &[("t/balanced", "198.51.100.8"), elsewhere]);
        is_ok("within", &compare(&admits, &within, family));
        is_ok("not known", &compare(&admits, WORLD, family));
        is_ok("outside, and not admitted", &compare(&table, &outside, family));
        for (name, table, world, difference, object) in [
            ("outside", &admits, &outside, Difference::Extra, "198.51.100.7/32"),
            ("within, and not admitted", &table, &within, Difference::Missing, "198.51.100.7/32"),
            ("another", &another, &within, Difference::Extra, "198.51.100.8/32"),
        ] {
            let trace = compare(table, world, family);
            let port = of(&trace, "t/balanced");
            assert!(
                port.faults().any(|fault| (fault.difference, fault.kind, fault.object.as_str())
                    == (difference, Kind::SourceRange, object)),
                "{name}: {port:?}"
            );
        }
    }
}

fn replaced(from: &str, to: &str) -> String {
    assert!(WORLD.contains(from));
    WORLD.replacen(from, to, 1)
}

fn real_save(family: AddressType) -> Rules {
    let text = match family {
        AddressType::Ipv6 => include_str!("../kube-proxy/ip6tables-1.36.3.save"),
        _ => include_str!("../kube-proxy/iptables-1.36.3.save"),
    };
    Rules::Iptables(iptables::dump::parse(text).expect("well formed"))
}

/// An external address of IPv4 leaves IPv6 as it is: internal traffic alone, which stays on the node.
#[test]
fn external_addresses_are_each_familys_own() {
    let world = replaced(
        "internalTrafficPolicy: Local, ports",
        "internalTrafficPolicy: Local, externalIPs: [198.51.100.77], ports",
    );
    is_ok(
        "ip6tables",
        &trace(
            &real_save(AddressType::Ipv6),
            &expected(&cluster(&world), "worker", AddressType::Ipv6),
            "worker",
        ),
    );
    for (family, table) in tables().into_iter().filter(|(family, _)| *family == "ip6") {
        is_ok("ip6", &compare(&table, &world, family));
    }
    let local = |family| {
        let ports = expected(&cluster(&world), "worker", family);
        ports.into_iter().find(|port| port.name.service.name == "local").expect("it is there")
    };
    assert_eq!(local(AddressType::Ipv4).cluster.len(), 2);
    assert_eq!(local(AddressType::Ipv6).cluster.len(), 0);
}

/// A range of all IPv6 addresses opens IPv6, and IPv4 stays as narrow as it is written.
#[test]
fn a_range_of_all_addresses_is_its_familys_own() {
    let world = replaced("203.0.113.0/24, '2001:db8:1::/48'", "203.0.113.0/24, '::/0'");
    let ranges = |family| {
        let ports = expected(&cluster(&world), "worker", family);
        ports
            .into_iter()
            .find(|port| port.name.service.name == "balanced")
            .expect("it is there")
            .source_ranges
    };
    let narrow: Vec<ipnet::IpNet> =
        ["203.0.113.0/24", "192.0.2.7/32"].map(|range| range.parse().expect("a CIDR")).into();
    assert_eq!(ranges(AddressType::Ipv4), narrow);
    assert_eq!(ranges(AddressType::Ipv6), Vec::<ipnet::IpNet>::new());
    is_ok(
        "iptables",
        &trace(
            &real_save(AddressType::Ipv4),
            &expected(&cluster(&world), "worker", AddressType::Ipv4),
            "worker",
        ),
    );
    for (family, table) in tables().into_iter().filter(|(family, _)| *family == "ip") {
        is_ok(family, &compare(&table, &world, family));
    }
}
