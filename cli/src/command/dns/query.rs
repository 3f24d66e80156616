//! `netlab dns query`: one raw question, and all that is seen of it.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use netlab_core::envelope::Envelope;
use netlab_dnsdiag::probe::{Observation, Outcome, Probe, Transport};
use netlab_node::{Netns, NodeError};
use serde::Serialize;

use super::not_entered;
use crate::args::dns::Query;
use crate::args::globals::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::dns_query::render;
use crate::output::terminal::Terminal;

/// Longer than a healthy server needs, and shorter than the 5 s of a C library.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was asked, and what was seen.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    record: &'a str,
    server: String,
    transport: Transport,
    #[serde(skip_serializing_if = "Option::is_none")]
    edns_offered: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<String>,
    #[serde(flatten)]
    observation: &'a Observation,
}

/// Asks.
pub(crate) fn run(args: &Query, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    is_name(&args.name)?;
    let netns = args.netns.as_deref().map(open).transpose()?;
    let probe = Probe {
        name: args.name.clone(),
        record: args.record.to_ascii_uppercase(),
        server: args.server,
        transport: match (args.tcp, args.from_any) {
            (true, _) => Transport::Tcp,
            (_, true) => Transport::UdpFromAny,
            _ => Transport::Udp,
        },
        id: number(),
        edns: args.edns,
        source_port: args.source_port,
        patience: globals.timeout.unwrap_or(PATIENCE),
    };
    let sent = match &netns {
        Some(netns) => netns.run(|| probe.send()).map_err(|error| not_entered(&error))?,
        None => probe.send(),
    };
    let observation =
        sent.map_err(|error| Failure::unreadable("the question cannot be asked").because(&error))?;
    let answer = Answer {
        name: &args.name,
        record: &probe.record,
        server: probe.server.to_string(),
        transport: probe.transport,
        edns_offered: probe.edns,
        netns: netns.as_ref().map(|netns| netns.identity().to_string()),
        observation: &observation,
    };
    terminal.answer(&Envelope::new("DnsQuery", &answer, Vec::new()), |_| render(&probe, &observation))?;
    Ok(if matches!(observation.outcome, Outcome::Answered { .. }) { Exit::Yes } else { Exit::No })
}

/// A namespace by the number of a process in it, or by a file.
pub(super) fn open(place: &str) -> Result<Netns, Failure> {
    enterable(match place.parse() {
        Ok(pid) => Netns::from_pid(pid),
        Err(_) => Netns::from_path(place),
    })
}

/// A namespace that was opened, if it is one of a network and can be entered: known before anything is asked.
pub(super) fn enterable(opened: Result<Netns, NodeError>) -> Result<Netns, Failure> {
    let netns = opened.map_err(|error| not_entered(&error))?;
    netns.run(|| ()).map_err(|error| not_entered(&error))?;
    Ok(netns)
}

/// Refuses a name that stands for nothing: an empty one would be the root, and is a slip of a script's.
pub(super) fn is_name(name: &str) -> Result<(), Failure> {
    if !name.trim().is_empty() {
        return Ok(());
    }
    Err(Failure::unreadable("the name is empty").hint("`.` is the root of all names, if that is meant"))
}

/// A message number that an outsider cannot guess, which is what it is for (RFC 5452 section 9.2).
fn number() -> u16 {
    let bits = RandomState::new().hash_one(std::process::id());
    u16::try_from(bits & 0xffff).unwrap_or(0)
}
