//! Addresses: blocks, and pods that have their node's.

use super::{Page, code};

/// Two nodes' ranges, a pod at a known address, and an egress policy; the text is its rules.
macro_rules! egress {
    ($($text:expr),+) => {
        concat!(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: {podCIDR: 10.244.0.0/24}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}\n",
            "spec: {nodeName: n1, containers: [{name: web}]}\nstatus: {podIP: 10.244.0.7}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}\n",
            "spec: {nodeName: n1, containers: [{name: db, ports: [{containerPort: 5432}]}]}\nstatus: {podIP: 10.244.0.8}\n---\n",
            "apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: shop}\n",
            "spec: {clusterIP: 10.96.0.20, selector: {app: db}, ports: [{port: 5432}]}\n---\n",
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\nspec:\n",
            "  podSelector: {matchLabels: {app: web}}\n  policyTypes: [Egress]\n  egress:\n",
            "  - ports: [{port: 53, protocol: UDP}, {port: 53}]\n",
            $($text),+
        )
    };
}

pub(super) const PAGES: [Page; 3] = [
    Page {
        code: code::BLOCK_HOLDS_PODS,
        title: "a block that holds pods of the cluster too",
        explanation: "A block matches every address in it, pods' included: egress to `0.0.0.0/0`, written to mean the \
                      internet, opens every pod of the cluster as well. Told where no other rule admits those pods on \
                      the same ports, and where it is certain that their addresses are inside. For ingress, `0.0.0.0/0` \
                      is taken at its word.",
        bad: egress!("  - to: [{ipBlock: {cidr: 0.0.0.0/0}}]\n    ports: [{port: 443}]\n"),
        good: egress!(
            "  - to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.244.0.0/16]}}]\n    ports: [{port: 443}]\n"
        ),
    },
    Page {
        code: code::BLOCK_OF_SERVICES,
        title: "a block of Service addresses",
        explanation: "By the time most plugins look, a Service's address has become that of a pod behind it. A rule \
                      for the Service's address admits nothing then. Told where the pods behind are not admitted by \
                      any rule.",
        bad: egress!("  - to: [{ipBlock: {cidr: 10.96.0.20/32}}]\n    ports: [{port: 5432}]\n"),
        good: egress!("  - to: [{podSelector: {matchLabels: {app: db}}}]\n    ports: [{port: 5432}]\n"),
    },
    Page {
        code: code::HOST_NETWORK_ONLY,
        title: "a selector that means pods on the host's network only",
        explanation: "A pod with `hostNetwork: true` has its node's address. The API leaves open what policies do with \
                      it; most plugins take it for its node: no policy selects it, and as a peer it is matched by \
                      blocks of addresses alone.",
        bad: concat!(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: agent, namespace: shop, labels: {app: agent}}\n",
            "spec: {hostNetwork: true, containers: [{name: agent}]}\n---\n",
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: agent, namespace: shop}\n",
            "spec: {podSelector: {matchLabels: {app: agent}}, policyTypes: [Ingress]}\n"
        ),
        good: concat!(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: agent, namespace: shop, labels: {app: agent}}\n",
            "spec: {containers: [{name: agent}]}\n---\n",
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: agent, namespace: shop}\n",
            "spec: {podSelector: {matchLabels: {app: agent}}, policyTypes: [Ingress]}\n"
        ),
    },
];

/// Of a later code than the others.
pub(super) const EMPTY: [Page; 1] = [Page {
    code: code::BLOCK_IS_EMPTY,
    title: "a block whose exceptions leave nothing",
    explanation: "Each exception lies inside the block, as the API wants it, and together they are all of it: the \
                      peer matches no address, and a rule that has no other peer admits nobody.",
    bad: egress!(
        "  - to: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.0/25, 192.0.2.128/25]}}]\n    ports: [{port: 443}]\n"
    ),
    good: egress!(
        "  - to: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.128/25]}}]\n    ports: [{port: 443}]\n"
    ),
}];

/// The notes that belong to them.
pub(super) const NOTES: [Page; 2] = [
    Page {
        code: code::BLOCK_FOR_PODS,
        title: "a block that stands for pods",
        explanation: "The block lies in the ranges from which pods get their addresses. By the upstream tests it matches \
                      them, but Cilium never matches a pod by its address, and a pod's address changes with every \
                      restart. Selectors say the same everywhere.",
        bad: egress!("  - to: [{ipBlock: {cidr: 10.244.0.8/32}}]\n    ports: [{port: 5432}]\n"),
        good: egress!("  - to: [{podSelector: {matchLabels: {app: db}}}]\n    ports: [{port: 5432}]\n"),
    },
    Page {
        code: code::HOST_NETWORK_TOO,
        title: "a selector that means pods on the host's network too",
        explanation: "Some of the pods that it selects have their node's address. Most plugins take them for their node, \
                      so they are neither protected by the policy nor matched as peers. OVN-Kubernetes matches them by \
                      a `namespaceSelector` only if a `podSelector` stands beside it.",
        bad: concat!(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: agent, namespace: shop, labels: {app: agent}}\n",
            "spec: {hostNetwork: true, containers: [{name: agent}]}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: helper, namespace: shop, labels: {app: agent}}\n---\n",
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: agent, namespace: shop}\n",
            "spec: {podSelector: {matchLabels: {app: agent}}, policyTypes: [Ingress]}\n"
        ),
        good: concat!(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: agent, namespace: shop, labels: {app: agent}}\n",
            "spec: {hostNetwork: true, containers: [{name: agent}]}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: helper, namespace: shop, labels: {app: agent}}\n---\n",
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: default-deny, namespace: shop}\n",
            "spec: {podSelector: {}, policyTypes: [Ingress]}\n"
        ),
    },
];
