//! Masquerading: the mark that asks for it, what reads the mark when packets leave, and who takes them before.
//!
//! Invariant: by the bits and conditions of rules, and in their order. Source: `pkg/proxy/iptables/proxier.go`
//! `syncProxyRules`, the parts about `KUBE-MARK-MASQ` and `KUBE-POSTROUTING`; what a mark becomes,
//! `net/netfilter/xt_mark.c`.

use super::beyond::{self, takes};
use super::dump::{Dump, Rule};
use super::follow::place;
use super::shared::before;
use crate::service::fault::{Difference, Fault, Kind};
use crate::service::follow::DEEPEST;
use crate::service::passage::{Match, Packet};

const MARKING: &str = "KUBE-MARK-MASQ";
const LEAVING: &str = "KUBE-POSTROUTING";

/// The mark that a packet has after the chain that marks.
pub(super) fn marked(dump: &Dump, packet: &Packet) -> u32 {
    let mut mark = 0;
    for rule in dump.rules("nat", MARKING) {
        if takes(rule, packet) != Match::Yes {
            continue;
        }
        match rule.target.as_deref() {
            Some("MARK") => mark = written(rule).map_or(mark, |(value, mask)| (mark & !mask) ^ value),
            Some("RETURN" | "ACCEPT" | "DROP") => break,
            _ => {}
        }
    }
    mark
}

fn written(rule: &Rule) -> Option<(u32, u32)> {
    rule.set_mark.as_deref().and_then(beyond::mark)
}

/// Whether a packet that leaves gets an address of the node.
pub(super) fn is_masqueraded(dump: &Dump, packet: &Packet) -> Match {
    let mut walk = Leaving { dump, packet: *packet, masqueraded: false, kept: false };
    let on = walk.rules("POSTROUTING", dump.rules("nat", "POSTROUTING"), true, 0);
    walk.kept |= on;
    match (walk.masqueraded, walk.kept) {
        (true, false) => Match::Yes,
        (false, _) => Match::No,
        (true, true) => Match::Perhaps,
    }
}

struct Leaving<'a> {
    dump: &'a Dump,
    packet: Packet,
    /// Whether it may be.
    masqueraded: bool,
    /// Whether it may leave as it is.
    kept: bool,
}

impl Leaving<'_> {
    /// Whether the packet may go on after these rules.
    fn rules(&mut self, chain: &str, rules: &[Rule], mut sure: bool, depth: usize) -> bool {
        for rule in rules {
            let is = match takes(rule, &self.packet) {
                Match::No => continue,
                // Conditions that the proxy never writes are taken to match nothing, as everywhere.
                Match::Perhaps if chain.starts_with("KUBE-") => continue,
                is => is,
            };
            let certain = sure && is == Match::Yes;
            match rule.target.as_deref().unwrap_or_default() {
                "MASQUERADE" | "SNAT" => self.masqueraded = true,
                "ACCEPT" => self.kept = true,
                "RETURN" if depth == 0 => self.kept = true,
                "RETURN" if certain => return true,
                "RETURN" => {
                    sure = false;
                    continue;
                }
                "MARK" => {
                    self.packet.mark = match (self.packet.mark, written(rule)) {
                        (Some(mark), Some((value, mask))) if certain => Some((mark & !mask) ^ value),
                        _ => None,
                    };
                    continue;
                }
                next if depth < DEEPEST && self.dump.chain("nat", next).is_some() => {
                    let inside = self.dump.rules("nat", next);
                    if self.rules(next, inside, certain, depth + 1) || !certain {
                        continue;
                    }
                }
                _ => continue,
            }
            if certain {
                return false;
            }
        }
        true
    }
}

/// Looks for who takes packets before the proxy's chain is asked.
pub(super) fn before_postrouting(dump: &Dump, faults: &mut Vec<Fault>) {
    if let Some((chain, rule)) = before(dump, "nat", ("POSTROUTING", LEAVING, false), 0) {
        faults.push(Fault {
            difference: Difference::Extra,
            kind: Kind::Foreign,
            object: rule.target.clone().unwrap_or_default(),
            place: place("nat", chain, rule),
            endpoint: None,
            detail: "a rule that is not the proxy's takes packets before KUBE-POSTROUTING is asked: marked ones keep their source".to_owned(),
        });
    }
}
