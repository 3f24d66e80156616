//! One Service under every kind of proxy: what was read stands beside what is predicted, and costs are counted.

use netlab_core::model::service::AddressType;
use netlab_core::service::RouteKind;
use netlab_core::service::comparison::{Column, Comparison, Given, Ports, compare};
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::follow::Client;
use netlab_core::service::iptables::{dump, emit};
use netlab_core::service::trace::{Rules, Status};

use crate::service_world::{HALF_BROKEN, all_kinds, cluster, options, ports};

fn asked<'a>(
    ports: &'a [ExpectedPort],
    all: &'a [ExpectedPort],
    options: &'a netlab_core::service::iptables::ProxyOptions,
) -> Ports<'a> {
    Ports { family: AddressType::Ipv4, asked: ports, all, options }
}

fn column<'a>(comparison: &'a Comparison, mode: &str) -> &'a Column {
    comparison.columns.iter().find(|column| column.proxy_mode == mode).expect("the column")
}

#[test]
fn what_is_not_given_is_predicted_and_agrees() {
    let all = ports(&all_kinds());
    let options = options();
    let comparison = compare(&[], &[asked(&all, &all, &options)], "worker");
    let modes: Vec<&str> = comparison.columns.iter().map(|column| column.proxy_mode).collect();
    assert_eq!(modes, ["iptables", "nftables", "cilium"]);
    for column in &comparison.columns {
        assert_eq!(column.source, None);
        for port in &column.ports {
            assert_eq!(port.trace.status, Status::Ok, "{} {port:?}", column.proxy_mode);
        }
    }
    let shares = |mode: &str| -> Vec<_> {
        let ports = &column(&comparison, mode).ports;
        ports
            .iter()
            .flat_map(|port| &port.trace.addresses)
            // Cilium alone has rows of their own for pods that ask by other addresses than the cluster IP.
            .filter(|address| address.to == RouteKind::ClusterIp || address.from == Client::Outside)
            .map(|address| (address.address.clone(), address.shares.len()))
            .collect()
    };
    assert_eq!(shares("iptables"), shares("nftables"));
    assert_eq!(shares("iptables"), shares("cilium"));
    assert!(comparison.assumed.iter().any(|what| what.contains("predicted")), "{:?}", comparison.assumed);
}

#[test]
fn what_is_given_is_read_and_not_predicted() {
    let all = ports(HALF_BROKEN);
    let options = options();
    let broken = emit(&all, &options).replacen("-j KUBE-SEP-442MEYXHNLSPQS4C", "-j RETURN", 1);
    let rules = Rules::Iptables(dump::parse(&broken).expect("well formed"));
    let given = [Given { rules, source: "node.save".to_owned(), beside: Vec::new() }];
    let comparison = compare(&given, &[asked(&all, &all, &options)], "worker");
    let iptables = column(&comparison, "iptables");
    assert_eq!(
        (iptables.source.as_deref(), iptables.ports[0].trace.status),
        (Some("node.save"), Status::Broken)
    );
    let others = [column(&comparison, "nftables"), column(&comparison, "cilium")];
    assert!(
        others.iter().all(|column| column.source.is_none() && column.ports[0].trace.status == Status::Ok)
    );
}

/// The reason why one scales and another does not, in numbers.
#[test]
fn only_lists_of_rules_get_longer_with_services() {
    let world = |services: usize| {
        let one = |n: usize| {
            format!(
                "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s{n:04}, namespace: t}}\nspec: {{clusterIP: 10.96.{}.{}, ports: [{{port: 80}}]}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s{n:04}-1, namespace: t, labels: {{kubernetes.io/service-name: s{n:04}}}}}\naddressType: IPv4\nports: [{{name: '', port: 80}}]\nendpoints: [{{addresses: [10.244.{}.{}]}}, {{addresses: [10.245.{}.{}]}}]\n",
                n / 200,
                n % 200 + 1,
                n / 200,
                n % 200 + 1,
                n / 200,
                n % 200 + 1
            )
        };
        let nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: worker}\n".to_owned();
        nodes + &(0..services).map(one).collect::<String>()
    };
    let options = options();
    let costs = |services: usize| {
        let all = expected(&cluster(&world(services)), "worker", AddressType::Ipv4);
        let last = &all[services - 1..];
        let comparison = compare(&[], &[asked(last, &all, &options)], "worker");
        ["iptables", "nftables", "cilium"].map(|mode| column(&comparison, mode).ports[0].cost.clone())
    };
    let (few, many) = (costs(10), costs(200));
    // PREROUTING's jump, the list down to the last Service, its chain (half of the time both rules), the endpoint's two.
    let walked = |services: f64| 1.0 + services + 1.0 + 1.5 + 2.0;
    assert!((few[0].rules - walked(10.0)).abs() < 0.01, "{:?}", few[0]);
    assert!((many[0].rules - walked(200.0)).abs() < 0.01, "{:?}", many[0]);
    assert_eq!((many[0].position, many[0].listed), (Some(200), Some(201)));
    for index in [1, 2] {
        assert_eq!((few[index].rules, few[index].lookups), (many[index].rules, many[index].lookups));
        assert_eq!(many[index].grows_with, [""; 0]);
    }
    assert_eq!(
        (many[1].rules, many[1].lookups),
        (4.0, 2.0),
        "two jumps, a mark, a map and a map of endpoints"
    );
    assert_eq!((many[2].rules, many[2].lookups), (0.0, 3.0), "a frontend, a slot and a backend");
    assert_eq!(many[0].grows_with, ["services", "endpoints"]);
}
