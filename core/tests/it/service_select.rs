//! Which endpoints a node uses: the decision table, reported cases, and what must hold for all endpoints.

use std::net::SocketAddr;

use fastrand::Rng;
use netlab_core::service::select::{
    Backend, Mode, NodeTopology, Outcome, Reason, Selection, TrafficPolicy, select,
};

/// `ADDRESS[!][?][~] [@NODE] [z=ZONE]… [n=NODE]…`: `!` is not ready, `~` is ending, `?` no longer answers.
fn backend(text: &str) -> Backend {
    let mut words = text.split_whitespace();
    let address = words.next().expect("an address");
    let bare = address.trim_end_matches(['!', '?', '~']);
    let values = |key: &str| -> Vec<String> {
        text.split_whitespace().filter_map(|word| word.strip_prefix(key)).map(str::to_owned).collect()
    };
    Backend {
        address: format!("10.0.0.{bare}:80").parse().expect("an address"),
        ready: !address.contains(['!', '~']),
        serving: !address.contains('?'),
        terminating: address.contains('~'),
        node: values("@").into_iter().next(),
        zone_hints: values("z="),
        node_hints: values("n="),
        pod: None,
    }
}

fn node(zone: Option<&str>) -> NodeTopology {
    NodeTopology { name: "here".to_owned(), zone: zone.map(str::to_owned) }
}

const CLUSTER: TrafficPolicy =
    TrafficPolicy { internal_local: false, external_local: false, external: false };
const INTERNAL_LOCAL: TrafficPolicy = TrafficPolicy { internal_local: true, ..CLUSTER };
const EXTERNAL_LOCAL: TrafficPolicy = TrafficPolicy { external_local: true, external: true, ..CLUSTER };

fn ask(policy: TrafficPolicy, backends: &[&str], zone: Option<&str>) -> Selection {
    let backends: Vec<Backend> = backends.iter().map(|text| backend(text)).collect();
    select(policy, &backends, &node(zone))
}

/// Last numbers of addresses.
fn last(addresses: &[SocketAddr]) -> Vec<u8> {
    addresses
        .iter()
        .map(|address| {
            address.ip().to_string().rsplit('.').next().and_then(|n| n.parse().ok()).expect("a number")
        })
        .collect()
}

#[test]
fn the_decision_table() {
    let z = Some("a");
    for (name, backends, zone, expected, mode) in [
        ("no hints", &["1 @here", "2 @there"][..], z, &[1, 2][..], Mode::All),
        ("hints on some only", &["1 z=a", "2"], z, &[1, 2], Mode::All),
        ("all hinted, none for this zone", &["1 z=b", "2 z=c"], z, &[1, 2], Mode::All),
        ("all hinted, the node has no zone", &["1 z=a", "2 z=b"], None, &[1, 2], Mode::All),
        ("all hinted, some for this zone", &["1 z=a", "2 z=b", "3 z=b z=a"], z, &[1, 3], Mode::Zone),
        ("node hints, some for this node", &["1 n=here", "2 n=there"], z, &[1], Mode::Node),
        ("node hints win", &["1 n=here z=a", "2 n=there z=a"], z, &[1], Mode::Node),
        ("node hints, none here, zone hints", &["1 n=x z=a", "2 n=y z=b"], z, &[1], Mode::Zone),
        ("node hints, none here, no zone hints", &["1 n=x", "2 n=y"], z, &[1, 2], Mode::All),
        ("node hints on some only", &["1 n=here", "2"], z, &[1, 2], Mode::All),
        ("the only one of this zone is not ready", &["1! z=a", "2 z=b"], z, &[2], Mode::All),
        ("one that is not ready has no hint", &["1!", "2 z=a", "3 z=b"], z, &[2], Mode::Zone),
        ("all ending, some still answer", &["1~ z=a", "2~ z=b", "3~?"], z, &[1, 2], Mode::All),
        ("one ready anywhere", &["1~ @here", "2 @there"], z, &[2], Mode::All),
        ("ready though it does not answer", &["1? @here"], z, &[1], Mode::All),
        ("not ready, not ending", &["1! @here"], z, &[], Mode::All),
        ("in the order of their texts", &["9", "10", "100"], z, &[100, 10, 9], Mode::All),
    ] {
        let selection = ask(CLUSTER, backends, zone);
        assert_eq!((last(&selection.cluster).as_slice(), selection.mode), (expected, mode), "{name}");
        assert_eq!(selection.reachable, selection.cluster, "{name}");
        assert_eq!(selection.has_any, !expected.is_empty(), "{name}");
        assert!(selection.local.is_empty(), "{name}");
    }
}

#[test]
fn local_policies() {
    let all = &["1 @here", "2 @there", "3! @here"][..];
    let internal = ask(INTERNAL_LOCAL, all, None);
    assert_eq!(
        (last(&internal.cluster), last(&internal.local), last(&internal.reachable)),
        (vec![], vec![1], vec![1])
    );
    assert_eq!(internal.internal(INTERNAL_LOCAL), Outcome::Spread(&internal.local));

    let outside = ask(EXTERNAL_LOCAL, all, None);
    assert_eq!(
        (last(&outside.cluster), last(&outside.local), last(&outside.reachable)),
        (vec![1, 2], vec![1], vec![1, 2])
    );
    assert_eq!(
        outside.internal(EXTERNAL_LOCAL),
        Outcome::Spread(&outside.cluster),
        "a cluster IP is not external"
    );
    assert_eq!(outside.external(EXTERNAL_LOCAL), Outcome::Spread(&outside.local));
    assert_eq!(outside.short_circuit(), Outcome::Spread(&outside.cluster));

    let both = TrafficPolicy { internal_local: true, ..EXTERNAL_LOCAL };
    assert_eq!(last(&ask(both, all, None).reachable), [1, 2], "a node port may still need all");

    let away = ask(INTERNAL_LOCAL, &["2 @there"], None);
    assert_eq!(
        (away.internal(INTERNAL_LOCAL), away.has_any),
        (Outcome::Dropped, true),
        "dropped, not refused"
    );
    let none = ask(INTERNAL_LOCAL, &["2! @there"], None);
    assert_eq!(none.internal(INTERNAL_LOCAL), Outcome::Refused);
    assert_eq!(ask(CLUSTER, &[], None).internal(CLUSTER), Outcome::Refused);

    let ending = ask(EXTERNAL_LOCAL, &["1~ @here", "2 @there"], None);
    assert_eq!((last(&ending.local), ending.local_terminating), (vec![1], true));
    assert_eq!(last(&ending.reachable), [1, 2], "both are programmed");
    assert_eq!(
        last(&ask(INTERNAL_LOCAL, &["1 z=b @here", "2 @there"], Some("a")).local),
        [1],
        "hints do not narrow it"
    );
    assert_eq!(
        ask(INTERNAL_LOCAL, &["1"], None).internal(INTERNAL_LOCAL),
        Outcome::Dropped,
        "without a node it is not local"
    );
}

#[test]
fn every_way_out_has_its_reason() {
    let z = Some("a");
    let unhinted = "10.0.0.2:80".parse().expect("an address");
    for (backends, zone, expected) in [
        (&[][..], z, Reason::NoEndpoints),
        (&["1!"], z, Reason::NoneUsable),
        (&["1~"], z, Reason::Terminating),
        (&["1"], z, Reason::NoHints),
        (&["1 z=a", "3", "2"], z, Reason::SomeWithoutHint(unhinted)),
        (&["1 z=a"], None, Reason::NodeWithoutZone),
        (&["1 z=b"], z, Reason::NoneForZone("a".to_owned())),
        (&["1 z=a"], z, Reason::Zone("a".to_owned())),
        (&["1 n=here"], z, Reason::Node("here".to_owned())),
        (&["1 n=there", "2 n=there"], z, Reason::NoneForNode("here".to_owned())),
        (&["1 n=here", "3", "2"], z, Reason::SomeWithoutNodeHint(unhinted)),
        (&["1 n=there z=b", "2 n=there z=b"], z, Reason::NoneForZone("a".to_owned())),
    ] {
        assert_eq!(ask(CLUSTER, backends, zone).reason, expected, "{backends:?}");
    }
    assert_eq!(ask(INTERNAL_LOCAL, &["1"], z).reason, Reason::LocalOnly);
}

fn any_backend(rng: &mut Rng, number: u8) -> Backend {
    let names = |rng: &mut Rng, of: &[&str]| -> Vec<String> {
        of.iter().filter(|_| rng.u8(..3) == 0).map(|name| (*name).to_owned()).collect()
    };
    let terminating = rng.u8(..4) == 0;
    Backend {
        address: SocketAddr::from(([10, 0, 0, number], 80)),
        ready: !terminating && rng.u8(..4) > 0,
        serving: rng.u8(..4) > 0,
        terminating,
        node: [None, Some("here"), Some("there")][rng.usize(..3)].map(str::to_owned),
        zone_hints: names(rng, &["a", "b"]),
        node_hints: names(rng, &["here", "there"]),
        pod: None,
    }
}

#[test]
fn what_holds_for_all_endpoints() {
    let mut rng = Rng::with_seed(8);
    let (mut by_zone, mut by_node, mut fallback) = (0, 0, 0);
    for _ in 0..20_000 {
        let mut backends: Vec<Backend> =
            (0..rng.u8(..6)).map(|number| any_backend(&mut rng, number)).collect();
        let policy =
            TrafficPolicy { internal_local: rng.bool(), external_local: rng.bool(), external: rng.bool() };
        let node = node([None, Some("a"), Some("c")][rng.usize(..3)]);
        let selection = select(policy, &backends, &node);
        let ready: Vec<SocketAddr> = backends.iter().filter(|b| b.ready).map(|b| b.address).collect();
        if policy.uses_cluster() && !ready.is_empty() {
            assert!(!selection.cluster.is_empty(), "never empty while one is ready: {backends:?}");
            assert!(selection.cluster.iter().all(|address| ready.contains(address)), "only ready ones");
            if selection.mode == Mode::All {
                assert_eq!(
                    selection.cluster.len(),
                    ready.len(),
                    "unusable hints shrink nothing: {backends:?}"
                );
            }
        }
        by_zone += usize::from(selection.mode == Mode::Zone);
        by_node += usize::from(selection.mode == Mode::Node);
        fallback += usize::from(selection.reason == Reason::Terminating);
        let here = |address: &SocketAddr| {
            backends.iter().any(|b| b.address == *address && b.node.as_deref() == Some("here"))
        };
        assert!(selection.local.iter().all(here));
        let all = selection.cluster.iter().chain(&selection.local);
        assert!(all.clone().all(|address| selection.reachable.contains(address)));
        assert!(selection.reachable.iter().all(|address| all.clone().any(|known| known == address)));
        rng.shuffle(&mut backends);
        assert_eq!(select(policy, &backends, &node), selection, "the order does not matter");
        backends.push(Backend {
            address: SocketAddr::from(([10, 0, 0, 99], 80)),
            ready: true,
            zone_hints: Vec::new(),
            node_hints: Vec::new(),
            ..backend("99")
        });
        let more = select(policy, &backends, &node);
        if policy.uses_cluster() && !ready.is_empty() {
            assert!(
                selection.cluster.iter().all(|known| more.cluster.contains(known)),
                "an endpoint without a hint shrinks nothing"
            );
        }
    }
    assert!(
        by_zone > 200 && by_node > 100 && fallback > 100,
        "{by_zone} {by_node} {fallback}: all ways are gone"
    );
}
