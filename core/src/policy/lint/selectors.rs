//! Selectors that mean nobody: subjects without pods, peers without pods or namespaces, and selectors that can never
//! match. Each with the labels that come nearest.
//!
//! Invariant: a warning only where the input shows who is there: a namespace without pods in the input gives a note, a
//! namespace whose labels are not known gives nothing (the input has said that already).

use std::collections::BTreeSet;

use super::finding::Finding;
use super::ground::{Ground, all_rules, is_written, namespaces, selector_paths, subject_paths};
use super::nearest::{is_slip, nearest, nearest_word};
use super::peers::is_told;
use crate::diagnostic::{Diagnostic, Severity, code};
use crate::model::cluster::Labels;
use crate::model::policy::{NamespaceScope, Peer, PeerMatch, PodSelector, Policy, Rule};
use crate::model::selector::{Operator, Selector};
use crate::policy::near_miss::{failing, list};

/// The label that every namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Most groups of like pods that are compared to find the nearest: more would cost more than the hint is worth.
const MOST_COMPARED: usize = 1_000;

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    for policy in &ground.policies.list {
        let paths = subject_paths(policy);
        match contradiction(&policy.subject) {
            Some(words) => findings.push(never(policy, &paths, &words, "the policy selects nothing")),
            None if ground.select(&policy.subject).is_empty() => {
                let nobody = nobody(ground, policy, &policy.subject, &paths, None);
                findings.extend(nobody.map(|Nobody { code, severity, path, message, hint }| {
                    let code = if code == code::PEER_IS_NOBODY { code::SUBJECT_IS_NOBODY } else { code };
                    let here = if severity == Severity::Note { " in the input" } else { "" };
                    let message = format!("this policy selects no pod{here}: {message}");
                    Finding::at(policy, &path, diagnostic(severity, code, message, hint))
                }));
            }
            None => {}
        }
        for rule in all_rules(policy) {
            for peer in rule.peers.iter().flatten() {
                findings.extend(of_peer(ground, policy, rule, peer));
            }
        }
    }
}

fn diagnostic(severity: Severity, code: &'static str, message: String, hint: String) -> Diagnostic {
    let diagnostic = if severity == Severity::Note {
        Diagnostic::note(code, message)
    } else {
        Diagnostic::warning(code, message)
    };
    diagnostic.with_hint(hint)
}

fn of_peer(ground: &Ground<'_>, policy: &Policy, rule: &Rule, peer: &Peer) -> Option<Finding> {
    let PeerMatch::Pods(selector) = &peer.matches else { return None };
    let paths = selector_paths(policy, peer);
    if let Some(words) = contradiction(selector) {
        return Some(never(policy, &paths, &words, "the peer matches nobody"));
    }
    if !ground.select(selector).is_empty() || is_told(ground, policy, rule, peer) {
        return None;
    }
    let Nobody { code, severity, path, message, hint } =
        nobody(ground, policy, selector, &paths, Some(&policy.subject))?;
    let is_nobody = |peer: &Peer| match &peer.matches {
        PeerMatch::Pods(selector) => ground.select(selector).is_empty(),
        PeerMatch::Block(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => false,
    };
    let verb = if policy.id.kind.is_ordered() { "matches" } else { "admits" };
    let so = if rule.peers.iter().flatten().all(is_nobody) {
        format!("; so the rule {verb} nobody")
    } else {
        String::new()
    };
    // What the input does not show may be there.
    let here = if severity == Severity::Note { " in the input" } else { "" };
    let message = format!("this peer is nobody{here}: {message}{so}");
    Some(Finding::at(policy, &path, diagnostic(severity, code, message, hint)))
}

/// What there is to say of a selector without pods.
struct Nobody {
    code: &'static str,
    severity: Severity,
    path: String,
    message: String,
    hint: String,
}

/// Why a selector selects nobody; `None` where that cannot be told, or was told of the subject already.
fn nobody(
    ground: &Ground<'_>,
    policy: &Policy,
    selector: &PodSelector,
    (pods_path, namespaces_path): &(String, String),
    subject: Option<&PodSelector>,
) -> Option<Nobody> {
    if ground.has_no_pods() {
        return None;
    }
    let found = namespaces(ground.cluster, &selector.namespaces);
    if let (NamespaceScope::Matching(wanted), []) = (&selector.namespaces, found.as_slice()) {
        return no_namespace(ground, wanted, namespaces_path);
    }
    let staffed: BTreeSet<&str> =
        found.iter().copied().filter(|namespace| ground.has_pods(namespace)).collect();
    if staffed.is_empty() {
        let own = matches!(selector.namespaces, NamespaceScope::Own(_));
        // Of the policy's own namespace it is said once.
        if own && subject.is_some_and(|subject| ground.select(subject).is_empty()) {
            return None;
        }
        let names = found.iter().take(2).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let path = if is_written(policy, namespaces_path) { namespaces_path } else { pods_path };
        return Some(Nobody {
            code: code::PEER_IS_NOBODY,
            severity: Severity::Note,
            path: path.clone(),
            message: format!("there is no pod of namespace {names}"),
            hint: "add its workloads to the input, or the namespace is empty".to_owned(),
        });
    }
    let candidates =
        ground.groups().filter(|(_, group)| staffed.contains(group.namespace)).take(MOST_COMPARED);
    let near = nearest(&selector.pods, candidates.map(|(index, group)| (index, group.labels)))?;
    let place = match (&selector.namespaces, staffed.len()) {
        (NamespaceScope::Matching(scope), _) if scope.is_empty() => String::new(),
        (_, 1) => format!(" of {}", staffed.iter().next().copied().unwrap_or_default()),
        (_, number) => format!(" of those {number} namespaces"),
    };
    let message = format!("no pod{place} has {}", selector.pods);
    // Who looks in every namespace may mean one that is not in the input.
    let everywhere = matches!(&selector.namespaces, NamespaceScope::Matching(scope) if scope.is_empty());
    if everywhere && !near.close {
        return Some(Nobody {
            code: code::PEER_IS_NOBODY,
            severity: Severity::Note,
            path: pods_path.clone(),
            message,
            hint: "add its workloads to the input, or is the label right?".to_owned(),
        });
    }
    let wants = list(&failing(&selector.pods, ground.group(near.what).labels));
    let who = super::ground::names(ground.pods([&near.what]));
    Some(Nobody {
        code: code::PEER_IS_NOBODY,
        severity: Severity::Warning,
        path: pods_path.clone(),
        message,
        hint: format!("nearest is {who}: it has {} where {wants} is wanted", near.has),
    })
}

/// Why no namespace matches.
fn no_namespace(ground: &Ground<'_>, wanted: &Selector, path: &str) -> Option<Nobody> {
    let known = &ground.cluster.namespaces;
    let all = || known.iter().map(|(name, namespace)| (name, &namespace.labels));
    let nobody = |severity, message, hint| {
        let path = path.to_owned();
        Some(Nobody { code: code::PEER_IS_NOBODY, severity, path, message, hint })
    };
    let value = |key: &str| {
        wanted.requirements().iter().find(|requirement| requirement.key == key).and_then(|requirement| {
            match &requirement.operator {
                Operator::In(values) => values.first(),
                Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => None,
            }
        })
    };
    if let Some(name) = value(NAMESPACE_NAME).filter(|name| !known.contains_key(*name)) {
        let message = format!("there is no namespace `{name}`");
        let near = nearest_word(name, known.keys().map(String::as_str)).filter(|near| is_slip(name, near));
        return match near {
            Some(near) => nobody(Severity::Warning, message, format!("did you mean `{near}`?")),
            None => nobody(
                Severity::Note,
                message,
                "add its objects to the input, or is the name right?".to_owned(),
            ),
        };
    }
    if let Some(name) = value("name")
        && let Some(namespace) = known.get(name).filter(|namespace| namespace.declared)
        && !namespace.labels.contains_key("name")
    {
        return Some(Nobody {
            code: code::NAMESPACE_NAME_LABEL,
            severity: Severity::Warning,
            path: path.to_owned(),
            message: format!("namespace `{name}` has no label `name`"),
            hint: format!("write `{NAMESPACE_NAME}: {name}`, which every namespace has"),
        });
    }
    let names_only = wanted.requirements().iter().all(|requirement| requirement.key == NAMESPACE_NAME);
    if !names_only && known.values().any(|namespace| !namespace.declared) {
        return None;
    }
    let near = nearest(wanted, all())?;
    let labels: &Labels = known.get(near.what).map(|namespace| &namespace.labels)?;
    let wants = list(&failing(wanted, labels));
    let message = format!("no namespace has {wanted}");
    nobody(
        Severity::Warning,
        message,
        format!("nearest is `{}`: it has {} where {wants} is wanted", near.what, near.has),
    )
}

fn never(policy: &Policy, (pods, namespaces): &(String, String), words: &Words, so: &str) -> Finding {
    let path = if words.of_pods { pods } else { namespaces };
    let message = format!("{} can never hold at once: {so}", words.text);
    let hint = "requirements of one selector are ANDed; for an OR write two peers, or `In` with both values";
    Finding::at(policy, path, Diagnostic::warning(code::SELECTOR_CONTRADICTS, message).with_hint(hint))
}

/// Two requirements that exclude each other.
struct Words {
    of_pods: bool,
    text: String,
}

/// The first contradiction in a selector, the pods' first.
fn contradiction(selector: &PodSelector) -> Option<Words> {
    let of = |selector: &Selector, of_pods| excluded(selector).map(|text| Words { of_pods, text });
    of(&selector.pods, true).or_else(|| match &selector.namespaces {
        NamespaceScope::Matching(scope) => of(scope, false),
        NamespaceScope::Own(_) => None,
    })
}

fn excluded(selector: &Selector) -> Option<String> {
    let all = selector.requirements();
    let pairs =
        all.iter().enumerate().flat_map(|(index, one)| all[..index].iter().map(move |other| (other, one)));
    let mut excluding = pairs.filter(|(one, other)| {
        let meet = |one: &Operator, other: &Operator| match (one, other) {
            (Operator::In(a), Operator::In(b)) => a.is_disjoint(b),
            (Operator::In(a), Operator::NotIn(b)) => a.is_subset(b),
            (Operator::In(_) | Operator::Exists, Operator::DoesNotExist) => true,
            _ => false,
        };
        one.key == other.key && (meet(&one.operator, &other.operator) || meet(&other.operator, &one.operator))
    });
    excluding.next().map(|(one, other)| format!("{one} and {other}"))
}
