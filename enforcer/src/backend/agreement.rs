//! Whether a kernel datapath decides as the tables do: many real packets, and the entries that counted them.
//!
//! Invariant: the prediction is the host engine's, made before anything is sent; what is compared is which entries
//! counted, so a right verdict by a wrong entry is a disagreement too. A packet that egress denies must reach no
//! ingress. Compiled entries must count exactly what was predicted; built-in ones at least that, since answers
//! and the namespaces' own chatter count there as well.
//!
//! What it does not know: which flows are there already. A packet without ports opens a flow of all of its protocol
//! between two addresses, so a second one, or one the other way, asks about that flow; see [`opens_for_good`].

use std::collections::BTreeMap;

use netlab_core::model::cluster::Cluster;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::query::{End, Pair};
use netlab_core::policy::trial::Trial;
use netlab_ebpf::reason::{FIRST_COMPILED_ENTRY, Reason};
use netlab_lab::{Lab, LabError, Place};

use super::wire::{Sender, WireError, count};

/// Packets that are counted together. More are faster, fewer are quicker to search when one is wrong.
const TOGETHER: usize = 64;
/// Source ports of packets begin here.
const FIRST_SOURCE_PORT: u16 = 10_000;
/// Source ports of packets that are asked about once more, alone.
const FIRST_ALONE_PORT: u16 = 40_000;

/// The source ports to use next. Whoever asks one lab again passes the same ones on, so that no packet is one of a
/// flow that an earlier packet opened.
#[derive(Clone, Debug)]
pub struct SourcePorts {
    together: u16,
    alone: u16,
}

impl Default for SourcePorts {
    fn default() -> Self {
        Self { together: FIRST_SOURCE_PORT, alone: FIRST_ALONE_PORT }
    }
}

/// One packet to send, and the entries that must count it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shot {
    /// Where it is sent.
    pub place: Place,
    /// The packet.
    pub pair: Pair,
    /// The source's entry, and the destination's if the packet gets there.
    pub entries: Vec<u32>,
}

/// A packet that the kernel counted otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// What was sent and predicted.
    pub shot: Shot,
    /// The entries that moved when it was sent alone.
    pub counted: BTreeMap<u32, u64>,
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shot { place, pair, entries } = &self.shot;
        write!(
            f,
            "{place} sends {} -> {} protocol {} port {}: the tables say entries {entries:?}, the kernel counted {:?}",
            pair.tuple.source,
            pair.tuple.destination,
            pair.tuple.protocol,
            pair.tuple.destination_port,
            self.counted
        )
    }
}

/// Why packets could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgreementError {
    /// A place is not in the lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A packet could not be sent.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Counters could not be read.
    #[error("cannot read the counters: {0}")]
    Counters(String),
}

/// True for a protocol without ports: nothing tells a packet from the next one between the same addresses, so that a
/// lab can be asked only once, in one direction, until its policy changes.
pub const fn opens_for_good(protocol: u8) -> bool {
    !matches!(protocol, 6 | 17 | 132)
}

/// What a pair's packet must count; `None` for one that passes no hook, or whose sender is not in the lab.
pub fn shot(lab: &Lab, cluster: &Cluster, trial: &Trial, pair: &Pair) -> Option<Shot> {
    let place = match &pair.from {
        End::Pod(key) => Place::Pod(key.clone()),
        End::Node(name) => Place::Node(name.clone()),
        End::Address(address) => lab.plan().place_of(*address).cloned().unwrap_or(Place::Fabric),
    };
    lab.netns(&place).ok()?;
    let mut entries = Vec::new();
    for hop in trial.hops(cluster, pair).into_iter().flatten() {
        if hop.reason == Reason::Itself {
            return None;
        }
        entries.push(hop.entry);
        if hop.verdict == Verdict::Deny {
            break;
        }
    }
    (!entries.is_empty()).then(|| Shot { place, pair: pair.clone(), entries })
}

/// Sends every shot and gives those that the kernel counted otherwise. `counters` reads packets by entry over all
/// nodes of the lab. Of shots that [open for good](opens_for_good) there must be one for two addresses.
///
/// # Errors
/// [`AgreementError`] when something could not be sent or read.
pub fn disagreements(
    lab: &Lab,
    counters: &mut dyn FnMut() -> Result<BTreeMap<u32, u64>, String>,
    shots: &[Shot],
    ports: &mut SourcePorts,
) -> Result<Vec<Disagreement>, AgreementError> {
    let mut senders = BTreeMap::new();
    for shot in shots {
        if !senders.contains_key(&shot.place) {
            senders.insert(shot.place.clone(), Sender::open(lab.netns(&shot.place)?)?);
        }
    }
    let mut volley = |shots: &[Shot], first_port: u16| {
        let predicted = predicted(shots);
        let reached = |counted: &BTreeMap<u32, u64>| {
            predicted.iter().all(|(entry, packets)| counted.get(entry).is_some_and(|now| now >= packets))
        };
        let mut read = || counters().map_err(AgreementError::Counters);
        let counted = count(&mut read, reached, || {
            for (shot, port) in shots.iter().zip(first_port..) {
                let tuple = netlab_core::policy::frame::Tuple { source_port: port, ..shot.pair.tuple };
                if let Some(sender) = senders.get(&shot.place) {
                    sender.send(&tuple)?;
                }
            }
            Ok(())
        })?;
        Ok::<_, AgreementError>((agrees(&predicted, &counted), counted))
    };
    let mut found = Vec::new();
    let (alone, many): (Vec<Shot>, Vec<Shot>) =
        shots.iter().cloned().partition(|shot| opens_for_good(shot.pair.tuple.protocol));
    for shot in alone {
        let (agreed, counted) = volley(std::slice::from_ref(&shot), ports.alone)?;
        if !agreed {
            found.push(Disagreement { shot, counted });
        }
    }
    for together in many.chunks(TOGETHER) {
        let (agreed, _) = volley(together, ports.together)?;
        ports.together = next(ports.together, together.len(), FIRST_SOURCE_PORT..FIRST_ALONE_PORT);
        if agreed {
            continue;
        }
        for shot in together {
            let (agreed, counted) = volley(std::slice::from_ref(shot), ports.alone)?;
            ports.alone = next(ports.alone, 1, FIRST_ALONE_PORT..u16::MAX);
            if !agreed {
                found.push(Disagreement { shot: shot.clone(), counted });
            }
        }
    }
    Ok(found)
}

/// The port after `used` more, from the start again when the next volley would not fit.
fn next(port: u16, used: usize, range: std::ops::Range<u16>) -> u16 {
    let after = usize::from(port) + used;
    u16::try_from(after).ok().filter(|_| after + TOGETHER < usize::from(range.end)).unwrap_or(range.start)
}

fn predicted(shots: &[Shot]) -> BTreeMap<u32, u64> {
    let mut predicted = BTreeMap::new();
    for entry in shots.iter().flat_map(|shot| &shot.entries) {
        *predicted.entry(*entry).or_default() += 1;
    }
    predicted
}

fn agrees(predicted: &BTreeMap<u32, u64>, counted: &BTreeMap<u32, u64>) -> bool {
    let enough =
        predicted.iter().all(|(entry, packets)| counted.get(entry).copied().unwrap_or(0) >= *packets);
    let errors = [Reason::NoEntry, Reason::NotReady, Reason::Martian, Reason::Malformed].map(Reason::entry);
    let exact = counted
        .iter()
        .filter(|(entry, _)| **entry >= FIRST_COMPILED_ENTRY || errors.contains(entry))
        .all(|(entry, packets)| predicted.get(entry) == Some(packets));
    enough && exact
}

#[cfg(test)]
mod tests {
    use super::agrees;
    use std::collections::BTreeMap;

    #[test]
    fn compiled_entries_count_exactly_and_built_in_ones_at_least() {
        let map = |list: &[(u32, u64)]| list.iter().copied().collect::<BTreeMap<u32, u64>>();
        let predicted = map(&[(2, 1), (64, 2)]);
        assert!(agrees(&predicted, &map(&[(2, 3), (3, 9), (64, 2)])));
        assert!(!agrees(&predicted, &map(&[(2, 3), (64, 1)])), "too few");
        assert!(!agrees(&predicted, &map(&[(2, 3), (64, 3)])), "too many");
        assert!(!agrees(&predicted, &map(&[(2, 3), (64, 2), (65, 1)])), "another entry");
        assert!(!agrees(&predicted, &map(&[(64, 2)])), "no packet at all");
        assert!(!agrees(&predicted, &map(&[(2, 1), (64, 2), (16, 1)])), "no table row");
    }
}
