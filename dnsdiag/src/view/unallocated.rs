//! The rule by which kube-proxy's nftables mode drops packets to addresses that no Service has.
//!
//! Invariant: the rule that is found names the address's own block. Source: `pkg/proxy/nftables/proxier.go`, chain
//! `cluster-ips-check`: `ip daddr { SERVICE CIDRs } drop`. `netlab_core::service` follows Services; this rule is about addresses that
//! have none.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::View;
use crate::bundle::layout;

impl View<'_> {
    /// The block of Service addresses whose remainder the node's rules drop, when `address` is in it.
    #[must_use]
    pub fn dropped_as_unallocated(&self, address: IpAddr) -> Option<IpNet> {
        let dump: Value = serde_json::from_str(self.text(layout::NODE_NFT)?).ok()?;
        let rules = dump.get("nftables")?.as_array()?.iter().filter_map(|item| item.get("rule"));
        rules
            .filter(|rule| rule.get("chain").and_then(Value::as_str) == Some("cluster-ips-check"))
            .filter_map(|rule| rule.get("expr")?.as_array())
            .filter(|exprs| exprs.iter().any(|expr| expr.get("drop").is_some()))
            .flat_map(|exprs| exprs.iter().filter_map(|expr| expr.pointer("/match/right")))
            .flat_map(blocks)
            .find(|block| block.contains(&address))
    }
}

/// Blocks in a right-hand side: `{"prefix": …}` alone or within `{"set": […]}`.
fn blocks(right: &Value) -> Vec<IpNet> {
    let several = right.get("set").and_then(Value::as_array);
    let all: Vec<&Value> = several.map_or_else(|| vec![right], |set| set.iter().collect());
    all.into_iter()
        .filter_map(|value| {
            let prefix = value.get("prefix")?;
            let address: IpAddr = prefix.get("addr")?.as_str()?.parse().ok()?;
            IpNet::new(address, u8::try_from(prefix.get("len")?.as_u64()?).ok()?).ok()
        })
        .collect()
}
