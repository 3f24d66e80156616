//! What a cluster looks like after loading: defaults, derived objects, and order that does not matter.

use netlab_core::diagnostic::Severity;
use netlab_core::input::{Budget, Loaded, load};
use netlab_core::model::cluster::{ObjectKey, Pod, WorkloadRef};
use netlab_core::model::policy::{NamespaceScope, PeerMatch};

use crate::input_files::{documents, example, load_text};

fn pod<'l>(loaded: &'l Loaded, key: &str) -> &'l Pod {
    let (namespace, name) = key.split_once('/').expect("namespace/name");
    loaded
        .cluster
        .pods
        .get(&ObjectKey::new(namespace, name))
        .unwrap_or_else(|| panic!("no pod {key}, only {:?}", loaded.cluster.pods.keys().collect::<Vec<_>>()))
}

fn owner(kind: &str, name: &str) -> WorkloadRef {
    WorkloadRef { kind: kind.to_owned(), name: name.to_owned() }
}

fn addresses(loaded: &Loaded, key: &str) -> Vec<String> {
    pod(loaded, key).addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn the_order_of_files_does_not_matter() {
    let shop = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shop");
    let shown = |loaded: &Loaded| {
        format!(
            "{:#?}\n{:#?}\n{:#?}\n{:#?}",
            loaded.cluster, loaded.policies, loaded.wire, loaded.diagnostics
        )
    };
    let mut texts = documents(&shop);
    let expected = shown(&load(texts.clone(), &Budget::default()));
    for round in 1..6 {
        texts.reverse();
        texts.rotate_left(round);
        assert_eq!(shown(&load(texts.clone(), &Budget::default())), expected);
    }
}

#[test]
fn both_worlds_hold_the_same_pods_nodes_and_namespaces() {
    for name in ["shop", "clean"] {
        let loaded = example(name);
        assert_eq!(loaded.wire.pods.len(), loaded.cluster.pods.len());
        for (wire, (key, model)) in loaded.wire.pods.iter().zip(&loaded.cluster.pods) {
            let status = wire.status.as_ref().expect("a status");
            let written: Vec<String> = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
            let known: Vec<String> = model.addresses.iter().map(ToString::to_string).collect();
            assert_eq!(wire.metadata.name.as_deref(), Some(key.name.as_str()));
            assert_eq!(wire.metadata.namespace.as_deref(), Some(key.namespace.as_str()));
            assert_eq!(wire.metadata.labels.clone().unwrap_or_default(), model.labels);
            assert_eq!(written, known, "{key}");
            assert_eq!(wire.spec.as_ref().and_then(|spec| spec.node_name.clone()), model.node, "{key}");
        }
        for (wire, (key, model)) in loaded.wire.namespaces.iter().zip(&loaded.cluster.namespaces) {
            assert_eq!(wire.metadata.labels.as_ref(), Some(&model.labels), "{key}");
        }
        let nodes: Vec<_> = loaded.wire.nodes.iter().filter_map(|node| node.metadata.name.as_ref()).collect();
        assert_eq!(nodes, loaded.cluster.nodes.keys().collect::<Vec<_>>());
    }
}

#[test]
fn namespaces_have_the_label_that_the_server_gives() {
    let loaded = load_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n\
         {apiVersion: v1, kind: Namespace, metadata: {name: b, labels: {kubernetes.io/metadata.name: lie, x: w}}}\n",
    );
    let label = |name: &str| loaded.cluster.namespaces[name].labels["kubernetes.io/metadata.name"].clone();
    assert_eq!((label("default"), label("b")), ("default".to_owned(), "b".to_owned()));
    assert!(!loaded.cluster.namespaces["default"].declared && loaded.cluster.namespaces["b"].declared);
}

#[test]
fn workloads_stamp_a_pod_unless_they_have_one() {
    let loaded = load_text(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, template: {metadata: \
           {labels: {app: web}}, spec: {containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}}}}\n---\n\
         {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {template: {metadata: {labels: {app: s}}}}}\n---\n\
         {apiVersion: batch/v1, kind: CronJob, metadata: {name: tick}, spec: {jobTemplate: {spec: {template: {}}}}}\n---\n\
         {apiVersion: batch/v1, kind: Job, metadata: {name: tick-123, ownerReferences: [{kind: CronJob, name: tick}]}, spec: {template: {}}}\n---\n\
         {apiVersion: apps/v1, kind: Deployment, metadata: {name: api}, spec: {template: {}}}\n---\n\
         {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: api-1, ownerReferences: [{kind: Deployment, name: api}]}, spec: {template: {}}}\n---\n\
         {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: old}, spec: {replicas: 0, template: {}}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: api-1-x, ownerReferences: [{kind: ReplicaSet, name: api-1}]}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: dump-abc-x, labels: {pod-template-hash: abc}, ownerReferences: [{kind: ReplicaSet, name: dump-abc}]}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: static, ownerReferences: [{kind: Node, name: node-1}]}}\n",
    );
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let names: Vec<&str> = loaded.cluster.pods.keys().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["api-1-x", "dump-abc-x", "static", "tick", "web", "web-statefulset"]);
    let web = pod(&loaded, "default/web");
    assert_eq!(web.owner, Some(owner("Deployment", "web")));
    assert_eq!((web.labels["app"].as_str(), web.ports[0].number), ("web", 80));
    assert_eq!(
        web.source.locate("").map(|at| at.line),
        Some(1),
        "a stamped pod stands where its workload does"
    );
    let api = pod(&loaded, "default/api-1-x");
    assert_eq!(
        (&api.owner, &api.controller),
        (&Some(owner("Deployment", "api")), &Some(owner("ReplicaSet", "api-1")))
    );
    assert_eq!(pod(&loaded, "default/dump-abc-x").owner, Some(owner("Deployment", "dump")));
    assert_eq!(pod(&loaded, "default/static").owner, None);
    assert_eq!(pod(&loaded, "default/tick").owner, Some(owner("CronJob", "tick")));
}

#[test]
fn what_has_no_address_gets_one_that_is_nobody_elses() {
    let loaded = load_text(
        "{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {podCIDR: 10.9.0.0/29}, status: {addresses: [{type: InternalIP, address: 10.9.0.3}]}}\n---\n\
         {apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: 10.9.0.4}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: given}, spec: {nodeName: n1}, status: {podIP: 10.9.0.2}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeName: n1}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {nodeName: n1}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: c}, spec: {nodeName: n1}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: host}, spec: {nodeName: n1, hostNetwork: true}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: elsewhere}, spec: {nodeName: n2}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: waits}, status: {phase: Pending}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: done}, spec: {nodeName: n1}, status: {phase: Succeeded, podIP: 10.9.0.2}}\n",
    );
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    assert_eq!(addresses(&loaded, "default/given"), ["10.9.0.2"]);
    assert_eq!(addresses(&loaded, "default/a"), ["10.9.0.5"]);
    assert_eq!(addresses(&loaded, "default/b"), ["10.9.0.6"]);
    assert_eq!(addresses(&loaded, "default/c"), ["10.244.0.2"], "the node's range is full");
    assert_eq!(addresses(&loaded, "default/host"), ["10.9.0.3"]);
    assert_eq!(addresses(&loaded, "default/elsewhere"), ["10.244.0.3", "fd00:10:244::2"]);
    assert!(addresses(&loaded, "default/waits").is_empty());
    assert!(!pod(&loaded, "default/waits").is_policed() && !pod(&loaded, "default/done").is_policed());
    assert!(pod(&loaded, "default/done").terminal);
    assert!(
        pod(&loaded, "default/a").synthetic_addresses && !pod(&loaded, "default/given").synthetic_addresses
    );
    let made_up = &loaded.cluster.nodes["n2"];
    assert!(made_up.synthetic_addresses && made_up.addresses.len() == 2);
}

#[test]
fn a_cluster_without_nodes_has_one_and_pods_take_turns() {
    let pods = |count: usize| {
        (0..count).map(|n| format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p{n}}}}}\n---\n"))
    };
    let one = load_text(&pods(2).collect::<String>());
    assert_eq!(one.cluster.nodes.keys().collect::<Vec<_>>(), ["node-1"]);
    let nodes = "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n\
                 {apiVersion: v1, kind: Node, metadata: {name: b}, spec: {unschedulable: true}}\n---\n\
                 {apiVersion: v1, kind: Node, metadata: {name: c, labels: {node-role.kubernetes.io/control-plane: \"\"}}}\n---\n\
                 {apiVersion: v1, kind: Node, metadata: {name: d}}\n---\n";
    let four = load_text(&(nodes.to_owned() + &pods(4).collect::<String>()));
    let placed: Vec<&str> = four.cluster.pods.values().filter_map(|pod| pod.node.as_deref()).collect();
    assert_eq!(placed, ["a", "d", "a", "d"]);
}

#[test]
fn the_defaults_of_policy_types() {
    let effective = |spec: &str| {
        let text = format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: a}}, spec: {{{spec}}}}}"
        );
        let loaded = load_text(&text);
        let policy = loaded.policies.list.first().expect("a policy");
        (policy.ingress.as_ref().map(Vec::len), policy.egress.as_ref().map(Vec::len))
    };
    for (spec, expected) in [
        ("", (Some(0), None)),
        ("podSelector: {}", (Some(0), None)),
        ("egress: []", (Some(0), None)),
        ("egress: null", (Some(0), None)),
        ("egress: [{}]", (Some(0), Some(1))),
        ("ingress: [{}], policyTypes: [Egress]", (None, Some(0))),
        ("ingress: [{}], policyTypes: []", (Some(1), None)),
        ("ingress: [{}], egress: [{}], policyTypes: [Ingress]", (Some(1), None)),
        ("policyTypes: [Ingress, Egress]", (Some(0), Some(0))),
    ] {
        assert_eq!(effective(spec), expected, "{spec}");
    }
}

#[test]
fn absent_null_and_empty_peers_are_kept_apart() {
    let text = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a, namespace: own}\nspec:\n  ingress:\n\
                \x20 - from: []\n  - from: null\n  - from: [{podSelector: {}}]\n  - from: [{namespaceSelector: {}}]\n\
                \x20 - from: [{podSelector: {}, namespaceSelector: {}}]\n  - from: [{ipBlock: {cidr: 10.0.0.0/8, except: []}}]\n  - ports: []\n";
    let loaded = load_text(text);
    let rules = loaded.policies.list[0].ingress.as_ref().expect("ingress");
    let shown: Vec<String> = rules
        .iter()
        .map(|rule| match rule.peers.as_deref() {
            None => "everybody".to_owned(),
            Some([peer]) => match &peer.matches {
                PeerMatch::Pods(pods) => match &pods.namespaces {
                    NamespaceScope::Own(name) => format!("pods of {name}"),
                    NamespaceScope::Matching(selector) => format!("pods of namespaces: {selector}"),
                },
                PeerMatch::Block(block) => block.to_string(),
                PeerMatch::Nodes(selector) => format!("nodes {selector}"),
                PeerMatch::DomainNames(names) => names.join(" "),
            },
            Some(peers) => format!("{} peers", peers.len()),
        })
        .collect();
    let all = "pods of namespaces: everything";
    assert_eq!(shown, ["everybody", "everybody", "pods of own", all, all, "10.0.0.0/8", "everybody"]);
}

#[test]
fn lists_of_every_shape_are_opened_and_other_kinds_counted() {
    let loaded = load_text(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n\
         - {apiVersion: v1, kind: PodList, items: [{metadata: {name: b}}, {metadata: {name: c}}]}\n\
         - {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n\
         - {apiVersion: route.openshift.io/v1, kind: Route, metadata: {name: x}}\n---\n\
         {\"apiVersion\": \"v1\", \"kind\": \"ConfigMapList\", \"items\": [{\"metadata\": {\"name\": \"y\"}}]}\n---\n\
         {apiVersion: v1, kind: List, items: null}\n",
    );
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    assert_eq!(loaded.cluster.pods.len(), 3);
    let skipped: Vec<String> = loaded.skipped.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    assert_eq!(skipped, ["ConfigMap 2", "Route 1"]);
}

#[test]
fn the_same_object_twice_is_noted_and_another_one_refused() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {x: w}}}\n";
    let same = load_text(&format!("{pod}---\n{pod}"));
    assert_eq!(same.diagnostics.iter().map(|found| found.severity).collect::<Vec<_>>(), [Severity::Note]);
    let other = load_text(&format!("{pod}---\n{}", pod.replace("x: w", "x: z")));
    assert_eq!(other.diagnostics.iter().map(|found| found.severity).collect::<Vec<_>>(), [Severity::Error]);
    assert_eq!(other.cluster.pods.values().next().map(|pod| pod.labels["x"].as_str()), Some("w"));
}
