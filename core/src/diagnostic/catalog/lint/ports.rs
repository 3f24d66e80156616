//! Ports.

use super::{Page, code};

pub(super) const PAGES: [Page; 4] = [
    Page {
        code: code::SERVICE_PORT,
        title: "a Service's port where the pod's is meant",
        explanation: "A policy sees a connection at the pod, after the Service's port has become the target port. A rule \
                      with the Service's port admits a port on which nobody listens, and the one that is meant stays \
                      closed. Told where no destination pod has the written number.",
        bad: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 80}]\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {name: api, namespace: shop}\n\
             spec: {selector: {app: api}, ports: [{port: 80, targetPort: http}]}\n"
        ),
        good: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: http}]\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {name: api, namespace: shop}\n\
             spec: {selector: {app: api}, ports: [{port: 80, targetPort: http}]}\n"
        ),
    },
    Page {
        code: code::PORT_NAME_UNKNOWN,
        title: "a port name that none of the destination pods has",
        explanation: "A name is looked up among the container ports of each destination pod: for ingress the selected \
                      pods, for egress the peers. A pod that listens on the port without declaring its name is not \
                      matched, and neither is the name of a Service's port. Addresses outside have no names at all.",
        bad: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: https}]\n"
        ),
        good: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: http}]\n"
        ),
    },
    Page {
        code: code::PORT_NAME_PROTOCOL,
        title: "a port name that the destination pods have for another protocol",
        explanation: "A name matches together with its protocol, and an element without `protocol` is for TCP. A \
                      container may use one name for a TCP and a UDP port; each then needs an element of its own.",
        bad: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: http, protocol: UDP}]\n"
        ),
        good: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: http, protocol: TCP}]\n"
        ),
    },
    Page {
        code: code::END_PORT_EQUAL,
        title: "an `endPort` that is its `port`",
        explanation: "The API takes it and the range is one port. Often the end was to be another one, or a template \
                      copied the number. A note: the rule does what it says.",
        bad: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 8080, endPort: 8080}]\n"
        ),
        good: about_api!(
            "  ingress:\n  - from: [{podSelector: {matchLabels: {app: web}}}]\n    ports: [{port: 8080}]\n"
        ),
    },
];
