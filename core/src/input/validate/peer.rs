//! Elements of `from` and `to` (`ValidateNetworkPolicyPeer`, `ValidateIPBlock`).

use ipnet::IpNet;

use super::{Report, field, holder, selector};
use crate::diagnostic::code;
use crate::input::wire::network_policy::{IpBlock, Peer};
use crate::model::address::AddressBlock;
use crate::model::policy::{NamespaceScope, PeerMatch, PodSelector};
use crate::model::selector::Selector;

/// Reads one element; `None` after reporting why not.
pub(super) fn peer(report: &mut Report<'_>, path: &str, wire: &Peer, namespace: &str) -> Option<PeerMatch> {
    field::unknown(report, path, &holder::PEER, &wire.unknown);
    let pods = wire
        .pod_selector
        .as_ref()
        .map(|wire| selector::selector(report, &format!("{path}.podSelector"), wire));
    let namespaces = wire
        .namespace_selector
        .as_ref()
        .map(|wire| selector::selector(report, &format!("{path}.namespaceSelector"), wire));
    let block = wire.ip_block.as_ref().map(|wire| ip_block(report, &format!("{path}.ipBlock"), wire));
    match (pods, namespaces, block) {
        (None, None, None) => {
            if wire.unknown.is_empty() {
                let hint = "write a selector or an `ipBlock`; to admit everybody, leave the whole list away";
                report.error(code::PEER_EMPTY, path, "a peer that names nobody", hint);
            }
            None
        }
        (None, None, Some(block)) => block.map(PeerMatch::Block),
        (_, _, Some(_)) => {
            let hint = "write them as two elements of the list; either then admits";
            report.error(code::PEER_MIXED, path, "`ipBlock` beside a selector in one peer", hint);
            None
        }
        (pods, namespaces, None) => Some(PeerMatch::Pods(PodSelector {
            namespaces: match namespaces {
                Some(selector) => NamespaceScope::Matching(selector),
                None => NamespaceScope::Own(namespace.to_owned()),
            },
            pods: pods.unwrap_or_else(Selector::default),
        })),
    }
}

fn ip_block(report: &mut Report<'_>, path: &str, wire: &IpBlock) -> Option<AddressBlock> {
    field::unknown(report, path, &holder::IP_BLOCK, &wire.unknown);
    let cidr = cidr(report, &format!("{path}.cidr"), &wire.cidr);
    let written = wire.except.as_deref().unwrap_or_default();
    let mut except = Vec::new();
    for (index, text) in written.iter().enumerate() {
        let path = format!("{path}.except[{index}]");
        let Some(inner) = self::cidr(report, &path, text) else { continue };
        if let Some(cidr) = cidr
            && !(cidr.contains(&inner) && inner.prefix_len() > cidr.prefix_len())
        {
            let message = format!("`{text}` does not lie inside `{}`", wire.cidr);
            let hint = "an exception is a smaller part of the block";
            report.error(code::EXCEPT_OUTSIDE, &path, message, hint);
        }
        except.push(inner);
    }
    let cidr = cidr?;
    (except.len() == written.len()).then_some(AddressBlock { cidr, except })
}

pub(super) fn cidr(report: &mut Report<'_>, path: &str, written: &str) -> Option<IpNet> {
    let Some(cidr) = parse(written) else {
        let message = format!("`{written}` is no CIDR");
        report.error(code::INVALID_CIDR, path, message, &cidr_hint(written));
        return None;
    };
    if let IpNet::V6(net) = cidr
        && net.addr().to_ipv4_mapped().is_some()
    {
        let message = format!("`{written}` is an IPv4 block in IPv6 clothes");
        report.error(code::INVALID_CIDR, path, message, "write it as an IPv4 CIDR");
        return None;
    }
    let canonical = cidr.trunc();
    if canonical != cidr {
        let message = format!("`{written}` has host bits: it means `{canonical}`");
        report.warning(code::CIDR_HOST_BITS, path, message, &format!("write `{canonical}`"));
    }
    Some(canonical)
}

/// An address and a prefix length, with no digit more than needed: `010.0.0.0/8` is octal to some readers.
fn parse(written: &str) -> Option<IpNet> {
    let (address, length) = written.split_once('/')?;
    if !length.bytes().all(|b| b.is_ascii_digit()) || (length.len() > 1 && length.starts_with('0')) {
        return None;
    }
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

fn cidr_hint(written: &str) -> String {
    if let Ok(address) = written.parse::<std::net::IpAddr>() {
        let length = if address.is_ipv4() { 32 } else { 128 };
        return format!("for the one address, write `{written}/{length}`");
    }
    let leading_zero =
        |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
    if written.split(['.', '/']).any(leading_zero) {
        return "take leading zeros away: some readers take them for octal".to_owned();
    }
    "write an address and a prefix length, `10.0.0.0/8` or `2001:db8::/32`".to_owned()
}
