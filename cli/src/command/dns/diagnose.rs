//! `netlab dns diagnose`: was it DNS?

use netlab_core::envelope::Envelope;
use netlab_dnsdiag::bundle::{self, Bundle, BundleError};
use netlab_dnsdiag::check::Registry;
use netlab_dnsdiag::diagnosis::{Diagnosis, diagnose};
use netlab_dnsdiag::rules::{Class, RULES};

use super::live;
use crate::args::dns::Diagnose;
use crate::args::globals::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::diagnosis::render;
use crate::output::terminal::Terminal;

/// Evidence to be judged, and what is to be said of how it was had.
pub(super) struct Judged {
    pub(super) bundle: Bundle,
    pub(super) not_examined: Vec<String>,
    pub(super) interrupted: bool,
}

/// Judges.
pub(crate) fn run(args: &Diagnose, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(expected) = &args.expect {
        is_known(expected)?;
    }
    for name in &args.words {
        super::query::is_name(name)?;
    }
    let mut judged = match &args.bundle {
        Some(directory) => {
            let bundle = bundle::read(directory).map_err(|error| unreadable(&error))?;
            for file in &bundle.ignored {
                terminal.note(&format!("`{file}` is no file of a bundle and was not read"));
            }
            let not_examined = bundle.not_examined.clone();
            Judged { bundle, not_examined, interrupted: false }
        }
        None => live::gathered(args, globals, terminal)?,
    };
    if args.bundle.is_some() && !args.words.is_empty() {
        judged.bundle.target.names.clone_from(&args.words);
    }
    let mut diagnosis = diagnose(&judged.bundle.target, &judged.bundle.evidence, &Registry::default());
    if judged.interrupted && matches!(diagnosis.verdict.class, Class::Undetermined | Class::Healthy) {
        broken_off(&mut diagnosis, &judged.bundle);
    }
    let mut not_examined = [judged.not_examined, diagnosis.not_examined.clone()].concat();
    not_examined.sort();
    not_examined.dedup();
    let envelope = Envelope::new("Diagnosis", &diagnosis, not_examined);
    terminal.answer(&envelope, |terminal| {
        render(&diagnosis, &envelope.not_examined, judged.interrupted, terminal.charset)
    })?;
    Ok(match (&args.expect, judged.interrupted) {
        (_, true) => Exit::Interrupted,
        (Some(expected), _) if is_it(&diagnosis, expected) => Exit::Yes,
        (Some(expected), _) => {
            terminal.note(&format!("expected {expected}"));
            Exit::No
        }
        (None, _) => match diagnosis.verdict.class {
            Class::Healthy => Exit::Yes,
            Class::Undetermined => Exit::CannotTell,
            _ => Exit::No,
        },
    })
}

/// What was broken off before a cause was seen is undetermined for that alone: questions were on their way, not unasked.
fn broken_off(diagnosis: &mut Diagnosis, bundle: &Bundle) {
    let rows = || bundle.evidence.probes().map(|(_, probe)| probe);
    let answered: u32 = rows().map(netlab_plugin::evidence::Probe::answers_seen).sum();
    diagnosis.verdict.class = Class::Undetermined;
    "interrupted before enough was known".clone_into(&mut diagnosis.verdict.summary);
    let by_then = match answered {
        0 => "no question had been answered by then".to_owned(),
        1 => "one question had been answered by then, others were on their way".to_owned(),
        count => format!("{count} questions had been answered by then, others were on their way"),
    };
    diagnosis.because = vec![by_then];
    diagnosis.fixes = vec!["let it come to its end: it takes 8 s at most".to_owned()];
}

fn is_it(diagnosis: &Diagnosis, expected: &str) -> bool {
    let verdict = &diagnosis.verdict;
    let names = [verdict.id, verdict.mode, Some(verdict.class.as_str())];
    names.into_iter().flatten().any(|name| name.eq_ignore_ascii_case(expected))
}

/// Refuses an expectation that no verdict can meet, before anything is asked.
fn is_known(expected: &str) -> Result<(), Failure> {
    let classes = [
        Class::Healthy,
        Class::Name,
        Class::DnsConfig,
        Class::DnsServer,
        Class::Upstream,
        Class::NotDns,
        Class::Undetermined,
    ];
    let rules = RULES.iter().flat_map(|rule| [rule.mode, rule.id]);
    let mut names = rules.chain(classes.iter().map(|class| class.as_str()));
    if names.any(|name| name.eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    let classes: Vec<&str> = classes.iter().map(|class| class.as_str()).collect();
    Err(Failure::unreadable(format!("`--expect {expected}`: no verdict is called so"))
        .hint(format!("a mode (F01), its id (POLICY-EGRESS-DENY), or a class: {}", classes.join(", "))))
}

fn unreadable(error: &BundleError) -> Failure {
    let mut failure = Failure::unreadable("the bundle cannot be read");
    for problem in &error.problems {
        failure = failure.caused_by(problem.to_string());
    }
    match error.problems.first() {
        Some(problem) => failure.hint(problem.hint.clone()),
        None => failure,
    }
}
