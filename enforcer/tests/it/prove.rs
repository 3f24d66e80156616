//! Proofs in the kernel: what a user of `prove` sees, packet by packet.

use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::change::Verdict::{self, Allow, Deny};
use netlab_core::policy::evaluate::Outcome;
use netlab_core::policy::query::{End, Query, Service};
use netlab_ebpf::abi::{PolicyKey, PolicyValue};
use netlab_ebpf::reason::Reason;
use netlab_enforcer::LoadOptions;
use netlab_enforcer::maps::{MapSizes, PolicyMaps};
use netlab_enforcer::prove::proof::{Proof, ProofOutcome};
use netlab_enforcer::prove::{Datapath, Written, prove, prove_with};

use crate::bpf_require::datapath;

/// Two nodes; `web`, `db` and the finished `job` on the first, `api` and `cache` on the second; `host` uses its
/// node's network.
const WORLD: &str = r"
apiVersion: v1
kind: Node
metadata: {name: one}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}, {type: InternalIP, address: 'fd00:2::1'}]}
---
apiVersion: v1
kind: Node
metadata: {name: two}
status: {addresses: [{type: InternalIP, address: 192.0.2.2}, {type: InternalIP, address: 'fd00:2::2'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: one, containers: [{name: c}]}
status: {podIPs: [{ip: 10.1.0.2}, {ip: 'fd00:1::2'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {nodeName: one, containers: [{name: c, ports: [{name: sql, containerPort: 5432}]}]}
status: {podIPs: [{ip: 10.1.0.3}, {ip: 'fd00:1::3'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: api, namespace: shop, labels: {app: api}}
spec: {nodeName: two, containers: [{name: c}]}
status: {podIPs: [{ip: 10.1.1.2}, {ip: 'fd00:1:1::2'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: shop, labels: {app: api}}
spec: {nodeName: two, hostNetwork: true, containers: [{name: c}]}
status: {podIPs: [{ip: 192.0.2.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cache, namespace: shop, labels: {app: cache}}
spec: {nodeName: two, containers: [{name: c}]}
status: {podIPs: [{ip: 10.1.1.3}, {ip: 'fd00:1:1::3'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: job, namespace: shop, labels: {app: web}}
spec: {nodeName: one, containers: [{name: c}]}
status: {phase: Succeeded, podIPs: [{ip: 10.1.0.4}]}
---
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c}]}
status: {phase: Pending}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: cache, namespace: shop}
spec:
  podSelector: {matchLabels: {app: cache}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: api}}}, {ipBlock: {cidr: 198.51.100.0/24, except: [198.51.100.128/25]}}]
    ports: [{port: sql}, {protocol: UDP, port: 53}, {protocol: SCTP, port: 7}]
  egress:
  - to: [{ipBlock: {cidr: '2001:db8::/32'}}]
";

fn world() -> Loaded {
    let loaded = load([Document { name: "world.yaml".into(), text: WORLD.into() }], &Budget::default());
    assert!(loaded.is_complete(), "{:?}", loaded.diagnostics);
    loaded
}

fn end(text: &str) -> End {
    if let Ok(address) = text.parse() {
        return End::Address(address);
    }
    match text.strip_prefix("node/") {
        Some(name) => End::Node(name.to_owned()),
        None => End::Pod(ObjectKey::new("shop", text)),
    }
}

fn query(from: &str, to: &str, service: Service) -> Query {
    Query { from: vec![end(from)], to: vec![end(to)], service }
}

const fn tcp(port: u16) -> Service {
    Service::Port { protocol: 6, port }
}

/// Proves, and wants every pair of the question proved with this verdict.
fn proved(datapath: Datapath, from: &str, to: &str, service: Service, verdict: Verdict) -> Vec<Proof> {
    let what = format!("{from} -> {to} {service:?}");
    let proven = prove(&world(), &query(from, to, service), datapath)
        .unwrap_or_else(|error| panic!("{what}: {error:?}"));
    for proof in &proven.proofs {
        assert_eq!(proof.outcome, ProofOutcome::Proved, "{what}: {proof:#?}");
        assert_eq!((proof.predicted, proof.observed), (verdict.into(), Some(verdict)), "{what}");
    }
    proven.proofs
}

/// Every kind of end, protocol and reason, with the verdict that the policy above means.
fn questions() -> Vec<(&'static str, &'static str, Service, Verdict)> {
    let udp = |port| Service::Port { protocol: 17, port };
    let sctp = |port| Service::Port { protocol: 132, port };
    vec![
        ("web", "db", tcp(5432), Deny),
        ("api", "db", tcp(5432), Allow),
        ("api", "db", tcp(5433), Deny),
        ("api", "db", Service::Name { protocol: 6, name: "sql".to_owned() }, Allow),
        ("api", "db", udp(53), Allow),
        ("api", "db", udp(54), Deny),
        ("api", "db", sctp(7), Allow),
        ("api", "db", sctp(8), Deny),
        ("api", "db", Service::Icmp, Deny),
        ("api", "db", Service::Other(47), Deny),
        ("web", "api", tcp(80), Allow),
        // `web` is open, so the answer is judged unread; both pods' interfaces have one number, on two nodes.
        ("web", "cache", tcp(6379), Allow),
        ("web", "cache", udp(6379), Allow),
        ("api", "cache", tcp(6379), Deny),
        ("web", "api", Service::Icmp, Allow),
        ("db", "web", tcp(80), Deny),
        ("db", "2001:db8::7", tcp(443), Allow),
        ("db", "2001:db8::7", Service::Icmp, Allow),
        ("db", "203.0.113.9", udp(53), Deny),
        ("web", "203.0.113.9", udp(53), Allow),
        ("198.51.100.7", "db", tcp(5432), Allow),
        ("198.51.100.200", "db", tcp(5432), Deny),
        ("node/one", "db", tcp(9), Allow),
        ("node/two", "db", tcp(5432), Deny),
        ("host", "db", tcp(5432), Deny),
        ("db", "node/one", tcp(22), Deny),
        ("web", "node/two", tcp(22), Allow),
        // `cache` is isolated for ingress: its own node's answers arrive as the node's.
        ("cache", "node/two", tcp(22), Allow),
        ("cache", "node/two", udp(53), Allow),
        ("cache", "host", tcp(80), Allow),
        ("cache", "node/one", tcp(22), Allow),
    ]
}

#[test]
fn every_kind_of_question_is_proved_by_the_program() {
    if datapath("every_kind_of_question_is_proved_by_the_program", &LoadOptions::LAB).is_none() {
        return;
    }
    for (from, to, service, verdict) in questions() {
        let proofs = proved(Datapath::Tc, from, to, service, verdict);
        for proof in proofs {
            assert_eq!(proof.witnesses.len(), 4, "{proof:#?}");
            let entry = proof.entry.as_ref().expect("a hook on the way");
            assert!(proof.counters.iter().any(|delta| delta.entry == entry.id), "{proof:#?}");
            assert!(!entry.value_hex.is_empty(), "{proof:#?}");
        }
    }
}

#[test]
fn the_same_questions_are_proved_by_nftables() {
    if datapath("the_same_questions_are_proved_by_nftables", &LoadOptions::LAB).is_none() {
        return;
    }
    for (from, to, service, verdict) in questions() {
        proved(Datapath::Nft, from, to, service, verdict);
    }
}

#[test]
fn a_proof_without_a_kernel_is_inconclusive_and_says_what_it_predicts() {
    let proven =
        prove(&world(), &query("web", "db", tcp(5432)), Datapath::None).expect("no kernel is needed");
    for proof in &proven.proofs {
        assert_eq!(
            (proof.outcome, proof.predicted, proof.observed),
            (ProofOutcome::Inconclusive, Deny.into(), None)
        );
        assert_eq!(proof.near_misses[0].reason, "wants app=api; shop/web has app=web");
    }
}

#[test]
fn what_cannot_be_sent_is_said() {
    for (from, to, why) in [
        ("web", "job", "shop/job has finished: nothing is sent or received there"),
        ("job", "db", "shop/job has finished: nothing is sent or received there"),
        ("198.51.100.7", "2001:db8::1", "198.51.100.7 and 2001:db8::1 have no address family in common"),
        ("new", "db", "shop/new has no IP address in the input"),
    ] {
        let error = prove(&world(), &query(from, to, tcp(80)), Datapath::None).expect_err("nothing to send");
        assert_eq!(error.to_string(), format!("nothing to prove: {why}"));
    }
}

fn maps<'a>(node: &'a Written<'_>) -> &'a PolicyMaps {
    match node {
        Written::Tc(backend) => backend.datapath().policy(),
        Written::Nft(..) => panic!("tc was asked for"),
    }
}

/// Writes the row of a proof's deciding entry anew.
fn rewrite(maps: &PolicyMaps, change: impl Fn(PolicyKey, PolicyValue) -> Option<(PolicyKey, PolicyValue)>) {
    for (key, value) in maps.policy.entries().expect("readable") {
        if let Some((key, value)) = change(key, value) {
            maps.policy.set(&key, &value).expect("writable");
        }
    }
}

#[test]
fn a_map_that_was_changed_behind_our_back_is_a_contradiction() {
    if datapath("a_map_that_was_changed_behind_our_back_is_a_contradiction", &LoadOptions::LAB).is_none() {
        return;
    }
    let loaded = world();
    let honest = prove(&loaded, &query("web", "db", tcp(5432)), Datapath::Tc).expect("provable");
    let denying = honest.proofs[0].entry.as_ref().expect("an entry").id;
    let lie = |key: PolicyKey, value: PolicyValue| {
        (value.entry == denying).then_some((key, PolicyValue { verdict: PolicyValue::ALLOW, ..value }))
    };
    let proven = prove_with(&loaded, &query("web", "db", tcp(5432)), Datapath::Tc, &mut |node| {
        rewrite(maps(&node), lie);
    })
    .expect("provable");
    let proof = &proven.proofs[0];
    assert_eq!(proof.outcome, ProofOutcome::Contradicted);
    assert_eq!((proof.predicted, proof.observed), (Deny.into(), Some(Allow)));
    assert!(proof.differences.iter().any(|line| line.contains("the kernel holds allow")), "{proof:#?}");
}

#[test]
fn a_missing_row_drops_and_contradicts() {
    if datapath("a_missing_row_drops_and_contradicts", &LoadOptions::LAB).is_none() {
        return;
    }
    let loaded = world();
    let mut remove = |node: Written<'_>| {
        let maps = maps(&node);
        for key in maps.policy.keys().expect("readable") {
            if key.ruleset != PolicyKey::FIXED {
                maps.policy.remove(&key).expect("removable");
            }
        }
    };
    let proven =
        prove_with(&loaded, &query("api", "db", tcp(5432)), Datapath::Tc, &mut remove).expect("provable");
    let proof = &proven.proofs[0];
    assert_eq!((proof.outcome, proof.observed), (ProofOutcome::Contradicted, Some(Deny)));
    assert!(proof.counters.iter().any(|delta| delta.entry == Reason::NoEntry.entry()), "{proof:#?}");
}

/// Web may reach db on 80 by one policy and not by another, and nothing orders them; web's port 81 is denied by db's
/// side for sure.
const TIE: &str = r"
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: opens}
spec:
  tier: Admin
  priority: 5
  subject: {namespaces: {}}
  egress: [{action: Accept, to: [{namespaces: {}}]}]
  ingress: [{action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}]
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: closes}
spec:
  tier: Admin
  priority: 5
  subject: {pods: {podSelector: {matchLabels: {app: web}}}}
  egress: [{action: Deny, to: [{namespaces: {}}]}]
";

#[test]
fn a_tie_is_shown_in_the_kernel_and_not_proved() {
    if datapath("a_tie_is_shown_in_the_kernel_and_not_proved", &LoadOptions::LAB).is_none() {
        return;
    }
    let text = format!("{WORLD}{TIE}");
    let loaded = load([Document { name: "world.yaml".into(), text: text.into() }], &Budget::default());
    assert!(loaded.is_complete(), "{:?}", loaded.diagnostics);
    let why = "tie between ClusterNetworkPolicy closes and ClusterNetworkPolicy opens";
    for datapath in [Datapath::Tc, Datapath::Nft] {
        let proven = prove(&loaded, &query("web", "db", tcp(80)), datapath).expect("provable");
        for proof in &proven.proofs {
            assert_eq!(proof.outcome, ProofOutcome::Inconclusive, "{proof:#?}");
            assert_eq!((proof.predicted, proof.observed), (Outcome::Undefined, Some(Deny)));
            assert_eq!(proof.undefined.as_deref(), Some(why));
            assert_eq!(proof.hops[0].side.tied_rules().len(), 2);
        }
        // What the other side denies for sure is denied, whoever comes first here.
        let proven = prove(&loaded, &query("web", "db", tcp(81)), datapath).expect("provable");
        for proof in &proven.proofs {
            assert_eq!((proof.outcome, proof.predicted), (ProofOutcome::Proved, Outcome::Deny), "{proof:#?}");
        }
    }
}

/// Policies of the Admin tier with a port of its own for each of many peers, both ways: each peer is a class, and so is
/// each port.
fn many_tiers(peers: usize) -> String {
    let mut text = String::new();
    for peer in 0..peers {
        text += &format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: peer-{peer}, namespace: shop, labels: {{peer: '{peer}'}}}}\n\
             spec: {{nodeName: two, containers: [{{name: c}}]}}\nstatus: {{podIP: 10.1.2.{}}}\n",
            peer + 1
        );
    }
    for (policy, peers) in (0..peers).collect::<Vec<_>>().chunks(25).enumerate() {
        let rules = |direction: &str, side: &str| {
            let rule = |peer: &usize| {
                format!(
                    "  - {{action: Deny, {side}: [{{pods: {{podSelector: {{matchLabels: {{peer: '{peer}'}}}}}}}}], \
                     protocols: [{{tcp: {{destinationPort: {{number: {}}}}}}}]}}\n",
                    1000 + peer
                )
            };
            format!("  {direction}:\n{}", peers.iter().map(rule).collect::<String>())
        };
        text += &format!(
            "---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {{name: p{policy}}}\n\
             spec:\n  tier: Admin\n  priority: {policy}\n  subject: {{pods: {{podSelector: {{matchLabels: {{app: web}}}}}}}}\n{}{}",
            rules("ingress", "from"),
            rules("egress", "to")
        );
    }
    text
}

#[test]
fn tables_larger_than_a_labs_maps_get_larger_maps() {
    if datapath("tables_larger_than_a_labs_maps_get_larger_maps", &LoadOptions::LAB).is_none() {
        return;
    }
    let text = format!("{WORLD}{}", many_tiers(120));
    let loaded = load([Document { name: "world.yaml".into(), text: text.into() }], &Budget::default());
    assert!(loaded.is_complete(), "{:?}", loaded.diagnostics);
    for (port, verdict) in [(1007, Deny), (1008, Allow)] {
        let proven = prove(&loaded, &query("web", "peer-7", tcp(port)), Datapath::Tc).expect("provable");
        assert!(proven.rulesets.size().rows > MapSizes::LAB.policy as usize, "{:?}", proven.rulesets.size());
        for proof in &proven.proofs {
            assert_eq!((proof.outcome, proof.observed), (ProofOutcome::Proved, Some(verdict)), "{port}");
        }
    }
}
