//! One question, answered from the compiled tables, with reasons.
//!
//! Invariant: the verdict is the engine's, run over the bytes that the kernel would hold; reasons are read back
//! from the entries that decided. Where pairs of one question differ, the verdict is `mixed` and says how; where
//! the API leaves it open, it is `undefined` and says why. Nothing is guessed.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlab_ebpf::reason::{Reason, Tier};
use serde::Serialize;

use super::backends::backends;
use super::change::Verdict;
use super::clash::{Clash, claimants, clashes};
use super::frame::Tuple;
use super::frontends::{Site, node_port, proxying_balancer, translation};
use super::image::ImageError;
use super::near_miss::{NearMiss, near_misses};
use super::open_address;
use super::provenance::{PolicyRef, RuleRef};
use super::query::{End, Pair, Query, Via, is_loopback, node_behind, node_of, owner, pairs, policed_pod};
use super::ruleset::Rulesets;
use super::trial::{HopVerdict, Trial};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::port::Protocol;
use crate::model::service::{Service, ServicePort};
use crate::service::not_proxied;

/// The verdict of a whole question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every pair passes.
    Allow,
    /// No pair passes.
    Deny,
    /// It differs by endpoint or by address family.
    Mixed,
    /// The API does not say, or there was nothing to ask.
    Undefined,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Mixed => "mixed",
            Self::Undefined => "undefined",
        })
    }
}

impl Outcome {
    /// The one verdict that it is, if it is one.
    pub const fn settled(self) -> Option<Verdict> {
        match self {
            Self::Allow => Some(Verdict::Allow),
            Self::Deny => Some(Verdict::Deny),
            Self::Mixed | Self::Undefined => None,
        }
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::Deny => Self::Deny,
        }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluation {
    /// All pairs taken together.
    pub verdict: Outcome,
    /// The source's side, of the pair that is shown first: a denied one if there is one.
    pub egress: Side,
    /// The destination's side of the same pair.
    pub ingress: Side,
    /// Every pair, in order.
    pub pairs: Vec<PairEvaluation>,
    /// What the verdict depends on beyond policy, or why it is undefined; one line each.
    pub notes: Vec<String>,
    /// What could make another verdict and was not looked at; one line each.
    #[serde(skip)]
    pub not_examined: Vec<String>,
}

/// The answer for one concrete packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PairEvaluation {
    /// Who opens.
    pub from: String,
    /// To whom.
    pub to: String,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port; 0 where the protocol has none.
    pub port: u16,
    /// By which address of a Service the source asks, if its node translates that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<ViaRef>,
    /// Both sides together, as the tables hold it.
    pub verdict: Verdict,
    /// Why the API does not define the verdict, if it does not: `tie between AdminNetworkPolicy a and …`.
    pub undefined: Option<String>,
    /// The source's side.
    pub egress: Side,
    /// The destination's side.
    pub ingress: Side,
}

/// The address of a Service, as answers name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ViaRef {
    /// `namespace/name:port`.
    pub service: String,
    /// The address.
    pub address: IpAddr,
    /// The Service's port.
    pub port: u16,
    /// The node whose proxy translates.
    pub node: String,
    /// True when the destination sees an address of the node.
    pub masquerades: bool,
}

impl From<&Via> for ViaRef {
    fn from(via: &Via) -> Self {
        let Via { service, address, port, node, masquerades } = via.clone();
        Self { service, address, port, node, masquerades }
    }
}

/// One side of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// What this side says.
    pub verdict: Verdict,
    /// Who decided.
    pub tier: TierName,
    /// The rule that decides, if one does.
    pub rule: Option<RuleRef>,
    /// The `Pass` rules that led there, in order.
    pub passed: Vec<RuleRef>,
    /// The policies that isolate this side.
    pub isolated_by: Vec<PolicyRef>,
    /// For a default deny: the rules that came closest.
    pub near_misses: Vec<NearMiss>,
    /// Other rules that match too: not needed, outranked, or never asked.
    pub losers: Vec<RuleRef>,
    /// The policies whose order the API leaves open and on which the verdict depends; then the tables deny.
    pub tied: Vec<PolicyRef>,
    /// The deciding entry; `None` where no hook is.
    pub entry: Option<u32>,
    /// In words, when no rule decided.
    pub reason: String,
}

impl Side {
    /// What each tied policy would do if it came first: its first rule that matches.
    pub fn tied_rules(&self) -> Vec<&RuleRef> {
        let matched = || self.rule.iter().chain(&self.passed).chain(&self.losers);
        let first = |policy: &PolicyRef| {
            matched().find(|rule| (rule.kind, &rule.name) == (policy.kind, &policy.name))
        };
        self.tied.iter().filter_map(first).collect()
    }
}

/// `admin`, `networkPolicy`, `baseline`, `default` or `exempt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TierName {
    /// See [`Tier::Admin`].
    Admin,
    /// See [`Tier::NetworkPolicy`].
    NetworkPolicy,
    /// See [`Tier::Baseline`].
    Baseline,
    /// See [`Tier::Default`].
    Default,
    /// See [`Tier::Exempt`].
    Exempt,
}

impl From<Tier> for TierName {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Admin => Self::Admin,
            Tier::NetworkPolicy => Self::NetworkPolicy,
            Tier::Baseline => Self::Baseline,
            Tier::Default => Self::Default,
            Tier::Exempt => Self::Exempt,
        }
    }
}

/// Answers a question. The pods that it names must be in the rulesets' scope.
///
/// # Errors
/// [`ImageError`] when the tables cannot be encoded.
pub fn evaluate(cluster: &Cluster, rulesets: &Rulesets, query: &Query) -> Result<Evaluation, ImageError> {
    Ok(evaluate_on(cluster, rulesets, &Trial::new(rulesets)?, query))
}

/// Answers one of many questions: the trial is of the same rulesets.
pub fn evaluate_on(cluster: &Cluster, rulesets: &Rulesets, trial: &Trial, query: &Query) -> Evaluation {
    let (pairs, mut notes) = pairs(cluster, query);
    let mut answers: Vec<PairEvaluation> =
        pairs.iter().map(|pair| pair_evaluation(cluster, rulesets, trial, pair)).collect();
    let mut verdicts: Vec<Verdict> = answers.iter().map(|answer| answer.verdict).collect();
    let mut shared = BTreeSet::new();
    for (answer, clash) in answers.iter_mut().zip(clashes(cluster, query, &pairs, &verdicts)) {
        let Some(Clash { words, settled }) = clash else { continue };
        if settled {
            shared.insert(words);
        } else {
            answer.undefined.get_or_insert(words);
        }
    }
    verdicts.sort_unstable();
    verdicts.dedup();
    let undefined: BTreeSet<(&String, &str)> = answers
        .iter()
        .filter_map(|answer| {
            let tables = match answer.verdict {
                Verdict::Deny => "deny it",
                Verdict::Allow => "let it pass so far",
            };
            Some((answer.undefined.as_ref()?, tables))
        })
        .collect();
    let verdict = match verdicts.as_slice() {
        [] => Outcome::Undefined,
        _ if !undefined.is_empty() => Outcome::Undefined,
        [verdict] if notes.is_empty() => (*verdict).into(),
        _ => Outcome::Mixed,
    };
    notes.extend(
        undefined.into_iter().map(|(why, do_so)| format!("undefined({why}): netlab's tables {do_so}")),
    );
    notes.extend(shared);
    notes.extend(dependencies(cluster, &pairs));
    let asked: Vec<(&Pair, &PairEvaluation)> = pairs.iter().zip(&answers).collect();
    notes.extend(open_address::notes(cluster, rulesets, &asked));
    let shown = answers.iter().find(|answer| answer.verdict == Verdict::Deny).or(answers.first());
    let (egress, ingress) = shown.map_or_else(
        || (no_hook("nothing could be asked"), no_hook("nothing could be asked")),
        |answer| (answer.egress.clone(), answer.ingress.clone()),
    );
    let of_pair = |(pair, answer): (&Pair, &PairEvaluation)| {
        rulesets.by_domain_name(cluster, pair, answer.egress.verdict)
    };
    let mut not_examined: Vec<String> = pairs.iter().zip(&answers).flat_map(of_pair).collect();
    not_examined.sort_unstable();
    not_examined.dedup();
    Evaluation { verdict, egress, ingress, pairs: answers, notes, not_examined }
}

/// Why the API does not define what becomes of a packet to a Service, where it depends on what the node's proxy makes of
/// it: which of several endpoints it gets, or whose address its endpoint sees.
pub fn left_open(cluster: &Cluster, pair: &Pair, hops: &[Option<HopVerdict>; 2]) -> Option<String> {
    let [egress, ingress] = hops;
    let Some(via) = pair.via.as_ref() else {
        let denied = egress.is_some_and(|hop| hop.verdict == Verdict::Deny);
        if let Some(service) = &pair.rewritten_for
            && ingress.is_some_and(|hop| hop.reason == Reason::Row)
        {
            return Some(format!(
                "nodes put an address of their own in place of the client's on the way to {service}, and policies \
                 of {} see that",
                pair.to
            ));
        }
        return led_on(cluster, pair).or_else(|| led_nowhere(cluster, pair)).filter(|_| !denied);
    };
    if egress.is_some_and(|hop| hop.reason == Reason::ServiceMixed) {
        return Some(format!(
            "{} leads to endpoints of both kinds, some on node {} itself, where none can be told from the others",
            via.service, via.node
        ));
    }
    let denied = egress.is_some_and(|hop| hop.verdict == Verdict::Deny);
    let judged = ingress.is_some_and(|hop| hop.reason == Reason::Row);
    (via.masquerades && pair.from != pair.to && judged && !denied).then(|| {
        format!(
            "node {} puts its own address in place of the pod's, and policies of {} see that",
            via.node, pair.to
        )
    })
}

/// An address of a Service where the source's node translates nothing: nobody answers there for certain, and no policy is to
/// blame.
fn led_nowhere(cluster: &Cluster, pair: &Pair) -> Option<String> {
    let Tuple { destination: address, destination_port: port, .. } = pair.tuple;
    if owner(cluster, address) != End::Address(address) {
        return None;
    }
    let is_served = |service: &Service| not_proxied(service).is_none() && service.has_address(address);
    let (key, _) = cluster.services.iter().find(|(_, service)| is_served(service))?;
    let Some(protocol) = Protocol::ALL.into_iter().find(|one| one.number() == pair.tuple.protocol) else {
        return Some(format!(
            "{address} is an address of svc/{key}: proxies translate TCP, UDP and SCTP there alone"
        ));
    };
    let claimants = claimants(cluster, (address, port, protocol));
    let Some((key, _)) = claimants.first() else {
        return Some(format!(
            "{address} is an address of svc/{key}, and no Service has port {port}/{} there: it is not translated",
            protocol.lower()
        ));
    };
    let has_endpoint = |(key, port): &(&ObjectKey, &ServicePort)| !backends(cluster, key, port).is_empty();
    if !claimants.iter().any(has_endpoint) {
        return Some(format!(
            "svc/{key} has no endpoint for port {port}: a connection is refused, not denied"
        ));
    }
    let pod = policed_pod(cluster, &pair.from);
    let node = pod.map(|pod| node_of(cluster, &pod)).or_else(|| node_behind(cluster, &pair.from))?;
    let site = Site { cluster, node: &node, addresses: &[], wires: &[] };
    translation(site, address, port, protocol)
        .is_none()
        .then(|| format!("the proxy of node {node} leads {address}:{port} to no endpoint"))
}

/// A node port of another node than the client's: that node leads on, from its own address or the client's, and policies of
/// the endpoints see that.
fn led_on(cluster: &Cluster, pair: &Pair) -> Option<String> {
    let tuple = &pair.tuple;
    let protocol = Protocol::ALL.into_iter().find(|one| one.number() == tuple.protocol)?;
    if tuple.destination.to_canonical().is_ipv4() && is_loopback(tuple.destination) {
        // A pod's loopback is its own; the node's has node ports where its proxy says so.
        let node = node_behind(cluster, &pair.from)?;
        let key = node_port(cluster, tuple.destination_port, Some(protocol))?;
        return Some(format!(
            "port {} is a node port of svc/{key}: on node {node} a proxy of iptables mode leads on from the loopback, too, unless \
             `--iptables-localhost-nodeports` is off, to endpoints whose policies were not asked; other modes do not",
            tuple.destination_port
        ));
    }
    if let Some(key) = proxying_balancer(cluster, tuple.destination, tuple.destination_port, protocol) {
        return Some(format!(
            "{} is a balancer of svc/{key} that ends connections itself (`ipMode: Proxy`): it opens others to endpoints, whose \
             policies were not asked",
            tuple.destination
        ));
    }
    let End::Node(node) = owner(cluster, tuple.destination) else { return None };
    let key = node_port(cluster, tuple.destination_port, Some(protocol))?;
    Some(format!(
        "port {} of node {node} is a node port of svc/{key}: that node leads on to endpoints, whose policies were not asked",
        tuple.destination_port
    ))
}

fn pair_evaluation(cluster: &Cluster, rulesets: &Rulesets, trial: &Trial, pair: &Pair) -> PairEvaluation {
    let hops = trial.hops(cluster, pair);
    let open = left_open(cluster, pair, &hops);
    let [egress, ingress] = hops;
    let egress = egress
        .map_or_else(|| no_hook("no pod that policies select"), |hop| side(cluster, rulesets, pair, hop));
    let ingress = ingress
        .map_or_else(|| no_hook("no pod that policies select"), |hop| side(cluster, rulesets, pair, hop));
    PairEvaluation {
        from: pair.from.to_string(),
        to: pair.to.to_string(),
        source: pair.tuple.source,
        destination: pair.tuple.destination,
        port: pair.tuple.destination_port,
        via: pair.via.as_ref().map(ViaRef::from),
        verdict: egress.verdict.max(ingress.verdict),
        undefined: open.or_else(|| undefined([&egress, &ingress])),
        egress,
        ingress,
    }
}

/// Why the verdict of the two sides together is not defined: `tie between AdminNetworkPolicy a and …`. A side that
/// denies for sure settles it.
pub fn undefined<'s>(sides: impl IntoIterator<Item = &'s Side>) -> Option<String> {
    let sides: Vec<&Side> = sides.into_iter().collect();
    if sides.iter().any(|side| side.verdict == Verdict::Deny && side.tied.is_empty()) {
        return None;
    }
    let ties: Vec<String> =
        sides.iter().filter(|side| !side.tied.is_empty()).map(|side| tie_words(&side.tied)).collect();
    (!ties.is_empty()).then(|| ties.join("; "))
}

/// `tie between AdminNetworkPolicy a and AdminNetworkPolicy b`.
pub(super) fn tie_words(tied: &[PolicyRef]) -> String {
    let names: Vec<String> = tied.iter().map(PolicyRef::kind_and_name).collect();
    match names.split_last() {
        Some((last, [])) => format!("tie of {last}"),
        Some((last, others)) => format!("tie between {} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The reasons behind what a hook decided.
pub fn side(cluster: &Cluster, rulesets: &Rulesets, pair: &Pair, hop: HopVerdict) -> Side {
    use netlab_ebpf::abi::Direction;
    let Some(citation) = rulesets.cite(hop.entry) else {
        return Side {
            verdict: hop.verdict,
            entry: Some(hop.entry),
            ..no_hook("an entry of another compilation")
        };
    };
    let (subject, peer) = match hop.direction {
        Direction::Ingress => (&pair.to, &pair.from),
        Direction::Egress => (&pair.from, &pair.to),
    };
    let default_deny =
        hop.verdict == Verdict::Deny && citation.rule.is_none() && citation.reason == Reason::Row;
    let near_misses = if default_deny {
        let isolating = match policed_pod(cluster, subject) {
            Some(key) => rulesets.isolating(&key, hop.direction),
            None => Vec::new(),
        };
        near_misses(cluster, &isolating, hop.direction, peer, subject, &pair.tuple)
    } else {
        Vec::new()
    };
    let mut reason = match (&citation.rule, citation.reason) {
        (Some(_), _) => String::new(),
        (None, Reason::Row) => citation.words(),
        (None, _) => hop.reason_words(),
    };
    if !citation.tied.is_empty() {
        reason = format!("undefined({}): netlab's tables deny it", tie_words(&citation.tied));
    }
    Side {
        verdict: hop.verdict,
        tier: citation.tier.into(),
        rule: citation.rule,
        passed: citation.passed,
        isolated_by: citation.isolated_by,
        near_misses,
        losers: citation.losers,
        tied: citation.tied,
        entry: Some(hop.entry),
        reason,
    }
}

impl HopVerdict {
    /// What decided, in words, when it was no rule.
    fn reason_words(&self) -> String {
        let reason = match self.reason {
            Reason::Row => Reason::from_entry(self.entry).unwrap_or(Reason::Row),
            built_in => built_in,
        };
        reason.describe().to_owned()
    }
}

/// A side at which nothing is enforced.
fn no_hook(reason: &str) -> Side {
    Side {
        verdict: Verdict::Allow,
        tier: TierName::Default,
        rule: None,
        passed: Vec::new(),
        isolated_by: Vec::new(),
        near_misses: Vec::new(),
        losers: Vec::new(),
        tied: Vec::new(),
        entry: None,
        reason: reason.to_owned(),
    }
}

/// That a node port is asked for at an address of the node that a proxy of nftables mode does not take by default
/// (`--nodeport-addresses primary`, `cmd/kube-proxy/app/server_linux.go`).
fn beside_primary(cluster: &Cluster, pair: &Pair) -> Option<String> {
    let via = pair.via.as_ref()?;
    let mut own = cluster.nodes.get(&via.node)?.addresses.iter();
    if !own.clone().any(|address| *address == via.address) {
        return None;
    }
    let primary = own.find(|address| address.is_ipv4() == via.address.is_ipv4())?;
    node_port(cluster, via.port, None)?;
    (*primary != via.address).then(|| {
        format!(
            "{} is not the primary address of node {} ({primary}): a proxy of nftables mode takes node ports there only if \
             `--nodeport-addresses` says so, and else they are refused",
            via.address, via.node
        )
    })
}

/// What else the verdict rests on, where the API leaves room.
fn dependencies(cluster: &Cluster, pairs: &[Pair]) -> Vec<String> {
    let mut notes = BTreeSet::new();
    for pair in pairs {
        notes.extend(beside_primary(cluster, pair));
        for (end, peer_as_destination) in [(&pair.from, Some(&pair.to)), (&pair.to, None)] {
            let End::Pod(key) = end else { continue };
            let Some(pod) = cluster.pods.get(key) else { continue };
            if pod.host_network {
                notes.insert(format!("{key} uses its node's network: policies see the node, not the pod"));
            }
            if pod.terminal {
                notes.insert(format!("{key} has finished: it is neither subject nor peer"));
            }
            if let Some(End::Node(node)) = peer_as_destination
                && pod.node.as_ref() == Some(node)
                && pod.is_policed()
            {
                notes.insert(format!(
                    "{key} -> its own node {node}: the API leaves open whether egress policy applies; here it does"
                ));
            }
        }
    }
    notes.into_iter().collect()
}
