//! The programs on a pod's host-side interface.
//!
//! Invariant: both directions or none; first on their hooks when attached; gone when the value is dropped or the
//! process ends, since nothing but this descriptor holds the links. Others may put themselves before us later:
//! [`Attached::before_us`] tells. Needs a thread in the interface's network namespace.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use netlab_ebpf::abi::Direction;

use crate::bpf;
use crate::instance::Datapath;

/// `BPF_TCX_INGRESS`: what comes from the interface.
const TCX_INGRESS: u32 = 46;
/// `BPF_TCX_EGRESS`: what goes to it.
const TCX_EGRESS: u32 = 47;

/// The hook of a direction, seen from the pod: what it sends comes in by its host-side interface.
const fn hook(direction: Direction) -> u32 {
    match direction {
        Direction::Egress => TCX_INGRESS,
        Direction::Ingress => TCX_EGRESS,
    }
}

/// A claimed interface. Dropping it lets go.
#[derive(Debug)]
pub struct Attached {
    interface: String,
    ifindex: u32,
    programs: [(Direction, u32); 2],
    _links: [Link; 2],
}

/// A link that is off its hook once it is dropped. Closing the descriptor alone takes it off only when nobody
/// else has it, and a child that is just being started may.
#[derive(Debug)]
struct Link(OwnedFd);

impl Drop for Link {
    fn drop(&mut self) {
        // It fails for an interface that is gone, where nothing is left to take off.
        let _ = bpf::detach(self.0.as_fd());
    }
}

/// A program on one of our hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The kernel's id.
    pub id: u32,
    /// The name that its owner gave it; empty when it cannot be asked.
    pub name: String,
}

impl Attached {
    pub(crate) fn new(interface: &str, datapath: &Datapath) -> Result<Self, AttachError> {
        let ifindex = nix::net::if_::if_nametoindex(interface)
            .map_err(|source| AttachError::NoInterface { interface: interface.to_owned(), source })?;
        let limit = datapath.policy().devices.table().max_entries();
        if ifindex >= limit {
            return Err(AttachError::Number { interface: interface.to_owned(), ifindex, limit });
        }
        let attach = |direction| {
            bpf::attach_first(datapath.program(direction).fd(), ifindex, hook(direction))
                .map(Link)
                .map_err(|source| AttachError::Refused { interface: interface.to_owned(), direction, source })
        };
        let links = [attach(Direction::Egress)?, attach(Direction::Ingress)?];
        let programs = [Direction::Egress, Direction::Ingress]
            .map(|direction| (direction, datapath.program(direction).id()));
        Ok(Self { interface: interface.to_owned(), ifindex, programs, _links: links })
    }

    /// The interface's number: the key of its record in `DEVICES`.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// The interface's name when it was claimed.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The programs that see a direction's packets before ours, in order. They may drop or redirect packets that
    /// we then never see.
    pub fn before_us(&self, direction: Direction) -> Result<Vec<Neighbour>, AttachError> {
        let ids = bpf::query(self.ifindex, hook(direction)).map_err(|source| AttachError::Refused {
            interface: self.interface.clone(),
            direction,
            source,
        })?;
        let ours = self.programs.iter().find(|(of, _)| *of == direction).map(|(_, id)| *id);
        if !ids.iter().any(|id| Some(*id) == ours) {
            return Err(AttachError::Gone { interface: self.interface.clone(), direction });
        }
        Ok(ids.into_iter().take_while(|id| Some(*id) != ours).map(neighbour).collect())
    }
}

fn neighbour(id: u32) -> Neighbour {
    let info = bpf::program_by_id(id).and_then(|program| bpf::program_info(program.as_fd()));
    let name = info.map_or_else(
        |_| String::new(),
        |info| {
            let end = info.name.iter().position(|byte| *byte == 0).unwrap_or(info.name.len());
            String::from_utf8_lossy(info.name.get(..end).unwrap_or_default()).into_owned()
        },
    );
    Neighbour { id, name }
}

/// Why an interface is not claimed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No such interface here.
    #[error("there is no interface {interface} in this network namespace: {source}")]
    NoInterface {
        /// The interface.
        interface: String,
        /// The kernel's answer.
        source: nix::Error,
    },
    /// Its number is too large.
    #[error(
        "interface {interface} has number {ifindex}, but numbers must be below {limit}: load with larger sizes"
    )]
    Number {
        /// The interface.
        interface: String,
        /// Its number.
        ifindex: u32,
        /// How many records `DEVICES` holds.
        limit: u32,
    },
    /// The kernel refused.
    #[error("cannot attach to {interface} ({direction:?}); tcx needs Linux 6.6: {source}")]
    Refused {
        /// The interface.
        interface: String,
        /// Which hook.
        direction: Direction,
        /// The kernel's answer.
        source: io::Error,
    },
    /// We are not there any more.
    #[error("our program is no longer on {interface} ({direction:?}): somebody detached it")]
    Gone {
        /// The interface.
        interface: String,
        /// Which hook.
        direction: Direction,
    },
}
