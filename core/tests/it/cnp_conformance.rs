//! The upstream conformance tests of ClusterNetworkPolicy: every poke, by oracle and engine, in both families.
//!
//! The transcription's steps are cumulative: each changes the policies or the namespaces, and what is poked after it
//! is judged by what stands then.

use std::path::{Path, PathBuf};

use netlab_core::input::wire::cluster_network_policy::ClusterNetworkPolicy;
use netlab_core::input::{Budget, Document, Loaded, WireObjects, load};
use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
use netlab_core::policy::change::Verdict;
use netlab_core::policy::oracle::{self, End, IpProtocol, Oracle, Question};
use netlab_core::testing::manifest;
use serde_json::Value;

use crate::input_files::{cases, line};
use crate::sides::{Sides, Way, pair};

/// In place of the suite's `HostNetworkPorts`.
const HOST_PORTS: [u16; 9] = [34345, 34346, 34347, 34348, 34349, 34350, 34351, 34352, 34353];

/// The suite needs a cluster, and every kubelet labels its node like this.
const NODES: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/os: linux}}
spec: {podCIDRs: [10.10.1.0/24, 'fd00:10:1::/64']}
status: {addresses: [{type: InternalIP, address: 172.18.0.2}, {type: InternalIP, address: 'fd00:18::2'}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {kubernetes.io/os: linux}}
spec: {podCIDRs: [10.10.2.0/24, 'fd00:10:2::/64']}
status: {addresses: [{type: InternalIP, address: 172.18.0.3}, {type: InternalIP, address: 'fd00:18::3'}]}
";

fn text(path: &Path) -> String {
    let mut text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (index, port) in HOST_PORTS.iter().enumerate() {
        text = text.replace(&format!("{{{{ index .HostNetworkPorts {index} }}}}"), &port.to_string());
    }
    text
}

/// The suite's cluster, every workload with its two replicas, as text.
fn base(path: &Path) -> String {
    let document = Document { name: "base".into(), text: text(path).into() };
    let stamped = load([document], &Budget::default()).wire;
    let mut objects = WireObjects { namespaces: stamped.namespaces, ..WireObjects::default() };
    for pod in stamped.pods {
        let owner =
            pod.metadata.owner_references.iter().flatten().next().expect("a StatefulSet").name.clone();
        for replica in 0..2 {
            let mut pod = pod.clone();
            pod.metadata.name = Some(format!("{owner}-{replica}"));
            pod.status = None;
            pod.spec.get_or_insert_default().node_name = None;
            objects.pods.push(pod);
        }
    }
    // Once through the reader for nodes and addresses, so that they are there to be named.
    let text = manifest::write_cluster(&objects);
    let documents = [("pods", text), ("nodes", NODES.to_owned())];
    let documents = documents.map(|(name, text)| Document { name: name.into(), text: text.into() });
    manifest::write_cluster(&load(documents, &Budget::default()).wire)
}

/// One test as it goes on.
struct Suite {
    base: String,
    policies: Vec<ClusterNetworkPolicy>,
    /// Labels that steps set, by namespace.
    labels: Vec<(String, String, String)>,
}

impl Suite {
    fn load(&self) -> Loaded {
        let policies =
            WireObjects { cluster_network_policies: self.policies.clone(), ..WireObjects::default() };
        let texts = [("base", self.base.clone()), ("policies", manifest::write(&policies))];
        let documents = texts.map(|(name, text)| Document { name: name.into(), text: text.into() });
        let mut loaded = load(documents, &Budget::default());
        let said: Vec<String> = loaded.diagnostics.iter().map(line).collect();
        assert_eq!(said, Vec::<String>::new());
        for (namespace, key, value) in &self.labels {
            let model = loaded.cluster.namespaces.get_mut(namespace).expect("a namespace");
            model.labels.insert(key.clone(), value.clone());
            let mut wire = loaded.wire.namespaces.iter_mut();
            let wire = wire.find(|wire| wire.metadata.name.as_ref() == Some(namespace)).expect("a namespace");
            wire.metadata.labels.get_or_insert_default().insert(key.clone(), value.clone());
        }
        loaded
    }

    fn policy(&mut self, change: &Value) -> &mut ClusterNetworkPolicy {
        let name = change["policy"].as_str().expect("a policy's name").to_owned();
        let mut policies = self.policies.iter_mut();
        policies.find(|policy| policy.metadata.name.as_ref() == Some(&name)).expect("a policy of that name")
    }

    fn change(&mut self, kind: &str, change: &Value) {
        let index = |field: &str| usize::try_from(change[field].as_u64().expect("an index")).expect("small");
        let ingress = change["direction"] == "ingress";
        match kind {
            "swap" => {
                let spec = self.policy(change).spec.as_mut().expect("a spec");
                if ingress {
                    spec.ingress.as_mut().expect("rules").swap(index("i"), index("j"));
                } else {
                    spec.egress.as_mut().expect("rules").swap(index("i"), index("j"));
                }
            }
            "setProtocols" => {
                let protocols = Some(serde_json::from_value(change["protocols"].clone()).expect("protocols"));
                let spec = self.policy(change).spec.as_mut().expect("a spec");
                if ingress {
                    spec.ingress.as_mut().expect("rules")[index("i")].protocols = protocols;
                } else {
                    spec.egress.as_mut().expect("rules")[index("i")].protocols = protocols;
                }
            }
            "setPriority" => {
                self.policy(change).spec.as_mut().expect("a spec").priority = change["priority"].as_i64();
            }
            "setNamespaceLabels" => {
                let namespace = change["namespace"].as_str().expect("a name");
                for (key, value) in change["labels"].as_object().expect("labels") {
                    let value = value.as_str().expect("a label").to_owned();
                    self.labels.push((namespace.to_owned(), key.clone(), value));
                }
            }
            "prependEgress" => {
                let mut rule = change["rule"].clone();
                let cluster = self.load().cluster;
                for networks in
                    rule["to"].as_array_mut().expect("peers").iter_mut().map(|peer| &mut peer["networks"])
                {
                    let written = networks.as_array().expect("networks").iter();
                    *networks =
                        written.flat_map(|text| addresses(&cluster, text.as_str().expect("text"))).collect();
                }
                let spec = self.policy(change).spec.as_mut().expect("a spec");
                let rule = serde_json::from_value(rule).expect("a rule");
                spec.egress.get_or_insert_default().insert(0, rule);
            }
            other => panic!("the step {other} is not known"),
        }
    }
}

/// The CIDRs of `<IP of ravenclaw/luna-lovegood-0>/32`, in every family.
fn addresses(cluster: &Cluster, text: &str) -> Vec<Value> {
    let inner =
        text.strip_prefix("<IP of ").and_then(|text| text.strip_suffix(">/32")).expect("a placeholder");
    let addresses = &pod(cluster, &format!("network-policy-conformance-{inner}")).1.addresses;
    addresses
        .iter()
        .map(|address| format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 }).into())
        .collect()
}

fn pod<'c>(cluster: &'c Cluster, name: &str) -> (ObjectKey, &'c Pod) {
    let (namespace, name) = name.split_once('/').expect("namespace/name");
    let key = ObjectKey::new(namespace, name);
    let pod = cluster.pods.get(&key).unwrap_or_else(|| panic!("{key} is not there"));
    (key, pod)
}

/// The questions of a poke: one per family.
fn questions(cluster: &Cluster, poke: &Value) -> Vec<Question> {
    let protocol = match poke["protocol"].as_str() {
        Some("TCP") => IpProtocol::Tcp,
        Some("UDP") => IpProtocol::Udp,
        Some("SCTP") => IpProtocol::Sctp,
        other => panic!("the protocol {other:?}"),
    };
    let port = match &poke["port"] {
        Value::String(text) => {
            let index = text.strip_prefix("hostNetworkPorts[").and_then(|text| text.strip_suffix(']'));
            HOST_PORTS[index.and_then(|index| index.parse::<usize>().ok()).expect("an index")]
        }
        number => u16::try_from(number.as_u64().expect("a port")).expect("a port"),
    };
    let end = |field: &str, ipv4: bool| {
        let (key, pod) = pod(cluster, poke[field].as_str().expect("a pod"));
        // A pod of the host's network is its node to everybody.
        if let Some(node) = pod.node.as_ref().filter(|_| pod.host_network) {
            let addresses = &cluster.nodes[node].addresses;
            let address = *addresses.iter().find(|address| address.is_ipv4() == ipv4).expect("an address");
            return End::Node { name: node.clone(), address };
        }
        let address = *pod.addresses.iter().find(|address| address.is_ipv4() == ipv4).expect("an address");
        End::Pod { namespace: key.namespace, name: key.name, address }
    };
    let question =
        |ipv4| Question { source: end("from", ipv4), destination: end("to", ipv4), protocol, port };
    [true, false].map(question).to_vec()
}

fn root() -> Option<PathBuf> {
    Some(cases()?.join("policy/clusternetworkpolicy"))
}

#[test]
fn every_poke_is_judged_right_by_oracle_and_engine() {
    let Some(root) = root() else { return };
    let expected: Value =
        serde_json::from_str(&text(&root.join("expected.json"))).expect("the transcription");
    let (mut tests, mut pokes, mut wrong) = (0, 0, Vec::new());
    for test in expected["tests"].as_array().expect("tests") {
        let name = test["test"].as_str().expect("a name");
        tests += 1;
        let file = |field: &str| root.join(test[field].as_str().expect("a path"));
        let policies = manifest::read(&text(&file("manifest"))).expect("policies").cluster_network_policies;
        let mut suite = Suite { base: base(&file("base")), policies, labels: Vec::new() };
        let mut run = "";
        let mut sides = None;
        for step in test["steps"].as_array().expect("steps") {
            let (kind, value) = step.as_object().and_then(|step| step.iter().next()).expect("a step");
            if kind == "run" {
                run = value.as_str().expect("a title");
                continue;
            }
            if kind != "poke" {
                suite.change(kind, value);
                sides = None;
                continue;
            }
            let sides = sides.get_or_insert_with(|| {
                Sides::of_loaded(suite.load(), Way::Nodes)
                    .unwrap_or_else(|error| panic!("{name}, {run}: {error}"))
            });
            for question in questions(&sides.loaded.cluster, value) {
                pokes += 1;
                let allowed = value["allowed"].as_bool().expect("a verdict");
                let verdict = if allowed { oracle::Verdict::Allow } else { oracle::Verdict::Deny };
                let answer = Oracle::new(&sides.loaded.wire).judge(&question);
                if answer.verdict != verdict {
                    wrong.push(format!("{name}, {run}: {value}: the oracle says {answer:?}"));
                }
                let hops = sides.hops(&pair(&question));
                if hops.iter().flatten().all(|(_, hop)| hop.verdict == Verdict::Allow) != allowed {
                    wrong.push(format!("{name}, {run}: {value}: the engine says {hops:?}"));
                }
                if let Some(difference) = sides.disagreement(&question) {
                    wrong.push(format!("{name}, {run}: {value}: {difference}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(tests >= 12 && pokes >= 2 * 143, "{tests} tests, {pokes} pokes");
}
