//! The pod that it is all about, as the API knows it.
//!
//! Invariant: nothing of the pod is assumed when the object is not there.

use netlab_core::input::wire::core_v1 as wire;
use netlab_core::model::cluster::{ObjectKey, Pod};
use netlab_core::model::pod_dns::PodDns;

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
    /// `spec.dnsPolicy`; `ClusterFirst` when absent, as the API server sets it.
    #[must_use]
    pub fn dns_policy(&self) -> &'v str {
        self.dns().and_then(|dns| dns.policy.as_deref()).unwrap_or("ClusterFirst")
    }

    /// What the spec says about names.
    #[must_use]
    pub fn dns(&self) -> Option<&'v PodDns> {
        self.pod.dns.as_deref()
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
    pub fn host_aliases(&self) -> &'v [(String, Vec<String>)] {
        self.dns().map(|dns| dns.host_aliases.as_slice()).unwrap_or_default()
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
