//! What happens to packets: rows, flows, and everything that is decided without a policy.

use netlab_ebpf::abi::Direction::{Egress, Ingress};
use netlab_ebpf::abi::{Device, PolicyKey, Word, mapped};
use netlab_ebpf::judge::Socket;
use netlab_ebpf::reason::Reason;

use super::tables::{
    DENIED, EGRESS_80, FRIEND, Host, INGRESS_53, INGRESS_5432, OTHER_INTERFACE, POD, POD_INTERFACE, STRANGER,
    fragment, ipv4, tcp, udp,
};

const SYN: u8 = 2;
const ACK: u8 = 16;
const SYN_ACK: u8 = 18;

/// Shorter to read: TCP between the pod and a peer.
fn to_pod(peer: [u8; 4], source: u16, destination: u16, flags: u8) -> Vec<u8> {
    ipv4(peer, POD, 6, &tcp(source, destination, flags))
}

fn from_pod(peer: [u8; 4], source: u16, destination: u16, flags: u8) -> Vec<u8> {
    ipv4(POD, peer, 6, &tcp(source, destination, flags))
}

#[test]
fn a_new_flow_is_decided_by_one_row() {
    let host = Host::new();
    for (frame, allow, entry) in [
        (to_pod(FRIEND, 40_000, 5432, SYN), true, INGRESS_5432),
        (to_pod(FRIEND, 40_000, 5433, SYN), false, DENIED),
        (to_pod(STRANGER, 40_000, 5432, SYN), false, DENIED),
    ] {
        let judgement = host.judge(Ingress, &frame);
        assert_eq!((judgement.allow, judgement.entry, judgement.reason), (allow, entry, Reason::Row));
    }
    assert_eq!(host.flows.borrow().len(), 1, "only what was allowed is remembered");
}

#[test]
fn a_flow_answers_for_both_ways_and_for_nobody_else() {
    let host = Host::new();
    assert!(host.judge(Ingress, &to_pod(FRIEND, 40_000, 5432, SYN)).allow);
    let reply = host.judge(Egress, &from_pod(FRIEND, 5432, 40_000, SYN_ACK));
    assert_eq!((reply.allow, reply.reason, reply.entry), (true, Reason::Flow, INGRESS_5432));
    assert_eq!(reply.counted(), Reason::Flow.entry(), "counted as a flow's, cited by its row");
    assert!(!host.judge(Egress, &from_pod(FRIEND, 5432, 40_001, SYN_ACK)).allow);
    assert!(!host.judge(Egress, &from_pod(STRANGER, 5432, 40_000, SYN_ACK)).allow);
    let opening = host.judge(Egress, &from_pod(FRIEND, 5432, 40_000, SYN));
    assert!(!opening.allow, "a connection of its own on the same tuple is judged by itself");
}

#[test]
fn a_policy_change_judges_a_flow_again_the_way_it_was_opened() {
    let mut host = Host::new();
    assert!(host.judge(Ingress, &to_pod(FRIEND, 40_000, 5432, SYN)).allow);
    host.generation(2);
    assert!(host.judge(Egress, &from_pod(FRIEND, 5432, 40_000, ACK)).allow, "still allowed as ingress");
    host.generation(3);
    host.row(PolicyKey::new(1, Ingress, 2, 2), 2, DENIED);
    let reply = host.judge(Egress, &from_pod(FRIEND, 5432, 40_000, ACK));
    assert_eq!((reply.allow, reply.entry), (false, DENIED), "also when the reply comes first");
}

#[test]
fn silence_forgets_a_flow() {
    let host = Host::new();
    assert!(host.judge(Ingress, &ipv4(FRIEND, POD, 17, &udp(40_000, 53))).allow);
    let reply = ipv4(POD, FRIEND, 17, &udp(53, 40_000));
    host.now.set(30);
    assert_eq!(host.judge(Egress, &reply).entry, INGRESS_53);
    host.now.set(30 + 180);
    assert!(host.judge(Egress, &reply).allow, "answered flows live three minutes");
    host.now.set(30 + 180 + 181);
    assert!(!host.judge(Egress, &reply).allow);
}

#[test]
fn a_segment_that_opens_nothing_makes_no_flow() {
    let host = Host::new();
    assert!(host.judge(Ingress, &to_pod(FRIEND, 40_000, 5432, ACK)).allow, "its own row");
    assert!(host.flows.borrow().is_empty());
    assert!(!host.judge(Egress, &from_pod(FRIEND, 5432, 40_000, ACK)).allow);
}

#[test]
fn an_icmp_message_that_is_no_echo_opens_no_way_back() {
    let mut host = Host::new();
    host.device.word = Word::new(1, true, false, 1);
    let unreachable = ipv4(POD, STRANGER, 1, &[3, 3, 0, 0, 0, 0, 0, 0]);
    assert!(host.judge(Egress, &unreachable).allow, "not isolated for egress");
    let redirect = ipv4(STRANGER, POD, 1, &[5, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(host.judge(Ingress, &redirect).reason, Reason::Row);
    assert!(!host.judge(Ingress, &redirect).allow);
}

#[test]
fn a_connection_older_than_the_program_needs_its_socket_and_its_policy() {
    let mut host = Host::new();
    let reply = from_pod(FRIEND, 5432, 40_000, ACK);
    assert!(!host.judge(Egress, &reply).allow, "no namespace to ask");
    host.device.netns = 3;
    for (socket, allow) in
        [(Some(Socket::None), false), (Some(Socket::Connected), false), (Some(Socket::Accepted), true)]
    {
        host.socket = socket;
        assert_eq!(host.judge(Egress, &reply).allow, allow, "{socket:?}");
    }
    assert_eq!(host.judge(Egress, &reply).reason, Reason::Flow, "remembered now");
    // Accepted, but nobody may connect there; and the other way round.
    assert!(!host.judge(Egress, &from_pod(FRIEND, 5433, 40_000, ACK)).allow);
    let answer = to_pod(FRIEND, 80, 40_000, ACK);
    assert!(!host.judge(Ingress, &answer).allow, "the pod did not open it");
    host.socket = Some(Socket::Connected);
    let judgement = host.judge(Ingress, &answer);
    assert_eq!((judgement.reason, judgement.entry), (Reason::Midflow, EGRESS_80));
    // Never a datagram.
    host.socket = Some(Socket::Accepted);
    assert!(!host.judge(Egress, &ipv4(POD, FRIEND, 17, &udp(53, 40_001))).allow);
}

#[test]
fn the_node_is_known_by_both_signs() {
    let host = Host::new();
    let frame = to_pod(STRANGER, 40_000, 5432, SYN);
    for (ingress, socket, node) in
        [(0, true, true), (0, false, false), (OTHER_INTERFACE, true, false), (OTHER_INTERFACE, false, false)]
    {
        let judgement = host.judge_from(Ingress, &frame, ingress, socket);
        assert_eq!(judgement.reason == Reason::Node, node, "{ingress} {socket}");
        assert_eq!(judgement.allow, node);
    }
    let reply = host.judge(Egress, &from_pod(STRANGER, 5432, 40_000, SYN_ACK));
    assert_eq!((reply.allow, reply.entry), (true, Reason::Node.entry()), "an answer to the node");
}

#[test]
fn what_the_node_answers_does_not_free_a_flow_from_policy() {
    let mut host = Host::new();
    let mine = from_pod(FRIEND, 40_000, 80, SYN);
    assert!(host.judge(Egress, &mine).allow);
    // The peer is the node itself: its answer comes from no interface and has a socket.
    assert!(host.judge_from(Ingress, &to_pod(FRIEND, 80, 40_000, SYN_ACK), 0, true).allow);
    host.generation(2);
    host.row(PolicyKey::new(1, Egress, 3, 2), 2, DENIED);
    assert!(host.judge_from(Ingress, &to_pod(FRIEND, 80, 40_000, ACK), 0, true).allow);
    let more = host.judge(Egress, &from_pod(FRIEND, 40_000, 80, ACK));
    assert_eq!((more.allow, more.entry), (false, DENIED));
}

#[test]
fn a_pod_cannot_send_as_another() {
    let mut host = Host::new();
    let forged = ipv4(FRIEND, STRANGER, 17, &udp(1, 53));
    assert_eq!(host.judge(Egress, &forged).reason, Reason::Spoof);
    host.device.word = Word::new(1, false, false, 1);
    assert_eq!(host.judge(Egress, &forged).reason, Reason::Spoof, "also when no policy selects it");
    host.device.flags = Device::ANY_SOURCE;
    assert_eq!(host.judge(Egress, &forged).reason, Reason::NotIsolatedEgress);
}

#[test]
fn the_rest_of_a_datagram_follows_its_first_fragment() {
    let mut host = Host::new();
    let first = fragment(FRIEND, POD, 17, 0x2000, &udp(40_000, 53));
    let rest = fragment(FRIEND, POD, 17, 3, &[0; 8]);
    assert_eq!(host.judge(Ingress, &rest).reason, Reason::FragmentUnknown, "not seen yet");
    assert!(host.judge(Ingress, &first).allow);
    let judgement = host.judge(Ingress, &rest);
    assert_eq!((judgement.reason, judgement.entry), (Reason::Fragment, INGRESS_53));
    assert!(!host.judge(Egress, &fragment(POD, FRIEND, 17, 3, &[0; 8])).allow, "at this hook only");
    host.now.set(31);
    assert!(!host.judge(Ingress, &rest).allow, "too late");
    host.now.set(1);
    host.generation(2);
    assert!(!host.judge(Ingress, &rest).allow, "under another policy nothing is known of it");
    let denied = fragment(STRANGER, POD, 17, 0x2000, &udp(40_000, 53));
    assert!(!host.judge(Ingress, &denied).allow);
    assert!(!host.judge(Ingress, &fragment(STRANGER, POD, 17, 3, &[0; 8])).allow);
}

#[test]
fn an_error_passes_only_to_the_sender_of_a_known_flow() {
    let host = Host::new();
    assert!(host.judge(Egress, &from_pod(FRIEND, 40_000, 80, SYN)).allow);
    let error = |from: [u8; 4], inner: Vec<u8>| {
        ipv4(from, POD, 1, &[vec![3, 4, 0, 0, 0, 0, 5, 0], inner[14..].to_vec()].concat())
    };
    let router = [10, 99, 0, 1];
    let known = host.judge(Ingress, &error(router, from_pod(FRIEND, 40_000, 80, SYN)));
    assert_eq!((known.allow, known.reason), (true, Reason::Related), "from any router on the way");
    for inner in [
        from_pod(FRIEND, 40_001, 80, SYN),
        from_pod(STRANGER, 40_000, 80, SYN),
        ipv4(STRANGER, FRIEND, 6, &tcp(40_000, 80, SYN)),
    ] {
        assert_eq!(host.judge(Ingress, &error(router, inner)).reason, Reason::Unrelated);
    }
}

#[test]
fn tables_that_lack_a_row_drop_and_say_so() {
    let mut host = Host::new();
    host.policy.retain(|key, _| key.ruleset == PolicyKey::FIXED);
    let judgement = host.judge(Ingress, &to_pod(FRIEND, 40_000, 5432, SYN));
    assert_eq!((judgement.allow, judgement.reason), (false, Reason::NoEntry));
    // A row that is another's (an element recycled under the reader) is none.
    let mut host = Host::new();
    let key = PolicyKey::new(1, Ingress, 2, 2);
    if let Some(value) = host.policy.get_mut(&key) {
        value.echo ^= 1;
    }
    assert_eq!(host.judge(Ingress, &to_pod(FRIEND, 40_000, 5432, SYN)).reason, Reason::NoEntry);
    // A recycled peer is asked for again as a prefix: here that makes a friend a stranger.
    let mut host = Host::new();
    if let Some(value) = host.peers.get_mut(&mapped(FRIEND)) {
        value.echo ^= 1;
    }
    assert_eq!(host.judge(Ingress, &to_pod(FRIEND, 40_000, 5432, SYN)).peer_class, 3);
}

#[test]
fn a_pod_without_a_ruleset_gets_and_sends_nothing() {
    let mut host = Host::new();
    host.device.word = Word::default();
    for direction in [Ingress, Egress] {
        let judgement = host.judge(direction, &to_pod(FRIEND, 1, 5432, SYN));
        assert_eq!((judgement.allow, judgement.reason), (false, Reason::NotReady));
    }
}

#[test]
fn a_pod_that_no_policy_selects_is_neither_read_nor_remembered() {
    let mut host = Host::new();
    host.device.word = Word::new(1, false, false, 1);
    let judgement = host.judge(Ingress, &[0xff; 20]);
    assert_eq!((judgement.allow, judgement.reason), (true, Reason::NotIsolatedIngress));
    assert!(host.judge(Egress, &from_pod(STRANGER, 1, 2, SYN)).allow);
    assert!(host.flows.borrow().is_empty());
}

#[test]
fn the_pod_talks_to_itself() {
    let host = Host::new();
    assert_eq!(host.judge(Egress, &from_pod(POD, 1, 2, SYN)).reason, Reason::Itself);
    let back = to_pod(POD, 1, 2, SYN);
    assert_eq!(host.judge_from(Ingress, &back, POD_INTERFACE, false).reason, Reason::Itself);
    assert!(!host.judge(Ingress, &back).allow, "its address from elsewhere is a forgery");
}
