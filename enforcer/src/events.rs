//! The ring of decisions.
//!
//! Invariant: events come in the order in which they were decided; what did not fit is counted by the program
//! ([`crate::maps::StateMaps::lost_events`]), never silently gone. One reader per ring: reading consumes.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use aya::maps::{Map, MapData, MapError, RingBuf};
use netlab_ebpf::abi::Event;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::maps::pod::from_bytes;

/// The reader of an instance's events.
pub struct Events {
    ring: RingBuf<MapData>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl AsFd for Events {
    /// Readable when there is an event: to wait for several rings at once.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl Events {
    pub(crate) fn new(fd: &OwnedFd) -> Result<Self, EventError> {
        let map = MapData::from_fd(fd.try_clone().map_err(EventError::Wait)?)?;
        Ok(Self { ring: RingBuf::try_from(Map::RingBuf(map))? })
    }

    /// The next event, if there is one.
    pub fn next_event(&mut self) -> Option<Event> {
        let record = self.ring.next()?;
        from_bytes(&record)
    }

    /// The next event, waiting for one until `timeout` has passed.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Event>, EventError> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(event) = self.next_event() {
                return Ok(Some(event));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // Rounded up: a wait of nothing would spin.
            let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            let mut fds = [PollFd::new(self.ring.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::from(milliseconds)) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(EventError::Wait(error.into())),
            }
        }
    }

    /// All events that are there now.
    pub fn drain(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next_event()).collect()
    }
}

/// Why events cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The ring cannot be mapped.
    #[error("cannot read the event ring: {0}")]
    Ring(#[from] MapError),
    /// It cannot be waited for.
    #[error("cannot wait for events: {0}")]
    Wait(io::Error),
}
