//! What the models make of the evidence: the one thing that checks and rules look at.
//!
//! Invariant: pure, and it never fills a gap. A question about something that was not recorded is answered `None`, `Unknown` or
//! `NotAsked`, and what could not be read counts as not recorded.

mod amiss;
mod asked;
mod blocks;
mod conf;
mod conntrack;
mod corefile;
mod counters;
mod dns;
mod expected;
mod failures;
mod family;
mod legible;
mod links;
mod local_names;
mod names;
mod node_local;
mod policy;
mod proxy;
mod replay;
mod segments;
mod servers;
mod subject;
mod symptom;
mod together;
mod unallocated;
mod wanted;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlab_core::diagnostic::Severity;
use netlab_core::input::{self, Budget, Document, Loaded};
use netlab_core::model::service::AddressType;
use netlab_core::policy::Rulesets;
use netlab_plugin::check::Target;
use netlab_plugin::evidence::{Evidence, Probe};

use crate::bundle::layout::{self, Format};
use crate::kubelet::KubeletConfig;

pub use amiss::Amiss;
pub use asked::{Ask, Reach, Seen, is_below, is_canary, seen, told};
pub use blocks::{PluginUse, ServerBlock};
pub use conf::{NODE_LOCAL, Server};
pub use conntrack::{Flow, Tuple, place};
pub use corefile::Forward;
pub use dns::{DnsEndpoint, DnsService};
pub use expected::EXPECTED_FACTS;
pub use failures::{Effect, Failure};
pub use family::Halved;
pub use local_names::{HostsName, Order, Source};
pub use names::{Candidate, Told};
pub use node_local::NodeLocal;
pub use policy::{POLICY_FACTS, PolicyAnswer, PolicyVerdict};
pub use proxy::{Proxy, cite};
pub use replay::Replay;
pub use segments::Segments;
pub use servers::{ContainerState, LogClass, LogLine, log_lines};
pub use subject::Subject;
pub use symptom::{ErrorClass, error_class};
pub use together::Together;
pub use wanted::{NameserverSeen, TRUTH_FACTS, Wanted, is_connect, row_ids};

/// The evidence, understood.
#[derive(Debug)]
pub struct View<'e> {
    /// Whose DNS, and which names.
    pub target: &'e Target,
    /// The facts.
    pub evidence: &'e Evidence,
    /// The cluster's objects.
    pub loaded: Loaded,
    /// Why a file counts as not recorded although it is there; by file.
    pub unreadable: BTreeMap<String, String>,
    /// The one address family that it is about; `None` for both.
    family: Option<AddressType>,
    probes: Vec<(&'e str, &'e Probe)>,
    policies: OnceCell<Result<Rulesets, String>>,
    proxies: [OnceCell<Option<Proxy>>; 2],
    kubelet: OnceCell<Option<KubeletConfig>>,
    domain: OnceCell<Option<String>>,
}

impl<'e> View<'e> {
    /// Understands the evidence.
    #[must_use]
    pub fn new(target: &'e Target, evidence: &'e Evidence) -> Self {
        let objects = layout::FILES.iter().filter(|file| file.format == Format::Objects);
        let documents = objects.filter_map(|file| {
            let text = evidence.text(file.path)?;
            Some(Document { name: file.path.into(), text: text.into() })
        });
        let loaded = input::load(documents, &Budget::default());
        let mut unreadable = BTreeMap::new();
        for problem in loaded.diagnostics.iter().filter(|problem| problem.severity == Severity::Error) {
            let Some(file) = &problem.file else { continue };
            let line =
                problem.position.map_or(String::new(), |place| format!(":{}:{}", place.line, place.column));
            unreadable
                .entry(file.to_string())
                .or_insert_with(|| format!("{file}{line}: {} ({})", problem.message, problem.code));
        }
        // A command that failed leaves an empty file. Where there is nothing of a kind, a list without items says so, or a comment.
        let may_be_blank =
            |file: &layout::File| file.format != Format::Objects && !layout::PROXY_DUMPS.contains(&file.path);
        for file in layout::FILES.iter().filter(|file| !may_be_blank(file)) {
            let blank = |text: &str| text.lines().all(|line| line.trim().is_empty() || line.trim() == "---");
            if evidence.text(file.path).is_some_and(blank) {
                unreadable.insert(file.path.to_owned(), format!("{} is empty", file.path));
            }
        }
        for file in layout::FILES {
            if let Some(why) = evidence.text(file.path).and_then(|text| legible::garbage(file.path, text)) {
                unreadable.insert(file.path.to_owned(), why);
            }
        }
        Self {
            target,
            evidence,
            loaded,
            unreadable,
            family: None,
            probes: evidence.probes().collect(),
            policies: OnceCell::new(),
            proxies: [OnceCell::new(), OnceCell::new()],
            kubelet: OnceCell::new(),
            domain: OnceCell::new(),
        }
    }

    /// The same of one address family: the other's questions, nameservers, Service addresses and endpoints are left out.
    #[must_use]
    pub fn of_family(target: &'e Target, evidence: &'e Evidence, family: AddressType) -> Self {
        let mut view = Self::new(target, evidence);
        view.family = Some(family);
        view.probes.retain(|(_, probe)| AddressType::of(probe.server) == family);
        view
    }

    /// True for an address of the family that it is about.
    fn is_about(&self, address: IpAddr) -> bool {
        self.family.is_none_or(|family| AddressType::of(address) == family)
    }

    /// True when the file was recorded (or looked for and not there) and could be read.
    #[must_use]
    pub fn knows(&self, file: &str) -> bool {
        if file == layout::PROBES {
            return !self.probes.is_empty();
        }
        self.evidence.examined(file) && !self.unreadable.contains_key(file)
    }

    /// The files among these that were not recorded.
    #[must_use]
    pub fn missing(&self, files: &[&'static str]) -> Vec<&'static str> {
        files.iter().copied().filter(|file| !self.knows(file)).collect()
    }

    /// The text of a file that could be read.
    #[must_use]
    pub fn text(&self, file: &str) -> Option<&'e str> {
        if self.unreadable.contains_key(file) { None } else { self.evidence.text(file) }
    }

    /// The cluster's domain without its last dot: the kubelet's `clusterDomain`, else what the pod's search list has after
    /// `svc.`; `None` when neither tells.
    #[must_use]
    pub fn domain(&self) -> Option<String> {
        let find = || {
            let configured = self.kubelet().map(|kubelet| kubelet.cluster_domain.clone());
            let configured = configured.filter(|domain| !domain.is_empty());
            let searched = || {
                let conf = self.conf()?;
                conf.search.iter().find_map(|suffix| suffix.strip_prefix("svc.").map(str::to_owned))
            };
            configured.or_else(searched).map(|domain| domain.trim_end_matches('.').to_owned())
        };
        self.domain.get_or_init(find).clone()
    }
}

/// Ids without repeats, sorted.
#[must_use]
pub fn ids<I: IntoIterator<Item = S>, S: Into<String>>(all: I) -> Vec<String> {
    let set: BTreeSet<String> = all.into_iter().map(Into::into).collect();
    set.into_iter().collect()
}
