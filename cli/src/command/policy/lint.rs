//! `netlab policy lint`: what is probably not meant.

use netlab_core::diagnostic::Severity;
use netlab_core::envelope::Envelope;
use netlab_core::policy::lint::{Finding, Report, lint, suppress};
use serde::Serialize;

use crate::args::globals::{Format, Globals};
use crate::args::policy::{Level, Lint};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::lint::{Summary, markdown, table, wide};
use crate::output::sarif::sarif;
use crate::output::terminal::Terminal;

/// The answer, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    findings: &'a [Finding],
    policies: usize,
    suppressed: usize,
    unused_suppressions: Vec<String>,
}

/// Lints.
pub(crate) fn run(args: &Lint, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    if globals.selector.is_some() {
        return Err(Failure::unreadable("`-l` chooses pods, and `policy lint` is about policies")
            .hint("`-n` limits it to the policies of a namespace"));
    }
    let busy = terminal.busy("reading policies");
    let input = load::read_lenient(&globals.filename, &globals.what_if, globals, terminal)?;
    let loaded = input.loaded;
    let errors = load::spoilt(&loaded.diagnostics);
    let Report { mut findings, not_examined } = lint(&loaded.cluster, &loaded.policies, loaded.diagnostics);
    drop(busy);
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
    let not_examined = [input.not_examined, not_examined].concat();
    for text in not_examined.iter().filter(|_| errors == 0) {
        terminal.note(&format!("note: not examined: {text}"));
    }

    let policies = loaded.policies.list.len();
    let read = format!("{policies} {}", if policies == 1 { "policy" } else { "policies" });
    let summary = Summary { findings: &findings, read, suppressed };
    match terminal.format {
        Format::Md => terminal.whole(&markdown(&summary)),
        Format::Sarif => terminal.whole(&sarif(&findings, &not_examined)?),
        Format::Json | Format::Yaml => {
            let answer = Answer {
                findings: &findings,
                policies,
                suppressed,
                unused_suppressions: unused.iter().map(ToString::to_string).collect(),
            };
            terminal.data(&Envelope::new("Findings", answer, not_examined))
        }
        _ if terminal.quiet => terminal.text(&format!("{summary}\n")),
        Format::Wide => terminal.text(&wide(&summary, &loaded.texts)),
        _ => terminal.text(&table(&summary, &loaded.texts)),
    }?;
    if errors > 0 && !globals.skip_invalid {
        let failure = load::unusable(errors);
        terminal.note(&format!("error: {}", failure.what));
        return Ok(failure.exit);
    }
    let fails = findings.iter().any(|finding| finding.diagnostic.severity <= args.fail_on.severity());
    Ok(match (fails, errors > 0) {
        (true, _) => Exit::No,
        (false, true) => Exit::CannotTell,
        (false, false) => Exit::Yes,
    })
}

impl Level {
    /// The severity of that name.
    pub(crate) const fn severity(self) -> Severity {
        match self {
            Self::Note => Severity::Note,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}
