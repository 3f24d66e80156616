//! Corefiles and kubelet configurations among manifests: values of `ConfigMap` objects.
//!
//! Sources: kubeadm's objects `coredns` (key `Corefile`) and `kubelet-config` (key `kubelet`); distributions use other
//! names for the first, so any with that key counts.

use std::collections::BTreeMap;

use netlab_core::diagnostic::ObjectRef;
use netlab_core::input::{Budget, Document, Loaded, typed};
use serde::Deserialize;

use super::text::Text;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    metadata: Metadata,
    data: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) corefiles: Vec<Text>,
    pub(super) kubelets: Vec<Text>,
}

/// The files inside of objects.
pub(super) fn inside(loaded: &Loaded) -> Found {
    let mut found = Found::default();
    for (name, text) in &loaded.texts {
        // Most files have none, and reading is not free.
        if !text.contains("ConfigMap") {
            continue;
        }
        let document = Document { name: name.clone(), text: text.clone() };
        for map in
            typed::read::<ConfigMap>(&document, Some("ConfigMap"), &Budget::default()).into_iter().flatten()
        {
            let Metadata { name: own, namespace } = map.object.metadata;
            let object = ObjectRef {
                kind: "ConfigMap".to_owned(),
                namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
                name: own.unwrap_or_default(),
            };
            for (key, value) in map.object.data.unwrap_or_default() {
                let list = match key.as_str() {
                    "Corefile" => &mut found.corefiles,
                    "kubelet" => &mut found.kubelets,
                    _ => continue,
                };
                let path = format!("data.{key}");
                let Some(place) = map.source.locate(&path) else { continue };
                list.push(Text::of_value(name, text, &value, place, object.clone(), &path));
            }
        }
    }
    found
}
