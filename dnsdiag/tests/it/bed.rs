//! Three namespaces in a row: a pod, a router that is its node, a server.
//!
//! Nothing here limits ICMP errors, which routers do: the answers of a test must not depend on how fast it is.

use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use netlab_node::netlink::{AddressSpec, Batch, Mac, RouteSpec, Scope, VethEnd};
use netlab_node::{Netlink, Netns, sysctl};

use crate::require;

pub(crate) struct Bed {
    pub(crate) pod: Netns,
    pub(crate) router: Netns,
    pub(crate) server: Netns,
}

pub(crate) const POD: [&str; 2] = ["10.1.0.2", "fd00:1::2"];
pub(crate) const ROUTER: [&str; 2] = ["10.1.0.1", "fd00:1::1"];
const ROUTER_BEHIND: [&str; 2] = ["10.2.0.1", "fd00:2::1"];
pub(crate) const SERVER: [&str; 2] = ["10.2.0.2", "fd00:2::2"];
/// An address of the server's that nobody asks.
pub(crate) const OTHER: [&str; 2] = ["10.2.0.3", "fd00:2::3"];
/// On the server's link, and nobody's.
pub(crate) const NOBODY: [&str; 2] = ["10.2.0.9", "fd00:2::9"];

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl Bed {
    pub(crate) fn new() -> Option<Self> {
        require::netns().then(|| {
            let [pod, router, server] = [(); 3].map(|()| Netns::create().expect("root can make namespaces"));
            link(&pod, ("eth0", &POD), &router, ("pod", &ROUTER));
            link(&router, ("server", &ROUTER_BEHIND), &server, ("eth0", &SERVER));
            for other in OTHER {
                give(&server, "eth0", other);
            }
            routes(&pod, &ROUTER);
            routes(&server, &ROUTER_BEHIND);
            for (namespace, name, value) in [
                (&router, "ipv4/ip_forward", "1"),
                (&router, "ipv6/conf/all/forwarding", "1"),
                (&router, "ipv4/icmp_ratelimit", "0"),
                (&router, "ipv6/icmp/ratelimit", "0"),
                (&server, "ipv4/icmp_ratelimit", "0"),
                (&server, "ipv6/icmp/ratelimit", "0"),
            ] {
                let written = namespace.run(|| sysctl::write(&sysctl::Sysctl::new(name, value)));
                written.expect("entered").unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            Self { pod, router, server }
        })
    }
}

fn link(here: &Netns, (name, own): (&str, &[&str; 2]), there: &Netns, (peer, theirs): (&str, &[&str; 2])) {
    let mac = |text: &str| {
        let last = text.bytes().fold(7u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        Mac([2, 0, 0, 0, 1, last])
    };
    let mut batch = Batch::new();
    let ends = (VethEnd { name, mac: mac(own[0]) }, VethEnd { name: peer, mac: mac(theirs[0]) });
    batch.veth(ends.0, ends.1, there);
    Netlink::open_in(here).and_then(|mut netlink| netlink.apply(&batch)).expect("a link");
    for (netns, name, addresses) in [(here, name, own), (there, peer, theirs)] {
        let mut batch = Batch::new();
        batch.link_up("lo").link_up(name);
        Netlink::open_in(netns).and_then(|mut netlink| netlink.apply(&batch)).expect("links come up");
        for address in addresses {
            give(netns, name, address);
        }
    }
}

fn interface(netlink: &mut Netlink, name: &str) -> u32 {
    netlink.link(name).expect("readable").unwrap_or_else(|| panic!("no link {name}")).index
}

fn give(netns: &Netns, name: &str, text: &str) {
    let mut netlink = Netlink::open_in(netns).expect("a socket");
    let mut batch = Batch::new();
    let length = if text.contains(':') { 64 } else { 24 };
    let spec =
        AddressSpec { address: format!("{text}/{length}").parse().expect("a network"), scope: Scope::Global };
    batch.address(interface(&mut netlink, name), spec);
    netlink.apply(&batch).expect("an address");
}

fn routes(netns: &Netns, via: &[&str; 2]) {
    let mut netlink = Netlink::open_in(netns).expect("a socket");
    let interface = interface(&mut netlink, "eth0");
    let mut batch = Batch::new();
    for (destination, via) in ["0.0.0.0/0", "::/0"].into_iter().zip(via) {
        let destination = destination.parse().expect("a network");
        batch.route(&RouteSpec {
            destination,
            via: Some(address(via)),
            interface,
            onlink: false,
            source: None,
        });
    }
    netlink.apply(&batch).expect("routes");
}

/// Runs a command inside, with text for it to read.
pub(crate) fn inside(netns: &Netns, command: &[&str], text: &str) {
    let run = || {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success(), "{command:?} {text}");
    };
    netns.run(run).expect("the namespace can be entered");
}

pub(crate) fn filter(netns: &Netns, hook: &str, rule: &str) {
    let table = format!(
        "flush ruleset\ntable inet t {{ chain c {{ type filter hook {hook} priority 0; policy accept; {rule}\n }}\n }}\n"
    );
    inside(netns, &["nft", "-f", "-"], &table);
}
