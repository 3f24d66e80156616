//! Masquerading: the mark that asks for it, what reads the mark when packets leave, and who takes them before.
//!
//! Invariant: by the bits and conditions of rules, and in their order. Source: `pkg/proxy/iptables/proxier.go`
//! `syncProxyRules`, the parts about `KUBE-MARK-MASQ` and `KUBE-POSTROUTING`; what a mark becomes,
//! `net/netfilter/xt_mark.c`.

use super::beyond::{self, Remark, takes};
use super::dump::{Dump, Rule};
use super::follow::place;
use super::shared::before;
use crate::service::fault::{Difference, Fault, Kind, Place};
use crate::service::follow::{DEEPEST, Open};
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

/// Whether a packet gets an address of the node, and by whose rule it keeps its own where the proxy asks for masquerading.
pub(super) struct Masqueraded {
    pub(super) is: Match,
    /// Rules of others and their words, if the packet keeps its address, or may, because of them.
    pub(super) strangers: Vec<(Place, String)>,
}

impl Masqueraded {
    /// What it is: told as every rule of others that decides about packets.
    pub(super) fn strange(&self) -> impl Iterator<Item = (Place, String)> + '_ {
        let words =
            "by it packets that the proxy asks to masquerade keep their source, so answers find no way back";
        self.strangers.iter().map(move |(place, word)| (place.clone(), format!("{word}: {words}")))
    }

    /// What may be, of packets in words.
    pub(super) fn unsure(&self, packets: String) -> Open {
        let named = self.strangers.iter().filter_map(|(place, word)| Some((place, place.line?, word)));
        let named: Vec<String> = named
            .map(|(place, line, word)| format!("{} {} (line {line}, {word})", place.table, place.chain))
            .collect();
        let rules = if named.is_empty() { "rules of nat POSTROUTING".to_owned() } else { named.join(", ") };
        let depend = if named.len() == 1 { "depends" } else { "depend" };
        let question = format!(
            "get an address of the node, so that answers find their way back: {rules} {depend} on what no dump tells"
        );
        Open::new(packets, question)
    }
}

/// Follows a packet that was translated and has the proxy's mark, or none, to where it leaves; `after` is how it comes out
/// of the chains between, with the rules there that changed its mark.
pub(super) fn is_masqueraded(dump: &Dump, (mark, after): (u32, &Packet), remarks: &[Remark]) -> Masqueraded {
    // Rules around may mark, too; those of KUBE-POSTROUTING ask for the proxy's bit.
    let remarks: Vec<&Remark> = remarks.iter().filter(|remark| remark.bits & mark != 0).collect();
    let packet = Packet { mark: Some(after.mark.unwrap_or(mark)), ..*after };
    let mut walk = Leaving { dump, packet, masqueraded: false, kept: false, by: None, remarked: None };
    let on = walk.rules("POSTROUTING", dump.rules("nat", "POSTROUTING"), true, 0);
    walk.kept |= on;
    let is = match (walk.masqueraded, walk.kept) {
        (true, false) if remarks.iter().any(|remark| !remark.sure) => Match::Perhaps,
        (true, false) => Match::Yes,
        (false, _) => Match::No,
        (true, true) => Match::Perhaps,
    };
    let unmarked = || remarks.iter().map(|remark| (remark.place.clone(), remark.word.clone())).collect();
    let strangers = match (walk.by, walk.remarked) {
        // It was to keep it.
        _ if mark == 0 || is == Match::Yes => Vec::new(),
        (Some(by), _) | (None, Some(by)) => vec![by],
        (None, None) => unmarked(),
    };
    Masqueraded { is, strangers }
}

struct Leaving<'a> {
    dump: &'a Dump,
    packet: Packet,
    /// Whether it may be.
    masqueraded: bool,
    /// Whether it may leave as it is.
    kept: bool,
    /// The first rule of others by which it does.
    by: Option<(Place, String)>,
    /// The last rule of others that changes its mark.
    remarked: Option<(Place, String)>,
}

impl Leaving<'_> {
    fn keep(&mut self, chain: &str, rule: &Rule) {
        self.kept = true;
        if !chain.starts_with("KUBE-") && self.by.is_none() {
            self.by = Some((place("nat", chain, rule), rule.target.clone().unwrap_or_default()));
        }
    }

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
                "ACCEPT" => self.keep(chain, rule),
                "RETURN" if depth == 0 => self.keep(chain, rule),
                "RETURN" if certain => return true,
                "RETURN" => {
                    sure = false;
                    continue;
                }
                "MARK" => {
                    let before = self.packet.mark;
                    self.packet.mark = match (before, written(rule)) {
                        (Some(mark), Some((value, mask))) if certain => Some((mark & !mask) ^ value),
                        _ => None,
                    };
                    if !chain.starts_with("KUBE-") && before != self.packet.mark {
                        self.remarked = Some((place("nat", chain, rule), "MARK".to_owned()));
                    }
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
