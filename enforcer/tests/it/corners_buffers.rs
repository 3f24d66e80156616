//! Packets that do not come in one buffer: datagrams in pieces, and frames whose headers lie outside of its linear part.

use std::net::{SocketAddr, UdpSocket};

use netlab_ebpf::reason::Reason;

use super::bpf_frames::{V4, ethernet, extension, udp, v4, v6_packet};
use super::bpf_wire::{IMPATIENCE, Wire, address_frame, bound};
use super::bpf_world::{POD, pod6};
use super::corners_wire::{counted, told};

/// Sends a datagram of five pieces, and one back. Again while nothing comes: the kernel takes a new IPv6 address for its
/// own only a moment after it was given.
pub(crate) fn whole(client: &UdpSocket, server: &UdpSocket, to: SocketAddr) {
    let data: Vec<u8> = (0..6_000_u16).map(|index| index.to_be_bytes()[1]).collect();
    let mut read = vec![0; 8_000];
    for socket in [client, server] {
        socket.set_read_timeout(Some(IMPATIENCE)).expect("timeout");
    }
    for _ in 0..20 {
        client.send_to(&data, to).expect("sent");
        let Ok((length, from)) = server.recv_from(&mut read) else { continue };
        assert_eq!(read[..length], data);
        server.send_to(&data, from).expect("sent");
        if let Ok((length, _)) = client.recv_from(&mut read) {
            assert_eq!(read[..length], data);
            return;
        }
    }
    panic!("no datagram came through whole to {to}");
}

#[test]
fn datagrams_in_pieces_arrive_in_both_families() {
    let Some(wire) = Wire::new("corners_wire") else { return };
    let _attached = wire.attach();
    let before = counted(&wire, Reason::Fragment);
    let bind = |pod: usize, address: &str| bound(&wire.site.pods[pod], || UdpSocket::bind(address));
    let server = bind(0, "[::]:53");
    let addresses: [(&str, SocketAddr); 2] =
        [("0.0.0.0:0", (POD[0], 53).into()), ("[::]:0", (pod6(0), 53).into())];
    for (own, to) in addresses {
        // The answer is as long: the DNS answer in pieces that others lost.
        whole(&bind(1, own), &server, to);
    }
    // Of four datagrams of five pieces each.
    assert!(counted(&wire, Reason::Fragment) >= before + 4 * 3, "pieces that followed their first");
    assert_eq!(counted(&wire, Reason::FragmentUnknown), 0);
}

#[test]
fn headers_outside_of_the_linear_part_are_read() {
    let Some(mut wire) = Wire::new("corners_wire") else { return };
    // Raw frames beyond a page carry all but their Ethernet header in fragments of the buffer.
    for (place, device) in [(&wire.site.node, "pod0"), (&wire.site.pods[0], "eth0")] {
        let mut command = std::process::Command::new("ip");
        command.args(["link", "set", device, "mtu", "9000"]);
        if !place.run(|| command.status()).expect("inside").is_ok_and(|status| status.success()) {
            eprintln!("corners_wire: skipped, no ip command");
            return;
        }
    }
    let _attached = wire.attach();
    let long = |port: u16| [udp(port, 53), vec![0; 6_000]].concat();
    let (own, other) = (POD[0].octets(), POD[1].octets());
    let plain = v4(own, other, 17);
    let options = V4 { options: &[1; 40], ..plain };
    let behind = [extension(17, [1, 4, 0, 0, 0, 0]), long(30_004)].concat();
    for (port, frame) in [
        (30_001, plain.frame(&long(30_001))),
        (30_002, options.frame(&long(30_002))),
        (30_003, ethernet(0x86dd, &v6_packet(pod6(0).octets(), pod6(1).octets(), 17, 64, &long(30_003)))),
        (30_004, ethernet(0x86dd, &v6_packet(pod6(0).octets(), pod6(1).octets(), 60, 64, &behind))),
    ] {
        let mut frame = frame;
        address_frame(&mut frame, 0);
        wire.send(0, &frame);
        let event = wire.event(|event| event.source_port == port);
        assert_eq!((told(&event), event.destination_port), ((Reason::Row, true), 53), "{port}");
        assert_eq!((event.peer_class, event.port_class), (2, 5), "{port}");
    }
    assert_eq!(counted(&wire, Reason::Malformed), 0);
}
