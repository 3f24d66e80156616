//! The same tables as nftables rules: a second, independent kernel datapath, which also works without root in a
//! user namespace.
//!
//! # Where a packet is judged
//! For routed pods, in one table of the `inet` family:
//! - a pod's **egress** in `prerouting` at priority -150, for packets that enter by the pod's interface: after
//!   connection tracking (-200), so the flow is known; before destination NAT (-100), so the pod is judged by the
//!   address that it meant. The packet has been reassembled by then.
//! - a pod's **ingress** in `postrouting` at priority 150, for packets that leave by the pod's interface: after
//!   both NATs (source NAT is at 100), so the pod is judged by the source that it will see.
//!
//! A packet between two pods of the node passes both; a hairpin passes both for one pod.
//!
//! # How
//! The interface picks the pod's chain, which settles what no policy decides (foreign sources, neighbour
//! discovery, the pod itself). Then, by the direction in which the packet's flow was *opened*, the ruleset's
//! chain for that direction finds the peer's address in an interval map (the longest-prefix table, flattened),
//! which leads to the chain of the table's row, and that finds the port and goes to `eN_own`: the chain of entry
//! N, which counts `entry_N` and gives the verdict.
//!
//! **Every packet is judged by the rules that are in force now**, also one of an established flow: a reply is
//! looked up by the tuple that connection tracking keeps of the opener's packet, as the pod saw it (`ct original`
//! for a flow that the pod opened, `ct reply` for one that came to it). So a change cuts a flow at its next
//! packet, from either side, and no mark has to be trusted, aged or forged. A packet that opens nothing new
//! counts as `entry_3` (part of an allowed flow) while the entry allows it, as `judge` has it; a bare SYN, an
//! SCTP INIT and any ICMP but an echo reply is always judged in its own direction. ICMP errors pass iff the flow that they quote is allowed.
//!
//! **The node's own packets** are those that have no input interface in `postrouting` (`iif 0`): whatever a pod
//! or another host sent entered by an interface, and the kernel keeps that through routing, NAT and reassembly;
//! addresses and marks are not asked. So that the answers pass too, a flow that the node opens gets a connection
//! label, which nobody without `CAP_NET_ADMIN` on the node can set.
//!
//! # What this does not model
//! - Bridged pods without `br_netfilter`: their packets do not come here.
//! - ARP and other frames that are not IP; entries `Frame` and `Fragment*` never count, since datagrams are
//!   reassembled first, and `Malformed` hardly ever, since the kernel drops such packets earlier.
//! - The mid-flow rule, which asks the pod for its sockets: TCP that connection tracking picks up in the middle gets
//!   a label of its own, and each of its packets is judged in its own direction. So does a segment that is held for
//!   invalid.
//! - Resets and errors that the node itself makes about a forwarded flow count as the node's.
//! - Connection tracking of the kernel is shared by both ends of a flow: a datagram that the sender's egress
//!   allows and the receiver's ingress denies stays new at both.
//!
//! Invariant: a change comes into force in one nftables transaction ([`transaction`] tells why there are two more);
//! every object is inside one table, whose name is the backend's; tearing down is deleting that table.

mod intervals;
mod listing;
mod program;
mod render;
mod transaction;

use std::collections::BTreeMap;

use netlab_node::Netns;
use netlab_plugin::admission::{Admission, Admitted, admissible_generation, applied};
use netlab_plugin::contract::{
    Applied, Backend, BackendError, Blame, Capabilities, Change, Leftover, Observation,
};

use self::listing::Listing;
pub use self::program::NftError;
use self::program::{Nft, find};
use self::render::{Script, Side, render};
use crate::bpf;
use crate::error::EnforceError;

/// The table's name unless told otherwise.
pub const DEFAULT_TABLE: &str = "netlab";
/// The connection label of flows that the node opened, unless told otherwise.
pub const DEFAULT_NODE_LABEL: u8 = 126;

/// Everything that a change can use, for a trial without consequences.
const TRIAL: &str = "table inet netlab_trial {
counter c {
}
chain t {
counter name c accept
}
map m {
type ipv4_addr : verdict
flags interval
elements = { 0.0.0.0-255.255.255.255 : goto t }
}
chain p {
type filter hook postrouting priority 150; policy accept;
iif 0 ct state new ct label set 1
ct status confirmed sctp chunk init exists counter name c
ct reply ip daddr vmap @m
}
}
";

/// Enforcement by nftables in one network namespace.
#[derive(Debug)]
pub struct NftBackend {
    nft: Nft,
    table: String,
    node_label: u8,
    admission: Admission,
    programmed: Option<Programmed>,
}

/// What this process wrote, and what the kernel listed right after.
#[derive(Debug)]
struct Programmed {
    script: Script,
    /// `None` when it could not be read then.
    listing: Option<Listing>,
}

impl NftBackend {
    /// A backend in the namespace of the calling thread.
    pub fn here() -> Self {
        Self::with(None)
    }

    /// A backend in another namespace. Pods' interfaces are looked for there.
    pub fn inside(netns: Netns) -> Self {
        Self::with(Some(netns))
    }

    fn with(netns: Option<Netns>) -> Self {
        Self {
            nft: Nft::new(netns),
            table: DEFAULT_TABLE.to_owned(),
            node_label: DEFAULT_NODE_LABEL,
            admission: Admission::default(),
            programmed: None,
        }
    }

    /// Another table name, so that two can live in one namespace.
    ///
    /// # Errors
    /// [`BackendError`] when nftables would not take it for an identifier.
    pub fn table(mut self, name: &str) -> Result<Self, BackendError> {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty()
            || name.len() > 64
            || !name.chars().all(letters)
            || !name.starts_with(char::is_alphabetic)
        {
            return Err(BackendError {
                message: format!("{name:?} is no name for an nftables table"),
                hint: Some("use a letter, then letters, digits and _, at most 64".to_owned()),
                blame: Blame::Input,
                retry: false,
            });
        }
        name.clone_into(&mut self.table);
        Ok(self)
    }

    /// Another connection label (0 to 127) for flows that the node opens. Its neighbour (the number with the last bit
    /// turned) is taken too, for TCP that was picked up in the middle.
    #[must_use]
    pub const fn node_label(mut self, label: u8) -> Self {
        self.node_label = if label < 128 { label } else { DEFAULT_NODE_LABEL };
        self
    }

    /// The transaction that would make `change` the only content of the table, for people to read.
    pub fn script(&self, change: &Change) -> String {
        let script = render(change, Side::A, self.node_label);
        transaction::whole(&self.table, change.generation, &script, None)
    }

    /// Packets by entry, without looking at anything else.
    ///
    /// # Errors
    /// [`NftError`] when the kernel cannot be read.
    pub fn counters(&self) -> Result<BTreeMap<u32, u64>, NftError> {
        let text = self.nft.list_counters(&self.table)?;
        Ok(text.map(|text| Listing::parse(&text)).transpose()?.unwrap_or_default().counters)
    }

    fn list(&self) -> Result<Option<Listing>, NftError> {
        self.nft.list(&self.table)?.map(|text| Listing::parse(&text)).transpose()
    }

    /// Makes a change the one in force. `whole` when what is there may not be trusted.
    fn program(
        &mut self,
        change: &Change,
        present: Option<&Listing>,
        whole: bool,
    ) -> Result<(), BackendError> {
        let former = present.and_then(Listing::side);
        let side = former.map_or(Side::A, Side::other);
        let script = render(change, side, self.node_label);
        let (table, generation) = (self.table.as_str(), change.generation);
        match present.filter(|listing| !whole && listing.has_frame()) {
            None => self.nft.commit(&transaction::whole(table, generation, &script, present))?,
            Some(present) => {
                self.nft.commit(&transaction::build(table, side, &script, present))?;
                let flipped = wait().and_then(|()| {
                    Ok(self.nft.commit(&transaction::flip(table, generation, &script, present))?)
                });
                if let Err(error) = flipped {
                    // Nothing leads there; what cannot be deleted goes when the side is built again.
                    if let Ok(Some(present)) = self.list() {
                        let mut text = String::new();
                        transaction::remove_side(&mut text, table, side, &present);
                        let _ = self.nft.commit(&text);
                    }
                    return Err(error);
                }
                // From here on the change is in force; what is stale is left for the next one.
                if wait().is_ok() {
                    let _ = self.nft.commit(&transaction::clean(table, side.other(), &script, present));
                }
            }
        }
        let listing = self.list().ok().flatten();
        self.admission.record(change);
        self.programmed = Some(Programmed { script, listing });
        Ok(())
    }

    fn drift(&self, present: &Listing) -> Vec<String> {
        match &self.programmed {
            None => vec![format!(
                "table inet {} holds generation {} of another process: what was asked for is not known here",
                self.table, present.generation
            )],
            Some(programmed) => {
                let mut drift =
                    programmed.listing.as_ref().map_or(Vec::new(), |before| present.differences(before));
                for deviation in present.deviations(&programmed.script) {
                    if !drift.contains(&deviation) {
                        drift.push(deviation);
                    }
                }
                drift
            }
        }
    }
}

/// Waits until no packet is on its way that was when this was called.
fn wait() -> Result<(), BackendError> {
    bpf::wait_for_readers().map_err(|source| EnforceError::Grace(source).into())
}

impl Backend for NftBackend {
    fn probe(&self) -> Capabilities {
        let mut missing = Vec::new();
        if find().is_none() {
            missing.push(BackendError::from(NftError::Missing).message);
        } else if let Err(error) = self.nft.check(TRIAL) {
            let error = BackendError::from(error);
            let hint = error.hint.map_or(String::new(), |hint| format!(" ({hint})"));
            missing.push(format!("{}{hint}", error.message));
        }
        Capabilities { name: "nft".to_owned(), enforces: missing.is_empty(), missing, max_rows: None }
    }

    fn apply(&mut self, change: &Change) -> Result<Applied, BackendError> {
        let admitted = self.admission.admit(change)?;
        let present = self.list()?;
        if admitted == Admitted::Again {
            // Asking again for what is in force mends it where somebody else changed it.
            if !present.as_ref().is_some_and(|listing| self.drift(listing).is_empty()) {
                self.program(change, present.as_ref(), true)?;
            }
            return Ok(applied(change));
        }
        if let (None, Some(listing)) = (self.admission.in_force(), &present) {
            admissible_generation(listing.generation, change.generation)?;
        }
        self.program(change, present.as_ref(), false)?;
        Ok(applied(change))
    }

    fn observe(&mut self) -> Result<Observation, BackendError> {
        match self.list()? {
            Some(listing) => Ok(Observation {
                generation: listing.generation,
                drift: self.drift(&listing),
                counters: listing.counters,
            }),
            None if self.programmed.is_some() => Ok(Observation {
                generation: 0,
                counters: BTreeMap::new(),
                drift: vec![format!("table inet {} is gone", self.table)],
            }),
            None => Ok(Observation::default()),
        }
    }

    fn teardown(&mut self) -> Vec<Leftover> {
        self.admission.clear();
        self.programmed = None;
        // `add` first: deleting a table that is not there would be an error.
        match self.nft.commit(&format!("add table inet {0}\ndelete table inet {0}\n", self.table)) {
            // Without the program nothing can have been made.
            Ok(()) | Err(NftError::Missing) => Vec::new(),
            Err(error) => vec![Leftover {
                what: format!("nftables table inet {}", self.table),
                why: BackendError::from(error).message,
            }],
        }
    }
}
