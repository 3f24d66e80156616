//! The cluster's DNS servers, and those that they ask.

use super::scene::{chain, matching};
use super::service::crashed;
use super::{Change, Corefile, Fault, Kubelet, Layer, Scene};
use crate::dns::{Act, Names, Rule, Transport};
use crate::place::Place;

const NXDOMAIN: u16 = 3;
const SERVFAIL: u16 = 2;
const REFUSED: u16 = 5;
/// A company's zone that is searched, too.
const CORP: &str = "corp.example.";

/// The faults of the cluster's servers.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "bad-replica",
        mode: "F20",
        layer: Layer::Server,
        breaks: "one of the DNS pods takes questions and answers none",
        seen: "by chance some lookups fail after ten seconds, and others are answered at once",
        changes: |scene| {
            let Some(last) = scene.servers.last().filter(|_| scene.servers.len() > 1) else {
                return Vec::new();
            };
            last.addresses
                .iter()
                .map(|address| rule(Names::All, Act::Silence, |rule| rule.at(*address)))
                .collect()
        },
    },
    Fault {
        name: "loop",
        mode: "F17",
        layer: Layer::Server,
        breaks: "the nodes' resolv.conf names the node itself, the DNS servers ask it, see themselves and end",
        seen: "every lookup is refused at once; the DNS pods restart over and over",
        changes: |scene| {
            let mut changes = vec![host_file("nameserver 127.0.0.53\noptions edns0 trust-ad\n".to_owned())];
            changes.extend(crashed(scene, "Error", 1));
            changes.push(Change::wrote(
                "[FATAL] plugin/loop: Loop (127.0.0.1:55953 -> :53) detected for zone \".\". Query: \"HINFO 4547991504243258144.\"",
            ));
            changes
        },
    },
    Fault {
        name: "not-synced",
        mode: "F19",
        layer: Layer::Server,
        breaks: "the DNS servers could not read the cluster's objects, and answer SERVFAIL for its zone",
        seen: "names of the cluster fail, names outside resolve",
        changes: |scene| {
            vec![
                rule(Names::Below(scene.zone()), Act::Rcode(SERVFAIL), |rule| rule),
                Change::wrote(
                    "[ERROR] plugin/kubernetes: Failed to watch *v1.EndpointSlice: failed to list *v1.EndpointSlice: \
                     endpointslices.discovery.k8s.io is forbidden: User \"system:serviceaccount:kube-system:coredns\" cannot \
                     list resource \"endpointslices\" in API group \"discovery.k8s.io\" at the cluster scope",
                ),
            ]
        },
    },
    Fault {
        name: "slow-server",
        mode: "F21",
        layer: Layer::Server,
        breaks: "the DNS servers take 400 ms for every answer",
        seen: "everything works, slowly",
        changes: |_| vec![rule(Names::All, Act::Later(400), |rule| rule)],
    },
    Fault {
        name: "truncation-without-tcp",
        mode: "F50",
        layer: Layer::Server,
        breaks: "every answer over UDP says \"ask over TCP\", and the servers do not listen there",
        seen: "lookups fail at once, though the servers answer",
        changes: |scene| {
            let mut changes = vec![rule(Names::All, Act::Truncate, |rule| rule.over(Transport::Udp))];
            changes.extend(scene.servers.iter().map(|server| Change::Listen {
                at: server.place.clone(),
                port: None,
                udp: true,
                tcp: false,
            }));
            changes
        },
    },
    Fault {
        name: "aaaa-dropped",
        mode: "F45",
        layer: Layer::Server,
        breaks: "questions for AAAA are never answered",
        seen: "glibc takes seconds for every name, musl fails",
        changes: |_| vec![rule(Names::All, Act::Silence, |rule| rule.of_type("AAAA"))],
    },
    Fault {
        name: "aaaa-nxdomain",
        mode: "F43",
        layer: Layer::Server,
        breaks: "the target has an A record, and for AAAA the servers say that there is no such name",
        seen: "glibc resolves the name, musl says that it does not exist",
        changes: |scene| vec![target(scene, Act::Rcode(NXDOMAIN), "AAAA")],
    },
    Fault {
        name: "aaaa-servfail",
        mode: "F44",
        layer: Layer::Server,
        breaks: "the target has an A record, and for AAAA the servers fail",
        seen: "glibc resolves the name, musl says \"try again\"",
        changes: |scene| vec![target(scene, Act::Rcode(SERVFAIL), "AAAA")],
    },
    Fault {
        name: "a-dropped",
        mode: "F46",
        layer: Layer::Server,
        breaks: "questions for the target's A are never answered, those for AAAA at once: no such record",
        seen: "after seconds glibc says that the name does not exist",
        changes: |scene| vec![target(scene, Act::Silence, "A"), target(scene, Act::NoData, "AAAA")],
    },
    Fault {
        name: "negative-cache",
        mode: "F62",
        layer: Layer::Server,
        breaks: "one DNS server has kept from earlier that the target is not there",
        seen: "a name that was made is there for some and not for others, for a while",
        changes: |scene| {
            let at = scene.servers.first().map(|server| server.addresses.clone()).unwrap_or_default();
            let names = || Names::Exactly(scene.target.fqdn.clone());
            at.into_iter()
                .map(|address| rule(names(), Act::NotThereFor(25), |rule| rule.at(address)))
                .collect()
        },
    },
    Fault {
        name: "shadowed-name",
        mode: "F80",
        layer: Layer::Server,
        breaks: "a `hosts` block of the Corefile without `fallthrough` shadows `example.com`",
        seen: "one name outside fails, all others resolve",
        changes: |_| {
            let plugins = "    hosts /etc/coredns/hosts example.com {\n        198.51.100.9 intranet.example.com\n    }\n";
            vec![
                // It has no SOA to deny a name with.
                rule(Names::Below("example.com.".to_owned()), Act::Rcode(SERVFAIL), |rule| rule),
                Change::Corefile(Corefile { plugins: plugins.to_owned(), ..Corefile::default() }),
            ]
        },
    },
    Fault {
        name: "refused-above-limit",
        mode: "F81",
        layer: Layer::Server,
        breaks: "the DNS servers refuse names outside when more than one a second is asked (`max_concurrent`)",
        seen: "bursts of failures, and only for names outside",
        changes: |_| {
            vec![
                rule(Names::Outside, Act::RefuseAbove(1), |rule| rule),
                Change::Corefile(Corefile {
                    forward: "        max_concurrent 1\n".to_owned(),
                    ..Corefile::default()
                }),
            ]
        },
    },
    Fault {
        name: "stub-domain-down",
        mode: "F79",
        layer: Layer::Server,
        breaks: "the Corefile sends `corp.example` to servers that do not answer",
        seen: "names of one zone fail after seconds, all others resolve",
        changes: |_| {
            let names = || Names::Below(CORP.to_owned());
            // Rules are put in front of each other: the delay comes to be the first.
            vec![
                rule(names(), Act::Rcode(SERVFAIL), |rule| rule),
                rule(names(), Act::Later(4000), |rule| rule),
                Change::Corefile(Corefile {
                    blocks: "corp.example:53 {\n    errors\n    cache 30\n    forward . 198.51.100.153\n}\n"
                        .to_owned(),
                    ..Corefile::default()
                }),
            ]
        },
    },
];

/// The faults of what those ask.
pub(super) const UPSTREAM: &[Fault] = &[
    Fault {
        name: "upstream-down",
        mode: "F22",
        layer: Layer::Upstream,
        breaks: "the servers outside do not answer",
        seen: "names of the cluster resolve, names outside fail after seconds",
        changes: |scene| at_upstream(scene, "meta l4proto { udp, tcp } th dport 53 counter drop"),
    },
    Fault {
        name: "upstream-slow",
        mode: "F23",
        layer: Layer::Upstream,
        breaks: "the servers outside take 1.5 seconds",
        seen: "names of the cluster resolve at once, names outside late",
        changes: |_| vec![Change::outside(Rule::new(Names::All, Act::Later(1500)))],
    },
    Fault {
        name: "upstream-limit",
        mode: "F24",
        layer: Layer::Upstream,
        breaks: "only two questions a second get to the servers outside (a provider's limit, in small)",
        seen: "bursts of lookups outside fail, single ones do not",
        changes: |scene| {
            at_upstream(scene, "udp dport 53 limit rate over 2/second burst 2 packets counter drop")
        },
    },
    Fault {
        name: "mixed-upstreams",
        mode: "F25",
        layer: Layer::Upstream,
        breaks: "the DNS servers ask one of two servers, and one of those does not know `example.org`",
        seen: "a name exists every other time",
        changes: |scene| {
            let both = scene.above.iter().chain(&scene.public).copied().collect();
            let missing = scene.public.iter().map(|address| {
                Change::outside(
                    Rule::new(Names::Below("example.org.".to_owned()), Act::Rcode(NXDOMAIN)).at(*address),
                )
            });
            std::iter::once(Change::Above(both)).chain(missing).collect()
        },
    },
    Fault {
        name: "servfail-suffix",
        mode: "F41",
        layer: Layer::Upstream,
        breaks: "nodes search `corp.example` too, and its servers fail",
        seen: "glibc resolves names outside, musl says \"try again\"",
        changes: |scene| suffix(scene, Act::Rcode(SERVFAIL)),
    },
    Fault {
        name: "nodata-suffix",
        mode: "F42",
        layer: Layer::Upstream,
        breaks: "nodes search `corp.example` too, where every name exists and has no address",
        seen: "glibc resolves names outside, musl finds no address",
        changes: |scene| suffix(scene, Act::NoData),
    },
    Fault {
        name: "refused-suffix",
        mode: "F47",
        layer: Layer::Upstream,
        breaks: "nodes search `corp.example` too, and its servers refuse to answer",
        seen: "names that are searched for \"do not exist\", at once",
        changes: |scene| suffix(scene, Act::Rcode(REFUSED)),
    },
    Fault {
        name: "wildcard-suffix",
        mode: "F67",
        layer: Layer::Upstream,
        breaks: "nodes search `corp.example` too, where every name has the same address",
        seen: "all names outside lead to one machine",
        changes: |scene| suffix(scene, Act::Address([198, 51, 100, 99].into())),
    },
    Fault {
        name: "oversize",
        mode: "F54",
        layer: Layer::Upstream,
        breaks: "for `www.example.com` comes more than 512 bytes, without a word of TCP, to who did not offer to take it",
        seen: "one name outside cannot be read by some programs",
        changes: |_| {
            vec![rule(Names::Exactly("www.example.com.".to_owned()), Act::Oversize(60), |rule| {
                rule.over(Transport::Udp)
            })]
        },
    },
    Fault {
        name: "node-stub",
        mode: "F68",
        layer: Layer::Upstream,
        breaks: "the nodes' resolv.conf names a stub on the node, which pods cannot reach; the DNS servers ask it",
        seen: "names of the cluster resolve, names outside fail at once",
        changes: |_| {
            vec![
                host_file("nameserver 127.0.0.53\noptions edns0 trust-ad\n".to_owned()),
                Change::Above(vec![[127, 0, 0, 53].into()]),
            ]
        },
    },
];

fn rule(names: Names, act: Act, more: impl FnOnce(Rule) -> Rule) -> Change {
    Change::answer(more(Rule::new(names, act)))
}

fn target(scene: &Scene, act: Act, kind: &str) -> Change {
    rule(Names::Exactly(scene.target.fqdn.clone()), act, |rule| rule.of_type(kind))
}

/// The nodes' own file, from which pods have further search domains.
pub(super) fn host_file(text: String) -> Change {
    Change::Kubelet(Kubelet { host_file: Some(text), ..Kubelet::default() })
}

/// The nodes' file with this `search` line.
pub(super) fn searching(scene: &Scene, domains: &str) -> Change {
    let servers: Vec<String> = scene.above.iter().map(|address| format!("nameserver {address}\n")).collect();
    host_file(format!("search {domains}\n{}", servers.concat()))
}

fn suffix(scene: &Scene, act: Act) -> Vec<Change> {
    vec![
        searching(scene, CORP.trim_end_matches('.')),
        Change::outside(Rule::new(Names::Below(CORP.to_owned()), act)),
    ]
}

fn at_upstream(scene: &Scene, rule: &str) -> Vec<Change> {
    let rules: Vec<String> =
        matching("daddr", &scene.above).into_iter().map(|matching| format!("{matching} {rule}")).collect();
    vec![Change::rules(&Place::Fabric, chain("upstream", "filter", "input", "filter", &rules))]
}
