//! DNS servers in the lab: those of the cluster in its DNS pods, and those of the world outside in the fabric.
//!
//! [`Dns`] runs them; what they say is plain data ([`Book`]: rules, zones, servers above) that can be changed while they
//! run. Invariant: every socket is in the namespace of its place, so what a question meets on its way is the kernel's own
//! doing. Knows nothing of Services, pods' specs and kubelets: whoever does computes zones and files.

mod answer;
mod log;
mod message;
mod script;
mod server;
mod zone;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

pub use answer::Book;
pub use script::{Act, Names, Rule, Transport};
pub use zone::{Text, Zone, canonical};

use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;
use log::Log;
use server::Running;

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The cluster's.
    Cluster,
    /// One of the world outside, which the cluster's ask.
    Outside,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Where it runs.
    pub place: Place,
    /// Whose it is.
    pub role: Role,
    /// Addresses that it listens on.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// It listens on UDP.
    pub udp: bool,
    /// It listens on TCP.
    pub tcp: bool,
}

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Questions that came.
    pub asked: u64,
    /// Answers that left.
    pub answered: u64,
}

/// What all servers know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Books {
    /// The cluster's.
    pub cluster: Book,
    /// The world's.
    pub outside: Book,
}

/// Servers that run until this is dropped.
#[derive(Debug, Default)]
pub struct Dns {
    cluster: Arc<Mutex<Book>>,
    outside: Arc<Mutex<Book>>,
    /// Of the cluster's servers.
    log: Log,
    running: BTreeMap<Place, Running>,
}

impl Dns {
    /// Starts nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says from now on what these books say. Rules begin to count anew.
    pub fn set_books(&mut self, books: Books) {
        *self.cluster.lock().unwrap_or_else(PoisonError::into_inner) = books.cluster;
        *self.outside.lock().unwrap_or_else(PoisonError::into_inner) = books.outside;
    }

    /// What is said.
    pub fn books(&self) -> Books {
        let copy = |book: &Arc<Mutex<Book>>| book.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Books { cluster: copy(&self.cluster), outside: copy(&self.outside) }
    }

    /// Runs these servers and no others, one at a place. One that is as it was goes on.
    pub fn set_servers(&mut self, lab: &Lab, servers: &[Server]) -> Result<(), LabError> {
        self.running.retain(|_, running| servers.contains(&running.server));
        for server in servers.iter().filter(|server| server.udp || server.tcp) {
            if self.running.contains_key(&server.place) {
                continue;
            }
            let (book, log) = match server.role {
                Role::Cluster => (&self.cluster, self.log.clone()),
                // Nobody in a cluster can read theirs.
                Role::Outside => (&self.outside, Log::default()),
            };
            let running = Running::start(server, lab.netns(&server.place)?, book, &log)?;
            self.running.insert(server.place.clone(), running);
        }
        Ok(())
    }

    /// What the cluster's servers have written since the log was cleared, as `CoreDNS` with the plugins `log` and `errors`.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Begins the log anew.
    pub fn clear_log(&self) {
        self.log.clear();
    }

    /// The servers that run, and what they have counted.
    pub fn servers(&self) -> Vec<(Server, Counts)> {
        self.running.values().map(|running| (running.server.clone(), running.counts())).collect()
    }
}
