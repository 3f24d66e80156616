//! `NL0230` to `NL0245`: fields of the policies that administrators write, and policies beside one another.

use super::{Page, code};

pub(super) const PAGES: [Page; 16] = [
    Page {
        code: code::INVALID_PRIORITY,
        title: "a priority that is missing or not 0 to 1000",
        explanation: "Policies of one tier are asked in the order of their priorities, 0 first. The API refuses a \
                      policy without one, and numbers above 1000.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 1001\n  subject: {namespaces: {}}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 1000\n  subject: {namespaces: {}}\n",
    },
    Page {
        code: code::INVALID_TIER,
        title: "a tier that is missing or unknown",
        explanation: "`Admin` is asked before every NetworkPolicy, `Baseline` where no NetworkPolicy isolates the \
                      pod. There is no third one for this kind.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Network\n  priority: 10\n  subject: {namespaces: {}}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Baseline\n  priority: 10\n  subject: {namespaces: {}}\n",
    },
    Page {
        code: code::INVALID_ACTION,
        title: "an action that is missing or not one of the kind's",
        explanation: "ClusterNetworkPolicy has `Accept`, `Deny` and `Pass`; AdminNetworkPolicy says `Allow` for \
                      the first, and BaselineAdminNetworkPolicy has no `Pass`, as nothing comes after it.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Allow, to: [{namespaces: {}}]}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Accept, to: [{namespaces: {}}]}\n",
    },
    Page {
        code: code::SUBJECT_NOT_ONE,
        title: "a subject that has not exactly one field",
        explanation: "Which pods a policy is about is written as `namespaces` (all pods there) or `pods` (a \
                      namespace and a pod selector). `namespaces: {}` is every pod of the cluster.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n",
    },
    Page {
        code: code::PORT_NOT_ONE,
        title: "a port or protocol that has not exactly one field",
        explanation: "Each element says one thing: `tcp`, `udp`, `sctp` or `destinationNamedPort` (in v1alpha1 \
                      `portNumber`, `portRange` or `namedPort`). Several belong into several elements.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 ingress:\n  - action: Accept\n    from: [{namespaces: {}}]\n    protocols:\n    - {tcp: {destinationPort: {number: 53}}, udp: {destinationPort: {number: 53}}}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 ingress:\n  - action: Accept\n    from: [{namespaces: {}}]\n    protocols:\n    - tcp: {destinationPort: {number: 53}}\n    - udp: {destinationPort: {number: 53}}\n",
    },
    Page {
        code: code::WRONG_LENGTH,
        title: "a list or name that is shorter or longer than the API allows",
        explanation: "A rule names one peer at least: unlike in NetworkPolicy, a missing `from` or `to` is not \
                      everybody. v1alpha2 takes 25 rules, peers and protocols per list, v1alpha1 100; both take 25 \
                      networks, each once, and names of 100 characters.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Deny, to: []}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Deny, to: [{namespaces: {}}]}\n",
    },
    Page {
        code: code::SINGLETON_NAME,
        title: "a BaselineAdminNetworkPolicy that is not called `default`",
        explanation: "A cluster has one baseline of this kind, and the API server takes it under that name only.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: BaselineAdminNetworkPolicy\n\
              metadata: {name: base}\nspec:\n  subject: {namespaces: {}}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: BaselineAdminNetworkPolicy\n\
              metadata: {name: default}\nspec:\n  subject: {namespaces: {}}\n",
    },
    Page {
        code: code::PEER_NOT_KNOWN,
        title: "a peer of a kind that is not known here",
        explanation: "A newer version of the API may have kinds of peers that netlab cannot match. As the API \
                      asks, such a rule fails closed: with `Accept` it matches nothing, with `Deny` or `Pass` it \
                      denies everything. A field that looks like a slip of the pen is an error instead.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Accept, to: [{serviceAccounts: {}}]}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Accept, to: [{namespaces: {}}]}\n",
    },
    Page {
        code: code::DOMAIN_NAMES_NOT_MODELLED,
        title: "domain names, which netlab does not resolve",
        explanation: "Which addresses a name has is decided by the DNS of your cluster, at the time a pod asks. \
                      netlab counts such a peer as not matched, so a verdict can be deny where the enforcer that \
                      sees the answers accepts.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Accept, to: [{domainNames: [example.org]}]}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Accept, to: [{networks: [192.0.2.0/24]}]}\n",
    },
    Page {
        code: code::INVALID_DOMAIN_NAME,
        title: "not a domain name",
        explanation: "Two labels at least, of letters, digits, `-` and `_`. `*` stands for one label or more, and \
                      only in front.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Accept, to: [{domainNames: [\"www.*.org\"]}]}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Accept, to: [{networks: [192.0.2.0/24]}]}\n",
    },
    Page {
        code: code::PROTOCOL_WITHOUT_PORT,
        title: "a protocol without its port",
        explanation: "The CRD refuses `tcp: {}`, though the type says that it may stand for every port, and \
                      enforcers take it so; netlab does too. Written as a range it is valid everywhere.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 ingress:\n  - action: Accept\n    from: [{namespaces: {}}]\n    protocols:\n    - tcp: {}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 ingress:\n  - action: Accept\n    from: [{namespaces: {}}]\n    protocols:\n    - tcp: {destinationPort: {range: {start: 1, end: 65535}}}\n",
    },
    Page {
        code: code::PORT_NAME_UNMATCHED,
        title: "a port name that no pod has",
        explanation: "A port name is looked up among the container ports of each destination pod. When none has \
                      it, the rule matches nothing: an `Accept` opens nothing, a `Deny` stops nothing.",
        bad: "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n\
              spec: {containers: [{name: web, ports: [{name: http, containerPort: 8080}]}]}\n---\n\
              apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 ingress:\n  - action: Accept\n    from: [{namespaces: {}}]\n    protocols:\n    - destinationNamedPort: web\n",
        good: "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n\
              spec: {containers: [{name: web, ports: [{name: http, containerPort: 8080}]}]}\n---\n\
              apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 ingress:\n  - action: Accept\n    from: [{namespaces: {}}]\n    protocols:\n    - destinationNamedPort: http\n",
    },
    Page {
        code: code::NODES_UNMATCHED,
        title: "a selector that no node matches",
        explanation: "`nodes` are matched by the labels of Node objects. Where none was given, netlab makes nodes \
                      up, without labels.",
        bad: "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {role: edge}}\n---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Deny, to: [{nodes: {matchLabels: {role: egde}}}]}\n",
        good: "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {role: edge}}\n---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n\
              \x20 egress:\n  - {action: Deny, to: [{nodes: {matchLabels: {role: edge}}}]}\n",
    },
    Page {
        code: code::TIED_POLICIES,
        title: "policies of one tier that the API does not order",
        explanation: "With equal priorities, or a BaselineAdminNetworkPolicy beside a ClusterNetworkPolicy of tier \
                      Baseline, it is open which policy comes first. Where both match a connection and disagree, \
                      its verdict is `undefined`, and the tables deny it, because what nobody decided should not \
                      pass.",
        bad: "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: a}\nspec:\n  tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n  ingress:\n  - {action: Accept, from: [{namespaces: {}}]}\n---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: b}\nspec:\n  tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n  ingress:\n  - {action: Deny, from: [{namespaces: {}}]}\n",
        good: "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: a}\nspec:\n  tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n  ingress:\n  - {action: Accept, from: [{namespaces: {}}]}\n---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: b}\nspec:\n  tier: Admin\n  priority: 20\n  subject: {namespaces: {}}\n  ingress:\n  - {action: Deny, from: [{namespaces: {}}]}\n",
    },
    Page {
        code: code::OWNER_SPLIT,
        title: "a selector that takes some pods of an owner and leaves others",
        explanation: "Pods of one ReplicaSet or Job come from one template. Where their labels differ and a policy \
                      looks at the difference, an answer for the workload is not one answer; often somebody edited \
                      a label of a running pod.",
        bad: "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: shop\n  labels: {app: web}\n  ownerReferences: [{kind: ReplicaSet, name: web, controller: true}]\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n  namespace: shop\n  labels: {app: api}\n  ownerReferences: [{kind: ReplicaSet, name: web, controller: true}]\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\nspec:\n  podSelector: {matchLabels: {app: web}}\n",
        good: "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: shop\n  labels: {app: web}\n  ownerReferences: [{kind: ReplicaSet, name: web, controller: true}]\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n  namespace: shop\n  labels: {app: web}\n  ownerReferences: [{kind: ReplicaSet, name: web, controller: true}]\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\nspec:\n  podSelector: {matchLabels: {app: web}}\n",
    },
    Page {
        code: code::PODS_SELECTOR_ABSENT,
        title: "`pods` without one of its selectors",
        explanation: "v1alpha1 requires `namespaceSelector` and `podSelector`, v1alpha2 the latter; empty, they stand \
                      for every namespace and every pod. Tools that work on files take what is absent in v1alpha1 for \
                      empty, and netlab does too.",
        bad: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {pods: {namespaceSelector: {}}}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
              \x20 tier: Admin\n  priority: 10\n  subject: {pods: {podSelector: {}}}\n",
    },
];
