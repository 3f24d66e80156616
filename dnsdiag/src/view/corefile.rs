//! What rules ask of the DNS servers' configuration, read by [`crate::corefile`].
//!
//! Invariant: answers are of the recorded Corefile alone; without it there are none.

use std::net::{IpAddr, SocketAddr};

use super::View;
use crate::bundle::layout;
use crate::corefile::{Corefile, Known, Problem, arguments, known, parse};

/// A `forward` plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The zone that it takes.
    pub from: String,
    /// Where to, as written.
    pub to: Vec<String>,
    /// The line, from 1.
    pub line: usize,
}

impl View<'_> {
    /// The Corefile.
    #[must_use]
    pub fn corefile(&self) -> Option<Corefile> {
        Some(parse(self.text(layout::COREFILE)?))
    }

    /// Why the server would refuse the Corefile, if it would.
    #[must_use]
    pub fn corefile_refused(&self) -> Option<Problem> {
        let corefile = self.corefile()?;
        if let Some(problem) = corefile.problems.iter().find(|problem| !problem.harmless) {
            return Some(problem.clone());
        }
        for block in &corefile.blocks {
            for (number, plugin) in block.plugins.iter().enumerate() {
                let name = plugin.name.text.as_str();
                if matches!(known(name), Known::Unknown { .. } | Known::Removed { .. }) {
                    return Some(Problem {
                        position: plugin.name.position,
                        message: format!("Unknown directive '{name}'"),
                        hint: "correct its name, or take it out",
                        harmless: false,
                    });
                }
                let earlier = block.plugins.get(..number).unwrap_or_default();
                let earlier = earlier.iter().filter(|other| other.name.text == name).count();
                let problem = arguments(plugin, earlier).into_iter().find(|problem| !problem.harmless);
                if problem.is_some() {
                    return problem;
                }
            }
        }
        None
    }

    /// The `forward` plugins.
    #[must_use]
    pub fn forwards(&self) -> Vec<Forward> {
        let Some(corefile) = self.corefile() else { return Vec::new() };
        let plugins = corefile.blocks.iter().flat_map(|block| block.all("forward"));
        let forward = |plugin: &crate::corefile::Plugin| {
            let mut words = plugin.words().map(str::to_owned);
            let from = words.next()?;
            let line = usize::try_from(plugin.name.position.line).unwrap_or_default();
            Some(Forward { from, to: words.collect(), line })
        };
        plugins.filter_map(forward).collect()
    }

    /// The zones of the `kubernetes` plugins without their last dot, with the line; a plugin without zones has those of its
    /// block.
    #[must_use]
    pub fn kubernetes_zones(&self) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        for block in self.corefile().iter().flat_map(|corefile| &corefile.blocks) {
            for plugin in block.all("kubernetes") {
                let line = usize::try_from(plugin.name.position.line).unwrap_or_default();
                let written: Vec<String> = plugin.words().map(str::to_owned).collect();
                let zones = if written.is_empty() {
                    block.zones().into_iter().map(|key| key.zone).collect()
                } else {
                    written
                };
                found.extend(zones.into_iter().map(|zone| (zone.trim_end_matches('.').to_lowercase(), line)));
            }
        }
        found
    }

    /// The servers to which names outside the cluster's domain are forwarded: addresses in the Corefile, and the node's own
    /// nameservers where it names `/etc/resolv.conf` (a DNS pod has the node's file).
    #[must_use]
    pub fn upstreams(&self) -> Vec<SocketAddr> {
        let mut found = Vec::new();
        for forward in self.forwards().iter().filter(|forward| forward.from == ".") {
            for to in &forward.to {
                if to.starts_with('/') {
                    let host = self.host_file().unwrap_or_default();
                    let of_node =
                        host.nameservers.iter().filter_map(|line| line.value.parse::<IpAddr>().ok());
                    found.extend(of_node.map(|address| SocketAddr::new(address, 53)));
                } else if let Some(address) = upstream(to) {
                    found.push(address);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl View<'_> {
    /// The servers to which the Corefile forwards this name, but for those that only the DNS pods themselves can reach.
    #[must_use]
    pub fn upstreams_of(&self, name: &str) -> Vec<SocketAddr> {
        let Some((block, _)) = self.block_of(name) else { return Vec::new() };
        let mut found: Vec<SocketAddr> = Vec::new();
        for to in block.all("forward").flat_map(|forward| forward.words.iter().skip(1)) {
            if to.starts_with('/') {
                let of_node = self.host_file().unwrap_or_default().nameservers;
                let addresses = of_node.iter().filter_map(|line| line.value.parse::<IpAddr>().ok());
                found.extend(addresses.map(|address| SocketAddr::new(address, 53)));
            } else {
                found.extend(upstream(to));
            }
        }
        found.retain(|upstream| !upstream.ip().is_loopback());
        found.dedup();
        found
    }
}

/// `10.0.0.2`, `10.0.0.2:5353`, `dns://10.0.0.2`, `tls://9.9.9.9`, `[2001:db8::1]:53`.
fn upstream(text: &str) -> Option<SocketAddr> {
    let (port, rest) = match text.split_once("://") {
        Some(("tls", rest)) => (853, rest),
        Some((_, rest)) => (53, rest),
        None => (53, text),
    };
    let bare = rest.trim_start_matches('[').trim_end_matches(']');
    rest.parse().ok().or_else(|| Some(SocketAddr::new(bare.parse().ok()?, port)))
}
