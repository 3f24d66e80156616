//! Reads a transcription of the upstream `ClusterNetworkPolicy` conformance suite, or of a suite of our own in the
//! same words: tests of steps, each step a change or pokes of who may open a connection to whom.
//!
//! Invariant: steps are cumulative, and a [`Stage`]'s objects are those after every change before its pokes. A step
//! that is not known is an error, never skipped. Pods get one address of each family, on two nodes.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{UnreadableCase, manifest};
use crate::input::WireObjects;
use crate::input::wire::core_v1::{Node, Pod, PodIp};
use crate::input::wire::meta::ObjectMeta;
use crate::policy::oracle::{End, IpProtocol, Question};

/// In place of the suite's `HostNetworkPorts`.
const HOST_PORTS: [u16; 9] = [34345, 34346, 34347, 34348, 34349, 34350, 34351, 34352, 34353];
/// Replicas of each workload, one on each node.
const REPLICAS: usize = 2;

/// What is asked while one set of objects stands.
#[derive(Clone, Debug)]
pub struct Stage {
    /// `CNPAdminTierEgressUDP, Should support …`.
    pub name: String,
    /// The cluster and the policies.
    pub objects: Arc<WireObjects>,
    /// In their order.
    pub pokes: Vec<Poke>,
}

/// One attempt to open a connection.
#[derive(Clone, Debug)]
pub struct Poke {
    /// Once per family.
    pub questions: Vec<Question>,
    /// Whether it must work.
    pub allowed: bool,
}

/// The stages of a suite, in its order. `file` gives the text of a file that the suite names.
///
/// # Errors
/// When a text is not such a suite, or a step names something that is not there.
pub fn stages(
    suite: &str,
    file: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Vec<Stage>, UnreadableCase> {
    let suite: Value = serde_saphyr::from_str(suite).map_err(|error| UnreadableCase::new("suite", error))?;
    let mut stages = Vec::new();
    for test in list(&suite["tests"]) {
        let name = string(test, "test").map_err(|message| UnreadableCase::new("suite", message))?;
        read(test, name, file, &mut stages).map_err(|message| UnreadableCase::new(name, message))?;
    }
    Ok(stages)
}

fn read(
    test: &Value,
    name: &str,
    file: &mut dyn FnMut(&str) -> Result<String, String>,
    stages: &mut Vec<Stage>,
) -> Result<(), String> {
    let mut objects = cluster(&ported(file(string(test, "base")?)?))?;
    if test.get("manifest").is_some() {
        let policies = ported(file(string(test, "manifest")?)?);
        let policies = manifest::read(&policies).map_err(|error| error.to_string())?;
        objects.network_policies = policies.network_policies;
        objects.admin_network_policies = policies.admin_network_policies;
        objects.baseline_admin_network_policies = policies.baseline_admin_network_policies;
        objects.cluster_network_policies = policies.cluster_network_policies;
    }
    let mut open: Option<Stage> = None;
    let mut run = String::new();
    for step in list(&test["steps"]) {
        let (kind, value) =
            step.as_object().and_then(|step| step.iter().next()).ok_or("a step without a kind")?;
        match kind.as_str() {
            "run" => value.as_str().ok_or("a run without a title")?.clone_into(&mut run),
            "poke" | "pokes" => {
                let stage = open.get_or_insert_with(|| Stage {
                    name: format!("{name}, {run}"),
                    objects: Arc::new(objects.clone()),
                    pokes: Vec::new(),
                });
                if kind == "poke" {
                    stage.pokes.push(poke(&objects, value)?);
                } else {
                    pokes(&objects, value, &mut stage.pokes)?;
                }
            }
            other => {
                stages.extend(open.take());
                change(&mut objects, other, value).map_err(|message| format!("{run}: {other}: {message}"))?;
            }
        }
    }
    stages.extend(open);
    Ok(())
}

fn ported(mut text: String) -> String {
    for (index, port) in HOST_PORTS.iter().enumerate() {
        text = text.replace(&format!("{{{{ index .HostNetworkPorts {index} }}}}"), &port.to_string());
    }
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string<'v>(value: &'v Value, field: &str) -> Result<&'v str, String> {
    value[field].as_str().ok_or_else(|| format!("no {field}"))
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// The nodes: the suite needs a cluster, and every kubelet labels its node like this.
fn nodes() -> Result<Vec<Node>, String> {
    (1..=REPLICAS)
        .map(|number| {
            parse(json!({
                "metadata": {"name": format!("n{number}"), "labels": {"kubernetes.io/os": "linux"}},
                "spec": {"podCIDRs": [format!("10.10.{number}.0/24"), format!("fd00:10:{number}::/64")]},
                "status": {"addresses": node_addresses(number).map(|address| {
                    json!({"type": "InternalIP", "address": address})
                })},
            }))
        })
        .collect()
}

fn node_addresses(number: usize) -> [String; 2] {
    [format!("172.18.0.{}", number + 1), format!("fd00:18::{}", number + 1)]
}

/// Namespaces as written, every `StatefulSet` with its replicas.
fn cluster(text: &str) -> Result<WireObjects, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut objects = WireObjects { nodes: nodes()?, ..WireObjects::default() };
    let mut host = 10;
    for mut document in documents {
        match document["kind"].as_str() {
            Some("Namespace") => {
                let fields: &mut Map<String, Value> = document.as_object_mut().ok_or("no object")?;
                fields.retain(|field, _| field == "metadata");
                objects.namespaces.push(parse(document)?);
            }
            Some("StatefulSet") => {
                host += 1;
                for replica in 0..REPLICAS {
                    objects.pods.push(replicated(&document, replica, host)?);
                }
            }
            other => return Err(format!("the kind {other:?} is not known here")),
        }
    }
    Ok(objects)
}

fn replicated(workload: &Value, replica: usize, host: usize) -> Result<Pod, String> {
    let mut pod: Pod = parse(workload["spec"]["template"].clone())?;
    pod.metadata = ObjectMeta {
        name: Some(format!("{}-{replica}", string(&workload["metadata"], "name")?)),
        namespace: Some(string(&workload["metadata"], "namespace")?.to_owned()),
        ..pod.metadata
    };
    let number = replica + 1;
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(format!("n{number}"));
    for container in spec.containers.iter_mut().flatten() {
        container.unknown.clear();
    }
    let addresses = if spec.host_network == Some(true) {
        node_addresses(number)
    } else {
        [format!("10.10.{number}.{host}"), format!("fd00:10:{number}::{host}")]
    };
    let status = pod.status.get_or_insert_default();
    status.phase = Some("Running".to_owned());
    status.pod_ip = Some(addresses[0].clone());
    status.pod_ips = Some(addresses.map(|ip| PodIp { ip }).to_vec());
    Ok(pod)
}

fn change(objects: &mut WireObjects, kind: &str, change: &Value) -> Result<(), String> {
    match kind {
        "apply" => {
            let text = change.as_str().ok_or("no text")?;
            let new = manifest::read(text).map_err(|error| error.to_string())?;
            put(&mut objects.network_policies, new.network_policies, |policy| &policy.metadata);
            put(&mut objects.admin_network_policies, new.admin_network_policies, |policy| &policy.metadata);
            let baseline = &mut objects.baseline_admin_network_policies;
            put(baseline, new.baseline_admin_network_policies, |policy| &policy.metadata);
            let cluster = &mut objects.cluster_network_policies;
            put(cluster, new.cluster_network_policies, |policy| &policy.metadata);
        }
        "delete" => {
            let (of, name) = (string(change, "kind")?, Some(string(change, "name")?.to_owned()));
            let namespace = change["namespace"].as_str().map(str::to_owned);
            let gone = |metadata: &ObjectMeta| metadata.name == name && metadata.namespace == namespace;
            let before = count(objects);
            match of {
                "NetworkPolicy" => objects.network_policies.retain(|policy| !gone(&policy.metadata)),
                "AdminNetworkPolicy" => {
                    objects.admin_network_policies.retain(|policy| !gone(&policy.metadata));
                }
                "BaselineAdminNetworkPolicy" => {
                    objects.baseline_admin_network_policies.retain(|policy| !gone(&policy.metadata));
                }
                "ClusterNetworkPolicy" => {
                    objects.cluster_network_policies.retain(|policy| !gone(&policy.metadata));
                }
                other => return Err(format!("the kind {other} is not known")),
            }
            if count(objects) == before {
                return Err("it is not there".to_owned());
            }
        }
        "setNamespaceLabels" => {
            let name = string(change, "namespace")?;
            let mut all = objects.namespaces.iter_mut();
            let namespace = all.find(|one| one.metadata.name.as_deref() == Some(name));
            let labels = namespace.ok_or("no such namespace")?.metadata.labels.get_or_insert_default();
            for (key, value) in change["labels"].as_object().ok_or("no labels")? {
                labels.insert(key.clone(), value.as_str().ok_or("a label that is no text")?.to_owned());
            }
        }
        _ => change_policy(objects, kind, change)?,
    }
    Ok(())
}

fn put<T>(old: &mut Vec<T>, new: Vec<T>, metadata: impl Fn(&T) -> &ObjectMeta) {
    for object in new {
        let key = |object: &T| (metadata(object).namespace.clone(), metadata(object).name.clone());
        let new = key(&object);
        old.retain(|object| key(object) != new);
        old.push(object);
    }
}

fn count(objects: &WireObjects) -> usize {
    objects.network_policies.len()
        + objects.admin_network_policies.len()
        + objects.baseline_admin_network_policies.len()
        + objects.cluster_network_policies.len()
}

/// A change of one `ClusterNetworkPolicy`, made on its fields as written.
fn change_policy(objects: &mut WireObjects, kind: &str, change: &Value) -> Result<(), String> {
    let name = string(change, "policy")?;
    let rule = change.get("rule").map(|rule| addressed(objects, rule)).transpose()?;
    let mut policies = objects.cluster_network_policies.iter_mut();
    let policy = policies.find(|policy| policy.metadata.name.as_deref() == Some(name));
    let policy = policy.ok_or_else(|| format!("no policy {name}"))?;
    let mut written = serde_json::to_value(&*policy).map_err(|error| error.to_string())?;
    let spec = &mut written["spec"];
    if kind == "setPriority" {
        spec["priority"] = change["priority"].clone();
    } else {
        let direction = match kind {
            "prependEgress" => "egress",
            "prependIngress" => "ingress",
            _ => string(change, "direction")?,
        };
        let rules = spec[direction].as_array_mut().ok_or("no rules in that direction")?;
        let index = |field: &str| {
            let index = change[field].as_u64().and_then(|index| usize::try_from(index).ok());
            index.filter(|index| *index < rules.len()).ok_or_else(|| format!("no rule {}", change[field]))
        };
        match kind {
            "swap" => {
                let (first, second) = (index("i")?, index("j")?);
                rules.swap(first, second);
            }
            "setProtocols" => {
                let index = index("i")?;
                rules[index]["protocols"] = change["protocols"].clone();
            }
            "setAction" => {
                let index = index("i")?;
                rules[index]["action"] = change["action"].clone();
            }
            "prependEgress" | "prependIngress" => rules.insert(0, rule.ok_or("no rule")?),
            other => return Err(format!("the step {other} is not known")),
        }
    }
    *policy = parse(written)?;
    Ok(())
}

/// A rule with every `<IP of ravenclaw/luna-lovegood-0>/32` replaced, in every family.
fn addressed(objects: &WireObjects, rule: &Value) -> Result<Value, String> {
    let mut rule = rule.clone();
    for peer in rule["to"].as_array_mut().into_iter().flatten() {
        let Some(networks) = peer.get_mut("networks") else { continue };
        let mut written = Vec::new();
        for network in list(networks) {
            let text = network.as_str().ok_or("a network that is no text")?;
            let Some(inner) = text.strip_prefix("<IP of ").and_then(|text| text.strip_suffix(">/32")) else {
                written.push(network.clone());
                continue;
            };
            for ip in pod(objects, inner)?.status.iter().flat_map(|status| &status.pod_ips).flatten() {
                let length = if ip.ip.contains(':') { 128 } else { 32 };
                written.push(format!("{}/{length}", ip.ip).into());
            }
        }
        *networks = written.into();
    }
    Ok(rule)
}

/// The pod `namespace/name`; the namespace may be without the prefix that all of a suite share.
fn pod<'o>(objects: &'o WireObjects, reference: &str) -> Result<&'o Pod, String> {
    let (namespace, name) = reference.split_once('/').ok_or("not namespace/name")?;
    let matches = |pod: &&Pod| {
        pod.metadata.name.as_deref() == Some(name)
            && pod.metadata.namespace.as_ref().is_some_and(|full| {
                full == namespace || full.strip_suffix(namespace).is_some_and(|rest| rest.ends_with('-'))
            })
    };
    objects.pods.iter().find(matches).ok_or_else(|| format!("no pod {reference}"))
}

/// `{from, to, allow: 80/TCP 53/UDP, deny: 81/TCP}`.
fn pokes(objects: &WireObjects, written: &Value, pokes: &mut Vec<Poke>) -> Result<(), String> {
    for (field, allowed) in [("allow", true), ("deny", false)] {
        for text in written[field].as_str().unwrap_or_default().split_whitespace() {
            let (port, protocol) = text.split_once('/').ok_or_else(|| format!("{text} is no port"))?;
            let port: u16 = port.parse().map_err(|_| format!("{text} is no port"))?;
            let (from, to) = (&written["from"], &written["to"]);
            pokes.push(poke(
                objects,
                &json!({"from": from, "to": to, "protocol": protocol, "port": port, "allowed": allowed}),
            )?);
        }
    }
    Ok(())
}

fn poke(objects: &WireObjects, poke: &Value) -> Result<Poke, String> {
    let protocol = match poke["protocol"].as_str() {
        Some("TCP") => IpProtocol::Tcp,
        Some("UDP") => IpProtocol::Udp,
        Some("SCTP") => IpProtocol::Sctp,
        other => return Err(format!("the protocol {other:?}")),
    };
    let port = match &poke["port"] {
        Value::String(text) => {
            let index = text.strip_prefix("hostNetworkPorts[").and_then(|text| text.strip_suffix(']'));
            index.and_then(|index| HOST_PORTS.get(index.parse::<usize>().ok()?)).copied()
        }
        number => number.as_u64().and_then(|port| u16::try_from(port).ok()),
    };
    let port = port.ok_or_else(|| format!("the port {}", poke["port"]))?;
    let ends = |field: &str| ends(pod(objects, string(poke, field)?)?);
    let questions = ends("from")?.into_iter().zip(ends("to")?);
    let questions = questions.map(|(source, destination)| Question { source, destination, protocol, port });
    let allowed = poke["allowed"].as_bool().ok_or("no verdict")?;
    Ok(Poke { questions: questions.collect(), allowed })
}

/// The ends that a pod is, by family. A pod of the host's network is its node to everybody.
fn ends(pod: &Pod) -> Result<Vec<End>, String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let spec = pod.spec.as_ref().ok_or("a pod without a spec")?;
    let addresses = pod.status.iter().flat_map(|status| &status.pod_ips).flatten();
    addresses
        .map(|ip| {
            let address = ip.ip.parse().map_err(|_| format!("the address {}", ip.ip))?;
            Ok(if spec.host_network == Some(true) {
                End::Node { name: text(&spec.node_name), address }
            } else {
                End::Pod { namespace: text(&pod.metadata.namespace), name: text(&pod.metadata.name), address }
            })
        })
        .collect()
}
