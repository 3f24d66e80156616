//! `netlab policy eval`: one packet, computed from the manifests.

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
    #[serde(flatten)]
    evaluation: &'a Evaluation,
}

/// Answers.
pub(crate) fn run(args: &Eval, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let question = Question::new(&args.packet, globals, &input.loaded.cluster)?;
    let compiled = question.compile(&input.loaded)?;
    let evaluation =
        evaluate(&input.loaded.cluster, &compiled.rulesets, &question.query).map_err(|error| {
            Failure::unreadable("the policies make tables that cannot be used").because(&error)
        })?;
    let incomplete = !input.not_examined.is_empty();
    let answer = Answer { query: &question.asked, evaluation: &evaluation };
    terminal.answer(&Envelope::new("Evaluation", answer, input.not_examined), |terminal| {
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
