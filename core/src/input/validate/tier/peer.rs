//! Subjects and peers: exactly one field each, and what an unknown field means.

use std::sync::Arc;

use super::{Dialect, rule};
use crate::diagnostic::code;
use crate::input::validate::holder::Holder;
use crate::input::validate::{Report, field, peer, selector};
use crate::input::wire::meta::LabelSelector;
use crate::input::wire::tier_policy::{NamespacedPod, Peer as WirePeer, Subject};
use crate::model::address::AddressBlock;
use crate::model::policy::{Action, NamespaceScope, Peer, PeerMatch, PodSelector};
use crate::model::selector::Selector;

/// What an element of `from` or `to` comes to.
#[derive(Debug)]
pub(super) enum Found {
    /// One, or one for each of its networks.
    Peers(Vec<Peer>),
    /// A kind of peer that only a newer API knows.
    FailsClosed,
    /// It was reported, or matches nobody.
    Nothing,
}

/// Reads `spec.subject`; `None` after reporting why not.
pub(super) fn subject(report: &mut Report<'_>, dialect: &Dialect, wire: &Subject) -> Option<PodSelector> {
    let path = "spec.subject";
    field::unknown(report, path, dialect.subject, &wire.unknown);
    match (&wire.namespaces, &wire.pods) {
        (Some(namespaces), None) => {
            Some(of_namespaces(selector::selector(report, &format!("{path}.namespaces"), namespaces)))
        }
        (None, Some(pods)) => namespaced_pod(report, dialect, &format!("{path}.pods"), pods),
        (None, None) => {
            if wire.unknown.is_empty() {
                let hint = "write `namespaces` or `pods`; `namespaces: {}` is every pod";
                report.error(code::SUBJECT_NOT_ONE, path, "a subject that selects nothing", hint);
            }
            None
        }
        (Some(_), Some(_)) => {
            let hint = "`pods` has a `namespaceSelector` of its own";
            report.error(code::SUBJECT_NOT_ONE, path, "both `namespaces` and `pods` in one subject", hint);
            None
        }
    }
}

/// Reads one element of `from` or `to`.
pub(super) fn peer(
    report: &mut Report<'_>,
    dialect: &Dialect,
    holder: &'static Holder,
    path: &str,
    action: Option<Action>,
    wire: &WirePeer,
) -> Found {
    let written = written(wire);
    // A field that another holder has, or that looks like one of ours, is a slip; any other may be a newer API's.
    let slip = |field: &String| field::recognised(holder, field);
    let misplaced = written.iter().find(|name| !holder.fields.contains(name));
    if let Some(name) = misplaced {
        let hint = format!("{} takes {}", holder.place, holder.fields.join(", "));
        field::report(report, path, name, &field::recognised(holder, name).unwrap_or(hint));
        return Found::Nothing;
    }
    if written.is_empty()
        && !wire.unknown.is_empty()
        && wire.unknown.keys().all(|field| slip(field).is_none())
    {
        let names = wire.unknown.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let effect = match action {
            Some(Action::Accept) | None => "the rule matches nothing",
            Some(Action::Deny | Action::Pass) => "the rule denies everything",
        };
        let message = format!("a peer of a kind that is not known here ({names}): {effect}");
        let hint = "the API asks that such a rule fail closed";
        report.warning(code::PEER_NOT_KNOWN, path, message, hint);
        return Found::FailsClosed;
    }
    field::unknown(report, path, holder, &wire.unknown);
    match written.as_slice() {
        [_] => one(report, dialect, path, action, wire),
        [] => {
            if wire.unknown.is_empty() {
                let hint =
                    format!("write one of {}; `namespaces: {{}}` is every pod", holder.fields.join(", "));
                report.error(code::PEER_EMPTY, path, "a peer that names nobody", &hint);
            }
            Found::Nothing
        }
        several => {
            let message = format!("a peer with {} at once", several.join(" and "));
            report.error(code::PEER_MIXED, path, message, "write them as elements of their own");
            Found::Nothing
        }
    }
}

/// The fields that are there.
fn written(wire: &WirePeer) -> Vec<&'static str> {
    [
        ("namespaces", wire.namespaces.is_some()),
        ("pods", wire.pods.is_some()),
        ("networks", wire.networks.is_some()),
        ("nodes", wire.nodes.is_some()),
        ("domainNames", wire.domain_names.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, there)| there.then_some(name))
    .collect()
}

fn one(
    report: &mut Report<'_>,
    dialect: &Dialect,
    path: &str,
    action: Option<Action>,
    wire: &WirePeer,
) -> Found {
    let single = |matches: PeerMatch| Found::Peers(vec![Peer { path: path.into(), matches }]);
    if let Some(namespaces) = &wire.namespaces {
        let selector = selector::selector(report, &format!("{path}.namespaces"), namespaces);
        single(PeerMatch::Pods(of_namespaces(selector)))
    } else if let Some(pods) = &wire.pods {
        let selector = namespaced_pod(report, dialect, &format!("{path}.pods"), pods);
        selector.map_or(Found::Nothing, |selector| single(PeerMatch::Pods(selector)))
    } else if let Some(networks) = &wire.networks {
        self::networks(report, &format!("{path}.networks"), networks)
    } else if let Some(nodes) = &wire.nodes {
        single(PeerMatch::Nodes(selector::selector(report, &format!("{path}.nodes"), nodes)))
    } else {
        let names = wire.domain_names.as_deref().unwrap_or_default();
        domain_names(report, dialect, &format!("{path}.domainNames"), action, names)
    }
}

fn of_namespaces(selector: Selector) -> PodSelector {
    PodSelector { namespaces: NamespaceScope::Matching(selector), pods: Selector::default() }
}

fn namespaced_pod(
    report: &mut Report<'_>,
    dialect: &Dialect,
    path: &str,
    wire: &NamespacedPod,
) -> Option<PodSelector> {
    field::unknown(report, path, dialect.pods, &wire.unknown);
    // v1alpha1 requires both and its Go type has an empty selector for what is absent; v1alpha2 requires the second.
    let v1alpha1 = !std::ptr::eq(dialect, &raw const super::CLUSTER);
    let mut absent = |field: &str, means: &str, refused: bool| {
        let message = format!("`pods` without `{field}`");
        let hint = format!("write `{field}: {{}}` for every {means}");
        if refused {
            report.error(code::PODS_SELECTOR_ABSENT, path, message, &hint);
        } else {
            let hint = format!("{hint}, as which it is read here: an API server refuses it");
            report.warning(code::PODS_SELECTOR_ABSENT, path, message, &hint);
        }
    };
    if v1alpha1 && wire.namespace_selector.is_none() {
        absent("namespaceSelector", "namespace", false);
    }
    if wire.pod_selector.is_none() {
        absent("podSelector", "pod", !v1alpha1);
    }
    let mut read = |field: &str, wire: Option<&LabelSelector>| {
        wire.map_or_else(Selector::default, |wire| {
            selector::selector(report, &format!("{path}.{field}"), wire)
        })
    };
    let namespaces = read("namespaceSelector", wire.namespace_selector.as_ref());
    let pods = read("podSelector", wire.pod_selector.as_ref());
    (v1alpha1 || wire.pod_selector.is_some())
        .then_some(PodSelector { namespaces: NamespaceScope::Matching(namespaces), pods })
}

fn networks(report: &mut Report<'_>, path: &str, written: &[String]) -> Found {
    // The same number in both versions, whatever the length of other lists.
    rule::count(report, &super::CLUSTER, path, "networks", 1, written.len());
    let mut peers = Vec::new();
    for (index, text) in written.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if written[..index].contains(text) {
            let message = format!("`{text}` stands here twice");
            report.error(code::WRONG_LENGTH, &path, message, "the API refuses it: once is enough");
        }
        if let Some(cidr) = peer::cidr(report, &path, text) {
            let block = AddressBlock { cidr, except: Vec::new() };
            peers.push(Peer { path: path.into(), matches: PeerMatch::Block(block) });
        }
    }
    Found::Peers(peers)
}

fn domain_names(
    report: &mut Report<'_>,
    dialect: &Dialect,
    path: &str,
    action: Option<Action>,
    written: &[String],
) -> Found {
    rule::count(report, &super::CLUSTER, path, "domain names", 1, written.len());
    for (index, name) in written.iter().enumerate().filter(|(_, name)| !is_domain_name(name)) {
        let message = format!("`{name}` is no domain name");
        let hint = "write `example.org`, or `*.example.org` for what is below it";
        report.error(code::INVALID_DOMAIN_NAME, &format!("{path}[{index}]"), message, hint);
    }
    match action {
        Some(Action::Deny | Action::Pass) => {
            let accept = dialect.kind.action_word(Action::Accept);
            let message = format!("`domainNames` in a rule that does not {}", accept.to_lowercase());
            if std::ptr::eq(dialect, &raw const super::CLUSTER) {
                let hint = "it is only for Accept rules; the rule fails closed and denies everything";
                report.warning(code::DOMAIN_NAMES_NOT_MODELLED, path, message, hint);
            } else {
                let hint = format!("it is only for rules with `action: {accept}`");
                report.error(code::INVALID_ACTION, path, message, &hint);
            }
            Found::FailsClosed
        }
        Some(Action::Accept) | None => {
            let message = "`domainNames` are not modelled: what only they would accept counts as not matched";
            let hint = "netlab does not see which addresses a name has in your cluster";
            report.warning(code::DOMAIN_NAMES_NOT_MODELLED, path, message, hint);
            let names = written.iter().map(|name| Arc::from(name.as_str())).collect();
            Found::Peers(vec![Peer { path: path.into(), matches: PeerMatch::DomainNames(names) }])
        }
    }
}

/// Two labels at least, a `*` only as the first of three or more, a dot at the end if at all. The CRD's pattern,
/// less the characters between `Z` and `a` that it lets in by a slip.
fn is_domain_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let name = name.strip_prefix("*.").unwrap_or(name);
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let label = |label: &str| {
        let bytes = label.as_bytes();
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().copied().all(inner)
    };
    name.contains('.') && name.split('.').all(label)
}
