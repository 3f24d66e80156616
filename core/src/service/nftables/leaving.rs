//! Packets that leave the node: which of them get its address.
//!
//! Invariant: as the kernel walks the proxy's own chains at the hook after routing, by the marks that packets were given
//! before; conditions that no proxy writes there are taken to match nothing, and are told elsewhere.

use std::net::{IpAddr, SocketAddr};

use super::dump::Dump;
use super::reading::{Act, MarkTest, Marking, Rule, Verdict};
use crate::model::port::Protocol;
use crate::service::follow::DEEPEST;

/// A packet that was translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    /// Its mark.
    pub(super) mark: u64,
    /// Who sends it, where that is one of the endpoints.
    pub(super) from: Option<IpAddr>,
    /// The endpoint.
    pub(super) to: SocketAddr,
    /// Its protocol.
    pub(super) protocol: Protocol,
}

/// What a chain does with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing.
    On,
    /// It leaves as it is.
    Kept,
    Masqueraded,
}

/// Whether it gets an address of the node.
pub(super) fn is_masqueraded(dump: &Dump, mut packet: Leaving) -> bool {
    let of_hook = dump.bases.iter().filter(|(_, base)| base.hook == "postrouting" && base.kind == "nat");
    let mut bases: Vec<(i64, &String)> = of_hook.map(|(name, base)| (base.priority, name)).collect();
    bases.sort_unstable();
    bases.into_iter().any(|(_, name)| packet.chain(dump, name, 0) == End::Masqueraded)
}

impl Leaving {
    fn chain(&mut self, dump: &Dump, name: &str, depth: usize) -> End {
        for rule in dump.chains.get(name).into_iter().flatten() {
            if !self.is_of(dump, rule) {
                continue;
            }
            match &rule.act {
                Act::Masquerade => return End::Masqueraded,
                Act::Mark(Marking::Or(bits)) => self.mark |= bits,
                Act::Mark(Marking::Xor(bits)) => self.mark ^= bits,
                Act::Verdict(Verdict::Goto(to) | Verdict::Jump(to)) if depth < DEEPEST => {
                    match self.chain(dump, to, depth + 1) {
                        End::On if matches!(rule.act, Act::Verdict(Verdict::Goto(_))) => return End::On,
                        End::On => {}
                        end => return end,
                    }
                }
                Act::Verdict(Verdict::Other(word)) if word == "return" => return End::On,
                Act::Verdict(Verdict::Other(word)) if word == "continue" => {}
                Act::Verdict(_) => return End::Kept,
                _ => {}
            }
        }
        End::On
    }

    fn is_of(&self, dump: &Dump, rule: &Rule) -> bool {
        let is_plain = rule.source.is_none()
            && rule.not_from.is_empty()
            && rule.interface.is_none()
            && !rule.from_node
            && rule.destination.is_none()
            && rule.to_set.is_none()
            && !rule.to_node
            && !rule.not_new
            && !rule.is_other
            && rule.known_client.is_none();
        is_plain
            && rule.protocol.is_none_or(|protocol| protocol == self.protocol)
            && rule.port.is_none_or(|port| port == self.to.port())
            && rule
                .mark
                .is_none_or(|MarkTest { mask, value, negated }| (self.mark & mask == value) != negated)
            && rule.flow_in.as_ref().is_none_or(|set| {
                let (to, number, protocol) = (self.to.ip(), self.to.port(), self.protocol.lower());
                self.from.is_some_and(|from| {
                    let flow = format!("{from} . {to} . {protocol} . {number}");
                    dump.sets.get(set).is_some_and(|set| set.contains(&flow))
                })
            })
    }
}
