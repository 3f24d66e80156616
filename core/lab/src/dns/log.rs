//! What the cluster's servers write, in the form of `CoreDNS`.
//!
//! Sources: its plugins `log` (one line for each answer, the `common` format of `plugin/log/setup.go`) and `errors` (one line for
//! each failure of a plugin, `plugin/errors/errors.go`). Invariant: only what happened is written, and the oldest lines go when
//! there are too many.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::message::{Asked, Said};
use super::script::Transport;

/// Lines that are kept.
const MOST: usize = 2_000;

/// A log that servers share.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    shared: Arc<Mutex<Lines>>,
    /// How often it had been cleared when this began to be written.
    begun: u64,
}

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<String>,
    cleared: u64,
}

/// An answer that was given.
pub(super) struct Answered<'a> {
    pub(super) client: SocketAddr,
    pub(super) asked: &'a Asked,
    pub(super) said: &'a Said,
    pub(super) transport: Transport,
    /// Bytes of the answer.
    pub(super) bytes: usize,
    pub(super) took: Duration,
}

impl Log {
    pub(super) fn text(&self) -> String {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// Begins anew; what comes of earlier questions is not written any more.
    pub(super) fn clear(&self) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.lines.clear();
        shared.cleared += 1;
    }

    /// For questions that come now.
    pub(super) fn now(&self) -> Self {
        let begun = self.shared.lock().unwrap_or_else(PoisonError::into_inner).cleared;
        Self { shared: Arc::clone(&self.shared), begun }
    }

    fn write(&self, line: String) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.cleared != self.begun {
            return;
        }
        if shared.lines.len() >= MOST {
            shared.lines.pop_front();
        }
        shared.lines.push_back(line);
    }

    pub(super) fn answered(&self, of: &Answered<'_>) {
        let Answered { client, asked, said, transport, bytes, took } = of;
        let protocol = match transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        let rcode = match said.rcode {
            0 => "NOERROR",
            1 => "FORMERR",
            2 => "SERVFAIL",
            3 => "NXDOMAIN",
            4 => "NOTIMP",
            5 => "REFUSED",
            _ => "-",
        };
        let aa = if said.authoritative { ",aa" } else { "" };
        let ra = if said.recursive { ",ra" } else { "" };
        self.write(format!(
            "[INFO] {client} - {} \"{} IN {} {protocol} {} false {}\" {rcode} qr{aa},rd{ra} {bytes} {:.9}s",
            asked.id(),
            asked.kind,
            asked.name,
            asked.length(),
            asked.takes(),
            took.as_secs_f64()
        ));
    }

    /// A plugin failed over a question.
    pub(super) fn failed(&self, name: &str, kind: &str, why: &str) {
        self.write(format!("[ERROR] plugin/errors: 2 {name} {kind}: {why}"));
    }
}
