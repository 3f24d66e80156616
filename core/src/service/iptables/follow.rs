//! Following a packet through the rules of iptables mode.
//!
//! Invariant: [`follow`] does what the kernel does with the first packet of a connection, share by share: a rule with
//! a probability takes its part of what came so far, a chain that ends gives back what it did not decide. A rule with
//! a word that is not understood matches nothing and is told about.

use super::dump::{Dump, Rule};
use super::foreign;
use crate::service::expected::FrontendKey;
use crate::service::fault::Place;
use crate::service::follow::{Client, DEEPEST, Followed, Hop};

/// Follows packets.
#[must_use]
pub fn follow(dump: &Dump, to: FrontendKey, client: Client) -> Followed {
    let mut followed = Followed::default();
    if let Some((table, rule)) = foreign::first(dump, to) {
        let target = rule.target.clone().unwrap_or_default();
        followed.hops.push(Hop {
            place: place(table, "PREROUTING", rule),
            to: target,
            choice: None,
            depth: 0,
        });
        match rule.to_destination {
            Some(to) => drop(followed.shares.to.insert(to, 1.0)),
            None => followed.shares.silent = 1.0,
        }
        return followed;
    }
    let walk = Walk { dump, to, client };
    let left = match walk.jump("nat", "PREROUTING", "KUBE-SERVICES") {
        Some(position) => {
            followed.rules += count(position);
            walk.chain("nat", "KUBE-SERVICES", 1.0, 0, &mut followed)
        }
        None => 1.0,
    };
    // What is not translated meets the ends of Services without endpoints, and else goes to an address that nobody has.
    let (refused, dropped) = walk.ends();
    if refused && !dropped {
        followed.shares.refused += left;
    } else {
        followed.shares.silent += left;
    }
    followed
}

struct Walk<'a> {
    dump: &'a Dump,
    to: FrontendKey,
    client: Client,
}

impl Walk<'_> {
    /// The position of a jump in its chain.
    fn jump(&self, table: &str, from: &str, to: &str) -> Option<usize> {
        let mut rules = self.dump.rules(table, from).iter();
        rules.find(|rule| rule.target.as_deref() == Some(to)).map(|rule| rule.position)
    }

    /// Walks a chain with a share of the packets; the answer is what it gives back.
    fn chain(&self, table: &str, name: &str, share: f64, depth: usize, followed: &mut Followed) -> f64 {
        let mut left = share;
        if depth > DEEPEST {
            return left;
        }
        let rules = self.dump.rules(table, name);
        // The list of all Services is long, and has none.
        let may_choose = name != "KUBE-SERVICES";
        let choices = if may_choose { rules.iter().filter(|rule| is_choice(rule)).count() } else { 0 };
        let mut chosen = 0;
        for rule in rules {
            if left <= 0.0 {
                break;
            }
            followed.rules += left;
            if self.is_to_another(rule) {
                continue;
            }
            let choice = is_choice(rule).then(|| {
                chosen += 1;
                (chosen, choices)
            });
            if !self.matches(rule, (table, name), followed) {
                continue;
            }
            let Some(target) = rule.target.as_deref() else { continue };
            let taken = left * rule.probability.unwrap_or(1.0);
            let hop = |to: String| Hop {
                place: place(table, name, rule),
                to,
                choice: choice.filter(|(_, all)| *all > 1),
                depth,
            };
            match target {
                "DNAT" => {
                    if let Some(to) = rule.to_destination {
                        *followed.shares.to.entry(to).or_default() += taken;
                        followed.hops.push(hop(format!("DNAT {to}")));
                        left -= taken;
                    }
                }
                "DROP" => {
                    followed.shares.silent += taken;
                    left -= taken;
                }
                "REJECT" => {
                    followed.shares.refused += taken;
                    left -= taken;
                }
                "RETURN" | "ACCEPT" => return left - taken,
                chain if self.dump.chain(table, chain).is_some() => {
                    if chain != "KUBE-MARK-MASQ" && chain != "KUBE-NODEPORTS" {
                        followed.hops.push(hop(chain.to_owned()));
                    }
                    left = left - taken + self.chain(table, chain, taken, depth + 1, followed);
                }
                // Marks, logs and the like decide nothing.
                _ => {}
            }
        }
        left.max(0.0)
    }

    /// The cheapest question first: most rules of the list of all Services are about another one.
    fn is_to_another(&self, rule: &Rule) -> bool {
        match (&rule.destination, self.to.address) {
            (Some(net), Some(address)) => net.value.contains(&address) == net.negated,
            _ => false,
        }
    }

    fn matches(&self, rule: &Rule, (table, chain): (&str, &str), followed: &mut Followed) -> bool {
        let about = rule.protocol.is_none_or(|protocol| protocol == self.to.protocol)
            // After the port of the frontend was matched no rule names another; endpoints' rules have none.
            && rule.destination_port.is_none_or(|port| port == self.to.port)
            && match (&rule.destination, self.to.address) {
                (None, _) => true,
                (Some(net), Some(address)) => net.value.contains(&address) != net.negated,
                // Some address of the node: none that is named, any but those that are excluded.
                (Some(net), None) => net.negated,
            }
            && (!rule.to_node || self.to.address.is_none())
            && !rule.from_node
            // Who was there before is no first packet.
            && rule.recent.as_ref().is_none_or(|recent| recent.set);
        if about && !rule.other.is_empty() {
            followed.unread.push(place(table, chain, rule));
            return false;
        }
        let host = |prefix: u8, all: u8| prefix == all;
        let from = match &rule.source {
            None => true,
            Some(_) if chain.starts_with("KUBE-FW-") => true,
            // One host is an endpoint that asks itself.
            Some(net) if host(net.value.prefix_len(), net.value.max_prefix_len()) => net.negated,
            // Else a net is the pods'.
            Some(net) => (self.client == Client::Pod) != net.negated,
        };
        about && from
    }

    /// Whether the filter table refuses, or drops, what is still addressed to the Service.
    fn ends(&self) -> (bool, bool) {
        let chains: &[&str] = match self.client {
            Client::Pod => &["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES"],
            Client::Outside => &["KUBE-EXTERNAL-SERVICES", "KUBE-SERVICES"],
        };
        let mut seen = Followed::default();
        for chain in chains {
            for rule in self.dump.rules("filter", chain) {
                if self.matches(rule, ("filter", chain), &mut seen) {
                    match rule.target.as_deref() {
                        Some("REJECT") => return (true, false),
                        Some("DROP") => return (false, true),
                        _ => {}
                    }
                }
            }
        }
        (false, false)
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer rules than 2^52")]
fn count(position: usize) -> f64 {
    position as f64
}

/// A rule that sends a share of the packets to an endpoint's chain.
pub(super) fn is_choice(rule: &Rule) -> bool {
    rule.target.as_deref().is_some_and(|target| target.starts_with("KUBE-SEP-")) && rule.recent.is_none()
}

/// Where a rule is.
pub(super) fn place(table: &str, chain: &str, rule: &Rule) -> Place {
    Place {
        table: table.to_owned(),
        chain: chain.to_owned(),
        position: Some(rule.position),
        handle: None,
        line: Some(rule.line),
    }
}
