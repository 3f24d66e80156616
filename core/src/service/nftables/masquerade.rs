//! Whose packets are marked, with what, and which are masqueraded for it.
//!
//! Invariant: the mark's bit (`--iptables-masquerade-bit`) and what tells pods (`--detect-local-mode`) are those that most
//! rules of the dump have; a rule with another is named. Both ways of marking are known: in place (1.36 and later), or by
//! a jump to a chain (before). Source: `pkg/proxy/nftables/proxier.go` `setupNFTables`, `syncProxyRules`.

use super::chain;
use super::dump::{Act, Dump, MarkTest, Marking, Pods, Rule, Verdict};
use super::follow::in_chain;
use super::way_in::{knows_pods, missing, rules};
use crate::service::RouteKind;
use crate::service::expected::ExpectedPort;
use crate::service::fault::{Difference, Fault, Kind};

/// The chain that marks, before 1.36.
pub(super) const MARKS: &str = "mark-for-masquerade";
const CHAIN: &str = "masquerading";
/// Packets of endpoints to themselves.
const HAIRPINS: &str = "hairpin-connections";

pub(super) fn marks(rule: &Rule) -> bool {
    match &rule.act {
        Act::Mark(_) => true,
        Act::Verdict(Verdict::Jump(to)) => to == MARKS,
        _ => false,
    }
}

fn wrong(object: &str, chain: &str, (index, rule): (usize, &Rule), detail: String) -> Fault {
    Fault {
        difference: Difference::Wrong,
        place: in_chain(chain, index + 1, rule),
        detail,
        ..missing(Kind::Masquerade, object, chain, "")
    }
}

/// A rule without what it says about who sends and to where.
fn beside(rule: &Rule) -> Rule {
    Rule {
        handle: None,
        source: None,
        interface: None,
        destination: None,
        to_set: None,
        mark: None,
        flow_in: None,
        translated: false,
        is_odd: false,
        ..rule.clone()
    }
}

/// Whether a rule asks for nothing at all, or only for what [`beside`] leaves out.
pub(super) fn is_bare(rule: &Rule) -> bool {
    *rule == Rule { handle: rule.handle, ..Rule::always(rule.act.clone()) }
}

/// Whether most rules tell pods by this.
fn is_told_by(dump: &Dump, pods: &Pods) -> bool {
    dump.pods.as_ref().is_none_or(|most| most == pods)
}

/// Whether a rule is about who is no pod, or, where all are masqueraded (`--masquerade-all`), about everybody.
fn is_of_strangers(dump: &Dump, rule: &Rule) -> bool {
    let asks = Pods::of(rule);
    is_bare(&beside(rule))
        && match asks {
            Some((negated, pods)) => negated && is_told_by(dump, &pods),
            None => rule.source.is_none() && rule.interface.is_none(),
        }
}

const WRONG_PACKETS: &str =
    "it marks other packets than those of who is no pod: replies to these find no way back";

/// Compares the marking that all Services share, and what is masqueraded.
pub(super) fn shared(dump: &Dump, faults: &mut Vec<Fault>) {
    of_marks(dump, "services", faults);
    of_marks(dump, MARKS, faults);
    of_services(dump, faults);
    of_chain(dump, faults);
}

/// Compares the marks that a port's chains write, and whose packets they are.
pub(super) fn of_port(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let name = &port.name;
    let chains = [chain::external(name), chain::cluster(name), chain::local(name)];
    for chain in &chains {
        of_marks(dump, chain, faults);
    }
    let [external, inside @ ..] = &chains;
    let own = |rule: &Rule| {
        port.frontends.iter().any(|frontend| {
            let address = frontend.key.address.map(ipnet::IpNet::from);
            frontend.kind == RouteKind::ClusterIp && rule.destination == address.map(|net| (false, net))
        })
    };
    for chain in inside {
        for (index, rule) in rules(dump, chain).iter().enumerate().filter(|(_, rule)| marks(rule)) {
            if !is_of_strangers(dump, rule) || !own(rule) || rule.to_set.is_some() {
                faults.push(wrong("mark", chain, (index, rule), WRONG_PACKETS.to_owned()));
            }
        }
    }
    // Pods of the node go on to all endpoints.
    for (index, rule) in rules(dump, external).iter().enumerate().filter(|(_, rule)| !marks(rule)) {
        if let Some((negated, pods)) = Pods::of(rule)
            && (negated || !is_told_by(dump, &pods))
        {
            let detail = "it asks for others than pods, as all other rules tell them: pods reach only endpoints of the node";
            let fault = wrong("goto", external, (index, rule), detail.to_owned());
            faults.push(Fault { kind: Kind::Backend, ..fault });
        }
    }
}

fn of_marks(dump: &Dump, chain: &str, faults: &mut Vec<Fault>) {
    let Some(bits) = dump.mark else { return };
    for (index, rule) in rules(dump, chain).iter().enumerate() {
        let Act::Mark(marking) = rule.act else { continue };
        if marking != Marking::Or(bits) {
            let detail = format!(
                "it does not set the mark {bits:#x}, which the proxy's other rules set: its packets are not masqueraded"
            );
            faults.push(wrong("mark", chain, (index, rule), detail));
        }
    }
}

/// From 1.36 on one rule marks packets to all cluster IPs, before they are looked up.
fn of_services(dump: &Dump, faults: &mut Vec<Fault>) {
    let chain = rules(dump, "services");
    let lookup = chain.iter().position(|rule| rule.act == Act::Lookup("service-ips".to_owned()));
    for (index, rule) in chain.iter().enumerate().filter(|(_, rule)| marks(rule)) {
        let to_all = rule.to_set == Some((false, "cluster-ips".to_owned()));
        if !to_all || rule.destination.is_some() || !is_of_strangers(dump, rule) {
            faults.push(wrong("mark", "services", (index, rule), WRONG_PACKETS.to_owned()));
        } else if lookup.is_some_and(|lookup| lookup < index) {
            let detail = "no packet to a Service comes to this rule, as the lookup before it takes them: packets of who is no pod keep their source, and replies find no way back";
            faults.push(wrong("mark", "services", (index, rule), detail.to_owned()));
        }
    }
    if !dump.chains.contains_key(MARKS) && knows_pods(dump) && !chain.iter().any(marks) {
        let detail = "packets of who is no pod keep their source, so replies find no way back";
        faults.push(missing(Kind::Masquerade, "mark", "services", detail));
    }
}

/// Whether a condition holds for packets with these bits (`set`), or for those without.
fn asks_for(rule: &Rule, bits: Option<u64>, set: bool) -> bool {
    rule.mark.is_some_and(|MarkTest { mask, value, negated }| {
        bits.is_none_or(|bits| bits == mask)
            && ((value == 0 && negated == set) || (value == mask && negated != set))
    })
}

fn of_chain(dump: &Dump, faults: &mut Vec<Fault>) {
    let chain = rules(dump, CHAIN);
    let wanted = if dump.sets.contains_key(HAIRPINS) { 2 } else { 1 };
    if chain.iter().filter(|rule| rule.act == Act::Masquerade).count() < wanted {
        let detail = "marked packets, or those of endpoints to themselves, keep their source: replies find no way back";
        faults.push(missing(Kind::Masquerade, "masquerade", CHAIN, detail));
    }
    let is_mark = |rule: &Rule| matches!(rule.act, Act::Mark(_));
    let is_return = |rule: &Rule| rule.act == Act::Verdict(Verdict::Other("return".to_owned()));
    if let Some(marking) = dump.chains.get(MARKS) {
        // Before 1.36: who is not marked goes back, then the mark is taken off.
        if !chain.iter().any(is_return) {
            let detail = "all packets that leave the node get its address, marked or not";
            faults.push(missing(Kind::Masquerade, "return", CHAIN, detail));
        }
        if !chain.iter().any(is_mark) {
            let detail = "packets keep their mark, and are masqueraded once more where they come by again";
            faults.push(missing(Kind::Masquerade, "mark", CHAIN, detail));
        }
        if !marking.iter().any(is_mark) {
            faults.push(missing(Kind::Masquerade, "mark", MARKS, "nothing is ever marked"));
        }
    }
    let mut has_returned = false;
    for (index, rule) in chain.iter().enumerate() {
        let mut fault = |object: &str, detail: &str| {
            faults.push(wrong(object, CHAIN, (index, rule), detail.to_owned()));
        };
        let of_mark = Rule { mark: None, is_odd: false, ..rule.clone() };
        match &rule.act {
            _ if is_return(rule) && rule.is_odd => {
                if !is_bare(&of_mark) || !asks_for(rule, dump.mark, false) {
                    fault(
                        "return",
                        "it asks for another mark than the proxy's rules set: marked packets go back, and keep their source",
                    );
                } else if chain.iter().take(index).any(is_mark) {
                    fault(
                        "return",
                        "the mark was changed before this asks for it: marked packets go back, and keep their source",
                    );
                }
                has_returned = true;
            }
            Act::Masquerade => {
                let of_flow = Rule { flow_in: None, translated: false, is_odd: false, ..rule.clone() };
                let is_hairpin =
                    rule.translated && rule.flow_in.as_deref() == Some(HAIRPINS) && is_bare(&of_flow);
                let is_marked = is_bare(&of_mark) && asks_for(rule, dump.mark, true);
                if is_bare(rule) && !has_returned {
                    // Without any return that was told.
                    if chain.iter().any(is_return) || !dump.chains.contains_key(MARKS) {
                        fault("masquerade", "all packets that leave the node get its address, marked or not");
                    }
                } else if !is_bare(rule) && !is_hairpin && !is_marked {
                    fault(
                        "masquerade",
                        "it asks for other packets than those that the proxy's rules mark, or that endpoints send to themselves: these keep their source, and replies find no way back",
                    );
                }
            }
            Act::Unknown => faults.push(Fault {
                kind: Kind::Unread,
                ..wrong("rule", CHAIN, (index, rule), "it has words that are not understood".to_owned())
            }),
            _ => {}
        }
    }
}
