//! Masquerading: the mark that asks for it, what reads the mark when packets leave, and who takes them before.
//!
//! Invariant: by the bits and conditions of rules, and in their order. Source: `pkg/proxy/iptables/proxier.go`
//! `syncProxyRules`, the parts about `KUBE-MARK-MASQ` and `KUBE-POSTROUTING`; what a mark becomes,
//! `net/netfilter/xt_mark.c`.

use super::beyond::{self, takes};
use super::dump::{Dump, Rule};
use super::follow::place;
use super::way_in::is_to;
use crate::service::fault::{Difference, Fault, Kind, Place};
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

/// Compares the two chains, and looks for who takes packets before.
pub(super) fn faults(dump: &Dump, faults: &mut Vec<Fault>) {
    let fault = |difference, rule: &Rule, chain: &str, detail: &str| Fault {
        difference,
        kind: Kind::Masquerade,
        object: rule.target.clone().unwrap_or_default(),
        place: place("nat", chain, rule),
        endpoint: None,
        detail: detail.to_owned(),
    };
    let mut bit = None;
    for rule in dump.rules("nat", MARKING) {
        match rule.target.as_deref() {
            Some("MARK") if !rule.is_for_all(false) => {
                let detail = "it marks only some packets, by a condition that the proxy never writes";
                faults.push(fault(Difference::Wrong, rule, MARKING, detail));
            }
            Some("MARK") => bit = written(rule).map(|(value, _)| value),
            None | Some("LOG" | "NFLOG" | "TRACE") => {}
            Some(_) => {
                let detail = "a rule that no proxy writes there; what it takes is not marked";
                faults.push(fault(Difference::Extra, rule, MARKING, detail));
            }
        }
    }
    let mut highest = 0;
    for rule in dump.rules("nat", LEAVING) {
        let plain = |rule: &Rule| Rule { mark: None, ..rule.clone() }.is_for_all(false);
        let role = match rule.target.as_deref() {
            Some("RETURN") if plain(rule) && rule.mark.as_ref().is_some_and(|mark| mark.negated) => 1,
            Some("MARK") => 2,
            Some("MASQUERADE") => 3,
            None | Some("LOG" | "NFLOG" | "TRACE") => continue,
            Some(_) => {
                let detail = "a rule that no proxy writes there takes packets before they are masqueraded";
                faults.push(fault(Difference::Extra, rule, LEAVING, detail));
                continue;
            }
        };
        if role < highest {
            let detail = match role {
                1 => "it comes too late: packets that nobody marked are masqueraded before",
                _ => "it comes too late: packets are masqueraded before, and keep their mark",
            };
            faults.push(fault(Difference::Wrong, rule, LEAVING, detail));
        }
        highest = highest.max(role);
        if role == 3 && !plain(rule) || role == 2 && !rule.is_for_all(false) {
            let detail =
                "it takes only some of the marked packets, by a condition that the proxy never writes";
            faults.push(fault(Difference::Wrong, rule, LEAVING, detail));
        }
        let (Some(bit), 2, Some((value, mask))) = (bit, role, written(rule)) else { continue };
        if (bit & !mask) ^ value != 0 || (value | mask) & !bit != 0 {
            let detail = "it does not clear the mark, or clears others: packets are masqueraded once more where they come by again";
            faults.push(fault(Difference::Wrong, rule, LEAVING, detail));
        }
    }
    if let Some((chain, rule)) = before(dump, "POSTROUTING", 0) {
        faults.push(Fault {
            kind: Kind::Foreign,
            ..fault(
                Difference::Extra,
                rule,
                chain,
                "a rule that is not the proxy's takes packets before KUBE-POSTROUTING is asked: marked ones keep their source",
            )
        });
    }
    of_bits(dump, faults);
}

/// The bit that is set is the one that is looked for, and no other.
fn of_bits(dump: &Dump, faults: &mut Vec<Fault>) {
    let set = dump.rules("nat", MARKING).iter().find_map(|rule| rule.set_mark.as_ref());
    let asked =
        dump.rules("nat", LEAVING).iter().find_map(|rule| rule.mark.as_ref().map(|mark| (rule, mark)));
    let Some(set) = set else {
        faults.push(Fault {
            difference: Difference::Missing,
            kind: Kind::Masquerade,
            object: "MARK".to_owned(),
            place: Place::within("nat", MARKING),
            endpoint: None,
            detail: "nothing is ever marked".to_owned(),
        });
        return;
    };
    let Some((rule, asked)) = asked else { return };
    let same = match (beyond::mark(set), beyond::mark(&asked.value)) {
        (Some((bit, set)), Some((value, mask))) => bit == set && (value, mask) == (bit, bit),
        _ => *set == asked.value,
    };
    if !same {
        faults.push(Fault {
            difference: Difference::Wrong,
            kind: Kind::Masquerade,
            object: LEAVING.to_owned(),
            place: place("nat", LEAVING, rule),
            endpoint: None,
            detail: format!("packets are marked {set} and {} is looked for", asked.value),
        });
    }
}

/// A rule that ends every packet's way before the proxy's chain is asked.
fn before<'a>(dump: &'a Dump, chain: &'a str, depth: usize) -> Option<(&'a str, &'a Rule)> {
    for rule in dump.rules("nat", chain) {
        if is_to(rule, LEAVING) {
            return None;
        }
        if !rule.is_for_all(false) {
            continue;
        }
        match rule.target.as_deref().unwrap_or_default() {
            "ACCEPT" => return Some((chain, rule)),
            "RETURN" => return (depth == 0).then_some((chain, rule)),
            next if depth < DEEPEST && !next.starts_with("KUBE-") => {
                if let Some(found) = dump
                    .tables
                    .get("nat")
                    .and_then(|nat| nat.chains.get_key_value(next))
                    .and_then(|(name, _)| before(dump, name, depth + 1))
                {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}
