//! Comparing the rules of one service port in iptables mode with those that a node's proxy writes.
//!
//! Invariant: by meaning, never by text, and by key: each service port is compared with its own chains, and with those
//! rules of the lists of all Services that are its own. Every rule there is of a form of [`super::wanted`] or is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::dump::Rule;
use super::follow::{is_choice, place};
use super::form::{Form, Of, is_same};
use super::lists::{LISTS, Written, goes_to_service};
use super::{beyond, chain, foreign, shared, wanted};
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedPort};
use crate::service::fault::{Difference, Fault, Kind, Place};

/// Probabilities are printed with eleven digits of a number of 31 bits.
const TOLERANCE: f64 = 1e-8;

/// Compares the rules of one service port with what they should be.
#[must_use]
pub fn faults(written: &Written<'_>, port: &ExpectedPort) -> Vec<Fault> {
    let mut faults = Vec::new();
    in_lists(written, port, &mut faults);
    foreign::faults(written.dump, port, &mut faults);
    let refused = port.frontends.iter().filter(|frontend| frontend.action == Action::Refuse);
    let mut ends: Vec<&str> = refused.map(wanted::list_of_ends).collect();
    ends.dedup();
    shared::taken_before(written.dump, &ends, &mut faults);
    if port.frontends.iter().any(|frontend| frontend.kind == RouteKind::NodePort) && port.has_endpoints() {
        faults.extend(shared::no_node_ports(written.dump));
    }
    if let Some(number) = port.health_check
        && let Some((place, object)) = beyond::ends_health_checks(written.dump, number)
    {
        let detail = format!(
            "balancers that ask health check port {number} get no answer, and send nothing to this node any more"
        );
        faults.push(Fault {
            difference: Difference::Extra,
            kind: Kind::HealthCheck,
            object,
            place,
            endpoint: None,
            detail,
        });
    }
    if let Some((name, forms)) = wanted::external(port, &written.flags) {
        in_chain(written, &name, (Kind::Foreign, ""), &forms, &mut faults);
    }
    if let Some((name, forms)) = wanted::firewall(port) {
        let strangers = (Kind::SourceRange, "clients of every address that it takes are let in or kept out");
        let from = faults.len();
        in_chain(written, &name, strangers, &forms, &mut faults);
        name_ranges(written, &name, faults.get_mut(from..).unwrap_or_default());
    }
    for (name, endpoints, action) in [
        (chain::cluster(&port.name), &port.cluster, Action::Cluster),
        (chain::local(&port.name), &port.local, Action::Local),
    ] {
        of_service_chain(written, port, &name, (endpoints, action), &mut faults);
    }
    faults.sort();
    faults.dedup();
    faults
}

/// What a port has in the lists of all Services.
fn in_lists(written: &Written<'_>, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let entries = wanted::entries(port);
    for list in LISTS {
        let forms: Vec<Form> =
            entries.iter().filter(|(of, _)| *of == list).map(|(_, form)| form.clone()).collect();
        let rules = written.of_port(list, port);
        let kind = match list.1 {
            "KUBE-PROXY-FIREWALL" => Kind::SourceRange,
            _ => Kind::Foreign,
        };
        let of = Of { table: list.0, chain: list.1, strangers: (kind, "") };
        let from = faults.len();
        of.compare(&forms, rules.iter().copied(), faults);
        let by_position = |at: usize| rules.iter().find(|rule| rule.position == at);
        for fault in faults.get_mut(from..).unwrap_or_default() {
            let Some(rule) = fault.place.position.and_then(by_position) else { continue };
            if fault.difference == Difference::Extra {
                of_extra(fault, rule, list, forms.is_empty());
            }
        }
    }
}

/// What one entry too much is, and what it does.
fn of_extra(fault: &mut Fault, rule: &Rule, list: (&str, &str), alone: bool) {
    let (kind, follows) = match list {
        ("nat", _) if goes_to_service(rule) && alone => {
            (Kind::Frontend, "it leads to endpoints, and the Service has none here")
        }
        ("nat", _) if goes_to_service(rule) => {
            (Kind::Frontend, "of two the first is asked; the other is asked when that one goes")
        }
        ("filter", "KUBE-SERVICES" | "KUBE-EXTERNAL-SERVICES")
            if matches!(rule.target.as_deref(), Some("REJECT" | "DROP")) =>
        {
            (Kind::End, "it takes what the nat table does not translate")
        }
        ("filter", "KUBE-PROXY-FIREWALL") => {
            (Kind::SourceRange, "clients in no range may not be dropped, or those in one are")
        }
        _ => return,
    };
    fault.kind = kind;
    fault.detail = format!("{}: {follows}", fault.detail);
}

/// One of the Service's own chains, with rules in an order.
fn in_chain(
    written: &Written<'_>,
    name: &str,
    strangers: (Kind, &str),
    forms: &[Form],
    faults: &mut Vec<Fault>,
) {
    let of = Of { table: "nat", chain: name, strangers };
    let known = of.compare(forms, written.dump.rules("nat", name), faults);
    of.order(&known, forms, faults);
}

/// A range that is let in and should not be is told by itself.
fn name_ranges(written: &Written<'_>, name: &str, faults: &mut [Fault]) {
    let external = name.replacen("KUBE-FW-", "KUBE-EXT-", 1);
    for fault in faults.iter_mut().filter(|fault| fault.difference == Difference::Extra) {
        let rules = written.dump.rules("nat", name);
        let Some(rule) = fault.place.position.and_then(|at| rules.get(at - 1)) else { continue };
        let plain = Rule { target: Some(external.clone()), source: rule.source.clone(), ..Rule::default() };
        if let Some(range) = rule.source.as_ref().filter(|range| !range.negated)
            && is_same(rule, &plain)
        {
            fault.object = range.value.to_string();
            "clients of this range are let in".clone_into(&mut fault.detail);
        }
    }
}

fn of_service_chain(
    written: &Written<'_>,
    port: &ExpectedPort,
    name: &str,
    (endpoints, action): (&[SocketAddr], Action),
    faults: &mut Vec<Fault>,
) {
    let rules = written.dump.rules("nat", name);
    let choices: Vec<&Rule> = rules.iter().filter(|rule| is_choice(rule)).collect();
    let wanted: BTreeMap<String, SocketAddr> =
        endpoints.iter().map(|endpoint| (chain::endpoint(&port.name, *endpoint), *endpoint)).collect();
    for (target, endpoint) in &wanted {
        let jumped = choices.iter().any(|rule| rule.target.as_ref() == Some(target));
        if !jumped {
            let exists = written.dump.chain("nat", target).is_some();
            faults.push(Fault {
                difference: Difference::Missing,
                kind: Kind::Backend,
                object: target.clone(),
                place: Place::within("nat", name),
                endpoint: Some(endpoint.to_string()),
                detail: match (exists, choices.last()) {
                    (_, None) => format!("{name} is empty or not there"),
                    (_, Some(last)) if last.probability.is_some() => {
                        "the last rule has a probability, so its share goes on untranslated".to_owned()
                    }
                    (true, Some(_)) => {
                        "its share moves to the rules after it; its own chain is there".to_owned()
                    }
                    (false, Some(_)) => {
                        "its share moves to the rules after it; its own chain is gone too".to_owned()
                    }
                },
            });
        }
        of_endpoint_chain(written, port, target, *endpoint, jumped, faults);
    }
    let mut seen = BTreeSet::new();
    for rule in &choices {
        let target = rule.target.clone().unwrap_or_default();
        let mut fault = |difference, kind, endpoint: Option<String>, detail: String| {
            let (object, place) = (target.clone(), place("nat", name, rule));
            faults.push(Fault { difference, kind, object, place, endpoint, detail });
        };
        let plain = Rule { target: rule.target.clone(), probability: rule.probability, ..Rule::default() };
        if !is_same(rule, &plain) {
            let detail = super::form::difference(rule, &plain);
            fault(
                Difference::Wrong,
                Kind::Backend,
                None,
                format!("packets that it leaves go on to other endpoints: {detail}"),
            );
        }
        let Some(endpoint) = wanted.get(&target) else {
            let to = written.dump.rules("nat", &target).iter().find_map(|rule| rule.to_destination);
            let detail = "an endpoint that the Service does not have on this node";
            fault(Difference::Extra, Kind::Stale, to.map(|to| to.to_string()), detail.to_owned());
            continue;
        };
        if !seen.insert(target.clone()) {
            let detail = "an endpoint is there twice and gets more than its share";
            fault(Difference::Extra, Kind::Shares, None, detail.to_owned());
        } else if let Some(comment) =
            rule.comment.as_deref().filter(|words| names_another(words, port, *endpoint))
        {
            let detail = format!(
                "it calls itself `{comment}` and leads to {endpoint}: two endpoints' rules were exchanged; shares stay as they are"
            );
            fault(Difference::Wrong, Kind::BackendTarget, Some(endpoint.to_string()), detail);
        }
    }
    // A rule too few or too many has been told; the probabilities of the others are then those of another number.
    if choices.len() == endpoints.len() {
        of_shares(name, &choices, faults);
    }
    if endpoints.is_empty() || rules.is_empty() {
        return;
    }
    let of = Of { table: "nat", chain: name, strangers: (Kind::Foreign, "") };
    let mut forms = wanted::service(port, endpoints, action, &written.flags);
    let mut known = of.compare(&forms, rules.iter().filter(|rule| !is_choice(rule)), faults);
    known.extend(choices.iter().map(|rule| (*rule, CHOICE)));
    known.sort_by_key(|(rule, _)| rule.position);
    forms.push(Form::new(CHOICE, Kind::Shares, Rule::default(), "rules after it get no packet"));
    of.order(&known, &forms, faults);
}

/// Choices come after all else in their chain.
const CHOICE: u8 = 2;

/// Whether a rule says of itself that it is about another endpoint; in large clusters rules say nothing.
fn names_another(comment: &str, port: &ExpectedPort, endpoint: SocketAddr) -> bool {
    let named = comment.split_once(" -> ").filter(|(name, _)| *name == port.name.to_string());
    named.and_then(|(_, to)| to.parse::<SocketAddr>().ok()).is_some_and(|to| to != endpoint)
}

/// Rule i of n has probability 1/(n-i), the last none: each endpoint then gets 1/n.
fn of_shares(name: &str, choices: &[&Rule], faults: &mut Vec<Fault>) {
    for (index, rule) in choices.iter().enumerate() {
        let left = choices.len() - index;
        #[expect(clippy::cast_precision_loss, reason = "far fewer rules than 2^52")]
        let wanted = (left > 1).then(|| 1.0 / left as f64);
        let same = match (wanted, rule.probability) {
            (Some(wanted), Some(found)) => (wanted - found).abs() < TOLERANCE,
            (None, None) => true,
            _ => false,
        };
        if !same {
            let words =
                |share: Option<f64>| share.map_or_else(|| "none".to_owned(), |share| format!("{share:.4}"));
            let last = if wanted.is_none() { "; what it does not take goes on untranslated" } else { "" };
            faults.push(Fault {
                difference: Difference::Wrong,
                kind: Kind::Shares,
                object: rule.target.clone().unwrap_or_default(),
                place: place("nat", name, rule),
                endpoint: None,
                detail: format!(
                    "probability {} where {} gives equal shares{last}",
                    words(rule.probability),
                    words(wanted)
                ),
            });
        }
    }
}

fn of_endpoint_chain(
    written: &Written<'_>,
    port: &ExpectedPort,
    name: &str,
    endpoint: SocketAddr,
    jumped: bool,
    faults: &mut Vec<Fault>,
) {
    let rules = written.dump.rules("nat", name);
    let translates = rules.iter().any(|rule| rule.target.as_deref() == Some("DNAT"));
    let mut forms = wanted::endpoint(port, name, endpoint);
    if !translates {
        // What is never translated is not asked whether it comes back.
        forms.retain(|form| form.kind != Kind::Masquerade || !rules.is_empty());
        if !jumped {
            return;
        }
    }
    in_chain(written, name, (Kind::Foreign, ""), &forms, faults);
}
