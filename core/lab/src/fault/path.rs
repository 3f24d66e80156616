//! The network between, and what the kernel remembers of it.

use super::scene::{chain, forward, matching};
use super::service::lost;
use super::{Change, Fault, Layer, Scene, stuck};
use crate::place::Place;

/// The faults of conntrack.
pub(super) const CONNTRACK: &[Fault] = &[
    Fault {
        name: "stale-udp",
        mode: "F30",
        layer: Layer::Conntrack,
        breaks: "the client's node remembers, for one port of the client, a DNS pod that is no more",
        seen: "one long-lived client gets no answer; every new one does",
        changes: |scene| {
            let Some(address) = scene.addresses.first().filter(|address| address.is_ipv4()) else {
                return Vec::new();
            };
            vec![
                lost(scene, &[scene.nobody.1]),
                stuck(
                    &scene.client.place,
                    &scene.node(),
                    20_053,
                    (*address, 53).into(),
                    (scene.nobody.1, 53).into(),
                ),
            ]
        },
    },
    Fault {
        name: "undnat-udp",
        mode: "F31",
        layer: Layer::Conntrack,
        breaks: "the client's node remembers a flow that began before the rules were there, and translates it to nothing",
        seen: "one long-lived client gets no answer; every new one does",
        changes: |scene| {
            let Some(address) = scene.addresses.first().filter(|address| address.is_ipv4()) else {
                return Vec::new();
            };
            let to = (*address, 53).into();
            vec![lost(scene, &[*address]), stuck(&scene.client.place, &scene.node(), 20_054, to, to)]
        },
    },
    Fault {
        name: "conntrack-full",
        mode: "F28",
        layer: Layer::Conntrack,
        breaks: "the client's node takes no new flow as long as it knows more than two (a full table, in small)",
        seen: "whatever begins times out, names first; what is open goes on",
        changes: |scene| {
            let rule = "ct state new ct count over 2 counter drop".to_owned();
            vec![Change::rules(&scene.node(), chain("full", "filter", "prerouting", "mangle", &[rule]))]
        },
    },
    Fault {
        name: "lost-twin",
        mode: "F27",
        layer: Layer::Conntrack,
        breaks: "on the client's node the second question that leaves a socket is lost, once (the \
                 race of two packets of one flow, which a kernel counts as insert_failed)",
        seen: "lookups take exactly five seconds, and then work",
        changes: |scene| {
            // The second packet of a port within moments, once: a retry finds its flow known, and passes.
            let rules = [
                "udp dport 53 udp sport @over accept".to_owned(),
                "udp dport 53 udp sport @seen add @over { udp sport } counter drop".to_owned(),
                "udp dport 53 add @seen { udp sport }".to_owned(),
            ];
            let set = |name: &str, seconds: u32| {
                format!(
                    "  set {name} {{\n    type inet_service; flags dynamic,timeout; timeout {seconds}s;\n  }}\n"
                )
            };
            let chain = chain("race", "filter", "prerouting", "mangle", &rules);
            let set = format!("{}{}", set("seen", 2), set("over", 30));
            vec![Change::rules(&scene.node(), format!("{set}{chain}"))]
        },
    },
];

/// The faults of the network.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "egress-drop",
        mode: "",
        layer: Layer::Path,
        breaks: "the client's node drops what the client sends to port 53, and no policy says so",
        seen: "every name fails while every IP works",
        changes: |scene| node_rules(scene, "saddr", "meta l4proto { udp, tcp } th dport 53 counter drop"),
    },
    Fault {
        name: "tcp-drop",
        mode: "",
        layer: Layer::Path,
        breaks: "the client's node drops TCP 53",
        seen: "small answers come, large ones never do",
        changes: |scene| node_rules(scene, "saddr", "tcp dport 53 counter drop"),
    },
    Fault {
        name: "udp-drop",
        mode: "",
        layer: Layer::Path,
        breaks: "the client's node drops UDP 53",
        seen: "lookups time out, yet `dig +tcp` answers",
        changes: |scene| node_rules(scene, "saddr", "udp dport 53 counter drop"),
    },
    Fault {
        name: "refuse",
        mode: "",
        layer: Layer::Path,
        breaks: "the client's node rejects port 53 as if nobody were there",
        seen: "every lookup is refused at once",
        changes: |scene| {
            node_rules(
                scene,
                "saddr",
                "meta l4proto { udp, tcp } th dport 53 counter reject with icmpx port-unreachable",
            )
        },
    },
    Fault {
        name: "prohibit",
        mode: "",
        layer: Layer::Path,
        breaks: "a firewall on the client's node rejects port 53 as prohibited",
        seen: "lookups fail at once with \"no route to host\"",
        changes: |scene| {
            node_rules(
                scene,
                "saddr",
                "meta l4proto { udp, tcp } th dport 53 counter reject with icmpx admin-prohibited",
            )
        },
    },
    Fault {
        name: "replies-lost",
        mode: "F07",
        layer: Layer::Path,
        breaks: "the client's node drops what comes back from port 53",
        seen: "every name times out, and the DNS servers count every question as answered",
        changes: |scene| node_rules(scene, "daddr", "meta l4proto { udp, tcp } th sport 53 counter drop"),
    },
    Fault {
        name: "other-source",
        mode: "F73",
        layer: Layer::Path,
        breaks: "answers reach the client with the DNS pod's address instead of the Service's",
        seen: "lookups time out, and `dig` speaks of a reply from an unexpected source",
        changes: |scene| {
            let Some(server) = scene.servers.first() else { return Vec::new() };
            let rules: Vec<String> = scene
                .addresses
                .iter()
                .filter_map(|address| {
                    let family = if address.is_ipv4() { "ip" } else { "ip6" };
                    let own = server.addresses.iter().find(|own| own.is_ipv4() == address.is_ipv4())?;
                    Some(format!("{family} saddr {address} udp sport 53 {family} saddr set {own} counter"))
                })
                .collect();
            vec![Change::rules(&scene.client.place, chain("back", "filter", "prerouting", "raw", &rules))]
        },
    },
    Fault {
        name: "partition",
        mode: "F74",
        layer: Layer::Path,
        breaks: "nothing gets from one node to another",
        seen: "some lookups time out: those whose DNS pod is on another node",
        changes: |scene| {
            let links: Vec<String> = scene.links.values().map(|link| format!("\"{link}\"")).collect();
            if links.len() < 2 {
                return Vec::new();
            }
            let all = links.join(", ");
            let rule = format!("iifname {{ {all} }} oifname {{ {all} }} counter drop");
            vec![Change::rules(&Place::Fabric, forward(&[rule]))]
        },
    },
    Fault {
        name: "large-udp-lost",
        mode: "F52",
        layer: Layer::Path,
        breaks: "answers over UDP of more than 600 bytes are lost on their way (an MTU that is too small, and no fragments)",
        seen: "small answers come, large ones time out, and TCP has them all",
        changes: |scene| node_rules(scene, "daddr", "udp sport 53 udp length > 600 counter drop"),
    },
    Fault {
        name: "sidecar-capture",
        mode: "F77",
        layer: Layer::Path,
        breaks: "the pod's own rules send port 53 to a proxy in the pod that does not run",
        seen: "lookups are refused at once, and only in this pod",
        changes: |scene| {
            let rules =
                ["udp dport 53 counter redirect to :15053", "tcp dport 53 counter redirect to :15053"]
                    .map(str::to_owned);
            vec![Change::rules(&scene.client.place, chain("capture", "nat", "output", "-100", &rules))]
        },
    },
    Fault {
        name: "after-dns",
        mode: "F95",
        layer: Layer::Path,
        breaks: "the client's node drops what the client sends over TCP to anything but port 53",
        seen: "\"the host cannot be reached\", and DNS is blamed",
        changes: |scene| node_rules(scene, "saddr", "tcp dport != 53 counter drop"),
    },
];

/// Rules on the client's node for packets from (`saddr`) or to (`daddr`) the client.
fn node_rules(scene: &Scene, side: &str, rule: &str) -> Vec<Change> {
    let rules: Vec<String> = matching(side, &scene.client.addresses)
        .into_iter()
        .map(|matching| format!("{matching} {rule}"))
        .collect();
    vec![Change::rules(&scene.node(), forward(&rules))]
}
