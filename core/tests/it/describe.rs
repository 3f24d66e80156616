//! The story of a pod: how peers read, what stands in which order, and what is left out.

use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::describe::{Description, Story, describe};

use crate::input_files::{example, load_text};

fn told(text: &str, namespace: &str, name: &str) -> Description {
    let loaded = load_text(text);
    assert!(loaded.is_complete(), "{:#?}", loaded.diagnostics);
    describe(&loaded.cluster, &loaded.policies, &ObjectKey::new(namespace, name)).expect("the pod is there")
}

const CLUSTER: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {team: red}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other, labels: {team: red}}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: x, labels: {app: db, tier: back}}
spec: {containers: [{name: c, ports: [{name: sql, containerPort: 5432}]}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: api, namespace: x, labels: {app: api}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: api, namespace: other, labels: {app: api}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: job, namespace: other, labels: {app: job}}}
---
";

fn network_policy(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, namespace: x}}, \
         spec: {spec}}}\n---\n"
    )
}

fn reads(story: &Story) -> Vec<(String, Vec<String>)> {
    let rules = story.policies.iter().flat_map(|chapter| &chapter.rules);
    rules.flat_map(|rule| &rule.peers).map(|peer| (peer.reads.clone(), peer.matches.clone())).collect()
}

#[test]
fn one_dash_more_reads_as_or() {
    let and = network_policy(
        "db",
        "{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: red}}, \
         podSelector: {matchLabels: {app: api}}}]}]}",
    );
    let or = and
        .replace("}, podSelector: {matchLabels: {app: api}}", "}}, {podSelector: {matchLabels: {app: api}}");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        reads(&told(&(CLUSTER.to_owned() + &and), "x", "db").ingress),
        [("pods with app=api AND in a namespace with team=red".to_owned(), names(&["other/api", "x/api"]))]
    );
    assert_eq!(
        reads(&told(&(CLUSTER.to_owned() + &or), "x", "db").ingress),
        [
            (
                "every pod in a namespace with team=red".to_owned(),
                names(&["other/api", "other/job", "x/api"])
            ),
            ("pods of x with app=api".to_owned(), names(&["x/api"])),
        ]
    );
}

#[test]
fn absent_and_empty_read_as_the_api_means_them() {
    let spec = "{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}, {from: [{podSelector: {}}, \
                {namespaceSelector: {}}], ports: [{protocol: UDP}, {port: sql}, {port: other}]}], \
                egress: [{ports: [{port: sql}, {port: 80, endPort: 90}]}]}";
    let story = told(&(CLUSTER.to_owned() + &network_policy("all", spec)), "x", "db");
    let ports: Vec<&str> = story.ingress.policies[0].rules.iter().map(|rule| rule.ports.as_str()).collect();
    assert_eq!(
        ports,
        [
            "everything, ICMP too",
            "every UDP port, TCP `sql` (5432), TCP `other` (no container has it, so nothing)"
        ]
    );
    let everybody: Vec<bool> = story.ingress.policies[0].rules.iter().map(|rule| rule.everybody).collect();
    assert_eq!(everybody, [true, false]);
    let reads: Vec<String> = reads(&story.ingress).into_iter().map(|(reads, _)| reads).collect();
    assert_eq!(reads, ["every pod of x", "every pod of every namespace"]);
    assert_eq!(
        story.egress.policies[0].rules[0].ports,
        "TCP `sql` (as each destination numbers it), TCP 80-90"
    );
}

#[test]
fn a_block_tells_who_is_in_it_and_whose_address_is_not_known() {
    let policy = network_policy(
        "db",
        "{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 10.244.0.0/16}}, \
         {ipBlock: {cidr: 192.168.0.0/24}}, \
         {ipBlock: {cidr: 203.0.113.0/24}}, {ipBlock: {cidr: 0.0.0.0/0}}, {podSelector: {matchLabels: {app: none}}}]}]}",
    );
    let more = "{apiVersion: v1, kind: Pod, metadata: {name: far, namespace: x}, status: {podIP: 10.244.3.4}}\n---\n\
                {apiVersion: v1, kind: Node, metadata: {name: node-1}, status: {addresses: [{type: InternalIP, \
                address: 192.168.0.7}]}}\n---\n";
    let story = told(&(CLUSTER.to_owned() + more + &policy), "x", "db").ingress;
    let peers = story.policies.iter().flat_map(|chapter| &chapter.rules).flat_map(|rule| &rule.peers);
    let found: Vec<(Vec<String>, usize)> = peers.map(|peer| (peer.matches.clone(), peer.unknown)).collect();
    assert_eq!(
        found,
        [
            (vec!["x/far".to_owned()], 3),
            (vec!["node/node-1".to_owned()], 3),
            // No pod will have such an address, and each has one of these.
            (Vec::new(), 0),
            (["node/node-1", "other/api", "other/job", "x/api", "x/far"].map(str::to_owned).to_vec(), 0),
            (Vec::new(), 0),
        ],
        "three pods have no address yet, which says nothing about selectors"
    );
}

#[test]
fn what_does_not_select_is_a_near_miss_only_when_it_looks_like_a_slip() {
    let text = CLUSTER.to_owned()
        + &network_policy("slip", "{podSelector: {matchLabels: {app: bd}}}")
        + &network_policy("other", "{podSelector: {matchLabels: {app: frontend}}}")
        + &network_policy("partly", "{podSelector: {matchLabels: {app: db, tier: front}}}");
    let story = told(&text, "x", "db");
    assert!(!story.ingress.isolated && story.ingress.policies.is_empty());
    assert_eq!(story.ingress.default, "allow");
    let misses: Vec<String> =
        story.near_misses.iter().map(|miss| format!("{}: {}", miss.policy.name, miss.reason)).collect();
    assert_eq!(
        misses,
        ["partly: selects tier=front; the pod has tier=back", "slip: selects app=bd; the pod has app=db"]
    );
}

#[test]
fn tiers_stand_in_the_order_in_which_they_are_asked() {
    let tiers = example("tiers");
    let story = describe(&tiers.cluster, &tiers.policies, &ObjectKey::new("red", "db")).expect("a pod");
    let order: Vec<(&str, &str, Option<u16>)> = story
        .ingress
        .policies
        .iter()
        .map(|chapter| (chapter.tier, chapter.policy.name.as_str(), chapter.priority))
        .collect();
    assert_eq!(
        order,
        [("admin", "monitoring", Some(10)), ("admin", "tenants", Some(20)), ("networkPolicy", "db", None)]
    );
    let verbs: Vec<&str> = story.ingress.policies[1].rules.iter().map(|rule| rule.verb).collect();
    assert_eq!(verbs, ["passes on", "denies"]);
    assert_eq!(story.ingress.default, "deny");
    assert_eq!(story.egress.default, "allow");
}

#[test]
fn a_pod_that_policies_do_not_see_says_so() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: agent, namespace: x}, spec: {hostNetwork: true, nodeName: node-1}}\n---\n"
        .to_owned()
        + &network_policy("all", "{podSelector: {}}");
    let story = told(&text, "x", "agent");
    assert!(story.ingress.policies.is_empty() && !story.ingress.isolated);
    assert_eq!(story.notes[0], "it uses its node's network: no policy selects it, and others see its node");
}

#[test]
fn what_the_api_does_not_order_is_noted() {
    let policy = |version: &str, kind: &str, name: &str, fields: &str| {
        format!(
            "---\napiVersion: policy.networking.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: {name}}}\n\
             spec: {{{fields}subject: {{namespaces: {{}}}}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}\n"
        )
    };
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: x}}\n".to_owned()
        + &policy("v1alpha2", "ClusterNetworkPolicy", "a", "tier: Admin, priority: 3, ")
        + &policy("v1alpha1", "AdminNetworkPolicy", "b", "priority: 3, ")
        + &policy("v1alpha2", "ClusterNetworkPolicy", "c", "tier: Baseline, priority: 3, ")
        + &policy("v1alpha1", "BaselineAdminNetworkPolicy", "default", "");
    let notes = told(&text, "x", "web").notes;
    let has = |words: &str| notes.iter().any(|note| note.contains(words));
    assert!(has("AdminNetworkPolicy b and ClusterNetworkPolicy a have one priority"), "{notes:?}");
    assert!(has("BaselineAdminNetworkPolicy default has no priority"), "{notes:?}");
}
