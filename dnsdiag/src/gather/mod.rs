//! Gathering: fills the evidence bag of a pod from where it stands.
//!
//! Invariant: what could not be looked at stays out of the bag, and is told in words; nothing is put in its place. Files come
//! first, because they say whom to ask; then the questions, all at once; then what the answers leave open: what was silent
//! again, with more patience, what was cut over TCP, and whether a connection comes about.
//! Nothing is changed: no conntrack entry is flushed, no rule touched. The seams are [`Files`] and [`Prober`]: a live cluster
//! answers the same two traits.

mod follow;
mod local;
mod manifests;
mod questions;
mod rounds;
mod row;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use netlab_plugin::check::Target;
use netlab_plugin::evidence::{Counters, Evidence, Fact, Position, Reading};

use crate::bundle::Bundle;
use crate::bundle::layout::{self, Format};
use crate::probe::{Observation, Order, Probe};
use crate::resolv_conf::Dialect;
use crate::view::View;

pub use local::{LocalFiles, LocalProber, PodFiles};
pub use manifests::objects;
pub use questions::{Question, questions};

/// Where recorded files come from: a container, a node, manifests, an API server.
pub trait Files {
    /// The file of a bundle with that id ([`layout`]).
    fn read(&self, id: &str) -> Found;

    /// Numbers by owner (a node, or `pod/NAMESPACE/NAME`) and name, as they are now; asked before the probes and after.
    fn counters(&self) -> BTreeMap<String, BTreeMap<String, f64>> {
        BTreeMap::new()
    }
}

/// What looking for a file came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is there.
    Text(String),
    /// Somebody looked, and it is not there.
    Absent,
    /// Nobody looked: this place cannot tell.
    NotLooked,
    /// Somebody looked and was not allowed to, or failed; why.
    Failed(String),
}

/// Sends questions from a position in the network.
pub trait Prober: Send + Sync {
    /// The positions from which it can ask.
    fn positions(&self) -> Vec<Position>;

    /// Asks once and waits.
    ///
    /// # Errors
    /// In words, when nothing could be asked from there at all.
    fn ask(&self, from: &Position, probe: &Probe) -> Result<Observation, String>;

    /// Asks one server several questions over UDP from one socket, and waits; what becomes of each, in their order.
    ///
    /// # Errors
    /// In words, when nothing could be asked from there at all.
    fn ask_together(
        &self,
        from: &Position,
        probes: &[Probe],
        order: Order,
    ) -> Result<Vec<Observation>, String>;
}

/// Limits on what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Questions at most, retries included.
    pub questions: u32,
    /// How long the first round waits for each.
    pub patience: Duration,
    /// How long the second round waits for what was silent: a dead neighbour is told after 3.1 s.
    pub last_patience: Duration,
    /// The port to which a connection is tried at the addresses that the names resolve to; nothing is sent on it.
    pub connect: Option<u16>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            questions: 50,
            patience: Duration::from_millis(1_800),
            last_patience: Duration::from_millis(3_600),
            connect: None,
        }
    }
}

/// Files of a bundle that no live run reads: an application's words, what only other tools or other machines tell.
pub const NEVER_READ: [&str; 6] = [
    layout::SYMPTOM,
    layout::NODE_IPVS,
    layout::NODE_KERNEL_LOG,
    layout::NODELOCAL_COREFILE,
    layout::EVENTS,
    layout::DNS_METRICS,
];

/// The record type of a row that is no question but a connection to what DNS gave.
const CONNECT: &str = "connect";

/// What the questions leave behind is read after them: in the kernel, with the sockets that it may belong to, and in the servers'
/// log.
const AFTER_THE_QUESTIONS: [&str; 4] =
    [layout::NODE_CONNTRACK, layout::POD_SOCKETS, layout::DNS_LOG, layout::DNS_METRICS];

/// What was gathered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// The bundle, which replays to the same verdict.
    pub bundle: Bundle,
    /// What could not be looked at, and why.
    pub not_examined: Vec<String>,
    /// Questions sent.
    pub sent: u32,
    /// It was interrupted: answers that had not come by then are missing.
    pub interrupted: bool,
}

/// Gathers. `random` makes the names that no cache has seen; the same number gives the same questions. When `stop` becomes
/// true, what is known is given back at once.
pub fn gather(
    target: Target,
    files: &dyn Files,
    prober: &Arc<dyn Prober>,
    budget: &Budget,
    random: u64,
    stop: &Arc<AtomicBool>,
) -> Gathered {
    let mut gathered = Gathered::default();
    let mut facts = BTreeMap::new();
    let mut failed = Vec::new();
    let mut read = |id: &str, facts: &mut BTreeMap<String, Fact>| match files.read(id) {
        Found::Text(text) => drop(facts.insert(id.to_owned(), Fact::Text { text })),
        Found::Absent => drop(facts.insert(id.to_owned(), Fact::Absent)),
        Found::NotLooked => {}
        Found::Failed(why) => failed.push(format!("{id}: {why}")),
    };
    for file in layout::FILES {
        let is_text = matches!(file.format, Format::Text | Format::Objects);
        if is_text && !AFTER_THE_QUESTIONS.contains(&file.path) {
            read(file.path, &mut facts);
        }
    }
    let counters = files.counters();
    let mut evidence = Evidence { facts };
    let (asked, left_out, order) = {
        let view = View::new(&target, &evidence);
        let (asked, left_out) = questions(&view, &prober.positions(), budget, random);
        // glibc's `single-request`, which musl does not know.
        let one_by_one = view
            .conf()
            .is_some_and(|conf| matches!(conf.dialect, Dialect::Glibc(_)) && conf.options.single_request);
        (asked, left_out, if one_by_one { Order::OneByOne } else { Order::AtOnce })
    };
    gathered.not_examined.extend(left_out);
    let answered = rounds::ask(asked, prober, budget, order, random, stop);
    for id in AFTER_THE_QUESTIONS {
        read(id, &mut evidence.facts);
    }
    gathered.not_examined.extend(failed);
    if let Some(counters) = twice(&counters, files.counters()) {
        evidence.facts.insert(layout::COUNTERS.to_owned(), Fact::Counters(counters));
    }
    gathered.sent = answered.sent;
    gathered.interrupted = answered.interrupted;
    gathered.not_examined.extend(answered.failed);
    for (index, probe) in answered.rows.into_iter().enumerate() {
        let id = format!("{}#{}", layout::PROBES, index + 1);
        evidence.facts.insert(id, Fact::Probe(probe));
    }
    gathered.bundle = Bundle { target, evidence, ..Bundle::default() };
    gathered
}

/// The numbers before and after the probes; none when there are none.
fn twice(
    before: &BTreeMap<String, BTreeMap<String, f64>>,
    after: BTreeMap<String, BTreeMap<String, f64>>,
) -> Option<Counters> {
    let earlier = |owner: &str, name: &str| before.get(owner)?.get(name).copied();
    let by_owner: BTreeMap<_, BTreeMap<_, _>> = after
        .into_iter()
        .map(|(owner, counters)| {
            let read = |name: &str, value| match earlier(&owner, name) {
                Some(before) => Reading::Twice(before, value),
                None => Reading::Once(value),
            };
            let counters = counters.into_iter().map(|(name, value)| (name.clone(), read(&name, value)));
            (owner.clone(), counters.collect())
        })
        .collect();
    (!by_owner.is_empty()).then_some(Counters { by_owner })
}
