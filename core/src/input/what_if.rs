//! The input as it would be with some objects and without others.
//!
//! Objects are taken out and put in before anything is derived from them, so the model, the compiler and the oracle
//! see one and the same set. Invariant: what is to be left out was there, else there is no answer; an object that is
//! put in takes the place of the one with its kind, namespace and name, even of one that could not be read. It does
//! not know vendors' kinds.

mod name;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use self::name::{Key, known};
pub use self::name::{NameError, ObjectName};
use super::Document;
use super::gather::Gathered;
use super::objects::{Objects, Sourced};
use super::wire::admin_network_policy::AdminNetworkPolicy;
use super::wire::baseline_admin_network_policy::BaselineAdminNetworkPolicy;
use super::wire::cluster_network_policy::ClusterNetworkPolicy;
use super::wire::core_v1::{Namespace, Node, Pod};
use super::wire::endpoints::Endpoints;
use super::wire::meta::ObjectMeta;
use super::wire::network_policy::NetworkPolicy;
use super::wire::service::{EndpointSlice, Service};
use super::wire::workload::{CronJob, Workload};
use crate::diagnostic::{Diagnostic, ObjectRef, Severity};
use crate::model::source::Source;

/// What is supposed.
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    /// What is put in.
    pub with: Vec<Document>,
    /// What is left out.
    pub without: Vec<ObjectName>,
    /// The namespace of names in `without` that have none.
    pub namespace: Option<String>,
}

/// An object that is to be left out and is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no {kind} `{name}` to leave out in {place}")]
pub struct NotThere {
    /// What was looked for.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// `namespace shop`, or `the input`.
    pub place: String,
    /// What could have been meant, best first, in the form that is typed.
    pub nearest: Vec<String>,
}

/// What became of a [`WhatIf`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Supposed {
    /// Objects that were not there and are.
    pub added: Vec<Placed>,
    /// Objects that stand for others of their name.
    pub replaced: Vec<Placed>,
    /// Objects that were there and are not.
    pub removed: Vec<Placed>,
}

/// An object and where it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Placed {
    /// `kind`.
    pub kind: &'static str,
    /// `metadata.namespace`; `null` of what has none.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// The file, if it came from one.
    pub file: Option<Arc<str>>,
    /// The line, from 1.
    pub line: Option<u32>,
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Puts in and takes out.
pub(super) fn suppose(
    base: &mut Gathered,
    with: Gathered,
    without: &[ObjectName],
    default_namespace: Option<&str>,
) -> Result<Supposed, NotThere> {
    let there = placed(&base.objects, &base.diagnostics);
    let removed: BTreeSet<Key> = without.iter().map(|name| name.key(default_namespace)).collect();
    for key in &removed {
        if !there.contains_key(key) {
            return Err(not_there(key, there.keys()));
        }
    }
    let added = placed(&with.objects, &with.diagnostics);
    let goes = |key: &Key| removed.contains(key) || added.contains_key(key);
    keep(&mut base.objects, |key| !goes(key));
    base.diagnostics
        .retain(|finding| !finding.object.as_ref().and_then(key_of_finding).is_some_and(|key| goes(&key)));
    base.objects.append(with.objects);
    base.networks.extend(with.networks);
    base.diagnostics.extend(with.diagnostics);
    for (kind, number) in with.skipped {
        *base.skipped.entry(kind).or_default() += number;
    }
    let replaces = |key: &Key| there.contains_key(key) && !removed.contains(key);
    Ok(Supposed {
        added: added.iter().filter(|(key, _)| !replaces(key)).map(|(_, placed)| placed.clone()).collect(),
        replaced: added.iter().filter(|(key, _)| replaces(key)).map(|(_, placed)| placed.clone()).collect(),
        removed: removed.iter().filter_map(|key| there.get(key).cloned()).collect(),
    })
}

/// Every object, the unreadable ones included.
fn placed(objects: &Objects, findings: &[Diagnostic]) -> BTreeMap<Key, Placed> {
    let mut all = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.severity == Severity::Error) {
        if let Some(key) = finding.object.as_ref().and_then(key_of_finding) {
            let line = finding.position.map(|position| position.line);
            let placed = placed_at(&key, finding.file.clone(), line);
            all.insert(key, placed);
        }
    }
    each(objects, |key, source| {
        let placed = placed_at(&key, source.file.clone(), source.locate("").map(|position| position.line));
        all.insert(key, placed);
    });
    all
}

fn placed_at(key: &Key, file: Option<Arc<str>>, line: Option<u32>) -> Placed {
    Placed { kind: key.kind, namespace: key.namespace.clone(), name: key.name.clone(), file, line }
}

fn key_of_finding(object: &ObjectRef) -> Option<Key> {
    let kind = known(&object.kind)?;
    Some(Key::new(kind, object.namespace.as_deref(), &object.name))
}

fn not_there<'k>(wanted: &Key, there: impl Iterator<Item = &'k Key>) -> NotThere {
    const MOST: usize = 3;
    let mut ranked: Vec<(bool, usize, bool, String)> = there
        .filter_map(|key| {
            let distance = strsim::osa_distance(&key.name, &wanted.name);
            let near = distance <= 1 + wanted.name.chars().count() / 4 || key.name.contains(&wanted.name);
            let elsewhere = key.namespace != wanted.namespace;
            near.then(|| (key.kind != wanted.kind, distance, elsewhere, key.to_string()))
        })
        .collect();
    ranked.sort();
    NotThere {
        kind: wanted.kind,
        name: wanted.name.clone(),
        place: wanted
            .namespace
            .as_ref()
            .map_or_else(|| "the input".to_owned(), |namespace| format!("namespace {namespace}")),
        nearest: ranked.into_iter().take(MOST).map(|(.., name)| name).collect(),
    }
}

/// What wire structs have in common.
trait Kinded {
    fn kind(&self) -> Option<&'static str>;
    fn metadata(&self) -> &ObjectMeta;
}

macro_rules! kinded {
    ($($kind:ident)*) => {$(
        impl Kinded for $kind {
            fn kind(&self) -> Option<&'static str> {
                Some(stringify!($kind))
            }

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )*};
}

kinded! {
    AdminNetworkPolicy BaselineAdminNetworkPolicy ClusterNetworkPolicy CronJob EndpointSlice Endpoints Namespace NetworkPolicy
    Node Pod Service
}

impl Kinded for Workload {
    fn kind(&self) -> Option<&'static str> {
        known(&self.kind)
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// The key of an object that has a name of its own.
fn key_of<T: Kinded>(object: &T) -> Option<Key> {
    let metadata = object.metadata();
    let name = metadata.name.as_deref().filter(|name| !name.is_empty())?;
    Some(Key::new(object.kind()?, metadata.namespace.as_deref(), name))
}

macro_rules! lists {
    ($objects:expr, $what:ident) => {
        $what!($objects.namespaces);
        $what!($objects.pods);
        $what!($objects.nodes);
        $what!($objects.services);
        $what!($objects.endpoint_slices);
        $what!($objects.endpoints);
        $what!($objects.workloads);
        $what!($objects.cron_jobs);
        $what!($objects.network_policies);
        $what!($objects.admin_network_policies);
        $what!($objects.baseline_admin_network_policies);
        $what!($objects.cluster_network_policies);
    };
}

/// Visits every object that has a name.
fn each(objects: &Objects, mut visit: impl FnMut(Key, &Source)) {
    macro_rules! visit_list {
        ($list:expr) => {
            for Sourced { object, source } in &$list {
                if let Some(key) = key_of(object) {
                    visit(key, source);
                }
            }
        };
    }
    lists!(objects, visit_list);
}

/// Leaves the objects out that are not to be kept.
fn keep(objects: &mut Objects, keep: impl Fn(&Key) -> bool) {
    macro_rules! keep_in_list {
        ($list:expr) => {
            $list.retain(|sourced| key_of(&sourced.object).is_none_or(|key| keep(&key)))
        };
    }
    lists!(objects, keep_in_list);
}

impl Objects {
    /// Adds the objects of another collection.
    fn append(&mut self, mut other: Self) {
        macro_rules! append_list {
            ($list:ident) => {
                self.$list.append(&mut other.$list)
            };
        }
        append_list!(namespaces);
        append_list!(pods);
        append_list!(nodes);
        append_list!(services);
        append_list!(endpoint_slices);
        append_list!(endpoints);
        append_list!(workloads);
        append_list!(cron_jobs);
        append_list!(network_policies);
        append_list!(admin_network_policies);
        append_list!(baseline_admin_network_policies);
        append_list!(cluster_network_policies);
    }
}
