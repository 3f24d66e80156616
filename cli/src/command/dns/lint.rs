//! `netlab dns lint`: mistakes in the configuration of a cluster's DNS.

use std::path::Path;
use std::sync::Arc;

use netlab_core::diagnostic::Severity;
use netlab_core::envelope::Envelope;
use netlab_core::input::Document;
use netlab_core::policy::lint::suppress;
use netlab_dnsdiag::lint::{Finding, Inputs, lint};
use serde::Serialize;

use crate::args::dns_lint::Lint;
use crate::args::globals::{Format, Globals};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::{self, Input};
use crate::output::diagnostic::Texts;
use crate::output::lint::{Summary, markdown, table, wide};
use crate::output::sarif::sarif;
use crate::output::terminal::Terminal;

/// The answer, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    findings: &'a [Finding],
    examined: Vec<Examined>,
    suppressed: usize,
    unused_suppressions: Vec<String>,
}

#[derive(Serialize)]
struct Examined {
    what: &'static str,
    count: usize,
}

/// Lints.
pub(crate) fn run(args: &Lint, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let files = [&args.corefile, &args.kubelet_config, &args.resolv_conf];
    let stdin = files.into_iter().flatten().chain(&globals.filename).filter(|path| *path == Path::new("-"));
    if stdin.count() > 1 {
        return Err(Failure::unreadable("standard input is one file, and `-` stands for several")
            .hint("give the others by name"));
    }
    let input = (!globals.filename.is_empty())
        .then(|| load::read_lenient(&globals.filename, &globals.what_if, globals, terminal))
        .transpose()?;
    let [corefile, kubelet, node_file] = files.map(|path| path.as_deref().map(load::document).transpose());
    let (corefile, kubelet, node_file) = (corefile?, kubelet?, node_file?);
    if input.is_none() && [&corefile, &kubelet, &node_file].iter().all(|file| file.is_none()) {
        return Err(Failure::unreadable("nothing to look at").hint(
            "name a file with `--corefile`, `--kubelet-config` or `--resolv-conf`, or manifests with `-f`",
        ));
    }
    let report = lint(Inputs {
        corefile: corefile.as_ref(),
        kubelet: kubelet.as_ref(),
        node_file: node_file.as_ref(),
        manifests: input.as_ref().map(|input| &input.loaded),
    });
    let Input { loaded, not_examined } = input
        .unwrap_or_else(|| Input { loaded: netlab_core::input::Loaded::default(), not_examined: Vec::new() });
    let mut findings = report.findings;
    // What cannot be used is told here too; what is said about policies that can is `policy lint`'s.
    let unusable = loaded.diagnostics.iter().filter(|found| found.severity == Severity::Error);
    findings.extend(unusable.cloned().map(Finding::from));
    findings.sort();
    let unread = |finding: &&Finding| {
        finding.diagnostic.severity == Severity::Error && !finding.diagnostic.code.starts_with("NL07")
    };
    let errors = load::spoilt(
        &findings.iter().filter(unread).map(|finding| finding.diagnostic.clone()).collect::<Vec<_>>(),
    );
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
    let not_examined = [not_examined, report.not_examined].concat();
    for text in not_examined.iter().filter(|_| errors == 0) {
        terminal.note(&format!("note: not examined: {text}"));
    }
    let read: Vec<String> = report
        .examined
        .iter()
        .map(|(what, count)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    let read = if read.is_empty() { "0 files".to_owned() } else { read.join(", ") };
    let summary = Summary { findings: &findings, read, suppressed };
    let mut texts: Texts = loaded.texts;
    for Document { name, text } in [corefile, kubelet, node_file].into_iter().flatten() {
        texts.insert(Arc::clone(&name), text);
    }
    match terminal.format {
        Format::Md => terminal.whole(&markdown(&summary)),
        Format::Sarif => terminal.whole(&sarif(&findings, &not_examined)?),
        Format::Json | Format::Yaml => {
            let answer = Answer {
                findings: &findings,
                examined: report
                    .examined
                    .iter()
                    .map(|(what, count)| Examined { what, count: *count })
                    .collect(),
                suppressed,
                unused_suppressions: unused.iter().map(ToString::to_string).collect(),
            };
            terminal.data(&Envelope::new("Findings", answer, not_examined))
        }
        _ if terminal.quiet => terminal.text(&format!("{summary}\n")),
        Format::Wide => terminal.text(&wide(&summary, &texts)),
        _ => terminal.text(&table(&summary, &texts)),
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
