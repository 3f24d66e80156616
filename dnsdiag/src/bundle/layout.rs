//! The files of a bundle: one table that the reader, the documentation and `netlab dns checks` share.
//!
//! Invariant: a file's path is the id of its fact.

use serde::Serialize;

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Format {
    /// [`super::Manifest`].
    Manifest,
    /// Text as some program prints or holds it.
    Text,
    /// Kubernetes objects, YAML or JSON, as `kubectl get -o yaml` prints them.
    Objects,
    /// [`netlab_plugin::evidence::Probe`] rows.
    Probes,
    /// [`netlab_plugin::evidence::Symptom`].
    Symptom,
    /// [`netlab_plugin::evidence::Counters`].
    Counters,
    /// What the verdict should be; for tests, and never read by a diagnosis.
    Expected,
}

/// One file of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    /// Its path within the bundle, which is the id of the fact.
    pub path: &'static str,
    /// How it is read.
    pub format: Format,
    /// True when an answer of "healthy" needs it: something that it can show would not be seen elsewhere.
    pub vital: bool,
    /// What it holds, and how to get it by hand.
    pub about: &'static str,
}

/// Whom it is about.
pub const MANIFEST: &str = "bundle.json";
/// What the application sees.
pub const SYMPTOM: &str = "symptom.json";
/// Questions and answers.
pub const PROBES: &str = "probes.json";
/// The container's `/etc/resolv.conf`.
pub const POD_RESOLV_CONF: &str = "pod/resolv.conf";
/// The container's `/etc/hosts`.
pub const POD_HOSTS: &str = "pod/hosts";
/// The container's `/etc/nsswitch.conf`.
pub const POD_NSSWITCH: &str = "pod/nsswitch.conf";
/// `iptables-save` in the pod's network namespace.
pub const POD_IPTABLES: &str = "pod/iptables-save";
/// Addresses and routes in the pod's network namespace.
pub const POD_ROUTES: &str = "pod/routes";
/// The rules of nftables in the pod's network namespace.
pub const POD_NFT: &str = "pod/nft";
/// UDP sockets of the pod's network namespace.
pub const POD_SOCKETS: &str = "pod/sockets";
/// The configuration of the kubelet of the pod's node.
pub const KUBELET: &str = "node/kubelet.yaml";
/// The file that this kubelet reads as the node's `resolv.conf`.
pub const NODE_RESOLV_CONF: &str = "node/resolv.conf";
/// `iptables-save` on the pod's node.
pub const NODE_IPTABLES: &str = "node/iptables-save";
/// `ip6tables-save` on the pod's node, where its Services have addresses of both families.
pub const NODE_IP6TABLES: &str = "node/ip6tables-save";
/// `nft -j list ruleset` on the pod's node.
pub const NODE_NFT: &str = "node/nft.json";
/// `ipvsadm -Ln` and `ipvsadm -Lnc` on the pod's node.
pub const NODE_IPVS: &str = "node/ipvsadm";
/// `conntrack -L` on the pod's node.
pub const NODE_CONNTRACK: &str = "node/conntrack";
/// Interfaces and routes of the pod's node.
pub const NODE_ADDRESSES: &str = "node/addresses";
/// Kernel messages of the pod's node.
pub const NODE_KERNEL_LOG: &str = "node/kernel.log";
/// Numbers of nodes.
pub const COUNTERS: &str = "counters.json";
/// Namespaces.
pub const NAMESPACES: &str = "cluster/namespaces.yaml";
/// Nodes.
pub const NODES: &str = "cluster/nodes.yaml";
/// Pods.
pub const PODS: &str = "cluster/pods.yaml";
/// Services.
pub const SERVICES: &str = "cluster/services.yaml";
/// Endpoint slices.
pub const SLICES: &str = "cluster/endpointslices.yaml";
/// Policies.
pub const POLICIES: &str = "cluster/policies.yaml";
/// Events.
pub const EVENTS: &str = "cluster/events.yaml";
/// CoreDNS's configuration.
pub const COREFILE: &str = "dns/Corefile";
/// The DNS pods' log.
pub const DNS_LOG: &str = "dns/log";
/// The DNS pods' metrics.
pub const DNS_METRICS: &str = "dns/metrics";
/// The configuration of the node's own DNS cache.
pub const NODELOCAL_COREFILE: &str = "node/nodelocal-Corefile";

/// The verdict that a bundle should get.
pub const EXPECTED: &str = "expected.json";

/// Every file, in the order of the documentation.
pub const FILES: &[File] = &[
    row(MANIFEST, Format::Manifest, true, "version, pod, container, libc, names; by hand"),
    row(SYMPTOM, Format::Symptom, false, "what the application prints, and after how many seconds"),
    row(POD_RESOLV_CONF, Format::Text, true, "cat /etc/resolv.conf in the container"),
    row(POD_HOSTS, Format::Text, true, "cat /etc/hosts in the container"),
    row(POD_NSSWITCH, Format::Text, true, "cat /etc/nsswitch.conf in the container (glibc)"),
    row(POD_IPTABLES, Format::Text, false, "iptables-save in the pod's network namespace"),
    row(POD_NFT, Format::Text, false, "nft list ruleset in the pod's network namespace"),
    row(POD_ROUTES, Format::Text, false, "ip addr and ip route in the pod's network namespace"),
    row(POD_SOCKETS, Format::Text, false, "cat /proc/net/udp /proc/net/udp6 in the pod's network namespace"),
    row(
        KUBELET,
        Format::Text,
        true,
        "KubeletConfiguration of the pod's node: kubectl get --raw /api/v1/nodes/NODE/proxy/configz",
    ),
    row(NODE_RESOLV_CONF, Format::Text, true, "the file that its resolvConf names"),
    row(
        NODE_IPTABLES,
        Format::Text,
        true,
        "iptables-save on the pod's node (or node/nft.json, node/ipvsadm)",
    ),
    row(
        NODE_IP6TABLES,
        Format::Text,
        false,
        "ip6tables-save there, where Services have addresses of both families",
    ),
    row(NODE_NFT, Format::Text, true, "nft -j list ruleset on the pod's node"),
    row(NODE_IPVS, Format::Text, true, "ipvsadm -Ln; ipvsadm -Lnc on the pod's node"),
    row(NODE_CONNTRACK, Format::Text, false, "conntrack -L on the pod's node"),
    row(NODE_ADDRESSES, Format::Text, false, "ip addr; ip route; ss -lnup on the pod's node"),
    row(NODE_KERNEL_LOG, Format::Text, false, "dmesg of the pod's node"),
    row(NODELOCAL_COREFILE, Format::Text, false, "Corefile of NodeLocal DNSCache, if the node has one"),
    row(COUNTERS, Format::Counters, false, "counters of nodes, before and after the probes"),
    row(NAMESPACES, Format::Objects, true, "kubectl get namespaces -o yaml"),
    row(NODES, Format::Objects, true, "kubectl get nodes -o yaml"),
    row(PODS, Format::Objects, true, "kubectl get pods -A -o yaml"),
    row(SERVICES, Format::Objects, true, "kubectl get services -A -o yaml"),
    row(SLICES, Format::Objects, true, "kubectl get endpointslices -A -o yaml"),
    row(POLICIES, Format::Objects, true, "kubectl get networkpolicies -A -o yaml, and the admin kinds"),
    row(EVENTS, Format::Objects, false, "kubectl get events -A -o yaml"),
    row(COREFILE, Format::Text, true, "data.Corefile of the ConfigMap that the DNS pods mount"),
    row(DNS_LOG, Format::Text, false, "kubectl logs of the DNS pods, with --previous where they restarted"),
    row(DNS_METRICS, Format::Text, false, "GET :9153/metrics of the DNS pods"),
    row(PROBES, Format::Probes, true, "questions asked from the pod, its node and the DNS pods, one a row"),
    row(
        EXPECTED,
        Format::Expected,
        false,
        "the verdict that it should get: for tests, never read by a diagnosis",
    ),
];

const fn row(path: &'static str, format: Format, vital: bool, about: &'static str) -> File {
    File { path, format, vital, about }
}

/// The three ways to tell a proxy's rules; one of them is enough.
pub const PROXY_DUMPS: [&str; 3] = [NODE_IPTABLES, NODE_NFT, NODE_IPVS];

/// The file with that path.
#[must_use]
pub fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}
