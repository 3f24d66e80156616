//! `NL07xx`: the configuration of the cluster's DNS. An example is one file or several, each below a line `== NAME ==`.

use super::{Page, code};

/// A Corefile as kubeadm writes it, with other lines at its end.
macro_rules! corefile {
    ($($text:expr),+) => {
        concat!(
            "== Corefile ==\n.:53 {\n    errors\n    health {\n        lameduck 5s\n    }\n    ready\n    loop\n    reload\n",
            $($text),+,
            "}\n"
        )
    };
}

/// Its usual plugins.
macro_rules! usual {
    () => {
        concat!(
            "    kubernetes cluster.local in-addr.arpa ip6.arpa {\n        pods insecure\n",
            "        fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n    }\n",
            "    forward . /etc/resolv.conf\n    cache 30\n"
        )
    };
}

/// A kubelet's configuration with these lines.
macro_rules! kubelet {
    ($($text:expr),+) => {
        concat!(
            "== kubelet ==\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
            $($text),+
        )
    };
}

/// A pod whose `spec` begins with these lines.
macro_rules! pod {
    ($($text:expr),+) => {
        concat!(
            "== manifests ==\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec:\n",
            $($text),+,
            "  containers: [{name: web, env: [{name: API, value: \"api.shop.svc:8080\"}]}]\n"
        )
    };
}

/// The DNS Service with these lines in its `spec`, and a pod of it.
macro_rules! dns_service {
    ($($text:expr),+) => {
        concat!(
            "== manifests ==\napiVersion: v1\nkind: Pod\nmetadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}\n",
            "spec:\n  dnsPolicy: Default\n  containers:\n  - name: coredns\n    ports:\n",
            "    - {name: dns, containerPort: 53, protocol: UDP}\n    - {name: dns-tcp, containerPort: 53, protocol: TCP}\n",
            "---\napiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\n",
            "spec:\n  clusterIP: 10.96.0.10\n",
            $($text),+
        )
    };
}

/// Its ports and selector as they should be.
macro_rules! both_ports {
    () => {
        concat!(
            "  selector: {k8s-app: kube-dns}\n  ports:\n  - {name: dns, port: 53, protocol: UDP}\n",
            "  - {name: dns-tcp, port: 53, protocol: TCP}\n"
        )
    };
}

mod corefile;
mod node;
mod objects;

/// All of them, by code.
pub(super) fn pages() -> impl Iterator<Item = &'static Page> {
    corefile::PAGES.iter().chain(&node::PAGES).chain(&objects::PAGES)
}
