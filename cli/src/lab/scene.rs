//! Where faults are made: the pod that asks, the Service that it asks for, the servers.
//!
//! Invariant: chosen from the lab without faults, by names in order, so that the same lab has the same scene every time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use netlab_core::input::Loaded;
use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
use netlab_core::model::policy::{Policy, PolicyKind};
use netlab_core::model::service::Service;
use netlab_core::service::slices::{self, ENDPOINTS_PER_SLICE};
use netlab_lab::dns::Role;
use netlab_lab::fault::{Member, Scene, Target};
use netlab_lab::{Place, Plan};

use super::names::{DOMAIN, Naming};

/// Where an address that no Service has is looked for, and one that no pod has.
const NOBODY: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 96, 0, 2), Ipv4Addr::new(10, 244, 254, 9));

/// The scene around a pod, or around the first that fits.
pub(super) fn scene(
    naming: &Naming,
    loaded: &Loaded,
    plan: &Plan,
    wanted: Option<&ObjectKey>,
) -> Result<Scene, String> {
    let cluster = &loaded.cluster;
    let servers: Vec<Member> = naming
        .servers
        .iter()
        .filter(|server| server.role == Role::Cluster)
        .map(|server| member(&server.place, plan))
        .collect();
    let can = |key: &ObjectKey, pod: &Pod| {
        !pod.host_network
            && !servers.iter().any(|server| server.place == Place::Pod(key.clone()))
            && plan.places().contains_key(&Place::Pod(key.clone()))
    };
    let (key, _) = match wanted {
        Some(wanted) => match cluster.pods.get_key_value(wanted) {
            Some((key, pod)) if can(key, pod) => (key, pod),
            Some(_) => {
                return Err(format!(
                    "pod {wanted} cannot be the one that asks: name one with an address of its own, \
                                           and not of the DNS servers"
                ));
            }
            None => return Err(format!("there is no pod {wanted} in this lab")),
        },
        None => cluster
            .pods
            .iter()
            .filter(|(key, pod)| can(key, pod))
            .max_by_key(|(key, pod)| (target(cluster, key, pod).is_some(), std::cmp::Reverse((*key).clone())))
            .ok_or("there is no pod in this lab that could ask")?,
    };
    let pod = cluster.pods.get(key).ok_or("there is no such pod")?;
    let target =
        target(cluster, key, pod).map(|(of, service)| describe(cluster, of, service)).unwrap_or_default();
    let dns = naming.service();
    let labels = cluster.services.get(&dns).and_then(|service| service.selector.clone()).unwrap_or_default();
    let outside = naming.servers.iter().filter(|server| server.role == Role::Outside);
    let public =
        outside.flat_map(|server| &server.addresses).filter(|address| !naming.above.contains(address));
    let links = plan.veths.iter().filter_map(|veth| match (&veth.here.place, &veth.there.place) {
        (Place::Fabric, Place::Node(node)) => Some((node.clone(), veth.here.name.clone())),
        _ => None,
    });
    let policies = |namespace: &str, acts: &dyn Fn(&Policy) -> bool| -> Vec<String> {
        let of_it = |policy: &&Policy| {
            policy.id.kind == PolicyKind::NetworkPolicy
                && policy.id.namespace.as_deref() == Some(namespace)
                && acts(policy)
        };
        loaded.policies.list.iter().filter(of_it).map(|policy| policy.id.name.clone()).collect()
    };
    Ok(Scene {
        client: member(&Place::Pod(key.clone()), plan),
        client_key: (key.namespace.clone(), key.name.clone()),
        target,
        service: naming.service.clone(),
        addresses: naming.cluster_dns.clone(),
        servers,
        server_labels: labels,
        server_policies: policies(&naming.service.0, &|_| true),
        client_policies: policies(&key.namespace, &|policy| policy.egress.is_some()),
        above: naming.above.clone(),
        public: public.copied().collect(),
        links: links.collect(),
        domain: DOMAIN.to_owned(),
        nobody: nobody(cluster),
    })
}

fn member(place: &Place, plan: &Plan) -> Member {
    Member {
        place: place.clone(),
        addresses: plan.addresses_of(place).to_vec(),
        node: plan.node_of(place).unwrap_or_default().to_owned(),
    }
}

/// A Service of the pod's namespace with an address of its own, and not the pod's.
fn target<'a>(cluster: &'a Cluster, key: &ObjectKey, pod: &Pod) -> Option<(&'a ObjectKey, &'a Service)> {
    let selects = |service: &Service| {
        service.selector.as_ref().is_some_and(|selector| {
            selector.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
        })
    };
    let mut services = cluster.services.iter().filter(|(of, service)| {
        of.namespace == key.namespace && !service.headless && !service.cluster_ips.is_empty()
    });
    services.find(|(_, service)| !selects(service))
}

fn describe(cluster: &Cluster, key: &ObjectKey, service: &Service) -> Target {
    let slices = slices::of(cluster, key, service, ENDPOINTS_PER_SLICE);
    let endpoints: BTreeSet<IpAddr> = slices
        .slices
        .values()
        .flat_map(|slice| &slice.endpoints)
        .flat_map(|endpoint| endpoint.addresses.clone())
        .collect();
    Target {
        name: key.name.clone(),
        fqdn: format!("{}.{}.svc.{DOMAIN}.", key.name, key.namespace),
        addresses: service.cluster_ips.clone(),
        endpoints: endpoints.into_iter().collect(),
    }
}

fn nobody(cluster: &Cluster) -> (IpAddr, IpAddr) {
    let used: BTreeSet<IpAddr> = cluster
        .services
        .values()
        .flat_map(|service| &service.cluster_ips)
        .chain(cluster.pods.values().flat_map(|pod| &pod.addresses))
        .copied()
        .collect();
    let free = |first: Ipv4Addr| {
        let mut bits = first.to_bits();
        while used.contains(&Ipv4Addr::from_bits(bits).into()) {
            bits = bits.wrapping_add(1);
        }
        IpAddr::from(Ipv4Addr::from_bits(bits))
    };
    (free(NOBODY.0), free(NOBODY.1))
}
