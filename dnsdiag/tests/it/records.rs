//! What names of a cluster resolve to, one line per rule of the DNS specification.

use netlab_core::input::{Budget, Document, load};
use netlab_core::model::cluster::Cluster;
use netlab_dnsdiag::records::{Answer, Hint, PodMode, RecordType, World, intended, truth};

const CLUSTER: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: batch}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {clusterIP: 10.96.0.20, selector: {app: api}, ports: [{name: http, port: 80, targetPort: 8080}, {name: dns, port: 53, protocol: UDP}]}
---
apiVersion: v1
kind: Service
metadata: {name: dual, namespace: shop}
spec: {clusterIPs: [10.96.0.21, "fd00::21"], ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: pg, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: pg, port: 5432}]
endpoints:
- {addresses: [10.244.0.1], hostname: db-0, conditions: {ready: true}, targetRef: {kind: Pod, name: db-0}}
- {addresses: [10.244.0.2], hostname: db-1, conditions: {ready: false}, targetRef: {kind: Pod, name: db-1}}
- {addresses: [10.244.0.3], targetRef: {kind: Pod, name: db-replica}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-2, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv6
endpoints:
- {addresses: ["fd00:1::1"], hostname: db-0}
---
apiVersion: v1
kind: Service
metadata: {name: starting, namespace: shop}
spec: {clusterIP: None, selector: {app: starting}, ports: [{port: 1}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: starting-1, namespace: shop, labels: {kubernetes.io/service-name: starting}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.9], conditions: {ready: false}}]
---
apiVersion: v1
kind: Service
metadata: {name: published, namespace: shop}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: published}, ports: [{port: 1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: published-0, namespace: shop, labels: {app: published}}
spec: {hostname: published-0, subdomain: published, containers: []}
status: {podIP: 10.244.0.30, phase: Running, conditions: [{type: Ready, status: "False"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: lone, namespace: shop, labels: {app: published}}
spec: {hostname: lone, subdomain: other, containers: []}
status: {podIP: 10.244.0.31, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: shop}
spec: {type: ExternalName, externalName: Db.Example.Com}
---
apiVersion: v1
kind: Service
metadata: {name: dangling, namespace: shop}
spec: {type: ExternalName, externalName: gone.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: literal, namespace: shop}
spec: {type: ExternalName, externalName: 192.0.2.7}
"#;

fn cluster() -> Cluster {
    let loaded = load([Document { name: "c.yaml".into(), text: CLUSTER.into() }], &Budget::default());
    assert!(loaded.is_complete(), "{:?}", loaded.diagnostics);
    loaded.cluster
}

/// The answer in words: records, `alias`, `nodata`, `nxdomain`, `unknown`.
fn ask(world: World<'_>, name: &str, record: RecordType) -> String {
    let joined = |records: &std::collections::BTreeSet<String>| {
        records.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let name = if name.ends_with('.') { name.to_owned() } else { format!("{name}.cluster.local.") };
    match truth(world, &name).answer(record) {
        Answer::Records(records) => joined(records),
        Answer::Alias(records) => format!("alias {}", joined(records)),
        Answer::NoData => "nodata".to_owned(),
        Answer::NxDomain => "nxdomain".to_owned(),
        Answer::Unknown => "unknown".to_owned(),
    }
}

#[test]
fn each_form_of_name_has_its_records() {
    use RecordType::{A, Aaaa, Ptr, Srv, Txt};
    let cluster = cluster();
    let world = World::new(&cluster, "cluster.local");
    for (name, record, wanted) in [
        ("dns-version", Txt, "1.1.0"),
        ("api.shop.svc", A, "10.96.0.20"),
        ("API.Shop.SVC", A, "10.96.0.20"),
        ("api.shop.svc", Aaaa, "nodata"),
        ("dual.shop.svc", Aaaa, "fd00::21"),
        ("_http._tcp.api.shop.svc", Srv, "80 api.shop.svc.cluster.local."),
        ("_dns._udp.api.shop.svc", Srv, "53 api.shop.svc.cluster.local."),
        ("_dns._tcp.api.shop.svc", Srv, "nxdomain"),
        ("_http._tcp.dual.shop.svc", Srv, "nxdomain"),
        ("20.0.96.10.in-addr.arpa.", Ptr, "api.shop.svc.cluster.local."),
        ("db.shop.svc", A, "10.244.0.1, 10.244.0.3"),
        ("db.shop.svc", Aaaa, "fd00:1::1"),
        ("db-0.db.shop.svc", A, "10.244.0.1"),
        ("db-0.db.shop.svc", Aaaa, "fd00:1::1"),
        ("db-1.db.shop.svc", A, "nxdomain"),
        ("10-244-0-3.db.shop.svc", A, "10.244.0.3"),
        ("db-replica.db.shop.svc", A, "nxdomain"),
        (
            "_pg._tcp.db.shop.svc",
            Srv,
            "5432 10-244-0-3.db.shop.svc.cluster.local., 5432 db-0.db.shop.svc.cluster.local.",
        ),
        ("1.0.244.10.in-addr.arpa.", Ptr, "db-0.db.shop.svc.cluster.local."),
        ("2.0.244.10.in-addr.arpa.", Ptr, "unknown"),
        ("starting.shop.svc", A, "nxdomain"),
        ("published.shop.svc", A, "10.244.0.30, 10.244.0.31"),
        ("published-0.published.shop.svc", A, "10.244.0.30"),
        ("outside.shop.svc", A, "alias db.example.com."),
        ("literal.shop.svc", A, "nxdomain"),
        ("10-244-0-77.shop.pod", A, "10.244.0.77"),
        ("10-244-0-77.shop.pod", Aaaa, "nodata"),
        ("10-244-0-77.nowhere.pod", A, "nxdomain"),
        ("web.shop.pod", A, "nxdomain"),
        ("cluster.local.", A, "nodata"),
        ("svc", A, "nodata"),
        ("shop.svc", A, "nodata"),
        ("batch.svc", A, "nodata"),
        ("nowhere.svc", A, "nxdomain"),
        ("api.nowhere.svc", A, "nxdomain"),
        ("api.shop", A, "nxdomain"),
        ("api.shop.svc.cluster.local", A, "nxdomain"),
        ("example.com.", A, "unknown"),
        ("api.shop.svc.cluster.lokal.", A, "unknown"),
    ] {
        assert_eq!(ask(world, name, record), wanted, "{name} {record:?}");
    }
}

#[test]
fn the_server_s_options_count() {
    let cluster = cluster();
    let world = World::new(&cluster, "cluster.local");
    let verified = World { pods: PodMode::Verified, ..world };
    assert_eq!(ask(verified, "10-244-0-30.shop.pod", RecordType::A), "10.244.0.30");
    assert_eq!(ask(verified, "10-244-0-30.batch.pod", RecordType::A), "nxdomain");
    let disabled = World { pods: PodMode::Disabled, ..world };
    assert_eq!(ask(disabled, "10-244-0-30.shop.pod", RecordType::A), "nxdomain");
    let named = World { endpoint_pod_names: true, ..world };
    assert_eq!(ask(named, "db-replica.db.shop.svc", RecordType::A), "10.244.0.3");
    let other = World { domain: "k8s.corp.example", ..world };
    assert_eq!(ask(other, "api.shop.svc.k8s.corp.example.", RecordType::A), "10.96.0.20");
    assert_eq!(ask(other, "api.shop.svc.cluster.local.", RecordType::A), "unknown");
}

#[test]
fn what_was_meant_is_told() {
    let cluster = cluster();
    let world = World::new(&cluster, "cluster.local");
    let hints = |name: &str| truth(world, &format!("{name}.cluster.local.")).hints;
    let name = |name: &str| format!("{name}.cluster.local.");
    assert_eq!(hints("api.batch.svc"), [Hint::OtherNamespace { name: name("api.shop.svc") }]);
    assert_eq!(hints("aip.shop.svc"), [Hint::NearMiss { name: name("api.shop.svc") }]);
    assert_eq!(hints("x.shpo.svc"), [Hint::NearMiss { name: "shop".to_owned() }]);
    assert_eq!(hints("shpo.svc"), [Hint::NearMiss { name: "shop".to_owned() }]);
    assert_eq!(hints("starting.shop.svc"), [Hint::NotReady { endpoints: 1, could_be_published: true }]);
    assert_eq!(hints("published.shop.svc"), [Hint::PublishedNotReady { endpoints: 1 }]);
    assert_eq!(hints("dual.shop.svc"), [Hint::NoEndpoints { not_ready: 0 }]);
    assert_eq!(
        hints("_web._tcp.api.shop.svc"),
        [Hint::PortNames { known: vec!["http/tcp".to_owned(), "dns/udp".to_owned()] }]
    );
    assert_eq!(
        hints("lone.published.shop.svc"),
        [
            Hint::EndpointNames { known: vec!["10-244-0-31".to_owned(), "published-0".to_owned()] },
            Hint::SubdomainDiffers { pod: "shop/lone".to_owned(), subdomain: Some("other".to_owned()) }
        ]
    );
    assert_eq!(hints("dangling.shop.svc"), [Hint::ExternalNameDangles { target: name("gone.shop.svc") }]);
    assert_eq!(hints("literal.shop.svc"), [Hint::ExternalNameNoName { target: "192.0.2.7".to_owned() }]);
    assert!(truth(world, "published.shop.svc.cluster.local.").assumed[0].contains("no slice"));
}

#[test]
fn a_short_name_is_meant_as_a_service() {
    let cluster = cluster();
    for (name, wanted) in [
        ("api", "api.shop.svc.cluster.local."),
        ("api.batch", "api.batch.svc.cluster.local."),
        ("api.shop.svc", "api.shop.svc.cluster.local."),
        ("api.shop.svc.cluster.local", "api.shop.svc.cluster.local."),
        ("db-0.db", "db-0.db.shop.svc.cluster.local."),
        ("db-0.db.shop", "db-0.db.shop.svc.cluster.local."),
        ("example.com", "example.com."),
        ("www.example.com", "www.example.com."),
        ("api.", "api."),
    ] {
        assert_eq!(intended(&cluster, "cluster.local", "shop", name), wanted, "{name}");
    }
}
