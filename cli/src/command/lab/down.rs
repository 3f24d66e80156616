//! `netlab lab down`: the end of a lab.

use netlab_core::envelope::Envelope;
use netlab_lab::named::down;
use serde::Serialize;

use crate::args::lab::LabName;
use crate::command::lab::{failure, run_dir};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::terminal::Terminal;

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    name: &'a str,
    /// The supervisor did not end by itself.
    killed: bool,
    /// Processes that still live in the lab's namespaces.
    left: Vec<String>,
}

/// Ends the lab.
pub(crate) fn run(args: &LabName, terminal: &Terminal) -> Result<Exit, Failure> {
    let run_dir = run_dir();
    let ended = down(&run_dir, &args.lab).map_err(|error| failure(&error, &run_dir))?;
    let left: Vec<String> = ended
        .left
        .iter()
        .map(|process| format!("{} (pid {}) in {}", process.command, process.pid, process.place))
        .collect();
    let answer = Answer { name: &args.lab, killed: ended.killed, left };
    terminal.answer(&Envelope::new("LabDown", &answer, Vec::new()), |_| render(&answer))?;
    // Namespaces live for as long as somebody is in them.
    Ok(if answer.left.is_empty() { Exit::Yes } else { Exit::No })
}

fn render(answer: &Answer<'_>) -> String {
    let mut text = format!("DOWN  {}", answer.name);
    if answer.killed {
        text += ": its supervisor did not answer and was killed";
    }
    text.push('\n');
    for process in &answer.left {
        text += &format!("  still there: {process}\n");
    }
    text
}
