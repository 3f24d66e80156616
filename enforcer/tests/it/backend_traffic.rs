//! The kernel backends under real traffic: what connects, what does not, and which entry says so.
//!
//! Invariant: every test here holds under each datapath, with the same assertions.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use netlab_core::model::port::Protocol;
use netlab_core::policy::change::{Change, Frontend, FrontendTarget, RulesetTable};
use netlab_core::policy::frame::{Tuple, opening};
use netlab_ebpf::reason::Reason;
use netlab_enforcer::LoadOptions;
use netlab_enforcer::backend::nft::NftBackend;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_enforcer::backend::wire::{Sender, moved};
use netlab_node::Netns;
use netlab_plugin::contract::Backend;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto, socket,
};

use crate::backend_site::{CLASS_DB, CLASS_WEB, DB, NODE, OUTSIDE, Site, WEB, has, open, service, table};
use crate::bpf_wire::bound;

/// Long enough for a lost packet to be lost, short enough to wait for.
const SILENCE: Duration = Duration::from_millis(300);

/// A backend that tells its counters alone.
pub(crate) trait Counting: Backend {
    fn counted(&self) -> BTreeMap<u32, u64>;
}

impl Counting for NftBackend {
    fn counted(&self) -> BTreeMap<u32, u64> {
        self.counters().expect("counters")
    }
}

impl Counting for TcBackend {
    fn counted(&self) -> BTreeMap<u32, u64> {
        self.counters().expect("counters")
    }
}

/// A site under a backend.
pub(crate) struct Enforced<B> {
    pub(crate) site: Site,
    pub(crate) backend: B,
}

impl Enforced<NftBackend> {
    pub(crate) fn nft() -> Option<Self> {
        has(&["netns", "nft"]).then(|| Self::new(NftBackend::inside))
    }
}

impl Enforced<TcBackend> {
    pub(crate) fn tc() -> Option<Self> {
        has(&["netns", "bpf"])
            .then(|| Self::new(|node| TcBackend::load(node, &LoadOptions::LAB).expect("loaded")))
    }
}

impl<B: Counting> Enforced<B> {
    fn new(make: impl FnOnce(Netns) -> B) -> Self {
        let site = Site::new();
        let backend = make(site.node().try_clone().expect("a second handle"));
        Self { site, backend }
    }

    #[track_caller]
    pub(crate) fn apply(
        &mut self,
        generation: u32,
        rulesets: Vec<RulesetTable>,
        web: u32,
        db: u32,
    ) -> Change {
        let change = self.site.change(generation, rulesets, web, db);
        self.backend.apply(&change).unwrap_or_else(|error| panic!("{error} {:?}", error.hint));
        change
    }

    /// What `work` makes move. Namespaces talk by themselves (neighbour and multicast discovery), also at pods
    /// that nothing isolates: that is left out.
    pub(crate) fn counted(&self, work: impl FnOnce(&Site)) -> BTreeMap<u32, u64> {
        let before = self.backend.counted();
        work(&self.site);
        std::thread::sleep(Duration::from_millis(20));
        let mut counted = moved(&before, &self.backend.counted());
        for chatter in [
            Reason::Neighbour,
            Reason::MulticastControl,
            Reason::NotIsolatedIngress,
            Reason::NotIsolatedEgress,
        ] {
            counted.remove(&chatter.entry());
        }
        counted
    }
}

/// The same test under both kernel datapaths.
macro_rules! under_both {
    ($($name:ident),* $(,)?) => {
        mod nft {
            $(#[test] fn $name() { if let Some(place) = super::Enforced::nft() { super::$name(place); } })*
        }
        mod tc {
            $(#[test] fn $name() { if let Some(place) = super::Enforced::tc() { super::$name(place); } })*
        }
    };
}

under_both! {
    allows_and_denies_by_one_entry_each_in_both_families,
    icmp_errors_about_allowed_flows_come_back,
    the_node_itself_reaches_its_pods_by_origin_not_by_address,
    a_pod_cannot_send_from_a_foreign_address,
    a_change_cuts_an_established_flow_at_its_next_packet_from_either_side,
    a_packet_through_a_service_address_is_judged_as_its_endpoint,
    fragments_that_lose_their_interface_are_not_the_nodes,
    no_packet_meets_half_of_a_change,
    a_segment_that_opens_nothing_lets_no_answer_in,
}

pub(crate) fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("address"), port)
}

pub(crate) fn listen(netns: &Netns, address: &str, port: u16) -> TcpListener {
    bound(netns, || TcpListener::bind(at(address, port)))
}

pub(crate) fn connect(netns: &Netns, address: &str, port: u16) -> io::Result<TcpStream> {
    netns.run(|| TcpStream::connect_timeout(&at(address, port), SILENCE)).expect("namespace")
}

pub(crate) fn udp(netns: &Netns, address: &str, port: u16) -> UdpSocket {
    let socket = bound(netns, || UdpSocket::bind(at(address, port)));
    socket.set_read_timeout(Some(SILENCE)).expect("timeout");
    socket
}

#[track_caller]
pub(crate) fn assert_silent(outcome: io::Result<TcpStream>) {
    match outcome {
        Ok(stream) => panic!("connected: {stream:?}"),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}"),
    }
}

/// True when what one side writes arrives at the other.
pub(crate) fn passes(mut from: &TcpStream, mut to: &TcpStream) -> bool {
    to.set_read_timeout(Some(SILENCE)).expect("timeout");
    from.write_all(b"x").expect("write");
    matches!(to.read(&mut [0; 8]), Ok(1))
}

/// `shop/db` lets in TCP 5432 from web (64), ICMP from web (66), and nothing else (65); its own egress is denied
/// (67). Web is open.
pub(crate) fn db_isolated(id: u32) -> RulesetTable {
    RulesetTable {
        id,
        ingress: Some(table(Protocol::Tcp, 5432, [[65, 65, 65, 65], [66, 65, 65, 64], [65, 65, 65, 65]])),
        egress: Some(table(Protocol::Tcp, 1, [[67; 4], [67; 4], [67; 4]])),
    }
}

fn allows_and_denies_by_one_entry_each_in_both_families<B: Counting>(mut place: Enforced<B>) {
    place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    for family in 0..2 {
        let _listeners = [5432, 81].map(|port| listen(place.site.pod("db"), DB[family], port));
        let allowed = place.counted(|site| {
            connect(site.pod("web"), DB[family], 5432).expect("allowed by 64");
        });
        assert_eq!(allowed.get(&64), Some(&1), "{allowed:?}");
        assert!(!allowed.contains_key(&65) && !allowed.contains_key(&67), "replies pass: {allowed:?}");
        assert!(allowed.contains_key(&Reason::Flow.entry()), "replies are a flow's: {allowed:?}");

        let denied = place.counted(|site| assert_silent(connect(site.pod("web"), DB[family], 81)));
        assert_eq!(denied.keys().copied().collect::<Vec<_>>(), [65]);

        let egress = place.counted(|site| assert_silent(connect(site.pod("db"), WEB[family], 80)));
        assert_eq!(egress.keys().copied().collect::<Vec<_>>(), [67], "db's own egress");
        let outside = place.counted(|site| {
            let fabric = site.lab.fabric().expect("fabric");
            assert_silent(connect(fabric, DB[family], 5432));
        });
        assert_eq!(outside.keys().copied().collect::<Vec<_>>(), [65], "from outside");
    }
    let observation = place.backend.observe().expect("observation");
    assert_eq!((observation.generation, observation.drift), (1, vec![]));
}

fn icmp_errors_about_allowed_flows_come_back<B: Counting>(mut place: Enforced<B>) {
    // Web may send UDP 53 to db (64) and nothing else (65), and lets nothing in (67). Db lets UDP in (68), and
    // sends nothing by itself (69).
    let web = RulesetTable {
        id: 1,
        ingress: Some(table(Protocol::Udp, 53, [[67; 4]; 3])),
        egress: Some(table(Protocol::Udp, 53, [[65; 4], [65; 4], [65, 65, 65, 64]])),
    };
    let db = RulesetTable {
        id: 2,
        ingress: Some(table(Protocol::Udp, 53, [[68; 4]; 3])),
        egress: Some(table(Protocol::Udp, 53, [[69; 4]; 3])),
    };
    place.apply(1, vec![web, db], 1, 2);
    for family in 0..2 {
        let counted = place.counted(|site| {
            let socket = udp(site.pod("web"), WEB[family], 0);
            socket.connect(at(DB[family], 53)).expect("connect");
            socket.send(b"?").expect("send");
            let error = socket.recv(&mut [0; 8]).expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
        });
        let related = Reason::Related.entry();
        assert_eq!(counted, BTreeMap::from([(64, 1), (68, 1), (related, 2)]), "out and in, then back");
    }
}

fn the_node_itself_reaches_its_pods_by_origin_not_by_address<B: Counting>(mut place: Enforced<B>) {
    place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    for family in 0..2 {
        let listener = listen(place.site.pod("db"), DB[family], 8080);
        let counted = place.counted(|site| {
            let stream = connect(site.node(), DB[family], 8080).expect("a probe");
            let (accepted, _) = listener.accept().expect("accepted");
            assert!(passes(&accepted, &stream), "the answer passes though db's egress is denied");
        });
        assert!(counted.contains_key(&Reason::Node.entry()), "{counted:?}");
        assert!(!counted.contains_key(&65) && !counted.contains_key(&67), "{counted:?}");

        // The node's address on a packet of somebody else gives nothing: web poses as the node.
        let forged = Tuple {
            source: NODE[family].parse().expect("address"),
            destination: DB[family].parse().expect("address"),
            protocol: 17,
            source_port: 7000,
            destination_port: 8080,
        };
        let counted = place.counted(|site| {
            Sender::open(site.pod("web")).expect("raw socket").send(&forged).expect("sent");
        });
        assert_eq!(counted, BTreeMap::from([(Reason::Spoof.entry(), 1)]));
    }
}

fn a_pod_cannot_send_from_a_foreign_address<B: Counting>(mut place: Enforced<B>) {
    let change = place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    let tuple = |family: usize, port| Tuple {
        source: OUTSIDE[family].parse().expect("address"),
        destination: DB[family].parse().expect("address"),
        protocol: 6,
        source_port: port,
        destination_port: 5432,
    };
    for (family, web) in WEB.into_iter().enumerate() {
        // From an open pod and from an isolated one.
        for pod in ["web", "db"] {
            let mut tuple = tuple(family, 7000);
            if pod == "db" {
                tuple.destination = web.parse().expect("address");
            }
            let counted = place.counted(|site| {
                Sender::open(site.pod(pod)).expect("raw socket").send(&tuple).expect("sent");
            });
            assert_eq!(counted, BTreeMap::from([(Reason::Spoof.entry(), 1)]), "{pod} {tuple:?}");
        }
    }
    let mut free = change;
    free.generation = 2;
    for pod in &mut free.pods {
        pod.any_source = true;
    }
    place.backend.apply(&free).expect("applied");
    let counted = place.counted(|site| {
        Sender::open(site.pod("web")).expect("raw socket").send(&tuple(0, 7001)).expect("sent");
    });
    assert!(!counted.contains_key(&Reason::Spoof.entry()), "the opt-out: {counted:?}");
    assert!(counted.contains_key(&65), "judged by the address that it bears: {counted:?}");
}

fn a_change_cuts_an_established_flow_at_its_next_packet_from_either_side<B: Counting>(
    mut place: Enforced<B>,
) {
    for (base, family, responder_first) in [(10, 0, false), (20, 1, false), (30, 0, true), (40, 1, true)] {
        place.apply(base, vec![open(1), db_isolated(2)], 1, 2);
        let listener = listen(place.site.pod("db"), DB[family], 5432);
        let client = connect(place.site.pod("web"), DB[family], 5432).expect("allowed");
        let (server, _) = listener.accept().expect("accepted");
        assert!(passes(&client, &server) && passes(&server, &client), "established");

        // The same ruleset, but web's row denies (71); entry numbers are others', as the compiler's would be.
        let mut strict = db_isolated(3);
        strict.ingress = Some(table(Protocol::Tcp, 5432, [[65; 4], [65, 65, 65, 71], [65; 4]]));
        place.apply(base + 1, vec![open(1), strict], 1, 3);
        let counted = place.counted(|_| {
            if responder_first {
                assert!(!passes(&server, &client), "cut for the responder");
            } else {
                assert!(!passes(&client, &server), "cut for the opener");
            }
        });
        assert!(counted.contains_key(&71), "by the new entry: {counted:?}");
        assert!(!counted.contains_key(&64), "{counted:?}");

        // Allowed again, the connection goes on with what was sent meanwhile.
        place.apply(base + 2, vec![open(1), db_isolated(2)], 1, 2);
        let waiting = if responder_first { &client } else { &server };
        waiting.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");
        assert_eq!((&mut &*waiting).read(&mut [0; 8]).expect("retransmitted"), 1);
    }
}

fn a_packet_through_a_service_address_is_judged_as_its_endpoint<B: Counting>(mut place: Enforced<B>) {
    let services = ["10.96.0.10", "fd00:96::10"];
    // Web may open TCP 5432 to db (64), and nothing else: the Service's own port and address say nothing.
    let web = RulesetTable {
        id: 1,
        ingress: None,
        egress: Some(table(Protocol::Tcp, 5432, [[65; 4], [65; 4], [65, 65, 65, 64]])),
    };
    // Db lets in TCP 5432 from web (66), else nothing (67).
    let db = RulesetTable {
        id: 2,
        ingress: Some(table(Protocol::Tcp, 5432, [[67; 4], [67, 67, 67, 66], [67; 4]])),
        egress: None,
    };
    let serving = |change: Change| Change {
        services: [0, 1]
            .map(|family| Frontend {
                address: services[family].parse().expect("an address"),
                targets: vec![FrontendTarget {
                    peer_class: CLASS_DB,
                    port: 5432,
                    endpoints: vec![DB[family].parse().expect("an address")],
                }],
                ..service(80, 5432)
            })
            .to_vec(),
        ..change
    };
    let translate = format!(
        "table inet proxy {{\nchain p {{\ntype nat hook prerouting priority -100;\n\
         ip daddr {} tcp dport 80 dnat ip to {}:5432\nip6 daddr {} tcp dport 80 dnat ip6 to [{}]:5432\n}}\n}}\n",
        services[0], DB[0], services[1], DB[1]
    );
    nft_by_hand(place.site.node(), &translate);
    let apply = |place: &mut Enforced<B>, generation, rulesets, db| {
        let change = serving(place.site.change(generation, rulesets, 1, db));
        place.backend.apply(&change).expect("applied");
    };
    apply(&mut place, 1, vec![web.clone(), db], 2);
    for family in 0..2 {
        let listener = listen(place.site.pod("db"), DB[family], 5432);
        let mut client = None;
        let counted = place.counted(|site| client = connect(site.pod("web"), services[family], 80).ok());
        let client = client.expect("through the service");
        let (server, _) = listener.accept().expect("accepted");
        assert_eq!((counted.get(&64), counted.get(&66)), (Some(&1), Some(&1)), "{counted:?}");
        assert!(passes(&client, &server) && passes(&server, &client));
        let direct = place.counted(|site| assert_silent(connect(site.pod("web"), DB[family], 80)));
        assert!(
            direct.contains_key(&65) && !direct.contains_key(&66),
            "not by the Service's port: {direct:?}"
        );

        // The flow is cut at web by the tuple as web sees it, and at db by the one that db sees.
        let generation = 2 + 2 * u32::try_from(family).expect("0 or 1");
        let closed = RulesetTable {
            id: 3,
            ingress: Some(table(Protocol::Tcp, 5432, [[67; 4], [67, 67, 67, 69], [67; 4]])),
            egress: None,
        };
        apply(&mut place, generation, vec![web.clone(), closed], 3);
        let counted = place.counted(|_| assert!(!passes(&server, &client), "db's reply is cut"));
        assert!(counted.contains_key(&69), "{counted:?}");
        let db = RulesetTable {
            id: 2,
            ingress: Some(table(Protocol::Tcp, 5432, [[67; 4], [67, 67, 67, 66], [67; 4]])),
            egress: None,
        };
        apply(&mut place, generation + 1, vec![web.clone(), db], 2);
    }
}

/// New flows without a pause while policy and peer classes change under them: each is decided by the old row or the
/// new one, and no lookup ever comes to nothing.
fn no_packet_meets_half_of_a_change<B: Counting>(mut place: Enforced<B>) {
    const CHANGES: u32 = 24;
    place.backend.apply(&regrouped(&place.site, 1)).expect("applied");
    let before = place.backend.counted();
    let sender = Sender::open(place.site.pod("web")).expect("raw socket");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut sent = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for family in [0, 1] {
                    let tuple = Tuple {
                        source: WEB[family].parse().expect("address"),
                        destination: DB[family].parse().expect("address"),
                        protocol: 17,
                        source_port: u16::try_from(1024 + sent / 2 % 60_000).expect("a port"),
                        destination_port: 5432,
                    };
                    sender.send(&tuple).expect("sent");
                    sent += 1;
                }
                // Slow enough that the answers' ICMP errors do not fill the node.
                std::thread::sleep(Duration::from_micros(300));
            }
            sent
        });
        for generation in 2..2 + CHANGES {
            place.backend.apply(&regrouped(&place.site, generation)).expect("applied");
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        traffic.join().expect("traffic")
    });
    std::thread::sleep(Duration::from_millis(50));
    let counted = moved(&before, &place.backend.counted());
    let of = |entry| counted.get(&entry).copied().unwrap_or(0);
    for impossible in [Reason::NoEntry.entry(), Reason::NotReady.entry(), 65] {
        assert_eq!(of(impossible), 0, "entry {impossible}: {counted:?}");
    }
    assert!(of(64) > 0 && of(71) > 0, "both policies met packets: {counted:?}");
    // What egress let out, ingress counted: by one of the two rows, or as a flow of before (ports come again).
    assert!(of(64) + of(71) + of(Reason::Flow.entry()) >= sent, "{sent} sent: {counted:?}");
    assert_eq!(place.backend.observe().expect("observation").drift, Vec::<String>::new());
}

/// Odd generations let web's UDP 5432 into db (64), even ones do not (71); every class has another number than in the
/// generation before, and every third time db and web are one class.
fn regrouped(site: &Site, generation: u32) -> Change {
    let web = if generation % 2 == 1 { 64 } else { 71 };
    // Both entries are somewhere in every generation, where no packet comes, so that neither counter goes.
    let cells = [[64, 71, 65, 65], [65, 65, 65, web], [65; 4]];
    let ingress = Some(table(Protocol::Udp, 5432, cells));
    let id = 10 + generation;
    let rulesets = vec![open(1), RulesetTable { id, ingress, egress: None }];
    let mut change = site.change(generation, rulesets, 1, id);
    let merged = generation.is_multiple_of(3);
    let shift = 10 * (generation % 4);
    let class = |class: u32| shift + if merged && class == CLASS_DB { CLASS_WEB } else { class };
    for peer in &mut change.peers {
        peer.class = class(peer.class);
    }
    for table in change.rulesets.iter_mut().filter_map(|ruleset| ruleset.ingress.as_mut()) {
        if merged {
            table.rows.retain(|row| row.peer_classes != [CLASS_DB]);
        }
        for row in &mut table.rows {
            row.peer_classes = row.peer_classes.iter().map(|number| class(*number)).collect();
        }
    }
    change
}

/// Web may send anything (64) and lets nothing in (67). A stray ACK of its own passes, but is no connection whose
/// replies would pass, though the kernel's connection tracking takes it for one.
fn a_segment_that_opens_nothing_lets_no_answer_in<B: Counting>(mut place: Enforced<B>) {
    let web = RulesetTable {
        id: 1,
        ingress: Some(table(Protocol::Tcp, 80, [[67; 4]; 3])),
        egress: Some(table(Protocol::Tcp, 80, [[64; 4]; 3])),
    };
    place.apply(1, vec![web, open(2)], 1, 2);
    let tuple = Tuple {
        source: WEB[0].parse().expect("address"),
        destination: DB[0].parse().expect("address"),
        protocol: 6,
        source_port: 7000,
        destination_port: 81,
    };
    let frame = opening(&tuple).expect("one family");
    let mut packet = frame[14..].to_vec();
    // Byte 13 of the TCP header: ACK for SYN; the checksum is corrected by the difference (RFC 1624).
    packet[33] = 0x10;
    let sum = u16::from_be_bytes([packet[36], packet[37]]);
    packet[36..38].copy_from_slice(&(sum - (0x10 - 0x02)).to_be_bytes());
    let open = || socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw);
    let raw = place.site.pod("web").run(open).expect("namespace").expect("raw socket");
    let to = SockaddrIn::from(SocketAddrV4::new(DB[0].parse().expect("address"), 0));
    // Db's kernel answers each with a reset.
    for round in 1..3 {
        let counted = place.counted(|_| {
            sendto(raw.as_raw_fd(), &packet, &to, MsgFlags::empty()).expect("sent");
        });
        assert_eq!(counted, BTreeMap::from([(64, 1), (67, 1)]), "round {round}");
    }
}

/// Two IPv6 fragments whose first one has a long header of destination options: reassembled and cut again on their
/// way through the node, they can come to the pod's interface without the interface that they entered by.
fn fragments_that_lose_their_interface_are_not_the_nodes<B: Counting>(mut place: Enforced<B>) {
    place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    let receiver = udp(place.site.pod("db"), DB[1], 9000);
    for (place_name, source) in [("web", WEB[1]), ("outside", OUTSIDE[1])] {
        let counted = place.counted(|site| {
            let netns = if place_name == "web" { Ok(site.pod("web")) } else { site.lab.fabric() };
            send_fragments(netns.expect("a namespace"), source);
        });
        assert!(!counted.contains_key(&Reason::Node.entry()), "{place_name} passed as the node: {counted:?}");
        assert!(counted.contains_key(&65), "{place_name} was judged by the policy: {counted:?}");
        assert!(receiver.recv(&mut [0; 2048]).is_err(), "{place_name} reached the pod");
    }
    // They are a good datagram: where policy lets it in, it arrives.
    place.apply(2, vec![open(1), open(3)], 1, 3);
    send_fragments(place.site.pod("web"), WEB[1]);
    assert_eq!(receiver.recv(&mut [0; 2048]).expect("reassembled"), 1400);
}

fn send_fragments(netns: &Netns, source: &str) {
    let open = || socket(AddressFamily::Inet6, SockType::Raw, SockFlag::empty(), SockProtocol::Raw);
    let raw = netns.run(open).expect("namespace").expect("raw socket");
    let to = SockaddrIn6::from(SocketAddrV6::new(DB[1].parse().expect("address"), 0, 0, 0));
    for fragment in destination_options_fragments(source, DB[1], 9000) {
        sendto(raw.as_raw_fd(), &fragment, &to, MsgFlags::empty()).expect("sent");
    }
}

/// A datagram of 1,400 bytes behind 248 bytes of options, in two fragments.
fn destination_options_fragments(source: &str, destination: &str, port: u16) -> Vec<Vec<u8>> {
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("address").octets();
    let length = 1_408_u16;
    let mut udp = vec![0; usize::from(length)];
    udp[..2].copy_from_slice(&7000_u16.to_be_bytes());
    udp[2..4].copy_from_slice(&port.to_be_bytes());
    udp[4..6].copy_from_slice(&length.to_be_bytes());
    let mut sum = u32::from(length) + 17 + u32::from(length) + 7000 + u32::from(port);
    for pair in address(source).chunks(2).chain(address(destination).chunks(2)) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    udp[6..8].copy_from_slice(&(!u16::try_from(sum).expect("folded")).to_be_bytes());
    // RFC 8200 4.6: next header, length in units of 8 less one; then one option that is to be skipped when unknown
    // (RFC 4727 has it for experiments; Linux refuses long padding).
    let mut whole = vec![17, 30, 0x1e, 244];
    whole.resize(248, 0);
    whole.extend(udp);
    let cut = 1_200;
    [(0, &whole[..cut], 1), (cut, &whole[cut..], 0)]
        .into_iter()
        .map(|(offset, part, more)| {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend(u16::try_from(part.len() + 8).expect("short").to_be_bytes());
            packet.extend([44, 64]);
            packet.extend(address(source));
            packet.extend(address(destination));
            packet.extend([60, 0]);
            packet.extend((u16::try_from(offset).expect("short") | more).to_be_bytes());
            packet.extend(0x1234_5678_u32.to_be_bytes());
            packet.extend(part);
            packet
        })
        .collect()
}

/// Runs nft in a namespace, as another program would.
pub(crate) fn nft_by_hand(netns: &Netns, script: &str) {
    let output = netns
        .run(|| {
            use std::process::{Command, Stdio};
            let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
            child.stdin.take().expect("stdin").write_all(script.as_bytes())?;
            child.wait()
        })
        .expect("namespace")
        .expect("nft");
    assert!(output.success(), "nft refused {script}");
}
