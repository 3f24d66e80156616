//! `netlab enforce trace --last POD`: why the pod's last packet was dropped.
//!
//! Invariant: the first line is the answer. What is said of a drop was remembered by the program and cited by the
//! policies that were in force when it fell; nothing is sent and nothing is judged anew.

use netlab_core::endpoint_ref::{EndpointRef, EndpointType};
use netlab_core::envelope::Envelope;
use serde_json::{Value, json};

use super::trace::end;
use super::{ask, twin};
use crate::args::globals::Globals;
use crate::ends::nearest;
use crate::enforcement::{Cause, InForce, LastDrop, LastDrops, operation};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::evaluation::place;
use crate::output::layout::Rows;
use crate::output::style::{DENIED, GOOD, QUIET, STRONG, WARNING, paint};
use crate::output::terminal::Terminal;

/// Asks and prints.
pub(super) fn run(
    pod: &EndpointRef,
    lab: &str,
    globals: &Globals,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let pod = name(pod, globals)?;
    let state: InForce = ask(lab, operation::STATUS, Value::Null)?;
    let pods = || state.nodes.iter().flat_map(|node| &node.pods).map(|pod| pod.pod.as_str());
    if !pods().any(|known| known == pod) {
        let failure = Failure::unreadable(format!("`--last {pod}`: lab {lab} has no such pod"));
        return Err(match nearest(&pod, pods()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`netlab enforce status` lists its pods"),
        });
    }
    if state.generation == 0 {
        return Err(Failure::new(Exit::CannotTell, format!("nothing is in force in lab {lab}"))
            .hint("what the programs remembered went with them: `netlab enforce attach`, then send again"));
    }
    let last: LastDrops = ask(lab, operation::LAST, json!(pod))?;
    terminal.answer(&Envelope::new("LastDrops", &last, Vec::new()), |_| render(&last))?;
    Ok(if last.drops.is_empty() { Exit::No } else { Exit::Yes })
}

/// The pod as namespace/name.
fn name(pod: &EndpointRef, globals: &Globals) -> Result<String, Failure> {
    match pod {
        EndpointRef::Named { kind: None | Some(EndpointType::Pod), namespace, name } => {
            let default = globals.namespace.as_deref().unwrap_or("default");
            Ok(format!("{}/{name}", namespace.as_deref().unwrap_or(default)))
        }
        other => Err(Failure::unreadable(format!("`--last {other}`: only pods are remembered"))
            .hint("name one, as in `--last pod/web -n shop`")),
    }
}

fn render(last: &LastDrops) -> String {
    let Some((drop, earlier)) = last.drops.split_first() else {
        return format!(
            "{}  {}: its hooks have dropped nothing, nor are the last drops of others its packets\n",
            paint(GOOD, "NO DROP"),
            last.pod
        );
    };
    let mut text = format!(
        "{} {}  {}\n\n",
        paint(DENIED, "DROPPED"),
        ago(drop.seconds_ago),
        paint(STRONG, &subject(drop))
    );
    text += &explain(drop, last.generation);
    text += &twin(&format!("bpftool map lookup id {} key hex {}", drop.map_id, drop.key_hex));
    if !earlier.is_empty() {
        text.push('\n');
        let mut rows = Rows::new(9, 5);
        for drop in earlier {
            let decision = &drop.decision;
            let why = if decision.because.is_empty() { &decision.reason } else { &decision.because };
            let line = format!(
                "{}: {}, {} of {}; {why}",
                ago(drop.seconds_ago),
                subject(drop),
                decision.direction,
                decision.pod
            );
            rows.row("before", (DENIED, &decision.verdict), &line);
        }
        text += &rows.finish();
    }
    text
}

/// `shop/web -> shop/db 5432/tcp`.
fn subject(drop: &LastDrop) -> String {
    let unknown = "an unreadable packet";
    let (Some(from), Some(to)) = (&drop.from, &drop.to) else {
        return match &drop.decision.source {
            None => unknown.to_owned(),
            Some(source) => format!("{source} -> {}", end(drop.decision.destination, 0)),
        };
    };
    let protocol = drop.decision.protocol.to_lowercase();
    match drop.decision.destination_port {
        0 => format!("{from} -> {to} {protocol}"),
        port => format!("{from} -> {to} {port}/{protocol}"),
    }
}

fn explain(drop: &LastDrop, generation: u32) -> String {
    let mut rows = Rows::new(9, 5);
    let decision = &drop.decision;
    let flags =
        if decision.tcp_flags.is_empty() { String::new() } else { format!(" {}", decision.tcp_flags) };
    let (source, destination) =
        (end(decision.source, decision.source_port), end(decision.destination, decision.destination_port));
    rows.plain("packet", &format!("{}{flags} {source} -> {destination}", decision.protocol));
    let times = if drop.number == 1 {
        "its first drop".to_owned()
    } else {
        format!("its drop number {}", drop.number)
    };
    rows.plain("hook", &format!("{} of {} on {}, {times}", decision.direction, decision.pod, decision.node));
    let Cause { rule, passed, isolated_by, near_misses, tied, .. } = &decision.cause;
    let why = match rule {
        _ if !tied.is_empty() => decision.because.clone(),
        Some(rule) => rule.words(),
        None if !isolated_by.is_empty() => "default deny: isolated, and no rule admits".to_owned(),
        None if decision.reason.is_empty() => "an entry that nobody can name any more".to_owned(),
        None => decision.reason.clone(),
    };
    rows.row(&decision.direction, (DENIED, &decision.verdict), &format!("entry {}  {why}", decision.entry));
    if let Some(place) = rule.as_ref().and_then(|rule| place(rule.file.as_deref(), rule.line)) {
        rows.plain("", &place);
    }
    for pass in passed {
        let place = place(pass.file.as_deref(), pass.line).unwrap_or_default();
        rows.row("passed", (QUIET, "by"), &format!("{} {place}", pass.words()));
    }
    if rule.is_none() {
        for (index, policy) in isolated_by.iter().enumerate() {
            let (label, word) = if index == 0 { ("isolated", "by") } else { ("", "") };
            let place = place(policy.file.as_deref(), policy.line).unwrap_or_default();
            rows.row(label, (QUIET, word), &format!("{:<31}  {place}", policy.words()));
        }
    }
    for near in near_misses {
        let place = place(near.file.as_deref(), near.line).unwrap_or_default();
        rows.plain("near miss", &format!("{:<31}  {place}", near.words()));
        rows.plain("", near.reason.as_deref().unwrap_or_default());
    }
    if drop.generation != generation {
        let text = format!("generation {} decided, {generation} is in force now", drop.generation);
        rows.row("since", (WARNING, "other"), &text);
    }
    rows.finish()
}

/// `4.2 s ago`.
fn ago(seconds: f64) -> String {
    match seconds {
        ..0.1 => format!("{:.0} ms ago", seconds * 1000.0),
        0.1..60.0 => format!("{seconds:.1} s ago"),
        60.0..3600.0 => format!("{:.0} min ago", (seconds / 60.0).floor()),
        _ => format!("{:.1} h ago", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        let all = [0.0042, 4.25, 61.0, 3599.0, 9000.0].map(ago);
        assert_eq!(all, ["4 ms ago", "4.2 s ago", "1 min ago", "59 min ago", "2.5 h ago"]);
    }
}
