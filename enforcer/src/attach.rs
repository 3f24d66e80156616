//! The programs on a pod's host-side interface.
//!
//! Invariant: both directions or none; first on their hooks when attached. Without pins they are gone when the value is
//! dropped or the process ends, since nothing but this descriptor holds the links; with pins they stay until they are
//! released. Others may put themselves before us later: [`Attached::before_us`] tells. Needs a thread in the
//! interface's network namespace.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use netlab_ebpf::abi::Direction;

use crate::bpf;
use crate::instance::Datapath;
use crate::object::PROGRAMS;
use crate::pins::{Links, PinError, Pins};
use crate::update::step::{Step, Steps};

/// `BPF_TCX_INGRESS`: what comes from the interface.
const TCX_INGRESS: u32 = 46;
/// `BPF_TCX_EGRESS`: what goes to it.
const TCX_EGRESS: u32 = 47;

/// The hook of a direction, seen from the pod: what it sends comes in by its host-side interface.
pub(crate) const fn hook(direction: Direction) -> u32 {
    match direction {
        Direction::Egress => TCX_INGRESS,
        Direction::Ingress => TCX_EGRESS,
    }
}

/// A claimed interface. Dropping it lets go, unless it is pinned.
#[derive(Debug)]
pub struct Attached {
    interface: String,
    ifindex: u32,
    programs: [(Direction, u32); 2],
    links: [Link; 2],
}

/// A program's place on a hook.
#[derive(Debug)]
pub(crate) struct Link {
    fd: OwnedFd,
    /// Its name, when it is to outlive us.
    pin: Option<PathBuf>,
    origin: Origin,
}

/// What becomes of a link when its interface is not claimed after all.
#[derive(Debug)]
enum Origin {
    /// It was made for that: it goes.
    New,
    /// It is ours from before: it stays.
    Ours,
    /// It was another set's and gets that program back.
    Inherited(OwnedFd),
}

impl Drop for Link {
    /// Closing the descriptor alone takes a link off only when nobody else has it, and a child that is just being
    /// started may.
    fn drop(&mut self) {
        if self.pin.is_none() {
            // It fails for an interface that is gone, where nothing is left to take off.
            let _ = bpf::detach(self.fd.as_fd());
        }
    }
}

impl Link {
    /// A link that was pinned before; `runs` is the program of another set that it runs.
    pub(crate) fn pinned(fd: OwnedFd, pin: PathBuf, runs: Option<OwnedFd>) -> Self {
        Self { fd, pin: Some(pin), origin: runs.map_or(Origin::Ours, Origin::Inherited) }
    }

    /// True for one that runs `to_wire`.
    pub(crate) fn is_wire(&self) -> bool {
        let name = self.pin.as_ref().and_then(|pin| pin.file_name());
        name.is_some_and(|name| name.to_string_lossy().ends_with(PROGRAMS[2]))
    }

    /// Puts a program in the place of the one that runs now.
    pub(crate) fn run(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        bpf::update_link(self.fd.as_fd(), program)
    }

    /// True for a link of another set.
    pub(crate) fn is_inherited(&self) -> bool {
        matches!(self.origin, Origin::Inherited(_))
    }

    /// Takes the program off its hook, and the name away.
    pub(crate) fn release(mut self) {
        let _ = bpf::detach(self.fd.as_fd());
        if let Some(pin) = self.pin.take() {
            // A name that stays stands for a link without an interface, which the next to open the pins removes.
            let _ = std::fs::remove_file(pin);
        }
    }
}

/// Where links come from and go to, when they are pinned.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    pub(crate) pins: &'a Pins,
    /// Links that nobody claims.
    pub(crate) spare: &'a mut Links,
}

impl Hold<'_> {
    fn give_back(&mut self, ifindex: u32, direction: Direction, link: Link) {
        match &link.origin {
            Origin::New => return link.release(),
            Origin::Ours => {}
            Origin::Inherited(program) => {
                let _ = link.run(program.as_fd());
            }
        }
        self.spare.insert((ifindex, direction), link);
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
        Self::claim(interface, datapath, None, &Steps::default())
    }

    /// Claims an interface, by the links that are spare as far as there are some.
    pub(crate) fn claim(
        interface: &str,
        datapath: &Datapath,
        mut hold: Option<&mut Hold<'_>>,
        steps: &Steps,
    ) -> Result<Self, AttachError> {
        let ifindex = nix::net::if_::if_nametoindex(interface)
            .map_err(|source| AttachError::NoInterface { interface: interface.to_owned(), source })?;
        let limit = datapath.policy().devices.table().max_entries();
        if ifindex >= limit {
            return Err(AttachError::Number { interface: interface.to_owned(), ifindex, limit });
        }
        let egress = attach(interface, ifindex, Role::FromPod, datapath, hold.as_deref_mut())?;
        steps.done(Step::Attached);
        let links = match attach(interface, ifindex, Role::ToPod, datapath, hold.as_deref_mut()) {
            Ok(ingress) => [egress, ingress],
            Err(error) => {
                if let Some(hold) = hold {
                    hold.give_back(ifindex, Direction::Egress, egress);
                }
                return Err(error);
            }
        };
        steps.done(Step::Attached);
        Ok(Self::of(interface, ifindex, datapath, links))
    }

    /// An interface whose links are there already and run these programs; `None` when one of them is not.
    pub(crate) fn adopt(
        interface: &str,
        ifindex: u32,
        datapath: &Datapath,
        spare: &mut Links,
    ) -> Option<Self> {
        let keys = [(ifindex, Direction::Egress), (ifindex, Direction::Ingress)];
        if keys.iter().any(|key| spare.get(key).is_none_or(Link::is_inherited)) {
            return None;
        }
        let [egress, ingress] = keys.map(|key| spare.remove(&key));
        Some(Self::of(interface, ifindex, datapath, [egress?, ingress?]))
    }

    fn of(interface: &str, ifindex: u32, datapath: &Datapath, links: [Link; 2]) -> Self {
        let programs = [Direction::Egress, Direction::Ingress]
            .map(|direction| (direction, datapath.program(direction).id()));
        Self { interface: interface.to_owned(), ifindex, programs, links }
    }

    /// Once the claim is certain: links of other sets become ours.
    pub(crate) fn settle(&mut self, pins: &Pins) {
        for (link, (direction, _)) in self.links.iter_mut().zip(self.programs) {
            let ours = pins.link_path(self.ifindex, direction);
            if link.is_inherited() && link.pin.as_ref().is_some_and(|pin| std::fs::rename(pin, &ours).is_ok())
            {
                link.pin = Some(ours);
            }
            link.origin = Origin::Ours;
        }
    }

    /// Lets go, when the claim came to nothing.
    pub(crate) fn give_back(self, hold: Option<&mut Hold<'_>>) {
        let Some(hold) = hold else { return };
        for (link, (direction, _)) in self.links.into_iter().zip(self.programs) {
            hold.give_back(self.ifindex, direction, link);
        }
    }

    /// Lets go: the programs are off, pinned or not.
    pub(crate) fn release(self) {
        self.links.into_iter().for_each(Link::release);
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

/// A device by which packets leave the node, with our program on its hook. Dropping it lets go, unless it is pinned.
#[derive(Debug)]
pub(crate) struct Wire {
    interface: String,
    ifindex: u32,
    program: u32,
    link: Link,
}

impl Wire {
    /// Puts `to_wire` on the device, by a link that is spare if there is one.
    pub(crate) fn claim(
        interface: &str,
        datapath: &Datapath,
        mut hold: Option<&mut Hold<'_>>,
    ) -> Result<Self, AttachError> {
        let ifindex = nix::net::if_::if_nametoindex(interface)
            .map_err(|source| AttachError::NoInterface { interface: interface.to_owned(), source })?;
        let mut link = attach(interface, ifindex, Role::ToWire, datapath, hold.as_deref_mut())?;
        if let Some(hold) = hold.filter(|_| link.is_inherited()) {
            let ours = hold.pins.wire_path(ifindex);
            if link.pin.as_ref().is_some_and(|pin| std::fs::rename(pin, &ours).is_ok()) {
                link.pin = Some(ours);
            }
        }
        link.origin = Origin::Ours;
        Ok(Self { interface: interface.to_owned(), ifindex, program: datapath.to_wire().id(), link })
    }

    /// The device's name when it was claimed.
    pub(crate) fn interface(&self) -> &str {
        &self.interface
    }

    /// True while our program is on the hook.
    pub(crate) fn is_there(&self) -> bool {
        bpf::query(self.ifindex, TCX_EGRESS).is_ok_and(|ids| ids.contains(&self.program))
    }

    /// Lets go.
    pub(crate) fn release(self) {
        self.link.release();
    }
}

/// Which of our programs a hook gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    FromPod,
    ToPod,
    ToWire,
}

impl Role {
    const fn direction(self) -> Direction {
        match self {
            Self::FromPod => Direction::Egress,
            Self::ToPod | Self::ToWire => Direction::Ingress,
        }
    }
}

/// Our program on one hook: a spare link, or a new one.
fn attach(
    interface: &str,
    ifindex: u32,
    role: Role,
    datapath: &Datapath,
    hold: Option<&mut Hold<'_>>,
) -> Result<Link, AttachError> {
    let direction = role.direction();
    let refused = |source| AttachError::Refused { interface: interface.to_owned(), direction, source };
    let program = match role {
        Role::ToWire => datapath.to_wire().fd(),
        Role::FromPod | Role::ToPod => datapath.program(direction).fd(),
    };
    let Some(hold) = hold else {
        let fd = bpf::attach_first(program, ifindex, hook(direction)).map_err(refused)?;
        return Ok(Link { fd, pin: None, origin: Origin::New });
    };
    if let Some(link) = hold.spare.remove(&(ifindex, direction)) {
        match link.run(program) {
            Ok(()) => return Ok(link),
            // Its interface went, and another got the number; or somebody took it off.
            Err(error) if error.raw_os_error() == Some(libc::ENOLINK) => link.release(),
            Err(error) => {
                hold.spare.insert((ifindex, direction), link);
                return Err(refused(error));
            }
        }
    }
    let fd = bpf::attach_first(program, ifindex, hook(direction)).map_err(refused)?;
    let path = match role {
        Role::ToWire => hold.pins.wire_path(ifindex),
        Role::FromPod | Role::ToPod => hold.pins.link_path(ifindex, direction),
    };
    bpf::pin(fd.as_fd(), &path).map_err(|source| AttachError::Pin {
        interface: interface.to_owned(),
        source: Box::new(PinError::Io { action: "pin", path: path.clone(), source }),
    })?;
    Ok(Link { fd, pin: Some(path), origin: Origin::New })
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
    /// The link cannot be pinned.
    #[error("interface {interface}: {source}")]
    Pin {
        /// The interface.
        interface: String,
        /// Why.
        source: Box<PinError>,
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
