//! What people get wrong in policies that are valid: one file per family, one code per mistake.
//!
//! Computed on groups of like pods, on what selectors imply, and on the rows of compiled tables, never packet by
//! packet. Each family takes the [`Ground`] and adds findings; [`super::super::diagnostic::catalog`] has a page per code.
//!
//! Invariant: precision before recall. A finding names the object, the field and its place, says what follows from it
//! and what to do, and counts what it touches. What cannot be told from the input is not guessed: it is no finding, or
//! it is in [`Report::not_examined`]. It knows nothing of what the input already said about single fields
//! ([`Finding::from`] takes that in).

mod blocks;
mod dead_rules;
mod dns;
mod finding;
mod ground;
mod host_network;
mod implies;
mod nearest;
mod peers;
mod ports;
mod selectors;
mod service_ports;
mod suppression;
mod tables;
mod tiers;
mod types;
mod vacuous;

pub use finding::{Count, Finding};
pub use suppression::{Suppression, SuppressionError, suppress};

use self::ground::Ground;
use crate::diagnostic::{Diagnostic, code};
use crate::model::cluster::Cluster;
use crate::model::policy::Policies;
use crate::policy::connections::{HostNetwork, as_if_running};
use crate::policy::{Limits, Numbers, Scope, compile_with};

/// What the lints say.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Sorted by file, place and code.
    pub findings: Vec<Finding>,
    /// What could not be looked at, in words.
    pub not_examined: Vec<String>,
}

/// Reads a policy set like an expert.
///
/// `known` is what loading said about the same input; findings that are the same or more exact replace it.
pub fn lint(cluster: &Cluster, policies: &Policies, known: Vec<Diagnostic>) -> Report {
    let running = as_if_running(cluster, policies, HostNetwork::AsNodes);
    let limits = Limits::layout_only();
    let compiled = compile_with(&running, policies, &Scope::Cluster, &Numbers::default(), &limits);
    let ground = Ground::new(cluster, policies, &compiled.rulesets);
    let mut findings = Vec::new();
    for family in [
        types::find,
        selectors::find,
        peers::find,
        blocks::find,
        host_network::find,
        ports::find,
        service_ports::find,
        dead_rules::find,
        vacuous::find,
        dns::find,
        tiers::find,
    ] {
        family(&ground, &mut findings);
    }
    findings.extend(known.into_iter().chain(compiled.diagnostics).filter(is_wanted).map(Finding::from));
    findings.sort();
    findings.dedup();
    Report { findings, not_examined: ground.not_examined() }
}

/// False for what a lint finds more exactly, and for what is said about verdicts: no lint rests on a chosen address.
fn is_wanted(diagnostic: &Diagnostic) -> bool {
    ![code::TIED_POLICIES, code::BLOCK_MEETS_CHOSEN_ADDRESS].contains(&diagnostic.code)
}
