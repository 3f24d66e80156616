//! Kubelet's algorithm, rule by rule and edge by edge.

use netlab_core::input::{Budget, Document, load};
use netlab_core::model::cluster::{ObjectKey, Pod};
use netlab_dnsdiag::kubelet::{
    Blame, Class, Expected, Family, Found, HostFile, KubeletConfig, Limits, NodeDns, Origin, Subject, Why,
    difference, expected,
};

/// `clusterDNS` and `clusterDomain` as kubeadm writes them.
const CONFIG: &str = "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n";
const HOST: &str = "nameserver 192.0.2.1\nsearch corp.example\noptions edns0 trust-ad\n";

fn pod(namespace: &str, spec: &str) -> Pod {
    let text =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: {namespace}}}\nspec: {spec}\n");
    let loaded = load([Document { name: "pod.yaml".into(), text: text.into() }], &Budget::default());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.cluster.pods[&ObjectKey::new(namespace, "p")].clone()
}

fn config(text: &str) -> KubeletConfig {
    KubeletConfig::read(&Document { name: "config.yaml".into(), text: text.into() }).expect("a file")
}

struct Case<'a> {
    config: &'a str,
    host: Option<&'a str>,
    families: &'a [Family],
    limits: Option<Limits>,
    namespace: &'a str,
    spec: &'a str,
}

const CASE: Case<'static> = Case {
    config: CONFIG,
    host: Some(HOST),
    families: &[Family::V4],
    limits: None,
    namespace: "shop",
    spec: "{}",
};

fn written(case: &Case<'_>) -> Expected {
    let config = config(case.config);
    let host = case.host.map(|text| HostFile::read(text).expect("a file"));
    let pod = pod(case.namespace, case.spec);
    let node = NodeDns {
        limits: case.limits.unwrap_or_else(|| Limits::of(&config)),
        config: &config,
        host: host.as_ref(),
        families: case.families,
    };
    let subject =
        Subject { namespace: case.namespace, host_network: pod.host_network, dns: pod.dns.as_deref() };
    expected(subject, &node)
}

const CLUSTER: &str = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\n\
                       nameserver 10.96.0.10\noptions ndots:5\n";
const NODE: &str = "search corp.example\nnameserver 192.0.2.1\noptions edns0 trust-ad\n";

#[test]
fn each_policy_has_its_base() {
    for (spec, text) in [
        ("{}", CLUSTER),
        ("{dnsPolicy: ClusterFirst}", CLUSTER),
        ("{dnsPolicy: ClusterFirst, hostNetwork: true}", NODE),
        ("{hostNetwork: true}", NODE),
        ("{dnsPolicy: ClusterFirstWithHostNet, hostNetwork: true}", CLUSTER),
        ("{dnsPolicy: ClusterFirstWithHostNet}", CLUSTER),
        ("{dnsPolicy: Default}", NODE),
        ("{dnsPolicy: None, dnsConfig: {nameservers: [9.9.9.9]}}", "nameserver 9.9.9.9\n"),
        ("{dnsPolicy: None}", ""),
        // Anything else is logged, and is the cluster's.
        ("{dnsPolicy: clusterFirst}", CLUSTER),
        ("{dnsPolicy: clusterFirst, hostNetwork: true}", CLUSTER),
    ] {
        let file = written(&Case { spec, ..CASE });
        assert_eq!(file.text(), text, "{spec}");
        assert!(file.events.is_empty(), "{spec}");
        assert_eq!(file.runtime_copies_host_file(), text.is_empty(), "{spec}");
    }
}

#[test]
fn a_pod_s_own_configuration_is_merged() {
    let cluster = |searches: &str, nameservers: &str, options: &str| {
        format!(
            "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example{searches}\n\
             nameserver 10.96.0.10\n{nameservers}options {options}\n"
        )
    };
    for (config, text) in [
        ("{options: [{name: ndots, value: \"2\"}]}", cluster("", "", "ndots:2")),
        ("{options: [{name: edns0}]}", cluster("", "", "ndots:5 edns0")),
        ("{options: [{name: edns0, value: \"\"}]}", cluster("", "", "ndots:5 edns0")),
        // Bare, the option has lost kubelet's value.
        ("{options: [{name: ndots}]}", cluster("", "", "ndots")),
        (
            "{options: [{name: ndots, value: \"2\"}, {name: timeout, value: \"1\"}, {name: ndots, value: \"3\"}]}",
            cluster("", "", "ndots:3 timeout:1"),
        ),
        ("{searches: [a.example, corp.example, svc.cluster.local]}", cluster(" a.example", "", "ndots:5")),
        // Trailing dots are a difference here, unlike in the node's file.
        ("{searches: [corp.example., \".\"]}", cluster(" corp.example. .", "", "ndots:5")),
        ("{nameservers: [1.1.1.1, 10.96.0.10, 1.1.1.1]}", cluster("", "nameserver 1.1.1.1\n", "ndots:5")),
        ("{}", cluster("", "", "ndots:5")),
    ] {
        assert_eq!(
            written(&Case { spec: &format!("{{dnsConfig: {config}}}"), ..CASE }).text(),
            text,
            "{config}"
        );
    }
    let file = written(&Case { spec: "{dnsPolicy: Default, dnsConfig: {options: [{name: edns0}]}}", ..CASE });
    assert_eq!(file.text(), "search corp.example\nnameserver 192.0.2.1\noptions edns0 trust-ad\n");
}

#[test]
fn lists_are_cut_with_an_event() {
    let spec = "{dnsConfig: {nameservers: [1.1.1.1, 2.2.2.2, 3.3.3.3]}}";
    let file = written(&Case { spec, ..CASE });
    assert_eq!(file.text().matches("nameserver").count(), 3);
    assert_eq!((file.cut[0].entry.value.as_str(), file.cut[0].why), ("3.3.3.3", Why::Nameservers));
    assert_eq!(file.cut[0].entry.from, Origin::PodSpec(2));
    assert_eq!(file.events[0].reason, "DNSConfigForming");
    assert!(file.events[0].message.ends_with("the applied nameserver line is: 10.96.0.10 1.1.1.1 2.2.2.2"));

    let host = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n";
    let file = written(&Case { host: Some(host), spec: "{dnsPolicy: Default}", ..CASE });
    assert_eq!(file.nameservers.len(), 3);
    assert_eq!(file.cut[0].entry.from, Origin::HostFile(4));

    let domains: Vec<String> = (1..=40).map(|number| format!("d{number}.example")).collect();
    let host = format!("nameserver 192.0.2.1\nsearch {}\n", domains.join(" "));
    let file = written(&Case { host: Some(&host), ..CASE });
    assert_eq!((file.searches.len(), file.searches[31].value.as_str()), (32, "d29.example"));
    assert_eq!(file.cut.len(), 11);
    assert_eq!(file.events.len(), 1);
    assert!(file.events[0].message.ends_with("d28.example d29.example"));
}

#[test]
fn limits_apply_in_kubelet_s_order() {
    let long = format!("{}.example", ["a"; 123].join("."));
    assert_eq!(long.len(), 253);
    // 253 bytes are a domain, 254 are none; those behind it stay.
    let host = format!("search {long} x{long} last.example\n");
    let file = written(&Case { host: Some(&host), ..CASE });
    let searches: Vec<&str> = file.searches.iter().skip(3).map(|entry| entry.value.as_str()).collect();
    assert_eq!(searches, [long.as_str(), "last.example"]);
    assert_eq!((file.cut.len(), file.cut[0].why), (1, Why::Domain));

    // The number is cut before the long ones are dropped: their places are not given to others.
    let many: Vec<String> = (0..31).map(|number| format!("{number}.example")).collect();
    let host = format!("search x{long} {}\n", many.join(" "));
    let file = written(&Case { host: Some(&host), ..CASE });
    assert_eq!(file.searches.len(), 31);

    // 2048 bytes in all, blanks between included, cut from the end.
    let eight: Vec<String> = (0..8).map(|number| format!("{number}{}", &long[1..])).collect();
    let host = format!("search {}\n", eight.join(" "));
    let none = "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\n";
    let file = written(&Case { config: none, host: Some(&host), ..CASE });
    assert_eq!(file.searches.len(), 8, "8 of 253 and 7 blanks are 2031");
    let host = format!("search {} tail.of.seventeen\n", eight.join(" "));
    let file = written(&Case { config: none, host: Some(&host), ..CASE });
    assert_eq!((file.searches.len(), file.cut[0].why), (8, Why::Bytes), "2049");
    let host = format!("search {} tail.of.sixteen.\n", eight.join(" "));
    let file = written(&Case { config: none, host: Some(&host), ..CASE });
    assert_eq!((file.searches.len(), file.events.len()), (9, 0), "2047");

    // Before 1.28: six, 256.
    let legacy = "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n\
                  featureGates: {ExpandedDNSConfig: false}\n";
    let host = "search a.example b.example c.example d.example\n";
    let file = written(&Case { config: legacy, host: Some(host), ..CASE });
    assert_eq!(file.searches.last().map(|entry| entry.value.as_str()), Some("c.example"));
    let file = written(&Case {
        limits: Some(Limits::LEGACY),
        host: Some(&format!("search a.example {long}\n")),
        ..CASE
    });
    assert_eq!((file.searches.len(), file.cut[0].why), (4, Why::Bytes));
    let file = written(&Case { namespace: &"n".repeat(63), ..CASE });
    assert!(file.cut.is_empty());
}

#[test]
fn a_node_s_configuration_decides_the_base() {
    let dual =
        "kind: KubeletConfiguration\nclusterDNS: [\"fd00::a\", 10.96.0.10]\nclusterDomain: cluster.local\n";
    let file = written(&Case { config: dual, ..CASE });
    assert!(file.text().contains("nameserver fd00::a\nnameserver 10.96.0.10\n"));

    let nowhere = "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\n";
    let file = written(&Case { config: nowhere, ..CASE });
    assert_eq!(file.text(), "search corp.example\nnameserver 10.96.0.10\noptions ndots:5\n");

    let doubled = "search svc.cluster.local corp.example cluster.local.\n";
    let file = written(&Case { host: Some(doubled), ..CASE });
    assert_eq!(file.searches.len(), 4);
    assert_eq!(file.searches[3].from, Origin::HostFile(1));

    let without = "kind: KubeletConfiguration\nclusterDomain: cluster.local\n";
    let file = written(&Case { config: without, ..CASE });
    assert_eq!(file.text(), NODE);
    assert_eq!(file.events[0].reason, "MissingClusterDNS");
    let none = "{dnsPolicy: None, dnsConfig: {nameservers: [9.9.9.9]}}";
    assert!(written(&Case { config: without, spec: none, ..CASE }).events.is_empty());

    let skipped = "kind: KubeletConfiguration\nclusterDNS: [kube-dns]\n";
    assert_eq!(written(&Case { config: skipped, ..CASE }).events[0].reason, "MissingClusterDNS");
}

#[test]
fn no_file_means_the_node_itself() {
    let no_file = format!("{CONFIG}resolvConf: \"\"\n");
    let case = |spec, families| written(&Case { config: &no_file, host: None, spec, families, ..CASE });
    for (families, text) in [
        (&[Family::V4][..], "search .\nnameserver 127.0.0.1\n"),
        (&[Family::V6], "search .\nnameserver ::1\n"),
        (&[Family::V6, Family::V4], "search .\nnameserver ::1\nnameserver 127.0.0.1\n"),
        (&[], "search .\nnameserver 127.0.0.1\n"),
    ] {
        assert_eq!(case("{dnsPolicy: Default}", families).text(), text);
    }
    let file = case("{}", &[Family::V4]);
    assert!(!file.host_file_missing);
    assert_eq!(
        file.text(),
        "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
    );
    let not_given = written(&Case { host: None, ..CASE });
    assert!(not_given.host_file_missing, "what the node's file adds is not known");
}

fn differences(file: &Expected, found: &str, node: &[&str], older: bool) -> Vec<(Class, Blame, String)> {
    let found = HostFile::read(found).expect("a file");
    let lists = [&found.nameservers, &found.searches, &found.options]
        .map(|lines| lines.iter().map(|line| line.value.clone()).collect::<Vec<_>>());
    let node: Vec<String> = node.iter().map(|value| (*value).to_owned()).collect();
    let found = Found {
        nameservers: &lists[0],
        searches: &lists[1],
        options: &lists[2],
        node_nameservers: &node,
        older_than_config: older,
    };
    let words = |missing: &[String], extra: &[String]| {
        let signed = |sign: &'static str, list: &[String]| {
            list.iter().map(|value| format!("{sign}{value}")).collect::<Vec<_>>()
        };
        [signed("-", missing), signed("+", extra)].concat().join(" ")
    };
    difference(file, found)
        .into_iter()
        .map(|difference| (difference.class, difference.blame, words(&difference.missing, &difference.extra)))
        .collect()
}

#[test]
fn a_difference_names_values_and_whose_doing_it_is() {
    let all = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\n";
    let file = written(&CASE);
    let same = format!("{all}nameserver 10.96.0.10\noptions ndots:5\n");
    assert_eq!(differences(&file, &same, &[], false), []);
    let only = |found: &str, older| {
        let found = differences(&file, found, &["192.0.2.1"], older);
        assert_eq!(found.len(), 1, "{found:?}");
        let (class, blame, words) = &found[0];
        (*class, *blame, words.clone())
    };
    let nameserver = |address: &str| format!("{all}nameserver {address}\noptions ndots:5\n");
    let change = |address: &str| format!("-10.96.0.10 +{address}");
    for (address, older, class, blame) in [
        ("10.96.0.2", false, Class::OtherNameserver, Blame::Kubelet),
        ("10.96.0.2", true, Class::OtherNameserver, Blame::Age),
        ("192.0.2.1", false, Class::NodeNameservers, Blame::Kubelet),
        ("127.0.0.11", false, Class::RuntimeSupplied, Blame::Runtime),
    ] {
        assert_eq!(only(&nameserver(address), older), (class, blame, change(address)));
    }
    let search = |search: &str| format!("search {search}\nnameserver 10.96.0.10\noptions ndots:5\n");
    let cluster = "shop.svc.cluster.local svc.cluster.local cluster.local";
    assert_eq!(only(&search(cluster), false), (Class::MissingSearch, Blame::Age, "-corp.example".to_owned()));
    let extra = format!("{cluster} corp.example x.example");
    assert_eq!(only(&search(&extra), false), (Class::ExtraSearch, Blame::Node, "+x.example".to_owned()));
    let turned = "corp.example shop.svc.cluster.local svc.cluster.local cluster.local";
    assert_eq!(only(&search(turned), false), (Class::SearchOrder, Blame::Container, String::new()));
    let options = format!("{all}nameserver 10.96.0.10\noptions ndots:1\n");
    assert_eq!(only(&options, false), (Class::Options, Blame::Container, "-ndots:5 +ndots:1".to_owned()));
    assert_eq!(only("", false), (Class::Empty, Blame::Container, "-10.96.0.10".to_owned()));
}

#[test]
fn the_cut_of_an_old_kubelet_is_known_by_its_shape() {
    let host = "search a.example b.example c.example d.example\n";
    let file = written(&Case { host: Some(host), ..CASE });
    let old = written(&Case { host: Some(host), limits: Some(Limits::LEGACY), ..CASE });
    assert_eq!(
        differences(&file, &old.text(), &[], false),
        [(Class::Truncated, Blame::Kubelet, "-d.example".to_owned())]
    );
    assert_eq!(
        differences(&old, &file.text(), &[], false),
        [(Class::ExtraSearch, Blame::Kubelet, "+d.example".to_owned())]
    );
}

#[test]
fn what_only_the_spec_ordered_was_changed_in_the_container() {
    let file = written(&Case { spec: "{dnsPolicy: None, dnsConfig: {nameservers: [9.9.9.9]}}", ..CASE });
    assert_eq!(
        differences(&file, "nameserver 8.8.8.8\n", &[], true),
        [(Class::OtherNameserver, Blame::Container, "-9.9.9.9 +8.8.8.8".to_owned())]
    );
}
