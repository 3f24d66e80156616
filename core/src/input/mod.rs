//! From text to the model: documents in, everything that could be understood and every reason why not out.
//!
//! The way is [`yaml`] (text to trees), [`gather`] (trees to wire structs by kind), [`mod@assemble`] (wire structs to
//! the model, through [`validate`]). Invariant: no object disappears in silence. It is read, or counted in
//! [`Loaded::skipped`], or a diagnostic names it.

mod assemble;
pub mod budget;
mod decode;
mod gather;
mod kinds;
mod misspelt;
mod network;
pub(crate) mod node;
pub mod objects;
pub mod typed;
mod validate;
pub mod what_if;
pub mod wire;
pub(crate) mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Severity, code};
use crate::model::cluster::Cluster;
use crate::model::policy::Policies;
use crate::model::source::Position;
pub use assemble::{assemble, owner_splits};
pub use budget::Budget;
use gather::Gathered;
use what_if::{NotThere, Supposed, WhatIf};

/// A text with a name: a file, or standard input.
#[derive(Clone, Debug)]
pub struct Document {
    /// As it is to be shown, `examples/shop/policies/db.yaml`.
    pub name: Arc<str>,
    /// YAML (any number of documents) or JSON.
    pub text: Arc<str>,
}

impl Document {
    /// A document from the bytes of a file.
    ///
    /// # Errors
    /// Says where, when the bytes are not UTF-8.
    #[expect(clippy::result_large_err, reason = "once per unreadable file, and the caller keeps it as it is")]
    pub fn from_bytes(name: impl Into<Arc<str>>, bytes: Vec<u8>) -> Result<Self, Diagnostic> {
        let name = name.into();
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { name, text: text.into() }),
            Err(error) => {
                let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
                let good = String::from_utf8_lossy(good);
                let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
                let line = count(good.bytes().filter(|byte| *byte == b'\n').count());
                let column = count(good.rsplit('\n').next().unwrap_or_default().chars().count());
                let problem = Diagnostic::error(code::NOT_UTF8, "the text is not UTF-8 from here on");
                let problem = problem.at(Position { line, column }).in_file(&name);
                Err(problem.with_hint("save it as UTF-8; the whole file is left out"))
            }
        }
    }
}

/// The objects as written, pods that workloads stamp included: what the oracle reads.
#[derive(Clone, Debug, Default)]
pub struct WireObjects {
    /// Namespaces.
    pub namespaces: Vec<wire::core_v1::Namespace>,
    /// Pods.
    pub pods: Vec<wire::core_v1::Pod>,
    /// Nodes.
    pub nodes: Vec<wire::core_v1::Node>,
    /// Network policies that passed validation.
    pub network_policies: Vec<wire::network_policy::NetworkPolicy>,
    /// Admin network policies that passed validation.
    pub admin_network_policies: Vec<wire::admin_network_policy::AdminNetworkPolicy>,
    /// Baseline admin network policies that passed validation.
    pub baseline_admin_network_policies: Vec<wire::baseline_admin_network_policy::BaselineAdminNetworkPolicy>,
    /// Cluster network policies that passed validation.
    pub cluster_network_policies: Vec<wire::cluster_network_policy::ClusterNetworkPolicy>,
}

/// What loading gives: it never fails, it tells.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The cluster.
    pub cluster: Cluster,
    /// The policies that were understood.
    pub policies: Policies,
    /// The same objects as written.
    pub wire: WireObjects,
    /// What was wrong, sorted by place.
    pub diagnostics: Vec<Diagnostic>,
    /// Objects of kinds that cannot matter here, by kind.
    pub skipped: BTreeMap<String, usize>,
    /// The texts by name, to quote lines from.
    pub texts: BTreeMap<Arc<str>, Arc<str>>,
}

impl Loaded {
    /// True when nothing that was given had to be left out.
    pub fn is_complete(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| diagnostic.severity != Severity::Error)
    }
}

/// Reads texts into a cluster and its policies.
pub fn load(documents: impl IntoIterator<Item = Document>, budget: &Budget) -> Loaded {
    let mut texts = Texts::default();
    let gathered = texts.gather(documents, budget);
    finish(gathered, texts)
}

/// Reads texts as they would be with other objects and without some of theirs.
///
/// # Errors
/// [`NotThere`] when something is to be left out that the texts do not have.
pub fn load_what_if(
    documents: impl IntoIterator<Item = Document>,
    what_if: WhatIf,
    budget: &Budget,
) -> Result<(Loaded, Supposed), NotThere> {
    let mut texts = Texts::default();
    let mut gathered = texts.gather(documents, budget);
    let with = texts.gather(what_if.with, budget);
    let supposed = what_if::suppose(&mut gathered, with, &what_if.without, what_if.namespace.as_deref())?;
    Ok((finish(gathered, texts), supposed))
}

/// The texts that were read.
#[derive(Default)]
struct Texts {
    by_name: BTreeMap<Arc<str>, Arc<str>>,
    bytes: usize,
}

impl Texts {
    fn gather(&mut self, documents: impl IntoIterator<Item = Document>, budget: &Budget) -> Gathered {
        let mut gathered = Gathered::default();
        for Document { name, text } in documents {
            self.bytes = self.bytes.saturating_add(text.len());
            if self.bytes > budget.total_bytes {
                let message = format!("more than {} bytes of text in all", budget.total_bytes);
                let problem = Diagnostic::error(code::TEXT_TOO_LARGE, message).in_file(&name);
                gathered.diagnostics.push(problem.with_hint("this file is left out: load fewer at once"));
                continue;
            }
            for parsed in yaml::read(&text, budget) {
                match parsed {
                    Ok(parsed) => gathered.document(&name, &parsed),
                    Err(problem) => gathered.diagnostics.push((*problem).in_file(&name)),
                }
            }
            self.by_name.insert(name, text);
        }
        gathered
    }
}

fn finish(gathered: Gathered, texts: Texts) -> Loaded {
    let Gathered { objects, mut networks, mut diagnostics, skipped, .. } = gathered;
    let mut loaded = assemble(objects);
    diagnostics.append(&mut loaded.diagnostics);
    diagnostics.extend(network::judge(&mut networks, &loaded.cluster.namespaces));
    diagnostics.sort();
    Loaded { diagnostics, skipped, texts: texts.by_name, ..loaded }
}
