//! Rules and policies that change nothing.

use super::{Page, code};

pub(super) const PAGES: [Page; 5] = [
    Page {
        code: code::RULE_REDUNDANT,
        title: "a rule that adds nothing to others",
        explanation: "Whatever it admits, other rules for the same pods admit already, whatever pods there will be. It \
                      is no danger, but whoever deletes one of them believes that a door was closed. Everything that is \
                      told as redundant may be deleted together.",
        bad: about_api!(
            "  ingress:\n  - from: [{podSelector: {}}]\n    ports: [{port: 8080}]\n\
             \x20 - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 8080}]\n"
        ),
        good: about_api!(
            "  ingress:\n  - from: [{podSelector: {}}]\n    ports: [{port: 8080}]\n\
             \x20 - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 9090}]\n"
        ),
    },
    Page {
        code: code::RULE_SHADOWED,
        title: "a rule that never takes effect",
        explanation: "In the Admin and Baseline tiers the first rule that matches decides: lower priorities first, then \
                      the order in the policy. Whatever this rule matches, an earlier rule with another action matches \
                      too, so nobody ever gets as far as this one.",
        bad: manifest!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
             \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n  ingress:\n\
             \x20 - {name: closed, action: Deny, from: [{namespaces: {}}]}\n\
             \x20 - {name: from-shop, action: Accept, from: [{namespaces: {matchLabels: {team: shop}}}]}\n"
        ),
        good: manifest!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
             \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n  ingress:\n\
             \x20 - {name: from-shop, action: Accept, from: [{namespaces: {matchLabels: {team: shop}}}]}\n\
             \x20 - {name: closed, action: Deny, from: [{namespaces: {}}]}\n"
        ),
    },
    Page {
        code: code::POLICY_REDUNDANT,
        title: "a policy that adds nothing to others",
        explanation: "Other policies isolate the same pods in the same directions and admit everything that this one \
                      admits. A policy without rules that denies by default is not meant, unless another one does just \
                      the same.",
        bad: about_api!(
            "  policyTypes: [Ingress]\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
             metadata: {name: default-deny, namespace: shop}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n"
        ),
        good: about_api!(
            "  policyTypes: [Ingress]\n  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]\n\
             ---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
             metadata: {name: default-deny, namespace: shop}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n"
        ),
    },
    Page {
        code: code::ELEMENT_REDUNDANT,
        title: "a peer or port that adds nothing to others of its rule",
        explanation: "The elements of one list are ORed, and another one of this list holds all of this one.",
        bad: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 8080}, {port: 8000, endPort: 8999}]\n"
        ),
        good: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 8080}]\n"
        ),
    },
    Page {
        code: code::POLICY_VACUOUS,
        title: "a policy that leaves everything as it would be without it",
        explanation: "An AdminNetworkPolicy, BaselineAdminNetworkPolicy or ClusterNetworkPolicy denies nothing by \
                      default: without rules it does nothing (a warning). A NetworkPolicy that isolates pods and admits \
                      everything again has an effect only beside others; alone, its pods are as open as without it (a \
                      note, as it may be there to say so).",
        bad: manifest!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
             \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n"
        ),
        good: manifest!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
             \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
             \x20 ingress: [{action: Deny, from: [{namespaces: {}}]}]\n"
        ),
    },
];
