//! What goes over a lab's socket: one JSON object a line, descriptors beside it.
//!
//! A request is `{"operation": …, "parameters": …}`. The answer is any number of `{"event": …}` and then one
//! `{"result": …}` or `{"error": "…"}`.
//!
//! Invariant: a line is at most [`LONGEST`] bytes, so that no peer can make the other run out of memory.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// No line is longer.
pub(super) const LONGEST: usize = 64 << 20;

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) operation: String,
    #[serde(default)]
    pub(super) parameters: Value,
}

/// A line of an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    Event(Value),
    Result(Value),
    Error(String),
}

/// A stream of lines.
#[derive(Debug)]
pub(super) struct Lines {
    stream: UnixStream,
    buffer: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Lines {
    pub(super) const fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: Vec::new(), descriptors: Vec::new() }
    }

    pub(super) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends one line, and descriptors with its first byte.
    pub(super) fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        let raw: Vec<i32> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let mut rights = vec![ControlMessage::ScmRights(&raw)];
        if raw.is_empty() {
            rights.clear();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let sent = sendmsg::<()>(
                self.stream.as_raw_fd(),
                &[IoSlice::new(rest)],
                &rights,
                MsgFlags::MSG_NOSIGNAL,
                None,
            );
            match sent {
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    rights.clear();
                }
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Receives one line; `None` when the other side is done.
    pub(super) fn receive<T: for<'de> Deserialize<'de>>(&mut self) -> io::Result<Option<T>> {
        let mut searched = 0;
        loop {
            let unseen = self.buffer.get(searched..).unwrap_or_default();
            if let Some(end) = unseen.iter().position(|byte| *byte == b'\n').map(|at| at + searched) {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            searched = self.buffer.len();
            if searched > LONGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without end"));
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    /// The descriptors that came so far.
    pub(super) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut space = nix::cmsg_space!([i32; 8]);
        let mut chunk = [0; 16 * 1024];
        let (count, raw) = loop {
            let mut slices = [IoSliceMut::new(&mut chunk)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            match recvmsg::<()>(self.stream.as_raw_fd(), &mut slices, Some(&mut space), flags) {
                Ok(message) => {
                    let mut raw = Vec::new();
                    for control in message.cmsgs()? {
                        if let ControlMessageOwned::ScmRights(descriptors) = control {
                            raw.extend(descriptors);
                        }
                    }
                    break (message.bytes, raw);
                }
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        for descriptor in raw {
            // SAFETY: the kernel has just installed this descriptor for us (SCM_RIGHTS); nobody else knows it.
            self.descriptors.push(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        self.buffer.extend(chunk.get(..count).unwrap_or_default());
        Ok(count)
    }
}
