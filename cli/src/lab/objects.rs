//! Objects of a cluster as JSON: found, changed and written.
//!
//! Invariant: what is not changed stays as it was written.

use std::collections::BTreeMap;

use netlab_core::input::what_if::WhatIf;
use netlab_core::input::{Budget, Document, Loaded, load_what_if, typed};
use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
use netlab_core::service::slices::{self, ENDPOINTS_PER_SLICE};
use serde_json::{Value, json};

use super::Manifests;

/// The texts as the library takes them.
pub(super) fn documents(texts: &[(String, String)]) -> impl Iterator<Item = Document> + '_ {
    texts.iter().map(|(name, text)| Document { name: name.as_str().into(), text: text.as_str().into() })
}

impl Manifests {
    /// Reads them.
    pub(crate) fn load(&self) -> Result<Loaded, String> {
        let without = self.without.iter().map(|name| name.parse().map_err(|error| format!("{error}")));
        let what_if = WhatIf {
            with: documents(&self.with).collect(),
            without: without.collect::<Result<_, String>>()?,
            namespace: None,
        };
        let loaded = load_what_if(documents(&self.documents), what_if, &Budget::default());
        loaded.map(|(loaded, _)| loaded).map_err(|error| error.to_string())
    }

    /// Every object, as it is with what is put in and without what is left out.
    pub(crate) fn objects(&self) -> Result<Vec<Value>, String> {
        let mut objects: BTreeMap<(String, String, String), Value> = BTreeMap::new();
        for document in documents(&self.documents).chain(documents(&self.with)) {
            for read in typed::read::<Value>(&document, None, &Budget::default()) {
                let object = read.map_err(|problem| problem.message.clone())?.object;
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let metadata = &object["metadata"];
                let key = (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
                objects.insert(key, object);
            }
        }
        for name in &self.without {
            let parts: Vec<&str> = name.split('/').collect();
            objects.retain(|(kind, namespace, name), _| match parts.as_slice() {
                [left, out] => kind != left || name != out,
                [left, of, out] => kind != left || namespace != of || name != out,
                _ => true,
            });
        }
        Ok(objects.into_values().collect())
    }

    /// The object of a kind and name, the one that stands for it first.
    pub(super) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let is_it = |object: &Value| {
            let metadata = &object["metadata"];
            let own =
                metadata["namespace"].as_str().unwrap_or(if namespace.is_empty() { "" } else { "default" });
            metadata["name"] == name && own == namespace
        };
        documents(&self.with)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .chain(documents(&self.documents))
            .flat_map(|document| typed::read::<Value>(&document, Some(kind), &Budget::default()))
            .filter_map(|read| Some(read.ok()?.object))
            .find(is_it)
    }

    /// Leaves an object out, if it is there.
    pub(super) fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        self.with.retain(|(_, text)| {
            let object: Value = serde_json::from_str(text).unwrap_or_default();
            !(object["kind"] == kind
                && object["metadata"]["namespace"] == namespace
                && object["metadata"]["name"] == name)
        });
        let written = format!("{kind}/{namespace}/{name}");
        if !self.without.contains(&written) && self.find(kind, namespace, name).is_some() {
            self.without.push(written);
        }
    }

    /// Makes every pod an object of its own with its addresses, those that workloads stamp included: what is changed later
    /// must not give any pod another address.
    pub(super) fn pin_pods(
        &mut self,
        source: &str,
        cluster: &Cluster,
        node_of: impl Fn(&ObjectKey) -> Option<String>,
    ) {
        for (key, pod) in &cluster.pods {
            let written = self.find("Pod", &key.namespace, &key.name);
            if pod.terminal || (written.is_some() && !pod.synthetic_addresses && pod.node.is_some()) {
                continue;
            }
            let Some(mut object) = written.or_else(|| self.stamped(key, pod)) else { continue };
            if let Some(node) = node_of(key).filter(|node| cluster.nodes.contains_key(node)) {
                object["spec"]["nodeName"] = json!(node);
            }
            if !pod.host_network && !pod.addresses.is_empty() {
                let ips: Vec<Value> = pod.addresses.iter().map(|address| json!({"ip": address})).collect();
                object["status"]["phase"] = json!("Running");
                object["status"]["podIP"] = json!(pod.addresses.first());
                object["status"]["podIPs"] = json!(ips);
            }
            self.put(source, &object);
        }
    }

    /// A pod as its workload would stamp it.
    fn stamped(&self, key: &ObjectKey, pod: &Pod) -> Option<Value> {
        let workload = pod.controller.as_ref()?;
        let object = self.find(&workload.kind, &key.namespace, &workload.name)?;
        let spec = &object["spec"];
        let template = if workload.kind == "CronJob" {
            &spec["jobTemplate"]["spec"]["template"]
        } else {
            &spec["template"]
        };
        let mut metadata = template["metadata"].clone();
        if !metadata.is_object() {
            metadata = json!({});
        }
        metadata["name"] = json!(key.name);
        metadata["namespace"] = json!(key.namespace);
        metadata["ownerReferences"] = json!([{
            "apiVersion": object["apiVersion"], "kind": workload.kind, "name": workload.name,
            "uid": "00000000-0000-0000-0000-000000000000", "controller": true,
        }]);
        let mut status = json!({});
        status["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        Some(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"], "status": status,
        }))
    }

    /// Puts an object in, in the place of one of its kind and name.
    pub(super) fn put(&mut self, source: &str, object: &Value) {
        let identity = |object: &Value| {
            let metadata = &object["metadata"];
            (object["kind"].clone(), metadata["namespace"].clone(), metadata["name"].clone())
        };
        let wanted = identity(object);
        self.with.retain(|(_, text)| {
            serde_json::from_str::<Value>(text).map_or(true, |other| identity(&other) != wanted)
        });
        self.with.push((format!("{source} {}", self.with.len() + 1), format!("{object:#}")));
    }

    /// Writes the slices of a Service as the controller would now, in the place of those that are there.
    pub(super) fn write_slices(&mut self, source: &str, key: &ObjectKey) -> Result<(), String> {
        let cluster = self.load()?.cluster;
        let Some(service) = cluster.services.get(key) else { return Ok(()) };
        if service.selector.is_none() {
            return Ok(());
        }
        let given: Vec<ObjectKey> = cluster
            .endpoint_slices
            .iter()
            .filter(|(slice, object)| {
                slice.namespace == key.namespace && object.service.as_deref() == Some(&*key.name)
            })
            .map(|(slice, _)| slice.clone())
            .collect();
        let predicted = slices_of(&cluster, key);
        for slice in given {
            let ours = |text: &str| {
                serde_json::from_str::<Value>(text).is_ok_and(|object| {
                    object["kind"] == "EndpointSlice"
                        && object["metadata"]["name"] == slice.name
                        && object["metadata"]["namespace"] == slice.namespace
                })
            };
            let before = self.with.len();
            self.with.retain(|(_, text)| !ours(text));
            if self.with.len() == before && !predicted.iter().any(|new| new["metadata"]["name"] == slice.name)
            {
                self.without.push(format!("EndpointSlice/{}/{}", slice.namespace, slice.name));
            }
        }
        for slice in &predicted {
            self.put(source, slice);
        }
        Ok(())
    }
}

/// The slices that the controller would write; one that is empty where no pod is selected.
fn slices_of(cluster: &Cluster, key: &ObjectKey) -> Vec<Value> {
    let Some(service) = cluster.services.get(key) else { return Vec::new() };
    let predicted = slices::predict(cluster, key, service, ENDPOINTS_PER_SLICE);
    let labels = json!({
        "kubernetes.io/service-name": key.name,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    let slice = |name: &str, family: &str, ports: Vec<Value>, endpoints: Vec<Value>| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": key.namespace, "labels": labels},
            "addressType": family, "ports": ports, "endpoints": endpoints,
        })
    };
    if predicted.slices.is_empty() {
        return vec![slice(&format!("{}-00001", key.name), "IPv4", Vec::new(), Vec::new())];
    }
    let written = predicted.slices.iter().map(|(name, object)| {
        let ports = object.ports.iter().map(
            |port| json!({"name": port.name.clone().unwrap_or_default(), "protocol": port.protocol.as_str(), "port": port.port}),
        );
        let endpoints = object.endpoints.iter().map(|endpoint| {
            let mut written = json!({
                "addresses": endpoint.addresses,
                "conditions": {
                    "ready": endpoint.ready, "serving": endpoint.serving, "terminating": endpoint.terminating,
                },
            });
            let optional = [("hostname", &endpoint.hostname), ("nodeName", &endpoint.node), ("zone", &endpoint.zone)];
            for (field, value) in optional {
                if let Some(value) = value {
                    written[field] = json!(value);
                }
            }
            if let Some(pod) = &endpoint.pod {
                written["targetRef"] = json!({"kind": "Pod", "namespace": key.namespace, "name": pod});
            }
            written
        });
        slice(name, object.address_type.as_str(), ports.collect(), endpoints.collect())
    });
    written.collect()
}
