//! Policies made to hurt cost no more than `docs/performance.md` says, and what costs too much is refused by name.

use netlab_core::policy::{Limits, Numbers, Scope, Size, compile_with};
use netlab_core::testing::adversarial::Adversary;

fn size_of(adversary: Adversary, size: usize, scope: &Scope) -> Size {
    let (cluster, policies) = adversary.model(size);
    let compiled = compile_with(&cluster, &policies, scope, &Numbers::default(), &Limits::layout_only());
    assert_eq!(compiled.diagnostics.len(), 0, "{adversary:?}: {:?}", compiled.diagnostics.first());
    compiled.rulesets.size()
}

#[test]
fn no_set_costs_more_than_its_bound() {
    for adversary in Adversary::ALL {
        for size in [adversary.size() / 4, adversary.size() / 2, adversary.size()] {
            let (cost, bound) = (size_of(adversary, size, &Scope::Cluster), adversary.bound(size));
            assert!(cost.peer_classes <= bound.peer_classes, "{adversary:?} {size}: {cost:?}, {bound:?}");
            assert!(cost.entries <= bound.entries, "{adversary:?} {size}: {cost:?}, {bound:?}");
            assert!(cost.rows <= bound.rows, "{adversary:?} {size}: {cost:?}, {bound:?}");
        }
    }
}

#[test]
fn every_set_is_as_bad_as_it_says() {
    // Else the bounds would hold because nothing was asked.
    for adversary in Adversary::ALL {
        let size = adversary.size();
        let (cost, bound) = (size_of(adversary, size, &Scope::Cluster), adversary.bound(size));
        assert!(cost.rows * 3 >= bound.rows, "{adversary:?}: {cost:?}, {bound:?}");
    }
}

#[test]
fn a_node_pays_for_its_own_pods_only() {
    let node = Scope::Node("node-0".to_owned());
    let (one, two) = (
        size_of(Adversary::DisjointSelectors, 250, &node),
        size_of(Adversary::DisjointSelectors, 500, &node),
    );
    assert_eq!(one.rulesets, 110, "the pods of a node");
    assert_eq!(one, two, "twice the cluster, the same node");
}

#[test]
fn a_set_that_crosses_a_limit_is_refused_by_name() {
    let (cluster, policies) = Adversary::DisjointSelectors.model(60);
    let limits = Limits { rows: 4_000, ..Limits::layout_only() };
    let compiled = compile_with(&cluster, &policies, &Scope::Cluster, &Numbers::default(), &limits);
    assert!(compiled.rulesets.size().rows <= limits.rows);
    let refused: Vec<&str> = compiled
        .diagnostics
        .iter()
        .filter_map(|diagnostic| diagnostic.object.as_ref().map(|object| object.name.as_str()))
        .collect();
    let first = compiled.diagnostics.first().expect("a refusal");
    assert_eq!(first.code, "NL0401");
    assert!(first.message.contains("policy-map rows, the limit is 4000"), "{}", first.message);
    let kept = compiled.rulesets.policies().list.len();
    assert!(kept > 10, "the others stay in force: {kept}");
    assert_eq!(kept + refused.len(), 60);
}
