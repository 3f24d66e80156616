//! Which kinds netlab reads, under which API versions, and which it must not overlook.
//!
//! Invariant: an object that could change a verdict is never skipped in silence. Kinds are looked up by group and
//! kind, because three APIs call something `ClusterNetworkPolicy` and several a `NetworkPolicy`.

/// What is to be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Read it.
    Known(Known),
    /// One of ours, under an apiVersion that does not have it.
    WrongApiVersion { expected: &'static str },
    /// A policy kind of the network policy API group that this version does not understand.
    NotUnderstood,
    /// Another vendor's policy.
    VendorPolicy,
    /// Changes which network pods are on.
    Network,
    /// Nearly one of ours.
    Misspelt { nearest: &'static str },
    /// Cannot matter here.
    Other,
}

/// The kinds that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Namespace,
    Pod,
    Node,
    Service,
    EndpointSlice,
    Endpoints,
    Workload,
    CronJob,
    AdminNetworkPolicy,
    BaselineAdminNetworkPolicy,
    ClusterNetworkPolicy,
    NetworkPolicy,
}

impl Known {
    /// True for the kinds in which every field matters.
    pub(super) const fn is_policy(self) -> bool {
        matches!(
            self,
            Self::AdminNetworkPolicy
                | Self::BaselineAdminNetworkPolicy
                | Self::ClusterNetworkPolicy
                | Self::NetworkPolicy
        )
    }
}

const KNOWN: [(&str, Known, &[&str]); 17] = [
    ("Namespace", Known::Namespace, &["v1"]),
    ("Pod", Known::Pod, &["v1"]),
    ("Node", Known::Node, &["v1"]),
    ("Service", Known::Service, &["v1"]),
    ("EndpointSlice", Known::EndpointSlice, &["discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"]),
    ("Endpoints", Known::Endpoints, &["v1"]),
    ("Deployment", Known::Workload, APPS),
    ("ReplicaSet", Known::Workload, APPS),
    ("StatefulSet", Known::Workload, APPS),
    ("DaemonSet", Known::Workload, APPS),
    ("ReplicationController", Known::Workload, &["v1"]),
    ("Job", Known::Workload, &["batch/v1"]),
    ("CronJob", Known::CronJob, &["batch/v1", "batch/v1beta1"]),
    ("NetworkPolicy", Known::NetworkPolicy, &["networking.k8s.io/v1"]),
    ("AdminNetworkPolicy", Known::AdminNetworkPolicy, &["policy.networking.k8s.io/v1alpha1"]),
    ("BaselineAdminNetworkPolicy", Known::BaselineAdminNetworkPolicy, &["policy.networking.k8s.io/v1alpha1"]),
    ("ClusterNetworkPolicy", Known::ClusterNetworkPolicy, &["policy.networking.k8s.io/v1alpha2"]),
];

/// The group of the three last ones, and the versions of it that are understood.
const POLICY_GROUP: &str = "policy.networking.k8s.io";
const POLICY_VERSIONS: [&str; 2] = ["v1alpha1", "v1alpha2"];

/// The older versions have the same pod template in the same place.
const APPS: &[&str] = &["apps/v1", "apps/v1beta2", "apps/v1beta1", "extensions/v1beta1"];

/// Groups of the API server itself: one of our kinds under such a group is ours, with the wrong version.
const OWN_GROUPS: [&str; 7] =
    ["", "apps", "batch", "extensions", "discovery.k8s.io", "networking.k8s.io", "policy"];

/// The kinds of group `networking.k8s.io` that are no policies.
const NETWORKING: [&str; 4] = ["Ingress", "IngressClass", "IPAddress", "ServiceCIDR"];

/// Groups whose policy kinds other enforcers read.
const VENDOR_GROUPS: [&str; 10] = [
    "cilium.io",
    "crd.antrea.io",
    "crd.projectcalico.org",
    "k8s.cni.cncf.io",
    "k8s.ovn.org",
    "kubeovn.io",
    "network.openshift.io",
    "networking.k8s.aws",
    "projectcalico.org",
    "security.istio.io",
];

/// Decides by `apiVersion` and `kind`.
pub(super) fn classify(api_version: &str, kind: &str) -> Class {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let known = KNOWN.iter().find(|(name, ..)| *name == kind);
    if let Some((_, known, versions)) = known
        && versions.contains(&api_version)
    {
        return Class::Known(*known);
    }
    if group == POLICY_GROUP {
        return policy_group(version, kind);
    }
    if matches!(kind, "UserDefinedNetwork" | "ClusterUserDefinedNetwork" | "NetworkAttachmentDefinition") {
        return Class::Network;
    }
    if VENDOR_GROUPS.contains(&group) {
        let policy = kind.ends_with("Policy") || matches!(kind, "EgressFirewall" | "PolicyEndpoint");
        return if policy { Class::VendorPolicy } else { Class::Other };
    }
    match known {
        // Nobody but the vendors above has a kind of this name.
        Some((_, Known::NetworkPolicy, versions)) => return Class::WrongApiVersion { expected: versions[0] },
        // Of these anybody may have one; under a group of Kubernetes itself it is ours.
        Some((_, known, versions)) if known.is_policy() => {
            let ours = OWN_GROUPS.contains(&group) || group.ends_with("k8s.io");
            return if ours { Class::WrongApiVersion { expected: versions[0] } } else { Class::VendorPolicy };
        }
        Some((_, _, versions)) if OWN_GROUPS.contains(&group) => {
            return Class::WrongApiVersion { expected: versions[0] };
        }
        Some(_) => return Class::Other,
        None => {}
    }
    if kind.ends_with("NetworkPolicy") {
        return Class::VendorPolicy;
    }
    let near = |nearest: &'static str| {
        let (a, b) = (kind.to_lowercase(), nearest.to_lowercase());
        strsim::osa_distance(&a, &b) <= nearest.len() / 4
    };
    if near("NetworkPolicy") || (group == "networking.k8s.io" && !NETWORKING.contains(&kind)) {
        return Class::Misspelt { nearest: "NetworkPolicy" };
    }
    if OWN_GROUPS.contains(&group)
        && let Some((nearest, ..)) = KNOWN.iter().find(|(name, ..)| near(name))
    {
        return Class::Misspelt { nearest };
    }
    Class::Other
}

/// Everything in this group can change a verdict, newer versions included.
fn policy_group(version: &str, kind: &str) -> Class {
    let ours = || KNOWN.iter().filter(|(_, known, _)| known.is_policy() && *known != Known::NetworkPolicy);
    match ours().find(|(name, ..)| *name == kind) {
        Some((_, _, versions)) if POLICY_VERSIONS.contains(&version) => {
            Class::WrongApiVersion { expected: versions[0] }
        }
        Some(_) => Class::NotUnderstood,
        None => {
            let distance = |name: &str| strsim::osa_distance(&kind.to_lowercase(), &name.to_lowercase());
            let nearest = ours().map(|(name, ..)| (distance(name), *name)).min();
            match nearest {
                Some((distance, nearest)) if distance <= nearest.len() / 4 => Class::Misspelt { nearest },
                _ => Class::NotUnderstood,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1ALPHA1: &str = "policy.networking.k8s.io/v1alpha1";
    const V1ALPHA2: &str = "policy.networking.k8s.io/v1alpha2";

    #[test]
    fn nothing_that_could_matter_is_overlooked() {
        let policy = Class::WrongApiVersion { expected: "networking.k8s.io/v1" };
        let misspelt = Class::Misspelt { nearest: "NetworkPolicy" };
        for (api_version, kind, expected) in [
            ("networking.k8s.io/v1", "NetworkPolicy", Class::Known(Known::NetworkPolicy)),
            ("extensions/v1beta1", "NetworkPolicy", policy),
            ("networking.k8s.io/v1beta1", "NetworkPolicy", policy),
            ("v1", "NetworkPolicy", policy),
            ("network.k8s.io/v1", "NetworkPolicy", policy),
            ("networking.k8s.io/v1", "networkpolicy", misspelt),
            ("networking.k8s.io/v1", "NetworkPolciy", misspelt),
            ("networking.k8s.io/v1", "NetPol", misspelt),
            ("networking.k8s.io/v1", "Ingress", Class::Other),
            (V1ALPHA1, "AdminNetworkPolicy", Class::Known(Known::AdminNetworkPolicy)),
            (V1ALPHA1, "BaselineAdminNetworkPolicy", Class::Known(Known::BaselineAdminNetworkPolicy)),
            (V1ALPHA2, "ClusterNetworkPolicy", Class::Known(Known::ClusterNetworkPolicy)),
            (V1ALPHA2, "AdminNetworkPolicy", Class::WrongApiVersion { expected: V1ALPHA1 }),
            (V1ALPHA1, "ClusterNetworkPolicy", Class::WrongApiVersion { expected: V1ALPHA2 }),
            ("networking.k8s.io/v1", "ClusterNetworkPolicy", Class::WrongApiVersion { expected: V1ALPHA2 }),
            (V1ALPHA1, "AdminNetworkPolciy", Class::Misspelt { nearest: "AdminNetworkPolicy" }),
            (V1ALPHA2, "clusternetworkpolicy", Class::Misspelt { nearest: "ClusterNetworkPolicy" }),
            ("policy.networking.k8s.io/v1beta1", "ClusterNetworkPolicy", Class::NotUnderstood),
            ("policy.networking.k8s.io/v1alpha2", "TenantPolicy", Class::NotUnderstood),
            ("networking.k8s.aws/v1alpha1", "ClusterNetworkPolicy", Class::VendorPolicy),
            ("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", Class::VendorPolicy),
            ("policy.example.org/v1", "ClusterNetworkPolicy", Class::VendorPolicy),
            ("crd.antrea.io/v1beta1", "NetworkPolicy", Class::VendorPolicy),
            ("projectcalico.org/v3", "GlobalNetworkPolicy", Class::VendorPolicy),
            ("cilium.io/v2", "CiliumNetworkPolicy", Class::VendorPolicy),
            ("cilium.io/v2", "CiliumEndpoint", Class::Other),
            ("k8s.ovn.org/v1", "UserDefinedNetwork", Class::Network),
            ("serving.knative.dev/v1", "Service", Class::Other),
            ("v1", "Deployment", Class::WrongApiVersion { expected: "apps/v1" }),
            ("extensions/v1beta1", "Deployment", Class::Known(Known::Workload)),
            ("apps/v1", "Deploymnet", Class::Misspelt { nearest: "Deployment" }),
            ("v1", "ConfigMap", Class::Other),
            ("v1", "Secret", Class::Other),
            ("policy/v1", "PodDisruptionBudget", Class::Other),
            ("route.openshift.io/v1", "Route", Class::Other),
        ] {
            assert_eq!(classify(api_version, kind), expected, "{api_version} {kind}");
        }
    }
}
