//! `netlab enforce trace`: verdicts as they fall.

use std::time::Instant;

use netlab_core::envelope::API_VERSION;
use serde::Serialize;
use serde_json::Value;

use super::{ask, twin};
use crate::args::enforce::Trace;
use crate::args::globals::Globals;
use crate::command::lab::{connect, failure, run_dir};
use crate::enforcement::{Decision, InForce, operation};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::style::{DENIED, GOOD, paint};
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

/// Prints until the count is reached, the time is over, or nobody reads.
pub(crate) fn run(args: &Trace, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
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
        match wanted(event, globals) {
            Ok(None) => return true,
            Ok(Some(decision)) => outcome = print(&decision, terminal),
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

/// The decision, if it is about a pod of the namespace that is listed.
fn wanted(event: Value, globals: &Globals) -> Result<Option<Decision>, Failure> {
    let decision: Decision = serde_json::from_value(event)
        .map_err(|error| Failure::new(Exit::CannotTell, "the lab's answer is unreadable").because(&error))?;
    let listed = globals.listed_namespace();
    Ok(Some(decision)
        .filter(|decision| listed.is_none_or(|namespace| decision.pod.split('/').next() == Some(namespace))))
}

fn print(decision: &Decision, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.is_human() {
        return terminal.text(&render(decision));
    }
    terminal.json_line(&Line { api_version: API_VERSION, kind: "Decision", decision })
}

fn render(decision: &Decision) -> String {
    let style = if decision.verdict == "allow" { GOOD } else { DENIED };
    let end = |address: &Option<std::net::IpAddr>, port: u16| match address {
        Some(std::net::IpAddr::V6(address)) if port > 0 => format!("[{address}]:{port}"),
        Some(address) if port > 0 => format!("{address}:{port}"),
        Some(address) => address.to_string(),
        None => "?".to_owned(),
    };
    let why = if decision.because.is_empty() { &decision.reason } else { &decision.because };
    let flags =
        if decision.tcp_flags.is_empty() { String::new() } else { format!(" {}", decision.tcp_flags) };
    format!(
        "{verdict}{pad} {direction:<7} {pod}  {protocol}{flags} {source} -> {destination}  entry {entry} {why}\n",
        verdict = paint(style, &decision.verdict),
        pad = " ".repeat(5_usize.saturating_sub(decision.verdict.len())),
        direction = decision.direction,
        pod = decision.pod,
        protocol = decision.protocol,
        source = end(&decision.source, decision.source_port),
        destination = end(&decision.destination, decision.destination_port),
        entry = decision.entry,
    )
}
