//! `netlab lab break` and `lab mend`: faults put in and taken out.
//!
//! Invariant: what is said without `-v` is what a person sees who does not know the cause.

use netlab_core::envelope::Envelope;
use netlab_dnsdiag::rules;
use netlab_lab::Place;
use netlab_lab::fault::{Broken, Fault, catalogue, find};
use serde::Serialize;

use crate::args::globals::Globals;
use crate::args::lab::{Break, Mend};
use crate::command::lab::exec::place;
use crate::command::lab::{connect, failure, run_dir};
use crate::ends::nearest;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lab::{ToBreak, operation};
use crate::output::style::{STRONG, paint};
use crate::output::terminal::Terminal;

/// The widest line of a list.
const WIDTH: usize = 80;

/// What can be broken.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Catalogue {
    faults: Vec<FaultLine>,
}

/// A fault.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FaultLine {
    name: &'static str,
    layer: String,
    /// What is done.
    breaks: &'static str,
    /// What somebody sees who does not know it.
    seen: &'static str,
    /// With `-v`: the failure mode and what a diagnosis should say.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<&'static str>,
}

/// What was broken or mended.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    lab: &'a str,
    faults: Vec<InLine>,
}

/// A fault that is in, or was.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InLine {
    name: String,
    /// The pod that it is about, and a Service that this pod may ask for.
    pod: String,
    target: String,
    seen: &'static str,
    /// With `-v`: what was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<serde_json::Value>,
}

impl FaultLine {
    fn new(fault: &'static Fault, verbose: bool) -> Self {
        let mode = Some(fault.mode).filter(|mode| verbose && !mode.is_empty());
        Self {
            name: fault.name,
            layer: fault.layer.to_string(),
            breaks: fault.breaks,
            seen: fault.seen,
            mode,
            diagnosis: mode.and_then(rules::rule).map(|rule| rule.id),
        }
    }
}

impl InLine {
    fn new(broken: &Broken, verbose: bool) -> Self {
        Self {
            name: broken.name.clone(),
            pod: broken.pod.clone(),
            target: broken.target.clone(),
            seen: find(&broken.name).map(|fault| fault.seen).unwrap_or_default(),
            changes: serde_json::to_value(&broken.changes).ok().filter(|_| verbose),
        }
    }
}

/// Breaks, or lists what can be broken.
pub(crate) fn break_it(args: &Break, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let verbose = terminal.verbose > 0;
    let Some(name) = args.fault.as_deref().filter(|_| !args.list) else {
        return list(verbose, terminal);
    };
    if find(name).is_none() {
        let failure = Failure::unreadable(format!("there is no fault `{name}`"));
        return Err(match nearest(name, catalogue().map(|fault| fault.name)) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`netlab lab break --list` tells them all"),
        });
    }
    let pod = match args.pod.as_deref().map(|text| place(text, globals)).transpose()? {
        None => None,
        Some(Place::Pod(key)) => Some((key.namespace, key.name)),
        Some(other) => {
            return Err(
                Failure::unreadable(format!("`--pod {other}` is no pod")).hint("write NAMESPACE/NAME")
            );
        }
    };
    let order = ToBreak { fault: name.to_owned(), pod };
    let broken: Broken = ask(&args.lab.lab, operation::BREAK, &order)?;
    let answer = Answer { lab: &args.lab.lab, faults: vec![InLine::new(&broken, verbose)] };
    terminal.answer(&Envelope::new("Broken", &answer, Vec::new()), |_| render_broken(&answer, verbose))?;
    Ok(Exit::Yes)
}

/// Mends one fault, or all.
pub(crate) fn mend(args: &Mend, terminal: &Terminal) -> Result<Exit, Failure> {
    let lab = &args.lab.lab;
    let verbose = terminal.verbose > 0;
    let known: Vec<Broken> = ask(lab, operation::FAULTS, &())?;
    let names: Vec<String> = known.iter().map(|broken| broken.name.clone()).collect();
    let wanted = match &args.fault {
        _ if args.all => names,
        Some(name) if names.contains(name) => vec![name.clone()],
        Some(name) => {
            let failure = Failure::unreadable(format!("`{name}` is not in lab `{lab}`"));
            return Err(failure.hint(match names.as_slice() {
                [] => "nothing is broken in it".to_owned(),
                names => format!("broken are: {}", names.join(", ")),
            }));
        }
        None if names.len() > 1 => {
            return Err(Failure::unreadable(format!("which? broken are: {}", names.join(", ")))
                .hint("name one, or `--all`"));
        }
        None => names,
    };
    let mended: Vec<Broken> =
        if wanted.is_empty() { Vec::new() } else { ask(lab, operation::MEND, &wanted)? };
    let answer = Answer { lab, faults: mended.iter().map(|broken| InLine::new(broken, verbose)).collect() };
    terminal.answer(&Envelope::new("Mended", &answer, Vec::new()), |_| {
        if answer.faults.is_empty() {
            return format!("{}  {lab}: nothing is broken\n", paint(STRONG, "MENDED"));
        }
        let names: Vec<&str> = answer.faults.iter().map(|fault| fault.name.as_str()).collect();
        format!("{}  {lab}: {}\n", paint(STRONG, "MENDED"), names.join(", "))
    })?;
    Ok(Exit::Yes)
}

fn ask<T: serde::de::DeserializeOwned>(
    lab: &str,
    operation: &str,
    parameters: &impl Serialize,
) -> Result<T, Failure> {
    let unreadable = |error: serde_json::Error| {
        Failure::new(Exit::CannotTell, "the lab's answer is unreadable").because(&error)
    };
    let mut client = connect(lab)?;
    let parameters = serde_json::to_value(parameters).map_err(unreadable)?;
    let answer = client.ask(operation, parameters).map_err(|error| {
        let failure = failure(&error, &run_dir());
        let text = failure.what.clone();
        let failure = Failure { exit: Exit::CannotRead, ..failure };
        if text.ends_with("is in already") {
            failure.hint(format!("`netlab lab mend --lab {lab}` takes it out"))
        } else if text.contains("no DNS") {
            failure.hint("build another: `netlab lab up --dns -f … --lab NAME`")
        } else {
            failure
        }
    })?;
    serde_json::from_value(answer).map_err(unreadable)
}

fn list(verbose: bool, terminal: &Terminal) -> Result<Exit, Failure> {
    let answer = Catalogue { faults: catalogue().map(|fault| FaultLine::new(fault, verbose)).collect() };
    terminal.answer(&Envelope::new("Faults", &answer, Vec::new()), |_| render_list(&answer))?;
    Ok(Exit::Yes)
}

fn render_list(answer: &Catalogue) -> String {
    let mut text = format!("{} faults; `netlab lab break NAME` puts one in\n", answer.faults.len());
    let mut layer = "";
    for fault in &answer.faults {
        if fault.layer != layer {
            layer = &fault.layer;
            text += &format!("\n{}\n", paint(STRONG, layer));
        }
        let diagnosis = [fault.mode, fault.diagnosis].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let gap = if diagnosis.is_empty() { "" } else { "  " };
        text += &format!("  {}{gap}{diagnosis}\n", fault.name);
        text += &wrapped("      ", fault.breaks);
        text += &wrapped("      seen: ", fault.seen);
    }
    text
}

/// Words in lines that begin with as much room as the first.
fn wrapped(first: &str, words: &str) -> String {
    let mut text = String::new();
    let mut line = first.to_owned();
    for word in words.split_whitespace() {
        if line.chars().count() + word.chars().count() + 1 > WIDTH && !line.trim().is_empty() {
            text += &format!("{}\n", line.trim_end());
            "      ".clone_into(&mut line);
        }
        if !line.ends_with(' ') {
            line.push(' ');
        }
        line += word;
    }
    text + &line + "\n"
}

fn render_broken(answer: &Answer<'_>, verbose: bool) -> String {
    let mut text = String::new();
    let lab = if answer.lab == "lab" { String::new() } else { format!(" --lab {}", answer.lab) };
    for fault in &answer.faults {
        text += &format!("{}  {}: {}\n\n", paint(STRONG, "BROKEN"), answer.lab, fault.name);
        text += &wrapped("  seen     ", fault.seen).replace("\n      ", "\n           ");
        if !fault.target.is_empty() {
            text +=
                &format!("  try      netlab lab exec{lab} {} -- getent hosts {}\n", fault.pod, fault.target);
        }
        text += &format!("  mend     netlab lab mend{lab} {}\n", fault.name);
        if verbose && let Some(known) = find(&fault.name) {
            text += &wrapped("  breaks   ", known.breaks).replace("\n      ", "\n           ");
            if let Some(rule) = rules::rule(known.mode) {
                text += &format!("  mode     {} {}\n", known.mode, rule.id);
            }
        }
    }
    text
}
