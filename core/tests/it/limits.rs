//! Limits: one object cannot take a node's tables; it is refused by name, and the others stay in force.

use std::fmt::Write;

use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::{Limits, Numbers, Scope, compile, compile_with};

/// Two pods on two nodes, and these policies: (name, the label of the pod they select, ingress rules).
fn world(policies: &[(&str, &str, String)]) -> Loaded {
    let mut text = String::from("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n");
    for (name, node, address) in [("mine", "one", "10.0.0.1"), ("theirs", "two", "10.0.0.2")] {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: a, labels: {{app: {name}}}}}\n\
             spec: {{nodeName: {node}, containers: [{{name: c, image: i}}]}}\n\
             status: {{phase: Running, podIP: {address}, podIPs: [{{ip: {address}}}]}}\n"
        );
    }
    for (name, app, ingress) in policies {
        let _ = write!(
            text,
            "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
             metadata: {{name: {name}, namespace: a}}\n\
             spec: {{podSelector: {{matchLabels: {{app: {app}}}}}, policyTypes: [Ingress], ingress: [{ingress}]}}\n"
        );
    }
    let loaded = load([Document { name: "world.yaml".into(), text: text.into() }], &Budget::default());
    assert!(loaded.is_complete(), "{:#?}", loaded.diagnostics);
    loaded
}

/// Rules that each admit one address to one port of their own, so that every address and every port is a class.
fn rules(count: u32) -> String {
    let rules: Vec<String> = (0..count)
        .map(|n| {
            let block = format!("172.16.{}.{}/32", n / 256, n % 256);
            format!("{{from: [{{ipBlock: {{cidr: {block}}}}}], ports: [{{port: {}}}]}}", 1_000 + 2 * n)
        })
        .collect();
    rules.join(", ")
}

#[test]
fn a_policy_with_more_port_classes_than_a_table_holds_is_refused_by_name() {
    let loaded =
        world(&[("calm", "mine", rules(3)), ("greedy", "mine", rules(300)), ("late", "mine", rules(2))]);
    let compiled = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster);
    let [refusal] = &compiled.diagnostics[..] else { panic!("{:?}", compiled.diagnostics) };
    assert_eq!(refusal.object.as_ref().map(|object| object.name.as_str()), Some("greedy"));
    assert_eq!(refusal.code, "NL0401");
    assert!(refusal.message.contains("port classes in one table"), "{}", refusal.message);
    // What is left isolates as before: the pod's tables are those without that policy.
    let without = world(&[("calm", "mine", rules(3)), ("late", "mine", rules(2))]);
    let expected = compile(&without.cluster, &without.policies, &Scope::Cluster);
    assert_eq!(compiled.rulesets.size(), expected.rulesets.size());
    let own = ObjectKey { namespace: "a".to_owned(), name: "mine".to_owned() };
    assert!(compiled.rulesets.ruleset_of(&own).is_some());
}

#[test]
fn peer_classes_have_a_budget_and_a_nodes_tables_know_its_own_policies_only() {
    let loaded = world(&[("calm", "mine", rules(3)), ("greedy", "theirs", rules(200))]);
    let size = |scope: &Scope| compile(&loaded.cluster, &loaded.policies, scope).rulesets.size();
    let (mine, theirs) = (size(&Scope::Node("one".into())), size(&Scope::Node("two".into())));
    assert!(mine.peer_classes < 12, "{mine:?}");
    assert!(theirs.peer_classes > 200, "{theirs:?}");
    let limits = Limits { peer_classes: 100, ..Limits::default() };
    let compiled =
        compile_with(&loaded.cluster, &loaded.policies, &Scope::Cluster, &Numbers::default(), &limits);
    let [refusal] = &compiled.diagnostics[..] else { panic!("{:?}", compiled.diagnostics) };
    assert_eq!(refusal.object.as_ref().map(|object| object.name.as_str()), Some("greedy"));
    assert!(refusal.message.contains("peer classes, the limit is 100"), "{}", refusal.message);
}
