//! The names that are asked about: what each should be, which candidates the libc makes of it, and what was said to them.
//!
//! Invariant: what should be is [`crate::records`]' answer over recorded objects; what was said is rows of the pod alone. A
//! candidate that nobody asked has no answer.

use netlab_core::model::cluster::ObjectKey;
use netlab_plugin::evidence::{Outcome, Probe};

use super::{Ask, View, is_below};
use crate::bundle::layout;
use crate::records::{Truth, World, intended, truth};
use crate::resolv_conf::Dialect;

/// One name that a libc asks for on behalf of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Fully qualified, with its last dot.
    pub name: String,
    /// The suffix that was appended; `None` for the name as it is.
    pub suffix: Option<String>,
    /// What the pod was told for A.
    pub a: Option<Told>,
    /// What the pod was told for AAAA.
    pub aaaa: Option<Told>,
}

/// What the pod was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The result.
    pub result: Outcome,
    /// True when the answer has records.
    pub records: bool,
    /// The rows.
    pub ids: Vec<String>,
}

impl Told {
    /// NOERROR with records.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        matches!(self.result, Outcome::Noerror) && self.records
    }

    /// NOERROR without records.
    #[must_use]
    pub const fn is_nodata(&self) -> bool {
        matches!(self.result, Outcome::Noerror) && !self.records
    }
}

impl Candidate {
    /// True when either family has addresses.
    #[must_use]
    pub fn resolves(&self) -> bool {
        self.a.iter().chain(&self.aaaa).any(Told::is_good)
    }

    /// True when a row says what `test` asks for.
    #[must_use]
    pub fn any(&self, test: impl Fn(&Told) -> bool) -> bool {
        self.a.iter().chain(&self.aaaa).any(test)
    }

    /// The rows behind it.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.a.iter().chain(&self.aaaa).flat_map(|told| told.ids.clone()).collect()
    }
}

impl View<'_> {
    /// What a fully qualified name should resolve to; `None` when the objects that decide it were not recorded.
    #[must_use]
    pub fn truth(&self, name: &str) -> Option<Truth> {
        if !self.missing(&[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS]).is_empty() {
            return None;
        }
        let domain = self.domain().unwrap_or_else(|| "cluster.local".to_owned());
        // The API server makes Service `default/kubernetes` in every cluster: objects without it are not all there are.
        let own = format!("kubernetes.default.svc.{domain}");
        let given = self.loaded.cluster.services.contains_key(&ObjectKey::new("default", "kubernetes"));
        if !given && name.trim_end_matches('.').eq_ignore_ascii_case(&own) {
            return None;
        }
        Some(truth(World::new(&self.loaded.cluster, &domain), name))
    }

    /// The full name that the application means.
    #[must_use]
    pub fn intended(&self, name: &str) -> String {
        let domain = self.domain().unwrap_or_else(|| "cluster.local".to_owned());
        intended(&self.loaded.cluster, &domain, &self.target.namespace, name)
    }

    /// The names that the pod's libc asks for, in order, with what the pod was told.
    #[must_use]
    pub fn candidates(&self, name: &str) -> Vec<Candidate> {
        let Some(conf) = self.conf() else { return Vec::new() };
        let bare = name.trim_end_matches('.').to_lowercase();
        let as_is = (format!("{bare}."), None);
        let dots = u32::try_from(bare.matches('.').count()).unwrap_or(u32::MAX);
        let suffixes = conf.search.iter().map(|suffix| suffix.trim_end_matches('.').to_lowercase());
        let searched = suffixes.map(|suffix| {
            let full = if suffix.is_empty() { format!("{bare}.") } else { format!("{bare}.{suffix}.") };
            (full, Some(suffix))
        });
        let first = dots >= conf.options.ndots;
        let mut names: Vec<(String, Option<String>)> = Vec::new();
        if name.ends_with('.') || (first && matches!(conf.dialect, Dialect::Musl(_))) {
            names.push(as_is);
        } else if first {
            names.push(as_is);
            names.extend(searched);
        } else {
            names.extend(searched);
            names.push(as_is);
        }
        let servers = conf.nameservers.iter().filter_map(|server| server.address);
        let rows = self.rows(&Ask::from_pod().to(servers));
        let told = |name: &str, qtype: &str| {
            let all: Vec<&(&str, &Probe)> = rows
                .iter()
                .filter(|(_, probe)| probe.qtype == qtype && probe.name.eq_ignore_ascii_case(name))
                .collect();
            // What was lost and answered later is no silence: whoever asks again gets it.
            let (_, first) = all.iter().find(|(_, probe)| probe.result != Outcome::Silent).or(all.first())?;
            Some(Told {
                result: first.result,
                records: !first.answers.is_empty(),
                ids: all.iter().map(|(id, _)| (*id).to_owned()).collect(),
            })
        };
        names
            .into_iter()
            .map(|(name, suffix)| Candidate { a: told(&name, "A"), aaaa: told(&name, "AAAA"), name, suffix })
            .collect()
    }

    /// A name of the cluster that was asked for, exists, and was denied to the pod in every form; with the rows.
    #[must_use]
    pub fn denied_cluster_name(&self) -> Option<(String, Vec<String>)> {
        let names = self.target.names.iter();
        names
            .filter(|name| self.truth(&self.intended(name)).and_then(|truth| truth.exists()) == Some(true))
            .find_map(|name| {
                let candidates = self.candidates(name);
                if candidates.iter().any(Candidate::resolves) {
                    return None;
                }
                let denied: Vec<String> = candidates
                    .iter()
                    .filter(|one| one.any(|told| matches!(told.result, Outcome::Nxdomain | Outcome::Refused)))
                    .flat_map(Candidate::ids)
                    .collect();
                (!denied.is_empty()).then(|| (name.clone(), denied))
            })
    }

    /// True when a name is not the cluster's to answer.
    #[must_use]
    pub fn is_outside(&self, name: &str) -> bool {
        let domain = self.domain().unwrap_or_else(|| "cluster.local".to_owned());
        !is_below(name, &domain)
    }
}
