//! What can be wrong with a bundle: which file, where in it, and what to do.

use std::fmt;

/// Everything that is wrong with a bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BundleError {
    /// One or more problems, in the order of the files.
    pub problems: Vec<Problem>,
}

impl BundleError {
    /// A single problem.
    #[must_use]
    pub fn one(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file within the bundle, or the bundle itself.
    pub file: String,
    /// Line and column, both from 1, where the text has a place.
    pub place: Option<(usize, usize)>,
    /// What is wrong, one line.
    pub message: String,
    /// What to do about it, one line.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl Problem {
    pub(super) fn new(file: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { file: file.into(), place: None, message: message.into(), hint: hint.into() }
    }

    pub(super) fn json(file: &str, error: &serde_json::Error) -> Self {
        let text = error.to_string();
        // The place is told apart from the message.
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned();
        Self {
            place: Some((error.line(), error.column().max(1))),
            ..Self::new(file, message, "docs/dns-diagnose.md has the fields of each file")
        }
    }

    pub(super) fn no_manifest() -> Self {
        Self::new(
            super::layout::MANIFEST,
            "not there: this is no bundle",
            "name the directory that holds bundle.json, with the pod that it is about",
        )
    }

    pub(super) fn unknown_absent(id: &str) -> Self {
        Self::new(
            super::layout::MANIFEST,
            format!("`absent` names `{id}`, which is no file of a bundle"),
            "docs/dns-diagnose.md lists the files",
        )
    }

    pub(super) fn absent_yet_there(id: &str) -> Self {
        Self::new(
            super::layout::MANIFEST,
            format!("`absent` names `{id}`, but the file is there"),
            "take one of them away",
        )
    }
}
