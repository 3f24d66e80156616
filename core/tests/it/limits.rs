//! Limits: one object cannot take a node's tables; it is refused by name, and the others stay in force.

use std::fmt::Write;

use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::evaluate::{Outcome, evaluate};
use netlab_core::policy::query::{End, Query, Service};
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

/// The two pods, and policies of the Admin tier about both: priority and ingress rules of each.
fn tiers(policies: impl Iterator<Item = (usize, String)>) -> Loaded {
    let mut text = String::new();
    for (name, address) in [("mine", "10.0.0.1"), ("theirs", "10.0.0.2")] {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: a}}\nstatus: {{podIP: {address}}}\n"
        );
    }
    for (index, (priority, rules)) in policies.enumerate() {
        let _ = write!(
            text,
            "---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n\
             metadata: {{name: p{index:04}}}\n\
             spec: {{tier: Admin, priority: {priority}, subject: {{namespaces: {{}}}}, ingress: [{rules}]}}\n"
        );
    }
    let loaded = load([Document { name: "world.yaml".into(), text: text.into() }], &Budget::default());
    assert!(loaded.is_complete(), "{:#?}", loaded.diagnostics);
    loaded
}

#[test]
fn a_thousand_policies_that_pass_on_cost_no_more_rows_than_one() {
    let pass = "{action: Pass, from: [{namespaces: {}}]}";
    let last =
        "{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}";
    let chain = |length: usize| {
        let passes = (0..length).map(|priority| (priority, [pass; 25].join(", ")));
        tiers(passes.chain([(1000, last.to_owned())]))
    };
    let compiled = |loaded: &Loaded| compile(&loaded.cluster, &loaded.policies, &Scope::Cluster);
    let (one, thousand) = (chain(1), chain(1000));
    let (one, thousand) = (compiled(&one), compiled(&thousand));
    assert!(thousand.diagnostics.is_empty(), "{:?}", thousand.diagnostics);
    assert_eq!(thousand.rulesets.size(), one.rulesets.size());
    // What is never asked is still told: the deny behind the chain, and every rule of it.
    let query = Query {
        from: vec![End::Pod(ObjectKey::new("a", "theirs"))],
        to: vec![End::Pod(ObjectKey::new("a", "mine"))],
        service: Service::Port { protocol: 6, port: 80 },
    };
    let loaded = chain(1000);
    let answer = evaluate(&loaded.cluster, &thousand.rulesets, &query).expect("it can be encoded");
    assert_eq!(answer.verdict, Outcome::Allow);
    assert_eq!(answer.ingress.passed[0].name, "p0000");
    assert_eq!(answer.ingress.losers.len(), 25 * 1000);
}

#[test]
fn each_policy_that_brings_one_port_too_many_is_named_and_the_others_stay() {
    // 10 ports each: 24 policies fit into a table, all others are too many, but for one that names no new port.
    let ports = |policy: usize| {
        let protocol = |port: usize| format!("{{tcp: {{destinationPort: {{number: {port}}}}}}}");
        let first = if policy == 150 { 1000 } else { 1000 + 20 * policy };
        let protocols: Vec<String> = (0..10).map(|port| protocol(first + 2 * port)).collect();
        format!("{{action: Deny, from: [{{namespaces: {{}}}}], protocols: [{}]}}", protocols.join(", "))
    };
    let loaded = tiers((0..200).map(|policy| (policy, ports(policy))));
    let compiled = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster);
    let refused: Vec<String> = compiled
        .diagnostics
        .iter()
        .map(|refusal| refusal.object.as_ref().map(|object| object.name.clone()).unwrap_or_default())
        .collect();
    let expected: Vec<String> =
        (24..200).filter(|policy| *policy != 150).map(|policy| format!("p{policy:04}")).collect();
    assert_eq!(refused, expected);
    assert!(compiled.rulesets.size().port_classes <= Limits::default().port_classes);
}
