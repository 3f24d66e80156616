//! The agreement test would see a fault: the same comparison over policies into which one was put on purpose.
//!
//! A fault is put into what the compiler reads, never into what the oracle reads; each kind is one that a compiler
//! or a reader could really have.

use fastrand::Rng;
use netlab_core::model::address::AddressBlock;
use netlab_core::model::cluster::Cluster;
use netlab_core::model::policy::{Action, NamespaceScope, PeerMatch, Policies, PolicyTier, Port, Rule};
use netlab_core::model::port::{PortMatch, PortRange, Protocol};
use netlab_core::model::selector::{Operator, Requirement, Selector};
use netlab_core::testing::generate::questions::questions;
use netlab_core::testing::generate::world;

use crate::sides::{Sides, Way};

/// Worlds that may be tried for a fault, and questions for each.
const WORLDS: usize = 150;
const QUESTIONS: usize = 20;

type Fault = fn(&mut Cluster, &mut Policies);

const FAULTS: [(&str, Fault); 27] = [
    ("peers of one rule ANDed away to the first", |_, policies| {
        peers(policies, |peers| peers.truncate(1));
    }),
    ("a namespace selector ignored", |_, policies| {
        matches(policies, |peer| {
            if let PeerMatch::Pods(pods) = peer
                && let NamespaceScope::Matching(selector) = &mut pods.namespaces
            {
                *selector = Selector::default();
            }
        });
    }),
    ("a pod selector ignored", |_, policies| {
        matches(policies, |peer| {
            if let PeerMatch::Pods(pods) = peer {
                pods.pods = Selector::default();
            }
        });
    }),
    ("NotIn wants the key", |_, policies| {
        matches(policies, |peer| {
            if let PeerMatch::Pods(pods) = peer {
                let wanted = pods.pods.requirements().iter().flat_map(|requirement| {
                    let present = Requirement { key: requirement.key.clone(), operator: Operator::Exists };
                    let also = matches!(requirement.operator, Operator::NotIn(_)).then_some(present);
                    [requirement.clone()].into_iter().chain(also)
                });
                pods.pods = Selector::new(wanted);
            }
        });
    }),
    ("except ignored", |_, policies| blocks(policies, |block| block.except.clear())),
    ("only the first except", |_, policies| blocks(policies, |block| block.except.truncate(1))),
    ("a prefix one bit too short", |_, policies| {
        blocks(policies, |block| {
            let shorter = block.cidr.supernet().unwrap_or(block.cidr);
            block.cidr = shorter;
        });
    }),
    ("blocks match no pods", |cluster, policies| {
        let addresses: Vec<_> = cluster.pods.values().flat_map(|pod| pod.addresses.clone()).collect();
        blocks(policies, |block| {
            let inside = addresses.iter().filter(|address| block.cidr.contains(*address));
            block.except.extend(inside.map(|address| ipnet::IpNet::from(*address)));
        });
    }),
    ("endPort left out", |_, policies| {
        ports(policies, |port| {
            if let PortMatch::Range { range, .. } = port
                && *range != PortRange::ALL
            {
                range.end = range.start;
            }
        });
    }),
    ("endPort not included", |_, policies| {
        ports(policies, |port| {
            if let PortMatch::Range { range, .. } = port
                && range.end > range.start
            {
                range.end -= 1;
            }
        });
    }),
    ("SCTP taken for TCP", |_, policies| {
        ports(policies, |port| {
            let (PortMatch::Range { protocol, .. } | PortMatch::Named { protocol, .. }) = port;
            if *protocol == Protocol::Sctp {
                *protocol = Protocol::Tcp;
            }
        });
    }),
    ("a name means its first number alone", |cluster, _| {
        for pod in cluster.pods.values_mut() {
            let mut names = Vec::new();
            pod.ports.retain(|port| {
                let key = (port.name.clone(), port.protocol);
                let first = !names.contains(&key);
                names.push(key);
                first
            });
        }
    }),
    ("hostNetwork pods are peers", |cluster, _| {
        cluster.pods.values_mut().for_each(|pod| pod.host_network = false);
    }),
    ("done pods are peers", |cluster, _| {
        cluster.pods.values_mut().for_each(|pod| pod.terminal = false);
    }),
    ("no isolation without rules", |_, policies| {
        for policy in &mut policies.list {
            for rules in [&mut policy.ingress, &mut policy.egress] {
                if rules.as_ref().is_some_and(Vec::is_empty) {
                    *rules = None;
                }
            }
        }
    }),
    ("Pass taken for Accept", |_, policies| actions(policies, Action::Pass, Action::Accept)),
    ("Pass taken for Deny", |_, policies| actions(policies, Action::Pass, Action::Deny)),
    ("Deny taken for Pass", |_, policies| actions(policies, Action::Deny, Action::Pass)),
    ("rules in the opposite order", |_, policies| {
        for policy in &mut policies.list {
            for rules in [&mut policy.ingress, &mut policy.egress].into_iter().flatten() {
                rules.reverse();
            }
        }
    }),
    ("higher priorities first", |_, policies| {
        priorities(policies, |_, priority| 1000 - priority);
    }),
    ("equal priorities taken by name, without a word", |_, policies| {
        priorities(policies, |index, priority| priority + index);
    }),
    ("the baseline asked first", |_, policies| {
        for policy in policies.list.iter_mut().filter(|policy| policy.tier == PolicyTier::Baseline) {
            policy.tier = PolicyTier::Admin;
        }
    }),
    ("a baseline of the older version behind the newer", |_, policies| {
        for policy in policies.list.iter_mut().filter(|policy| policy.priority.is_none()) {
            policy.priority = (policy.tier != PolicyTier::NetworkPolicy).then_some(1001);
        }
    }),
    ("nodes by address of nobody", |_, policies| {
        matches(policies, |peer| {
            if let PeerMatch::Nodes(selector) = peer {
                let nobody = Requirement { key: "none".to_owned(), operator: Operator::Exists };
                *selector = Selector::new([nobody]);
            }
        });
    }),
    ("node selectors ignored", |_, policies| {
        matches(policies, |peer| {
            if let PeerMatch::Nodes(selector) = peer {
                *selector = Selector::default();
            }
        });
    }),
    ("a name is TCP's", |_, policies| {
        let only_tcp = |port: &Port| !matches!(&port.matches, PortMatch::Named { protocol, .. } if *protocol != Protocol::Tcp);
        for policy in policies.list.iter_mut().filter(|policy| policy.id.kind.is_ordered()) {
            for rule in policy.ingress.iter_mut().chain(&mut policy.egress).flatten() {
                rule.ports.iter_mut().for_each(|ports| ports.retain(only_tcp));
            }
        }
    }),
    ("a peer that is not known fails open", |_, policies| {
        policies.list.iter_mut().for_each(|policy| {
            for rules in [&mut policy.ingress, &mut policy.egress].into_iter().flatten() {
                rules.retain(|rule| !policy.id.kind.is_ordered() || rule.peers.is_some());
            }
        });
    }),
];

fn actions(policies: &mut Policies, wrong: Action, by: Action) {
    for rule in rules(policies).filter(|rule| rule.action == wrong) {
        rule.action = by;
    }
}

fn priorities(policies: &mut Policies, change: impl Fn(u16, u16) -> u16) {
    for (index, policy) in (0..).zip(&mut policies.list) {
        policy.priority = policy.priority.map(|priority| change(index, priority));
    }
}

fn rules(policies: &mut Policies) -> impl Iterator<Item = &mut Rule> {
    policies.list.iter_mut().flat_map(|policy| policy.ingress.iter_mut().chain(&mut policy.egress).flatten())
}

fn peers(policies: &mut Policies, change: impl Fn(&mut Vec<netlab_core::model::policy::Peer>)) {
    rules(policies).filter_map(|rule| rule.peers.as_mut()).for_each(change);
}

fn matches(policies: &mut Policies, change: impl Fn(&mut PeerMatch)) {
    peers(policies, |peers| peers.iter_mut().for_each(|peer| change(&mut peer.matches)));
}

fn blocks(policies: &mut Policies, change: impl Fn(&mut AddressBlock)) {
    matches(policies, |peer| {
        if let PeerMatch::Block(block) = peer {
            change(block);
        }
    });
}

fn ports(policies: &mut Policies, change: impl Fn(&mut PortMatch)) {
    for port in rules(policies).flat_map(|rule| rule.ports.iter_mut().flatten()) {
        change(&mut port.matches);
    }
}

/// How many worlds it took to see the fault.
fn worlds_until_seen(fault: Fault) -> Option<usize> {
    let mut rng = Rng::with_seed(5);
    (1..=WORLDS).find(|_| {
        let objects = world(&mut rng);
        let sound = Sides::of(&objects, Way::Cluster).expect("the world can be loaded");
        let mut loaded = sound.loaded.clone();
        fault(&mut loaded.cluster, &mut loaded.policies);
        let questions = questions(&loaded.wire, QUESTIONS, &mut rng);
        let faulty = Sides::of_loaded(loaded, Way::Cluster).expect("the fault can be compiled");
        questions.iter().any(|question| faulty.disagreement(question).is_some())
    })
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is what a reader of the run wants")]
fn every_kind_of_fault_is_seen() {
    let mut unseen = Vec::new();
    for (name, fault) in FAULTS {
        match worlds_until_seen(fault) {
            Some(worlds) => println!("{name:<45} seen in world {worlds:>3}"),
            None => unseen.push(name),
        }
    }
    assert_eq!(unseen, Vec::<&str>::new());
}
