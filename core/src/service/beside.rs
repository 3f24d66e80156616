//! What decides about packets on a node beside the rules of its proxy, and is not followed there: tables that `nft` shows
//! beside iptables mode, and tables of iptables' other variant.
//!
//! Invariant: in words, one line for a table. A chain that the kernel never asks, one without rules that lets all pass,
//! and one of kubelet's or of the proxy's are none.

use super::{iptables, nftables};
use crate::model::service::AddressType;

/// Tables of others in a list of the whole nftables ruleset, beside rules of iptables mode. What `iptables-nft-save`
/// prints, of the same family, is no such table.
///
/// # Errors
/// [`nftables::dump::DumpError`] when the text is something else.
pub fn tables_of_nftables(
    ruleset: &str,
    family: AddressType,
    printed: &[&iptables::dump::Dump],
) -> Result<Vec<String>, nftables::dump::DumpError> {
    let of = if family == AddressType::Ipv6 { "ip6" } else { "ip" };
    let others = nftables::dump::others(ruleset, of)?;
    let is_printed = |table: &str, chain: &str| {
        let name = table.strip_prefix(of).and_then(|table| table.strip_prefix(' '));
        let mut chains =
            name.into_iter().flat_map(|name| printed.iter().filter_map(|dump| dump.chain(name, chain)));
        chains.any(|chain| chain.policy.is_some())
    };
    let named = |table: &str| {
        format!("table {table} of nftables: its rules are not followed beside those of iptables mode")
    };
    let all = others.deciding(is_printed).map(named).collect::<Vec<_>>();
    Ok(all.into_iter().chain(others.elsewhere()).collect())
}

/// Tables with rules or policies of others in what another command printed.
#[must_use]
pub fn tables_of_iptables(dump: &iptables::dump::Dump, command: &str) -> Vec<String> {
    let named = |table| format!("table {table} in {command}: its rules are not followed beside the proxy's");
    iptables::tables_of_others(dump).map(named).collect()
}
