//! What people get wrong in the configuration of a cluster's DNS: Corefile, kubelet, node, pods, the DNS Service.
//!
//! One file per family, one code per mistake; each family takes the [`Ground`] and adds findings. Invariant: precision
//! before recall. A finding says where, what follows from it and what to do; what needs a file that was not given is in
//! [`Report::not_examined`]. Policies that block DNS are found by the policy lint, not here.

mod cache;
mod file;
mod forward;
mod ground;
mod kubelet;
mod names;
mod node_file;
mod pods;
mod presence;
mod service;
mod structure;
mod text;
mod zones;

use netlab_core::diagnostic::{Diagnostic, code};
use netlab_core::input::{Document, Loaded};
use netlab_core::policy;
pub use netlab_core::policy::lint::Finding;

use ground::Ground;

/// What is looked at; whatever is absent is said to be not examined.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// A Corefile.
    pub corefile: Option<&'a Document>,
    /// A kubelet's configuration.
    pub kubelet: Option<&'a Document>,
    /// The file that the kubelet's `resolvConf` names.
    pub node_file: Option<&'a Document>,
    /// Objects; a `ConfigMap` with a `Corefile` or a `kubelet` key counts as such a file.
    pub manifests: Option<&'a Loaded>,
}

/// What the lint says.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Sorted by file, place and code.
    pub findings: Vec<Finding>,
    /// What could not be looked at, in words.
    pub not_examined: Vec<String>,
    /// How many files and objects were looked at, by what they are.
    pub examined: Vec<(&'static str, usize)>,
}

/// Reads everything about DNS like an expert.
#[must_use]
pub fn lint(inputs: Inputs<'_>) -> Report {
    let mut found: Vec<Diagnostic> = Vec::new();
    let ground = Ground::new(inputs, &mut found);
    for family in [
        structure::find,
        zones::find,
        forward::find,
        presence::find,
        cache::find,
        kubelet::find,
        node_file::find,
        pods::find,
        service::find,
    ] {
        family(&ground, &mut found);
    }
    let mut findings: Vec<Finding> = found.into_iter().map(Finding::from).collect();
    let mut not_examined = ground.not_examined();
    if let Some(loaded) = inputs.manifests.filter(|loaded| !loaded.policies.list.is_empty()) {
        let report = policy::lint::lint(&loaded.cluster, &loaded.policies, Vec::new());
        findings.extend(report.findings.into_iter().filter(of_dns));
        not_examined.extend(report.not_examined);
    }
    findings.sort();
    findings.dedup();
    Report { findings, not_examined, examined: ground.examined() }
}

/// The policy lint's own findings about DNS.
fn of_dns(finding: &Finding) -> bool {
    [code::DNS_BLOCKED, code::DNS_ONE_PROTOCOL, code::DNS_NODE_CACHE, code::DNS_SERVER_CLOSED]
        .contains(&finding.diagnostic.code)
}
