//! `NL02xx`: fields of policies, and policies in their surroundings.

use super::{Page, code};

pub(super) const PAGES: [Page; 19] = [
    Page {
        code: code::PEER_EMPTY,
        title: "a peer that names nobody",
        explanation: "The API refuses an empty element of `from` or `to`. An empty *list* and no list at all both \
                      mean everybody; an empty selector, `podSelector: {}`, means every pod of the namespace.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - {}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - podSelector: {}\n",
    },
    Page {
        code: code::PEER_MIXED,
        title: "an `ipBlock` beside a selector in one peer",
        explanation: "Addresses and pods are different peers. As two elements of the list, either admits; there is \
                      no way to ask for both at once.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - podSelector: {}\n\
              \x20     ipBlock: {cidr: 192.0.2.0/24}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - podSelector: {}\n\
              \x20   - ipBlock: {cidr: 192.0.2.0/24}\n",
    },
    Page {
        code: code::INVALID_CIDR,
        title: "not a CIDR",
        explanation: "Blocks are written as an address and a prefix length. Leading zeros and IPv4 addresses in \
                      IPv6 form are refused, as newer API servers do, because readers disagree about them.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - ipBlock: {cidr: 192.0.2.0}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - ipBlock: {cidr: 192.0.2.0/24}\n",
    },
    Page {
        code: code::CIDR_HOST_BITS,
        title: "a CIDR with host bits",
        explanation: "The bits behind the prefix do not count: `10.0.0.5/8` is all of 10.0.0.0/8, not one host. \
                      The API server warns about it too.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - ipBlock: {cidr: 10.0.0.5/8}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - ipBlock: {cidr: 10.0.0.5/32}\n",
    },
    Page {
        code: code::EXCEPT_OUTSIDE,
        title: "an exception that is not inside its block",
        explanation: "Each `except` must be a smaller part of `cidr`, of the same address family.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n\
              \x20   - ipBlock: {cidr: 10.0.0.0/8, except: [192.168.0.0/16]}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n\
              \x20   - ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}\n",
    },
    Page {
        code: code::INVALID_PROTOCOL,
        title: "not a protocol of the API",
        explanation: "NetworkPolicy knows TCP, UDP and SCTP, in capitals. ICMP cannot be named: a rule without \
                      `ports` admits it, one with `ports` does not.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - ports:\n    - {protocol: tcp, port: 80}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - ports:\n    - {protocol: TCP, port: 80}\n",
    },
    Page {
        code: code::INVALID_PORT,
        title: "not a port number or a port name",
        explanation: "Numbers are 1 to 65535 and unquoted; a quoted number is a name to the API, and no name \
                      consists of digits alone. Names have at most 15 of a-z, 0-9 and `-`.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - ports:\n    - {port: \"80\"}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - ports:\n    - {port: 80}\n",
    },
    Page {
        code: code::INVALID_END_PORT,
        title: "an `endPort` that makes no range",
        explanation: "A range needs a number in `port` and an `endPort` that is not smaller. A port name cannot \
                      start a range.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - ports:\n    - {port: 8080, endPort: 8000}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - ports:\n    - {port: 8000, endPort: 8080}\n",
    },
    Page {
        code: code::INVALID_POLICY_TYPE,
        title: "not a policy type",
        explanation: "`policyTypes` takes `Ingress`, `Egress` or both. A policy isolates its pods in exactly the \
                      directions that stand there; without the field, for ingress, and for egress if it has egress \
                      rules.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  policyTypes: [ingress]\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  policyTypes: [Ingress]\n",
    },
    Page {
        code: code::DOUBLED_POLICY_TYPE,
        title: "a policy type written twice",
        explanation: "It does no harm, but often the other direction was meant.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  policyTypes: [Ingress, Ingress]\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  policyTypes: [Ingress, Egress]\n",
    },
    Page {
        code: code::INVALID_SELECTOR,
        title: "a label selector that the API refuses",
        explanation: "Keys and values have the shapes of labels; `In` and `NotIn` need values, `Exists` and \
                      `DoesNotExist` take none.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector:\n    matchExpressions: [{key: app, operator: In}]\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector:\n    matchExpressions: [{key: app, operator: In, values: [db]}]\n",
    },
    Page {
        code: code::PORT_NAME_FOR_BLOCK,
        title: "a port name towards addresses that have no names",
        explanation: "A port name is looked up on the destination pod. This rule admits addresses only, and no pod \
                      at all has a port of that name, so it admits nothing, and whoever wrote it believes \
                      otherwise. The other policy kinds may not name a port beside `networks` or `nodes` at all.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  policyTypes: [Egress]\n  egress:\n  - to:\n\
              \x20   - ipBlock: {cidr: 192.0.2.0/24}\n    ports:\n    - {port: https}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  policyTypes: [Egress]\n  egress:\n  - to:\n\
              \x20   - ipBlock: {cidr: 192.0.2.0/24}\n    ports:\n    - {port: 443}\n",
    },
    Page {
        code: code::NULL_ELEMENT,
        title: "a list element that is null",
        explanation: "A dash with nothing behind it is an element with every field at its default. As a rule it \
                      admits everybody on every port, which hardly anybody means.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  -\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - {}\n",
    },
    Page {
        code: code::NO_SPEC,
        title: "a policy without `spec`",
        explanation: "The API takes it as an empty one: every pod of the namespace is isolated for ingress and \
                      nothing is admitted.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\n\
              spec: {podSelector: {}}\n",
    },
    Page {
        code: code::INVALID_ADDRESS,
        title: "an address, CIDR or port of an object that cannot be read",
        explanation: "Verdicts are about addresses. An object whose addresses cannot be read is left out, rather \
                      than judged as if it had none.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nstatus: {podIP: 10.244.0.256}\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nstatus: {podIP: 10.244.0.25}\n",
    },
    Page {
        code: code::NAMESPACE_LABELS_UNKNOWN,
        title: "a selector needs labels of a namespace that was not given",
        explanation: "A namespace that only pods mention has one known label, `kubernetes.io/metadata.name`. A \
                      selector over others does not match it here, but may in the cluster: add the Namespace \
                      object.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n---\n\
              apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n\
              \x20   - namespaceSelector: {matchLabels: {team: shop}}\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n---\n\
              apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n\
              \x20   - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}\n",
    },
    Page {
        code: code::SHARED_ADDRESS,
        title: "two running pods with one address",
        explanation: "A dump can hold a pod that has just gone and its successor on the same address. Whose it is \
                      decides verdicts; a pod whose phase is Succeeded or Failed does not count.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {podIP: 10.244.0.5}\n---\n\
              apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nstatus: {podIP: 10.244.0.5}\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n\
              status: {phase: Succeeded, podIP: 10.244.0.5}\n---\napiVersion: v1\nkind: Pod\n\
              metadata: {name: b}\nstatus: {podIP: 10.244.0.5}\n",
    },
    Page {
        code: code::BLOCK_MEETS_CHOSEN_ADDRESS,
        title: "a block may hold pods whose addresses are not known",
        explanation: "Manifests give pods no address, so netlab chooses one: from its node's `podCIDRs`, else from \
                      10.244.0.0/16, or where policies have blocks there from another range outside of them. Whether \
                      a block that covers only a part of where pods usually are holds the pod is then not known, and \
                      answers are for a pod outside. Give `status.podIPs`, or nodes with `podCIDRs`.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n---\napiVersion: networking.k8s.io/v1\n\
              kind: NetworkPolicy\nmetadata: {name: db}\nspec:\n  podSelector: {}\n  ingress:\n  - from:\n\
              \x20   - ipBlock: {cidr: 10.0.0.0/8}\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nstatus: {podIP: 10.1.2.3}\n---\n\
              apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n\
              \x20 podSelector: {}\n  ingress:\n  - from:\n    - ipBlock: {cidr: 10.0.0.0/8}\n",
    },
    Page {
        code: code::NO_POD_TEMPLATE,
        title: "a workload without a pod template",
        explanation: "Its pods have no labels and no ports that could be known, so it is left out.",
        bad: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 1}\n",
        good: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n\
              \x20   metadata: {labels: {app: web}}\n",
    },
];
