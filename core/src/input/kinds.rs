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
    Workload,
    CronJob,
    NetworkPolicy,
}

const KNOWN: [(&str, Known, &[&str]); 13] = [
    ("Namespace", Known::Namespace, &["v1"]),
    ("Pod", Known::Pod, &["v1"]),
    ("Node", Known::Node, &["v1"]),
    ("Service", Known::Service, &["v1"]),
    ("EndpointSlice", Known::EndpointSlice, &["discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"]),
    ("Deployment", Known::Workload, APPS),
    ("ReplicaSet", Known::Workload, APPS),
    ("StatefulSet", Known::Workload, APPS),
    ("DaemonSet", Known::Workload, APPS),
    ("ReplicationController", Known::Workload, &["v1"]),
    ("Job", Known::Workload, &["batch/v1"]),
    ("CronJob", Known::CronJob, &["batch/v1", "batch/v1beta1"]),
    ("NetworkPolicy", Known::NetworkPolicy, &["networking.k8s.io/v1"]),
];

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
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let known = KNOWN.iter().find(|(name, ..)| *name == kind);
    if let Some((_, known, versions)) = known
        && versions.contains(&api_version)
    {
        return Class::Known(*known);
    }
    if group == "policy.networking.k8s.io"
        || (matches!(kind, "AdminNetworkPolicy" | "BaselineAdminNetworkPolicy" | "ClusterNetworkPolicy")
            && !VENDOR_GROUPS.contains(&group))
    {
        return Class::NotUnderstood;
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

#[cfg(test)]
mod tests {
    use super::*;

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
            ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy", Class::NotUnderstood),
            ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy", Class::NotUnderstood),
            ("networking.k8s.aws/v1alpha1", "ClusterNetworkPolicy", Class::VendorPolicy),
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
