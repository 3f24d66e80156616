//! What manifests lack for names to work: the DNS Service, pods behind it, addresses of Services.
//!
//! Invariant: what the manifests have is left as it is; what is added is plain manifests, with names and addresses that
//! nothing else has. The same input always gets the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::port::Protocol;
use netlab_core::model::service::{AddressType, Service};
use netlab_core::service::slices::{self, ENDPOINTS_PER_SLICE};
use netlab_lab::dns::{Role, Server};
use netlab_lab::fault::Corefile;
use netlab_lab::{Place, Plan};
use serde_json::{Value, json};

use super::super::Manifests;
use super::{DOMAIN, Naming};

/// Services of DNS, as the usual installations call them.
const KNOWN: [(&str, &str); 4] = [
    ("kube-system", "kube-dns"),
    ("kube-system", "coredns"),
    ("kube-system", "rke2-coredns-rke2-coredns"),
    ("openshift-dns", "dns-default"),
];
/// Where what is added says that it was written.
const SOURCE: &str = "added by `lab up --dns`:";
/// Where Services' addresses are taken from (`kubeadm`'s range; a usual one for IPv6).
const SERVICES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0xa)),
];
/// Where the API server's Service is looked for: the first address of the range.
const API: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 1))];
/// The world's servers.
const ABOVE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53))];

/// Adds what is lacking; says how names are then made, but for the servers.
pub(crate) fn complete(manifests: &mut Manifests, plan: &Plan) -> Result<Naming, String> {
    let cluster = manifests.load()?.cluster;
    let node_of = |key: &ObjectKey| plan.node_of(&Place::Pod(key.clone())).map(str::to_owned);
    manifests.pin_pods(SOURCE, &cluster, node_of);
    let families = families(&cluster);
    let mut spare = Spare::of(&cluster);
    let known = KNOWN.iter().map(|(namespace, name)| ObjectKey::new(*namespace, *name));
    let found = known.into_iter().find(|key| cluster.services.contains_key(key));
    let key = found.unwrap_or_else(|| ObjectKey::new("kube-system", "kube-dns"));
    if !cluster.namespaces.get(&key.namespace).is_some_and(|namespace| namespace.declared) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.namespace}});
        manifests.put(SOURCE, &object);
    }
    if !cluster.services.contains_key(&key) {
        let addresses: Vec<IpAddr> = families.iter().map(|family| spare.service(*family)).collect();
        manifests.put(SOURCE, &service(&key, &addresses));
    }
    for (key, object) in &cluster.services {
        if object.awaits_cluster_ip() {
            let of = wanted(object, &families);
            let addresses: Vec<IpAddr> = of.into_iter().map(|family| spare.service(family)).collect();
            if let Some(mut written) = manifests.find("Service", &key.namespace, &key.name) {
                written["spec"]["clusterIP"] = json!(addresses.first());
                written["spec"]["clusterIPs"] = json!(addresses);
                manifests.put(SOURCE, &written);
            }
        }
    }
    let api = ObjectKey::new("default", "kubernetes");
    if !cluster.services.contains_key(&api) {
        if !cluster.namespaces.get(&api.namespace).is_some_and(|namespace| namespace.declared) {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": api.namespace}});
            manifests.put(SOURCE, &object);
        }
        let addresses: Vec<IpAddr> =
            families.iter().take(1).map(|family| spare.from(of_family(API, *family))).collect();
        manifests.put(SOURCE, &api_service(&api, &addresses));
    }
    let cluster = manifests.load()?.cluster;
    let dns = cluster.services.get(&key).ok_or_else(|| format!("{key} could not be added"))?;
    let selector = dns.selector.clone().unwrap_or_default();
    let stands = |pod: &&netlab_core::model::cluster::Pod| {
        !pod.terminal && selector.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
    };
    let mut pods = cluster.pods.iter().filter(|(pod, _)| pod.namespace == key.namespace);
    if !selector.is_empty() && !pods.any(|(_, pod)| stands(&pod)) {
        let labels: BTreeMap<&str, &str> =
            selector.iter().map(|(label, value)| (&**label, &**value)).collect();
        for (number, node) in (1..).zip(&nodes(plan)) {
            let addresses: Vec<IpAddr> =
                families.iter().map(|family| spare.pod(&cluster, node, *family)).collect();
            manifests.put(SOURCE, &pod(&key, number, node, &json!(labels), &addresses));
        }
        manifests.write_slices(SOURCE, &key)?;
    }
    let cluster_dns = dns.cluster_ips.clone();
    let above: Vec<IpAddr> = families.iter().map(|family| spare.above(*family)).collect();
    let public: Vec<IpAddr> = families.iter().map(|family| spare.above(*family)).collect();
    let lines: Vec<String> = above.iter().map(|address| format!("nameserver {address}\n")).collect();
    Ok(Naming {
        service: (key.namespace, key.name),
        cluster_dns,
        cluster_domain: DOMAIN.to_owned(),
        host_file: lines.concat(),
        changed: None,
        corefile: Corefile::default(),
        wrote: Vec::new(),
        servers: Vec::new(),
        above,
        public,
    })
}

/// The nodes of a plan.
fn nodes(plan: &Plan) -> Vec<String> {
    let places = plan.namespaces.iter().filter_map(|namespace| match &namespace.place {
        Place::Node(name) => Some(name.clone()),
        Place::Pod(_) | Place::Fabric => None,
    });
    places.collect()
}

/// The families of the cluster's addresses.
fn families(cluster: &Cluster) -> Vec<AddressType> {
    let pods = cluster.pods.values().flat_map(|pod| &pod.addresses);
    let nodes = cluster.nodes.values().flat_map(|node| &node.addresses);
    let found: BTreeSet<AddressType> = pods.chain(nodes).map(|address| AddressType::of(*address)).collect();
    if found.is_empty() { vec![AddressType::Ipv4] } else { found.into_iter().collect() }
}

/// The families in which a Service is to have addresses: those it asks for, else the cluster's first.
fn wanted(service: &Service, families: &[AddressType]) -> Vec<AddressType> {
    if service.ip_families.is_empty() {
        return families.first().copied().into_iter().collect();
    }
    service.ip_families.clone()
}

/// Addresses that nobody has.
struct Spare {
    used: BTreeSet<IpAddr>,
}

impl Spare {
    fn of(cluster: &Cluster) -> Self {
        let services = cluster.services.values().flat_map(Service::addresses);
        let pods = cluster.pods.values().flat_map(|pod| &pod.addresses);
        let nodes = cluster.nodes.values().flat_map(|node| &node.addresses);
        Self { used: services.chain(pods).chain(nodes).copied().collect() }
    }

    fn service(&mut self, family: AddressType) -> IpAddr {
        self.from(of_family(SERVICES, family))
    }

    fn above(&mut self, family: AddressType) -> IpAddr {
        self.from(of_family(ABOVE, family))
    }

    /// In the node's own net, where it has one.
    fn pod(&mut self, cluster: &Cluster, node: &str, family: AddressType) -> IpAddr {
        let nets = cluster.nodes.get(node).map(|node| node.pod_cidrs.as_slice()).unwrap_or_default();
        let net = nets.iter().find(|net| AddressType::of(net.addr()) == family);
        let elsewhere = [
            Ipv4Addr::new(10, 244, 255, 0).into(),
            Ipv6Addr::new(0xfd00, 0x10, 0x244, 0xff, 0, 0, 0, 0).into(),
        ];
        let first = match net {
            Some(net) => net.network(),
            None => of_family(elsewhere, family),
        };
        self.from(next(next(first)))
    }

    fn from(&mut self, first: IpAddr) -> IpAddr {
        let mut address = first;
        while !self.used.insert(address) {
            address = next(address);
        }
        address
    }
}

const fn of_family([v4, v6]: [IpAddr; 2], family: AddressType) -> IpAddr {
    match family {
        AddressType::Ipv6 => v6,
        AddressType::Ipv4 | AddressType::Fqdn => v4,
    }
}

fn next(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().wrapping_add(1)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().wrapping_add(1)).into(),
    }
}

fn service(key: &ObjectKey, addresses: &[IpAddr]) -> Value {
    let families: Vec<&str> = addresses.iter().map(|address| AddressType::of(*address).as_str()).collect();
    let policy = if addresses.len() > 1 { "RequireDualStack" } else { "SingleStack" };
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": {"k8s-app": "kube-dns"}},
        "spec": {
            "clusterIP": addresses.first(), "clusterIPs": addresses,
            "ipFamilies": families, "ipFamilyPolicy": policy,
            "selector": {"k8s-app": "kube-dns"},
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            ],
        },
    })
}

/// The Service that every cluster has (`pkg/controlplane/controller/kubernetesservice`). Nobody serves the API in a lab, so it
/// has no endpoint.
fn api_service(key: &ObjectKey, addresses: &[IpAddr]) -> Value {
    let families: Vec<&str> = addresses.iter().map(|address| AddressType::of(*address).as_str()).collect();
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {
            "clusterIP": addresses.first(), "clusterIPs": addresses,
            "ipFamilies": families, "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    })
}

fn pod(key: &ObjectKey, number: usize, node: &str, labels: &Value, addresses: &[IpAddr]) -> Value {
    let ips: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("coredns-{number}"), "namespace": key.namespace, "labels": labels},
        "spec": {
            "nodeName": node, "dnsPolicy": "Default",
            "containers": [{
                "name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.12.1",
                "ports": [
                    {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
                ],
            }],
        },
        "status": {
            "phase": "Running", "podIP": addresses.first(), "podIPs": ips,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// The servers: in the pods behind the DNS Service, and in the fabric.
pub(crate) fn servers(naming: &Naming, cluster: &Cluster, plan: &Plan) -> Vec<Server> {
    let mut servers = Vec::new();
    let places = plan.places();
    let key = naming.service();
    if let Some(service) = cluster.services.get(&key) {
        let slices = slices::of(cluster, &key, service, ENDPOINTS_PER_SLICE);
        for slice in slices.slices.values() {
            let number = |protocol| {
                let mut ports = slice.ports.iter().filter(|port| port.protocol == protocol);
                let named =
                    ports.find(|port| port.name.as_deref().is_none_or(|name| name.starts_with("dns")));
                named.and_then(|port| port.port)
            };
            let (udp, tcp) = (number(Protocol::Udp), number(Protocol::Tcp));
            let Some(port) = udp.or(tcp) else { continue };
            for pod in slice.endpoints.iter().filter_map(|endpoint| endpoint.pod.as_ref()) {
                let place = Place::pod(key.namespace.clone(), pod.clone());
                let Some(addresses) = places.get(&place) else { continue };
                let mut addresses = addresses.to_vec();
                addresses.push(Ipv4Addr::LOCALHOST.into());
                if addresses.iter().any(IpAddr::is_ipv6) {
                    addresses.push(Ipv6Addr::LOCALHOST.into());
                }
                let server = Server { place, role: Role::Cluster, addresses, port, udp: true, tcp: true };
                if !servers.contains(&server) {
                    servers.push(server);
                }
            }
        }
    }
    servers.push(Server {
        place: Place::Fabric,
        role: Role::Outside,
        addresses: naming.outside(),
        port: 53,
        udp: true,
        tcp: true,
    });
    servers
}
