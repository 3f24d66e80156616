//! Commands that verify a verdict, as a person types them.

use std::fmt::Display;

use crate::bundle::layout;
use crate::view::View;

/// One raw question from the pod's own network namespace.
pub(super) fn query(view: &View<'_>, name: &str, server: impl Display, options: &str) -> String {
    let space = if options.is_empty() { "" } else { " " };
    format!(
        "netlab dns query {name} --server {server}{space}{options} --netns PID  # a process of {}",
        view.target
    )
}

/// The node's rules for a Service (and port), read again from a `dump` of the kind that was recorded.
pub(super) fn trace(dump: &str, service: impl Display) -> String {
    let flag = if dump == layout::NODE_NFT { "--nft" } else { "--iptables-save" };
    format!("netlab service trace {service} {flag} FILE -f cluster/")
}

/// The name that every DNS server of the cluster knows.
pub(super) fn canary(view: &View<'_>) -> String {
    format!("kubernetes.default.svc.{}.", view.domain().unwrap_or_else(|| "cluster.local".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{layout, trace};

    #[test]
    fn rules_are_read_again_from_a_dump_of_their_own_kind() {
        let flag = |dump| trace(dump, "kube-system/kube-dns:dns").split(' ').nth(4).map(str::to_owned);
        assert_eq!(flag(layout::NODE_NFT).as_deref(), Some("--nft"));
        assert_eq!(flag(layout::NODE_IPTABLES).as_deref(), Some("--iptables-save"));
    }
}
