//! What a name should resolve to, told from the API's objects: Services, endpoint slices, pods, namespaces.
//!
//! Sources: the Kubernetes DNS specification 1.1.0, and where that is silent what `CoreDNS` does
//! (`plugin/kubernetes/{kubernetes,parse,reverse}.go`). Endpoints are those of `netlab_core::service::slices`. Invariant:
//! an absent name and a name without records of a type are told apart; what is outside the cluster's zone is said to be
//! outside, never absent. Does not know caches, rewrites and other plugins of the server.

mod hint;
mod name;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::port::Protocol;
use netlab_core::model::service::{Endpoint, Service, ServiceType};
use netlab_core::service::slices::{self, ENDPOINTS_PER_SLICE};
use serde::Serialize;

pub use hint::Hint;
pub use name::intended;
use name::{Asked, Form};

/// The `pods` option of the `kubernetes` plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodMode {
    /// No pod records.
    Disabled,
    /// Whatever the name says, if the namespace exists: what kubeadm writes.
    #[default]
    Insecure,
    /// Only addresses that a pod of the namespace has.
    Verified,
}

/// What is known, and how the server is set up.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The cluster's zone, `cluster.local`.
    pub domain: &'a str,
    /// Pod records.
    pub pods: PodMode,
    /// The option `endpoint_pod_names`: endpoints without a hostname are called after their pods.
    pub endpoint_pod_names: bool,
}

impl<'a> World<'a> {
    /// A cluster whose server is set up as kubeadm does it.
    #[must_use]
    pub fn new(cluster: &'a Cluster, domain: &'a str) -> Self {
        Self { cluster, domain, pods: PodMode::default(), endpoint_pod_names: false }
    }
}

/// Types of records that the cluster's zone has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum RecordType {
    /// IPv4 address.
    A,
    /// IPv6 address.
    #[serde(rename = "AAAA")]
    Aaaa,
    /// Another name.
    #[serde(rename = "CNAME")]
    Cname,
    /// The name of an address.
    #[serde(rename = "PTR")]
    Ptr,
    /// `PORT TARGET`; priority and weight are the server's own choice.
    #[serde(rename = "SRV")]
    Srv,
    /// Text.
    #[serde(rename = "TXT")]
    Txt,
}

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum What {
    /// A Service with an address of its own.
    Service {
        /// `namespace/name`.
        service: String,
    },
    /// A Service without one: its endpoints are the answer.
    Headless {
        /// `namespace/name`.
        service: String,
    },
    /// A Service that stands for a name outside.
    ExternalName {
        /// `namespace/name`.
        service: String,
    },
    /// An endpoint by its own name.
    Endpoint {
        /// `namespace/name`.
        service: String,
    },
    /// A Service's port.
    Port {
        /// `namespace/name`.
        service: String,
    },
    /// A pod by its address.
    Pod,
    /// The zone, or a name that only has names below it.
    Node,
    /// `dns-version`: the schema's own record.
    Version,
    /// The name of an address.
    Reverse,
    /// Nothing of this name.
    Nothing,
    /// Not in the cluster's zone.
    Outside,
}

/// What a server should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'t> {
    /// These records, as a set.
    Records(&'t BTreeSet<String>),
    /// An alias, which the server follows if it can.
    Alias(&'t BTreeSet<String>),
    /// NOERROR without records: the name exists, with other types.
    NoData,
    /// NXDOMAIN.
    NxDomain,
    /// Not the cluster's to say.
    Unknown,
}

/// The truth about one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Truth {
    /// The name, in lower case, with its final dot.
    pub name: String,
    /// What it is.
    pub what: What,
    /// Its records by type, as texts.
    pub records: BTreeMap<RecordType, BTreeSet<String>>,
    /// Why, in words.
    pub why: String,
    /// What else the asker may have meant, or will run into.
    pub hints: Vec<Hint>,
    /// What had to be assumed.
    pub assumed: Vec<String>,
    /// Types that are not to be found behind an alias into the zone; the server then leaves the alias out.
    #[serde(skip)]
    dead_ends: BTreeSet<RecordType>,
}

impl Truth {
    /// False when the answer is NXDOMAIN; `None` when that cannot be told.
    #[must_use]
    pub fn exists(&self) -> Option<bool> {
        match self.what {
            What::Outside => None,
            What::Nothing => Some(false),
            // Without an endpoint that is ready there is no such name.
            What::Headless { .. } | What::ExternalName { .. } => Some(!self.records.is_empty()),
            _ => Some(true),
        }
    }

    /// What a server should say to a question of this type.
    #[must_use]
    pub fn answer(&self, record: RecordType) -> Answer<'_> {
        use RecordType::{A, Aaaa, Ptr, Txt};
        match (self.exists(), self.records.get(&record), self.records.get(&RecordType::Cname)) {
            (None, ..) => Answer::Unknown,
            (Some(false), ..) => Answer::NxDomain,
            (Some(true), Some(records), _) => Answer::Records(records),
            // Only addresses are looked for behind an alias.
            (Some(true), None, Some(alias))
                if matches!(record, A | Aaaa) && !self.dead_ends.contains(&record) =>
            {
                Answer::Alias(alias)
            }
            // The plugin has nothing at an address's name but PTR, and goes on to who is asked next.
            (Some(true), None, None) if self.what == What::Reverse && record != Ptr => Answer::Unknown,
            // It knows this name by its text alone, and no text of a name without other records.
            (Some(true), None, None) if self.what == What::Version => Answer::NxDomain,
            (Some(true), None, None) if record == Txt && self.records.is_empty() => Answer::NxDomain,
            (Some(true), None, _) => Answer::NoData,
        }
    }

    fn add(&mut self, record: RecordType, text: impl Into<String>) {
        self.records.entry(record).or_default().insert(text.into());
    }

    fn add_address(&mut self, address: IpAddr) {
        let record = if address.is_ipv4() { RecordType::A } else { RecordType::Aaaa };
        self.add(record, address.to_string());
    }
}

/// What a fully qualified name should resolve to.
#[must_use]
pub fn truth(world: World<'_>, name: &str) -> Truth {
    let asked = Asked::parse(name, world.domain);
    let mut truth = Truth {
        name: asked.name.clone(),
        what: What::Nothing,
        records: BTreeMap::new(),
        why: String::new(),
        hints: Vec::new(),
        assumed: Vec::new(),
        dead_ends: BTreeSet::new(),
    };
    let exists = |namespace: &str| world.cluster.namespaces.contains_key(namespace);
    match &asked.form {
        Form::Outside => {
            truth.what = What::Outside;
            truth.why = format!("not below `{}`: the server asks others", world.domain);
        }
        Form::Apex => node(&mut truth, "it is the zone itself"),
        Form::Tree => node(&mut truth, "only names below it have records"),
        Form::Version => {
            truth.what = What::Version;
            truth.add(RecordType::Txt, "1.1.0");
            "the version of the DNS specification".clone_into(&mut truth.why);
        }
        Form::NameServer => {
            truth.what = What::Outside;
            "the zone's own name server: the addresses of the Service before the servers"
                .clone_into(&mut truth.why);
        }
        Form::Namespace(namespace) if exists(namespace) => {
            node(&mut truth, "a namespace: only names below it have records");
        }
        Form::Namespace(namespace) | Form::Pod { namespace, .. } if !exists(namespace) => {
            truth.why = format!("no namespace `{namespace}`");
            hint::namespace(world, namespace, &mut truth.hints);
        }
        Form::Namespace(_) | Form::Other => "no name of the schema has this form".clone_into(&mut truth.why),
        Form::Pod { namespace, address } => pod(world, &mut truth, namespace, *address),
        Form::Service { key } => service(world, &mut truth, key),
        Form::Endpoint { key, hostname } => endpoint(world, &mut truth, key, hostname),
        Form::Port { key, port, protocol } => self::port(world, &mut truth, key, port, protocol),
        Form::Reverse(address) => reverse(world, &mut truth, *address),
    }
    truth
}

fn node(truth: &mut Truth, why: &str) {
    truth.what = What::Node;
    why.clone_into(&mut truth.why);
}

fn pod(world: World<'_>, truth: &mut Truth, namespace: &str, address: Option<IpAddr>) {
    let Some(address) = address else {
        "a pod's name is its address with dashes".clone_into(&mut truth.why);
        return;
    };
    let has = || {
        world.cluster.pods.iter().find(|(key, pod)| {
            key.namespace == namespace && !pod.terminal && pod.addresses.contains(&address)
        })
    };
    truth.why = match world.pods {
        PodMode::Disabled => "the server has no pod records (`pods disabled`)".to_owned(),
        PodMode::Insecure => "the address stands in the name (`pods insecure`)".to_owned(),
        PodMode::Verified => match has() {
            Some((key, _)) => format!("it is the address of the pod {key}"),
            None => format!("no pod of `{namespace}` has this address (`pods verified`)"),
        },
    };
    if world.pods == PodMode::Insecure || world.pods == PodMode::Verified && has().is_some() {
        truth.what = What::Pod;
        truth.add_address(address);
    }
}

/// The endpoints that DNS may name: ready ones. `publishNotReadyAddresses` has made all of them ready already.
fn endpoints(world: World<'_>, key: &ObjectKey, service: &Service, truth: &mut Truth) -> Endpoints {
    let slices = slices::of(world.cluster, key, service, ENDPOINTS_PER_SLICE);
    truth.assumed.extend(slices.assumed.iter().cloned());
    if slices.predicted && service.selector.is_some() {
        truth.assumed.push(format!("no slice of {key} was given: these are the ones its pods would have"));
    }
    let mut endpoints = Endpoints::default();
    for slice in slices.slices.values() {
        let ports = slice
            .ports
            .iter()
            .filter_map(|port| Some((port.name.clone().unwrap_or_default(), port.protocol, port.port?)));
        let ports: NamedPorts = ports.collect();
        for endpoint in &slice.endpoints {
            if !endpoint.ready {
                endpoints.not_ready += 1;
                continue;
            }
            endpoints.not_serving += usize::from(!endpoint.serving);
            for address in &endpoint.addresses {
                let name = endpoint_name(world, endpoint, *address);
                endpoints.ready.push((name, *address, ports.clone()));
            }
        }
    }
    endpoints
}

/// Name, protocol and number.
type NamedPorts = Vec<(String, Protocol, u16)>;

#[derive(Debug, Default)]
struct Endpoints {
    ready: Vec<(String, IpAddr, NamedPorts)>,
    not_ready: usize,
    /// Ready by `publishNotReadyAddresses` alone.
    not_serving: usize,
}

/// `endpointHostname` of `plugin/kubernetes`.
fn endpoint_name(world: World<'_>, endpoint: &Endpoint, address: IpAddr) -> String {
    if let Some(hostname) = &endpoint.hostname {
        return hostname.to_lowercase();
    }
    if world.endpoint_pod_names
        && let Some(pod) = endpoint.pod.as_ref().filter(|pod| pod.len() < 64)
    {
        return pod.clone();
    }
    match address {
        IpAddr::V4(_) => address.to_string().replace('.', "-"),
        IpAddr::V6(_) => {
            let dashed = address.to_string().replace(':', "-");
            // No label ends in a dash.
            if dashed.ends_with('-') { dashed + "0" } else { dashed }
        }
    }
}

/// The Service, or why there is none of this name.
fn found<'a>(world: World<'a>, truth: &mut Truth, key: &ObjectKey) -> Option<&'a Service> {
    let service = world.cluster.services.get(key);
    if service.is_none() {
        truth.why = if world.cluster.namespaces.contains_key(&key.namespace) {
            format!("namespace `{}` has no Service `{}`", key.namespace, key.name)
        } else {
            format!("no namespace `{}`", key.namespace)
        };
        hint::service(world, key, &mut truth.hints);
    }
    service
}

fn fqdn(world: World<'_>, key: &ObjectKey) -> String {
    format!("{}.{}.svc.{}.", key.name, key.namespace, world.domain).to_lowercase()
}

fn service(world: World<'_>, truth: &mut Truth, key: &ObjectKey) {
    let Some(service) = found(world, truth, key) else { return };
    let own = fqdn(world, key);
    if service.service_type == ServiceType::ExternalName {
        truth.what = What::ExternalName { service: key.to_string() };
        external_name(world, service, truth);
        return;
    }
    let endpoints = endpoints(world, key, service, truth);
    if service.headless {
        truth.what = What::Headless { service: key.to_string() };
        for (name, address, ports) in &endpoints.ready {
            truth.add_address(*address);
            for (_, _, port) in ports {
                truth.add(RecordType::Srv, format!("{port} {name}.{own}"));
            }
        }
        let ready = endpoints.ready.len();
        truth.why = match (ready, endpoints.not_ready) {
            (0, 0) => "headless, and it has no endpoint: no such name".to_owned(),
            (0, count) => format!("headless, and none of its {count} endpoints is ready: no such name"),
            (ready, _) => format!("headless: {ready} of its endpoints are ready"),
        };
        hint::headless(service, ready, endpoints.not_ready, endpoints.not_serving, &mut truth.hints);
        return;
    }
    truth.what = What::Service { service: key.to_string() };
    for address in &service.cluster_ips {
        truth.add_address(*address);
    }
    for port in &service.ports {
        truth.add(RecordType::Srv, format!("{} {own}", port.port));
    }
    if service.cluster_ips.is_empty() {
        truth.assumed.push(format!("{key} has no cluster IP in the input"));
    }
    "a Service with an address of its own".clone_into(&mut truth.why);
    if endpoints.ready.is_empty() {
        truth.hints.push(Hint::NoEndpoints { not_ready: endpoints.not_ready });
    }
}

fn external_name(world: World<'_>, service: &Service, truth: &mut Truth) {
    let target = service.external_name.as_deref().unwrap_or_default().trim_end_matches('.');
    if target.is_empty() || target.parse::<IpAddr>().is_ok() {
        truth.why = format!("its externalName `{target}` is no name, so it has no record");
        truth.hints.push(Hint::ExternalNameNoName { target: target.to_owned() });
        return;
    }
    truth.add(RecordType::Cname, format!("{}.", target.to_lowercase()));
    truth.why = format!("an alias of {target}");
    let further = Asked::parse(target, world.domain);
    if further.form == Form::Outside {
        return;
    }
    let end = end_of_aliases(world, &truth.name, further);
    for record in [RecordType::A, RecordType::Aaaa] {
        let is_dead = |end: &Truth| matches!(end.answer(record), Answer::NoData | Answer::NxDomain);
        if end.as_ref().is_none_or(is_dead) {
            truth.dead_ends.insert(record);
        }
    }
    if let Some(end) = end.filter(|end| end.exists() == Some(false)) {
        truth.hints.push(Hint::ExternalNameDangles { target: end.name });
    }
}

/// What stands behind aliases within the zone; `None` when they go in a circle.
fn end_of_aliases(world: World<'_>, from: &str, first: Asked) -> Option<Truth> {
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut asked = first;
    loop {
        if !seen.insert(asked.name.clone()) {
            return None;
        }
        let alias = match &asked.form {
            Form::Service { key } => world.cluster.services.get(key),
            _ => None,
        };
        let target = alias
            .filter(|service| service.service_type == ServiceType::ExternalName)
            .and_then(|service| service.external_name.as_deref())
            .filter(|target| !target.is_empty() && target.parse::<IpAddr>().is_err());
        match target {
            Some(target) => asked = Asked::parse(target, world.domain),
            None => return Some(truth(world, &asked.name)),
        }
    }
}

fn endpoint(world: World<'_>, truth: &mut Truth, key: &ObjectKey, hostname: &str) {
    let Some(service) = found(world, truth, key) else { return };
    if service.service_type == ServiceType::ExternalName {
        truth.why = format!("{key} is an alias: it has no endpoints");
        return;
    }
    let endpoints = endpoints(world, key, service, truth);
    let own = fqdn(world, key);
    for (name, address, ports) in endpoints.ready.iter().filter(|(name, ..)| name == hostname) {
        truth.what = What::Endpoint { service: key.to_string() };
        truth.add_address(*address);
        for (_, _, port) in ports {
            truth.add(RecordType::Srv, format!("{port} {name}.{own}"));
        }
    }
    if truth.what == What::Nothing {
        truth.why = format!("{key} has no ready endpoint called `{hostname}`");
        let known: BTreeSet<String> = endpoints.ready.into_iter().map(|(name, ..)| name).collect();
        truth.hints.push(Hint::EndpointNames { known: known.into_iter().collect() });
        hint::stateful(world, key, hostname, &mut truth.hints);
    } else {
        truth.why = format!("an endpoint of {key}");
    }
}

fn port(world: World<'_>, truth: &mut Truth, key: &ObjectKey, port: &str, protocol: &str) {
    let Some(service) = found(world, truth, key) else { return };
    let own = fqdn(world, key);
    let is = |name: &str, of: Protocol| {
        name.eq_ignore_ascii_case(port) && of.as_str().eq_ignore_ascii_case(protocol)
    };
    if service.headless {
        for (name, address, ports) in endpoints(world, key, service, truth).ready {
            for (_, _, number) in ports.iter().filter(|(name, of, _)| is(name, *of)) {
                truth.add(RecordType::Srv, format!("{number} {name}.{own}"));
                truth.add_address(address);
            }
        }
    } else if service.service_type != ServiceType::ExternalName {
        for found in &service.ports {
            if found.name.as_deref().is_some_and(|name| is(name, found.protocol)) {
                truth.add(RecordType::Srv, format!("{} {own}", found.port));
                service.cluster_ips.iter().for_each(|address| truth.add_address(*address));
            }
        }
    }
    if truth.records.is_empty() {
        truth.why = format!("{key} has no port `{port}` of protocol {protocol}");
        let names = service.ports.iter().map(|port| {
            let name = port.name.as_deref().unwrap_or("(unnamed)");
            format!("{name}/{}", port.protocol.lower())
        });
        truth.hints.push(Hint::PortNames { known: names.collect() });
    } else {
        truth.what = What::Port { service: key.to_string() };
        truth.why = format!("a port of {key}");
    }
}

/// `serviceRecordForIP`: a Service's address first, then endpoints.
fn reverse(world: World<'_>, truth: &mut Truth, address: IpAddr) {
    let services = &world.cluster.services;
    if let Some((key, _)) = services.iter().find(|(_, service)| service.cluster_ips.contains(&address)) {
        truth.what = What::Reverse;
        truth.add(RecordType::Ptr, fqdn(world, key));
        truth.why = format!("the address of {key}");
        return;
    }
    for (key, service) in services {
        for (name, _, _) in
            endpoints(world, key, service, truth).ready.iter().filter(|(_, found, _)| *found == address)
        {
            truth.what = What::Reverse;
            truth.add(RecordType::Ptr, format!("{name}.{}", fqdn(world, key)));
        }
    }
    truth.assumed.sort();
    truth.assumed.dedup();
    if truth.what == What::Nothing {
        truth.assumed.clear();
        truth.what = What::Outside;
        "no Service or ready endpoint has this address: the server asks others, if it falls through"
            .clone_into(&mut truth.why);
    } else {
        "the address of an endpoint".clone_into(&mut truth.why);
    }
}
