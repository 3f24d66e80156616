//! Findings for people and reviews.
//!
//! Invariant: every form says the same findings, in the same order; the sum is the last line of the table and the first
//! of Markdown.

use std::fmt::Write;

use netlab_core::diagnostic::{Diagnostic, Severity, catalog};
use netlab_core::policy::lint::Finding;

use super::diagnostic::{Texts, count, render};
use super::evaluation::place;
use super::layout::{WIDTH, wrap};
use super::markup::{self, sentence};
use super::style::{QUIET, paint};

/// What was found, and in how much.
pub(crate) struct Summary<'a> {
    /// The findings that are shown.
    pub(crate) findings: &'a [Finding],
    /// What was read, as in `9 policies`.
    pub(crate) read: String,
    /// How many findings `--suppress` took away.
    pub(crate) suppressed: usize,
}

/// `1 warning in 9 policies`, `nothing found in 4 policies`.
impl std::fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<Diagnostic> = self.findings.iter().map(|finding| finding.diagnostic.clone()).collect();
        let what = if all.is_empty() { "nothing found".to_owned() } else { count(&all) };
        write!(f, "{what} in {}", self.read)?;
        if self.suppressed > 0 {
            write!(f, ", {} suppressed", self.suppressed)?;
        }
        Ok(())
    }
}

/// Each finding with its line, and the sum.
pub(crate) fn table(summary: &Summary<'_>, texts: &Texts) -> String {
    let mut text = String::new();
    for finding in summary.findings {
        text += &render(&finding.diagnostic, texts);
        text.push('\n');
    }
    let _ = writeln!(text, "{summary}");
    text
}

/// The same, and why each matters.
pub(crate) fn wide(summary: &Summary<'_>, texts: &Texts) -> String {
    let mut text = String::new();
    for finding in summary.findings {
        text += &render(&finding.diagnostic, texts);
        if let Some(page) = catalog::page(finding.diagnostic.code) {
            for (index, line) in wrap(page.explanation, WIDTH - 8).into_iter().enumerate() {
                let head = if index == 0 { "  why:  " } else { "        " };
                let _ = writeln!(text, "{}{line}", paint(QUIET, head));
            }
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{summary}");
    text
}

/// A comment for a review: the sum and a table.
pub(crate) fn markdown(summary: &Summary<'_>) -> String {
    let mut text = format!("### netlab: {summary}\n");
    if summary.findings.is_empty() {
        return text;
    }
    text.push_str("\n| | code | object | finding | what to do |\n|---|---|---|---|---|\n");
    for finding in summary.findings {
        let Diagnostic { file, position, code, severity, object, path, message, hint } = &finding.diagnostic;
        let word = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let object = object.as_ref().map(ToString::to_string).unwrap_or_default();
        let at = place(file.as_deref(), position.map(|position| position.line)).unwrap_or_default();
        let cells: Vec<String> = [object, path.clone(), at]
            .into_iter()
            .filter(|cell| !cell.is_empty())
            .map(|cell| markup::code(&cell))
            .collect();
        let _ = writeln!(
            text,
            "| {word} | {code} | {} | {} | {} |",
            cells.join("<br>"),
            sentence(message),
            sentence(hint.as_deref().unwrap_or_default())
        );
    }
    text
}
