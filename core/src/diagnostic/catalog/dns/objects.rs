//! Pods and the DNS Service.

use super::{Page, code};

pub(super) const PAGES: [Page; 9] = [
    Page {
        code: code::POD_WITHOUT_CLUSTER_DNS,
        title: "a pod that uses names of the cluster and does not ask its servers",
        explanation: "`dnsPolicy: Default` is not the default: it gives the pod the node's servers, which do not know \
                      the cluster. So does `ClusterFirst`, written or not, for a pod on the host's network: there it \
                      takes `ClusterFirstWithHostNet`. It is told as a warning where a container is given a name of the \
                      cluster.",
        bad: pod!("  hostNetwork: true\n"),
        good: pod!("  hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet\n"),
    },
    Page {
        code: code::POD_DNS_INVALID,
        title: "a pod's DNS fields that the API refuses",
        explanation: "`dnsPolicy` is one of four words; with `None` at least one nameserver is needed. There are at \
                      most three nameservers, which are addresses, and 32 search domains.",
        bad: pod!("  dnsPolicy: None\n"),
        good: pod!("  dnsPolicy: None\n  dnsConfig: {nameservers: [10.96.0.10]}\n"),
    },
    Page {
        code: code::POD_NDOTS,
        title: "an `ndots` with which names are not found",
        explanation: "A name with at least so many dots is asked for as it stands: first by glibc, which then searches \
                      all the same, and only by musl. With a low value, `api.shop` never resolves in Alpine images. \
                      Names in full need no search, whatever `ndots` is.",
        bad: pod!("  dnsConfig: {options: [{name: ndots, value: \"1\"}]}\n"),
        good: pod!("  dnsConfig: {options: [{name: ndots, value: \"3\"}]}\n"),
    },
    Page {
        code: code::SEARCH_ROOT,
        title: "the search domain `.`",
        explanation: "It makes resolvers ask for the name as it stands, early and cheaply. musl before 1.2.4 (Alpine \
                      3.17 and older) sends a malformed name instead and waits for an answer that never comes: every \
                      lookup that searches fails.",
        bad: pod!("  dnsConfig: {searches: [\".\"]}\n"),
        good: pod!("  dnsConfig: {options: [{name: ndots, value: \"3\"}]}\n"),
    },
    Page {
        code: code::SEARCH_LINE_LONG,
        title: "a search line that musl skips",
        explanation: "Kubernetes takes search lists of 2048 bytes; musl reads 255 bytes of a line and skips a longer \
                      one as a whole, so that in Alpine images no short name resolves, the cluster's own included.",
        bad: "== resolv.conf ==\nnameserver 192.0.2.1\nsearch engineering.department-of-platforms.emea.corp.example \
              laboratories.department-of-platforms.emea.corp.example production.department-of-platforms.emea.corp.example \
              staging.department-of-platforms.emea.corp.example\n",
        good: "== resolv.conf ==\nnameserver 192.0.2.1\nsearch emea.corp.example corp.example\n",
    },
    Page {
        code: code::DNS_SERVICE_PORTS,
        title: "a DNS Service without one of its two protocols",
        explanation: "Resolvers ask over UDP and repeat over TCP what did not fit. A Service has both ports, under two \
                      names; a port without `protocol` is TCP.",
        bad: dns_service!(
            "  selector: {k8s-app: kube-dns}\n  ports: [{name: dns, port: 53, protocol: UDP}]\n"
        ),
        good: dns_service!(both_ports!()),
    },
    Page {
        code: code::DNS_SERVICE_TARGET,
        title: "a DNS Service that leads to a port where nobody listens",
        explanation: "`targetPort` is a number, or a name that the container has for a port of the same protocol. A \
                      name that no container has gives no endpoint at all; a number on which the Corefile does not \
                      listen has every client refused.",
        bad: dns_service!(
            "  selector: {k8s-app: kube-dns}\n  ports:\n  - {name: dns, port: 53, protocol: UDP, targetPort: dns}\n",
            "  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: dns}\n"
        ),
        good: dns_service!(
            "  selector: {k8s-app: kube-dns}\n  ports:\n  - {name: dns, port: 53, protocol: UDP, targetPort: dns}\n",
            "  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: dns-tcp}\n"
        ),
    },
    Page {
        code: code::DNS_SERVICE_SELECTOR,
        title: "a DNS Service that selects nobody, or has no address",
        explanation: "The Service's address stands in each pod's file, so it needs one that stays, and its selector \
                      has to meet the DNS pods: a renamed label leaves it without endpoints while all pods run.",
        bad: dns_service!(
            "  selector: {k8s-app: coredns}\n  ports:\n  - {name: dns, port: 53, protocol: UDP}\n",
            "  - {name: dns-tcp, port: 53, protocol: TCP}\n"
        ),
        good: dns_service!(both_ports!()),
    },
    Page {
        code: code::DNS_SERVICE_TRAFFIC,
        title: "a DNS Service that some clients cannot use",
        explanation: "With `internalTrafficPolicy: Local` queries of a node without a DNS pod vanish, and time out \
                      instead of being refused. `sessionAffinity` keeps a client with one server although DNS has no \
                      sessions: a sick server then fails some clients always instead of all of them sometimes.",
        bad: dns_service!("  internalTrafficPolicy: Local\n", both_ports!()),
        good: dns_service!(both_ports!()),
    },
];
