//! What a lab knows besides what is seen in the namespaces of a pod and its node: the DNS pods' log, and numbers that a
//! namespace has none of its own of.
//!
//! Invariant: a number is emulated only while the fault that emulates it is in, by the very rule that does: the limit of a full
//! connection table (`ct count over N`, because `nf_conntrack_max` is the machine's), the packets that a provider's limit has
//! dropped (`limit rate over`, because a virtual link has no allowance), and the halves of races that were lost (kernels of today
//! lose none).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use netlab_dnsdiag::gather::Found;
use netlab_lab::named::Client;
use netlab_node::{Netns, dump};
use serde_json::Value;

use super::{Elsewhere, Numbers};
use crate::lab::operation;

/// The counter of Amazon's driver for packets to its resolver above the limit, as `ethtool -S` has it.
const ALLOWANCE: &str = "ethtool.eth0.linklocal_allowance_exceeded";

/// A lab's supervisor, and the namespaces in which emulated limits are counted.
pub(super) struct Supervisor {
    node_name: String,
    node: Option<Netns>,
    fabric: Netns,
    client: Mutex<Client>,
}

impl Supervisor {
    pub(super) const fn new(node_name: String, node: Option<Netns>, fabric: Netns, client: Client) -> Self {
        Self { node_name, node, fabric, client: Mutex::new(client) }
    }
}

impl Elsewhere for Supervisor {
    fn log(&self) -> Found {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        match client.ask(operation::LOG, Value::Null) {
            Ok(Value::String(text)) => Found::Text(text),
            Ok(_) => Found::Failed("the lab's supervisor is of another netlab".to_owned()),
            Err(error) => Found::Failed(error.to_string()),
        }
    }

    fn counters(&self) -> Numbers {
        let mut of_node = BTreeMap::new();
        let full = self.node.as_ref().and_then(|node| limit(node, "conntrack-full"));
        if let Some(Limit { most: Some(most), dropped }) = full {
            // The rule counts what it drops, too, before the table has it: while it drops, the table stands for a full one.
            if dropped > 0.0 {
                of_node.insert("conntrack.count".to_owned(), most);
            }
            of_node.insert("conntrack.max".to_owned(), most);
            of_node.insert("conntrack.drop".to_owned(), dropped);
        }
        // A kernel counts the half of a race that it drops; so does the rule that emulates one.
        if let Some(limit) = self.node.as_ref().and_then(|node| limit(node, "lost-twin")) {
            of_node.insert("conntrack.insert_failed".to_owned(), limit.dropped);
        }
        if let Some(limit) = limit(&self.fabric, "upstream-limit") {
            of_node.insert(ALLOWANCE.to_owned(), limit.dropped);
        }
        if of_node.is_empty() { Numbers::new() } else { Numbers::from([(self.node_name.clone(), of_node)]) }
    }
}

/// A limit that a fault's rule keeps.
struct Limit {
    /// `ct count over N`.
    most: Option<f64>,
    /// What the rule has counted.
    dropped: f64,
}

/// The rule of a fault, by the table that is named after it.
fn limit(netns: &Netns, fault: &str) -> Option<Limit> {
    let ruleset: Value = serde_json::from_str(&dump::nft_ruleset(netns).ok()?).ok()?;
    let table = format!("netlab-fault-{fault}");
    let rules = ruleset["nftables"].as_array()?.iter().filter_map(|one| one.get("rule"));
    let mut of_it = rules.filter(|rule| rule["table"] == *table).filter_map(|rule| rule["expr"].as_array());
    of_it.find_map(|expressions| {
        let find = |pointer: &str| expressions.iter().find_map(|one| one.pointer(pointer)?.as_f64());
        Some(Limit { most: find("/ct count/val"), dropped: find("/counter/packets")? })
    })
}
