//! The structs of every policy kind and the fields that they have, in each version of the API.

use Family::{Any, NetworkPolicy, V1Alpha1, V1Alpha2};

/// The APIs that spell policies differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Structs that all of them share.
    Any,
    /// `networking.k8s.io/v1`.
    NetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1`.
    V1Alpha1,
    /// `policy.networking.k8s.io/v1alpha2`.
    V1Alpha2,
}

/// A struct of a policy.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) family: Family,
    /// As messages say it.
    pub(super) place: &'static str,
    /// Sorted.
    pub(super) fields: &'static [&'static str],
}

macro_rules! holders {
    ($($name:ident: $family:expr, $place:literal, $fields:expr;)*) => {
        $(pub(super) static $name: Holder = Holder { family: $family, place: $place, fields: $fields };)*

        /// All of them.
        pub(super) static ALL: &[&Holder] = &[$(&$name),*];
    };
}

holders! {
    // `status` was part of NetworkPolicy from 1.24 to 1.27; the others have it.
    OBJECT: Any, "the top of the object", &["apiVersion", "kind", "metadata", "spec", "status"];
    METADATA: Any, "`metadata`", &[
        "annotations",
        "clusterName",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "initializers",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    SELECTOR: Any, "a selector", &["matchExpressions", "matchLabels"];
    REQUIREMENT: Any, "an element of `matchExpressions`", &["key", "operator", "values"];

    SPEC: NetworkPolicy, "`spec`", &["egress", "ingress", "podSelector", "policyTypes"];
    INGRESS_RULE: NetworkPolicy, "an element of `ingress`", &["from", "ports"];
    EGRESS_RULE: NetworkPolicy, "an element of `egress`", &["ports", "to"];
    PEER: NetworkPolicy, "an element of `from` or `to`", &["ipBlock", "namespaceSelector", "podSelector"];
    IP_BLOCK: NetworkPolicy, "`ipBlock`", &["cidr", "except"];
    PORT: NetworkPolicy, "an element of `ports`", &["endPort", "port", "protocol"];

    ADMIN_SPEC: V1Alpha1, "`spec`", &["egress", "ingress", "priority", "subject"];
    BASELINE_SPEC: V1Alpha1, "`spec`", &["egress", "ingress", "subject"];
    ADMIN_SUBJECT: V1Alpha1, "`subject`", &["namespaces", "pods"];
    ADMIN_PODS: V1Alpha1, "`pods`", &["namespaceSelector", "podSelector"];
    ADMIN_INGRESS_RULE: V1Alpha1, "an element of `ingress`", &["action", "from", "name", "ports"];
    ADMIN_EGRESS_RULE: V1Alpha1, "an element of `egress`", &["action", "name", "ports", "to"];
    ADMIN_INGRESS_PEER: V1Alpha1, "an element of `from`", &["namespaces", "pods"];
    ADMIN_EGRESS_PEER: V1Alpha1, "an element of `to`", &["domainNames", "namespaces", "networks", "nodes", "pods"];
    BASELINE_EGRESS_PEER: V1Alpha1, "an element of `to`", &["namespaces", "networks", "nodes", "pods"];
    ADMIN_PORT: V1Alpha1, "an element of `ports`", &["namedPort", "portNumber", "portRange"];
    PORT_NUMBER: V1Alpha1, "`portNumber`", &["port", "protocol"];
    PORT_RANGE: V1Alpha1, "`portRange`", &["end", "protocol", "start"];

    CLUSTER_SPEC: V1Alpha2, "`spec`", &["egress", "ingress", "priority", "subject", "tier"];
    CLUSTER_SUBJECT: V1Alpha2, "`subject`", &["namespaces", "pods"];
    CLUSTER_PODS: V1Alpha2, "`pods`", &["namespaceSelector", "podSelector"];
    CLUSTER_INGRESS_RULE: V1Alpha2, "an element of `ingress`", &["action", "from", "name", "protocols"];
    CLUSTER_EGRESS_RULE: V1Alpha2, "an element of `egress`", &["action", "name", "protocols", "to"];
    CLUSTER_INGRESS_PEER: V1Alpha2, "an element of `from`", &["namespaces", "pods"];
    CLUSTER_EGRESS_PEER: V1Alpha2, "an element of `to`", &["domainNames", "namespaces", "networks", "nodes", "pods"];
    PROTOCOL: V1Alpha2, "an element of `protocols`", &["destinationNamedPort", "sctp", "tcp", "udp"];
    TRANSPORT: V1Alpha2, "`tcp`, `udp` or `sctp`", &["destinationPort"];
    DESTINATION_PORT: V1Alpha2, "`destinationPort`", &["number", "range"];
    DESTINATION_RANGE: V1Alpha2, "`range`", &["end", "start"];
}
