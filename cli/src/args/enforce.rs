//! `netlab enforce …`.

use clap::{Args, Subcommand, ValueEnum};
use netlab_core::endpoint_ref::EndpointRef;

use super::lab::LabName;

/// What is done with the compiled tables.
#[derive(Debug, Subcommand)]
pub(crate) enum Enforce {
    /// Tell what would be programmed, and where
    ///
    /// `-o wide` prints every row of the policy map as the `bpftool` command that would write it.
    #[command(after_help = "Examples:
  netlab enforce plan -f examples/shop
  netlab enforce plan -f examples/shop -l app=db -o wide")]
    Plan,
    /// Put policies into force in a lab, in place of those before
    #[command(after_help = "Examples:
  netlab enforce attach -f examples/shop --lab lab
  netlab enforce attach -f examples/shop --lab second")]
    Attach(LabName),
    /// Tell what is in force in a lab
    ///
    /// Exit 0: every pod is claimed and the maps hold what they should; 1: not so.
    #[command(after_help = "Examples:
  netlab enforce status --lab lab
  netlab enforce status --lab lab --audit
  netlab enforce status --lab lab -o json")]
    Status(Status),
    /// Print a map as the kernel holds it, in words
    #[command(after_help = "Examples:
  netlab enforce map --lab lab
  netlab enforce map policy --lab lab -n shop -o wide
  netlab enforce map services --lab lab
  netlab enforce map conntrack --lab lab")]
    Map(Map),
    /// Print verdicts as they fall, or why a pod's last packet was dropped
    ///
    /// What a trace does not show, because the ring of decisions was full or a flood was sampled, is counted and said.
    /// With `--last` exit 0: a drop is known; 1: none is.
    #[command(after_help = "Examples:
  netlab enforce trace --lab lab --timeout 1s
  netlab enforce trace --lab lab --count 10 --timeout 1s -o json
  netlab enforce trace --lab lab --last pod/db -n shop")]
    Trace(Trace),
    /// Take the programs off: every pod is open then
    #[command(
        after_help = "Examples:\n  netlab enforce detach --lab lab\n  netlab enforce detach --lab second"
    )]
    Detach(LabName),
}

/// `enforce status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) lab: LabName,
    /// Compare programs, constants, hooks and every byte of every policy map, and tell what was compared
    #[arg(long)]
    pub(crate) audit: bool,
}

/// `enforce map`.
#[derive(Debug, Args)]
pub(crate) struct Map {
    /// Which map
    #[arg(value_name = "MAP", default_value = "policy")]
    pub(crate) map: MapName,
    #[command(flatten)]
    pub(crate) lab: LabName,
}

/// The maps that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MapName {
    /// The policy-map entries
    Policy,
    /// The pod behind each interface
    Devices,
    /// Peer classes of addresses
    Peers,
    /// Peer classes of prefixes
    Cidrs,
    /// Where the addresses of Services lead: peer classes and ports of their endpoints
    Services,
    /// Packets by entry, as far as any was seen
    Counters,
    /// Flows that were allowed
    Conntrack,
}

/// `enforce trace`.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(flatten)]
    pub(crate) lab: LabName,
    /// End after so many verdicts
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
    /// Tell why the last packet from or to this pod was dropped, and end
    #[arg(long, value_name = "[pod/][NAMESPACE/]NAME", conflicts_with = "count")]
    pub(crate) last: Option<EndpointRef>,
}
