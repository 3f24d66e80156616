//! What users are told where the Admin and Baseline tiers have a say: who decided, who handed on, who was outranked,
//! and where nobody did.

use netlab_core::input::Loaded;
use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::connections::{Focus, connections};
use netlab_core::policy::evaluate::{Evaluation, Outcome, TierName, evaluate};
use netlab_core::policy::provenance::{PolicyRef, RuleRef};
use netlab_core::policy::query::{End, Query, Service};
use netlab_core::policy::{Posture, Scope, compile};
use netlab_ebpf::abi::Direction;

use crate::input_files::{example, line, load_text};

fn ask(loaded: &Loaded, from: &str, to: &str, protocol: u8, port: u16) -> Evaluation {
    let end = |text: &str| match text.split_once('/') {
        Some(("node", name)) => End::Node(name.to_owned()),
        Some((namespace, name)) => End::Pod(ObjectKey::new(namespace, name)),
        None => End::Address(text.parse().expect("an address")),
    };
    let rulesets = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster).rulesets;
    let query = Query { from: vec![end(from)], to: vec![end(to)], service: Service::Port { protocol, port } };
    evaluate(&loaded.cluster, &rulesets, &query).expect("it can be encoded")
}

fn cited(rule: &RuleRef) -> String {
    format!("{} {} {}", rule.kind, rule.qualified_name(), rule.path)
}

#[test]
fn the_example_of_tiers_is_what_the_docs_show() {
    let loaded = example("tiers");
    let said: Vec<String> = loaded.diagnostics.iter().map(line).collect();
    assert!(said.is_empty() && loaded.skipped.is_empty(), "{said:?} {:?}", loaded.skipped);

    let scrape = ask(&loaded, "platform/scraper", "red/web", 6, 9113);
    assert_eq!((scrape.verdict, scrape.ingress.tier), (Outcome::Allow, TierName::Admin));
    let rule = scrape.ingress.rule.as_ref().expect("a rule");
    assert_eq!(cited(rule), "AdminNetworkPolicy monitoring spec.ingress[0].from[0]");
    assert_eq!((rule.action, rule.rule_name.as_deref()), (Some("Allow"), Some("scrape")));
    assert_eq!(rule.port_path.as_deref(), Some("spec.ingress[0].ports[0]"));
    // The baseline would have denied, and is named as what was outranked.
    let losers: Vec<String> = scrape.ingress.losers.iter().map(cited).collect();
    assert_eq!(losers, ["BaselineAdminNetworkPolicy default spec.ingress[0].from[0]"]);

    let baseline = ask(&loaded, "platform/scraper", "red/web", 6, 8080);
    assert_eq!((baseline.verdict, baseline.ingress.tier), (Outcome::Deny, TierName::Baseline));

    let handed_on = ask(&loaded, "blue/job", "red/db", 6, 5432);
    assert_eq!((handed_on.verdict, handed_on.ingress.tier), (Outcome::Deny, TierName::NetworkPolicy));
    let passed: Vec<String> = handed_on.ingress.passed.iter().map(cited).collect();
    assert_eq!(passed, ["ClusterNetworkPolicy tenants spec.ingress[0].from[0]"]);
    assert!(handed_on.ingress.rule.is_none() && !handed_on.ingress.near_misses.is_empty());
    let losers: Vec<String> = handed_on.ingress.losers.iter().map(cited).collect();
    assert_eq!(
        losers,
        [
            "ClusterNetworkPolicy tenants spec.ingress[1].from[0]",
            "BaselineAdminNetworkPolicy default spec.ingress[0].from[0]"
        ]
    );

    let node = ask(&loaded, "red/web", "node/work", 6, 22);
    assert_eq!((node.egress.verdict, node.egress.tier), (Verdict::Deny, TierName::Admin));
    let network = ask(&loaded, "red/web", "169.254.169.254", 6, 80);
    let rule = network.egress.rule.as_ref().map(cited);
    assert_eq!(rule.as_deref(), Some("ClusterNetworkPolicy tenants spec.egress[0].to[1].networks[0]"));
}

#[test]
fn what_no_rule_decides_has_an_entry_of_its_own_and_says_whose_rules_were_asked() {
    let loaded = example("tiers");
    let open = ask(&loaded, "red/web", "node/edge", 6, 22);
    assert_eq!((open.verdict, open.egress.tier), (Outcome::Allow, TierName::Default));
    assert_eq!(
        open.egress.reason,
        "no rule of ClusterNetworkPolicy tenants applies, and not isolated by NetworkPolicy"
    );
    let entry = open.egress.entry.expect("an entry");
    let rulesets = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster).rulesets;
    let citation = rulesets.cite(entry).expect("it can be cited");
    assert_eq!(citation.words(), open.egress.reason);
    assert_eq!(citation.acting.len(), 1);
    // Nobody has a table for the pod that no policy is about.
    let none = ask(&loaded, "platform/scraper", "node/work", 6, 22);
    assert_eq!(none.egress.reason, "not isolated for egress");
}

const TIE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
status: {podIP: 10.0.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop}
status: {podIP: 10.0.0.2}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: opens}
spec:
  priority: 5
  subject: {namespaces: {}}
  ingress:
  - {action: Allow, from: [{namespaces: {}}], ports: [{portRange: {start: 80, end: 81}}]}
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: closes}
spec:
  tier: Admin
  priority: 5
  subject: {namespaces: {}}
  ingress:
  - {action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}
  egress:
  - {action: Deny, to: [{networks: [10.0.0.1/32]}], protocols: [{tcp: {destinationPort: {number: 80}}}]}
";

#[test]
fn a_tie_is_undefined_in_words_and_denied_by_the_tables() {
    let loaded = load_text(TIE);
    assert!(loaded.is_complete());
    let tie = ask(&loaded, "shop/web", "shop/db", 6, 80);
    assert_eq!(tie.verdict, Outcome::Undefined);
    let names = "tie between AdminNetworkPolicy opens and ClusterNetworkPolicy closes";
    assert_eq!(tie.pairs[0].undefined.as_deref(), Some(names));
    assert_eq!(tie.pairs[0].verdict, Verdict::Deny);
    assert!(tie.notes.contains(&format!("undefined({names}): netlab's tables deny it")), "{:?}", tie.notes);
    let tied: Vec<String> = tie.ingress.tied.iter().map(PolicyRef::kind_and_name).collect();
    assert_eq!(tied, ["AdminNetworkPolicy opens", "ClusterNetworkPolicy closes"]);

    // Where only one of them matches, or the other side denies for sure, nothing is open.
    assert_eq!(ask(&loaded, "shop/web", "shop/db", 6, 81).verdict, Outcome::Allow);
    assert_eq!(ask(&loaded, "shop/db", "shop/web", 6, 80).verdict, Outcome::Deny);
}

#[test]
fn what_a_domain_name_might_accept_is_said_not_to_be_examined() {
    let text = format!(
        "{TIE}---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {{name: world}}
spec:
  tier: Admin
  priority: 9
  subject: {{namespaces: {{}}}}
  egress:
  - {{action: Accept, to: [{{domainNames: ['*.example.org']}}]}}
  - {{action: Deny, to: [{{networks: [0.0.0.0/0]}}]}}
"
    );
    let loaded = load_text(&text);
    let outside = ask(&loaded, "shop/web", "203.0.113.5", 6, 443);
    assert_eq!(outside.verdict, Outcome::Deny);
    let [said] = outside.not_examined.as_slice() else { panic!("{:?}", outside.not_examined) };
    assert!(
        said.starts_with("ClusterNetworkPolicy world spec.egress[0].to[0].domainNames: whether 203.0.113.5"),
        "{said}"
    );
    // The cluster's own addresses are not what such rules are for.
    assert_eq!(ask(&loaded, "shop/web", "shop/db", 17, 53).not_examined, Vec::<String>::new());
}

#[test]
fn a_pod_under_tiers_alone_is_not_called_isolated() {
    let loaded = example("tiers");
    let rulesets = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster).rulesets;
    let of = |namespace, name| {
        let pod = ObjectKey::new(namespace, name);
        [Direction::Ingress, Direction::Egress].map(|direction| rulesets.posture_of(&pod, direction))
    };
    assert_eq!(of("red", "db"), [Some(Posture::Isolated), Some(Posture::Tiers)]);
    assert_eq!(of("red", "web"), [Some(Posture::Tiers), Some(Posture::Tiers)]);
    assert_eq!(of("platform", "scraper"), [Some(Posture::Open), Some(Posture::Open)]);
    assert_eq!(of("red", "nobody"), [None, None]);
}

#[test]
fn a_listing_says_what_a_tie_leaves_open() {
    let loaded = load_text(TIE);
    let rulesets = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster).rulesets;
    let answer = connections(&loaded.cluster, &rulesets, &Focus::default());
    let [tie] = answer.ties.as_slice() else { panic!("{:?}", answer.ties) };
    let tied: Vec<String> = tie.iter().map(PolicyRef::kind_and_name).collect();
    assert_eq!(tied, ["AdminNetworkPolicy opens", "ClusterNetworkPolicy closes"]);
    assert_eq!((answer.isolated, answer.tiers), ([0, 0], [2, 2]));
    let entry = ask(&loaded, "shop/web", "shop/db", 6, 80).ingress.entry.expect("an entry");
    let because = rulesets.cite(entry).expect("it can be cited").because();
    assert_eq!(because, "tie between AdminNetworkPolicy opens and ClusterNetworkPolicy closes: denied");
}
