//! `NL02xx`: objects as a whole.

use super::{Page, code};

pub(super) const PAGES: [Page; 10] = [
    Page {
        code: code::WRONG_TYPE,
        title: "a field of another type than the API's",
        explanation: "The API server refuses the object. A label value such as `yes`, `1` or `1.10` needs quotes to \
                      be a string; a port number must not have any.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: {canary: yes}\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: {canary: \"yes\"}\n",
    },
    Page {
        code: code::UNKNOWN_FIELD,
        title: "a field that the API does not have",
        explanation: "The API server drops unknown fields of a NetworkPolicy, and what is left means something else: \
                      with `ingres` instead of `ingress` the policy isolates and admits nobody. Of pods, Services and the \
                      other kinds, fields are named that are nearly one that netlab reads.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n  podSelector: {}\n\
              \x20 ingres: [{}]\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n  podSelector: {}\n\
               \x20 ingress: [{}]\n",
    },
    Page {
        code: code::WRONG_API_VERSION,
        title: "a kind under an apiVersion that does not have it",
        explanation: "`extensions/v1beta1 NetworkPolicy` went away with Kubernetes 1.16. An object that no API \
                      server takes protects nothing, so it does not count here either.",
        bad: "apiVersion: extensions/v1beta1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec: {podSelector: {}}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec: {podSelector: {}}\n",
    },
    Page {
        code: code::UNKNOWN_KIND,
        title: "a kind that looks like a misspelt one",
        explanation: "Kinds that cannot change a verdict are skipped and counted. This one is too close to one that \
                      can, or stands in the API group of NetworkPolicy.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolciy\nmetadata: {name: db}\nspec: {podSelector: {}}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec: {podSelector: {}}\n",
    },
    Page {
        code: code::DUPLICATE_OBJECT,
        title: "two objects with one kind, namespace and name",
        explanation: "In a cluster the one applied last would win, which files do not say. The first one is kept \
                      here, by file name and line, and the run is incomplete. Two that say the same are only noted.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}\n---\n\
              apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: api}}\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}\n---\n\
               apiVersion: v1\nkind: Pod\nmetadata: {name: api, labels: {app: api}}\n",
    },
    Page {
        code: code::INVALID_NAME,
        title: "a missing name, or one that the API server refuses",
        explanation: "Names are lower-case letters, digits, `-` and, but for namespaces, `.`. An object without a \
                      name is left out; one with a wrong name is read, since a name changes no verdict.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata: {name: my_web}\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata: {name: my-web}\n",
    },
    Page {
        code: code::POLICY_KIND_NOT_UNDERSTOOD,
        title: "a policy kind that this version does not understand",
        explanation: "Everything in the group policy.networking.k8s.io can overrule NetworkPolicy. An answer that \
                      leaves one out can be wrong, so there is none until you say that it may be incomplete. \
                      v1alpha1 (AdminNetworkPolicy, BaselineAdminNetworkPolicy) and v1alpha2 (ClusterNetworkPolicy) \
                      are understood.",
        bad: "apiVersion: policy.networking.k8s.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\n",
        good: "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec:\n\
               \x20 tier: Admin\n  priority: 10\n  subject: {namespaces: {}}\n",
    },
    Page {
        code: code::VENDOR_POLICY,
        title: "a policy of another enforcer",
        explanation: "Calico, Cilium, Antrea, AWS and others have policy kinds of their own. netlab does not read \
                      them; where their enforcer runs, they can admit or drop what netlab says otherwise about.",
        bad: "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: db}\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec: {podSelector: {}}\n",
    },
    Page {
        code: code::NETWORK_NOT_MODELLED,
        title: "an object that puts pods on another network",
        explanation: "A primary user-defined network cuts its namespaces off from the pod network; an attachment adds \
                      interfaces that NetworkPolicy does not govern. netlab judges the pod network only.",
        bad: "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {name: blue, namespace: blue}\n\
              spec: {topology: Layer2, layer2: {role: Primary}}\n",
        good: "apiVersion: v1\nkind: Namespace\nmetadata: {name: blue}\n",
    },
    Page {
        code: code::NETWORK_INVALID,
        title: "a user-defined network that contradicts itself or its namespace",
        explanation: "OVN-Kubernetes refuses networks called `default`, networks in namespace `default` and in those \
                      of the system, and a second primary network in one namespace.",
        bad: "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {name: default, namespace: blue}\n\
              spec: {topology: Layer2, layer2: {role: Primary}}\n",
        good: "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {name: blue, namespace: blue}\n\
               spec: {topology: Layer2, layer2: {role: Primary}}\n",
    },
];
