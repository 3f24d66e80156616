//! The kubelet's configuration and the node's own `resolv.conf`.

use super::{Page, code};

pub(super) const PAGES: [Page; 8] = [
    Page {
        code: code::CLUSTER_DNS_MISSING,
        title: "a kubelet that knows no DNS server",
        explanation: "Without `clusterDNS` kubelet gives pods the node's own file and writes the event \
                      MissingClusterDNS: no name of the cluster resolves on that node.",
        bad: kubelet!("clusterDomain: cluster.local\n"),
        good: kubelet!("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"),
    },
    Page {
        code: code::CLUSTER_DNS_WRONG,
        title: "a kubelet that tells pods to ask somebody else",
        explanation: "`clusterDNS` has to be the cluster IP of the DNS Service (or the address of a cache on the \
                      node). Any other address of the Service range belongs to another Service, which does not answer, \
                      or to nobody, and every lookup of every pod of the node times out. Pods keep the file that they \
                      were made with: after a change they have to be made anew.",
        bad: concat!(
            kubelet!("clusterDNS: [10.96.0.2]\nclusterDomain: cluster.local\n"),
            dns_service!(both_ports!())
        ),
        good: concat!(
            kubelet!("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"),
            dns_service!(both_ports!())
        ),
    },
    Page {
        code: code::NAMESERVERS_MIXED,
        title: "nameservers that know different names",
        explanation: "A list of nameservers is a list of equals: the first answer is final, also that a name does not \
                      exist. musl asks all of them at once and takes the fastest, glibc goes on after a timeout. A \
                      public server beside the cluster's makes names of the cluster vanish now and then. The cluster's \
                      server forwards what it does not know: one is enough.",
        bad: kubelet!("clusterDNS: [10.96.0.10, 8.8.8.8]\nclusterDomain: cluster.local\n"),
        good: kubelet!("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"),
    },
    Page {
        code: code::KUBELET_FIELD,
        title: "a field that kubelet does not read as it is meant",
        explanation: "Names of fields are compared with their capitals, and kubelet goes on without those that it \
                      does not know. An element of `clusterDNS` that is no address is left out, and pods get the first \
                      three.",
        bad: kubelet!("clusterDns: [10.96.0.10]\nclusterDomain: cluster.local\n"),
        good: kubelet!("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"),
    },
    Page {
        code: code::CLUSTER_DOMAIN,
        title: "a cluster domain that is missing or malformed",
        explanation: "Kubelet makes three search domains of it: `NAMESPACE.svc.DOMAIN`, `svc.DOMAIN` and `DOMAIN`. \
                      Without it pods search the node's domains alone, so that `api` and `api.shop` do not resolve. It \
                      is written into the file as it stands, without any correction.",
        bad: kubelet!("clusterDNS: [10.96.0.10]\nclusterDomain: Cluster.Local.\n"),
        good: kubelet!("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"),
    },
    Page {
        code: code::NODE_STUB,
        title: "a nameserver of the node that pods cannot ask",
        explanation: "Kubelet hands the node's file to pods with `dnsPolicy: Default`, the DNS pods among them. An \
                      address such as 127.0.0.53 means the node to the node; in a pod it means the pod, where nobody \
                      answers, or, in a DNS pod, the server itself. systemd-resolved has the real servers in \
                      /run/systemd/resolve/resolv.conf.",
        bad: "== resolv.conf ==\nnameserver 127.0.0.53\noptions edns0 trust-ad\n",
        good: "== resolv.conf ==\nnameserver 192.0.2.53\noptions edns0 trust-ad\n",
    },
    Page {
        code: code::NODE_FILE_LIMITS,
        title: "a node's file beyond kubelet's limits",
        explanation: "Pods get three nameservers, 32 search domains (the cluster's three come first) of 253 bytes \
                      each and 2048 in all; kubelets before 1.28 took 6 and 256. What is more is cut off at the end, \
                      with the event DNSConfigForming on each pod.",
        bad: "== resolv.conf ==\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n",
        good: "== resolv.conf ==\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n",
    },
    Page {
        code: code::NODE_FILE_LINE,
        title: "a line that kubelet reads otherwise than it looks",
        explanation: "Kubelet has a reader of its own: `domain` means nothing to it, a `nameserver` without an address \
                      is an error with which no pod of the node starts, and `#` begins a comment only at the start of \
                      a line, so that words behind it become search domains of every pod.",
        bad: "== resolv.conf ==\nnameserver 192.0.2.1\nsearch corp.example # the office\n",
        good: "== resolv.conf ==\nnameserver 192.0.2.1\n# the office\nsearch corp.example\n",
    },
];
