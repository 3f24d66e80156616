//! Who decides, and why, held against a peer tool's own explanations: policies, kinds of reason, rules.
//!
//! Scored are tuples of (kind, name) and of (kind, name, reason class, rule), per direction. What differs is listed
//! with the API's text or the peer's case that settles it, and nothing else may differ.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use netlab_core::input::Loaded;
use netlab_core::model::cluster::Cluster;
use netlab_core::model::port::Protocol;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::connections::{HostNetwork, as_if_running, workload_of};
use netlab_core::policy::evaluate::{PairEvaluation, Side, evaluate_on};
use netlab_core::policy::query::{End, Query, Service};
use netlab_core::policy::trial::Trial;
use netlab_core::policy::{Limits, Numbers, Rulesets, Scope, compile_with};
use serde_json::Value;

use crate::connections_cases::{Side as Row, expected as listed};
use crate::input_files::{cases, documents, load_directory};

/// Where the two differ: case, source, destination, and who says that we are right.
const DIFFERENCES: [(&str, &str, &str, &str); 4] = [
    (
        "onlineboutique_workloads ",
        "",
        "default/frontend[Deployment]",
        "a variant of the peer's case in which frontend-netpol admits everybody at TCP 8080; here its one peer is \
         app=loadgenerator, so no other pod can be admitted by `#1` (NetworkPolicyIngressRule.from)",
    ),
    (
        "anp_banp_blog_demo ",
        "monitoring/mymonitoring[Pod]",
        "foo/myfoo[Pod]",
        "the peer's case anp_banp_blog_demo_2, whose `Pass` is about TCP 8080 alone; here it is about every port, and \
         AdminNetworkPolicyRuleActionPass hands on to NetworkPolicies whatever they say",
    ),
    (
        "anp_banp_blog_demo ",
        "monitoring/mymonitoring[Pod]",
        "baz/mybaz[Pod]",
        "the peer's case anp_banp_blog_demo_2, whose `Allow` is about TCP 1234 alone",
    ),
    (
        "netpol_named_port_test ",
        "helloworld/new-pod[Deployment]",
        "helloworld/pod-a[Deployment]",
        "NetworkPolicyPort.port: `a named port on a pod`; the pod has none of that name, so the rule's ports do not \
         match, for which the peer has words of its own",
    ),
];

/// Kind and qualified name of a policy.
type Name = (String, String);
/// A policy with its reason class and its rule.
type Reason = (Name, String, Option<String>);

/// A case, compiled with every pod in scope.
struct World {
    loaded: Loaded,
    cluster: Cluster,
    rulesets: Rulesets,
}

impl World {
    fn new(directory: &Path) -> Self {
        let loaded = load_directory(&directory.join("input"));
        let cluster = as_if_running(&loaded.cluster, &loaded.policies, HostNetwork::AsPods);
        let limits = Limits::layout_only();
        let compiled =
            compile_with(&cluster, &loaded.policies, &Scope::Cluster, &Numbers::default(), &limits);
        Self { loaded, cluster, rulesets: compiled.rulesets }
    }

    /// The end that the peer names; `None` for its ingress controller, which is no pod.
    fn end(&self, text: &str) -> Option<End> {
        if let Some(range) = text.strip_suffix("[External]") {
            let last: Ipv4Addr = range.split_once('-').expect("a range").1.parse().expect("an address");
            // The last address of all is no host; the first ones are given to pods whose address is not known.
            let address = if last.is_broadcast() { Ipv4Addr::new(203, 0, 113, 7) } else { last };
            return Some(End::Address(IpAddr::V4(address)));
        }
        let mut pods = self.cluster.pods.iter().filter(|(key, pod)| workload_of(key, pod) == text);
        pods.next().map(|(key, _)| End::Pod(key.clone()))
    }
}

/// `TCP:[1-7069,7071-65535], UDP, SCTP`: the first and last port of each range.
fn points(conns: &str) -> Vec<(Protocol, u16)> {
    let mut points = Vec::new();
    for item in conns.split(", ") {
        let (name, ranges) = item.split_once(":[").unwrap_or((item, "1-65535]"));
        let protocol = Protocol::ALL.into_iter().find(|known| known.as_str() == name).expect("a protocol");
        for range in ranges.trim_end_matches(']').split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            points.extend([first, last].map(|port| (protocol, port.parse().expect("a port"))));
        }
    }
    points
}

/// The reasons of a side in the peer's terms.
fn reasons(world: &World, side: &Side, direction: &str) -> BTreeSet<Reason> {
    let name = |kind: &str, name: String| (kind.to_owned(), name);
    let of_rule = |rule: &netlab_core::policy::provenance::RuleRef, class: &str| {
        let number = || {
            let inside = rule.path.split('[').nth(1)?.split(']').next()?;
            Some(format!("#{}", inside.parse::<usize>().ok()? + 1))
        };
        let rule_name = rule.rule_name.as_ref().map(ToString::to_string).or_else(number);
        (name(rule.kind, rule.qualified_name()), class.to_owned(), rule_name)
    };
    let mut found: BTreeSet<Reason> = side.passed.iter().map(|rule| of_rule(rule, "passes")).collect();
    let class = if side.verdict == Verdict::Allow { "allows" } else { "denies" };
    if let Some(rule) = &side.rule {
        found.insert(of_rule(rule, class));
        // NetworkPolicies add up: everyone that admits is a reason.
        if rule.kind == "NetworkPolicy" {
            found.extend(
                side.losers.iter().filter(|other| other.kind == rule.kind).map(|rule| of_rule(rule, class)),
            );
        }
    }
    if side.rule.is_none() && side.verdict == Verdict::Deny {
        for policy in &side.isolated_by {
            let object = (policy.kind.to_owned(), policy.qualified_name());
            let written = world.loaded.policies.list.iter().find(|one| {
                one.id.kind.as_str() == policy.kind
                    && one.id.namespace == policy.namespace
                    && one.id.name == policy.name
            });
            let rules = written.and_then(|policy| match direction {
                "Ingress" => policy.ingress.as_ref(),
                _ => policy.egress.as_ref(),
            });
            let port_misses = side.near_misses.iter().filter(|miss| {
                miss.rule.qualified_name() == policy.qualified_name()
                    && miss.rule.path.rsplit('.').next() == Some("ports")
            });
            let port_misses: Vec<Reason> =
                port_misses.map(|miss| of_rule(&miss.rule, "selects_port_not_matched")).collect();
            if rules.is_none_or(Vec::is_empty) {
                found.insert((object, "selects_no_rules".to_owned(), None));
            } else if port_misses.is_empty() {
                found.insert((object, "selects_peer_not_matched".to_owned(), None));
            } else {
                found.extend(port_misses);
            }
        }
    }
    found
}

fn expected(side: &Value) -> BTreeSet<Reason> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let reasons = side["reasons"].as_array().into_iter().flatten();
    reasons
        .map(|reason| {
            let name = (text(&reason["kind"]).expect("a kind"), text(&reason["name"]).expect("a name"));
            (name, text(&reason["class"]).expect("a class"), text(&reason["rule"]))
        })
        .collect()
}

/// The lines are filed by the beginning of a case's name, so some are about another case: they contradict the list
/// of connections that stands beside this one's input, or name rules that it does not have.
fn explains_another_input(case: &Path, line: &Value) -> bool {
    let (from, to) = ["src", "dst"].map(|end| line[end].as_str().expect("an end")).into();
    let is = |side: &Row, text: &str| match (side, text.strip_suffix("[External]")) {
        (Row::Workload(name), _) => name == text,
        (Row::External(first, last), Some(range)) => {
            let (start, end) = range.split_once('-').expect("a range");
            let address = |text: &str| text.parse::<IpAddr>().expect("an address");
            *first <= address(start) && address(end) <= *last
        }
        (Row::External(..), None) => false,
    };
    let rows = listed(case);
    let allowed: Vec<_> =
        rows.iter().filter(|(source, destination, _)| is(source, from) && is(destination, to)).collect();
    let is_allowed = |protocol, port| allowed.iter().any(|(.., allowed)| allowed.contains(protocol, port));
    let says = line["decision"] == "Allowed";
    let contradicts = points(line["conns"].as_str().expect("ports"))
        .into_iter()
        .any(|(protocol, port)| is_allowed(protocol, port) != says);
    let text: String =
        documents(&case.join("input")).iter().map(|document| document.text.to_string()).collect();
    let reasons = ["Egress", "Ingress"].map(|direction| expected(&line[direction]));
    let names_unknown = reasons.iter().flatten().any(|((kind, _), _, rule)| {
        kind != "NetworkPolicy"
            && rule.as_ref().is_some_and(|rule| {
                !text.contains(&format!("\"{rule}\""))
                    && !text.lines().any(|line| line.trim_end().ends_with(rule.as_str()))
            })
    });
    contradicts || names_unknown
}

#[derive(Default)]
struct Score {
    lines: usize,
    policies: usize,
    classes: usize,
    rules: usize,
}

#[test]
fn who_decides_is_who_the_peer_tool_says() {
    let Some(cases) = cases() else { return };
    let base = cases.join("policy/netpol-analyzer");
    let text = std::fs::read_to_string(base.join("explain.json")).expect("the explanations");
    let lines: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let mut worlds: BTreeMap<String, World> = BTreeMap::new();
    let mut score = Score::default();
    let (mut differing, mut outside, mut of_another_case) = (Vec::new(), 0, 0);
    for line in &lines {
        let field = |key: &str| line[key].as_str().expect("a text");
        if explains_another_input(&base.join(field("dir")), line) {
            of_another_case += 1;
            continue;
        }
        let world =
            worlds.entry(field("dir").to_owned()).or_insert_with(|| World::new(&base.join(field("dir"))));
        let (Some(from), Some(to)) = (world.end(field("src")), world.end(field("dst"))) else {
            outside += 1;
            continue;
        };
        let trial = Trial::new(&world.rulesets).expect("tables");
        let answers: Vec<PairEvaluation> = points(field("conns"))
            .into_iter()
            .flat_map(|(protocol, port)| {
                let service = Service::Port { protocol: protocol.number(), port };
                let query = Query { from: vec![from.clone()], to: vec![to.clone()], service };
                evaluate_on(&world.cluster, &world.rulesets, &trial, &query).pairs
            })
            .filter(|pair| pair.source.is_ipv4())
            .collect();
        assert!(!answers.is_empty(), "{line}");
        for direction in ["Egress", "Ingress"] {
            let wanted = expected(&line[direction]);
            let found: Vec<BTreeSet<Reason>> = answers
                .iter()
                .map(|pair| {
                    reasons(
                        world,
                        if direction == "Egress" { &pair.egress } else { &pair.ingress },
                        direction,
                    )
                })
                .collect();
            let names = |reasons: &BTreeSet<Reason>| -> BTreeSet<Name> {
                reasons.iter().map(|(name, ..)| name.clone()).collect()
            };
            let classes = |reasons: &BTreeSet<Reason>| -> BTreeSet<(Name, String)> {
                reasons.iter().map(|(name, class, _)| (name.clone(), class.clone())).collect()
            };
            score.lines += 1;
            let same_names = found.iter().all(|found| names(found) == names(&wanted));
            let same_classes = found.iter().all(|found| classes(found) == classes(&wanted));
            let same_rules = found.iter().all(|found| *found == wanted);
            score.policies += usize::from(same_names);
            score.classes += usize::from(same_classes);
            score.rules += usize::from(same_rules);
            if !same_rules {
                let found: BTreeSet<_> = found.into_iter().collect();
                differing.push(format!(
                    "{} {direction} {} -> {} {}\n  peer {wanted:?}\n  ours {found:?}",
                    field("dir"),
                    field("src"),
                    field("dst"),
                    field("conns")
                ));
            }
        }
    }
    let share = |part: usize| {
        #[expect(clippy::cast_precision_loss, reason = "a few hundred lines")]
        let share = part as f64 * 100.0 / score.lines as f64;
        share
    };
    let report = format!(
        "attribution: {} sides of {} lines ({outside} about the ingress controller, {of_another_case} about the peer's \
         variants of these cases): policies {:.2} %, reason classes {:.2} %, rules {:.2} %",
        score.lines,
        lines.len(),
        share(score.policies),
        share(score.classes),
        share(score.rules)
    );
    // The test runner captures this; `--show-output` shows it.
    let _ = writeln!(std::io::stderr(), "{report}");
    let known = |text: &&String| {
        !DIFFERENCES
            .iter()
            .any(|(case, from, to, _)| text.starts_with(case) && text.contains(from) && text.contains(to))
    };
    let unknown: Vec<&String> = differing.iter().filter(known).collect();
    assert!(
        unknown.is_empty(),
        "{report}\n{}",
        unknown.iter().map(|text| text.as_str()).collect::<Vec<_>>().join("\n")
    );
    assert!(share(score.policies) >= 99.0 && share(score.classes) >= 97.0, "{report}");
}
