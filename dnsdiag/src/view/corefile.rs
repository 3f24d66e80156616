//! What rules ask of the DNS servers' configuration.
//!
//! Invariant: answers are of the recorded Corefile alone; without it there are none.

use std::net::{IpAddr, SocketAddr};

use super::View;
use crate::bundle::layout;

/// A `forward` line.
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
    /// The `forward` lines.
    #[must_use]
    pub fn forwards(&self) -> Vec<Forward> {
        let text = self.text(layout::COREFILE).unwrap_or_default();
        let mut found = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace().filter(|word| *word != "{");
            if words.next() == Some("forward")
                && let Some(from) = words.next()
            {
                let to = words.map(str::to_owned).collect();
                found.push(Forward { from: from.to_owned(), to, line: number + 1 });
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
