//! `netlab enforce trace`: verdicts as they fall.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use netlab_core::envelope::API_VERSION;
use serde::Serialize;
use serde_json::Value;

use super::{ask, last, twin};
use crate::args::enforce::Trace;
use crate::args::globals::Globals;
use crate::command::lab::{connect, failure, run_dir};
use crate::enforcement::{Decision, InForce, NotShown, Told, operation};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::evaluation::place;
use crate::output::style::{DENIED, GOOD, WARNING, paint};
use crate::output::terminal::Terminal;

/// A decision as one line of JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    decision: &'a Decision,
}

/// The number of decisions that are not shown, as one line of JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NotShownLine<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    not_shown: &'a NotShown,
}

/// Prints until the count is reached, the time is over, or nobody reads.
pub(crate) fn run(args: &Trace, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(pod) = &args.last {
        return last::run(pod, &args.lab.lab, globals, terminal);
    }
    let state: InForce = ask(&args.lab.lab, operation::STATUS, Value::Null)?;
    if terminal.is_human() {
        let mut text = format!("TRACE  {}: every decision but those of known flows\n", args.lab.lab);
        for node in &state.nodes {
            if let Some(id) = node.maps.get("COUNTERS") {
                text += &twin(&format!("bpftool map dump id {id}"));
            }
        }
        terminal.text(&text)?;
    }
    let deadline = globals.timeout.map(|limit| Instant::now() + limit);
    let mut client = connect(&args.lab.lab)?;
    if let Some(deadline) = deadline {
        end_at(deadline);
    }
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut outcome = Ok(());
    let followed = client.follow(operation::TRACE, Value::Null, |event| {
        match told(event) {
            Ok(Told::Decision(decision)) if !wanted(&decision, globals) => return true,
            Ok(Told::Decision(decision)) => outcome = print(&decision, terminal),
            Ok(Told::NotShown(not_shown)) => {
                outcome = print_not_shown(&not_shown, terminal);
                return outcome.is_ok();
            }
            Err(failure) => outcome = Err(failure),
        }
        left = left.saturating_sub(1);
        outcome.is_ok() && left > 0
    });
    outcome?;
    followed.map_err(|error| failure(&error, &run_dir()))?;
    Ok(Exit::Yes)
}

/// Ends the process with success when the time is over: to look for so long is what was asked for.
fn end_at(deadline: Instant) {
    let watch = move || {
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        #[expect(clippy::exit, reason = "the main thread waits for the lab; there is nothing to unwind")]
        std::process::exit(Exit::Yes.code().into());
    };
    // Without a thread the trace goes on until it is interrupted.
    let _ = std::thread::Builder::new().name("timeout".to_owned()).spawn(watch);
}

fn told(event: Value) -> Result<Told, Failure> {
    serde_json::from_value(event)
        .map_err(|error| Failure::new(Exit::CannotTell, "the lab's answer is unreadable").because(&error))
}

/// True when the decision is about a pod of the namespace that is listed.
fn wanted(decision: &Decision, globals: &Globals) -> bool {
    let listed = globals.listed_namespace();
    listed.is_none_or(|namespace| decision.pod.split('/').next() == Some(namespace))
}

fn print_not_shown(not_shown: &NotShown, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.is_human() {
        return terminal.text(&render_not_shown(not_shown));
    }
    let line = NotShownLine { api_version: API_VERSION, kind: "DecisionsNotShown", not_shown };
    terminal.json_line(&line)
}

fn render_not_shown(NotShown { node, sampled, lost }: &NotShown) -> String {
    let decisions = |count: u64| if count == 1 { "decision" } else { "decisions" };
    let mut text = String::new();
    for (count, why) in [(*lost, "lost: the ring was full"), (*sampled, "sampled: there are too many")] {
        if count > 0 {
            let count = format!("{count} {} not shown", decisions(count));
            text += &format!("{}  node {node} ({why})\n", paint(WARNING, &count));
        }
    }
    text
}

fn print(decision: &Decision, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.is_human() {
        return terminal.text(&render(decision));
    }
    terminal.json_line(&Line { api_version: API_VERSION, kind: "Decision", decision })
}

fn render(decision: &Decision) -> String {
    let style = if decision.verdict == "allow" { GOOD } else { DENIED };
    let mut why = if decision.because.is_empty() { &decision.reason } else { &decision.because }.clone();
    let rule = decision.cause.rule.as_ref();
    if let Some(place) = rule.and_then(|rule| place(rule.file.as_deref(), rule.line)) {
        why = format!("{why}  {place}");
    }
    let flags =
        if decision.tcp_flags.is_empty() { String::new() } else { format!(" {}", decision.tcp_flags) };
    format!(
        "{verdict}{pad} {direction:<7} {pod}  {protocol}{flags} {source} -> {destination}  entry {entry} {why}\n",
        verdict = paint(style, &decision.verdict),
        pad = " ".repeat(5_usize.saturating_sub(decision.verdict.len())),
        direction = decision.direction,
        pod = decision.pod,
        protocol = decision.protocol,
        source = end(decision.source, decision.source_port),
        destination = end(decision.destination, decision.destination_port),
        entry = decision.entry,
    )
}

/// An end of a packet: `10.0.0.1:80`, `[fd00::1]:80`, `10.0.0.1`, or `?` when it was not read so far.
pub(super) fn end(address: Option<IpAddr>, port: u16) -> String {
    match address {
        Some(address) if port > 0 => SocketAddr::new(address, port).to_string(),
        Some(address) => address.to_string(),
        None => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_said_with_its_reason() {
        let said = |sampled, lost| {
            let not_shown = NotShown { node: "n1".to_owned(), sampled, lost };
            anstream::adapter::strip_str(&render_not_shown(&not_shown)).to_string()
        };
        assert_eq!(said(0, 1), "1 decision not shown  node n1 (lost: the ring was full)\n");
        assert_eq!(
            said(7, 2),
            "2 decisions not shown  node n1 (lost: the ring was full)\n\
             7 decisions not shown  node n1 (sampled: there are too many)\n"
        );
    }

    #[test]
    fn ends_read_as_they_are_typed() {
        assert_eq!(end("10.0.0.1".parse().ok(), 80), "10.0.0.1:80");
        assert_eq!(end("fd00::1".parse().ok(), 80), "[fd00::1]:80");
        assert_eq!(end("fd00::1".parse().ok(), 0), "fd00::1");
        assert_eq!(end(None, 80), "?");
    }
}
