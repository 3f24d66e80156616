//! Pods, and Services of every kind in front of them, for proofs of egress through Services.

use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::backends::{backends, service_port};
use netlab_core::policy::query::{End, Query, Service};

/// `client`, which the questions are asked of, and pods of two kinds on both nodes. It may open anything to what is
/// `good`, and TLS to some addresses outside.
const WORLD: &str = r"
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {podCIDRs: [10.244.1.0/24, 'fd00:10:1::/64']}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}, {type: InternalIP, address: '2001:db8::11'}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {podCIDRs: [10.244.2.0/24, 'fd00:10:2::/64']}
status: {addresses: [{type: InternalIP, address: 192.0.2.12}, {type: InternalIP, address: '2001:db8::12'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: t, labels: {app: client, egress: some}}
spec: {nodeName: n1, containers: [{name: c, ports: [{name: web, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.244.1.9}, {ip: 'fd00:10:1::9'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: by-name, namespace: t, labels: {app: client, egress: by-name}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.244.1.8}, {ip: 'fd00:10:1::8'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: good-here, namespace: t, labels: {app: good, all: 'yes', near: 'yes'}}
spec: {nodeName: n1, containers: [{name: c, ports: [{name: web, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.244.1.1}, {ip: 'fd00:10:1::1'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: good-there, namespace: t, labels: {app: good, all: 'yes'}}
spec: {nodeName: n2, containers: [{name: c, ports: [{name: web, containerPort: 9090}]}]}
status: {podIPs: [{ip: 10.244.2.1}, {ip: 'fd00:10:2::1'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bad-here, namespace: t, labels: {app: bad, all: 'yes', near: 'yes'}}
spec: {nodeName: n1, containers: [{name: c, ports: [{name: web, containerPort: 7070}]}]}
status: {podIPs: [{ip: 10.244.1.2}, {ip: 'fd00:10:1::2'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bad-there, namespace: t, labels: {app: bad, all: 'yes'}}
spec: {nodeName: n2, containers: [{name: c, ports: [{name: web, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.244.2.2}, {ip: 'fd00:10:2::2'}]}
---
apiVersion: v1
kind: Service
metadata: {name: good, namespace: t}
spec: {type: NodePort, clusterIPs: [10.96.0.1, 'fd00:96::1'], selector: {app: good}, ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}, {name: udp, protocol: UDP, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: bad, namespace: t}
spec: {clusterIPs: [10.96.0.2, 'fd00:96::2'], externalIPs: [198.51.100.2], selector: {app: bad}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: all, namespace: t}
spec: {clusterIPs: [10.96.0.3, 'fd00:96::3'], selector: {all: 'yes'}, ports: [{name: http, port: 80, targetPort: 8080}, {name: udp, protocol: UDP, port: 53, targetPort: 5353}]}
---
apiVersion: v1
kind: Service
metadata: {name: near, namespace: t}
spec: {clusterIPs: [10.96.0.4, 'fd00:96::4'], internalTrafficPolicy: Local, selector: {all: 'yes'}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: named, namespace: t}
spec: {clusterIPs: [10.96.0.5, 'fd00:96::5'], selector: {all: 'yes'}, ports: [{name: http, port: 80, targetPort: web}]}
---
apiVersion: v1
kind: Service
metadata: {name: headless, namespace: t}
spec: {clusterIP: None, ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6], selector: {app: good}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: myself, namespace: t}
spec: {clusterIPs: [10.96.0.6, 'fd00:96::6'], selector: {app: client, egress: some}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody, namespace: t}
spec: {clusterIPs: [10.96.0.7, 'fd00:96::7'], selector: {app: nobody}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: t}
spec: {clusterIPs: [10.96.0.8], ports: [{name: tls, port: 443, targetPort: 8443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: outside-1, namespace: t, labels: {kubernetes.io/service-name: outside}}
addressType: IPv4
ports: [{name: tls, port: 8443, protocol: TCP}]
endpoints: [{addresses: [203.0.113.9]}, {addresses: [203.0.113.200]}]
---
apiVersion: v1
kind: Service
metadata: {name: name-outside, namespace: t}
spec: {type: ExternalName, externalName: example.org}
---
apiVersion: v1
kind: Service
metadata: {name: half-host, namespace: t}
spec: {clusterIPs: [10.96.0.9], ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: half-host-1, namespace: t, labels: {kubernetes.io/service-name: half-host}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.1.1], nodeName: n1}, {addresses: [192.0.2.11], nodeName: n1}]
---
apiVersion: v1
kind: Service
metadata: {name: many, namespace: t}
spec: {clusterIPs: [10.96.0.10], ports: [{name: http, port: 80, targetPort: 1}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: many-1, namespace: t, labels: {kubernetes.io/service-name: many}}
addressType: IPv4
ports: [{name: http, port: 8081, protocol: TCP}]
endpoints: [{addresses: [10.244.1.1], nodeName: n1}, {addresses: [10.244.2.2], nodeName: n2}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: many-2, namespace: t, labels: {kubernetes.io/service-name: many}}
addressType: IPv4
ports: [{name: http, port: 8082, protocol: TCP}]
endpoints: [{addresses: [10.244.1.1], nodeName: n1}, {addresses: [10.244.2.2], nodeName: n2}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: many-3, namespace: t, labels: {kubernetes.io/service-name: many}}
addressType: IPv4
ports: [{name: http, port: 8083, protocol: TCP}]
endpoints: [{addresses: [10.244.1.1], nodeName: n1}, {addresses: [10.244.2.2], nodeName: n2}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIPs: [10.96.0.53, 'fd00:96::53'], selector: {k8s-app: kube-dns}, ports: [{name: dns, protocol: UDP, port: 53, targetPort: dns}, {name: dns-tcp, port: 53, targetPort: dns-tcp}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, labels: {kubernetes.io/metadata.name: kube-system}}
---
apiVersion: v1
kind: Pod
metadata: {name: dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec: {nodeName: n2, containers: [{name: c, ports: [{name: dns, protocol: UDP, containerPort: 53}, {name: dns-tcp, containerPort: 53}]}]}
status: {podIPs: [{ip: 10.244.2.53}, {ip: 'fd00:10:2::53'}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: some, namespace: t}
spec:
  podSelector: {matchLabels: {egress: some}}
  policyTypes: [Egress]
  egress:
  - to: [{podSelector: {matchLabels: {app: good}}}]
  - to: [{ipBlock: {cidr: 203.0.113.0/25}}]
    ports: [{port: 8443}]
  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]
    ports: [{protocol: UDP, port: 53}]
  # The addresses of Services: it says nothing of what is translated.
  - to: [{ipBlock: {cidr: 10.96.0.0/16}}]
    ports: [{port: 80}, {port: 443}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: by-name, namespace: t}
spec:
  podSelector: {matchLabels: {egress: by-name}}
  policyTypes: [Egress]
  egress:
  - to: [{podSelector: {matchLabels: {app: good}}}]
    ports: [{port: web}]
";

/// The world.
pub(crate) fn world() -> Loaded {
    loaded(WORLD)
}

/// The world with something more.
pub(crate) fn world_and(more: &str) -> Loaded {
    loaded(&format!("{WORLD}---\n{more}"))
}

fn loaded(text: &str) -> Loaded {
    let loaded = load([Document { name: "world.yaml".into(), text: text.into() }], &Budget::default());
    assert!(loaded.is_complete(), "{:?}", loaded.diagnostics);
    loaded
}

/// A pod of the world, in namespace `t` where none is named.
pub(crate) fn key(name: &str) -> ObjectKey {
    let (namespace, name) = name.split_once('/').unwrap_or(("t", name));
    ObjectKey::new(namespace, name)
}

/// What a pod would open to a port of a Service.
pub(crate) fn to_service(loaded: &Loaded, from: &str, service: &str, port: &str) -> Query {
    let service = key(service);
    let wanted = port.parse().expect("a port");
    let port = service_port(&loaded.cluster, &service, Some(&wanted)).expect("the Service has it");
    let all = backends(&loaded.cluster, &service, port);
    let mut to: Vec<End> = all.iter().map(|backend| backend.end.clone()).collect();
    to.dedup();
    let addresses = loaded.cluster.services[&service].cluster_ips.clone();
    let service = Service::Backends { all, addresses, port: port.port, unaddressed: None };
    Query { from: vec![End::Pod(key(from))], to, service }
}

/// What a pod would open to an address.
pub(crate) fn to_address(from: &str, address: &str, service: Service) -> Query {
    let to = vec![End::Address(address.parse().expect("an address"))];
    Query { from: vec![End::Pod(key(from))], to, service }
}
