//! How a `resolv.conf` that was found differs from the expected one, and whose doing that is.
//!
//! Invariant: no difference, no entry; each entry names values, never the file as a whole. Options are compared as sets,
//! nameservers and search domains in order. Method: step S2 of the DNS walk.

use std::collections::BTreeSet;

use super::expected::{Expected, Limits, Origin, Why};

/// A file that was found, as lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found<'a> {
    /// `nameserver` lines.
    pub nameservers: &'a [String],
    /// `search` domains.
    pub searches: &'a [String],
    /// `options`.
    pub options: &'a [String],
    /// The node's own nameservers, if they are known: a file that has them was copied from the node.
    pub node_nameservers: &'a [String],
    /// True when the pod is older than the configuration that the expected file was computed from.
    pub older_than_config: bool,
}

/// What kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Other nameservers.
    OtherNameserver,
    /// The node's nameservers, where the cluster's are expected.
    NodeNameservers,
    /// `127.0.0.11`: a container engine's own file, not kubelet's.
    RuntimeSupplied,
    /// The same nameservers in another order.
    NameserverOrder,
    /// A search domain is missing.
    MissingSearch,
    /// A search domain that nobody ordered.
    ExtraSearch,
    /// The same search domains in another order.
    SearchOrder,
    /// An older kubelet's limits cut the list.
    Truncated,
    /// Other options.
    Options,
    /// Nothing is in the file.
    Empty,
}

/// Whose doing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    /// The pod's spec.
    Spec,
    /// The kubelet's configuration or version.
    Kubelet,
    /// The node's own `resolv.conf`.
    Node,
    /// The container runtime.
    Runtime,
    /// The image or a process in the container: kubelet and runtime wrote something else.
    Container,
    /// Time: the file was written before the configuration changed, and is never written again.
    Age,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// What kind.
    pub class: Class,
    /// Whose doing, most likely.
    pub blame: Blame,
    /// Values that are expected and not there.
    pub missing: Vec<String>,
    /// Values that are there and not expected.
    pub extra: Vec<String>,
}

/// Compares. The answer is sorted by class; empty when the files mean the same.
#[must_use]
pub fn difference(expected: &Expected, found: Found<'_>) -> Vec<Difference> {
    let mut differences = Vec::new();
    if found.nameservers.is_empty() && found.searches.is_empty() && found.options.is_empty() {
        if !expected.runtime_copies_host_file() {
            let missing = expected.nameservers.iter().map(|entry| entry.value.clone()).collect();
            let blame = Blame::Container;
            differences.push(Difference { class: Class::Empty, blame, missing, extra: Vec::new() });
        }
        return differences;
    }
    let age = |blame: Blame| if found.older_than_config { Blame::Age } else { blame };
    let wanted: Vec<&str> = expected.nameservers.iter().map(|entry| entry.value.as_str()).collect();
    let written: Vec<&str> = found.nameservers.iter().map(String::as_str).collect();
    let (missing, extra) = (without(&wanted, &written), without(&written, &wanted));
    if wanted.is_empty() && expected.host_file_missing {
        // Everything comes from the node's file, which is not known.
    } else if !missing.is_empty() || !extra.is_empty() {
        let copied = !found.node_nameservers.is_empty() && found.node_nameservers == found.nameservers;
        let of_spec = |entry: &super::Entry| matches!(entry.from, Origin::PodSpec(_));
        let (class, blame) = if written.contains(&"127.0.0.11") {
            (Class::RuntimeSupplied, Blame::Runtime)
        } else if copied {
            (Class::NodeNameservers, age(Blame::Kubelet))
        } else if expected.nameservers.iter().all(of_spec) {
            // Kubelet adds nothing to these: who changed them did it later.
            (Class::OtherNameserver, Blame::Container)
        } else {
            (Class::OtherNameserver, age(Blame::Kubelet))
        };
        differences.push(Difference { class, blame, missing, extra });
    } else if wanted != written {
        let (class, blame) = (Class::NameserverOrder, age(Blame::Container));
        differences.push(Difference { class, blame, missing, extra });
    }
    differences.extend(searches(expected, found));
    let name = |options: &[&str]| -> BTreeSet<String> {
        options.iter().map(|option| (*option).to_owned()).collect()
    };
    let wanted = name(&expected.options.iter().map(|entry| entry.value.as_str()).collect::<Vec<_>>());
    let written = name(&found.options.iter().map(String::as_str).collect::<Vec<_>>());
    let known = !(expected.host_file_missing && expected.nameservers.is_empty());
    if wanted != written && known {
        let (class, blame) = (Class::Options, age(Blame::Container));
        let missing = wanted.difference(&written).cloned().collect();
        let extra = written.difference(&wanted).cloned().collect();
        differences.push(Difference { class, blame, missing, extra });
    }
    differences.sort();
    differences
}

fn searches(expected: &Expected, found: Found<'_>) -> Vec<Difference> {
    let wanted: Vec<&str> = expected.searches.iter().map(|entry| entry.value.as_str()).collect();
    let written: Vec<&str> = found.searches.iter().map(String::as_str).collect();
    let (missing, extra) = (without(&wanted, &written), without(&written, &wanted));
    let mut differences = Vec::new();
    let age = |blame: Blame| if found.older_than_config { Blame::Age } else { blame };
    let cut: Vec<&str> = expected
        .cut
        .iter()
        .filter(|cut| cut.why != Why::Nameservers)
        .map(|cut| cut.entry.value.as_str())
        .collect();
    if !missing.is_empty() {
        // A cut leaves a beginning: no more than the old limits take, and with the next domain more than they take.
        let kept = wanted.get(..written.len()).is_some_and(|start| start == written);
        let next = wanted.get(..=written.len()).map_or(usize::MAX, |domains| domains.join(" ").len());
        let legacy = Limits::LEGACY;
        let fits = written.len() <= legacy.searches && written.join(" ").len() <= legacy.bytes;
        let by_limit = kept && fits && (written.len() == legacy.searches || next > legacy.bytes);
        let of = |origin: fn(&Origin) -> bool| {
            expected
                .searches
                .iter()
                .filter(|entry| missing.contains(&entry.value))
                .all(|entry| origin(&entry.from))
        };
        let (class, blame) = if by_limit {
            (Class::Truncated, Blame::Kubelet)
        } else if of(|from| matches!(from, Origin::HostFile(_))) {
            // The node's file got it after the pod was made.
            (Class::MissingSearch, Blame::Age)
        } else if of(|from| matches!(from, Origin::PodSpec(_))) {
            (Class::MissingSearch, Blame::Container)
        } else {
            (Class::MissingSearch, age(Blame::Kubelet))
        };
        differences.push(Difference { class, blame, missing: missing.clone(), extra: Vec::new() });
    }
    if !extra.is_empty() && !expected.host_file_missing {
        let not_cut = extra.iter().any(|domain| !cut.contains(&domain.as_str()));
        let blame = if not_cut { age(Blame::Node) } else { Blame::Kubelet };
        differences.push(Difference {
            class: Class::ExtraSearch,
            blame,
            missing: Vec::new(),
            extra: extra.clone(),
        });
    }
    if missing.is_empty() && extra.is_empty() && wanted != written {
        let (class, blame) = (Class::SearchOrder, age(Blame::Container));
        differences.push(Difference { class, blame, missing, extra });
    }
    differences
}

fn without(these: &[&str], those: &[&str]) -> Vec<String> {
    these.iter().filter(|value| !those.contains(value)).map(|value| (*value).to_owned()).collect()
}
