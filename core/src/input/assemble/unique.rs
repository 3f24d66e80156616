//! Names and namespaces of objects: defaulted, checked, and given once.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::input::objects::Sourced;
use crate::input::validate::name;
use crate::input::wire::admin_network_policy::AdminNetworkPolicy;
use crate::input::wire::baseline_admin_network_policy::BaselineAdminNetworkPolicy;
use crate::input::wire::cluster_network_policy::ClusterNetworkPolicy;
use crate::input::wire::core_v1::{Namespace, Node, Pod};
use crate::input::wire::endpoints::Endpoints;
use crate::input::wire::meta::ObjectMeta;
use crate::input::wire::network_policy::NetworkPolicy;
use crate::input::wire::service::{EndpointSlice, Service};
use crate::input::wire::workload::{CronJob, Workload};
use crate::model::cluster::ObjectKey;

/// The namespace of objects that do not say.
const DEFAULT_NAMESPACE: &str = "default";

pub(super) trait Named: PartialEq {
    fn metadata(&mut self) -> &mut ObjectMeta;
}

macro_rules! named {
    ($($kind:ty)*) => {$(
        impl Named for $kind {
            fn metadata(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*};
}

named! {
    AdminNetworkPolicy BaselineAdminNetworkPolicy ClusterNetworkPolicy CronJob EndpointSlice Endpoints Namespace NetworkPolicy
    Node Pod Service Workload
}

/// Objects that live in a namespace.
pub(super) fn namespaced<T: Named>(
    kind: &str,
    objects: Vec<Sourced<T>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ObjectKey, Sourced<T>> {
    let key = |metadata: &mut ObjectMeta, name: String| {
        let namespace = metadata.namespace.take().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        metadata.namespace = Some(namespace.clone());
        let problem = name::dns_label(&namespace)
            .map(|problem| ("metadata.namespace", format!("`{namespace}` is no namespace: {problem}")))
            .or_else(|| bad_name(&name, name::dns_subdomain));
        (ObjectKey { namespace, name }, problem)
    };
    unique(kind, objects, key, |key| (Some(key.namespace.clone()), key.name.clone()), diagnostics)
}

/// Objects that do not.
pub(super) fn cluster_scoped<T: Named>(
    kind: &str,
    objects: Vec<Sourced<T>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<String, Sourced<T>> {
    let check = if kind == "Namespace" { name::dns_label } else { name::dns_subdomain };
    let key = |metadata: &mut ObjectMeta, name: String| {
        metadata.namespace = None;
        let problem = bad_name(&name, check);
        (name, problem)
    };
    unique(kind, objects, key, |name| (None, name.clone()), diagnostics)
}

fn bad_name(name: &str, check: fn(&str) -> Option<String>) -> Option<(&'static str, String)> {
    check(name).map(|problem| ("metadata.name", format!("`{name}` is no name: {problem}")))
}

/// Where and what is wrong with a name.
type Problem = Option<(&'static str, String)>;

fn unique<T: Named, K: Ord>(
    kind: &str,
    mut objects: Vec<Sourced<T>>,
    key_of: impl Fn(&mut ObjectMeta, String) -> (K, Problem),
    parts: impl Fn(&K) -> (Option<String>, String),
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<K, Sourced<T>> {
    // By place, so that of two objects with one name the same one stays, whatever order the files came in.
    objects.sort_by(|a, b| (&a.source.file, a.source.locate("")).cmp(&(&b.source.file, b.source.locate(""))));
    let mut generated: BTreeMap<String, usize> = BTreeMap::new();
    let mut found: BTreeMap<K, Sourced<T>> = BTreeMap::new();
    for mut sourced in objects {
        let metadata = sourced.object.metadata();
        let written = metadata.name.take().filter(|name| !name.is_empty());
        let name = written.or_else(|| {
            // The API server appends five random characters; here they are counted.
            let prefix = metadata.generate_name.clone()?;
            let count = generated.entry(prefix.clone()).or_default();
            *count += 1;
            Some(format!("{prefix}{count}"))
        });
        let name = name.unwrap_or_default();
        if !name.is_empty() {
            metadata.name = Some(name.clone());
        }
        let (key, problem) = key_of(metadata, name);
        let (namespace, name) = parts(&key);
        let object = ObjectRef { kind: kind.to_owned(), namespace, name };
        let mut say = |diagnostic: Diagnostic, path: &str| {
            diagnostics.push(diagnostic.about(&object).at_path(&sourced.source, path));
        };
        if object.name.is_empty() {
            let hint = "give it a name; the object is left out";
            say(Diagnostic::error(code::INVALID_NAME, "no `metadata.name`").with_hint(hint), "metadata");
            continue;
        }
        if let Some((path, message)) = problem {
            // A name changes no verdict, so the object can stand.
            let hint = "an API server refuses the object; here it is read all the same";
            say(Diagnostic::warning(code::INVALID_NAME, message).with_hint(hint), path);
        }
        match found.get(&key) {
            None => {
                found.insert(key, sourced);
            }
            Some(first) => {
                let place = place_of(first);
                let diagnostic = if first.object == sourced.object {
                    let message = format!("{object} is written twice, both times the same: first at {place}");
                    Diagnostic::note(code::DUPLICATE_OBJECT, message)
                } else {
                    let message = format!("{object} is written twice: first at {place}");
                    Diagnostic::error(code::DUPLICATE_OBJECT, message)
                        .with_hint("keep one of the two; this one is left out")
                };
                say(diagnostic, "");
            }
        }
    }
    found
}

fn place_of<T>(sourced: &Sourced<T>) -> String {
    let file = sourced.source.file.as_deref().unwrap_or("the cluster");
    match sourced.source.locate("") {
        Some(position) => format!("{file}:{}:{}", position.line, position.column),
        None => file.to_owned(),
    }
}
