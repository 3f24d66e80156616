//! S9, first half: what the node's proxy does with packets to the DNS Service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlab_plugin::check::CheckOutcome;
use netlab_plugin::evidence::Transport;

use super::Step;
use crate::bundle::layout;
use crate::view::{Ask, DnsService, View, cite, told};

pub(super) const STEP: Step = Step {
    id: "S9.proxy",
    name: "proxy",
    summary: "the node's iptables or nftables rules for the DNS Service, against what they should be",
    needs: &[layout::NODE_IPTABLES, layout::SERVICES, layout::SLICES, layout::NODES, layout::PODS],
    costs: "iptables-save (or nft -j list ruleset) on the pod's node; root there",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let dns = view.dns_service()?;
    let mut seen = Seen::default();
    // An address of each family: their rules are apart.
    let mut families = BTreeSet::new();
    for vip in view.vips().into_iter().filter(|vip| families.insert(vip.is_ipv6())) {
        look(view, &dns, vip, &mut seen);
    }
    if seen.good.is_empty() && seen.faults.is_empty() && seen.doubts.is_empty() {
        let what = seen.unknown.into_iter().next()?;
        return Some(CheckOutcome::not_examined(what));
    }
    let line = |parts: &[&[String]]| parts.concat().join("; ");
    let mut outcome = if !seen.faults.is_empty() {
        CheckOutcome::fault(line(&[&seen.faults, &seen.good]))
    } else if seen.doubts.is_empty() {
        CheckOutcome::ok(line(&[&seen.good]))
    } else {
        CheckOutcome::warning(line(&[&seen.doubts, &seen.good]))
    };
    for unknown in seen.unknown {
        outcome = outcome.without(unknown);
    }
    Some(outcome.citing(seen.files))
}

/// What was seen, for all addresses.
#[derive(Default)]
struct Seen {
    good: Vec<String>,
    /// The rules are right, and what they should bring about is not what the pod sees.
    doubts: Vec<String>,
    faults: Vec<String>,
    unknown: Vec<String>,
    files: BTreeSet<&'static str>,
}

fn look(view: &View<'_>, dns: &DnsService<'_>, vip: IpAddr, seen: &mut Seen) {
    let Some(proxy) = view.proxy(vip) else {
        let dump = layout::PROXY_DUMPS.iter().find(|dump| view.knows(dump));
        seen.unknown.push(match dump {
            Some(dump) if **dump == *layout::NODE_IPVS => {
                "IPVS tables are not compared with the Services".to_owned()
            }
            Some(dump) => format!("{dump} cannot be read for {vip}"),
            None => "no dump of the node's rules was recorded".to_owned(),
        });
        return;
    };
    let (faults, parts) = (seen.faults.len(), &mut Vec::new());
    for transport in [Transport::Udp, Transport::Tcp] {
        let Some(port) = proxy.port(&dns.key, transport, 53) else { continue };
        match port.faults().next() {
            Some(fault) => seen.faults.push(format!("{vip} {transport}: {}", cite(proxy.file, fault))),
            None if port.symptom.is_none() => parts.push(transport.to_string()),
            None => seen.faults.push(format!("{vip} {transport}: {}", port.symptom)),
        }
    }
    if parts.is_empty() && seen.faults.len() == faults {
        seen.unknown.push(format!("no port 53 of {} with {vip} is expected in its rules", dns.key));
        return;
    }
    seen.files.insert(proxy.file);
    if parts.is_empty() {
        return;
    }
    let right = format!("{}: {vip}:53 {} to the endpoints", proxy.trace.proxy_mode, parts.join(" and "));
    let asked = view.canary(&Ask::from_pod().to([vip]).port(53).over(Transport::Udp));
    let ends = view.segments().endpoints_udp;
    let mut of_family = ends.iter().filter(|(to, _)| to.is_ipv4() == vip.is_ipv4()).peekable();
    let answer = of_family.peek().is_some() && of_family.all(|(_, seen)| seen.reach.answers());
    if asked.reach.fails() && answer && seen.faults.len() == faults {
        // Rules that are right cannot be what refuses or drops: something beside them is.
        let hop = view.refused_by(&asked).map(|icmp| format!(" (ICMP {})", told(icmp))).unwrap_or_default();
        seen.doubts.push(format!(
            "{right}; yet the pod's questions: {}{hop}, not by these rules",
            asked.reach.as_str()
        ));
    } else {
        seen.good.push(right);
    }
}
