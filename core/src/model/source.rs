//! Where an object and each of its fields came from.
//!
//! Invariant: a [`Source`] of a file can name file, line and column of every field path that the text has; one
//! of an API server names uid and resourceVersion instead. Neither holds the text itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A place in a file: line and column count from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
}

/// Where an object came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file's name as the user gave it, if it came from one.
    pub file: Option<Arc<str>>,
    /// Field path (`spec.ingress[0].from[1]`, empty for the object itself) to its place.
    pub spans: Arc<BTreeMap<String, Position>>,
    /// `metadata.uid`, when an API server gave one.
    pub uid: Option<Arc<str>>,
    /// `metadata.resourceVersion`, when an API server gave one.
    pub resource_version: Option<Arc<str>>,
}

impl Source {
    /// The place of a field, or of the nearest field around it that has one.
    pub fn locate(&self, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            if let Some(position) = self.spans.get(path) {
                return Some(*position);
            }
            if path.is_empty() {
                return None;
            }
            path = path.rfind(['.', '[']).map_or("", |end| &path[..end]);
        }
    }
}
