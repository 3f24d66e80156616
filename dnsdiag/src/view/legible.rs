//! Whether a text can be what its file is to hold: what a command that failed leaves behind is no evidence.
//!
//! Invariant: what no machine has counts as not recorded, an error message in a file's place; what some machine may have, an empty
//! `resolv.conf`, is for the rules, and only never healthy. What is merely wrong is for the rules alone.

use std::net::IpAddr;

use netlab_core::service::{iptables, nftables};

use super::View;
use crate::bundle::layout;

/// Databases of `nsswitch.conf`, as nsswitch.conf(5) lists them.
const DATABASES: [&str; 16] = [
    "aliases",
    "automount",
    "ethers",
    "group",
    "gshadow",
    "hosts",
    "initgroups",
    "netgroup",
    "networks",
    "passwd",
    "protocols",
    "publickey",
    "rpc",
    "services",
    "shadow",
    "subid",
];

/// Keywords of `resolv.conf`, those of other systems included.
const KEYWORDS: [&str; 7] = ["nameserver", "search", "domain", "options", "sortlist", "lookup", "family"];

/// Why a text cannot be what the file is to hold; `None` when it can, or says nothing at all.
pub(super) fn garbage(file: &str, text: &str) -> Option<String> {
    let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let mut lines = meaning(text);
    let begins = lines.next()?;
    let mut lines = std::iter::once(begins).chain(lines);
    let fits = match file {
        layout::POD_HOSTS => lines.any(|line| first(line).parse::<IpAddr>().is_ok()),
        layout::POD_NSSWITCH => lines.any(|line| {
            line.split_once(':').is_some_and(|(database, _)| DATABASES.contains(&database.trim()))
        }),
        layout::POD_RESOLV_CONF | layout::NODE_RESOLV_CONF => {
            lines.any(|line| KEYWORDS.contains(&&*first(line)))
        }
        layout::KUBELET => {
            let field = |line: &str| {
                let line = line.trim_start_matches(['{', '"', ' ']).to_lowercase();
                ["clusterd", "cluster-d", "cluster_d", "resolv", "dns"]
                    .iter()
                    .any(|start| line.starts_with(start))
            };
            text.to_lowercase().contains("kubeletconfig") || lines.any(field)
        }
        layout::COREFILE | layout::NODELOCAL_COREFILE => text.contains('{'),
        layout::NODE_IPTABLES => lines.any(|line| line.starts_with('*')),
        layout::NODE_NFT => begins.starts_with(['{', '[']),
        layout::NODE_IPVS => {
            lines.any(|line| line.starts_with("IP ") || ["TCP", "UDP"].contains(&&*first(line)))
        }
        _ => return None,
    };
    let start: String = begins.chars().take(48).collect();
    (!fits).then(|| format!("{file} does not hold what it should, but `{start}`"))
}

/// The lines that are no comments.
fn meaning(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
}

impl View<'_> {
    /// Why a file on which health rests tells nothing although it may be what the machine has; `None` when it tells something, or
    /// was not recorded.
    #[must_use]
    pub fn illegible(&self, file: &str) -> Option<String> {
        let text = self.text(file)?;
        let said = meaning(text).next().is_some();
        let fits = match file {
            layout::POD_HOSTS | layout::POD_NSSWITCH | layout::POD_RESOLV_CONF | layout::NODE_RESOLV_CONF => {
                said
            }
            layout::KUBELET => said && self.kubelet().is_some(),
            layout::COREFILE => !self.server_blocks().is_empty() || said && self.corefile_refused().is_some(),
            layout::NODE_IPTABLES => iptables::dump::parse(text).is_ok(),
            layout::NODE_NFT => nftables::dump::parse(text).is_ok(),
            _ => return None,
        };
        (!fits).then(|| if said { format!("{file} cannot be read") } else { format!("{file} is empty") })
    }
}
