//! Workloads whose addresses no input gives: the list and single questions say the same, and say what they owe to it.

use std::collections::BTreeMap;

use fastrand::Rng;
use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::port::Protocol;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::connections::{
    Allowed, Connections, Focus, HostNetwork, as_if_running, connections, workload_of,
};
use netlab_core::policy::evaluate::{Evaluation, evaluate};
use netlab_core::policy::query::{End, Query, Service};
use netlab_core::policy::{Limits, Numbers, Scope, compile_with};
use netlab_core::testing::generate::world;
use netlab_core::testing::manifest;

fn read(text: &str) -> Loaded {
    let document = Document { name: "world.yaml".into(), text: text.to_owned().into() };
    let loaded = load([document], &Budget::default());
    assert!(loaded.is_complete(), "{:#?}", loaded.diagnostics);
    loaded
}

fn listed(loaded: &Loaded) -> Connections {
    let cluster = as_if_running(&loaded.cluster, &loaded.policies, HostNetwork::AsNodes);
    let limits = Limits::layout_only();
    let compiled = compile_with(&cluster, &loaded.policies, &Scope::Cluster, &Numbers::default(), &limits);
    connections(&cluster, &compiled.rulesets, &Focus::default())
}

/// Whether some packet of a single question passes, and its notes.
fn asked(loaded: &Loaded, from: &ObjectKey, to: &ObjectKey, port: u16) -> (bool, Vec<String>) {
    let limits = Limits::layout_only();
    let compiled =
        compile_with(&loaded.cluster, &loaded.policies, &Scope::Cluster, &Numbers::default(), &limits);
    let query = Query {
        from: vec![End::Pod(from.clone())],
        to: vec![End::Pod(to.clone())],
        service: Service::Port { protocol: 6, port },
    };
    let answer = evaluate(&loaded.cluster, &compiled.rulesets, &query).expect("an answer");
    (any(&answer), answer.notes)
}

/// A list says what some pair of addresses may do.
fn any(answer: &Evaluation) -> bool {
    answer.pairs.iter().any(|pair| pair.verdict == Verdict::Allow)
}

/// `web` and `db` without addresses, and a policy for `db`.
fn shop(more: &str, rules: &str) -> Loaded {
    let workload = |name: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  template:\n    \
             metadata: {{labels: {{app: {name}}}}}\n    spec: {{containers: [{{name: c}}]}}\n---\n"
        )
    };
    read(&format!(
        "{}{}{more}apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: db, namespace: shop}}\n\
         spec:\n  podSelector: {{matchLabels: {{app: db}}}}\n{rules}",
        workload("web"),
        workload("db"),
    ))
}

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: {podCIDR: 10.20.0.0/24}\n---\n";

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

/// The list's and the question's answer to `web -> db:5432`, which must be one, and whether both say what it owes.
fn answer(loaded: &Loaded) -> (bool, bool) {
    let list = listed(loaded);
    let allowed = list.list.iter().any(|one| {
        list.peers[one.from()].id == "shop/web[Deployment]"
            && list.peers[one.to()].id == "shop/db[Deployment]"
            && list.allowed(one).contains(Protocol::Tcp, 5432)
    });
    let (passes, notes) = asked(loaded, &key("web"), &key("db"), 5432);
    assert_eq!(allowed, passes, "the list and the question differ: {notes:?}");
    let said = list.open_blocks.iter().any(|block| {
        block.rule.qualified_name() == "shop/db"
            && block.workloads.contains(&"shop/web[Deployment]".to_owned())
    });
    let noted = notes.iter().any(|note| note.contains("netlab chose") && note.contains("shop/db"));
    assert_eq!(said, noted, "{:?} and {notes:?}", list.open_blocks);
    (allowed, said)
}

#[test]
fn a_block_that_may_hold_a_pod_is_named_by_lists_and_questions() {
    let from = |block: &str, port: u16| {
        format!("  ingress: [{{from: [{{ipBlock: {block}}}], ports: [{{port: {port}}}]}}]\n")
    };
    // The pods may be in it or not.
    assert_eq!(answer(&shop("", &from("{cidr: 10.0.0.0/8}", 5432))), (false, true));
    assert_eq!(answer(&shop("", &from("{cidr: 0.0.0.0/0, except: [10.0.0.0/8]}", 5432))), (false, true));
    // Certainly not, or on another port.
    assert_eq!(answer(&shop("", &from("{cidr: 203.0.113.0/24}", 5432))), (false, false));
    assert_eq!(answer(&shop("", &from("{cidr: 10.1.2.3/32}", 5432))), (false, false));
    // Wherever they are.
    assert!(answer(&shop("", &from("{cidr: 0.0.0.0/0}", 5432))).0);
    // The node's range for pods settles it.
    assert_eq!(answer(&shop(NODE, &from("{cidr: 10.0.0.0/8}", 5432))), (true, false));
    assert_eq!(answer(&shop(NODE, &from("{cidr: 192.168.0.0/16}", 5432))), (false, false));
    assert_eq!(answer(&shop(NODE, &from("{cidr: 0.0.0.0/0, except: [10.20.0.0/16]}", 5432))), (false, false));
    // Another rule admits it anyway.
    let both = "  ingress:\n  - from: [{ipBlock: {cidr: 10.0.0.0/8}}, {podSelector: {}}]\n    ports: [{port: 5432}]\n";
    assert_eq!(answer(&shop("", both)), (true, false));
}

#[test]
fn a_block_on_the_senders_side_is_named_too() {
    let sender = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\nspec:\n  \
                  podSelector: {matchLabels: {app: web}}\n  policyTypes: [Egress]\n  \
                  egress: [{to: [{ipBlock: {cidr: 172.16.0.0/12}}]}]\n---\n";
    // Each side alone would go on denying: both have to be looked at together.
    let both = shop(sender, "  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]\n");
    let list = listed(&both);
    let named: Vec<(String, String)> = list
        .open_blocks
        .iter()
        .map(|block| (block.rule.qualified_name(), block.workloads.join(",")))
        .collect();
    assert!(named.contains(&("shop/db".to_owned(), "shop/web[Deployment]".to_owned())), "{named:?}");
    assert!(named.contains(&("shop/web".to_owned(), "shop/db[Deployment]".to_owned())), "{named:?}");
    let (passes, notes) = asked(&both, &key("web"), &key("db"), 80);
    assert!(!passes);
    assert_eq!(notes.iter().filter(|note| note.contains("netlab chose")).count(), 2, "{notes:?}");
    // Where the sender's side denies for sure, nothing is owed.
    let shut = sender.replace("egress: [{to: [{ipBlock: {cidr: 172.16.0.0/12}}]}]", "egress: []");
    let shut = shop(&shut, "  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]\n");
    let of_web = |block: &&netlab_core::policy::connections::OpenBlock| {
        block.workloads.iter().any(|name| name.starts_with("shop/web"))
    };
    assert_eq!(listed(&shut).open_blocks.iter().filter(of_web).count(), 0);
}

#[test]
fn lists_and_questions_agree_about_pods_without_addresses() {
    let (mut same, mut allowed) = (0, 0);
    let mut rng = Rng::with_seed(7);
    for index in 0..25 {
        let mut objects = world(&mut rng);
        for pod in &mut objects.pods {
            pod.status = None;
        }
        let text = manifest::write(&objects);
        let loaded = read(&text);
        let list = listed(&loaded);
        let position: BTreeMap<&str, usize> =
            list.peers.iter().enumerate().map(|(position, peer)| (peer.id.as_str(), position)).collect();
        let sets: BTreeMap<(usize, usize), &Allowed> =
            list.list.iter().map(|one| ((one.from(), one.to()), list.allowed(one))).collect();
        let limits = Limits::layout_only();
        let compiled =
            compile_with(&loaded.cluster, &loaded.policies, &Scope::Cluster, &Numbers::default(), &limits);
        let policed = || loaded.cluster.pods.iter().filter(|(_, pod)| pod.is_policed());
        for (from, source) in policed() {
            for (to, destination) in policed() {
                let ends = [workload_of(from, source), workload_of(to, destination)];
                if ends[0] == ends[1] {
                    continue;
                }
                let port = [80, 443, 5432, 8080, 53][rng.usize(0..5)];
                let query = Query {
                    from: vec![End::Pod(from.clone())],
                    to: vec![End::Pod(to.clone())],
                    service: Service::Port { protocol: 6, port },
                };
                let answer = evaluate(&loaded.cluster, &compiled.rulesets, &query).expect("an answer");
                let any = any(&answer);
                let set = sets.get(&(position[ends[0].as_str()], position[ends[1].as_str()]));
                let is_listed = set.is_some_and(|set| set.contains(Protocol::Tcp, port));
                assert_eq!(is_listed, any, "world {index}: {from} -> {to} {port}\n{text}");
                same += 1;
                allowed += usize::from(any);
            }
        }
    }
    assert!(same > 1_000 && allowed > 100 && allowed < same - 100, "{allowed} of {same}");
}

/// A pod that waits for its node or its start, one that runs, and a policy for `web`.
fn waiting(pending: &str, node: &str, policy: &str) -> Loaded {
    let ranges = if node.is_empty() { "" } else { NODE };
    read(&format!(
        "{ranges}apiVersion: v1\nkind: Pod\nmetadata: {{name: db, namespace: shop, labels: {{app: db}}}}\n\
         spec: {{{node}containers: [{{name: c}}]}}\n{pending}---\napiVersion: v1\nkind: Pod\n\
         metadata: {{name: web, namespace: shop, labels: {{app: web}}}}\nspec: {{{node}containers: [{{name: c}}]}}\n\
         status: {{phase: Running, podIPs: [{{ip: 10.20.0.9}}]}}\n---\n{policy}"
    ))
}

/// The pairs of workloads that the list has.
fn pairs_of(loaded: &Loaded) -> Vec<(String, String)> {
    let list = listed(loaded);
    let end = |peer: usize| list.peers[peer].id.clone();
    let pairs = list.list.iter().map(|pair| (end(pair.from()), end(pair.to())));
    let is_workload = |(from, to): &(String, String)| from.starts_with("shop/") && to.starts_with("shop/");
    pairs.filter(is_workload).collect()
}

#[test]
fn blocks_that_together_hold_everything_leave_no_pod_without_an_address() {
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: shop}\n\
                  spec: {podSelector: {matchLabels: {app: nobody}}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/1}}, \
                  {ipBlock: {cidr: 128.0.0.0/1}}]}]}\n";
    for pending in ["status: {phase: Pending}\n", "", "status: {phase: Succeeded}\n"] {
        assert_eq!(pairs_of(&waiting(pending, "", policy)).len(), 2, "{pending}");
    }
}

#[test]
fn a_pod_that_has_its_node_and_no_address_gets_one_of_the_nodes_ranges() {
    let policy = "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: c}\n\
                  spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, \
                  egress: [{action: Deny, to: [{networks: [10.0.0.0/8]}]}]}\n";
    for pending in ["status: {phase: Pending}\n", ""] {
        let loaded = waiting(pending, "nodeName: n1, ", policy);
        assert_eq!(pairs_of(&loaded), [], "{pending}");
        let cluster = as_if_running(&loaded.cluster, &loaded.policies, HostNetwork::AsNodes);
        let addresses = &cluster.pods[&key("db")].addresses;
        assert!(addresses.iter().all(|one| one.to_string().starts_with("10.20.0.")), "{addresses:?}");
        assert!(!addresses.is_empty() && *addresses != cluster.pods[&key("web")].addresses);
    }
}
