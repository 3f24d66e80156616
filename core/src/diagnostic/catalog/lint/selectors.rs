//! Whom peers and subjects mean.

use super::{Page, code};

pub(super) const PAGES: [Page; 5] = [
    Page {
        code: code::PEERS_ORED,
        title: "two peers where one seems meant",
        explanation: "Both selectors in one element of `from` or `to` are an AND: these pods in those namespaces. In \
                      two elements they are an OR: every pod of those namespaces, and these pods of the policy's own \
                      namespace. One dash makes the difference. Told where the AND would match some pod and the OR \
                      matches more; if the OR is meant, two rules say so more clearly.",
        bad: about_api!(
            "  ingress:\n  - from:\n    - namespaceSelector: {matchLabels: {team: shop}}\n\
             \x20   - podSelector: {matchLabels: {app: web}}\n"
        ),
        good: about_api!(
            "  ingress:\n  - from:\n    - namespaceSelector: {matchLabels: {team: shop}}\n\
             \x20     podSelector: {matchLabels: {app: web}}\n"
        ),
    },
    Page {
        code: code::PEER_IS_NOBODY,
        title: "a peer that is nobody",
        explanation: "No pod that is there now matches the peer, so it admits nothing. Labels are compared letter by \
                      letter; a `podSelector` alone looks only in the policy's own namespace. A note, not a warning, \
                      where the input does not show the namespace's pods.",
        bad: about_api!("  ingress:\n  - from:\n    - podSelector: {matchLabels: {app: wbe}}\n"),
        good: about_api!("  ingress:\n  - from:\n    - podSelector: {matchLabels: {app: web}}\n"),
    },
    Page {
        code: code::NAMESPACE_NAME_LABEL,
        title: "a namespace selected by a label `name` that it does not have",
        explanation: "Namespaces have no label `name` unless somebody sets it. Since Kubernetes 1.21 every namespace \
                      has `kubernetes.io/metadata.name`, which cannot be changed either.",
        bad: about_api!("  ingress:\n  - from:\n    - namespaceSelector: {matchLabels: {name: shop}}\n"),
        good: about_api!(
            "  ingress:\n  - from:\n    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}\n"
        ),
    },
    Page {
        code: code::SUBJECT_IS_NOBODY,
        title: "a policy that selects no pod",
        explanation: "The policy protects nobody: the pods that it was written for have other labels or are in another \
                      namespace, and stay open. A note, not a warning, where the input does not show the namespace's \
                      pods.",
        bad: manifest!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: api, namespace: shop}\nspec:\n\
             \x20 podSelector: {matchLabels: {app: api-server}}\n"
        ),
        good: about_api!("  policyTypes: [Ingress]\n"),
    },
    Page {
        code: code::SELECTOR_CONTRADICTS,
        title: "a selector that can never match",
        explanation: "Every requirement of a selector must hold. Two that exclude each other match nothing, whatever \
                      pods there are or will be. For one of several values write `In` with all of them.",
        bad: about_api!(
            "  ingress:\n  - from:\n    - podSelector:\n        matchLabels: {app: web}\n\
             \x20       matchExpressions: [{key: app, operator: NotIn, values: [web, api]}]\n"
        ),
        good: about_api!(
            "  ingress:\n  - from:\n    - podSelector:\n        matchLabels: {app: web}\n\
             \x20       matchExpressions: [{key: tier, operator: NotIn, values: [back]}]\n"
        ),
    },
];
