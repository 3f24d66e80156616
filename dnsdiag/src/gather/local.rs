//! This machine as the place to look at: a pod's namespaces, its node's, and manifests for what only the API knows.
//!
//! Invariant: everything is read in a namespace or below a root that was given. The process's own network, its `resolv.conf` and
//! its environment are never looked at: where no node was given there is nothing to tell about one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use netlab_core::model::service::AddressType;
use netlab_node::container::Container;
use netlab_node::{Netns, dump};
use netlab_plugin::evidence::Position;

use super::{Files, Found, Prober};
use crate::bundle::layout;
use crate::probe::{Observation, Order, Probe};

/// Where a pod's `/etc` is.
#[derive(Debug)]
pub enum PodFiles {
    /// In a container on this machine.
    Container(Container),
    /// In a directory that stands for it: a lab keeps its pods' files so.
    Directory(PathBuf),
}

impl PodFiles {
    fn text(&self, name: &str) -> Found {
        let (read, path) = match self {
            Self::Container(container) => {
                let path = format!("/etc/{name}");
                (container.text(&path).map_err(|error| in_words(&error)), path)
            }
            Self::Directory(directory) => {
                let path = directory.join(name);
                let read = match std::fs::read_to_string(&path) {
                    Ok(text) => Ok(Some(text)),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error.to_string()),
                };
                (read, path.display().to_string())
            }
        };
        match read {
            Ok(Some(text)) => Found::Text(text),
            Ok(None) => Found::Absent,
            Err(why) => Found::Failed(format!("{path}: {why}")),
        }
    }
}

/// Files of this machine, and what was given.
#[derive(Debug, Default)]
pub struct LocalFiles {
    /// Texts that somebody gave, by the id of the file; they come first.
    pub given: BTreeMap<String, String>,
    /// The pod's `/etc`.
    pub pod_files: Option<PodFiles>,
    /// The pod's network namespace.
    pub pod: Option<Netns>,
    /// The host network namespace of the pod's node.
    pub node: Option<Netns>,
    /// That node's name.
    pub node_name: String,
    /// A process of that node that is in no container: the node's own files are those that it sees.
    pub node_root: Option<Container>,
    /// Namespaces of which UDP's losses are counted besides: those of DNS pods, by owner (`pod/NAMESPACE/NAME`).
    pub counted: BTreeMap<String, Netns>,
    /// Which family's rules are looked at first: that of the pod's first DNS server.
    pub ipv6: bool,
    /// Those of the other are looked at, too: it has servers of both.
    pub both: bool,
}

impl Files for LocalFiles {
    fn read(&self, id: &str) -> Found {
        if let Some(text) = self.given.get(id) {
            return Found::Text(text.clone());
        }
        match id {
            layout::POD_RESOLV_CONF => self.pod_file("resolv.conf"),
            layout::POD_HOSTS => self.pod_file("hosts"),
            layout::POD_NSSWITCH => self.pod_file("nsswitch.conf"),
            layout::POD_IPTABLES => self.in_pod(|netns| dump::iptables_save(netns, self.family())),
            layout::POD_NFT => self.in_pod(dump::nft_text),
            layout::POD_ROUTES => self.in_pod(dump::addresses),
            layout::POD_SOCKETS => self.in_pod(dump::udp_sockets),
            layout::NODE_ADDRESSES => self.on_node(dump::addresses),
            layout::NODE_CONNTRACK => self.on_node(dump::conntrack),
            layout::NODE_IPTABLES | layout::NODE_IP6TABLES | layout::NODE_NFT => self.proxy(id),
            layout::KUBELET => self.node_file("/var/lib/kubelet/config.yaml"),
            layout::NODE_RESOLV_CONF => self.node_resolv_conf(),
            _ => Found::NotLooked,
        }
    }

    fn counters(&self) -> BTreeMap<String, BTreeMap<String, f64>> {
        let mut by_owner = BTreeMap::new();
        if let Some(node) = &self.node {
            by_owner.insert(self.node_name.clone(), of_node(node));
        }
        for (owner, netns) in &self.counted {
            by_owner.insert(owner.clone(), udp(netns));
        }
        by_owner.retain(|_, counters| !counters.is_empty());
        by_owner
    }
}

/// Values of a node by which rules judge: where packets are dropped for their source, and whether a bridge passes the rules.
const SYSCTLS: [&str; 3] = [
    "net.ipv4.conf.*.rp_filter",
    "net.bridge.bridge-nf-call-iptables",
    "net.netfilter.nf_conntrack_udp_timeout",
];

fn of_node(node: &Netns) -> BTreeMap<String, f64> {
    let mut counters = udp(node);
    for (name, value) in dump::conntrack_counters(node).unwrap_or_default() {
        counters.insert(format!("conntrack.{name}"), precise(value));
    }
    let dropped = dump::extended_counters(node).unwrap_or_default().remove("TcpExt.IPReversePathFilter");
    if let Some(value) = dropped.and_then(|value| u64::try_from(value).ok()) {
        counters.insert("netstat.IPReversePathFilter".to_owned(), precise(value));
    }
    for (name, value) in dump::sysctls(node, &SYSCTLS).unwrap_or_default() {
        if let Ok(value) = u64::try_from(value) {
            counters.insert(format!("sysctl.{name}"), precise(value));
        }
    }
    counters
}

/// What UDP lost for want of room, and what it took for garbage.
fn udp(netns: &Netns) -> BTreeMap<String, f64> {
    let counters = dump::protocol_counters(netns).unwrap_or_default();
    let of_udp = counters.into_iter().filter_map(|(name, value)| {
        Some((format!("udp.{}", name.strip_prefix("Udp.")?), precise(u64::try_from(value).ok()?)))
    });
    of_udp.collect()
}

/// Counters stay below 2^53 in the life of a machine.
#[expect(clippy::cast_precision_loss, reason = "JSON has no other numbers")]
fn precise(value: u64) -> f64 {
    value as f64
}

impl LocalFiles {
    /// Finds out, from what is given, the name of the pod's node and the family of its DNS servers.
    pub fn look(&mut self, target: &netlab_plugin::check::Target) {
        let mut evidence = netlab_plugin::evidence::Evidence::default();
        for id in [layout::PODS, layout::SERVICES, layout::POD_RESOLV_CONF] {
            if let Found::Text(text) = self.read(id) {
                evidence.facts.insert(id.to_owned(), netlab_plugin::evidence::Fact::Text { text });
            }
        }
        let view = crate::view::View::new(target, &evidence);
        if let Some(node) = view.subject().and_then(|subject| subject.node().map(str::to_owned)) {
            self.node_name = node;
        }
        self.ipv6 = view.nameservers().into_iter().chain(view.vips()).next().is_some_and(|one| one.is_ipv6());
        self.both = view.has_both_families();
    }

    /// The family of the pod's own rules that are read.
    fn family(&self) -> AddressType {
        if self.ipv6 { AddressType::Ipv6 } else { AddressType::Ipv4 }
    }

    fn pod_file(&self, name: &str) -> Found {
        self.pod_files.as_ref().map_or(Found::NotLooked, |files| files.text(name))
    }

    fn in_pod(&self, read: impl FnOnce(&Netns) -> Result<String, netlab_node::NodeError>) -> Found {
        self.pod.as_ref().map_or(Found::NotLooked, |netns| found(read(netns)))
    }

    fn on_node(&self, read: impl FnOnce(&Netns) -> Result<String, netlab_node::NodeError>) -> Found {
        self.node.as_ref().map_or(Found::NotLooked, |netns| found(read(netns)))
    }

    /// The rules of the proxy that this node has: of nftables when it has that table, else of iptables. The other file would
    /// hold rules of others and is left out.
    fn proxy(&self, id: &str) -> Found {
        let Some(node) = &self.node else { return Found::NotLooked };
        let (first, second) = if self.ipv6 {
            (AddressType::Ipv6, AddressType::Ipv4)
        } else {
            (AddressType::Ipv4, AddressType::Ipv6)
        };
        let mut tables = Vec::new();
        for family in [Some(first), self.both.then_some(second)].into_iter().flatten() {
            match dump::nft_table(node, family, "kube-proxy") {
                Ok(table) => tables.extend(table),
                // Without nft there may still be iptables.
                Err(_) if id != layout::NODE_NFT => {}
                Err(error) => return Found::Failed(in_words(&error)),
            }
        }
        match (tables.is_empty(), id) {
            (false, layout::NODE_NFT) => one_list(&tables),
            // Of both, each has its file; of one, its rules are in the first, whatever it is.
            (true, layout::NODE_IPTABLES) if self.both => found(dump::iptables_save(node, AddressType::Ipv4)),
            (true, layout::NODE_IPTABLES) => found(dump::iptables_save(node, first)),
            (true, layout::NODE_IP6TABLES) if self.both => {
                found(dump::iptables_save(node, AddressType::Ipv6))
            }
            _ => Found::NotLooked,
        }
    }

    fn node_file(&self, path: &str) -> Found {
        let Some(root) = &self.node_root else { return Found::NotLooked };
        match root.text(path) {
            Ok(Some(text)) => Found::Text(text),
            // A kubelet may have its file anywhere: that it is not here says nothing.
            Ok(None) => Found::Failed(format!("the node has no {path}")),
            Err(error) => Found::Failed(in_words(&error)),
        }
    }

    /// The file that the kubelet's `resolvConf` names.
    fn node_resolv_conf(&self) -> Found {
        let configured = match self.read(layout::KUBELET) {
            Found::Text(text) => crate::kubelet::KubeletConfig::read(&netlab_core::input::Document {
                name: layout::KUBELET.into(),
                text: text.into(),
            })
            .ok(),
            _ => None,
        };
        let path = configured.as_ref().map_or("/etc/resolv.conf", crate::kubelet::KubeletConfig::host_file);
        if path.is_empty() { Found::Absent } else { self.node_file(path) }
    }
}

/// What `nft -j` printed of several tables, as it prints them of all.
fn one_list(tables: &[String]) -> Found {
    let [first, others @ ..] = tables else { return Found::NotLooked };
    if others.is_empty() {
        return Found::Text(first.clone());
    }
    let mut all = Vec::new();
    for table in tables {
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(table) else {
            return Found::Failed("`nft -j list table` printed no JSON".to_owned());
        };
        if let Some(items) = value.get_mut("nftables").and_then(serde_json::Value::as_array_mut) {
            all.append(items);
        }
    }
    Found::Text(serde_json::json!({ "nftables": all }).to_string())
}

fn found(read: Result<String, netlab_node::NodeError>) -> Found {
    match read {
        Ok(text) => Found::Text(text),
        Err(error) => Found::Failed(in_words(&error)),
    }
}

/// An error with its causes, on one line.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// Asks from namespaces of this machine.
#[derive(Debug, Default)]
pub struct LocalProber {
    /// The pod's.
    pub pod: Option<Netns>,
    /// Its node's.
    pub node: Option<Netns>,
    /// Those of the DNS pods, by their address.
    pub dns_pods: BTreeMap<IpAddr, Netns>,
}

impl LocalProber {
    /// What stands for a position when this server is asked.
    fn netns(&self, from: &Position, server: IpAddr) -> Result<&Netns, String> {
        let netns = match from {
            Position::Pod => self.pod.as_ref(),
            Position::Node => self.node.as_ref(),
            Position::DnsPod => self.dns_pods.get(&server),
            Position::OtherPod { .. } | Position::OtherNode(_) => None,
        };
        netns.ok_or_else(|| format!("no network namespace stands for {from}"))
    }
}

impl Prober for LocalProber {
    fn positions(&self) -> Vec<Position> {
        let mut positions = Vec::new();
        positions.extend(self.pod.as_ref().map(|_| Position::Pod));
        positions.extend(self.node.as_ref().map(|_| Position::Node));
        positions.extend((!self.dns_pods.is_empty()).then_some(Position::DnsPod));
        positions
    }

    fn ask(&self, from: &Position, probe: &Probe) -> Result<Observation, String> {
        let sent = self.netns(from, probe.server.ip())?.run(|| probe.send());
        sent.map_err(|error| in_words(&error))?.map_err(|error| in_words(&error))
    }

    fn ask_together(
        &self,
        from: &Position,
        probes: &[Probe],
        order: Order,
    ) -> Result<Vec<Observation>, String> {
        let Some(first) = probes.first() else { return Ok(Vec::new()) };
        let sent = self.netns(from, first.server.ip())?.run(|| Probe::send_together(probes, order));
        sent.map_err(|error| in_words(&error))?.map_err(|error| in_words(&error))
    }
}
