//! Nodes: those that were given, those that pods name, or one; and on which of them a pod runs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::address::{NODE_POOLS, Taken};
use super::pod::Pods;
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::input::objects::Sourced;
use crate::input::wire::core_v1 as wire;
use crate::model::cluster::Node;

/// The node of a cluster that names none.
const ONLY_NODE: &str = "node-1";

/// Reads the nodes, makes up the missing ones, and gives every running pod a node.
pub(super) fn nodes(
    declared: BTreeMap<String, Sourced<wire::Node>>,
    pods: &mut Pods,
    taken: &mut Taken,
    diagnostics: &mut Vec<Diagnostic>,
) -> (BTreeMap<String, Node>, Vec<wire::Node>) {
    let mut all: BTreeMap<String, (Node, wire::Node)> = BTreeMap::new();
    for (name, Sourced { object, source }) in declared {
        match read(&object) {
            Ok(node) => {
                taken.extend(node.addresses.iter().copied());
                all.insert(name, (Node { declared: true, source, ..node }, object));
            }
            Err((written, path)) => {
                let diagnostic =
                    Diagnostic::error(code::INVALID_ADDRESS, format!("`{written}` cannot be read"))
                        .with_hint("write an address or a CIDR; the node is left out")
                        .about(&ObjectRef { kind: "Node".to_owned(), namespace: None, name })
                        .at_path(&source, path);
                diagnostics.push(diagnostic);
            }
        }
    }
    for name in pods.values().filter_map(|pod| pod.model.node.clone()) {
        all.entry(name).or_default();
    }
    if all.is_empty() {
        all.insert(ONLY_NODE.to_owned(), <(Node, wire::Node)>::default());
    }
    let mut pools = NODE_POOLS.map(Taken::pool);
    for (name, (node, object)) in &mut all {
        object.metadata.name.get_or_insert_with(|| name.clone());
        if node.addresses.is_empty() {
            node.synthetic_addresses = true;
            node.addresses = pools.iter_mut().filter_map(|pool| taken.next(pool)).collect();
            let written = node.addresses.iter().map(|address| wire::NodeAddress {
                address_type: "InternalIP".to_owned(),
                address: address.to_string(),
            });
            object.status.get_or_insert_default().addresses.get_or_insert_default().extend(written);
        }
    }
    place(pods, &all);
    all.into_iter().map(|(name, (node, object))| ((name, node), object)).unzip()
}

/// Gives each pod without a node one, in turn; nodes that take no ordinary pods only if there are no others.
fn place(pods: &mut Pods, nodes: &BTreeMap<String, (Node, wire::Node)>) {
    let ordinary = |(node, object): &(Node, wire::Node)| {
        let cordoned = object.spec.as_ref().and_then(|spec| spec.unknown.get("unschedulable"));
        !node.labels.contains_key("node-role.kubernetes.io/control-plane")
            && cordoned.and_then(serde_json::Value::as_bool) != Some(true)
    };
    let mut names: Vec<&String> =
        nodes.iter().filter(|(_, node)| ordinary(node)).map(|(name, _)| name).collect();
    // No Service leads to pods on a node without an object, where others have one.
    let declared = |name: &&String| nodes.get(*name).is_some_and(|(node, _)| node.declared);
    if names.iter().any(declared) {
        names.retain(declared);
    }
    if names.is_empty() {
        names = nodes.keys().collect();
    }
    let mut turn = names.into_iter().cycle();
    for pod in pods.values_mut().filter(|pod| pod.model.node.is_none() && !pod.unstarted) {
        pod.model.node = turn.next().cloned();
        pod.wire.spec.get_or_insert_default().node_name.clone_from(&pod.model.node);
    }
}

fn read(object: &wire::Node) -> Result<Node, (String, String)> {
    let mut node = Node { labels: object.metadata.labels.clone().unwrap_or_default(), ..Node::default() };
    let written = object.status.as_ref().and_then(|status| status.addresses.as_ref());
    // The first of a family is the node's primary address, to its proxy as well (`GetNodeHostIPs` of component-helpers).
    for wanted in ["InternalIP", "ExternalIP"] {
        let of_type = written.into_iter().flatten().enumerate().filter(|(_, one)| one.address_type == wanted);
        for (index, address) in of_type {
            let address: IpAddr = address
                .address
                .parse()
                .map_err(|_| (address.address.clone(), format!("status.addresses[{index}].address")))?;
            if !node.addresses.contains(&address) {
                node.addresses.push(address);
            }
        }
    }
    let Some(spec) = &object.spec else { return Ok(node) };
    let listed = spec.pod_cidrs.iter().flatten().enumerate();
    let mut written: Vec<(String, &String)> =
        listed.map(|(index, cidr)| (format!("spec.podCIDRs[{index}]"), cidr)).collect();
    if written.is_empty() {
        written.extend(spec.pod_cidr.iter().map(|cidr| ("spec.podCIDR".to_owned(), cidr)));
    }
    for (path, cidr) in written.into_iter().filter(|(_, cidr)| !cidr.is_empty()) {
        let cidr: IpNet = cidr.parse().map_err(|_| (cidr.clone(), path))?;
        node.pod_cidrs.push(cidr.trunc());
    }
    Ok(node)
}
