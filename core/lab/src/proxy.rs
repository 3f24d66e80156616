//! Rules in the shape of kube-proxy's on a node of the lab, written by the node's own `iptables-restore` or `nft`.
//!
//! Invariant: a family's rules of one mode are replaced as a whole, and are what [`netlab_core::service`] expects on
//! that node; they are not kube-proxy's own, and nothing keeps them up to date. They go with the node's namespace.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use netlab_core::model::cluster::Cluster;
use netlab_core::model::port::Protocol;
use netlab_core::model::service::AddressType;
use netlab_core::service::expected::{Action, ExpectedPort, FrontendKey, expected};
use netlab_core::service::iptables::{self, ProxyOptions};
use netlab_core::service::nftables::{self, Layout};
use netlab_node::Netns;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;

/// How a node's proxy writes its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyMode {
    /// With `iptables-restore`.
    Iptables,
    /// With `nft`.
    Nftables(Layout),
}

impl ProxyMode {
    /// The command that takes the rules of a family, with its arguments.
    fn command(self, family: AddressType) -> (&'static str, &'static [&'static str]) {
        match (self, family) {
            (Self::Iptables, AddressType::Ipv6) => ("ip6tables-restore", &[]),
            (Self::Iptables, _) => ("iptables-restore", &[]),
            (Self::Nftables(_), _) => ("nft", &["-f", "-"]),
        }
    }

    /// The command that prints the rules of a family, with its arguments.
    fn list(self, family: AddressType) -> (&'static str, &'static [&'static str]) {
        match (self, family) {
            (Self::Iptables, AddressType::Ipv6) => ("ip6tables-save", &[]),
            (Self::Iptables, _) => ("iptables-save", &[]),
            (Self::Nftables(_), AddressType::Ipv6) => {
                ("nft", &["-j", "-a", "list", "table", "ip6", nftables::TABLE])
            }
            (Self::Nftables(_), _) => ("nft", &["-j", "-a", "list", "table", "ip", nftables::TABLE]),
        }
    }
}

impl std::fmt::Display for ProxyMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Iptables => "iptables",
            Self::Nftables(_) => "nftables",
        })
    }
}

/// One endpoint, where a proxy would choose by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Only<'a> {
    /// The service port, as `namespace/name:port`.
    pub service: &'a str,
    /// The endpoint to which it leads.
    pub endpoint: SocketAddr,
    /// The address by which it is asked: others that claim it too are left out.
    pub asked: SocketAddr,
}

/// The rules of one family for one node, as text.
#[must_use]
pub fn rules(cluster: &Cluster, node: &str, mode: ProxyMode, family: AddressType) -> String {
    rules_of(cluster, &expected(cluster, node, family), mode, family)
}

fn rules_of(cluster: &Cluster, ports: &[ExpectedPort], mode: ProxyMode, family: AddressType) -> String {
    let options = options(cluster, family);
    match mode {
        ProxyMode::Iptables => iptables::emit(ports, &options),
        ProxyMode::Nftables(layout) => nftables::emit(ports, family, layout, &options),
    }
}

/// What the lab's proxies are told: as in a cluster, but not whose addresses are pods' when some pod has another.
fn options(cluster: &Cluster, family: AddressType) -> ProxyOptions {
    let options = ProxyOptions::of(cluster, family);
    let pods = cluster.pods.values().filter(|pod| !pod.host_network).flat_map(|pod| &pod.addresses);
    let mut pods = pods.filter(|address| AddressType::of(**address) == family);
    let outside = options.pod_cidr.is_some_and(|all| pods.any(|pod| !all.contains(pod)));
    if outside { ProxyOptions { pod_cidr: None, ..options } } else { options }
}

/// Writes the rules of both families on every node of a lab.
pub fn program(lab: &Lab, cluster: &Cluster, mode: ProxyMode) -> Result<(), LabError> {
    for node in nodes(lab) {
        program_node(lab, cluster, &node, mode, None)?;
    }
    Ok(())
}

/// The nodes of a lab, also those that the cluster has no object of.
fn nodes(lab: &Lab) -> Vec<String> {
    let places = lab.namespaces().keys();
    let nodes = places.filter_map(|place| match place {
        Place::Node(name) => Some(name.clone()),
        Place::Pod(_) | Place::Fabric => None,
    });
    nodes.collect()
}

/// Leaves the other Services out that claim what is asked for.
fn leave_rivals_out(ports: &mut Vec<ExpectedPort>, only: Only<'_>) {
    let is_asked = |key: &FrontendKey| {
        key.port == only.asked.port() && key.address.is_none_or(|address| address == only.asked.ip())
    };
    let is_it = |port: &ExpectedPort| port.name.to_string() == only.service;
    let own = ports.iter().filter(|port| is_it(port)).flat_map(|port| &port.frontends);
    let protocols: Vec<Protocol> =
        own.filter(|frontend| is_asked(&frontend.key)).map(|frontend| frontend.key.protocol).collect();
    let is_rival = |port: &ExpectedPort| {
        let mut keys = port.frontends.iter().map(|frontend| &frontend.key);
        keys.any(|key| is_asked(key) && protocols.contains(&key.protocol))
    };
    ports.retain(|port| is_it(port) || !is_rival(port));
}

/// The same on one node, where one Service may be led to one endpoint only.
pub fn program_node(
    lab: &Lab,
    cluster: &Cluster,
    node: &str,
    mode: ProxyMode,
    only: Option<Only<'_>>,
) -> Result<(), LabError> {
    let netns = lab.node(node)?;
    for family in [AddressType::Ipv4, AddressType::Ipv6] {
        let mut ports = expected(cluster, node, family);
        if let Some(only) = only.filter(|only| AddressType::of(only.endpoint.ip()) == family) {
            leave_rivals_out(&mut ports, only);
            for port in ports.iter_mut().filter(|port| port.name.to_string() == only.service) {
                for set in [&mut port.cluster, &mut port.local, &mut port.on_node] {
                    set.retain(|endpoint| *endpoint == only.endpoint);
                }
                // As a proxy has it where a policy leaves nothing.
                let nothing = if port.cluster.is_empty() { Action::Refuse } else { Action::Drop };
                let led = [Action::Cluster, Action::Local].map(|action| !port.endpoints(action).is_empty());
                for frontend in &mut port.frontends {
                    let is_led = match frontend.action {
                        Action::Cluster => led[0],
                        Action::Local => led[1],
                        Action::Refuse | Action::Drop => true,
                    };
                    if !is_led {
                        frontend.action = nothing;
                    }
                }
            }
        }
        write(netns, node, mode, family, &rules_of(cluster, &ports, mode, family))?;
    }
    Ok(())
}

/// Gives a node's command these rules of one family.
pub fn write(
    netns: &Netns,
    node: &str,
    mode: ProxyMode,
    family: AddressType,
    rules: &str,
) -> Result<(), LabError> {
    let (command, arguments) = mode.command(family);
    run(netns, node, command, arguments, rules).map(drop)
}

/// What a node's command prints about one family.
pub fn list(netns: &Netns, node: &str, mode: ProxyMode, family: AddressType) -> Result<String, LabError> {
    let (command, arguments) = mode.list(family);
    run(netns, node, command, arguments, "")
}

fn run(
    netns: &Netns,
    node: &str,
    command: &'static str,
    arguments: &[&str],
    input: &str,
) -> Result<String, LabError> {
    let place = || Place::Node(node.to_owned());
    let failed = |said: String| LabError::Proxy { place: place(), command, said };
    let run = || -> std::io::Result<std::process::Output> {
        let mut child = Command::new(command)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take();
        std::thread::scope(|scope| {
            // The command may print before it has read all.
            let writer =
                scope.spawn(move || stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(input.as_bytes())));
            let output = child.wait_with_output();
            // A command that ends early says why itself.
            let _ = writer.join();
            output
        })
    };
    let output = netns
        .run(run)
        .map_err(|source| LabError::Enter { place: place(), source })?
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}
