//! One set of objects on both sides: the oracle over the wire structs, the engine over compiled tables.
//!
//! The verdict of each side must be the same, and so must the reasons: which policies isolate, which rules admit,
//! by which of their peers and ports.

use std::collections::BTreeSet;

use netlab_core::input::{Budget, Document, Loaded, WireObjects, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::policy::Policies;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate::{self, TierName};
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::oracle::{self, IpProtocol, Oracle, Question, TierMatch, Why};
use netlab_core::policy::provenance::{PolicyRef, RuleRef};
use netlab_core::policy::query::{End, Pair, Query, SOURCE_PORT, Service};
use netlab_core::policy::trial::{HopVerdict, Trial};
use netlab_core::policy::{Limits, Numbers, Rulesets, Scope, compile, compile_with};
use netlab_core::testing::manifest;

/// How the tables are compiled: none of these may change a verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Everything at once.
    Cluster,
    /// Each node its own tables, as on real nodes.
    Nodes,
    /// Each pod its own tables, as for a single question.
    Pods,
    /// On top of the numbers of a compilation with half of the policies.
    Later,
}

/// Some objects on both sides.
pub(crate) struct Sides {
    pub(crate) loaded: Loaded,
    tables: Vec<(Rulesets, Trial)>,
}

impl Sides {
    /// An error when the reader, the compiler or the encoder refuses something of the objects.
    pub(crate) fn of(objects: &WireObjects, way: Way) -> Result<Self, String> {
        let document = Document { name: "world.yaml".into(), text: manifest::write(objects).into() };
        let loaded = load([document], &Budget::default());
        if !loaded.is_complete() {
            return Err(format!("{:#?}", loaded.diagnostics));
        }
        Self::of_loaded(loaded, way)
    }

    /// The same for what was already read.
    pub(crate) fn of_loaded(loaded: Loaded, way: Way) -> Result<Self, String> {
        let cluster = &loaded.cluster;
        let scopes: Vec<Scope> = match way {
            Way::Cluster | Way::Later => vec![Scope::Cluster],
            Way::Nodes => {
                let nodes: BTreeSet<_> = cluster.pods.values().filter_map(|pod| pod.node.clone()).collect();
                nodes.into_iter().map(Scope::Node).chain([pods_without_node(&loaded)]).collect()
            }
            Way::Pods => cluster.pods.keys().map(|key| Scope::Pods([key.clone()].into())).collect(),
        };
        let numbers = match way {
            Way::Later => {
                let half = loaded.policies.list.len() / 2;
                let earlier = Policies { list: loaded.policies.list[..half].to_vec() };
                compile(cluster, &earlier, &Scope::Cluster).rulesets.numbers
            }
            _ => Numbers::default(),
        };
        let mut tables = Vec::new();
        for scope in scopes {
            let compiled = compile_with(cluster, &loaded.policies, &scope, &numbers, &Limits::default());
            if !compiled.diagnostics.is_empty() {
                return Err(format!("{:#?}", compiled.diagnostics));
            }
            let trial = Trial::new(&compiled.rulesets).map_err(|error| error.to_string())?;
            tables.push((compiled.rulesets, trial));
        }
        Ok(Self { loaded, tables })
    }

    /// What each hook decides, each by the tables that hold its pod.
    pub(crate) fn hops(&self, pair: &Pair) -> [Option<(&Rulesets, HopVerdict)>; 2] {
        let mut hops = [None, None];
        for (rulesets, trial) in &self.tables {
            for (hop, found) in hops.iter_mut().zip(trial.hops(&self.loaded.cluster, pair)) {
                *hop = hop.or(found.map(|found| (rulesets, found)));
            }
        }
        hops
    }

    /// What the two say differently, in words; `None` when they agree.
    pub(crate) fn disagreement(&self, question: &Question) -> Option<String> {
        let answer = Oracle::new(&self.loaded.wire).judge(question);
        let pair = pair(question);
        let [egress, ingress] = self.hops(&pair);
        for (name, expected, hop) in
            [("egress", &answer.egress, egress), ("ingress", &answer.ingress, ingress)]
        {
            let found = hop.map(|(rulesets, hop)| evaluate::side(&self.loaded.cluster, rulesets, &pair, hop));
            if let Some(difference) = difference(expected, found.as_ref()) {
                return Some(format!("{name}: {difference}\noracle {expected:?}\nengine {found:?}"));
            }
        }
        None
    }

    /// The verdict when it is asked as users ask; `None` where tables are not the whole cluster's.
    pub(crate) fn evaluated(&self, question: &Question) -> Option<Verdict> {
        let [(rulesets, _)] = self.tables.as_slice() else { return None };
        let Pair { from, to, tuple, .. } = pair(question);
        let service = match question.protocol {
            IpProtocol::Icmp => Service::Icmp,
            IpProtocol::Other(number) => Service::Other(number),
            _ => Service::Port { protocol: tuple.protocol, port: tuple.destination_port },
        };
        let query = Query { from: vec![from], to: vec![to], service };
        let evaluation =
            evaluate::evaluate(&self.loaded.cluster, rulesets, &query).expect("it can be encoded");
        let mut pairs = evaluation.pairs.into_iter();
        pairs
            .find(|pair| pair.source == tuple.source && pair.destination == tuple.destination)
            .map(|pair| pair.verdict)
    }
}

/// The packet of a question.
pub(crate) fn pair(question: &Question) -> Pair {
    let end = |end: &oracle::End| match end {
        oracle::End::Pod { namespace, name, .. } => End::Pod(ObjectKey::new(namespace, name)),
        oracle::End::Node { name, .. } => End::Node(name.clone()),
        oracle::End::External(address) => End::Address(*address),
    };
    let (source, destination) = (question.source.address(), question.destination.address());
    let tuple = Tuple {
        source,
        destination,
        protocol: match question.protocol {
            IpProtocol::Tcp => 6,
            IpProtocol::Udp => 17,
            IpProtocol::Sctp => 132,
            IpProtocol::Icmp if source.is_ipv4() => 1,
            IpProtocol::Icmp => 58,
            IpProtocol::Other(number) => number,
        },
        source_port: SOURCE_PORT,
        destination_port: question.port,
    };
    Pair::direct(end(&question.source), end(&question.destination), tuple)
}

/// How a side differs from what the oracle says of it.
fn difference(expected: &oracle::Side, found: Option<&evaluate::Side>) -> Option<String> {
    let verdict = found.map_or(Verdict::Allow, |side| side.verdict);
    // What is undefined is denied by the tables.
    if (verdict == Verdict::Allow) != (expected.verdict == oracle::Verdict::Allow) {
        return Some("another verdict".to_owned());
    }
    let Some(found) = found else {
        let unseen = matches!(expected.why, Why::NotPoliced(_));
        return (!unseen).then(|| "no hook where there is a policed pod".to_owned());
    };
    let isolated_by: BTreeSet<_> = found.isolated_by.iter().map(PolicyRef::qualified_name).collect();
    let must_isolate: BTreeSet<_> =
        expected.isolated_by.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    let undecided = match &expected.why {
        Why::NotPoliced(_) => return Some("a hook where there is no policed pod".to_owned()),
        // An exemption from nothing need not be cited.
        Why::Exempt(_) if must_isolate.is_empty() && found.tier == TierName::Default => return None,
        Why::Exempt(_) => return (found.tier != TierName::Exempt).then(|| "not exempt".to_owned()),
        _ if isolated_by != must_isolate => return Some("isolated by other policies".to_owned()),
        _ => tiers_difference(expected, found),
    };
    let cited: Vec<&RuleRef> = found.rule.iter().chain(&found.losers).collect();
    let of_networks: Vec<&RuleRef> = cited.into_iter().filter(|rule| rule.kind == "NetworkPolicy").collect();
    let decided = match &expected.why {
        Why::NotIsolated => (found.tier != TierName::Default).then(|| "not by default".to_owned()),
        Why::Isolated if found.rule.is_some() => Some("a rule cited for a default deny".to_owned()),
        Why::Isolated => {
            (!of_networks.is_empty()).then(|| "a rule that admits, and a default deny".to_owned())
        }
        Why::Allowed(_) if found.tier != TierName::NetworkPolicy => Some("not by NetworkPolicy".to_owned()),
        Why::Allowed(admissions) => admissions_difference(admissions, &of_networks),
        _ => None,
    };
    undecided.or(decided)
}

/// What the two say differently about the Admin and Baseline tiers.
fn tiers_difference(expected: &oracle::Side, found: &evaluate::Side) -> Option<String> {
    let tied: BTreeSet<String> = found.tied.iter().map(PolicyRef::kind_and_name).collect();
    let must_tie: BTreeSet<String> = match &expected.why {
        Why::Tied(policies) => {
            policies.iter().map(|policy| format!("{} {}", policy.kind, policy.name)).collect()
        }
        _ => BTreeSet::new(),
    };
    if tied != must_tie {
        return Some("tied between other policies".to_owned());
    }
    let place = |rule: &RuleRef| (rule.kind, rule.name.clone(), rule_path(&rule.path).to_owned());
    let must = |rule: &TierMatch| (rule.policy.kind, rule.policy.name.clone(), rule.path.clone());
    let all = found.rule.iter().chain(&found.losers).chain(&found.passed);
    let of_tiers: Vec<&RuleRef> = all.filter(|rule| rule.kind != "NetworkPolicy").collect();
    let matched: BTreeSet<_> = of_tiers.iter().map(|rule| place(rule)).collect();
    if matched != expected.tier_rules.iter().map(must).collect() {
        return Some("other rules of the tiers match".to_owned());
    }
    let cites_what_matches = |rule: &&&RuleRef| {
        expected.tier_rules.iter().any(|one| {
            place(rule) == must(one)
                && (one.peers.contains(&rule.path) || (one.peers.is_empty() && rule.path == one.path))
                && rule.port_path.as_ref().map_or(one.ports.is_empty(), |path| one.ports.contains(path))
        })
    };
    if let Some(wrong) = of_tiers.iter().find(|rule| !cites_what_matches(rule)) {
        return Some(format!("cites {} {:?}, which does not match", wrong.path, wrong.port_path));
    }
    if !must_tie.is_empty() {
        return None;
    }
    if found.passed.iter().map(place).ne(expected.passed.iter().map(must)) {
        return Some("passed by other rules".to_owned());
    }
    let Why::Ruled(rule) = &expected.why else { return None };
    let ruled = found.rule.as_ref().is_some_and(|found| place(found) == must(rule));
    let of_tier = matches!(found.tier, TierName::Admin | TierName::Baseline);
    (!ruled || !of_tier).then(|| "decided by another rule".to_owned())
}

/// What the two say differently about the rules that admit.
fn admissions_difference(admissions: &[oracle::Admission], matched: &[&RuleRef]) -> Option<String> {
    let rules: BTreeSet<_> =
        matched.iter().map(|rule| (rule.qualified_name(), rule_path(&rule.path).to_owned())).collect();
    let must_match: BTreeSet<_> = admissions
        .iter()
        .map(|oracle::Admission { policy: (namespace, name), path, .. }| {
            (format!("{namespace}/{name}"), path.clone())
        })
        .collect();
    if rules != must_match {
        return Some("other rules match".to_owned());
    }
    let cites_what_matches = |rule: &RuleRef| {
        admissions.iter().any(|admission| {
            let (namespace, name) = &admission.policy;
            rule.qualified_name() == format!("{namespace}/{name}")
                && (admission.peers.contains(&rule.path)
                    || (admission.peers.is_empty() && rule.path == admission.path))
                && rule.port_path.as_ref().map_or(admission.ports.is_empty(), |path| {
                    admission.ports.contains(path) && path.starts_with(&admission.path)
                })
        })
    };
    let wrong = matched.iter().find(|rule| !cites_what_matches(rule));
    wrong.map(|rule| format!("cites {} {:?}, which does not match", rule.path, rule.port_path))
}

/// `spec.ingress[0]` of `spec.ingress[0].from[1]`.
fn rule_path(path: &str) -> &str {
    path.find(']').map_or(path, |end| &path[..=end])
}

fn pods_without_node(loaded: &Loaded) -> Scope {
    let pods = loaded.cluster.pods.iter().filter(|(_, pod)| pod.node.is_none());
    Scope::Pods(pods.map(|(key, _)| key.clone()).collect())
}
