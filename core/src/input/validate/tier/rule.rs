//! Rules: name, action, peers and ports, and how they go together.

use std::sync::Arc;

use super::{Dialect, WirePorts, WireRule, peer, port};
use crate::diagnostic::code;
use crate::input::validate::{Report, field};
use crate::model::policy::{Action, Rule};

/// The direction that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Ingress,
    Egress,
}

impl Side {
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }

    const fn peers_field(self) -> &'static str {
        match self {
            Self::Ingress => "from",
            Self::Egress => "to",
        }
    }
}

/// Reports a list that is shorter or longer than the CRD allows.
pub(super) fn count(
    report: &mut Report<'_>,
    dialect: &Dialect,
    path: &str,
    what: &str,
    least: usize,
    have: usize,
) {
    if have < least {
        let hint = "leave it away or name one at least";
        report.error(code::WRONG_LENGTH, path, format!("no {what}"), hint);
    } else if have > dialect.most {
        let message = format!("{have} {what}, more than {}", dialect.most);
        report.error(code::WRONG_LENGTH, path, message, "split it");
    }
}

/// Reads one rule; `None` after reporting why not.
pub(super) fn rule(
    report: &mut Report<'_>,
    dialect: &Dialect,
    side: Side,
    index: usize,
    wire: &WireRule<'_>,
) -> Option<Rule> {
    let path = format!("spec.{}[{index}]", side.field());
    let (holder, peer_holder) = match side {
        Side::Ingress => (dialect.ingress_rule, dialect.ingress_peer),
        Side::Egress => (dialect.egress_rule, dialect.egress_peer),
    };
    field::unknown(report, &path, holder, wire.unknown);
    if let Some(name) = wire.name
        && name.chars().count() > 100
    {
        let message = format!("a name of {} characters, more than 100", name.chars().count());
        report.error(code::WRONG_LENGTH, &format!("{path}.name"), message, "shorten it");
    }
    let action = action(report, dialect, &path, wire.action);

    let peers_path = format!("{path}.{}", side.peers_field());
    let Some(list) = wire.peers else {
        let message = format!("a rule without `{}`", side.peers_field());
        let hint = "name a peer: to mean every pod, write `- namespaces: {}`";
        report.error(code::WRONG_LENGTH, &path, message, hint);
        return None;
    };
    if list.is_empty() {
        let hint = "name a peer: to mean every pod, write `- namespaces: {}`";
        report.error(code::WRONG_LENGTH, &peers_path, "no peers", hint);
    } else {
        count(report, dialect, &peers_path, "peers", 1, list.len());
    }
    let mut peers = Vec::new();
    let mut fails_closed = false;
    for (index, wire) in list.iter().enumerate() {
        let path = format!("{peers_path}[{index}]");
        match peer::peer(report, dialect, peer_holder, &path, action, wire) {
            peer::Found::Peers(found) => peers.extend(found),
            peer::Found::FailsClosed => fails_closed = true,
            peer::Found::Nothing => {}
        }
    }
    let ports = port::ports(report, dialect, &path, wire.ports);
    names_and_addresses(report, list, wire.ports, &path);

    let action = action?;
    let mut rule =
        Rule { path: Arc::from(path), name: wire.name.map(Arc::from), action, peers: Some(peers), ports };
    if fails_closed {
        // The types' own words: an "Accept" rule then matches no traffic, any other is a "Deny all" rule.
        if action == Action::Accept {
            rule.peers = Some(Vec::new());
        } else {
            rule = Rule { action: Action::Deny, peers: None, ports: None, ..rule };
        }
    }
    Some(rule)
}

fn action(report: &mut Report<'_>, dialect: &Dialect, path: &str, written: Option<&str>) -> Option<Action> {
    let words = |action: &Action| dialect.kind.action_word(*action);
    let found = dialect.actions.iter().find(|action| Some(words(action)) == written);
    if let Some(action) = found {
        return Some(*action);
    }
    let list = dialect.actions.iter().map(|action| format!("`{}`", words(action))).collect::<Vec<_>>();
    let Some(written) = written else {
        report.error(
            code::INVALID_ACTION,
            path,
            "a rule without `action`",
            &format!("write {}", list.join(", ")),
        );
        return None;
    };
    let accepts = ["Accept", "Allow"].iter().any(|word| word.eq_ignore_ascii_case(written));
    let hint = match dialect.actions.iter().find(|action| words(action).eq_ignore_ascii_case(written)) {
        Some(action) => format!("write `{}`", words(action)),
        None if accepts => format!("this kind calls it `{}`", words(&Action::Accept)),
        None => format!("write {}", list.join(", ")),
    };
    let message = format!("`{written}` is no action of {}", dialect.kind.as_str());
    report.error(code::INVALID_ACTION, &format!("{path}.action"), message, &hint);
    None
}

/// The CEL rule of the experimental channel: addresses have no port names.
fn names_and_addresses(
    report: &mut Report<'_>,
    peers: &[crate::input::wire::tier_policy::Peer],
    ports: WirePorts<'_>,
    path: &str,
) {
    let Some(named) = port::first_name(ports) else { return };
    let at = format!("{path}.{named}");
    let only_experimental = matches!(ports, WirePorts::V1Alpha1(_))
        || peers.iter().any(|peer| peer.nodes.is_some() || peer.domain_names.is_some());
    if only_experimental
        && peers
            .iter()
            .any(|peer| peer.networks.is_some() || peer.nodes.is_some() || peer.domain_names.is_some())
    {
        let message = "a port name beside `networks`, `nodes` or `domainNames`: addresses have no port names";
        report.error(code::PORT_NAME_FOR_BLOCK, &at, message, "write the number, or split the rule");
    } else if peers.iter().any(|peer| peer.networks.is_some()) {
        let message = "a port name beside `networks`: it is looked up on the pods there, and on nobody else";
        let hint = "write the number, or split the rule: the CRD of the experimental channel refuses this";
        report.warning(code::PORT_NAME_FOR_BLOCK, &at, message, hint);
    }
}
