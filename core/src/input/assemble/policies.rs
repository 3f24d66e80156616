//! Policies of every kind, from wire structs to one sorted list, and those that were understood for the oracle.
//!
//! Invariant: a policy is in the model exactly when its wire struct is in [`WireObjects`].

use std::collections::BTreeMap;

use super::{note, remark, tie};
use crate::diagnostic::Diagnostic;
use crate::input::objects::Sourced;
use crate::input::wire::admin_network_policy::AdminNetworkPolicy;
use crate::input::wire::baseline_admin_network_policy::BaselineAdminNetworkPolicy;
use crate::input::wire::cluster_network_policy::ClusterNetworkPolicy;
use crate::input::wire::network_policy::NetworkPolicy;
use crate::input::{WireObjects, validate};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::policy::{Policies, Policy};
use crate::model::source::Source;

/// The policies of a text by kind and name.
pub(super) struct Found {
    pub(super) admin: BTreeMap<String, Sourced<AdminNetworkPolicy>>,
    pub(super) baseline: BTreeMap<String, Sourced<BaselineAdminNetworkPolicy>>,
    pub(super) cluster: BTreeMap<String, Sourced<ClusterNetworkPolicy>>,
    pub(super) network: BTreeMap<ObjectKey, Sourced<NetworkPolicy>>,
}

/// The same, read.
pub(super) struct Read {
    pub(super) model: Policies,
    /// Policies only.
    pub(super) wire: WireObjects,
}

/// Reads them all; the kinds come in the order of [`crate::model::policy::PolicyKind`].
pub(super) fn read(found: Found, cluster: &Cluster, diagnostics: &mut Vec<Diagnostic>) -> Read {
    let surroundings = note::Surroundings::new(cluster);
    let mut list = Vec::new();
    let mut wire = WireObjects::default();
    let mut each = Each { surroundings: &surroundings, list: &mut list, diagnostics };
    wire.admin_network_policies = each.read(found.admin, validate::admin_network_policy);
    wire.baseline_admin_network_policies = each.read(found.baseline, validate::baseline_admin_network_policy);
    wire.cluster_network_policies = each.read(found.cluster, validate::cluster_network_policy);
    wire.network_policies = each.read(found.network, validate::network_policy);
    for policy in &mut wire.network_policies {
        "networking.k8s.io/v1".clone_into(&mut policy.api_version);
        "NetworkPolicy".clone_into(&mut policy.kind);
    }
    remark::about(&list, cluster, diagnostics);
    tie::find(&list, cluster, diagnostics);
    Read { model: Policies { list }, wire }
}

struct Each<'a> {
    surroundings: &'a note::Surroundings,
    list: &'a mut Vec<Policy>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Each<'_> {
    fn read<K, T>(
        &mut self,
        found: BTreeMap<K, Sourced<T>>,
        validate: fn(&T, &Source, &mut Vec<Diagnostic>) -> Option<Policy>,
    ) -> Vec<T> {
        let mut wire = Vec::new();
        for Sourced { object, source } in found.into_values() {
            if let Some(policy) = validate(&object, &source, self.diagnostics)
                && self.surroundings.allow(&policy, self.diagnostics)
            {
                self.list.push(policy);
                wire.push(object);
            }
        }
        wire
    }
}
