//! What every enforcement backend must do, as one function that its own test suite calls.
//!
//! Invariant: only the contract is used, so the same assertions hold for a backend in this process, one behind
//! its JSON ([`crate::loopback`]) and one of a third party. Packets are each backend's own tests' business.
//! A backend that needs interfaces finds [`INTERFACES`] in the place where it works.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlab_core::model::port::Protocol;
use netlab_core::policy::change::{
    Cell, Change, DirectionTable, Frontend, FrontendTarget, PeerPrefix, PeerRow, PodDevice, PortClass,
    ProtocolRange, RulesetTable, Verdict,
};

use crate::contract::{Applied, Backend, BackendError, Blame, Observation};

/// The host-side interfaces of the pods in [`sample`].
pub const INTERFACES: [&str; 2] = ["netlab-a", "netlab-b"];

/// The entry of [`sample`] that allows TCP port 5432 from `shop/web` to `shop/db`.
pub const ALLOW_ENTRY: u32 = 64;
/// The entry of [`sample`] that denies what nothing allows into `shop/db`.
pub const DENY_ENTRY: u32 = 65;

/// A small valid change: `shop/db` (isolated for ingress, TCP 5432 allowed from `shop/web`) and `shop/web`
/// (isolated in no direction).
pub fn sample(generation: u32) -> Change {
    let allow = Cell { verdict: Verdict::Allow, tier: 2, entry: ALLOW_ENTRY };
    let deny = Cell { verdict: Verdict::Deny, tier: 2, entry: DENY_ENTRY };
    let (web4, web6) = (Ipv4Addr::new(10, 1, 0, 2), Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 2));
    let (db4, db6) = (Ipv4Addr::new(10, 1, 0, 3), Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 3));
    let prefix = |address: IpAddr, length, class| PeerPrefix { address, length, class };
    let range = |protocol, start, end| ProtocolRange { protocol, start, end };
    Change {
        generation,
        rulesets: vec![
            RulesetTable { id: 1, ingress: None, egress: None },
            RulesetTable {
                id: 2,
                ingress: Some(DirectionTable {
                    port_classes: vec![
                        PortClass { class: 0, ranges: vec![] },
                        PortClass { class: 1, ranges: vec![] },
                        PortClass {
                            class: 2,
                            ranges: vec![
                                range(Protocol::Tcp, 0, 5431),
                                range(Protocol::Tcp, 5433, u16::MAX),
                                range(Protocol::Udp, 0, u16::MAX),
                                range(Protocol::Sctp, 0, u16::MAX),
                            ],
                        },
                        PortClass { class: 3, ranges: vec![range(Protocol::Tcp, 5432, 5432)] },
                    ],
                    rows: vec![
                        PeerRow { peer_classes: vec![1, 3], cells: vec![deny; 4] },
                        PeerRow { peer_classes: vec![2], cells: vec![deny, deny, deny, allow] },
                    ],
                }),
                egress: None,
            },
        ],
        peers: vec![
            prefix(Ipv4Addr::UNSPECIFIED.into(), 0, 1),
            prefix(web4.into(), 32, 2),
            prefix(db4.into(), 32, 3),
            prefix(Ipv6Addr::UNSPECIFIED.into(), 0, 1),
            prefix(web6.into(), 128, 2),
            prefix(db6.into(), 128, 3),
        ],
        pods: vec![
            PodDevice {
                namespace: "shop".to_owned(),
                name: "db".to_owned(),
                id: 11,
                interface: INTERFACES[1].to_owned(),
                addresses: vec![db4.into(), db6.into()],
                ruleset: 2,
                any_source: false,
            },
            PodDevice {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                id: 10,
                interface: INTERFACES[0].to_owned(),
                addresses: vec![web4.into(), web6.into()],
                ruleset: 1,
                any_source: false,
            },
        ],
        services: vec![Frontend {
            address: Ipv4Addr::new(10, 96, 0, 1).into(),
            port: 80,
            protocol: Protocol::Tcp,
            service: "shop/db:sql".to_owned(),
            targets: vec![FrontendTarget { peer_class: 3, port: 5432, endpoints: vec![db4.into()] }],
            deferrable: true,
        }],
        wires: Vec::new(),
    }
}

/// Makes `shop/db`'s table say deny on port 5432 too, under a ruleset number of its own.
pub fn stricter(generation: u32) -> Change {
    let mut change = sample(generation);
    for ruleset in change.rulesets.iter_mut().filter(|ruleset| ruleset.id == 2) {
        ruleset.id = 3;
        for row in ruleset.ingress.iter_mut().flat_map(|table| table.rows.iter_mut()) {
            row.cells.fill(Cell { verdict: Verdict::Deny, tier: 2, entry: 66 });
        }
    }
    for pod in change.pods.iter_mut().filter(|pod| pod.ruleset == 2) {
        pod.ruleset = 3;
    }
    change
}

/// Runs every contract test. `make` gives a backend where nothing is in force; it is called once per test, after
/// the former backend was torn down.
///
/// # Panics
/// When the backend breaks the contract.
pub fn run(make: &mut dyn FnMut() -> Box<dyn Backend>) {
    for test in [
        probe_names_itself,
        a_new_backend_has_nothing_in_force,
        a_change_is_observed_without_drift,
        the_same_change_twice_is_one,
        a_newer_change_replaces_the_older,
        an_older_generation_is_refused,
        a_generation_has_one_content,
        a_ruleset_number_keeps_its_content,
        a_pod_number_is_not_given_away,
        invalid_changes_are_refused_whole,
        pods_come_and_go,
        teardown_leaves_nothing,
    ] {
        let mut backend = make();
        test(backend.as_mut());
        let leftovers = backend.teardown();
        assert!(leftovers.is_empty(), "teardown after a contract test left {leftovers:?}");
    }
}

type Outcome = Result<Applied, BackendError>;

#[track_caller]
fn assert_applied(outcome: Outcome, generation: u32) -> Applied {
    match outcome {
        Ok(applied) => {
            assert_eq!(applied.generation, generation, "applied another generation");
            applied
        }
        Err(error) => panic!("a valid change was refused: {error} ({error:?})"),
    }
}

#[track_caller]
fn assert_refused(outcome: Outcome, about: &str) -> BackendError {
    match outcome {
        Ok(applied) => panic!("{about}: was applied: {applied:?}"),
        Err(error) => {
            assert!(!error.message.is_empty(), "{about}: an error must say something");
            error
        }
    }
}

#[track_caller]
fn observed(backend: &mut dyn Backend) -> Observation {
    match backend.observe() {
        Ok(observation) => observation,
        Err(error) => panic!("cannot observe: {error}"),
    }
}

/// What is in force is exactly `generation`, as applied.
#[track_caller]
fn assert_in_force(backend: &mut dyn Backend, generation: u32) {
    let observation = observed(backend);
    assert_eq!(observation.generation, generation, "another generation is in force");
    assert!(observation.drift.is_empty(), "drift: {:?}", observation.drift);
}

fn probe_names_itself(backend: &mut dyn Backend) {
    let capabilities = backend.probe();
    assert!(!capabilities.name.is_empty());
    assert!(
        capabilities.missing.is_empty(),
        "{} cannot work here: {:?}",
        capabilities.name,
        capabilities.missing
    );
    assert_eq!(observed(backend).generation, 0, "a probe must not change anything");
}

fn a_new_backend_has_nothing_in_force(backend: &mut dyn Backend) {
    assert_eq!(observed(backend), Observation::default());
}

fn a_change_is_observed_without_drift(backend: &mut dyn Backend) {
    let applied = assert_applied(backend.apply(&sample(5)), 5);
    assert_eq!(applied.pods, 2);
    // shop/db ingress: three peer classes of four cells; its egress and both directions of shop/web: one each.
    assert_eq!(applied.rows, 15);
    assert_in_force(backend, 5);
    let counted = observed(backend).counters;
    for entry in [ALLOW_ENTRY, DENY_ENTRY] {
        assert_eq!(
            counted.get(&entry).copied().unwrap_or(0),
            0,
            "entry {entry} counted a packet nobody sent"
        );
    }
}

fn the_same_change_twice_is_one(backend: &mut dyn Backend) {
    let first = assert_applied(backend.apply(&sample(5)), 5);
    let second = assert_applied(backend.apply(&sample(5)), 5);
    assert_eq!(first, second);
    assert_in_force(backend, 5);
}

fn a_newer_change_replaces_the_older(backend: &mut dyn Backend) {
    assert_applied(backend.apply(&sample(5)), 5);
    assert_applied(backend.apply(&stricter(6)), 6);
    assert_in_force(backend, 6);
    assert_applied(backend.apply(&sample(9)), 9);
    assert_in_force(backend, 9);
}

fn an_older_generation_is_refused(backend: &mut dyn Backend) {
    assert_applied(backend.apply(&sample(5)), 5);
    let error = assert_refused(backend.apply(&stricter(4)), "an older generation");
    assert_eq!(error.blame, Blame::Input);
    assert!(error.message.contains('4') && error.message.contains('5'), "names both: {error}");
    assert_in_force(backend, 5);
}

fn a_generation_has_one_content(backend: &mut dyn Backend) {
    assert_applied(backend.apply(&sample(5)), 5);
    assert_refused(backend.apply(&stricter(5)), "the same generation with other contents");
    assert_in_force(backend, 5);
}

fn a_ruleset_number_keeps_its_content(backend: &mut dyn Backend) {
    assert_applied(backend.apply(&sample(5)), 5);
    let mut change = stricter(6);
    change.rulesets[1].id = 2;
    change.pods[0].ruleset = 2;
    let error = assert_refused(backend.apply(&change), "other verdicts under a ruleset's number");
    assert!(error.message.contains("ruleset 2"), "names the ruleset: {error}");
    assert_in_force(backend, 5);
}

fn a_pod_number_is_not_given_away(backend: &mut dyn Backend) {
    assert_applied(backend.apply(&sample(5)), 5);
    let mut change = sample(6);
    change.pods[1].name = String::from("worker");
    let error = assert_refused(backend.apply(&change), "a pod's number under another name");
    assert!(error.message.contains("shop/worker"), "names the pod: {error}");
    assert_in_force(backend, 5);
}

/// Each way to break the contract's tables, from nothing and over a state in force.
fn invalid_changes_are_refused_whole(backend: &mut dyn Backend) {
    for (about, broken) in invalid_changes(1) {
        let error = assert_refused(backend.apply(&broken), about);
        assert_eq!(error.blame, Blame::Input, "{about}");
    }
    assert_eq!(observed(backend), Observation::default(), "a refused first change left something");
    assert_applied(backend.apply(&sample(5)), 5);
    for (about, broken) in invalid_changes(6) {
        assert_refused(backend.apply(&broken), about);
    }
    assert_in_force(backend, 5);
}

fn pods_come_and_go(backend: &mut dyn Backend) {
    let mut one = sample(5);
    one.pods.truncate(1);
    assert_eq!(assert_applied(backend.apply(&one), 5).pods, 1);
    assert_in_force(backend, 5);
    assert_eq!(assert_applied(backend.apply(&sample(6)), 6).pods, 2);
    assert_in_force(backend, 6);
    let mut none = sample(7);
    none.pods.clear();
    none.rulesets.clear();
    assert_eq!(assert_applied(backend.apply(&none), 7).pods, 0);
    assert_in_force(backend, 7);
}

fn teardown_leaves_nothing(backend: &mut dyn Backend) {
    assert!(backend.teardown().is_empty(), "tearing down nothing left something");
    assert_applied(backend.apply(&sample(5)), 5);
    assert!(backend.teardown().is_empty());
    assert_eq!(observed(backend), Observation::default(), "teardown left something in force");
    assert!(backend.teardown().is_empty(), "a second teardown must be harmless");
    // Nothing is in force, so an older generation is as good as any.
    assert_applied(backend.apply(&sample(3)), 3);
    assert_in_force(backend, 3);
}

/// Changes that break one promise each, with its name.
pub fn invalid_changes(generation: u32) -> Vec<(&'static str, Change)> {
    type Break = fn(&mut Change);
    let breaks: [(&'static str, Break); 21] = [
        ("generation zero", |change| change.generation = 0),
        ("a pod without its ruleset", |change| change.pods[0].ruleset = 77),
        ("two pods with one id", |change| change.pods[0].id = change.pods[1].id),
        ("a pod with id zero", |change| change.pods[0].id = 0),
        ("two pods behind one interface", |change| {
            change.pods[0].interface = String::from(INTERFACES[0]);
        }),
        ("an interface name that does not fit", |change| change.pods[0].interface = "a".repeat(16)),
        ("an interface name with a quote", |change| change.pods[0].interface = String::from("a\" drop")),
        ("two pods with one address", |change| change.pods[0].addresses = change.pods[1].addresses.clone()),
        ("pods out of order", |change| change.pods.swap(0, 1)),
        ("rulesets out of order", |change| change.rulesets.swap(0, 1)),
        ("ruleset zero", |change| {
            change.rulesets[0].id = 0;
            change.pods[1].ruleset = 0;
        }),
        ("no root prefix", |change| {
            change.peers.remove(0);
        }),
        ("host bits in a prefix", |change| change.peers[1].length = 24),
        ("peer class zero", |change| change.peers[0].class = 0),
        ("a peer class without a row", |change| change.peers[0].class = 9),
        ("a peer class in two rows", |change| table(change).rows[0].peer_classes = vec![1, 2, 3]),
        ("a row too short", |change| {
            table(change).rows[0].cells.pop();
        }),
        ("a port in no class", |change| table(change).port_classes[3].ranges[0].start = 5433),
        ("a port in two classes", |change| table(change).port_classes[3].ranges[0].start = 5431),
        ("a built-in entry in a row", |change| table(change).rows[0].cells[0].entry = 3),
        ("an entry with two verdicts", |change| table(change).rows[0].cells[0].entry = ALLOW_ENTRY),
    ];
    breaks
        .into_iter()
        .map(|(about, break_it)| {
            let mut change = sample(generation);
            break_it(&mut change);
            (about, change)
        })
        .collect()
}

fn table(change: &mut Change) -> &mut DirectionTable {
    change.rulesets[1].ingress.get_or_insert_with(|| DirectionTable { port_classes: vec![], rows: vec![] })
}

#[cfg(test)]
mod tests {
    use super::{invalid_changes, sample, stricter};
    use crate::validate::validate;

    #[test]
    fn the_samples_are_valid_and_each_break_is_found() {
        assert_eq!(validate(&sample(1)), []);
        assert_eq!(validate(&stricter(1)), []);
        for (about, change) in invalid_changes(1) {
            assert_ne!(validate(&change), [], "{about}");
        }
    }
}
