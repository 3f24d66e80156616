//! What some network plugins are known to treat differently: notes.

use super::{Page, code};

pub(super) const PAGES: [Page; 2] = [
    Page {
        code: code::END_PORT_SUPPORT,
        title: "a range of ports, which not every plugin has",
        explanation: "`endPort` is stable since Kubernetes 1.25. A plugin that does not know it acts on `port` alone, \
                      without an error, as the API asks: traffic to the rest of the range is then denied. Cilium knows \
                      it since 1.16.",
        bad: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 8080, endPort: 8089}]\n"
        ),
        good: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 8080}, {port: 8081}]\n"
        ),
    },
    Page {
        code: code::PORT_NAME_NUMBERS,
        title: "a port name of egress with several numbers",
        explanation: "The peers' pods give the name different numbers. By the API each pod is reached on its own number. \
                      Some plugins open every number on every pod, and Cilium leaves the whole rule out.",
        bad: about_api!(
            "  policyTypes: [Egress]\n  egress:\n  - to: [{podSelector: {}}]\n    ports: [{port: http}]\n\
             \x20 - ports: [{port: 53, protocol: UDP}, {port: 53}]\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {name: old, namespace: shop}\n\
             spec: {containers: [{name: old, ports: [{name: http, containerPort: 80}]}]}\n"
        ),
        good: about_api!(
            "  policyTypes: [Egress]\n  egress:\n  - to: [{podSelector: {}}]\n    ports: [{port: http}]\n\
             \x20 - ports: [{port: 53, protocol: UDP}, {port: 53}]\n"
        ),
    },
];
