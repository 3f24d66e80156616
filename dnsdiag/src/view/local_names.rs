//! What answers a name before any packet is sent: `/etc/hosts` and the order in `/etc/nsswitch.conf`.
//!
//! Invariant: a file that was not recorded answers nothing and says nothing about order. Formats: `hosts(5)`, `nsswitch.conf(5)`; glibc
//! reads both, musl the first alone.

use std::net::IpAddr;

use super::View;
use crate::bundle::layout;

/// A name in `/etc/hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsName {
    /// The address that it has there.
    pub address: IpAddr,
    /// The line, from 1.
    pub line: usize,
}

/// One source of the `hosts:` line, with what is said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `files`, `dns`, `mdns4_minimal`, `resolve`.
    pub name: String,
    /// `NOTFOUND=return`, as written between brackets behind it, in lower case.
    pub actions: Vec<String>,
}

/// The order of sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// In order.
    pub sources: Vec<Source>,
    /// The line, from 1.
    pub line: usize,
}

impl Order {
    /// Where a source stands.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.sources.iter().position(|source| source.name == name)
    }
}

impl View<'_> {
    /// What the container's `/etc/hosts` says to a name, exactly as it is asked for.
    #[must_use]
    pub fn in_hosts(&self, name: &str) -> Vec<HostsName> {
        let text = self.text(layout::POD_HOSTS).unwrap_or_default();
        let wanted = name.trim_end_matches('.');
        let mut found = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
            if words.any(|word| word.eq_ignore_ascii_case(wanted)) {
                found.push(HostsName { address, line: number + 1 });
            }
        }
        found
    }

    /// The `hosts:` line of the container's `nsswitch.conf`; `None` when there is none, or the file was not recorded.
    #[must_use]
    pub fn name_order(&self) -> Option<Order> {
        let text = self.text(layout::POD_NSSWITCH)?;
        let (number, line) =
            text.lines().enumerate().find(|(_, line)| line.trim_start().starts_with("hosts:"))?;
        let line = line.split('#').next().unwrap_or_default();
        let rest = line.trim_start().trim_start_matches("hosts:").replace('[', " [").replace(']', "] ");
        let mut order = Order { sources: Vec::new(), line: number + 1 };
        let mut inside = false;
        for word in rest.split_ascii_whitespace() {
            inside |= word.starts_with('[');
            let bare = word.trim_matches(['[', ']']).to_ascii_lowercase();
            if !inside {
                order.sources.push(Source { name: bare, actions: Vec::new() });
            } else if let Some(last) = order.sources.last_mut()
                && !bare.is_empty()
            {
                last.actions.push(bare);
            }
            inside &= !word.ends_with(']');
        }
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlab_plugin::check::Target;
    use netlab_plugin::evidence::{Evidence, Fact};

    #[test]
    fn hosts_and_order_are_read() {
        let mut evidence = Evidence::default();
        let mut add = |file: &str, text: &str| {
            evidence.facts.insert(file.to_owned(), Fact::Text { text: text.to_owned() });
        };
        add(layout::POD_HOSTS, "# x\n10.1.2.3\tapi API.shop # api2\nnonsense api\n");
        add(
            layout::POD_NSSWITCH,
            "hosts: files mdns4_minimal [NOTFOUND=return !UNAVAIL=continue]dns # wins\n",
        );
        let target = Target::default();
        let view = View::new(&target, &evidence);
        assert_eq!(view.in_hosts("api.shop.").len(), 1);
        assert_eq!(view.in_hosts("api2"), Vec::new());
        let order = view.name_order().expect("a line");
        let names: Vec<&str> = order.sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["files", "mdns4_minimal", "dns"]);
        assert_eq!(order.sources[1].actions, ["notfound=return", "!unavail=continue"]);
    }
}
