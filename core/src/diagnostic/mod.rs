//! Diagnostics as data: what is wrong, with which object and field, and what to do.
//!
//! Invariant: every code has a page in [`catalog`]; rendering happens elsewhere. A diagnostic of severity
//! [`Severity::Error`] means that its object was left out, so the run is incomplete.

pub mod catalog;
pub mod code;

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use crate::model::source::{Position, Source};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object was left out.
    Error,
    /// The object stands, but probably does not mean what was intended.
    Warning,
    /// Worth knowing.
    Note,
}

/// Which object a diagnostic is about, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectRef {
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [kind, name] = [&self.kind, &self.name].map(|text| cut(text));
        match &self.namespace {
            Some(namespace) => write!(f, "{kind} {}/{name}", cut(namespace)),
            None => write!(f, "{kind} {name}"),
        }
    }
}

/// The longest word that is told whole: no name, value or path that means something is longer.
const LONGEST_WORD: usize = 400;

/// A word, or the beginning of one that is too long for anybody to read.
fn cut(word: &str) -> Cow<'_, str> {
    if word.len() <= LONGEST_WORD {
        return Cow::Borrowed(word);
    }
    let beginning: String = word.chars().take(LONGEST_WORD / 4).collect();
    // What encloses it goes on doing so.
    let end = word.chars().next_back().filter(|c| matches!(c, '`' | '"')).map_or(String::new(), String::from);
    Cow::Owned(format!("{beginning}…{end}"))
}

/// A text all of whose words can be read.
fn shortened(text: String) -> String {
    if text.len() <= LONGEST_WORD {
        return text;
    }
    text.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

/// One finding about the input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diagnostic {
    /// The file, as the user named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// Where in the file.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// `NL0101`; see [`catalog`].
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Which object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// Field path, `spec.ingress[0].from[1]`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What is wrong, one line, no full stop.
    pub message: String,
    /// What to do, one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error: the object was left out.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, message)
    }

    /// A warning: the object stands, but probably does not mean what was intended.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, message)
    }

    /// A note.
    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Note, message)
    }

    fn new(code: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        let message = shortened(message.into());
        Self {
            file: None,
            position: None,
            code,
            severity,
            object: None,
            path: String::new(),
            message,
            hint: None,
        }
    }

    /// With a place in the file.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// With the file's name.
    #[must_use]
    pub fn in_file(mut self, file: &Arc<str>) -> Self {
        self.file = Some(Arc::clone(file));
        self
    }

    /// With the place of a field, as the source knows it.
    #[must_use]
    pub fn at_path(mut self, source: &Source, path: impl Into<String>) -> Self {
        self.path = path.into();
        self.file.clone_from(&source.file);
        self.position = source.locate(&self.path);
        self
    }

    /// About an object.
    #[must_use]
    pub fn about(mut self, object: &ObjectRef) -> Self {
        self.object = Some(object.clone());
        self
    }

    /// With what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(shortened(hint.into()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_nobody_can_read_is_cut_and_all_others_stay() {
        let long = "w".repeat(1_000_000);
        let finding =
            Diagnostic::error(code::INVALID_SELECTOR, format!("`{long}` is no label value: too long"))
                .with_hint(format!("not {long}"));
        assert_eq!(finding.message, format!("`{}…` is no label value: too long", "w".repeat(99)));
        assert_eq!(finding.hint, Some(format!("not {}…", "w".repeat(100))));
        let object = ObjectRef { kind: "Pod".into(), namespace: Some("a".into()), name: long };
        assert_eq!(object.to_string(), format!("Pod a/{}…", "w".repeat(100)));
        let short = format!("`{}` stays", "é".repeat(199));
        assert_eq!(Diagnostic::note(code::INVALID_SELECTOR, short.clone()).message, short);
    }
}
