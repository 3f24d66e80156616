//! `netlab lab paths`: the four ways by which containers talk, with evidence for the one that broke.

use netlab_core::envelope::Envelope;
use netlab_core::model::port::Protocol;
use serde::Serialize;

use crate::args::lab::LabName;
use crate::command::lab::{connect, failure, run_dir};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lab::operation;
use crate::lab::paths::{Path, Tried, Walked};
use crate::output::style::{Charset, Mark, STRONG, paint};
use crate::output::terminal::Terminal;

/// How much is shown of what was seen about one connection.
const MOST_SEEN: usize = 4;

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    lab: &'a str,
    paths: Vec<PathLine<'a>>,
}

/// One of the four.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PathLine<'a> {
    path: Path,
    status: Status,
    checks: Vec<&'a Tried>,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Status {
    Ok,
    Broken,
    NotExamined,
}

/// Tries.
pub(crate) fn run(args: &LabName, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut client = connect(&args.lab)?;
    let answer =
        client.ask(operation::PATHS, serde_json::Value::Null).map_err(|error| failure(&error, &run_dir()))?;
    let walked: Walked = serde_json::from_value(answer)
        .map_err(|error| Failure::new(Exit::CannotTell, "the lab's answer is unreadable").because(&error))?;
    let line = |path| {
        let checks: Vec<&Tried> = walked.tried.iter().filter(|tried| tried.path == path).collect();
        let status = match checks.as_slice() {
            [] => Status::NotExamined,
            checks if checks.iter().all(|tried| tried.ok) => Status::Ok,
            _ => Status::Broken,
        };
        PathLine { path, status, checks }
    };
    let answer = Answer { lab: &args.lab, paths: Path::ALL.into_iter().map(line).collect() };
    let is = |status| answer.paths.iter().any(|line| line.status == status);
    let exit = match (is(Status::Broken), is(Status::NotExamined)) {
        (true, _) => Exit::No,
        (false, true) => Exit::CannotTell,
        (false, false) => Exit::Yes,
    };
    let not_examined = walked.not_examined.clone();
    terminal.answer(&Envelope::new("LabPaths", &answer, not_examined), |terminal| {
        render(&answer, &walked.not_examined, terminal.charset)
    })?;
    Ok(exit)
}

fn render(answer: &Answer<'_>, not_examined: &[String], charset: Charset) -> String {
    let count = |status| answer.paths.iter().filter(|line| line.status == status).count();
    let (ok, broken) = (count(Status::Ok), count(Status::Broken));
    let word = if broken > 0 { "BROKEN" } else { "PATHS" };
    let mut text =
        format!("{}  {}: {ok} of {} ways work\n\n", paint(STRONG, word), answer.lab, answer.paths.len());
    for line in &answer.paths {
        let (mark, said) = match line.status {
            Status::Ok => (Mark::Good, summary(&line.checks)),
            Status::Broken => (Mark::Bad, failed(&line.checks)),
            Status::NotExamined => (Mark::Absent, "not examined".to_owned()),
        };
        text += &format!("  {} {:<20} {said}\n", charset.mark(mark), line.path.words());
        for tried in line.checks.iter().filter(|tried| !tried.ok) {
            text += &format!("      {}: {}\n", describe(tried), tried.said.as_deref().unwrap_or_default());
            for seen in tried.evidence.iter().take(MOST_SEEN) {
                text += &format!("        {:<10} {}: {}\n", seen.kind, seen.place, seen.said);
            }
            if let Some(more) = tried.evidence.len().checked_sub(MOST_SEEN).filter(|more| *more > 0) {
                text += &format!("        and {more} more (`-o json`)\n");
            }
        }
    }
    for what in not_examined {
        text += &format!("not examined: {what}\n");
    }
    text
}

fn describe(tried: &Tried) -> String {
    let protocol = match tried.protocol {
        Protocol::Udp => "udp",
        Protocol::Tcp => "tcp",
        Protocol::Sctp => "sctp",
    };
    let to = if tried.from == tried.to { "itself" } else { &tried.to };
    format!("{} -> {to} {}/{protocol}", tried.from, tried.address)
}

fn summary(checks: &[&Tried]) -> String {
    let slowest = checks.iter().filter_map(|tried| tried.milliseconds).fold(0.0, f64::max);
    let first = checks.first().map(|tried| describe(tried)).unwrap_or_default();
    match checks.len() {
        1 => format!("{first} in {slowest:.1} ms"),
        count => format!("{count} of {count}, slowest {slowest:.1} ms; {first}"),
    }
}

fn failed(checks: &[&Tried]) -> String {
    let bad = checks.iter().filter(|tried| !tried.ok).count();
    format!("{bad} of {} did not come about", checks.len())
}
