//! Differences of connection lists: on random worlds against two plain lists, and on small worlds for their causes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use ipnet::IpNet;
use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::Cluster;
use netlab_core::policy::connections::diff::{Change, ConnectionsDiff, Kind, State, Trend, diff};
use netlab_core::policy::connections::{
    Allowed, Connections, Focus, HostNetwork, Peer, PeerKind, as_if_running, connections,
};
use netlab_core::policy::provenance::PolicyRef;
use netlab_core::policy::{Compiled, Limits, Numbers, Scope, compile_with};
use netlab_core::testing::generate::world;
use netlab_core::testing::manifest;

use crate::input_files::load_text;

struct Compilation {
    cluster: Cluster,
    compiled: Compiled,
}

impl Compilation {
    fn of(loaded: &Loaded) -> Self {
        let cluster = as_if_running(&loaded.cluster, &loaded.policies, HostNetwork::AsPods);
        let limits = Limits::layout_only();
        let compiled =
            compile_with(&cluster, &loaded.policies, &Scope::Cluster, &Numbers::default(), &limits);
        assert!(compiled.diagnostics.is_empty());
        Self { cluster, compiled }
    }

    fn state(&self) -> State<'_> {
        State { cluster: &self.cluster, rulesets: &self.compiled.rulesets }
    }

    fn list(&self) -> Connections {
        connections(&self.cluster, &self.compiled.rulesets, &Focus::default())
    }
}

fn difference(before: &str, after: &str) -> ConnectionsDiff {
    let [before, after] = [before, after].map(|text| {
        let loaded = load_text(text);
        assert!(loaded.is_complete(), "{:#?}", loaded.diagnostics);
        Compilation::of(&loaded)
    });
    diff(before.state(), after.state(), &Focus::default())
}

/// First addresses and the ones behind the last, of every block.
fn edges<'a>(peers: impl Iterator<Item = &'a Peer>) -> BTreeSet<IpAddr> {
    let mut all = BTreeSet::from([Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]);
    for cidr in peers.flat_map(|peer| &peer.cidrs) {
        all.insert(cidr.network());
        let next: Option<IpAddr> = match cidr {
            IpNet::V4(cidr) => {
                cidr.broadcast().to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into())
            }
            IpNet::V6(cidr) => {
                cidr.broadcast().to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into())
            }
        };
        all.extend(next);
    }
    all
}

type Points = BTreeMap<(String, String), Allowed>;

/// What a list says, blocks taken apart into single addresses.
fn points<'a>(
    peers: &[Peer],
    addresses: &BTreeSet<IpAddr>,
    pairs: impl Iterator<Item = (usize, usize, &'a Allowed)>,
) -> Points {
    let names = |peer: &Peer| -> Vec<String> {
        if peer.kind != PeerKind::IpBlock {
            return vec![peer.id.clone()];
        }
        let inside = addresses.iter().filter(|address| peer.cidrs.iter().any(|cidr| cidr.contains(*address)));
        inside.map(ToString::to_string).collect()
    };
    let mut points = Points::new();
    for (from, to, allowed) in pairs {
        for from in names(&peers[from]) {
            for to in names(&peers[to]) {
                let known = points.insert((from.clone(), to), allowed.clone());
                assert!(known.is_none(), "a pair is listed twice");
            }
        }
    }
    points
}

fn check(before: &Compilation, after: &Compilation, text: &str) -> usize {
    let lists = [before.list(), after.list()];
    let found = diff(before.state(), after.state(), &Focus::default());
    let addresses = edges(lists.iter().flat_map(|list| &list.peers).chain(&found.peers));
    let [old, new] = lists.each_ref().map(|list| {
        points(&list.peers, &addresses, list.list.iter().map(|one| (one.from(), one.to(), list.allowed(one))))
    });
    let side = |of: fn(&Change) -> &Allowed| {
        let pairs = found.list.iter().map(|pair| (pair.from, pair.to, of(found.change(pair))));
        points(&found.peers, &addresses, pairs)
    };
    let (was, is) = (side(|change| &change.before), side(|change| &change.after));
    let none = Allowed::default();
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).chain(was.keys()).collect();
    for key in keys {
        let (old, new) = (old.get(key).unwrap_or(&none), new.get(key).unwrap_or(&none));
        match (was.get(key), is.get(key)) {
            (Some(was), Some(is)) => assert_eq!((was, is), (old, new), "{key:?}\n{text}"),
            _ => assert_eq!(old, new, "{key:?} changed and is not listed\n{text}"),
        }
    }
    for pair in &found.list {
        let change = found.change(pair);
        assert_ne!(change.before, change.after);
        let explained = |trend| {
            let causes = change.because.iter().filter(|cause| cause.change == trend);
            causes.fold(Allowed::default(), |all, cause| all.or(&cause.ports))
        };
        assert_eq!(explained(Trend::Gained), change.gained(), "{text}");
        assert_eq!(explained(Trend::Lost), change.lost(), "{text}");
    }
    found.list.len()
}

#[test]
fn a_difference_is_what_two_lists_leave_different() {
    let mut rng = Rng::with_seed(7);
    let mut pairs = 0;
    for _ in 0..60 {
        let objects = world(&mut rng);
        let mut fewer = objects.clone();
        fewer.network_policies.retain(|_| rng.u8(0..3) > 0);
        fewer.admin_network_policies.retain(|_| rng.u8(0..3) > 0);
        fewer.cluster_network_policies.retain(|_| rng.u8(0..3) > 0);
        if rng.bool() {
            fewer.pods.retain(|_| rng.u8(0..8) > 0);
        }
        let texts = [manifest::write(&objects), manifest::write(&fewer)];
        let [more, fewer] = texts.each_ref().map(|text| {
            let document = Document { name: "world.yaml".into(), text: text.clone().into() };
            Compilation::of(&load([document], &Budget::default()))
        });
        pairs += check(&more, &fewer, &texts.join("\n--- after ---\n"));
        pairs += check(&fewer, &more, &texts.join("\n--- before ---\n"));
        assert_eq!(check(&more, &more, &texts[0]), 0);
    }
    assert!(pairs > 1_000, "only {pairs} differing pairs");
}

const PODS: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x, labels: {app: a}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x, labels: {app: b}}}
---
";

fn policy(name: &str, subject: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, namespace: x}}, \
         spec: {{podSelector: {{matchLabels: {{app: {subject}}}}}, {spec}}}}}\n---\n"
    )
}

fn admin(name: &str, priority: u16, action: &str) -> String {
    format!(
        "{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}}, \
         spec: {{priority: {priority}, subject: {{namespaces: {{}}}}, ingress: [{{action: {action}, \
         from: [{{namespaces: {{}}}}], ports: [{{portNumber: {{port: 80, protocol: TCP}}}}]}}]}}}}\n---\n"
    )
}

/// `gained TCP 80: ingress NetworkPolicy x/b spec.ingress[0] admits it; the policy is new`, of the pair a -> b.
fn causes(before: &str, after: &str) -> Vec<String> {
    let found = difference(&format!("{PODS}{before}"), &format!("{PODS}{after}"));
    let pair = found
        .list
        .iter()
        .find(|pair| found.peers[pair.from].id == "x/a[Pod]" && found.peers[pair.to].id == "x/b[Pod]")
        .expect("a -> b changed");
    found
        .change(pair)
        .because
        .iter()
        .map(|cause| {
            let mut subjects: Vec<String> = cause
                .rule
                .iter()
                .map(|rule| format!("{} {} {}", rule.kind, rule.qualified_name(), rule.path))
                .collect();
            subjects.extend(cause.policies.iter().map(PolicyRef::kind_and_name));
            let change = if cause.change == Trend::Gained { "gained" } else { "lost" };
            let side = cause.direction.unwrap_or("-");
            format!("{change} {}: {side} {} {}", cause.ports, subjects.join(", "), cause.reason)
        })
        .collect()
}

#[test]
fn the_rule_that_came_or_went_is_named() {
    let deny = policy("deny", "b", "policyTypes: [Ingress]");
    let admit = policy("web", "b", "ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}]");
    let both = format!("{deny}{admit}");
    assert_eq!(
        causes(&deny, &both),
        ["gained TCP 80: ingress NetworkPolicy x/web spec.ingress[0].from[0] admits it; the policy is new"]
    );
    assert_eq!(
        causes(&both, &deny),
        ["lost TCP 80: ingress NetworkPolicy x/web spec.ingress[0].from[0] admitted it; the policy is gone"]
    );
    assert_eq!(
        causes("", &deny),
        ["lost all: ingress NetworkPolicy x/deny isolates it and admits nothing of this; the policy is new"]
    );
    assert_eq!(
        causes(&deny, ""),
        ["gained all: ingress NetworkPolicy x/deny isolated it; the policy is gone"]
    );
    let wider =
        policy("web", "b", "ingress: [{from: [{podSelector: {}}], ports: [{port: 80, endPort: 90}]}]");
    assert_eq!(
        causes(&admit, &wider),
        [
            "gained TCP 81-90: ingress NetworkPolicy x/web spec.ingress[0].from[0] admits it; the policy was changed"
        ]
    );
}

#[test]
fn both_sides_are_named_when_both_opened() {
    let closed = policy("in", "b", "policyTypes: [Ingress]") + &policy("out", "a", "policyTypes: [Egress]");
    let open = policy("in", "b", "ingress: [{ports: [{port: 80}]}]");
    assert_eq!(
        causes(&closed, &open),
        [
            "gained TCP 80: egress NetworkPolicy x/out isolated it; the policy is gone",
            "gained TCP 80: ingress NetworkPolicy x/in spec.ingress[0] admits it; the rule is new"
        ]
    );
}

#[test]
fn of_the_tiers_the_rule_that_turned_the_verdict_is_named() {
    let deny = admin("guard", 10, "Deny");
    assert_eq!(
        causes("", &deny),
        [
            "lost TCP 80: ingress AdminNetworkPolicy guard spec.ingress[0].from[0] denies it; the policy is new"
        ]
    );
    let passed = format!("{deny}{}", admin("pass", 5, "Pass"));
    assert_eq!(
        causes(&deny, &passed),
        [
            "gained TCP 80: ingress AdminNetworkPolicy pass spec.ingress[0].from[0] passes it on; the policy is new"
        ]
    );
    // A tie denies; what leaves it open is named.
    let tied = format!("{deny}{}", admin("other", 10, "Allow"));
    assert_eq!(
        causes(&admin("other", 10, "Allow"), &tied),
        [
            "lost TCP 80: ingress AdminNetworkPolicy guard, AdminNetworkPolicy other have an order that the API leaves \
          open, so netlab denies it"
        ]
    );
}

#[test]
fn labels_and_workloads_change_connections_too() {
    let admit = policy(
        "web",
        "b",
        "ingress: [{from: [{podSelector: {matchLabels: {app: a}}}], ports: [{port: 80}]}]",
    );
    let relabelled = PODS.replace("labels: {app: a}", "labels: {app: c}");
    let found = difference(&format!("{PODS}{admit}"), &format!("{relabelled}{admit}"));
    assert_eq!(found.list.len(), 1);
    let change = found.change(&found.list[0]);
    assert_eq!(change.kind(), Kind::Removed);
    assert_eq!(change.because[0].reason, "admitted it; what its selectors match was changed");

    let found =
        difference(PODS, "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x, labels: {app: a}}}");
    assert!(found.loses() && !found.gains());
    let change = found.change(&found.list[0]);
    assert_eq!((change.because[0].reason.as_str(), change.because[0].direction), ("x/b[Pod] is gone", None));
}

#[test]
fn addresses_are_cut_by_the_blocks_of_both_sides() {
    let block =
        |cidr: &str| policy("web", "b", &format!("ingress: [{{from: [{{ipBlock: {{cidr: {cidr}}}}}]}}]"));
    let found =
        difference(&format!("{PODS}{}", block("10.0.0.0/8")), &format!("{PODS}{}", block("10.64.0.0/10")));
    let outside: Vec<&str> = found
        .peers
        .iter()
        .filter(|peer| peer.kind == PeerKind::IpBlock)
        .map(|peer| peer.id.as_str())
        .collect();
    assert_eq!(outside, ["10.0.0.0/8 except 10.64.0.0/10"]);
    assert_eq!(found.list.len(), 1);
}
