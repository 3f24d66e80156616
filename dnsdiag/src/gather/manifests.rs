//! Manifests as the files of a bundle.
//!
//! Invariant: every object that was given is in exactly one file. A bundle's reader reads objects of any kind from any of its
//! `cluster` files, so a document that cannot be taken apart (a list, a workload) stays whole.

use std::collections::BTreeMap;

use netlab_core::input::Document;

use crate::bundle::layout;

/// The kinds that have a file of their own.
const KINDS: &[(&str, &str)] = &[
    ("Namespace", layout::NAMESPACES),
    ("Node", layout::NODES),
    ("Pod", layout::PODS),
    ("Service", layout::SERVICES),
    ("EndpointSlice", layout::SLICES),
    ("NetworkPolicy", layout::POLICIES),
    ("AdminNetworkPolicy", layout::POLICIES),
    ("BaselineAdminNetworkPolicy", layout::POLICIES),
    ("ClusterNetworkPolicy", layout::POLICIES),
    ("Event", layout::EVENTS),
    ("KubeletConfiguration", layout::KUBELET),
];

/// Files that manifests answer even when they hold nothing of the kind: what is given is all that there is. Events and the
/// kubelet's configuration are seldom among manifests, so their absence says nothing.
const ANSWERED: [&str; 6] =
    [layout::NAMESPACES, layout::NODES, layout::PODS, layout::SERVICES, layout::SLICES, layout::POLICIES];

/// The files, by their id.
#[must_use]
pub fn objects<'d>(documents: impl IntoIterator<Item = &'d Document>) -> BTreeMap<&'static str, String> {
    let mut files: BTreeMap<&'static str, String> = BTreeMap::new();
    for id in ANSWERED {
        files.insert(id, String::new());
    }
    for document in documents {
        for part in parts(&document.text) {
            let file = kind(part)
                .and_then(|kind| KINDS.iter().find(|(name, _)| *name == kind))
                .map_or(layout::PODS, |(_, file)| *file);
            let text = files.entry(file).or_default();
            if file != layout::KUBELET {
                text.push_str("---\n# ");
                text.push_str(&document.name);
                text.push('\n');
            }
            text.push_str(part);
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
    }
    for text in files.values_mut().filter(|text| text.is_empty()) {
        text.push_str("# none was given\n");
    }
    files
}

/// The documents of a YAML stream (YAML 1.2 section 9.1.2): `---` and `...` at the start of a line end one.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut place = 0;
    for line in text.split_inclusive('\n') {
        let ends = |marker: &str| {
            line.strip_prefix(marker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        };
        if ends("---") || ends("...") {
            parts.push(text.get(start..place).unwrap_or_default());
            // What follows the marker on its line belongs to the next document.
            start = place + 3;
        }
        place += line.len();
    }
    parts.push(text.get(start..).unwrap_or_default());
    let says_something = |part: &&str| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with(['#', '%']))
    };
    parts.into_iter().filter(says_something).collect()
}

/// The top-level `kind` of a block mapping, or of a JSON object.
fn kind(part: &str) -> Option<&str> {
    let line = part.lines().find_map(|line| line.strip_prefix("kind:"));
    if let Some(value) = line {
        let value = value.split(" #").next().unwrap_or_default().trim();
        return Some(value.trim_matches(['"', '\'']));
    }
    let json: BTreeMap<&str, serde_json::Value> =
        part.trim_start().starts_with('{').then(|| serde_json::from_str(part).ok())??;
    let kind = json.get("kind")?.as_str()?.to_owned();
    KINDS.iter().map(|(name, _)| *name).find(|name| *name == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[&str]) -> BTreeMap<&'static str, String> {
        let documents: Vec<Document> =
            texts.iter().map(|text| Document { name: "a.yaml".into(), text: (*text).into() }).collect();
        objects(&documents)
    }

    #[test]
    fn each_kind_goes_into_its_file_and_what_is_not_given_is_said_to_be_none() {
        let files = files(&[
            "# comment\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n--- # next\nkind: \"Pod\" # b\nmetadata: {name: b}",
            r#"{"kind": "NetworkPolicy", "metadata": {"name": "c"}}"#,
            "kind: List\nitems: []\n",
        ]);
        assert!(files[layout::SERVICES].contains("metadata: {name: a}"), "{files:#?}");
        assert!(files[layout::PODS].contains("metadata: {name: b}"));
        assert!(files[layout::PODS].contains("kind: List"));
        assert!(files[layout::POLICIES].contains(r#""name": "c""#));
        assert_eq!(files[layout::NODES], "# none was given\n");
        assert!(!files.contains_key(layout::EVENTS));
    }

    #[test]
    fn a_block_scalar_may_hold_what_looks_like_a_kind() {
        let files = files(&["kind: Pod\nmetadata:\n  annotations:\n    a: |\n      kind: Service\n"]);
        assert!(files[layout::PODS].contains("kind: Service"));
        assert_eq!(files[layout::SERVICES], "# none was given\n");
    }
}
