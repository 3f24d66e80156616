//! Other manifests for a lab that is up.
//!
//! Invariant: pods keep the addresses and nodes that the lab gave them, whatever the new manifests would give them; where
//! these say something else, nothing is changed. What was added for names stays where the new manifests lack it.

use std::collections::BTreeMap;

use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
use netlab_core::model::service::Service;
use netlab_lab::{Place, Plan};
use serde_json::{Value, json};

use super::Manifests;

/// Where a pod's object says that it was written.
const SOURCE: &str = "as the lab has it:";

impl Manifests {
    /// These documents in the place of those that the lab had.
    pub(super) fn renewed(&self, documents: Vec<(String, String)>, plan: &Plan) -> Result<Self, String> {
        let own = |documents: Vec<(String, String)>| Self { documents, ..Self::default() };
        let before = own(self.documents.clone()).load()?.cluster;
        let mut renewed = own(documents);
        let cluster = renewed.load()?.cluster;
        for (source, text) in &self.with {
            let object: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let name = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            let (kind, key) = (
                object["kind"].as_str().unwrap_or_default(),
                ObjectKey::new(name("namespace"), name("name")),
            );
            match (kind, renewed.find(kind, &key.namespace, &key.name)) {
                // A pod of the lab, which the new manifests have to have themselves.
                ("Pod", _) if before.pods.contains_key(&key) || cluster.pods.contains_key(&key) => {}
                ("Service", Some(mut written)) => {
                    if cluster.services.get(&key).is_some_and(Service::awaits_cluster_ip) {
                        for field in ["clusterIP", "clusterIPs"] {
                            written["spec"][field] = object["spec"][field].clone();
                        }
                        renewed.put(source, &written);
                    }
                }
                (_, Some(_)) => {}
                (_, None) => renewed.with.push((source.clone(), text.clone())),
            }
        }
        let pods = in_the_lab(&cluster, plan)?;
        let node_of = |key: &ObjectKey| plan.node_of(&Place::Pod(key.clone())).map(str::to_owned);
        renewed.pin_pods(SOURCE, &Cluster { pods, nodes: cluster.nodes, ..Cluster::default() }, node_of);
        Ok(renewed)
    }
}

/// The pods that the lab has, with its addresses.
fn in_the_lab(cluster: &Cluster, plan: &Plan) -> Result<BTreeMap<ObjectKey, Pod>, String> {
    let mut pods = BTreeMap::new();
    for (key, pod) in &cluster.pods {
        let place = Place::Pod(key.clone());
        let here = plan.addresses_of(&place);
        let Some(node) = plan.node_of(&place).filter(|_| !here.is_empty()) else { continue };
        let differs = |what: &str, lab: &str, manifests: &str| {
            Err(format!(
                "pod {key} has the {what} {lab} in the lab and {manifests} in these manifests; bring the lab up \
                 anew (`netlab lab down`, `netlab lab up`), or give the pod what it has"
            ))
        };
        if let Some(other) = pod.node.as_deref().filter(|name| *name != node) {
            return differs("node", node, other);
        }
        if pod.host_network {
            continue;
        }
        let is_open = pod.synthetic_addresses || pod.addresses.is_empty();
        if !is_open && !pod.addresses.iter().all(|address| here.contains(address)) {
            return differs("address", &json!(here).to_string(), &json!(pod.addresses).to_string());
        }
        let mut pod = pod.clone();
        pod.synthetic_addresses |= is_open;
        pod.addresses = here.to_vec();
        pods.insert(key.clone(), pod);
    }
    Ok(pods)
}
