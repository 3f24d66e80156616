//! `netlab dns lint`: mistakes in the configuration of a cluster's DNS.

use std::path::Path;
use std::sync::Arc;

use netlab_core::diagnostic::Severity;
use netlab_core::input::Document;
use netlab_dnsdiag::lint::{Finding, Inputs, lint};
use serde::Serialize;

use crate::args::dns_lint::Lint;
use crate::args::globals::Globals;
use crate::command::findings::{Found, tell};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::{self, Input};
use crate::output::diagnostic::Texts;
use crate::output::terminal::Terminal;

/// What was read.
#[derive(Serialize)]
struct Read {
    examined: Vec<Examined>,
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
    let unusable = load::spoilt(
        &findings.iter().filter(unread).map(|finding| finding.diagnostic.clone()).collect::<Vec<_>>(),
    );
    let read: Vec<String> = report
        .examined
        .iter()
        .map(|(what, count)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    let read = if read.is_empty() { "0 files".to_owned() } else { read.join(", ") };
    let mut texts: Texts = loaded.texts;
    for Document { name, text } in [corefile, kubelet, node_file].into_iter().flatten() {
        texts.insert(Arc::clone(&name), text);
    }
    let examined = report.examined.iter();
    let found = Found {
        findings,
        not_examined: [not_examined, report.not_examined].concat(),
        unusable,
        read,
        read_as_data: Read {
            examined: examined.map(|(what, count)| Examined { what, count: *count }).collect(),
        },
        texts: &texts,
    };
    tell(found, &args.findings, globals, terminal)
}
