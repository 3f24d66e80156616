//! What is wrong with an AdminNetworkPolicy, a BaselineAdminNetworkPolicy or a ClusterNetworkPolicy is named with its
//! place; what only a newer API could know is not.

use netlab_core::diagnostic::Severity;
use netlab_core::model::policy::{Action, PeerMatch};

use crate::input_faults::check_all;
use crate::input_files::{line, load_text};

/// A kind of policy, and a spec that is complete but for its rules.
#[derive(Clone, Copy)]
enum Kind {
    Admin,
    Baseline,
    Cluster,
}

/// A policy with this below `spec`, two spaces in.
fn policy(kind: Kind, spec: &str) -> String {
    let spec = spec.replace('\n', "\n  ");
    let (version, kind, name) = match kind {
        Kind::Admin => ("v1alpha1", "AdminNetworkPolicy", "a"),
        Kind::Baseline => ("v1alpha1", "BaselineAdminNetworkPolicy", "default"),
        Kind::Cluster => ("v1alpha2", "ClusterNetworkPolicy", "a"),
    };
    format!(
        "apiVersion: policy.networking.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n"
    )
}

/// The same with all that a spec needs in front.
fn complete(kind: Kind, spec: &str) -> String {
    let head = match kind {
        Kind::Admin => "priority: 1\nsubject: {namespaces: {}}",
        Kind::Baseline => "subject: {namespaces: {}}",
        Kind::Cluster => "tier: Admin\npriority: 1\nsubject: {namespaces: {}}",
    };
    policy(kind, &format!("{head}\n{spec}"))
}

fn check_each(cases: &[(String, &str)]) {
    let cases: Vec<(&str, &str)> = cases.iter().map(|(text, expected)| (text.as_str(), *expected)).collect();
    check_all(&cases);
}

#[test]
fn faults_of_specs() {
    use Kind::{Admin, Baseline, Cluster};
    let cases = [
        (Admin, "⟨priority: 1001\nsubject: {namespaces: {}}", "NL0230 1001"),
        (Admin, "⟨priority: -1\nsubject: {namespaces: {}}", "NL0230 -1"),
        (Cluster, "tier: Admin\n⟨priority: 1001\nsubject: {namespaces: {}}", "NL0230 1001"),
        (Cluster, "⟨tier: admin\npriority: 1\nsubject: {namespaces: {}}", "NL0231 `admin` is no tier"),
        (Baseline, "⟨priority: 1\nsubject: {namespaces: {}}", "NL0202 unknown field `priority`"),
        (Admin, "⟨tier: Admin\npriority: 1\nsubject: {namespaces: {}}", "NL0202 unknown field `tier`"),
        (Admin, "priority: 1\n⟨subject: {}", "NL0233 selects nothing"),
        (Admin, "priority: 1\nsubject: {⟨namespace: {}}", "NL0202 unknown field `namespace`"),
        (
            Cluster,
            "tier: Admin\npriority: 1\n⟨subject: {namespaces: {}, pods: {podSelector: {}}}",
            "NL0233 both",
        ),
        (
            Cluster,
            "tier: Admin\npriority: 1\nsubject: {⟨pods: {namespaceSelector: {}}}",
            "NL0245 without `podSelector`",
        ),
        (
            Admin,
            "priority: 1\nsubject: {namespaces: {⟨sameLabels: [a]}}",
            "NL0202 unknown field `sameLabels`",
        ),
    ];
    check_each(&cases.map(|(kind, spec, expected)| (policy(kind, spec), expected)));
    check_each(&[
        (
            "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: BaselineAdminNetworkPolicy\nmetadata: {⟨name: base}\n\
             spec: {subject: {namespaces: {}}}\n"
                .to_owned(),
            "NL0236 `base`",
        ),
        (
            "⟨apiVersion: policy.networking.k8s.io/v1alpha1\nkind: ClusterNetworkPolicy\nmetadata: {name: a}\n".to_owned(),
            "NL0203 has no ClusterNetworkPolicy",
        ),
        (
            "apiVersion: networking.k8s.aws/v1alpha1\n⟨kind: ClusterNetworkPolicy\nmetadata: {name: a}\n".to_owned(),
            "NL0208 networking.k8s.aws/v1alpha1 ClusterNetworkPolicy is another enforcer's",
        ),
        (
            "apiVersion: crd.antrea.io/v1beta1\n⟨kind: ClusterNetworkPolicy\nmetadata: {name: a}\n".to_owned(),
            "NL0208 crd.antrea.io/v1beta1 ClusterNetworkPolicy is another enforcer's",
        ),
    ]);
}

#[test]
fn faults_of_rules_and_peers() {
    use Kind::{Admin, Baseline, Cluster};
    let many = |count: usize, element: &str| vec![element; count].join(", ");
    let long = format!("egress:\n- {{action: Deny, ⟨name: {}, to: [{{namespaces: {{}}}}]}}", "n".repeat(101));
    let networks = (0..26).map(|index| format!("10.{index}.0.0/16")).collect::<Vec<_>>().join(", ");
    let networks = format!("egress:\n- action: Deny\n  to:\n  - ⟨networks: [{networks}]");
    let rules26 = format!("⟨egress: [{}]", many(26, "{action: Deny, to: [{namespaces: {}}]}"));
    let peers26 = format!("egress:\n- action: Deny\n  ⟨to: [{}]", many(26, "{namespaces: {}}"));
    let peers101 = format!("egress:\n- action: Deny\n  ⟨to: [{}]", many(101, "{namespaces: {}}"));
    let rule = |rest: &str| format!("egress:\n- action: Accept\n  to:\n  - {rest}");
    let cases: Vec<(Kind, String, &str)> = vec![
        (
            Admin,
            "egress:\n- {⟨action: Accept, to: [{namespaces: {}}]}".into(),
            "NL0232 no action of AdminNetworkPolicy",
        ),
        (
            Cluster,
            "egress:\n- {⟨action: Allow, to: [{namespaces: {}}]}".into(),
            "NL0232 no action of ClusterNetworkPolicy",
        ),
        (Baseline, "egress:\n- {⟨action: Pass, to: [{namespaces: {}}]}".into(), "NL0232 `Pass`"),
        (Cluster, "egress:\n- ⟨to: [{namespaces: {}}]".into(), "NL0232 without `action`"),
        (Cluster, "egress:\n- ⟨action: Deny".into(), "NL0235 without `to`"),
        (Cluster, "ingress:\n- action: Deny\n  ⟨from: []".into(), "NL0235 no peers"),
        (
            Cluster,
            "ingress:\n- {action: Deny, from: [{namespaces: {}}], ⟨protocols: []}".into(),
            "NL0235 no protocols",
        ),
        (
            Cluster,
            "ingress:\n- {action: Deny, from: [{namespaces: {}}], ⟨ports: []}".into(),
            "NL0202 `ports`",
        ),
        (
            Admin,
            "ingress:\n- {action: Deny, from: [{namespaces: {}}], ⟨protocols: []}".into(),
            "NL0202 `protocols`",
        ),
        (Cluster, long, "NL0235 101 characters"),
        (Cluster, rules26, "NL0235 26 rules, more than 25"),
        (Cluster, peers26, "NL0235 26 peers, more than 25"),
        (Admin, peers101, "NL0235 101 peers, more than 100"),
        (Admin, networks, "NL0235 26 networks, more than 25"),
        (Cluster, rule("⟨{}"), "NL0211 names nobody"),
        (Cluster, rule("⟨{namespaces: {}, networks: [10.0.0.0/8]}"), "NL0212 namespaces and networks"),
        (Cluster, rule("{⟨namespace: {}}"), "NL0202 unknown field `namespace`"),
        (Cluster, rule("{⟨podSelector: {}}"), "NL0202 unknown field `podSelector`"),
        (Cluster, rule("{networks: [⟨10.0.0.0]}"), "NL0213 is no CIDR"),
        (Cluster, rule("{networks: [10.0.0.0/8, ⟨10.0.0.0/8]}"), "NL0235 twice"),
        (Cluster, rule("{networks: [⟨10.0.0.1/8]}"), "NL0214 it means `10.0.0.0/8`"),
        (
            Cluster,
            "ingress:\n- action: Deny\n  from: [{⟨networks: [10.0.0.0/8]}]".into(),
            "NL0202 unknown field `networks`",
        ),
        (
            Baseline,
            "egress:\n- action: Allow\n  to: [{⟨domainNames: [a.b]}]".into(),
            "NL0202 unknown field `domainNames`",
        ),
        (Admin, "egress:\n- action: Deny\n  to: [{⟨domainNames: [a.b]}]".into(), "NL0232 `domainNames`"),
        (Cluster, "egress:\n- action: Deny\n  to: [{⟨domainNames: [a.b]}]".into(), "NL0238 does not accept"),
        (Cluster, rule("{⟨domainNames: [a.b]}"), "NL0238 not modelled"),
        (Cluster, rule("⟨{serviceAccounts: {}}"), "NL0237 the rule matches nothing"),
    ];
    let cases: Vec<_> =
        cases.into_iter().map(|(kind, spec, expected)| (complete(kind, &spec), expected)).collect();
    check_each(&cases);
}

#[test]
fn faults_of_ports() {
    use Kind::{Admin, Cluster};
    let v1alpha1 = |port: &str| {
        format!("ingress:\n- action: Allow\n  from: [{{namespaces: {{}}}}]\n  ports:\n  - {port}")
    };
    let v1alpha2 = |port: &str| {
        format!("ingress:\n- action: Accept\n  from: [{{namespaces: {{}}}}]\n  protocols:\n  - {port}")
    };
    let beside = |field: &str, name: &str, peer: &str| {
        let action = if field == "ports" { "Allow" } else { "Accept" };
        format!(
            "egress:\n- action: {action}\n  to: [{{namespaces: {{}}}}, {peer}]\n  {field}:\n  - ⟨{name}: web"
        )
    };
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{ports: [{name: web, containerPort: 1}]}]}\n---\n\
               apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n";
    let cases: Vec<(Kind, String, &str)> = vec![
        (Admin, v1alpha1("⟨{}"), "NL0234 names no port"),
        (Admin, v1alpha1("⟨{portNumber: {port: 80}, namedPort: web}"), "NL0234 portNumber and namedPort"),
        (Admin, v1alpha1("portNumber: {⟨port: 0}"), "NL0217 `0` is no port number"),
        (Admin, v1alpha1("⟨portNumber: {protocol: TCP}"), "NL0217 no `port`"),
        (Admin, v1alpha1("portNumber: {⟨protocol: tcp, port: 1}"), "NL0216 `tcp`"),
        (Admin, v1alpha1("portRange: {start: 1, ⟨end: 65536}"), "NL0217 `65536`"),
        (Admin, v1alpha1("⟨portRange: {start: 9, end: 1}"), "NL0217 the range 9-1 is empty"),
        (Admin, v1alpha1("⟨namedPort: gone"), "NL0241 no pod has a port called `gone`"),
        (Cluster, v1alpha2("⟨{}"), "NL0234 names no port"),
        (
            Cluster,
            v1alpha2("⟨{tcp: {destinationPort: {number: 1}}, udp: {destinationPort: {number: 1}}}"),
            "NL0234 tcp and udp",
        ),
        (
            Cluster,
            v1alpha2("tcp: {⟨destinationPort: {number: 1, range: {start: 1, end: 2}}}"),
            "NL0234 number and range",
        ),
        (Cluster, v1alpha2("tcp: {destinationPort: {⟨number: 65536}}"), "NL0217 `65536`"),
        (Cluster, v1alpha2("tcp: {destinationPort: {⟨range: {start: 5, end: 5}}}"), "NL0217 not less than"),
        (Cluster, v1alpha2("⟨tcp: {}"), "NL0240 without `destinationPort`"),
        (Cluster, v1alpha2("{⟨namedPort: web}"), "NL0202 unknown field `namedPort`"),
        (
            Admin,
            beside("ports", "namedPort", "{networks: [192.0.2.0/24]}"),
            "NL0222 addresses have no port names",
        ),
        (
            Cluster,
            beside("protocols", "destinationNamedPort", "{nodes: {}}"),
            "NL0222 addresses have no port names",
        ),
        (
            Cluster,
            beside("protocols", "destinationNamedPort", "{networks: [192.0.2.0/24]}"),
            "NL0222 on the pods there",
        ),
    ];
    let all =
        cases.into_iter().map(|(kind, spec, expected)| (format!("{pod}{}", complete(kind, &spec)), expected));
    check_each(&all.collect::<Vec<_>>());
}

#[test]
fn a_hint_says_what_the_other_version_writes() {
    let text = complete(
        Kind::Cluster,
        "ingress:\n- {action: Allow, from: [{namespaces: {}}], ports: [{portNumber: {port: 80}}]}",
    );
    let hints: Vec<String> =
        load_text(&text).diagnostics.into_iter().filter_map(|diagnostic| diagnostic.hint).collect();
    assert!(hints.iter().any(|hint| hint.contains("calls it `protocols`")), "{hints:?}");
    assert!(hints.iter().any(|hint| hint.contains("calls it `Accept`")), "{hints:?}");
}

#[test]
fn what_fails_closed_is_there_and_does_what_the_api_asks() {
    let text = complete(
        Kind::Cluster,
        "egress:\n- {action: Accept, name: opens, to: [{namespaces: {}}, {serviceAccounts: {}}]}\n\
         - {action: Pass, to: [{serviceAccounts: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}",
    );
    let loaded = load_text(&text);
    assert!(loaded.is_complete());
    let rules = loaded.policies.list[0].egress.as_ref().expect("egress rules");
    assert_eq!(rules[0].name.as_deref(), Some("opens"));
    assert_eq!((rules[0].action, rules[0].peers.as_ref().map(Vec::len)), (Action::Accept, Some(0)));
    assert_eq!(
        (rules[1].action, rules[1].peers.is_none(), rules[1].ports.is_none()),
        (Action::Deny, true, true)
    );
}

#[test]
fn each_network_is_a_peer_with_its_own_place() {
    let text = complete(
        Kind::Admin,
        "egress:\n- action: Deny\n  to:\n  - networks:\n    - 192.0.2.0/24\n    - 2001:db8::/32",
    );
    let loaded = load_text(&text);
    let policy = &loaded.policies.list[0];
    let peers = policy.egress.iter().flatten().flat_map(|rule| rule.peers.iter().flatten());
    let places: Vec<(String, u32)> = peers
        .map(|peer| {
            let PeerMatch::Block(block) = &peer.matches else { panic!("{peer:?}") };
            (block.to_string(), policy.source.locate(&peer.path).expect("a place").line)
        })
        .collect();
    assert_eq!(places, [("192.0.2.0/24".to_owned(), 11), ("2001:db8::/32".to_owned(), 12)]);
}

#[test]
fn policies_that_never_meet_may_share_a_priority() {
    let cluster = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: red}\n---\n\
                   apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: blue}\n";
    let named = |name: &str, namespace: &str, action: &str| {
        format!(
            "---\napiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {{name: {name}}}\n\
             spec:\n  priority: 5\n  subject: {{namespaces: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}}}\n\
             \x20 ingress: [{{action: {action}, from: [{{namespaces: {{}}}}]}}]\n"
        )
    };
    for (other, action, warns) in [("blue", "Deny", false), ("red", "Deny", true), ("red", "Allow", false)] {
        let text = format!("{cluster}{}{}", named("a", "red", "Allow"), named("b", other, action));
        let said: Vec<String> = load_text(&text)
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity < Severity::Note)
            .map(line)
            .collect();
        assert_eq!(said.iter().any(|said| said.contains("NL0243")), warns, "{other} {action}: {said:?}");
    }
}
