//! Policies of tiers.

use super::{Page, code};

pub(super) const PAGES: [Page; 2] = [
    Page {
        code: code::TIE_CONFLICTS,
        title: "policies whose open order decides verdicts",
        explanation: "Two policies of one tier with the same priority match the same packets of the same pods and do \
                      not do the same with them. The API says only that one of them decides. Some enforcers take the \
                      first by name, some the Deny, some refuse. That priorities are shared by policies which never \
                      meet is no fault.",
        bad: manifest!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: a}\nspec:\n\
             \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
             \x20 ingress: [{action: Accept, from: [{namespaces: {}}]}]\n---\n\
             apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: b}\nspec:\n\
             \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {matchLabels: {team: shop}}}\n\
             \x20 ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: shop}}}]}]\n"
        ),
        good: manifest!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: a}\nspec:\n\
             \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
             \x20 ingress: [{action: Accept, from: [{namespaces: {}}]}]\n---\n\
             apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: b}\nspec:\n\
             \x20 tier: Admin\n  priority: 5\n  subject: {namespaces: {matchLabels: {team: shop}}}\n\
             \x20 ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: shop}}}]}]\n"
        ),
    },
    Page {
        code: code::TOO_LONG_FOR_V1ALPHA2,
        title: "a v1alpha1 policy with longer lists than v1alpha2 takes",
        explanation: "AdminNetworkPolicy and BaselineAdminNetworkPolicy take 100 rules, peers and ports, \
                      ClusterNetworkPolicy 25 of each. Converted, the policy has to be split: rules into several \
                      policies of neighbouring priorities, peers into several rules. Told as a note: today nothing is \
                      wrong with it.",
        bad: "",
        good: "",
    },
];
