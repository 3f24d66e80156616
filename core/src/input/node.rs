//! The tree that a document is: values that know where they were written.
//!
//! Invariant: keys of a mapping are unique, and every value has a place. What a plain scalar means is settled
//! here (see [`super::yaml`]); what a field means is not.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::model::source::Position;

/// A value and its place: that of its first character.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node<'t> {
    pub(crate) position: Position,
    pub(crate) value: Value<'t>,
}

/// What a node holds. Scalars that are not strings keep the text they were read from, to quote it back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'t> {
    Null,
    Bool { value: bool, text: Cow<'t, str> },
    Int { value: i64, text: Cow<'t, str> },
    Float { value: f64, text: Cow<'t, str> },
    String(Cow<'t, str>),
    Sequence(Vec<Node<'t>>),
    Mapping(Vec<Entry<'t>>),
}

/// A key, its place, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry<'t> {
    pub(crate) key: Cow<'t, str>,
    pub(crate) position: Position,
    pub(crate) value: Node<'t>,
}

impl<'t> Node<'t> {
    /// The entry of a mapping.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry<'t>> {
        match &self.value {
            Value::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The value of a mapping's key, null included.
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'t>> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The text, if this is a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// What this is, for messages: "a list", "the number `80`".
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool { text, .. } => format!("the boolean `{text}`"),
            Value::Int { text, .. } | Value::Float { text, .. } => format!("the number `{text}`"),
            Value::String(text) => format!("the string {}", excerpt(text)),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(_) => "an object".to_owned(),
        }
    }

    /// The place of every field path for which `wanted` holds, the node itself under the empty path. A path that
    /// is not wanted is not descended into.
    pub(crate) fn spans(&self, wanted: &dyn Fn(&str) -> bool) -> BTreeMap<String, Position> {
        let mut spans = vec![(String::new(), self.position)];
        self.visit(&mut String::new(), &mut |path, position, _, _| {
            let wanted = wanted(path);
            if wanted {
                spans.push((path.to_owned(), position));
            }
            wanted
        });
        spans.into_iter().collect()
    }

    /// Every value below, with its path and whether it is a list's element.
    pub(crate) fn walk(&self, path: &str, each: &mut dyn FnMut(&str, &Self, bool)) {
        self.visit(&mut path.to_owned(), &mut |path, _, node, in_list| {
            each(path, node, in_list);
            true
        });
    }

    /// Calls `descend(path, place, value, is a list's element)` for every value below, and goes on into the value
    /// where that says so. The place of a field is its key's.
    fn visit(&self, path: &mut String, descend: &mut dyn FnMut(&str, Position, &Self, bool) -> bool) {
        let length = path.len();
        match &self.value {
            Value::Mapping(entries) => {
                for entry in entries {
                    push_key(path, &entry.key);
                    if descend(path, entry.position, &entry.value, false) {
                        entry.value.visit(path, descend);
                    }
                    path.truncate(length);
                }
            }
            Value::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    push_index(path, index);
                    if descend(path, item.position, item, true) {
                        item.visit(path, descend);
                    }
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Appends an index to a field path: `[3]`.
pub(crate) fn push_index(path: &mut String, index: usize) {
    path.push('[');
    path.push_str(&index.to_string());
    path.push(']');
}

/// Appends a key to a field path as the API server's messages do: `.name`, or `[a.b/c]` where the key itself
/// holds a separator.
pub(crate) fn push_key(path: &mut String, key: &str) {
    if key.contains(['.', '/', '[']) {
        path.push('[');
        path.push_str(key);
        path.push(']');
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    }
}

/// A text in backquotes, cut where it gets long and on one line.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    let cut: String =
        line.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if cut.len() < text.len() { format!("`{cut}…`") } else { format!("`{cut}`") }
}
