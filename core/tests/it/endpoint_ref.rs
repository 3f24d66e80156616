//! What a user can write for an endpoint or a port, and what becomes of it.

use netlab_core::endpoint_ref::{DestinationRef, EndpointRef, PortRef, ProtocolRef};

use crate::input_files::{example, load_text};

fn shown(text: &str) -> String {
    match text.parse::<EndpointRef>() {
        Ok(EndpointRef::Address(address)) => format!("address {address}"),
        Ok(EndpointRef::Named { kind, namespace, name }) => {
            format!("{} {} {name}", kind.map_or("-", |kind| kind.kind()), namespace.as_deref().unwrap_or("-"))
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn endpoints_are_written_as_kubectl_writes_them() {
    for (text, expected) in [
        ("web", "- - web"),
        ("shop/web", "- shop web"),
        ("pod/web", "Pod - web"),
        ("pods/shop/web", "Pod shop web"),
        ("deploy/web", "Deployment - web"),
        ("Deployment/shop/web", "Deployment shop web"),
        ("sts/db", "StatefulSet - db"),
        ("ds/x", "DaemonSet - x"),
        ("cj/x", "CronJob - x"),
        ("rc/x", "ReplicationController - x"),
        ("svc/kube-system/kube-dns", "Service kube-system kube-dns"),
        ("node/node-1", "Node - node-1"),
        ("no/node-1", "Node - node-1"),
        ("10.0.0.1", "address 10.0.0.1"),
        ("2001:db8::1", "address 2001:db8::1"),
        ("[2001:db8::1]", "address 2001:db8::1"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
    for text in ["", "a/", "/a", "a/b/c", "pod/a/b/c", "node/a/b"] {
        assert!(shown(text).starts_with("error: "), "{text}: {}", shown(text));
    }
}

#[test]
fn a_destination_may_have_its_port_behind_a_colon() {
    let shown = |text: &str| match text.parse::<DestinationRef>() {
        Ok(destination) => {
            let port = destination.port.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            assert_eq!(destination.to_string().parse(), Ok(destination.clone()), "{text}");
            format!("{} {port}", destination.endpoint)
        }
        Err(error) => format!("error: {error}"),
    };
    for (text, expected) in [
        ("shop/db", "shop/db -"),
        ("svc/shop/db:5432", "svc/shop/db 5432"),
        ("svc/kube-system/kube-dns:dns/udp", "svc/kube-system/kube-dns dns/udp"),
        ("10.96.0.10", "10.96.0.10 -"),
        ("10.96.0.10:53/udp", "10.96.0.10 53/udp"),
        ("fd00::1", "fd00::1 -"),
        ("[fd00::1]", "fd00::1 -"),
        ("[fd00::1]:53", "fd00::1 53"),
        ("::", ":: -"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
    for text in
        ["svc/shop/db:", "svc/shop/db:0", "shop/db:http:80", ":53", "[fd00::1]:", "[fd00::1]53", "a:70000"]
    {
        assert!(shown(text).starts_with("error: "), "{text}: {}", shown(text));
    }
    let error = "svc/shop/db:5432".parse::<EndpointRef>().expect_err("an endpoint has no port");
    assert!(error.to_string().contains("write `svc/shop/db`, and its port `5432` by itself"), "{error}");
}

#[test]
fn a_destination_has_one_port_however_it_is_written() {
    let port = |to: &str, alone: Option<&str>| {
        let to: DestinationRef = to.parse().expect("a destination");
        let alone: Option<PortRef> = alone.map(|text| text.parse().expect("a port"));
        to.port(alone.as_ref()).map(|port| port.map(ToString::to_string)).map_err(|error| error.to_string())
    };
    assert_eq!(port("shop/db", None), Ok(None));
    for (to, alone) in [("shop/db:80", None), ("shop/db", Some("80")), ("shop/db:80", Some("80"))] {
        assert_eq!(port(to, alone), Ok(Some("80".to_owned())), "{to} {alone:?}");
    }
    for other in ["81", "80/udp", "http"] {
        let said = port("shop/db:80", Some(other)).expect_err("two ports");
        assert_eq!(said, format!("the port is 80 in `shop/db:80`, and {other} by itself"));
    }
}

#[test]
fn names_resolve_to_pods_and_wrong_ones_to_suggestions() {
    let shop = example("shop").cluster;
    let resolve = |text: &str| match text.parse::<EndpointRef>().expect(text).resolve(&shop, "shop") {
        Ok(ends) => ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        Err(error) => format!("{error}; {}", error.nearest.join(" ")),
    };
    let dns = "kube-system/coredns-7c65d6cfc9-4xqzt kube-system/coredns-7c65d6cfc9-m8w2k";
    for (text, expected) in [
        ("web", "shop/web"),
        ("shop/web", "shop/web"),
        ("deploy/web", "shop/web"),
        ("sts/shop/db", "shop/db"),
        ("kube-system/coredns", dns),
        ("deploy/kube-system/coredns", dns),
        ("rs/kube-system/coredns-7c65d6cfc9", dns),
        ("svc/cache", "svc/shop/cache"),
        ("node/node-1", "node/node-1"),
        ("192.0.2.1", "192.0.2.1"),
        ("wbe", "no pod or workload `wbe` in namespace shop; shop/web"),
        ("scraper", "no pod or workload `scraper` in namespace shop; monitoring/scraper"),
        ("sts/web", "no StatefulSet `web` in namespace shop; svc/shop/web"),
        (
            "kube-system/kube-dns",
            "no pod or workload `kube-dns` in namespace kube-system; svc/kube-system/kube-dns",
        ),
        ("node/node-3", "no Node `node-3` in the cluster; node/node-1 node/node-2"),
        ("shop/nothing-like-it", "no pod or workload `nothing-like-it` in namespace shop; "),
    ] {
        assert_eq!(resolve(text), expected, "{text}");
    }
}

#[test]
fn a_pod_wins_over_a_workload_of_the_same_name() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: web}}\n---\n\
                {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {}}}\n";
    let cluster = load_text(text).cluster;
    let resolve = |text: &str| {
        let ends = text.parse::<EndpointRef>().expect(text).resolve(&cluster, "default").expect(text);
        ends.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(resolve("web"), ["default/web"]);
    assert_eq!(resolve("deploy/web"), ["default/web-deployment"]);
}

#[test]
fn ports_and_protocols_are_written_in_either_order_of_magnitude() {
    let shown = |text: &str| match text.parse::<PortRef>() {
        Ok(port) => port.to_string(),
        Err(error) => format!("error: {error}"),
    };
    for (text, expected) in [
        ("5432/tcp", "5432/tcp"),
        ("53/UDP", "53/udp"),
        ("80", "80"),
        ("http", "http"),
        ("http/udp", "http/udp"),
        ("dns-tcp/tcp", "dns-tcp/tcp"),
        ("9/sctp", "9/sctp"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
    for text in ["", "0", "65536", "80/icmp", "80/xyz", "a b", "-1", "80/", "/tcp"] {
        assert!(shown(text).starts_with("error: "), "{text}: {}", shown(text));
    }
    let protocol = |text: &str| text.parse::<ProtocolRef>().map(|protocol| protocol.to_string());
    assert_eq!(protocol("TCP").as_deref(), Ok("tcp"));
    assert_eq!(protocol("icmp").as_deref(), Ok("icmp"));
    assert_eq!(protocol("58").as_deref(), Ok("icmp"));
    assert_eq!(protocol("47").as_deref(), Ok("47"));
    assert!(protocol("tpc").is_err());
}
