//! The endpoint slices of a Service: those that were given, or those that the controller would write.
//!
//! Invariant: given slices are believed as they are, whoever wrote them; slices are predicted only for a Service with
//! a selector that has none. Prediction starts from nothing: a cluster with a history may have packed the same
//! endpoints differently, into no fewer slices. Source: `staging/src/k8s.io/endpointslice` `reconciler.go`,
//! `utils.go`, `trafficdist/trafficdist.go`. Does not know the hints in proportion to CPUs that the annotation
//! `topology-mode: Auto` asks for.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Serialize;

use super::families;
use crate::model::cluster::{Cluster, ObjectKey, Pod};
use crate::model::service::{
    AddressType, Distribution, Endpoint, EndpointPort, EndpointSlice, Service, TargetPort,
};

/// The label that gives a node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// `--max-endpoints-per-slice` when not given.
pub const ENDPOINTS_PER_SLICE: usize = 100;

/// The slices of one Service.
#[derive(Clone, Debug)]
pub struct Slices<'a> {
    /// By name; predicted ones are numbered, as real ones end in chance.
    pub slices: BTreeMap<String, Cow<'a, EndpointSlice>>,
    /// True when the input has none and these are what the controller would write.
    pub predicted: bool,
    /// What the prediction had to assume, in words.
    pub assumed: Vec<String>,
    /// Pods that it leaves out since the input does not have their Nodes, in words; among those, too.
    pub left_out: Vec<String>,
}

impl Slices<'_> {
    /// Those that the cluster's proxies look at: none of headless Services, none that is another proxy's
    /// (`cmd/kube-proxy/app/server.go`).
    #[must_use]
    pub fn for_proxy(mut self) -> Self {
        self.slices.retain(|_, slice| !slice.headless && slice.proxy_name.is_none());
        self
    }
}

/// The slices that belong to a Service: by label and namespace alone, whoever wrote them
/// (`pkg/proxy/endpointslicecache.go`).
#[must_use]
pub fn of<'a>(cluster: &'a Cluster, key: &ObjectKey, service: &Service, limit: usize) -> Slices<'a> {
    let mut given = BTreeMap::new();
    let from = ObjectKey::new(&key.namespace, "");
    let of_namespace = cluster.endpoint_slices.range(from..);
    for (slice, object) in of_namespace.take_while(|(slice, _)| slice.namespace == key.namespace) {
        if object.service.as_deref() == Some(&*key.name) {
            given.insert(slice.name.clone(), Cow::Borrowed(object));
        }
    }
    or_predicted(given, cluster, key, service, limit)
}

fn or_predicted<'a>(
    given: BTreeMap<String, Cow<'a, EndpointSlice>>,
    cluster: &Cluster,
    key: &ObjectKey,
    service: &Service,
    limit: usize,
) -> Slices<'a> {
    if given.is_empty() {
        predict(cluster, key, service, limit)
    } else {
        let assumed = given.values().any(|slice| slice.mirrored).then(|| {
            "its Endpoints object is taken for the slices that the EndpointSliceMirroring controller makes of it".to_owned()
        });
        Slices {
            slices: given,
            predicted: false,
            assumed: assumed.into_iter().collect(),
            left_out: Vec::new(),
        }
    }
}

/// All slices of a cluster by Service, for who asks about every Service.
pub(super) struct ByService<'a> {
    cluster: &'a Cluster,
    slices: BTreeMap<(&'a str, &'a str), Vec<(&'a ObjectKey, &'a EndpointSlice)>>,
}

impl<'a> ByService<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        let mut slices: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, slice) in &cluster.endpoint_slices {
            if let Some(service) = &slice.service {
                slices.entry((&*key.namespace, &**service)).or_default().push((key, slice));
            }
        }
        Self { cluster, slices }
    }

    /// The same as [`of`].
    pub(super) fn of(&self, key: &ObjectKey, service: &Service, limit: usize) -> Slices<'a> {
        let given = self.slices.get(&(&*key.namespace, &*key.name)).into_iter().flatten();
        let given = given.map(|(slice, object)| (slice.name.clone(), Cow::Borrowed(*object))).collect();
        or_predicted(given, self.cluster, key, service, limit)
    }
}

/// What the controller would write if it started now.
#[must_use]
pub fn predict<'a>(cluster: &Cluster, key: &ObjectKey, service: &Service, limit: usize) -> Slices<'a> {
    let mut predicted =
        Slices { slices: BTreeMap::new(), predicted: true, assumed: Vec::new(), left_out: Vec::new() };
    let Some(selector) = &service.selector else {
        // Whoever writes slices for it is not the controller.
        return Slices { predicted: false, ..predicted };
    };
    let mut groups: BTreeMap<(AddressType, Vec<EndpointPort>), Vec<Endpoint>> = BTreeMap::new();
    let families = families(cluster, service);
    let mut assumed_ready = 0;
    // Where the input has Nodes the controller leaves pods out whose Node it does not find (`reconciler.go`), but for
    // those that are to be published whatever becomes of them.
    let has_nodes = cluster.nodes.values().any(|node| node.declared);
    let mut homeless: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, pod) in &cluster.pods {
        let selected = name.namespace == key.namespace
            && !pod.terminal
            && selector.iter().all(|(label, value)| pod.labels.get(label) == Some(value));
        if !selected {
            continue;
        }
        let node = pod.node.as_deref().filter(|_| has_nodes && !service.publish_not_ready);
        if let Some(node) = node.filter(|node| cluster.nodes.get(*node).is_none_or(|node| !node.declared)) {
            homeless.entry(node).or_default().push(&name.name);
            continue;
        }
        assumed_ready += usize::from(pod.ready.is_none());
        let ports = ports(service, pod);
        for address in addresses(cluster, pod)
            .into_iter()
            .filter(|address| families.contains(&AddressType::of(*address)))
        {
            let group = groups.entry((AddressType::of(address), ports.clone())).or_default();
            let hostname = hostname(key, name, pod);
            group.push(Endpoint { hostname, ..endpoint(cluster, service, &name.name, pod, address) });
        }
    }
    if assumed_ready > 0 {
        let pods = if assumed_ready == 1 { "1 pod".to_owned() } else { format!("{assumed_ready} pods") };
        predicted.assumed.push(format!("{pods} without a Ready condition taken for ready"));
    }
    for (node, pods) in homeless {
        let (pods, are) = match pods.as_slice() {
            [pod] => (format!("pod {pod}"), "is"),
            [first, .., last] => (format!("{} pods, {first} to {last},", pods.len()), "are"),
            [] => continue,
        };
        predicted
            .left_out
            .push(format!("{pods} {are} left out: the input has Nodes, and none is called {node}"));
    }
    predicted.assumed.extend(predicted.left_out.iter().cloned());
    for ((address_type, ports), endpoints) in groups {
        for chunk in endpoints.chunks(limit.max(1)) {
            let slice = EndpointSlice {
                service: Some(key.name.clone()),
                address_type,
                managed_by: Some("endpointslice-controller.k8s.io".to_owned()),
                headless: service.headless,
                ports: ports.clone(),
                endpoints: chunk.to_vec(),
                ..EndpointSlice::default()
            };
            let name = format!("{}-{:05}", key.name, predicted.slices.len() + 1);
            predicted.slices.insert(name, Cow::Owned(slice));
        }
    }
    predicted
}

/// A pod that uses its node's network has the node's addresses, one of each family.
fn addresses(cluster: &Cluster, pod: &Pod) -> Vec<IpAddr> {
    let node = pod.node.as_ref().filter(|_| pod.host_network).and_then(|node| cluster.nodes.get(node));
    let Some(node) = node else { return pod.addresses.clone() };
    let first = |ipv4: bool| node.addresses.iter().find(|address| address.is_ipv4() == ipv4).copied();
    [first(true), first(false)].into_iter().flatten().collect()
}

/// A pod's slice ports: a named target port is looked up in each pod, and a pod that lacks it has none.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let found: BTreeSet<EndpointPort> = service
        .ports
        .iter()
        .filter_map(|port| {
            let number = match &port.target {
                TargetPort::Number(number) => Some(*number),
                TargetPort::Name(name) => pod
                    .ports
                    .iter()
                    .find(|found| found.name.as_deref() == Some(name) && found.protocol == port.protocol)
                    .map(|found| found.number),
            }?;
            Some(EndpointPort { name: port.name.clone(), protocol: port.protocol, port: Some(number) })
        })
        .collect();
    found.into_iter().collect()
}

/// The name that an endpoint has below the Service that its pod's `subdomain` names (`endpoints/util.go`
/// `ShouldSetHostname`).
fn hostname(service: &ObjectKey, key: &ObjectKey, pod: &Pod) -> Option<String> {
    let dns = pod.dns.as_ref()?;
    let is_its = dns.subdomain.as_deref() == Some(&*service.name) && key.namespace == service.namespace;
    dns.hostname.clone().filter(|_| is_its)
}

fn endpoint(cluster: &Cluster, service: &Service, name: &str, pod: &Pod, address: IpAddr) -> Endpoint {
    let serving = pod.ready.unwrap_or(true);
    let ready = service.publish_not_ready || (serving && !pod.terminating);
    let zone = pod
        .node
        .as_ref()
        .and_then(|node| cluster.nodes.get(node))
        .and_then(|node| node.labels.get(ZONE))
        .filter(|zone| !zone.is_empty());
    let hinted = ready && !service.topology_auto;
    let node_hint =
        pod.node.as_ref().filter(|_| service.distribution == Some(Distribution::SameNode) && hinted);
    let zone_hint = zone.filter(|_| service.distribution.is_some() && hinted);
    Endpoint {
        addresses: vec![address],
        ready,
        serving,
        terminating: pod.terminating,
        hostname: None,
        node: pod.node.clone(),
        zone: zone.cloned(),
        zone_hints: zone_hint.into_iter().cloned().collect(),
        node_hints: node_hint.into_iter().cloned().collect(),
        pod: Some(name.to_owned()),
    }
}

/// Where the controller puts endpoints that are added to slices which it need not change otherwise: into the
/// fullest slice that still holds them all, else, a full slice's worth at a time, into new ones.
///
/// `sizes` are the numbers of endpoints by slice; the answer is (slice, endpoints added), `None` for a new slice.
#[must_use]
pub fn place(sizes: &BTreeMap<String, usize>, added: usize, limit: usize) -> Vec<(Option<String>, usize)> {
    let limit = limit.max(1);
    let mut placed = Vec::new();
    let mut left = added;
    while left > 0 {
        let fits = |size: usize| size.checked_add(left).is_some_and(|sum| sum <= limit);
        // Of slices that are equally full, the first by name: the controller's own choice there is chance.
        let fullest = sizes
            .iter()
            .filter(|(_, size)| fits(**size))
            .max_by(|(one, a), (other, b)| a.cmp(b).then(other.cmp(one)));
        if let Some((slice, _)) = fullest {
            placed.push((Some(slice.clone()), left));
            break;
        }
        let taken = left.min(limit);
        placed.push((None, taken));
        left -= taken;
    }
    placed
}

/// What one change costs on the wire, in bytes, after KEP-752: every node's proxy is sent the whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FanOut {
    /// Endpoints of the Service.
    pub endpoints: u64,
    /// Nodes that watch.
    pub nodes: u64,
    /// `--max-endpoints-per-slice`.
    pub per_slice: u64,
}

impl FanOut {
    /// An endpoint on the wire; the figure under the KEP's own sums.
    pub const ENDPOINT_BYTES: u64 = 100;

    /// One endpoint changes, slices.
    #[must_use]
    pub const fn change(self) -> u64 {
        let size = if self.endpoints < self.per_slice { self.endpoints } else { self.per_slice };
        size.saturating_mul(Self::ENDPOINT_BYTES).saturating_mul(self.nodes)
    }

    /// One endpoint changes, one Endpoints object with all of them.
    #[must_use]
    pub const fn change_without_slices(self) -> u64 {
        self.endpoints.saturating_mul(Self::ENDPOINT_BYTES).saturating_mul(self.nodes)
    }

    /// Every endpoint changes once, as in a rolling update.
    #[must_use]
    pub const fn rolling_update(self) -> u64 {
        self.change().saturating_mul(self.endpoints)
    }

    /// The same with one Endpoints object.
    #[must_use]
    pub const fn rolling_update_without_slices(self) -> u64 {
        self.change_without_slices().saturating_mul(self.endpoints)
    }
}

/// The slices of a Service, for people who watch them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Packing {
    /// `--max-endpoints-per-slice`.
    pub per_slice: usize,
    /// By name.
    pub slices: Vec<PackedSlice>,
    /// Where the next endpoint with the ports of most goes: a slice's name, or null for a new slice.
    pub next_endpoint: Option<String>,
    /// Bytes that all nodes together are sent when one endpoint changes.
    pub change_bytes: u64,
    /// The same if all endpoints were in one Endpoints object.
    pub change_bytes_without_slices: u64,
    /// Bytes when every endpoint changes once.
    pub rolling_update_bytes: u64,
    /// The same if all endpoints were in one Endpoints object.
    pub rolling_update_bytes_without_slices: u64,
}

/// One slice, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackedSlice {
    /// Its name.
    pub name: String,
    /// IPv4, IPv6 or FQDN.
    pub address_type: &'static str,
    /// `name:number/protocol` of each port.
    pub ports: Vec<String>,
    /// How many endpoints.
    pub endpoints: usize,
    /// How many of them are ready.
    pub ready: usize,
    /// How many are ending.
    pub terminating: usize,
}

/// Counts the slices of a Service.
#[must_use]
pub fn packing(cluster: &Cluster, key: &ObjectKey, service: &Service, limit: usize) -> Packing {
    let slices = of(cluster, key, service, limit).slices;
    let count = |slice: &EndpointSlice, is: fn(&Endpoint) -> bool| {
        slice.endpoints.iter().filter(|endpoint| is(endpoint)).count()
    };
    let packed: Vec<PackedSlice> = slices
        .iter()
        .map(|(name, slice)| PackedSlice {
            name: name.clone(),
            address_type: slice.address_type.as_str(),
            ports: slice.ports.iter().map(port_words).collect(),
            endpoints: slice.endpoints.len(),
            ready: count(slice, |endpoint| endpoint.ready),
            terminating: count(slice, |endpoint| endpoint.terminating),
        })
        .collect();
    // Slices with other ports or of another family are another group; most endpoints are in the first biggest.
    let mut groups: BTreeMap<(AddressType, &[EndpointPort]), BTreeMap<String, usize>> = BTreeMap::new();
    for (name, slice) in &slices {
        let group = groups.entry((slice.address_type, &slice.ports)).or_default();
        group.insert(name.clone(), slice.endpoints.len());
    }
    let most = groups.values().max_by_key(|group| group.values().sum::<usize>());
    let next = place(most.unwrap_or(&BTreeMap::new()), 1, limit);
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let fan_out = FanOut {
        endpoints: number(packed.iter().map(|slice| slice.endpoints).sum()),
        nodes: number(cluster.nodes.len()),
        per_slice: number(limit),
    };
    Packing {
        per_slice: limit,
        slices: packed,
        next_endpoint: next.into_iter().next().and_then(|(slice, _)| slice),
        change_bytes: fan_out.change(),
        change_bytes_without_slices: fan_out.change_without_slices(),
        rolling_update_bytes: fan_out.rolling_update(),
        rolling_update_bytes_without_slices: fan_out.rolling_update_without_slices(),
    }
}

fn port_words(port: &EndpointPort) -> String {
    let number = port.port.map_or_else(|| "all".to_owned(), |number| number.to_string());
    let name = port.name.as_ref().map(|name| format!("{name}:")).unwrap_or_default();
    format!("{name}{number}/{}", port.protocol.lower())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(sizes: &[usize]) -> BTreeMap<String, usize> {
        sizes.iter().enumerate().map(|(index, size)| (format!("s{index}"), *size)).collect()
    }

    #[test]
    fn an_endpoint_goes_where_it_fits_best() {
        let to = |slice: &str, count| vec![(Some(slice.to_owned()), count)];
        assert_eq!(place(&sizes(&[5, 5, 3]), 1, 5), to("s2", 1));
        assert_eq!(place(&sizes(&[1, 4, 3]), 1, 5), to("s1", 1));
        assert_eq!(place(&sizes(&[1, 4, 3]), 2, 5), to("s2", 2));
        assert_eq!(place(&sizes(&[5, 5]), 1, 5), [(None, 1)]);
        assert_eq!(
            place(&sizes(&[4, 4]), 2, 5),
            [(None, 2)],
            "endpoints of one change are not spread over gaps"
        );
        assert_eq!(place(&sizes(&[4]), 6, 5), [(None, 5), (Some("s0".to_owned()), 1)]);
        assert_eq!(place(&sizes(&[]), 13, 5), [(None, 5), (None, 5), (None, 3)]);
    }

    /// The sums of KEP-752 for 20,000 endpoints and 5,000 nodes.
    #[test]
    fn the_kep_s_sums_reproduce() {
        let fan_out = FanOut { endpoints: 20_000, nodes: 5_000, per_slice: 100 };
        assert_eq!(fan_out.change_without_slices(), 10_000_000_000);
        assert_eq!(fan_out.change(), 50_000_000);
        assert_eq!(fan_out.rolling_update_without_slices(), 200_000_000_000_000);
        assert_eq!(fan_out.rolling_update(), 1_000_000_000_000);
    }
}
