//! Texts that are no objects of a cluster, read into a caller's own structs: a component's configuration, the data of
//! a `ConfigMap`.
//!
//! Invariant: read as objects are (same parser, same budget, same errors), one answer per document or list item, in
//! order. What the fields mean is the caller's to know.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Document;
use super::budget::Budget;
use super::decode::decode;
use super::node::{Node, Value};
use super::objects::Sourced;
use super::yaml;
use crate::diagnostic::{Diagnostic, code};
use crate::model::source::Source;

/// One document, or why it could not be read.
pub type Read<T> = Result<Sourced<T>, Box<Diagnostic>>;

/// Reads every document of a text, and every item of its lists; with a kind, those of that kind alone.
pub fn read<T: DeserializeOwned>(document: &Document, kind: Option<&str>, budget: &Budget) -> Vec<Read<T>> {
    let mut found = Vec::new();
    for parsed in yaml::read(&document.text, budget) {
        match parsed {
            Ok(parsed) => {
                let faults = parsed.faults.into_iter().next();
                if let Some(fault) = faults.filter(|_| kind.is_none()) {
                    found.push(Err(Box::new(fault.in_file(&document.name))));
                } else {
                    take(document, &parsed.root, kind, &mut found);
                }
            }
            // Whether it is of the kind cannot be known; who reads objects says what is wrong with it.
            Err(problem) if kind.is_none() => found.push(Err(Box::new(problem.in_file(&document.name)))),
            Err(_) => {}
        }
    }
    found
}

fn take<T: DeserializeOwned>(
    document: &Document,
    node: &Node<'_>,
    kind: Option<&str>,
    found: &mut Vec<Read<T>>,
) {
    if node.value == Value::Null {
        return;
    }
    let written = node.get("kind").and_then(Node::as_str);
    if written.is_some_and(|written| written.ends_with("List"))
        && let Some(Value::Sequence(items)) = node.get("items").map(|items| &items.value)
    {
        return items.iter().for_each(|item| take(document, item, kind, found));
    }
    if kind.is_some() && written != kind {
        return;
    }
    let source = Source {
        file: Some(Arc::clone(&document.name)),
        spans: Arc::new(node.spans(&|_| true)),
        ..Source::default()
    };
    found.push(match decode(node) {
        Ok(object) => Ok(Sourced { object, source }),
        Err(error) => {
            let mut problem = Diagnostic::error(code::WRONG_TYPE, error.message).in_file(&document.name);
            problem.position = error.position;
            problem.path = error.path;
            problem.hint = error.hint;
            Err(Box::new(problem))
        }
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read_text(text: &str, kind: Option<&str>) -> Vec<Read<BTreeMap<String, serde_json::Value>>> {
        let document = Document { name: "file.yaml".into(), text: text.into() };
        read(&document, kind, &Budget::default())
    }

    #[test]
    fn every_field_has_its_place_and_every_fault_its_own() {
        let found = read_text("kind: A\ndata:\n  key: |\n    text\n", None);
        let object = found[0].as_ref().expect("an object");
        assert_eq!(object.object["data"]["key"], "text\n");
        assert_eq!(object.source.locate("data.key").map(|place| (place.line, place.column)), Some((3, 3)));
        let found = read_text("kind: A\nkind: B\n", None);
        let fault = found[0].as_ref().expect_err("a fault");
        assert_eq!((fault.code, fault.position.map(|place| place.line)), (code::DOUBLED_KEY, Some(2)));
    }

    #[test]
    fn a_kind_is_picked_out_of_everything_else() {
        let text = "kind: A\n---\nkind: List\nitems: [{kind: B, x: 1}, {kind: A, x: 2}]\n---\n[not, an, object]\n---\n{{";
        let found = read_text(text, Some("A"));
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].as_ref().expect("an object").object["x"], 2);
    }
}
