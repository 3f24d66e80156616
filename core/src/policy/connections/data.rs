//! A list of connections as data, and what it comes to.
//!
//! Invariant: whatever a table, a truth table or a note says of a list is in its data too, as a value of its own and not
//! only to be counted: the summary, ties, open blocks, and which pairs were looked at at all.

use std::collections::BTreeSet;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{Allowed, Connections, OpenBlock};
use crate::policy::provenance::RuleRef;

/// What a list comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How many workloads there are.
    pub workloads: usize,
    /// How many ordered pairs of workloads were looked at.
    pub pairs: usize,
    /// How many of these have something allowed.
    pub allowed: usize,
    /// How many pairs of a workload and addresses outside have.
    pub allowed_outside: usize,
    /// See [`Connections::isolated`].
    pub isolated: ByDirection<usize>,
    /// See [`Connections::tiers`].
    pub tiers: ByDirection<usize>,
}

/// A value for each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ByDirection<T> {
    /// What comes in.
    pub ingress: T,
    /// What goes out.
    pub egress: T,
}

impl<T> From<[T; 2]> for ByDirection<T> {
    fn from([ingress, egress]: [T; 2]) -> Self {
        Self { ingress, egress }
    }
}

impl Connections {
    /// The list in numbers.
    pub fn summary(&self) -> Summary {
        let workloads = self.workloads().len();
        let inside = |pair: &&super::Connection| pair.from() < workloads && pair.to() < workloads;
        let allowed = self.list.iter().filter(inside).count();
        Summary {
            workloads,
            pairs: self.workload_pairs,
            allowed,
            allowed_outside: self.list.len() - allowed,
            isolated: self.isolated.into(),
            tiers: self.tiers.into(),
        }
    }
}

/// Which pairs and ports were looked at; `null` is all.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    from: Option<Vec<&'a str>>,
    to: Option<Vec<&'a str>>,
    about: Option<Vec<&'a str>>,
    ports: Option<&'a Allowed>,
    ports_of: Vec<PortsOf<'a>>,
}

#[derive(serde::Serialize)]
struct PortsOf<'a> {
    to: &'a str,
    ports: &'a Allowed,
}

impl<'a> Asked<'a> {
    fn of(all: &'a Connections) -> Self {
        let id = |position: &usize| all.peers.get(*position).map(|peer| peer.id.as_str());
        let ids = |set: &Option<BTreeSet<usize>>| set.as_ref().map(|set| set.iter().filter_map(id).collect());
        let ports_of = all.chosen.ports.iter();
        Self {
            from: ids(&all.chosen.from),
            to: ids(&all.chosen.to),
            about: ids(&all.chosen.about),
            ports: all.asked.as_ref(),
            ports_of: ports_of.filter_map(|(to, ports)| Some(PortsOf { to: id(to)?, ports })).collect(),
        }
    }
}

#[derive(serde::Serialize)]
struct Line<'a> {
    from: &'a str,
    to: &'a str,
    allowed: &'a Allowed,
}

struct Lines<'a>(&'a Connections);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(all) = self;
        serializer.collect_seq(all.list.iter().map(|connection| Line {
            from: &all.peers[connection.from()].id,
            to: &all.peers[connection.to()].id,
            allowed: all.allowed(connection),
        }))
    }
}

/// `{summary, asked, peers, connections, ties, openBlocks}`.
impl Serialize for Connections {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut answer = serializer.serialize_struct("Connections", 6)?;
        answer.serialize_field("summary", &self.summary())?;
        answer.serialize_field("asked", &Asked::of(self))?;
        answer.serialize_field("peers", &self.peers)?;
        answer.serialize_field("connections", &Lines(self))?;
        answer.serialize_field("ties", &self.ties)?;
        answer.serialize_field("openBlocks", &self.open_blocks)?;
        answer.end()
    }
}

/// `{rule, cidr, except, workloads, inside}`.
impl Serialize for OpenBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Data<'a> {
            rule: &'a RuleRef,
            cidr: String,
            except: Vec<String>,
            workloads: &'a [String],
            inside: bool,
        }
        let data = Data {
            rule: &self.rule,
            cidr: self.block.cidr.to_string(),
            except: self.block.except.iter().map(ToString::to_string).collect(),
            workloads: &self.workloads,
            inside: self.inside,
        };
        data.serialize(serializer)
    }
}
