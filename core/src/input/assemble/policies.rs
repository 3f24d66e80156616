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
use crate::model::address::AddressBlock;
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

/// The same, each policy that could be understood beside its model.
pub(super) struct Understood {
    admin: Vec<(AdminNetworkPolicy, Policy)>,
    baseline: Vec<(BaselineAdminNetworkPolicy, Policy)>,
    cluster: Vec<(ClusterNetworkPolicy, Policy)>,
    network: Vec<(NetworkPolicy, Policy)>,
}

impl Understood {
    /// Reads them all.
    pub(super) fn new(found: Found, diagnostics: &mut Vec<Diagnostic>) -> Self {
        Self {
            admin: understood(found.admin, validate::admin_network_policy, diagnostics),
            baseline: understood(found.baseline, validate::baseline_admin_network_policy, diagnostics),
            cluster: understood(found.cluster, validate::cluster_network_policy, diagnostics),
            network: understood(found.network, validate::network_policy, diagnostics),
        }
    }

    /// Every block of addresses that a rule names.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &AddressBlock> {
        let models = self.admin.iter().map(|(_, model)| model);
        let models = models.chain(self.baseline.iter().map(|(_, model)| model));
        let models = models.chain(self.cluster.iter().map(|(_, model)| model));
        models.chain(self.network.iter().map(|(_, model)| model)).flat_map(Policy::blocks)
    }
}

fn understood<K, T>(
    found: BTreeMap<K, Sourced<T>>,
    validate: fn(&T, &Source, &mut Vec<Diagnostic>) -> Option<Policy>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(T, Policy)> {
    let read = found.into_values().filter_map(|Sourced { object, source }| {
        let model = validate(&object, &source, diagnostics)?;
        Some((object, model))
    });
    read.collect()
}

/// The policies of the input.
pub(super) struct Read {
    pub(super) model: Policies,
    /// Policies only.
    pub(super) wire: WireObjects,
}

/// Those that can be used beside this cluster; the kinds come in the order of
/// [`crate::model::policy::PolicyKind`].
pub(super) fn read(found: Understood, cluster: &Cluster, diagnostics: &mut Vec<Diagnostic>) -> Read {
    let surroundings = note::Surroundings::new(cluster);
    let mut list = Vec::new();
    let mut wire = WireObjects::default();
    let mut each = Each { surroundings: &surroundings, list: &mut list, diagnostics };
    wire.admin_network_policies = each.allowed(found.admin);
    wire.baseline_admin_network_policies = each.allowed(found.baseline);
    wire.cluster_network_policies = each.allowed(found.cluster);
    wire.network_policies = each.allowed(found.network);
    for policy in &mut wire.network_policies {
        "networking.k8s.io/v1".clone_into(&mut policy.api_version);
        "NetworkPolicy".clone_into(&mut policy.kind);
    }
    remark::about(&list, cluster, diagnostics);
    tie::find(&list, cluster, diagnostics);
    Read { model: Policies { list }, wire }
}

struct Each<'a> {
    surroundings: &'a note::Surroundings<'a>,
    list: &'a mut Vec<Policy>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Each<'_> {
    fn allowed<T>(&mut self, found: Vec<(T, Policy)>) -> Vec<T> {
        let mut wire = Vec::new();
        for (object, policy) in found {
            if self.surroundings.allow(&policy, self.diagnostics) {
                self.list.push(policy);
                wire.push(object);
            }
        }
        wire
    }
}
