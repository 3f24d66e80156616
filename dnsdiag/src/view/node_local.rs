//! A DNS cache on the node (`NodeLocal DNSCache`): which addresses it holds, whether it listens.
//!
//! Invariant: without `node/addresses` nothing is known of either. Format: `ip addr` and `ss -lnu`, as iproute2 prints them. The interface
//! is `nodelocaldns` (`cmd/node-cache/app`, `--interfacename`).

use std::net::{IpAddr, SocketAddr};

use super::{Server, View};
use crate::bundle::layout;

/// The cache's dummy interface.
const INTERFACE: &str = "nodelocaldns";

/// The node's cache as the pod has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLocal {
    /// The pod's nameserver that the cache should answer at.
    pub address: IpAddr,
    /// Whether the node has that address on the cache's interface; `None` when interfaces were not recorded.
    pub on_interface: Option<bool>,
    /// Whether anything listens there on UDP 53; `None` when sockets were not recorded.
    pub listens: Option<bool>,
}

impl View<'_> {
    /// The addresses on the cache's interface; `None` when interfaces were not recorded.
    #[must_use]
    pub fn node_local_addresses(&self) -> Option<Vec<IpAddr>> {
        let text = self.text(layout::NODE_ADDRESSES)?;
        let mut found = Vec::new();
        let mut inside = false;
        for line in text.lines() {
            if !line.starts_with(char::is_whitespace) {
                // `5: nodelocaldns: <BROADCAST,NOARP,UP> …`
                let name = line.split_ascii_whitespace().nth(1).unwrap_or_default();
                inside = name.trim_end_matches(':').split('@').next() == Some(INTERFACE);
            } else if inside {
                let mut words = line.split_ascii_whitespace();
                if matches!(words.next(), Some("inet" | "inet6"))
                    && let Some(address) = words.next().and_then(|word| word.split('/').next()?.parse().ok())
                {
                    found.push(address);
                }
            }
        }
        Some(found)
    }

    /// Whether something on the node listens at an address on UDP; `None` when sockets were not recorded.
    #[must_use]
    pub fn node_listens(&self, at: SocketAddr) -> Option<bool> {
        let text = self.text(layout::NODE_ADDRESSES)?;
        let mut any = false;
        for line in text.lines().filter(|line| line.starts_with("UNCONN") || line.starts_with("udp")) {
            any = true;
            let here = line.split_ascii_whitespace().any(|word| {
                let word = word.replacen("%lo", "", 1);
                let every = |host: &str| matches!(host, "0.0.0.0" | "*" | "[::]");
                word.parse() == Ok(at)
                    || word
                        .rsplit_once(':')
                        .is_some_and(|(host, port)| every(host) && port.parse() == Ok(at.port()))
            });
            if here {
                return Some(true);
            }
        }
        any.then_some(false)
    }

    /// The cache that the pod asks: a link-local nameserver, or one that the cache's interface holds.
    #[must_use]
    pub fn node_local(&self) -> Option<NodeLocal> {
        let held = self.node_local_addresses();
        let is_cache = |address: &IpAddr| {
            self.server(*address) == Some(Server::LinkLocal)
                || held.as_ref().is_some_and(|held| held.contains(address))
        };
        let address = self.nameservers().into_iter().find(is_cache)?;
        Some(NodeLocal {
            address,
            on_interface: held.map(|held| held.contains(&address)),
            listens: self.node_listens(SocketAddr::new(address, 53)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlab_plugin::check::Target;
    use netlab_plugin::evidence::{Evidence, Fact};

    #[test]
    fn interfaces_and_sockets_are_read() {
        let text = "2: eth0: <UP>\n    inet 192.168.7.11/24 scope global eth0\n5: nodelocaldns: <NOARP>\n    inet \
                    169.254.20.10/32 scope global nodelocaldns\n    inet 10.96.0.10/32 scope global \
                    nodelocaldns\nUNCONN 0 0 169.254.20.10:53 0.0.0.0:*\n";
        let mut evidence = Evidence::default();
        evidence.facts.insert(layout::NODE_ADDRESSES.to_owned(), Fact::Text { text: text.to_owned() });
        let target = Target::default();
        let view = View::new(&target, &evidence);
        let at = |text: &str| view.node_listens(text.parse().expect("an address"));
        assert_eq!(view.node_local_addresses().expect("known").len(), 2);
        assert_eq!(at("169.254.20.10:53"), Some(true));
        assert_eq!(at("10.96.0.10:53"), Some(false));
        let nothing = Evidence::default();
        assert_eq!(View::new(&target, &nothing).node_listens("10.96.0.10:53".parse().expect("one")), None);
    }
}
