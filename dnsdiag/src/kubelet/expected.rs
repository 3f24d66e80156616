//! The `resolv.conf` that kubelet asks the runtime to write for a pod.
//!
//! Source: `GetPodDNS` and what it calls, `pkg/kubelet/network/dns/dns.go`. Invariant: every line says where it came from,
//! and what a limit took away is kept with the reason. Order of options: as merged here; kubelet's own is chance, so
//! compare them as sets. Does not know what the runtime makes of it, but for an empty one.

use std::fmt;
use std::net::IpAddr;

use netlab_core::model::pod_dns::PodDns;
use netlab_core::model::source::Position;

use super::config::{GateState, KubeletConfig};
use super::host_file::{HostFile, name};

/// How long the lists may be (`pkg/apis/core/validation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `search` domains.
    pub searches: usize,
    /// Bytes of the joined `search` domains.
    pub bytes: usize,
}

impl Limits {
    /// Since 1.28; from 1.22 with the gate `ExpandedDNSConfig`, which is on from 1.26.
    pub const EXPANDED: Self = Self { searches: 32, bytes: 2048 };
    /// Before.
    pub const LEGACY: Self = Self { searches: 6, bytes: 256 };
    /// `nameserver` lines, always.
    pub const NAMESERVERS: usize = 3;
    /// Bytes of one `search` domain: longer ones made some glibc abort.
    pub const DOMAIN: usize = 253;

    /// Those of a configuration: legacy where it says so.
    #[must_use]
    pub fn of(config: &KubeletConfig) -> Self {
        match config.gate("ExpandedDNSConfig") {
            GateState::Off => Self::LEGACY,
            GateState::On | GateState::Default => Self::EXPANDED,
        }
    }
}

/// An address family of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// A node: what its kubelet knows.
#[derive(Clone, Debug)]
pub struct NodeDns<'a> {
    /// Its configuration.
    pub config: &'a KubeletConfig,
    /// The file that `resolvConf` names; `None` when it was not given.
    pub host: Option<&'a HostFile>,
    /// The families of the node's addresses, in order.
    pub families: &'a [Family],
    /// The version's limits.
    pub limits: Limits,
}

/// A pod.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// What the spec says about DNS.
    pub dns: Option<&'a PodDns>,
}

/// `spec.dnsPolicy`, and what kubelet makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The cluster's servers.
    ClusterFirst,
    /// The same, for pods on the host's network too.
    ClusterFirstWithHostNet,
    /// The node's file.
    Default,
    /// Nothing but `dnsConfig`.
    None,
    /// Not one of these: kubelet logs it and does as for `ClusterFirst` off the host's network.
    Unknown,
}

impl Policy {
    /// Of a pod; `ClusterFirst` when absent.
    #[must_use]
    pub fn of(dns: Option<&PodDns>) -> Self {
        match dns.and_then(|dns| dns.policy.as_deref()) {
            None | Some("ClusterFirst") => Self::ClusterFirst,
            Some("ClusterFirstWithHostNet") => Self::ClusterFirstWithHostNet,
            Some("Default") => Self::Default,
            Some("None") => Self::None,
            Some(_) => Self::Unknown,
        }
    }

    /// The base that the pod starts from.
    const fn base(self, host_network: bool) -> Base {
        match self {
            Self::None => Base::Empty,
            Self::ClusterFirst if host_network => Base::Host,
            Self::Default => Base::Host,
            Self::ClusterFirst | Self::ClusterFirstWithHostNet | Self::Unknown => Base::Cluster,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Cluster,
    Host,
    Empty,
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// `clusterDNS` or `clusterDomain` of the kubelet's configuration.
    KubeletConfig(Option<Position>),
    /// A line of the node's file.
    HostFile(u32),
    /// `spec.dnsConfig`, with the place in its list.
    PodSpec(usize),
    /// Kubelet itself: `ndots:5`, or what stands for an absent file.
    BuiltIn,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KubeletConfig(Some(place)) => write!(f, "the kubelet's configuration, line {}", place.line),
            Self::KubeletConfig(None) => f.write_str("the kubelet's configuration"),
            Self::HostFile(line) => write!(f, "the node's file, line {line}"),
            Self::PodSpec(index) => write!(f, "the pod's dnsConfig, element {index}"),
            Self::BuiltIn => f.write_str("kubelet"),
        }
    }
}

/// A value of the file, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: String,
    /// Where from.
    pub from: Origin,
}

/// Why a value is not in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// More than three nameservers.
    Nameservers,
    /// More search domains than the version takes.
    Searches,
    /// One search domain longer than 253 bytes.
    Domain,
    /// Search domains that are too long together.
    Bytes,
}

/// A value that a limit took away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The value.
    pub entry: Entry,
    /// The limit.
    pub why: Why,
}

/// An event that kubelet writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `DNSConfigForming` or `MissingClusterDNS`.
    pub reason: &'static str,
    /// Its text.
    pub message: String,
}

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// `nameserver` lines.
    pub nameservers: Vec<Entry>,
    /// `search` domains.
    pub searches: Vec<Entry>,
    /// `options`, to be compared as a set.
    pub options: Vec<Entry>,
    /// What limits took away.
    pub cut: Vec<Cut>,
    /// Events on the pod.
    pub events: Vec<Event>,
    /// True when the node's file would add to this and was not given: more search domains, or everything.
    pub host_file_missing: bool,
}

impl Expected {
    /// True when kubelet gives the runtime nothing at all, and runtimes then copy the node's `/etc/resolv.conf`.
    #[must_use]
    pub fn runtime_copies_host_file(&self) -> bool {
        self.nameservers.is_empty() && self.searches.is_empty() && self.options.is_empty()
    }

    /// The file as runtimes write it: search, nameservers, options.
    #[must_use]
    pub fn text(&self) -> String {
        let joined = |entries: &[Entry]| values(entries).join(" ");
        let mut text = String::new();
        if !self.searches.is_empty() {
            text += &format!("search {}\n", joined(&self.searches));
        }
        for nameserver in &self.nameservers {
            text += &format!("nameserver {}\n", nameserver.value);
        }
        if !self.options.is_empty() {
            text += &format!("options {}\n", joined(&self.options));
        }
        text
    }
}

fn values(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.value.as_str()).collect()
}

/// What kubelet asks the runtime to write for a pod on a node.
#[must_use]
pub fn expected(pod: Subject<'_>, node: &NodeDns<'_>) -> Expected {
    let mut file = Expected::default();
    match Policy::of(pod.dns).base(pod.host_network) {
        Base::Empty => {}
        Base::Cluster if node.config.cluster_dns.is_empty() => {
            file.events.push(Event {
                reason: "MissingClusterDNS",
                message: "kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                          \"ClusterFirst\" policy. Falling back to \"Default\" policy."
                    .to_owned(),
            });
            host_base(&mut file, node);
        }
        Base::Cluster => cluster_base(&mut file, pod.namespace, node),
        Base::Host => host_base(&mut file, node),
    }
    if let Some(config) = pod.dns.and_then(|dns| dns.config.as_ref()) {
        let listed = |values: &[String]| -> Vec<Entry> {
            let entry = |(index, value): (usize, &String)| Entry {
                value: value.clone(),
                from: Origin::PodSpec(index),
            };
            values.iter().enumerate().map(entry).collect()
        };
        file.nameservers.extend(listed(&config.nameservers));
        file.searches.extend(listed(&config.searches));
        omit_duplicates(&mut file.nameservers);
        omit_duplicates(&mut file.searches);
        let of_pod = config.options.iter().enumerate().map(|(index, (name, value))| {
            let value = value.as_deref().filter(|value| !value.is_empty());
            let written = value.map_or_else(|| name.clone(), |value| format!("{name}:{value}"));
            (name.as_str(), Entry { value: written, from: Origin::PodSpec(index) })
        });
        merge_options(&mut file.options, of_pod);
    }
    fit(&mut file, node.limits);
    file
}

fn cluster_base(file: &mut Expected, namespace: &str, node: &NodeDns<'_>) {
    let config = node.config;
    file.nameservers = config
        .cluster_dns
        .iter()
        .map(|dns| Entry { value: dns.value.to_string(), from: Origin::KubeletConfig(dns.position) })
        .collect();
    let domain = config.cluster_domain.as_str();
    let from = Origin::KubeletConfig(config.place("clusterDomain"));
    if !domain.is_empty() {
        let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
        file.searches = own.into_iter().map(|value| Entry { value, from }).collect();
    }
    match node.host {
        Some(host) => file.searches.extend(from_host(&host.searches)),
        None => file.host_file_missing = !config.host_file().is_empty(),
    }
    if !domain.is_empty() {
        omit_duplicates(&mut file.searches);
    }
    file.options = vec![Entry { value: "ndots:5".to_owned(), from: Origin::BuiltIn }];
}

fn host_base(file: &mut Expected, node: &NodeDns<'_>) {
    let built_in = |value: &str| Entry { value: value.to_owned(), from: Origin::BuiltIn };
    if node.config.host_file().is_empty() {
        let loopback = |family: &Family| match family {
            Family::V4 => built_in("127.0.0.1"),
            Family::V6 => built_in("::1"),
        };
        file.nameservers = node.families.iter().map(loopback).collect();
        if file.nameservers.is_empty() {
            file.nameservers = vec![built_in("127.0.0.1")];
        }
        file.searches = vec![built_in(".")];
        return;
    }
    match node.host {
        Some(host) => {
            file.nameservers = from_host(&host.nameservers).collect();
            file.searches = from_host(&host.searches).collect();
            file.options = from_host(&host.options).collect();
        }
        None => file.host_file_missing = true,
    }
}

fn from_host(lines: &[super::HostLine]) -> impl Iterator<Item = Entry> + '_ {
    lines.iter().map(|line| Entry { value: line.value.clone(), from: Origin::HostFile(line.line) })
}

/// Keeps the first of each value.
fn omit_duplicates(entries: &mut Vec<Entry>) {
    let mut seen = std::collections::BTreeSet::new();
    entries.retain(|entry| seen.insert(entry.value.clone()));
}

/// The last of each name, at the place of its first.
fn merge_options<'n>(options: &mut Vec<Entry>, of_pod: impl Iterator<Item = (&'n str, Entry)>) {
    let mut merged: Vec<(String, Entry)> = Vec::new();
    let base = std::mem::take(options).into_iter().map(|entry| (name(&entry.value).to_owned(), entry));
    for (key, entry) in base.chain(of_pod.map(|(name, entry)| (name.to_owned(), entry))) {
        match merged.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = entry,
            None => merged.push((key, entry)),
        }
    }
    options.extend(merged.into_iter().map(|(_, entry)| entry));
}

/// `formDNSConfigFitsLimits`: the number first, then each length, then the length of all.
fn fit(file: &mut Expected, limits: Limits) {
    let forming = |message: String| Event { reason: "DNSConfigForming", message };
    let mut cut = |entries: Vec<Entry>, why: Why| {
        file.cut.extend(entries.into_iter().map(|entry| Cut { entry, why }));
    };
    if file.nameservers.len() > Limits::NAMESERVERS {
        cut(file.nameservers.split_off(Limits::NAMESERVERS), Why::Nameservers);
        file.events.push(forming(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            values(&file.nameservers).join(" ")
        )));
    }
    let before = file.searches.len();
    if file.searches.len() > limits.searches {
        cut(file.searches.split_off(limits.searches), Why::Searches);
    }
    let (short, long) = std::mem::take(&mut file.searches)
        .into_iter()
        .partition(|entry: &Entry| entry.value.len() <= Limits::DOMAIN);
    file.searches = short;
    cut(long, Why::Domain);
    while values(&file.searches).join(" ").len() > limits.bytes {
        cut(file.searches.pop().into_iter().collect(), Why::Bytes);
    }
    if file.searches.len() < before {
        file.events.push(forming(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            values(&file.searches).join(" ")
        )));
    }
}
