//! Comparing what all Services of a node share in iptables mode: the jumps from the kernel's chains, the chains that mark,
//! masquerade and let through, and the last rule of the list of Services.
//!
//! Invariant: as for a Service's own chains, every rule is of a form that the proxy writes there, or is told. Source:
//! `pkg/proxy/iptables/proxier.go` `iptablesJumpChains`, `syncProxyRules`.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::dump::{Dump, Not, Rule};
use super::follow::place;
use super::form::{Form, Of, Presence, is_same};
use super::lists::{LISTS, MARK, NODE_PORTS, Written, goes_to_service};
use super::masquerade;
use crate::model::service::AddressType;
use crate::service::fault::{Difference, Fault, Kind, Place};
use crate::service::follow::DEEPEST;

/// Jumps from the kernel's chains: (table, chain, target, only for new connections).
pub(super) const JUMPS: [(&str, &str, &str, bool); 13] = [
    ("nat", "PREROUTING", "KUBE-SERVICES", false),
    ("nat", "OUTPUT", "KUBE-SERVICES", false),
    ("nat", "POSTROUTING", "KUBE-POSTROUTING", false),
    ("filter", "INPUT", "KUBE-PROXY-FIREWALL", true),
    ("filter", "OUTPUT", "KUBE-PROXY-FIREWALL", true),
    ("filter", "FORWARD", "KUBE-PROXY-FIREWALL", true),
    ("filter", "INPUT", "KUBE-NODEPORTS", false),
    ("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", true),
    ("filter", "FORWARD", "KUBE-FORWARD", false),
    ("filter", "FORWARD", "KUBE-SERVICES", true),
    ("filter", "FORWARD", "KUBE-EXTERNAL-SERVICES", true),
    ("filter", "OUTPUT", "KUBE-SERVICES", true),
    ("filter", "OUTPUT", "KUBE-FIREWALL", false),
];

/// Such a jump.
pub(super) fn jump(target: &str, new: bool) -> Rule {
    let states = new.then(|| Not { negated: false, value: "NEW".to_owned() });
    Rule { states, ..Rule::to(target) }
}

/// Compares what all Services of the node share.
#[must_use]
pub fn shared_faults(written: &Written<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    jumps(written.dump, &mut faults);
    for (of, forms) in chains(written.flags.bit) {
        let known = of.compare(&forms, written.dump.rules(of.table, of.chain), &mut faults);
        of.order(&known, &forms, &mut faults);
    }
    masquerade::before_postrouting(written.dump, &mut faults);
    for (table, chain) in LISTS {
        let kind = if chain == "KUBE-PROXY-FIREWALL" { Kind::SourceRange } else { Kind::Foreign };
        let of = Of { table, chain, strangers: (kind, "it takes packets to every address") };
        of.compare(&[], written.of_everybody((table, chain)), &mut faults);
    }
    to_node_ports(written.dump, &mut faults);
    faults.sort();
    faults.dedup();
    faults
}

/// Chains that are the same for all.
pub(super) fn chains(bit: u32) -> [(Of<'static>, Vec<Form>); 3] {
    let (masquerade, one) = (Kind::Masquerade, format!("{bit:#x}/{bit:#x}"));
    let asks =
        |negated, target: &str| Rule { mark: Some(Not { negated, value: one.clone() }), ..Rule::to(target) };
    let sets = |words: String| Rule { set_mark: Some(words), ..Rule::to("MARK") };
    let with = |form: Form, wrong: &str| Form { wrong: wrong.to_owned(), ..form };
    let marking = vec![with(
        Form::new(0, masquerade, sets(one.clone()), "nothing is ever marked"),
        "it does not mark every packet with the bit that is looked for: what is not marked keeps its source, so replies find no way back",
    )];
    let leaving = vec![
        with(
            Form::new(
                0,
                masquerade,
                asks(true, "RETURN"),
                "all packets that leave the node get its address, marked or not",
            ),
            &format!("packets are marked {one} and something else is looked for"),
        ),
        with(
            Form::new(
                1,
                masquerade,
                sets(format!("{bit:#x}/0x0")),
                "packets keep their mark, and are masqueraded once more where they come by again",
            ),
            "it does not clear the mark, or clears others: packets are masqueraded once more where they come by again",
        ),
        with(
            Form::new(
                2,
                masquerade,
                Rule::to("MASQUERADE"),
                "marked packets keep their source, so replies find no way back",
            ),
            "it takes only some of the marked packets, or gives them another address",
        ),
    ];
    let states = |states: &str, target: &str| Rule {
        states: Some(Not { negated: false, value: states.to_owned() }),
        ..Rule::to(target)
    };
    let dropped = "where the policy of FORWARD is DROP, or a rule drops what nobody accepts";
    let accepts = [
        format!(
            "{dropped}, first packets that were marked (of node ports, and of who is no pod) are dropped; else nothing fails"
        ),
        format!("{dropped}, answers and all packets after the first are dropped; else nothing fails"),
    ];
    let [first, later] = accepts;
    let forward = vec![
        Form {
            presence: Presence::Optional,
            ..with(
                Form::new(0, Kind::Forward, states("INVALID", "DROP"), ""),
                "it drops other packets than those that no connection is known of",
            )
        },
        with(Form::new(1, Kind::Forward, asks(false, "ACCEPT"), &*first), &first),
        with(Form::new(2, Kind::Forward, states("RELATED,ESTABLISHED", "ACCEPT"), &*later), &later),
    ];
    let of = |table, chain, strangers| Of { table, chain, strangers };
    [
        (of("nat", MARK, (masquerade, "what it takes may not be marked")), marking),
        (
            of(
                "nat",
                "KUBE-POSTROUTING",
                (masquerade, "packets may leave as they are, or with another address"),
            ),
            leaving,
        ),
        (
            of("filter", "KUBE-FORWARD", (Kind::Foreign, "it takes packets on their way to endpoints")),
            forward,
        ),
    ]
}

/// The jumps, and what follows without them.
fn jumps(dump: &Dump, faults: &mut Vec<Fault>) {
    let mut hooks: BTreeMap<(&str, &str), Vec<Form>> = BTreeMap::new();
    for (table, from, target, new) in JUMPS.into_iter().filter(|(.., target, _)| *target != "KUBE-FIREWALL") {
        let missing = without(table, from, target);
        let kind = if target == "KUBE-POSTROUTING" { Kind::Masquerade } else { Kind::Jump };
        let form = Form::new(0, kind, jump(target, new), missing);
        let wrong = format!(
            "the jump from {from} has other conditions than the proxy writes, and where it may take too few it was taken to match nothing"
        );
        // Proxies before 1.26 had no chain of that name.
        let is_old = target == "KUBE-PROXY-FIREWALL" && dump.chain(table, target).is_none();
        let presence = if is_old { Presence::Optional } else { Presence::Many };
        hooks.entry((table, from)).or_default().push(Form { wrong, presence, ..form });
    }
    for ((table, chain), forms) in hooks {
        let of = Of { table, chain, strangers: (Kind::Jump, "packets come there that should not") };
        let rules = dump.rules(table, chain).iter();
        of.compare(&forms, rules.filter(|rule| rule.target.as_deref().is_some_and(is_of_proxy)), faults);
    }
}

/// What nobody but the proxy has; kubelet has chains of its own.
fn is_of_proxy(chain: &str) -> bool {
    const KUBELETS: [&str; 4] =
        ["KUBE-FIREWALL", "KUBE-MARK-DROP", "KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];
    JUMPS.iter().any(|(_, _, target, _)| *target == chain && !KUBELETS.contains(target))
        || chain == MARK
        || ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"]
            .iter()
            .any(|start| chain.starts_with(start))
}

/// What fails without a jump.
fn without(table: &str, from: &str, target: &str) -> &'static str {
    match (table, from, target) {
        ("nat", "PREROUTING", _) => "pods' and outside packets to Services are not translated",
        ("nat", "OUTPUT", _) => "the node's own packets to Services are not translated",
        ("nat", ..) => "marked packets keep their source, so replies find no way back",
        (_, "FORWARD", "KUBE-SERVICES") => "Services without endpoints do not refuse pods",
        (_, "OUTPUT", "KUBE-SERVICES") => "Services without endpoints do not refuse the node",
        (_, "INPUT", "KUBE-EXTERNAL-SERVICES") => "node ports without endpoints refuse nobody",
        (_, _, "KUBE-EXTERNAL-SERVICES") => "outside addresses without endpoints refuse nobody",
        (_, "OUTPUT", "KUBE-PROXY-FIREWALL") => "the node itself may come to balancers' addresses",
        (_, _, "KUBE-PROXY-FIREWALL") => "everybody may come to balancers' addresses",
        (_, _, "KUBE-FORWARD") => {
            "where the policy of FORWARD is DROP, or a rule drops what nobody accepts, marked packets and answers are dropped; else nothing fails"
        }
        _ => {
            "where INPUT drops what nobody accepts, balancers get no answer from health check ports; else nothing fails"
        }
    }
}

/// Rules of others that end every packet's way in a chain of the filter table before the proxy's jumps to lists of
/// Services without endpoints are asked. For others that is nothing: what such rules let through the proxy would, too,
/// what they drop is followed, and no balancer's address is translated for who may not come.
pub(super) fn taken_before(dump: &Dump, lists: &[&str], faults: &mut Vec<Fault>) {
    for chain in ["INPUT", "FORWARD", "OUTPUT"] {
        let mut shadowed: Vec<&str> = Vec::new();
        let mut by = None;
        let jumps = JUMPS.into_iter().filter(|(table, from, target, _)| {
            (*table, *from) == ("filter", chain) && lists.contains(target)
        });
        for (_, _, target, new) in jumps {
            if dump.rules("filter", chain).iter().any(|rule| rule.target.as_deref() == Some(target))
                && let Some(found) = before(dump, "filter", (chain, target, new), 0)
            {
                shadowed.push(target);
                by.get_or_insert(found);
            }
        }
        let Some((within, rule)) = by else { continue };
        faults.push(Fault {
            difference: Difference::Extra,
            kind: Kind::Foreign,
            object: rule.target.clone().unwrap_or_default(),
            place: place("filter", within, rule),
            endpoint: None,
            detail: format!(
                "a rule that is not the proxy's takes every packet before {} are asked: {}",
                shadowed.join(", "),
                without("filter", chain, shadowed.first().copied().unwrap_or_default())
            ),
        });
    }
}

/// A rule that ends every packet's way before a chain of the proxy's is asked, or that of every first packet where the
/// proxy asks for no others.
pub(super) fn before<'a>(
    dump: &'a Dump,
    table: &str,
    (chain, target, new): (&'a str, &str, bool),
    depth: usize,
) -> Option<(&'a str, &'a Rule)> {
    for rule in dump.rules(table, chain) {
        if rule.target.as_deref() == Some(target) {
            return None;
        }
        if !rule.is_for_all(new) {
            if depth > 0 && rule.target.as_deref() == Some("RETURN") {
                return None;
            }
            continue;
        }
        match rule.target.as_deref().unwrap_or_default() {
            "ACCEPT" => return Some((chain, rule)),
            // Elsewhere what drops all is told where packets are followed.
            "DROP" | "REJECT" if chain == "INPUT" => return Some((chain, rule)),
            "RETURN" => return (depth == 0).then_some((chain, rule)),
            next if depth < DEEPEST && !next.starts_with("KUBE-") => {
                let next = dump.tables.get(table).and_then(|table| table.chains.get_key_value(next));
                if let Some(found) =
                    next.and_then(|(name, _)| before(dump, table, (name, target, new), depth + 1))
                {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}

/// That no rule leads to node ports, which a Service without any does not miss: a proxy whose `--nodeport-addresses` have
/// none of the node's addresses writes none.
pub(super) fn no_node_ports(dump: &Dump) -> Option<Fault> {
    const LIST: &str = "KUBE-SERVICES";
    let is_jump = |rule: &Rule| rule.target.as_deref() == Some(NODE_PORTS);
    (!dump.rules("nat", LIST).iter().any(is_jump)).then(|| Fault {
        difference: Difference::Missing,
        kind: Kind::Jump,
        object: NODE_PORTS.to_owned(),
        place: Place::within("nat", LIST),
        endpoint: None,
        detail: "node ports are not translated; a proxy writes no rule that leads to them where its --nodeport-addresses have no address of the node, so look there first".to_owned(),
    })
}

/// The last rule of the list of Services, which takes every address of the node, or one for each that has node ports.
fn to_node_ports(dump: &Dump, faults: &mut Vec<Fault>) {
    const LIST: &str = "KUBE-SERVICES";
    let loopback: Option<IpNet> = match dump.family() {
        AddressType::Ipv6 => "::1/128".parse().ok(),
        _ => "127.0.0.0/8".parse().ok(),
    };
    let all = Rule { to_node: true, ..Rule::to(NODE_PORTS) };
    let but = loopback.map(|value| Rule { destination: Some(Not { negated: true, value }), ..all.clone() });
    let is_one = |rule: &Rule| {
        let is_host = |net: &Not<IpNet>| !net.negated && net.value.prefix_len() == net.value.max_prefix_len();
        rule.destination.as_ref().is_some_and(is_host)
            && is_same(rule, &Rule { destination: rule.destination.clone(), ..Rule::to(NODE_PORTS) })
    };
    let is_form = |rule: &Rule| {
        is_same(rule, &all) || but.as_ref().is_some_and(|but| is_same(rule, but)) || is_one(rule)
    };
    let services = dump.rules("nat", LIST);
    let is_jump = |rule: &&Rule| rule.target.as_deref() == Some(NODE_PORTS);
    let mut fault = |difference, place, detail: String| {
        let object = NODE_PORTS.to_owned();
        faults.push(Fault { difference, kind: Kind::Jump, object, place, endpoint: None, detail });
    };
    let wanted = but.as_ref().unwrap_or(&all);
    for rule in services.iter().filter(is_jump).filter(|rule| !is_form(rule)) {
        let detail = format!(
            "node ports are translated for other packets than those to the node: {}",
            super::form::difference(rule, wanted)
        );
        fault(Difference::Wrong, place("nat", LIST, rule), detail);
    }
    let whole = services.iter().filter(is_jump).filter(|rule| !is_one(rule));
    for rule in whole.skip(1) {
        fault(
            Difference::Extra,
            place("nat", LIST, rule),
            "one more rule than the proxy writes there".to_owned(),
        );
    }
    if let Some(at) = services.iter().position(|rule| is_jump(&rule))
        && services.iter().skip(at).any(goes_to_service)
    {
        let detail = "it is not last: addresses of the node that Services use are taken for node ports";
        fault(
            Difference::Wrong,
            services.get(at).map_or_else(Place::default, |rule| place("nat", LIST, rule)),
            detail.to_owned(),
        );
    }
}
