//! Packets to Services: judged as the endpoints to which they may lead, here or where it is known which one it is.

use netlab_ebpf::abi::Direction::{Egress, Ingress};
use netlab_ebpf::abi::{
    PolicyKey, PolicyValue, ServiceKey, ServiceTarget, ServiceTargets, ServiceValue, Word, mapped,
};
use netlab_ebpf::judge::{Hook, Judgement, judge_deferred};
use netlab_ebpf::reason::Reason;

use super::tables::{
    DENIED, EGRESS_80, FRIEND, Host, OTHER_INTERFACE, POD, POD_INTERFACE, STRANGER, fragment, ipv4, tcp, udp,
};

const SERVICE: [u8; 4] = [10, 96, 0, 1];
const SYN: u8 = 2;
const ACK: u8 = 16;
const SYN_ACK: u8 = 18;
/// The classes of [`FRIEND`] and of everybody else.
const GOOD: u32 = 2;
const BAD: u32 = 3;

fn targets(list: &[(u32, u16)], deferrable: bool) -> ServiceTargets {
    let mut targets = ServiceTargets {
        count: u8::try_from(list.len()).expect("few"),
        flags: if deferrable { ServiceTargets::DEFERRABLE } else { 0 },
        ..ServiceTargets::default()
    };
    for (place, (peer_class, port)) in targets.list.iter_mut().zip(list) {
        *place = ServiceTarget { peer_class: *peer_class, port: *port, zero: 0 };
    }
    targets
}

/// TCP 8000 of the Service, and what is behind it.
fn serving(value: ServiceValue) -> Host {
    let mut host = Host::new();
    let key = ServiceKey { address: mapped(SERVICE), port: 8000, protocol: 6, zero: 0 };
    host.services.insert(key, ServiceValue { echo: key.echo(), ..value });
    host
}

fn leading(list: &[(u32, u16)], deferrable: bool) -> Host {
    serving(ServiceValue { targets: targets(list, deferrable), ..ServiceValue::default() })
}

fn to_service(source: u16, flags: u8) -> Vec<u8> {
    ipv4(POD, SERVICE, 6, &tcp(source, 8000, flags))
}

fn at_endpoint(host: &Host, ingress_ifindex: u32, frame: &[u8]) -> Judgement {
    let hook =
        Hook { direction: Egress, ifindex: OTHER_INTERFACE, ingress_ifindex, socket: false, vlan: false };
    judge_deferred(&frame, hook, host)
}

fn said(judgement: &Judgement) -> (bool, u32, Reason) {
    (judgement.allow, judgement.entry, judgement.reason)
}

#[test]
fn a_service_is_judged_as_its_endpoints_and_by_their_ports() {
    for (list, allow, entry) in [
        (&[(GOOD, 80)][..], true, EGRESS_80),
        (&[(GOOD, 81)], false, DENIED),
        (&[(BAD, 80)], false, DENIED),
        (&[(BAD, 80), (GOOD, 81), (BAD, 5432)], false, DENIED),
    ] {
        let host = leading(list, false);
        assert_eq!(said(&host.judge(Egress, &to_service(1, SYN))), (allow, entry, Reason::Row), "{list:?}");
        let reply = host.judge(Ingress, &ipv4(SERVICE, POD, 6, &tcp(8000, 1, SYN_ACK)));
        assert_eq!(reply.allow, allow, "the answer comes from where the pod asked: {list:?}");
    }
}

#[test]
fn what_is_not_translated_is_an_ordinary_address() {
    let host = leading(&[(GOOD, 80)], true);
    for frame in [
        ipv4(POD, SERVICE, 6, &tcp(1, 8001, SYN)),
        ipv4(POD, SERVICE, 17, &udp(1, 8000)),
        ipv4(POD, SERVICE, 1, &[8, 0, 0, 0, 0, 1, 0, 1]),
    ] {
        assert_eq!(said(&host.judge(Egress, &frame)), (false, DENIED, Reason::Row));
    }
    assert!(!host.judge(Ingress, &ipv4(SERVICE, POD, 6, &tcp(8000, 5432, SYN))).allow, "nobody is a Service");
}

#[test]
fn endpoints_that_differ_are_judged_where_they_are_known() {
    let host = leading(&[(GOOD, 80), (BAD, 80)], true);
    let opening = host.judge(Egress, &to_service(1, SYN));
    assert_eq!(said(&opening), (true, Reason::Deferred.entry(), Reason::Deferred));
    assert!(opening.deferred());
    // The endpoint and the port are those of the packet now, and each packet is judged by itself.
    for (endpoint, port, allow, entry) in
        [(FRIEND, 80, true, EGRESS_80), (FRIEND, 81, false, DENIED), (STRANGER, 80, false, DENIED)]
    {
        for flags in [SYN, ACK] {
            let frame = ipv4(POD, endpoint, 6, &tcp(1, port, flags));
            let judgement = at_endpoint(&host, POD_INTERFACE, &frame);
            assert_eq!((said(&judgement), judgement.pod), ((allow, entry, Reason::Row), host.device.pod));
        }
        // Also when the node has put its own address in the place of the pod's.
        let masqueraded = ipv4([192, 0, 2, 1], endpoint, 6, &tcp(1, port, SYN));
        assert_eq!(at_endpoint(&host, POD_INTERFACE, &masqueraded).allow, allow);
    }
    assert!(host.judge(Ingress, &ipv4(SERVICE, POD, 6, &tcp(8000, 1, SYN_ACK))).allow, "its answer");
    let next = host.judge(Egress, &to_service(1, ACK));
    assert_eq!(
        (next.reason, next.deferred()),
        (Reason::Flow, true),
        "the rest of the flow is judged there too"
    );
    let other = host.judge(Egress, &ipv4(POD, FRIEND, 6, &tcp(1, 80, SYN)));
    assert!(other.allow && !other.deferred(), "what goes to the endpoint directly is decided at once");
}

#[test]
fn endpoints_that_differ_are_denied_where_they_are_never_known() {
    for host in [
        leading(&[(GOOD, 80), (BAD, 80)], false),
        serving(ServiceValue {
            targets: ServiceTargets { count: ServiceTargets::TOO_MANY, ..targets(&[], false) },
            ..ServiceValue::default()
        }),
    ] {
        let judgement = host.judge(Egress, &to_service(1, SYN));
        assert_eq!(said(&judgement), (false, Reason::ServiceMixed.entry(), Reason::ServiceMixed));
        assert!(host.flows.borrow().is_empty());
    }
}

/// During a change each pod goes by the endpoints of its own generation, so by no mix of two changes.
#[test]
fn a_pod_goes_by_the_endpoints_of_its_own_generation() {
    let (good, bad) = (targets(&[(GOOD, 80)], true), targets(&[(BAD, 80)], true));
    for (former, next, verdicts) in [
        (good, bad, [true, false]),
        (bad, good, [false, true]),
        // It appears, and it goes.
        (ServiceTargets::default(), good, [false, true]),
        (good, ServiceTargets::default(), [true, false]),
    ] {
        for (generation, allow) in [(1, verdicts[0]), (2, verdicts[1]), (3, verdicts[1])] {
            let mut host =
                serving(ServiceValue { targets: next, former, since: 2, ..ServiceValue::default() });
            host.generation(generation);
            assert_eq!(
                host.judge(Egress, &to_service(1, SYN)).allow,
                allow,
                "{former:?} {next:?} {generation}"
            );
        }
    }
}

#[test]
fn a_flow_to_a_service_is_judged_again_by_the_endpoints_of_the_new_generation() {
    let mut host = serving(ServiceValue {
        targets: targets(&[(BAD, 80)], true),
        former: targets(&[(GOOD, 80)], true),
        since: 2,
        ..ServiceValue::default()
    });
    assert!(host.judge(Egress, &to_service(1, SYN)).allow);
    assert!(host.judge(Egress, &to_service(1, ACK)).allow);
    host.generation(2);
    let answer = ipv4(SERVICE, POD, 6, &tcp(8000, 1, ACK));
    assert_eq!(said(&host.judge(Ingress, &answer)), (false, DENIED, Reason::Row), "from either side");
    assert!(!host.judge(Egress, &to_service(1, ACK)).allow);
}

#[test]
fn what_the_tables_lack_behind_a_service_is_dropped() {
    // A class without rows, alone and behind one that has them; an element that was recycled under the reader.
    for host in [leading(&[(9, 80)], true), leading(&[(GOOD, 80), (9, 80)], true)] {
        assert_eq!(host.judge(Egress, &to_service(1, SYN)).reason, Reason::NoEntry);
    }
    let mut host = leading(&[(GOOD, 80)], true);
    host.services.values_mut().for_each(|value| value.echo ^= 1);
    assert_eq!(host.judge(Egress, &to_service(1, SYN)).reason, Reason::NoEntry);
}

#[test]
fn a_deferred_packet_of_nobody_is_dropped() {
    let host = leading(&[(GOOD, 80)], true);
    let frame = ipv4(POD, FRIEND, 6, &tcp(1, 80, SYN));
    assert_eq!(at_endpoint(&host, OTHER_INTERFACE, &frame).reason, Reason::DeferredUnknown);
    let mut host = host;
    host.device.word = Word::new(1, true, false, 1);
    assert!(at_endpoint(&host, POD_INTERFACE, &frame).allow, "of a pod that may send anything");
}

#[test]
fn the_rest_of_a_deferred_datagram_follows_its_first_fragment() {
    let host = leading(&[(GOOD, 80)], true);
    let first = |peer| fragment(POD, peer, 6, 0x2000, &tcp(1, 80, SYN));
    let later = |peer| fragment(POD, peer, 6, 5, &[0; 24]);
    assert_eq!(at_endpoint(&host, POD_INTERFACE, &later(FRIEND)).reason, Reason::FragmentUnknown);
    assert!(at_endpoint(&host, POD_INTERFACE, &first(FRIEND)).allow);
    assert_eq!(at_endpoint(&host, POD_INTERFACE, &later(FRIEND)).reason, Reason::Fragment);
    assert!(!at_endpoint(&host, POD_INTERFACE, &first(STRANGER)).allow);
    assert!(!at_endpoint(&host, POD_INTERFACE, &later(STRANGER)).allow);
    assert!(!host.judge(Egress, &later(FRIEND)).allow, "it says nothing of the other hook");
}

/// The node puts its own address in place of the pod's, or the pod would answer itself directly.
#[test]
fn what_a_pod_sends_to_itself_through_a_service_is_judged_by_its_own_class() {
    let node = [192, 0, 2, 1];
    let opening = ipv4(node, POD, 6, &tcp(7, 5432, SYN));
    let mut host = Host::new();
    assert!(!host.judge_from(Ingress, &opening, POD_INTERFACE, false).allow, "nobody admits the pod");
    assert!(!host.judge(Ingress, &opening).allow, "nor the node");
    host.peers.insert(
        mapped(POD),
        netlab_ebpf::abi::PeerValue { class: GOOD, echo: netlab_ebpf::abi::echo_address(&mapped(POD)) },
    );
    assert!(host.judge_from(Ingress, &opening, POD_INTERFACE, false).allow);
    assert!(!host.judge(Ingress, &opening).allow, "the same packet from somewhere else");
    // Judged again as what it is, also when the pod speaks next.
    host.generation(2);
    let answer = ipv4(POD, node, 6, &tcp(5432, 7, SYN_ACK));
    assert!(host.judge_from(Egress, &answer, POD_INTERFACE, false).allow);
    host.generation(3);
    host.row(PolicyKey::new(1, Ingress, 2, GOOD), PolicyValue::DENY, DENIED);
    assert!(!host.judge_from(Egress, &answer, POD_INTERFACE, false).allow);
}
