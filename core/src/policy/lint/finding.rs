//! A finding: a diagnostic, and the count of what it touches.
//!
//! Invariant: findings sort by file, place, code and text; in JSON every field is there, `null` where it is unknown.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::diagnostic::{Diagnostic, ObjectRef};
use crate::model::policy::Policy;

/// How much a finding touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// How many.
    pub number: usize,
    /// Of what: `pods`.
    pub of: &'static str,
}

/// Something that is probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What, where, and what to do.
    pub diagnostic: Diagnostic,
    /// How much it touches, where that can be counted.
    pub count: Option<Count>,
}

impl Finding {
    /// A finding about a field of a policy.
    pub(super) fn at(policy: &Policy, path: &str, diagnostic: Diagnostic) -> Self {
        let object = ObjectRef {
            kind: policy.id.kind.as_str().to_owned(),
            namespace: policy.id.namespace.clone(),
            name: policy.id.name.clone(),
        };
        Self { diagnostic: diagnostic.about(&object).at_path(&policy.source, path), count: None }
    }

    /// With the number of pods that it touches.
    #[must_use]
    pub(super) fn pods(mut self, number: usize) -> Self {
        self.count = Some(Count { number, of: "pods" });
        self
    }
}

impl From<Diagnostic> for Finding {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { diagnostic, count: None }
    }
}

/// `{code, severity, object, path, file, line, column, message, hint, count, counted}`.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Diagnostic { file, position, code, severity, object, path, message, hint } = &self.diagnostic;
        let mut map = serializer.serialize_map(Some(11))?;
        map.serialize_entry("code", code)?;
        map.serialize_entry("severity", severity)?;
        map.serialize_entry("object", object)?;
        map.serialize_entry("path", path)?;
        map.serialize_entry("file", file)?;
        map.serialize_entry("line", &position.map(|position| position.line))?;
        map.serialize_entry("column", &position.map(|position| position.column))?;
        map.serialize_entry("message", message)?;
        map.serialize_entry("hint", hint)?;
        map.serialize_entry("count", &self.count.map(|count| count.number))?;
        map.serialize_entry("counted", &self.count.map(|count| count.of))?;
        map.end()
    }
}

/// `2 pods`, `1 pod`.
pub(super) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}
