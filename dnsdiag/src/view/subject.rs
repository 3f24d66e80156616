//! The pod that it is all about, as the API knows it.
//!
//! Invariant: fields that `netlab_core` does not read (`dnsPolicy`, `hostAliases`, …) are taken from the object as
//! written; nothing of the pod is assumed when the object is not there.

use std::net::IpAddr;

use netlab_core::input::wire::core_v1 as wire;
use netlab_core::model::cluster::{ObjectKey, Pod};
use serde_json::Value;

use super::View;
use crate::bundle::layout;

/// The pod.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'v> {
    /// As the model has it.
    pub pod: &'v Pod,
    /// As written.
    pub object: &'v wire::Pod,
}

impl View<'_> {
    /// The pod's key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&*self.target.namespace, &*self.target.pod)
    }

    /// The pod; `None` when its object was not recorded.
    #[must_use]
    pub fn subject(&self) -> Option<Subject<'_>> {
        if !self.knows(layout::PODS) {
            return None;
        }
        let pod = self.loaded.cluster.pods.get(&self.key())?;
        let object = self.pod_object(&self.key())?;
        Some(Subject { pod, object })
    }

    /// A pod as written.
    #[must_use]
    pub fn pod_object(&self, key: &ObjectKey) -> Option<&wire::Pod> {
        self.loaded.wire.pods.iter().find(|pod| {
            pod.metadata.name.as_deref() == Some(&key.name)
                && pod.metadata.namespace.as_deref().unwrap_or("default") == key.namespace
        })
    }
}

impl<'v> Subject<'v> {
    /// A field of `spec` that the model does not have.
    #[must_use]
    pub fn spec(&self, field: &str) -> Option<&'v Value> {
        self.object.spec.as_ref()?.unknown.get(field)
    }

    /// `spec.dnsPolicy`; `ClusterFirst` when absent, as the API server sets it.
    #[must_use]
    pub fn dns_policy(&self) -> &'v str {
        self.spec("dnsPolicy").and_then(Value::as_str).unwrap_or("ClusterFirst")
    }

    /// `spec.hostNetwork`.
    #[must_use]
    pub fn host_network(&self) -> bool {
        self.pod.host_network
    }

    /// `spec.nodeName`.
    #[must_use]
    pub fn node(&self) -> Option<&'v str> {
        self.pod.node.as_deref()
    }

    /// `spec.hostAliases`: addresses with their names.
    #[must_use]
    pub fn host_aliases(&self) -> Vec<(IpAddr, String)> {
        let aliases =
            self.spec("hostAliases").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut found = Vec::new();
        for alias in aliases {
            let Some(address) = alias.get("ip").and_then(Value::as_str).and_then(|ip| ip.parse().ok()) else {
                continue;
            };
            let names =
                alias.get("hostnames").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            found.extend(names.iter().filter_map(Value::as_str).map(|name| (address, name.to_owned())));
        }
        found
    }

    /// `status.phase`.
    #[must_use]
    pub fn phase(&self) -> Option<&'v str> {
        self.object.status.as_ref()?.phase.as_deref()
    }

    /// `status.startTime`, RFC 3339.
    #[must_use]
    pub fn started(&self) -> Option<&'v str> {
        self.object.status.as_ref()?.unknown.get("startTime")?.as_str()
    }
}
