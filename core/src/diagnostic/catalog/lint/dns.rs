//! DNS.

use super::{Page, code};

/// A cluster with DNS pods and a web pod.
macro_rules! with_dns {
    ($($text:expr),+) => {
        concat!(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}\n",
            "spec: {containers: [{name: coredns, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53}]}]}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}\n---\n",
            $($text),+
        )
    };
}

/// The same with an egress policy on the web pod that admits the database; the text is more rules.
macro_rules! egress {
    ($($text:expr),+) => {
        with_dns!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\nspec:\n",
            "  podSelector: {matchLabels: {app: web}}\n  policyTypes: [Egress]\n  egress:\n",
            "  - to: [{podSelector: {matchLabels: {app: db}}}]\n    ports: [{port: 5432}]\n",
            $($text),+
        )
    };
}

/// The peers and ports that DNS needs.
macro_rules! dns_rule {
    ($ports:expr) => {
        concat!(
            "  - to:\n    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}\n",
            "      podSelector: {matchLabels: {k8s-app: kube-dns}}\n    ports: ",
            $ports,
            "\n"
        )
    };
}

pub(super) const PAGES: [Page; 4] = [
    Page {
        code: code::DNS_BLOCKED,
        title: "egress isolation without a way to DNS",
        explanation: "A pod that is isolated for egress reaches what rules admit and nothing else, the cluster's DNS \
                      included. What it may reach it then cannot find by name. The rule has to name the DNS pods and \
                      their own port, over UDP and TCP: most plugins see the pod behind the Service. Where everything \
                      is denied, it is told only if no pod of the namespace reaches DNS: who has thought of it for \
                      some has thought of it. A Deny of an administrator's policy takes the way as well, whatever \
                      NetworkPolicies admit; the rule that denies is named.",
        bad: egress!(""),
        good: egress!(dns_rule!("[{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]")),
    },
    Page {
        code: code::DNS_ONE_PROTOCOL,
        title: "a way to DNS over one of its two protocols",
        explanation: "Resolvers ask over UDP and repeat the question over TCP when the answer did not fit, as large \
                      answers and some servers make it. Without TCP such names fail, now and then; without UDP, which \
                      an element without `protocol` leaves out, all of them do.",
        bad: egress!(dns_rule!("[{port: 53, protocol: UDP}]")),
        good: egress!(dns_rule!("[{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]")),
    },
    Page {
        code: code::DNS_NODE_CACHE,
        title: "a way to DNS that misses the node's cache",
        explanation: "Where NodeLocal DNSCache runs, pods ask 169.254.20.10 (or the Service's address, which the cache \
                      takes over on each node), not the DNS pods. The cache is on the host's network, so no selector \
                      means it: an `ipBlock` does.",
        bad: egress!(
            dns_rule!("[{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]"),
            "---\napiVersion: v1\nkind: Pod\nmetadata: {name: cache, namespace: kube-system, labels: {k8s-app: node-local-dns}}\n\
             spec: {hostNetwork: true, containers: [{name: cache}]}\n"
        ),
        good: egress!(
            dns_rule!("[{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]"),
            "  - to: [{ipBlock: {cidr: 169.254.20.10/32}}]\n    ports: [{port: 53, protocol: UDP}, {port: 53}]\n",
            "---\napiVersion: v1\nkind: Pod\nmetadata: {name: cache, namespace: kube-system, labels: {k8s-app: node-local-dns}}\n\
             spec: {hostNetwork: true, containers: [{name: cache}]}\n"
        ),
    },
    Page {
        code: code::DNS_SERVER_CLOSED,
        title: "DNS servers that do not admit pods",
        explanation: "The DNS pods are isolated for ingress, by a default deny of their namespace for instance, and no \
                      rule admits the questions of some pods. Those pods resolve nothing, whatever their own policies \
                      say.",
        bad: with_dns!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: default-deny, namespace: kube-system}\n\
             spec: {podSelector: {}, policyTypes: [Ingress]}\n"
        ),
        good: with_dns!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: dns, namespace: kube-system}\nspec:\n\
             \x20 podSelector: {}\n  policyTypes: [Ingress]\n  ingress:\n  - from: [{namespaceSelector: {}}]\n\
             \x20   ports: [{port: 53, protocol: UDP}, {port: 53}]\n"
        ),
    },
];
