//! `policyTypes` and empty lists.

use super::{Page, code};

pub(super) const PAGES: [Page; 4] = [
    Page {
        code: code::LIST_EMPTY,
        title: "a list of peers or ports that is written and empty",
        explanation: "An empty `from` or `to` means everybody, in the cluster and outside, and an empty `ports` every \
                      port of every protocol: the same as no list at all. It reads like the opposite, and a template \
                      that renders nothing below the key makes one.",
        bad: about_api!("  ingress:\n  - from: []\n    ports: [{port: 8080}]\n"),
        good: about_api!("  ingress:\n  - ports: [{port: 8080}]\n"),
    },
    Page {
        code: code::RULES_INERT,
        title: "rules of a direction that `policyTypes` does not name",
        explanation: "`policyTypes` alone decides in which directions a policy acts. Rules of another direction are \
                      accepted by the API server and do nothing: the pods are not isolated there by this policy.",
        bad: about_api!(
            "  policyTypes: [Egress]\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n\
             \x20 egress:\n  - to: [{podSelector: {matchLabels: {app: web}}}]\n\
             \x20 - ports: [{port: 53, protocol: UDP}, {port: 53}]\n"
        ),
        good: about_api!(
            "  policyTypes: [Ingress, Egress]\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n\
             \x20 egress:\n  - to: [{podSelector: {matchLabels: {app: web}}}]\n\
             \x20 - ports: [{port: 53, protocol: UDP}, {port: 53}]\n"
        ),
    },
    Page {
        code: code::EGRESS_NOT_ISOLATED,
        title: "an empty `egress` that isolates nothing",
        explanation: "Without `policyTypes` a policy acts on egress only if it has an egress rule. An empty list is no \
                      rule, so the pods may still send anything; the policy isolates them for ingress instead.",
        bad: about_api!("  egress: []\n"),
        good: about_api!(
            "  policyTypes: [Egress]\n  egress:\n  - ports: [{port: 53, protocol: UDP}, {port: 53}]\n"
        ),
    },
    Page {
        code: code::INGRESS_ISOLATED_TOO,
        title: "a policy about egress that isolates for ingress too",
        explanation: "Where `policyTypes` is absent, it is Ingress, and Egress as well if there is an egress rule. A \
                      policy with nothing but egress rules therefore denies everything that comes in. Told where no \
                      other policy isolates the same pods for ingress.",
        bad: about_api!("  egress:\n  - ports: [{port: 53, protocol: UDP}, {port: 53}]\n"),
        good: about_api!(
            "  policyTypes: [Egress]\n  egress:\n  - ports: [{port: 53, protocol: UDP}, {port: 53}]\n"
        ),
    },
];
