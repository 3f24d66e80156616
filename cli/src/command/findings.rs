//! The end of every lint: chooses among the findings, tells them in each form, and fails on the worst.
//!
//! Invariant: what `--severity`, `-n` and `--suppress` take away is in no form and fails nothing; an object that could not
//! be used is exit 2 unless `--skip-invalid` says otherwise.

use netlab_core::diagnostic::{Severity, catalog};
use netlab_core::envelope::Envelope;
use netlab_core::policy::lint::{Finding, suppress};
use serde::Serialize;

use crate::args::findings::{FindingsArgs, Level};
use crate::args::globals::{Format, Globals};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::diagnostic::{Texts, source_line};
use crate::output::lint::{Summary, markdown, table, wide};
use crate::output::sarif::sarif;
use crate::output::terminal::Terminal;

/// What a lint found.
#[derive(Debug)]
pub(crate) struct Found<'a, R> {
    /// Everything.
    pub(crate) findings: Vec<Finding>,
    /// What was not looked at.
    pub(crate) not_examined: Vec<String>,
    /// How many objects or files cannot be used.
    pub(crate) unusable: usize,
    /// What was read, as in `9 policies`.
    pub(crate) read: String,
    /// The same as fields.
    pub(crate) read_as_data: R,
    /// The texts, to quote from.
    pub(crate) texts: &'a Texts,
}

/// The answer, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a, R> {
    summary: Counts,
    findings: Vec<Shown<'a>>,
    codes: Vec<Explained>,
    #[serde(flatten)]
    read: R,
    suppressed: usize,
    unused_suppressions: Vec<String>,
}

/// How many of each severity.
#[derive(Serialize)]
struct Counts {
    errors: usize,
    warnings: usize,
    notes: usize,
}

/// A finding, and the line that it is about.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    source_line: Option<&'a str>,
}

/// Why findings of a code matter.
#[derive(Serialize)]
struct Explained {
    code: &'static str,
    title: &'static str,
    explanation: &'static str,
}

/// Tells them.
pub(crate) fn tell(
    found: Found<'_, impl Serialize>,
    args: &FindingsArgs,
    globals: &Globals,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let Found { mut findings, not_examined, unusable, read, read_as_data, texts } = found;
    let namespace = globals.listed_namespace();
    findings.retain(|finding| {
        let of = finding.diagnostic.object.as_ref().and_then(|object| object.namespace.as_deref());
        finding.diagnostic.severity <= args.severity.severity()
            && (namespace.is_none() || of.is_none() || of == namespace)
    });
    let (suppressed, unused) = suppress(&mut findings, &args.suppress);
    for suppression in &unused {
        terminal.note(&format!("note: `--suppress {suppression}` matches no finding: take it away"));
    }
    for text in not_examined.iter().filter(|_| unusable == 0) {
        terminal.note(&format!("note: not examined: {text}"));
    }

    let summary = Summary { findings: &findings, read, suppressed };
    match terminal.format {
        Format::Md => terminal.whole(&markdown(&summary)),
        Format::Sarif => terminal.whole(&sarif(&findings, &not_examined)?),
        Format::Json | Format::Yaml => {
            let of =
                |severity| findings.iter().filter(|finding| finding.diagnostic.severity == severity).count();
            let shown = findings.iter().map(|finding| Shown {
                finding,
                source_line: source_line(&finding.diagnostic, texts).map(|(_, line)| line),
            });
            let answer = Answer {
                summary: Counts {
                    errors: of(Severity::Error),
                    warnings: of(Severity::Warning),
                    notes: of(Severity::Note),
                },
                findings: shown.collect(),
                codes: codes(&findings),
                read: read_as_data,
                suppressed,
                unused_suppressions: unused.iter().map(ToString::to_string).collect(),
            };
            terminal.data(&Envelope::new("Findings", answer, not_examined))
        }
        _ if terminal.quiet => terminal.text(&format!("{summary}\n")),
        Format::Wide => terminal.text(&wide(&summary, texts)),
        _ => terminal.text(&table(&summary, texts)),
    }?;
    if unusable > 0 && !globals.skip_invalid {
        let failure = load::unusable(unusable);
        terminal.note(&format!("error: {}", failure.what));
        return Ok(failure.exit);
    }
    let fails = findings.iter().any(|finding| finding.diagnostic.severity <= args.fail_on.severity());
    Ok(match (fails, unusable > 0) {
        (true, _) => Exit::No,
        (false, true) => Exit::CannotTell,
        (false, false) => Exit::Yes,
    })
}

/// The pages of the codes that were found, each once, by code.
fn codes(findings: &[Finding]) -> Vec<Explained> {
    let mut codes: Vec<&str> = findings.iter().map(|finding| finding.diagnostic.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let pages = codes.into_iter().filter_map(catalog::page);
    pages
        .map(|page| Explained { code: page.code, title: page.title, explanation: page.explanation })
        .collect()
}

impl Level {
    /// The severity of that name.
    const fn severity(self) -> Severity {
        match self {
            Self::Note => Severity::Note,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}
