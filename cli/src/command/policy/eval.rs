//! `netlab policy eval`: one packet, computed from the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlab_core::envelope::Envelope;
use netlab_core::policy::evaluate::Outcome;
use netlab_core::policy::{Evaluation, evaluate};
use serde::Serialize;

use crate::args::globals::{Format, Globals};
use crate::args::packet::Expected;
use crate::args::policy::Eval;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::evaluation::render;
use crate::output::terminal::Terminal;
use crate::question::{Asked, Question};

/// The answer in its envelope.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    query: &'a Asked,
    /// Where the named Service leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoints: Option<Vec<Destination<'a>>>,
    #[serde(flatten)]
    evaluation: &'a Evaluation,
}

/// One place to which a Service leads.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Destination<'a> {
    #[serde(rename = "endpoint")]
    name: &'a str,
    address: IpAddr,
    port: u16,
    verdict: Outcome,
}

/// The destinations of an evaluation behind the addresses of a Service, each with the verdict for all sources.
fn endpoints<'e>(evaluation: &'e Evaluation, addresses: &[IpAddr]) -> Vec<Destination<'e>> {
    let mut found: BTreeMap<(&str, IpAddr, u16), BTreeSet<Outcome>> = BTreeMap::new();
    for pair in evaluation.pairs.iter().filter(|pair| !addresses.contains(&pair.destination)) {
        let verdict = if pair.undefined.is_some() { Outcome::Undefined } else { pair.verdict.into() };
        found.entry((&pair.to, pair.destination, pair.port)).or_default().insert(verdict);
    }
    let joined = |verdicts: BTreeSet<Outcome>| match verdicts.last() {
        Some(Outcome::Undefined) | None => Outcome::Undefined,
        Some(only) if verdicts.len() == 1 => *only,
        Some(_) => Outcome::Mixed,
    };
    found
        .into_iter()
        .map(|((name, address, port), verdicts)| Destination {
            name,
            address,
            port,
            verdict: joined(verdicts),
        })
        .collect()
}

/// Answers.
pub(crate) fn run(args: &Eval, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let question = Question::new(&args.packet, globals, &input.loaded.cluster)?;
    let compiled = question.compile(&input.loaded)?;
    let mut evaluation =
        evaluate(&input.loaded.cluster, &compiled.rulesets, &question.query).map_err(|error| {
            Failure::unreadable("the policies make tables that cannot be used").because(&error)
        })?;
    let differs = evaluation.verdict.settled().is_none();
    let unknown = question.unknown_endpoints(&input.loaded.cluster, differs);
    let incomplete = !input.not_examined.is_empty() || !unknown.is_empty();
    evaluation.not_examined.extend(unknown);
    let not_examined = input.not_examined.into_iter().chain(evaluation.not_examined.iter().cloned());
    let not_examined: Vec<String> = not_examined.collect();
    if let Some(service) = &question.service {
        evaluation.notes.splice(0..0, service.notes.iter().cloned());
    }
    let endpoints = question.service.as_ref().map(|service| endpoints(&evaluation, &service.addresses));
    let answer = Answer { query: &question.asked, endpoints, evaluation: &evaluation };
    terminal.answer(&Envelope::new("Evaluation", answer, not_examined), |terminal| {
        render(&evaluation, &question.asked.to_string(), terminal.format == Format::Wide)
    })?;
    Ok(if incomplete { Exit::CannotTell } else { exit(evaluation.verdict, args.expect) })
}

fn exit(verdict: Outcome, expected: Option<Expected>) -> Exit {
    match (verdict, expected) {
        (Outcome::Mixed | Outcome::Undefined, _) => Exit::CannotTell,
        (Outcome::Allow, None | Some(Expected::Allow)) | (Outcome::Deny, Some(Expected::Deny)) => Exit::Yes,
        (Outcome::Deny, None | Some(Expected::Allow)) | (Outcome::Allow, Some(Expected::Deny)) => Exit::No,
    }
}
