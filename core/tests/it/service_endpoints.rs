//! From manifests to what a node's proxy does: slices given and predicted, merged, and asked.

use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::service::slices::{ENDPOINTS_PER_SLICE, packing};
use netlab_core::service::{Asked, ServiceEndpoints, endpoints};

fn world(text: &str) -> Loaded {
    let loaded = load([Document { name: "w.yaml".into(), text: text.into() }], &Budget::default());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded
}

fn ask(text: &str, node: &str) -> ServiceEndpoints {
    let loaded = world(text);
    let key = ObjectKey::new("t", "s");
    let service = &loaded.cluster.services[&key];
    let asked = Asked { key: &key, service, per_slice: ENDPOINTS_PER_SLICE };
    endpoints(&loaded.cluster, asked, &[node.to_owned()])
}

/// `port: endpoints` of each entry on the node.
fn reachable(answer: &ServiceEndpoints) -> Vec<String> {
    let ports = answer.nodes.iter().flat_map(|node| &node.ports);
    ports.map(|port| format!("{}/{} {}", port.port, port.protocol, port.reachable.join(" "))).collect()
}

const NODES: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: a}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {topology.kubernetes.io/zone: b}}
---
";

fn pod(name: &str, node: &str, address: &str, more: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: t, labels: {{app: s}}{}}}
spec: {{nodeName: {node}, containers: [{{name: c, ports: [{{name: http, containerPort: {}}}]}}]}}
status: {{phase: Running, podIPs: [{{ip: '{address}'}}], conditions: [{{type: Ready, status: '{}'}}]}}
---
",
        if more.contains("ending") { ", deletionTimestamp: '2026-01-01T00:00:00Z'" } else { "" },
        if more.contains("other port") { 8081 } else { 8080 },
        if more.contains("unready") { "False" } else { "True" },
    )
}

fn service(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: s, namespace: t}}\nspec: {{{spec}}}\n---\n")
}

#[test]
fn slices_are_predicted_from_pods() {
    let spec = "clusterIP: 10.96.0.1, selector: {app: s}, ports: [{port: 80, targetPort: http}]";
    let pods = pod("a", "n1", "10.0.1.1", "")
        + &pod("b", "n2", "10.0.2.1", "other port")
        + &pod("c", "n2", "10.0.2.2", "unready")
        + &pod("d", "n2", "10.0.2.3", "ending");
    let answer = ask(&(NODES.to_owned() + &service(spec) + &pods), "n1");
    assert!(answer.predicted);
    assert_eq!(
        reachable(&answer),
        ["/TCP 10.0.1.1:8080 10.0.2.1:8081"],
        "named ports differ per pod; unready and ending wait"
    );
    assert_eq!(answer.slices.len(), 2, "one for each number of the port");

    let spec = format!("{spec}, publishNotReadyAddresses: true");
    let answer = ask(&(NODES.to_owned() + &service(&spec) + &pods), "n1");
    assert_eq!(reachable(&answer), ["/TCP 10.0.1.1:8080 10.0.2.1:8081 10.0.2.2:8080 10.0.2.3:8080"]);
}

#[test]
fn a_pod_on_its_node_s_network_has_the_node_s_address() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n3}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.3}]}\n---\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: h, namespace: t, labels: {app: s}}\nspec: {nodeName: n3, hostNetwork: true, containers: [{name: c}]}\n---\n";
    let service = service("clusterIP: 10.96.0.1, selector: {app: s}, ports: [{port: 80}]");
    assert_eq!(reachable(&ask(&(node.to_owned() + &service + pod), "n3")), ["/TCP 192.0.2.3:80"]);
}

#[test]
fn a_distribution_hints_only_where_zones_are_known() {
    let pods = pod("a", "n1", "10.0.1.1", "") + &pod("b", "n2", "10.0.2.1", "");
    let spec = |distribution: &str| {
        service(&format!(
            "clusterIP: 10.96.0.1, selector: {{app: s}}, ports: [{{port: 80}}], trafficDistribution: {distribution}"
        ))
    };
    for distribution in ["PreferClose", "PreferSameZone"] {
        let answer = ask(&(NODES.to_owned() + &spec(distribution) + &pods), "n2");
        assert_eq!(reachable(&answer), ["/TCP 10.0.2.1:80"], "{distribution}");
    }
    let no_zones = NODES.replace("topology.kubernetes.io/zone", "zone");
    let answer = ask(&(no_zones.clone() + &spec("PreferClose") + &pods), "n2");
    assert_eq!(reachable(&answer), ["/TCP 10.0.1.1:80 10.0.2.1:80"], "all, never none");
    let answer = ask(&(no_zones + &spec("PreferSameNode") + &pods), "n2");
    assert_eq!(reachable(&answer), ["/TCP 10.0.2.1:80"]);
    let one_zone = NODES.replacen("{topology.kubernetes.io/zone: a}", "{}", 1);
    let answer = ask(&(one_zone + &spec("PreferClose") + &pods), "n2");
    assert_eq!(reachable(&answer), ["/TCP 10.0.1.1:80 10.0.2.1:80"], "one node without a zone");
}

/// Zones that are all the same narrow nothing, whoever is asked; hints outlive the field that asked for them.
#[test]
fn hints_narrow_only_where_they_differ_and_are_obeyed_whoever_wrote_them() {
    let pods = pod("a", "n1", "10.0.1.1", "") + &pod("b", "n2", "10.0.2.1", "");
    let spec = "clusterIP: 10.96.0.1, selector: {app: s}, ports: [{port: 80}]";
    let one_zone = NODES.replace("zone: b", "zone: a");
    let preferred = service(&format!("{spec}, trafficDistribution: PreferClose"));
    let answer = ask(&(one_zone + &preferred + &pods), "n2");
    assert_eq!(reachable(&answer), ["/TCP 10.0.1.1:80 10.0.2.1:80"], "both are in the one zone");
    let hinted = slice(
        "s-1",
        "{name: '', port: 80}",
        "{addresses: [10.0.1.1], hints: {forZones: [{name: a}]}}, {addresses: [10.0.2.1], hints: {forZones: [{name: b}]}}",
    );
    let answer = ask(&(NODES.to_owned() + &service(spec) + &hinted), "n2");
    assert_eq!(
        reachable(&answer),
        ["/TCP 10.0.2.1:80"],
        "the Service asks for no hint, and the proxy does not look there"
    );
}

fn slice(name: &str, ports: &str, endpoints: &str) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, namespace: t, labels: {{kubernetes.io/service-name: s}}}}
addressType: IPv4
ports: [{ports}]
endpoints: [{endpoints}]
---
"
    )
}

const TWO_PORTS: &str =
    "clusterIP: 10.96.0.1, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]";

#[test]
fn slices_are_merged_by_name_and_protocol() {
    let both = "{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}";
    let world = service(TWO_PORTS)
        + &slice("s-1", both, "{addresses: [10.0.0.1, 10.0.0.9], nodeName: n1}")
        + &slice("s-2", "{name: dns, port: 5353, protocol: UDP}", "{addresses: [10.0.0.2], nodeName: n1}")
        + &slice("s-3", "{name: dns-tcp, port: 53, protocol: UDP}", "{addresses: [10.0.0.3], nodeName: n1}");
    let answer = ask(&(NODES.to_owned() + &world), "n1");
    assert!(!answer.predicted);
    assert_eq!(
        reachable(&answer),
        ["dns/UDP 10.0.0.1:53 10.0.0.2:5353", "dns-tcp/TCP 10.0.0.1:53"],
        "only the first address counts; a port whose protocol differs is no port of the Service"
    );
}

/// An address that one slice calls ending and another ready is ready, in whatever order they come.
#[test]
fn an_ending_copy_never_wins() {
    let port = "{name: '', port: 80}";
    let ending = "{addresses: [10.0.0.1], conditions: {ready: false, serving: false, terminating: true}}";
    let ready = "{addresses: [10.0.0.1], conditions: {ready: true}}";
    for (first, second) in [(ending, ready), (ready, ending)] {
        let world = service("clusterIP: 10.96.0.1, ports: [{port: 80}]")
            + &slice("s-1", port, first)
            + &slice("s-2", port, second);
        assert_eq!(reachable(&ask(&(NODES.to_owned() + &world), "n1")), ["/TCP 10.0.0.1:80"]);
    }
}

#[test]
fn two_ports_of_one_host_are_two_endpoints() {
    let world = service("clusterIP: 10.96.0.1, ports: [{port: 80}]")
        + &slice("s-1", "{name: '', port: 8080}", "{addresses: [10.0.0.1]}")
        + &slice("s-2", "{name: '', port: 8081}", "{addresses: [10.0.0.1]}");
    assert_eq!(reachable(&ask(&(NODES.to_owned() + &world), "n1")), ["/TCP 10.0.0.1:8080 10.0.0.1:8081"]);
}

#[test]
fn what_no_proxy_handles_is_said() {
    for (spec, said) in [
        ("clusterIP: None, ports: [{port: 80}]", "headless"),
        ("type: ExternalName, externalName: db.example", "ExternalName: DNS answers with db.example"),
    ] {
        let answer = ask(&(NODES.to_owned() + &service(spec)), "n1");
        assert!(answer.not_proxied.as_ref().is_some_and(|why| why.contains(said)), "{answer:?}");
        assert!(answer.nodes.is_empty());
    }
}

/// What the API server fills in: one family, IPv4 where there is a choice, unless the Service says otherwise.
#[test]
fn a_service_without_a_cluster_ip_has_the_families_that_it_asks_for() {
    let pods = pod("a", "n1", "10.0.1.1'}, {ip: 'fd00::1", "");
    let only_ipv6 = pod("a", "n1", "fd00::1", "");
    for (spec, pods, expected) in [
        ("", &pods, &["IPv4"][..]),
        ("ipFamilyPolicy: SingleStack, ", &pods, &["IPv4"]),
        ("", &only_ipv6, &["IPv6"]),
        ("ipFamilies: [IPv6], ", &pods, &["IPv6"]),
        ("ipFamilies: [IPv6, IPv4], ipFamilyPolicy: RequireDualStack, ", &pods, &["IPv6", "IPv4"]),
        ("ipFamilyPolicy: PreferDualStack, ", &pods, &["IPv4", "IPv6"]),
        ("ipFamilyPolicy: PreferDualStack, ", &only_ipv6, &["IPv6"]),
        ("ipFamilyPolicy: RequireDualStack, ", &only_ipv6, &["IPv6", "IPv4"]),
        ("clusterIP: 'fd00:96::1', ", &pods, &["IPv6"]),
        ("clusterIPs: [10.96.0.1, 'fd00:96::1'], ", &pods, &["IPv4", "IPv6"]),
        ("clusterIP: 10.96.0.1, ipFamilyPolicy: RequireDualStack, ", &pods, &["IPv4", "IPv6"]),
    ] {
        let service = service(&format!("{spec}selector: {{app: s}}, ports: [{{port: 80}}]"));
        let nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n";
        let answer = ask(&(nodes.to_owned() + &service + pods), "n1");
        let found: Vec<&str> = answer.nodes[0].ports.iter().map(|port| port.family).collect();
        assert_eq!(found, expected, "{spec}");
    }
}

/// No controller writes slices for it, so there is nothing to predict and nothing that is sure.
#[test]
fn a_service_without_a_selector_or_slices_is_unknown() {
    let bare = service("clusterIP: 10.96.0.1, ports: [{port: 80}]");
    let answer = ask(&(NODES.to_owned() + &bare), "n1");
    assert!(!answer.predicted, "{answer:?}");
    assert!(
        matches!(&*answer.not_examined, [what] if what.contains("t/s") && what.contains("no selector")),
        "{answer:?}"
    );
    let of_another = "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: o-1, namespace: t, labels: {kubernetes.io/service-name: o}}
addressType: IPv4
ports: [{name: '', port: 80}]
endpoints: [{addresses: [10.0.0.1]}]
";
    let answer = ask(&(NODES.to_owned() + &bare + of_another), "n1");
    assert!(answer.not_examined.is_empty() && !answer.predicted, "slices were given: {answer:?}");
    assert_eq!(answer.nodes[0].ports[0].routes[0].outcome, "refused");
    assert!(answer.assumed.iter().any(|what| what.contains("nobody has written one")), "{answer:?}");
}

#[test]
fn thirteen_endpoints_under_a_limit_of_five() {
    let pods: String = (0..13).map(|n| pod(&format!("p{n:02}"), "n1", &format!("10.0.1.{n}"), "")).collect();
    let world =
        NODES.to_owned() + &service("clusterIP: 10.96.0.1, selector: {app: s}, ports: [{port: 80}]") + &pods;
    let loaded = self::world(&world);
    let key = ObjectKey::new("t", "s");
    let packing = packing(&loaded.cluster, &key, &loaded.cluster.services[&key], 5);
    let sizes: Vec<usize> = packing.slices.iter().map(|slice| slice.endpoints).collect();
    assert_eq!(sizes, [5, 5, 3]);
    assert_eq!(packing.next_endpoint.as_deref(), Some("s-00003"));
}

#[test]
fn values_that_the_api_refuses_are_errors_with_their_place() {
    for (spec, path) in [
        ("type: Cluster", "spec.type"),
        ("externalTrafficPolicy: local", "spec.externalTrafficPolicy"),
        ("internalTrafficPolicy: Node", "spec.internalTrafficPolicy"),
        ("sessionAffinity: Client", "spec.sessionAffinity"),
        (
            "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}",
            "timeoutSeconds",
        ),
        ("trafficDistribution: Near", "spec.trafficDistribution"),
        ("externalIPs: [here]", "spec.externalIPs[0]"),
        ("ipFamilies: [IPv5]", "spec.ipFamilies[0]"),
        ("ipFamilyPolicy: Both", "spec.ipFamilyPolicy"),
        ("loadBalancerSourceRanges: [10.0.0.0/33]", "spec.loadBalancerSourceRanges[0]"),
        ("ports: [{port: 80, nodePort: 70000}]", "spec.ports[0].nodePort"),
    ] {
        let text = service(spec);
        let loaded = load([Document { name: "w.yaml".into(), text: text.into() }], &Budget::default());
        let found: Vec<String> = loaded.diagnostics.iter().map(|found| format!("{found:?}")).collect();
        assert!(found.iter().any(|found| found.contains(path)), "{spec}: {found:?}");
        assert!(loaded.cluster.services.is_empty(), "{spec}: a Service that is not understood is left out");
    }
}

/// `FindPort` looks through containers, then through sidecars; init containers that end are no holders of ports.
#[test]
fn a_named_port_may_be_a_sidecar_s() {
    let of = |restart: &str, first: &str| {
        format!(
            "{NODES}{}apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: t, labels: {{app: s}}}}\nspec:\n  nodeName: n1\n  \
             containers: [{{name: c{first}}}]\n  initContainers: [{{name: proxy{restart}, ports: [{{name: http, containerPort: 15001}}]}}]\n\
             status: {{podIPs: [{{ip: 10.0.1.1}}], conditions: [{{type: Ready, status: 'True'}}]}}\n",
            service("clusterIP: 10.96.0.1, selector: {app: s}, ports: [{port: 80, targetPort: http}]")
        )
    };
    assert_eq!(reachable(&ask(&of(", restartPolicy: Always", ""), "n1")), ["/TCP 10.0.1.1:15001"]);
    assert_eq!(reachable(&ask(&of("", ""), "n1")), ["/TCP "], "it is done before the pod is ready");
    let both = of(", restartPolicy: Always", ", ports: [{name: http, containerPort: 8080}]");
    assert_eq!(reachable(&ask(&both, "n1")), ["/TCP 10.0.1.1:8080"], "containers come first");
}

const ENDPOINTS: &str = "apiVersion: v1
kind: Endpoints
metadata: {name: s, namespace: t}
subsets:
- addresses: [{ip: 192.0.2.1, nodeName: n1}, {ip: 192.0.2.2}, {ip: '2001:db8::1'}]
  notReadyAddresses: [{ip: 192.0.2.3}]
  ports: [{name: '', port: 5432}]
- addresses: [{ip: 192.0.2.4}]
  ports: [{name: other, port: 5433}]
---
";

/// As the `EndpointSliceMirroring` controller does for a Service without a selector.
#[test]
fn a_hand_made_endpoints_object_is_mirrored() {
    let bare = service("clusterIP: 10.96.0.1, ports: [{port: 80}]");
    let world = |service: &str, endpoints: &str| NODES.to_owned() + service + endpoints;
    let answer = ask(&world(&bare, ENDPOINTS), "n1");
    assert_eq!(
        reachable(&answer),
        ["/TCP 192.0.2.1:5432 192.0.2.2:5432"],
        "those that are ready, by the port's name"
    );
    assert_eq!((answer.predicted, answer.not_examined.len()), (false, 0));
    assert!(answer.assumed.iter().any(|what| what.contains("Endpoints object")), "{:?}", answer.assumed);
    let local = service("clusterIP: 10.96.0.1, internalTrafficPolicy: Local, ports: [{port: 80}]");
    assert_eq!(reachable(&ask(&world(&local, ENDPOINTS), "n1")), ["/TCP 192.0.2.1:5432"], "nodeName is kept");
    for (what, service, endpoints) in [
        (
            "a selector",
            service("clusterIP: 10.96.0.1, selector: {app: s}, ports: [{port: 80}]"),
            ENDPOINTS.to_owned(),
        ),
        (
            "skip-mirror",
            bare.clone(),
            ENDPOINTS.replace(
                "namespace: t}",
                "namespace: t, labels: {endpointslice.kubernetes.io/skip-mirror: 'true'}}",
            ),
        ),
        (
            "a leader",
            bare.clone(),
            ENDPOINTS.replace(
                "namespace: t}",
                "namespace: t, annotations: {control-plane.alpha.kubernetes.io/leader: '{}'}}",
            ),
        ),
        ("another Service's", bare.clone(), ENDPOINTS.replace("name: s,", "name: else,")),
    ] {
        assert_eq!(reachable(&ask(&world(&service, &endpoints), "n1")), ["/TCP "], "{what}");
    }
    let slice = |by: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s-1, namespace: t, labels: {{kubernetes.io/service-name: s, endpointslice.kubernetes.io/managed-by: {by}}}}}\naddressType: IPv4\nports: [{{name: '', port: 80}}]\nendpoints: [{{addresses: [192.0.2.9]}}]\n---\n"
        )
    };
    let dump = ask(&world(&bare, &(slice("endpointslicemirroring-controller.k8s.io") + ENDPOINTS)), "n1");
    assert_eq!(reachable(&dump), ["/TCP 192.0.2.9:80"], "a dump has the controller's own slice");
    let more = ask(&world(&bare, &(slice("somebody") + ENDPOINTS)), "n1");
    assert_eq!(
        reachable(&more),
        ["/TCP 192.0.2.1:5432 192.0.2.2:5432 192.0.2.9:80"],
        "and what others wrote counts, too"
    );
}

#[test]
fn an_endpoints_object_that_cannot_be_read_is_told() {
    let text =
        service("clusterIP: 10.96.0.1, ports: [{port: 80}]") + &ENDPOINTS.replace("192.0.2.2", "example.com");
    let loaded = load([Document { name: "w.yaml".into(), text: text.into() }], &Budget::default());
    let told: Vec<String> =
        loaded.diagnostics.iter().map(|found| format!("{} {}", found.message, found.path)).collect();
    assert_eq!(told, ["`example.com` is no IP address subsets[0].addresses[1].ip"]);
}

/// As the controller does: a pod whose Node it does not find is no endpoint, but where nothing is known of Nodes at all.
#[test]
fn a_pod_on_a_node_that_is_not_there_is_no_endpoint() {
    let spec = "clusterIP: 10.96.0.1, selector: {app: s}, ports: [{port: 80}]";
    let pods =
        pod("a", "n1", "10.0.1.1", "") + &pod("b", "n9", "10.0.9.1", "") + &pod("c", "n9", "10.0.9.2", "");
    let answer = ask(&(NODES.to_owned() + &service(spec) + &pods), "n1");
    assert_eq!(reachable(&answer), ["/TCP 10.0.1.1:80"]);
    let said = "2 pods, b to c, are left out: the input has Nodes, and none is called n9";
    assert!(answer.assumed.iter().any(|what| what == said), "{:?}", answer.assumed);
    let published = format!("{spec}, publishNotReadyAddresses: true");
    let answer = ask(&(NODES.to_owned() + &service(&published) + &pods), "n1");
    assert_eq!(reachable(&answer), ["/TCP 10.0.1.1:80 10.0.9.1:80 10.0.9.2:80"]);
    let answer = ask(&(service(spec) + &pods), "n1");
    assert_eq!(reachable(&answer), ["/TCP 10.0.1.1:80 10.0.9.1:80 10.0.9.2:80"], "no Node is in the input");
}

#[test]
fn a_local_policy_says_why_nothing_answers_here() {
    let world = |ready: &str, node: &str| {
        let service = service("clusterIP: 10.96.0.1, internalTrafficPolicy: Local, ports: [{port: 80}]");
        let endpoint = format!("{{addresses: [10.0.1.1], nodeName: {node}, conditions: {{ready: {ready}}}}}");
        NODES.to_owned() + &service + &slice("s-1", "{name: '', port: 80}", &endpoint)
    };
    for (ready, node, said) in [
        ("false", "n1", Some("none is ready, here or elsewhere")),
        ("true", "n2", Some("none of them answers, and others do elsewhere")),
        ("true", "n1", None),
    ] {
        let answer = ask(&world(ready, node), "n1");
        let reason = &answer.nodes[0].ports[0].reason;
        assert!(reason.contains("only endpoints of this node"), "{reason}");
        assert_eq!(
            said.is_some_and(|said| reason.contains(said)),
            said.is_some(),
            "{ready} {node}: {reason}"
        );
        assert_eq!(reason.contains(';'), said.is_some(), "{reason}");
    }
}
