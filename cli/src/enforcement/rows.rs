//! Rows of the kernel's maps, raw and in words.
//!
//! Invariant: keys and values are the kernel's bytes; the words are made from them and from nothing else but the
//! compilation that numbered them.

use std::collections::BTreeMap;

use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::{Posture, Rulesets};
use netlab_ebpf::abi::{Direction, PolicyKey, PolicyValue, ServiceKey, ServiceTargets, ServiceValue, Word};
use netlab_ebpf::reason::Reason;
use netlab_enforcer::Datapath;
use netlab_enforcer::audit::{self, Audit};
use netlab_enforcer::maps::pod::bytes_of;
use netlab_enforcer::maps::{MapError, StateMaps};
use netlab_enforcer::update::tables::SlotsOf;

use super::decision::ip;
use super::{Compared, Difference, MapRow, NodeAudit, hex};

/// What is needed to speak of a node's rows.
pub(super) struct Words<'a> {
    /// What was compiled.
    pub(super) rulesets: Option<&'a Rulesets>,
    /// The kernel's numbers of its rulesets and entries.
    pub(super) slots: Option<&'a SlotsOf>,
    /// Pods by the number of their interface.
    pub(super) pods: BTreeMap<u32, ObjectKey>,
    /// Pods by ruleset.
    pub(super) by_ruleset: BTreeMap<u32, Vec<String>>,
}

/// A map's name in the object, its id and its rows.
type NamedRows = (&'static str, u32, Vec<MapRow>);

/// Reads a map by its name on the command line; `None` when there is no such map.
pub(super) fn read(
    map: &str,
    datapath: &Datapath,
    entries: &[u32],
    words: &Words<'_>,
) -> Result<Vec<NamedRows>, MapError> {
    let (policy, state) = (datapath.policy(), datapath.state());
    Ok(vec![match map {
        "policy" => {
            let mut rows = policy.policy.entries()?;
            rows.sort_by_key(|(key, _)| *key);
            let rows = rows.iter().map(|(key, value)| words.policy(key, value)).collect();
            ("POLICY", policy.policy.id(), rows)
        }
        "devices" => {
            let mut rows = Vec::new();
            for (ifindex, pod) in &words.pods {
                let Some(device) = policy.devices.get(*ifindex)? else { continue };
                let word = device.word;
                rows.push(MapRow {
                    key_hex: hex(&ifindex.to_ne_bytes()),
                    value_hex: hex(bytes_of(&device)),
                    pods: vec![pod.to_string()],
                    words: vec![
                        pod.to_string(),
                        ifindex.to_string(),
                        word.ruleset().to_string(),
                        word.generation().to_string(),
                        posture(words.rulesets, pod, word, Direction::Ingress).to_string(),
                        posture(words.rulesets, pod, word, Direction::Egress).to_string(),
                    ],
                });
            }
            ("DEVICES", policy.devices.table().id(), rows)
        }
        "peers" => {
            let mut rows = policy.peers.entries()?;
            rows.sort_by_key(|(key, _)| *key);
            let rows = rows
                .iter()
                .map(|(key, value)| {
                    let address = ip(key).map_or_else(|| "::".to_owned(), |address| address.to_string());
                    row(bytes_of(key), bytes_of(value), vec![address, value.class.to_string()])
                })
                .collect();
            ("PEERS", policy.peers.id(), rows)
        }
        "cidrs" => {
            let mut rows = policy.cidrs.entries()?;
            rows.sort_by_key(|(key, _)| *key);
            let rows = rows
                .iter()
                .map(|(key, value)| {
                    let address = ip(&key.address);
                    let ipv4 = address.is_some_and(|address| address.is_ipv4()) && key.prefix >= 96;
                    let text = match address {
                        Some(address) if ipv4 => format!("{address}/{}", key.prefix - 96),
                        Some(address) => format!("{address}/{}", key.prefix),
                        None => format!("::/{}", key.prefix),
                    };
                    row(bytes_of(key), bytes_of(value), vec![text, value.class.to_string()])
                })
                .collect();
            ("CIDRS", policy.cidrs.id(), rows)
        }
        "services" => {
            let mut rows = policy.services.entries()?;
            rows.sort_by_key(|(key, _)| *key);
            let rows = rows.iter().map(|(key, value)| service(key, value)).collect();
            ("SERVICES", policy.services.id(), rows)
        }
        "counters" => {
            let counters = state.counters.read(entries.iter().copied())?;
            let rows = counters
                .iter()
                .filter(|(_, packets)| **packets > 0)
                .map(|(entry, packets)| {
                    row(
                        &entry.to_ne_bytes(),
                        &packets.to_ne_bytes(),
                        vec![entry.to_string(), packets.to_string(), words.entry(*entry)],
                    )
                })
                .collect();
            ("COUNTERS", state.counters.id(), rows)
        }
        "conntrack" => return flows(state),
        _ => return Ok(Vec::new()),
    }])
}

/// An audit in words.
pub(super) fn audit(audit: Audit, rulesets: Option<&Rulesets>) -> NodeAudit {
    let words = Words { rulesets, slots: None, pods: BTreeMap::new(), by_ruleset: BTreeMap::new() };
    let compared = audit.compared.into_iter();
    let compared =
        compared.map(|audit::Compared { object, id, rows, bytes }| Compared { object, id, rows, bytes });
    let differences = audit.differences.into_iter().map(|difference| Difference {
        because: difference.entry.map_or_else(String::new, |entry| words.entry(entry)),
        object: difference.object,
        id: difference.id,
        element: difference.element,
        what: difference.what,
        key_hex: hex(&difference.key),
        expected_hex: difference.expected.as_deref().map(hex),
        found_hex: difference.found.as_deref().map(hex),
        entry: difference.entry,
    });
    NodeAudit { compared: compared.collect(), differences: differences.collect() }
}

fn flows(state: &StateMaps) -> Result<Vec<NamedRows>, MapError> {
    let ipv4 = state.conntrack4.entries()?;
    let mut ipv4: Vec<MapRow> = ipv4
        .iter()
        .map(|(key, flow)| {
            let end = |address: [u8; 4], port: u16| format!("{}:{port}", std::net::Ipv4Addr::from(address));
            let ends = (end(key.local, key.local_port), end(key.remote, key.remote_port));
            Words::flow(bytes_of(key), flow, key.protocol, ends)
        })
        .collect();
    let ipv6 = state.conntrack6.entries()?;
    let mut ipv6: Vec<MapRow> = ipv6
        .iter()
        .map(|(key, flow)| {
            let end =
                |address: [u8; 16], port: u16| format!("[{}]:{port}", std::net::Ipv6Addr::from(address));
            let ends = (end(key.local, key.local_port), end(key.remote, key.remote_port));
            Words::flow(bytes_of(key), flow, key.protocol, ends)
        })
        .collect();
    ipv4.sort_by(|a, b| a.words.cmp(&b.words));
    ipv6.sort_by(|a, b| a.words.cmp(&b.words));
    Ok(vec![("CONNTRACK4", state.conntrack4.id(), ipv4), ("CONNTRACK6", state.conntrack6.id(), ipv6)])
}

/// ADDRESS, PROTOCOL, PEERS:PORT, DIFFERENT VERDICTS.
fn service(key: &ServiceKey, value: &ServiceValue) -> MapRow {
    let address = ip(&key.address).map_or_else(|| "::".to_owned(), |address| address.to_string());
    let address = if address.contains(':') { format!("[{address}]") } else { address };
    let ServiceTargets { list, count, flags, .. } = value.targets;
    let targets = if count == ServiceTargets::TOO_MANY {
        format!("more than {}", ServiceTargets::MOST)
    } else {
        let listed = list.iter().take(usize::from(count));
        listed.map(|one| format!("{}:{}", one.peer_class, one.port)).collect::<Vec<_>>().join(", ")
    };
    let deferred = flags & ServiceTargets::DEFERRABLE != 0;
    let words = vec![
        format!("{address}:{}", key.port),
        protocol(key.protocol),
        targets,
        if deferred { "told apart at the endpoint" } else { "denied" }.to_owned(),
    ];
    row(bytes_of(key), bytes_of(value), words)
}

/// The name of a protocol.
fn protocol(number: u8) -> String {
    match number {
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        132 => "SCTP".to_owned(),
        1 | 58 => "ICMP".to_owned(),
        other => other.to_string(),
    }
}

fn row(key: &[u8], value: &[u8], words: Vec<String>) -> MapRow {
    MapRow { key_hex: hex(key), value_hex: hex(value), pods: Vec::new(), words }
}

/// How policies stand to a pod. The device says whether there are rules, the compilation whose they are.
pub(super) fn posture(
    rulesets: Option<&Rulesets>,
    pod: &ObjectKey,
    word: Word,
    direction: Direction,
) -> Posture {
    if !word.isolated(direction) {
        return Posture::Open;
    }
    let compiled = rulesets.and_then(|rulesets| rulesets.posture_of(pod, direction));
    compiled.filter(|posture| *posture != Posture::Open).unwrap_or(Posture::Isolated)
}

fn direction(number: u8) -> &'static str {
    if number == Direction::Ingress as u8 { "ingress" } else { "egress" }
}

impl Words<'_> {
    /// RULESET, DIRECTION, PORTS, PEERS, VERDICT, ENTRY, BECAUSE.
    fn policy(&self, key: &PolicyKey, value: &PolicyValue) -> MapRow {
        let verdict = match value.verdict {
            PolicyValue::ALLOW => "allow",
            PolicyValue::DENY => "deny",
            _ => "nonsense",
        };
        let built_in = key.ruleset == PolicyKey::FIXED;
        let class =
            |number: u32| if built_in || key.peer_class == 0 { "-".to_owned() } else { number.to_string() };
        MapRow {
            key_hex: hex(bytes_of(key)),
            value_hex: hex(bytes_of(value)),
            pods: self.by_ruleset.get(&key.ruleset).cloned().unwrap_or_default(),
            words: vec![
                key.ruleset.to_string(),
                direction(key.direction).to_owned(),
                class(key.port_class.into()),
                class(key.peer_class),
                verdict.to_owned(),
                value.entry.to_string(),
                self.entry(value.entry),
            ],
        }
    }

    /// What an entry stands for.
    fn entry(&self, entry: u32) -> String {
        if let Some(reason) = Reason::from_entry(entry) {
            return reason.describe().to_owned();
        }
        let entry = self.slots.and_then(|slots| slots.entry(entry, u32::MAX)).unwrap_or(entry);
        match self.rulesets.and_then(|rulesets| rulesets.cite(entry)) {
            Some(citation) => citation.because(),
            None => "an entry of an earlier change".to_owned(),
        }
    }

    /// PROTOCOL, POD, PEER, OPENED, ENTRY.
    fn flow(
        key: &[u8],
        flow: &netlab_ebpf::abi::Flow,
        number: u8,
        (local, remote): (String, String),
    ) -> MapRow {
        let protocol = protocol(number);
        let opener = if flow.opener == Direction::Ingress as u8 { "peer" } else { "pod" };
        let words = vec![protocol, local, remote, opener.to_owned(), flow.entry.to_string()];
        row(key, bytes_of(flow), words)
    }
}
