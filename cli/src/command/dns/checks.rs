//! `netlab dns checks`: what a diagnosis examines, and what it needs for that.

use netlab_core::envelope::Envelope;
use netlab_dnsdiag::bundle::layout;
use netlab_dnsdiag::check::Registry;
use netlab_plugin::check::CheckInfo;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::layout::Rows;
use crate::output::terminal::Terminal;

#[derive(Serialize)]
struct Answer {
    checks: Vec<CheckInfo>,
    files: Vec<File>,
}

#[derive(Serialize)]
struct File {
    path: &'static str,
    vital: bool,
    about: &'static str,
}

/// Lists them.
pub(crate) fn run(terminal: &Terminal) -> Result<Exit, Failure> {
    let files =
        layout::FILES.iter().map(|file| File { path: file.path, vital: file.vital, about: file.about });
    let answer = Answer { checks: Registry::default().describe(), files: files.collect() };
    terminal.answer(&Envelope::new("DnsChecks", &answer, Vec::new()), |_| render(&answer))?;
    Ok(Exit::Yes)
}

fn render(answer: &Answer) -> String {
    let mut text =
        format!("{} checks over {} files of a bundle\n\n", answer.checks.len(), answer.files.len());
    let width = answer.checks.iter().map(|check| check.id.len() + 1 + check.name.len()).max().unwrap_or(0);
    let mut rows = Rows::new(width, 0);
    for check in &answer.checks {
        rows.plain(&format!("{} {}", check.id, check.name), &check.summary);
        rows.plain("", &format!("needs {}; costs {}", check.needs.join(", "), check.costs));
    }
    rows.line("");
    text += &rows.finish();
    let width = answer.files.iter().map(|file| file.path.len()).max().unwrap_or(0);
    let mut rows = Rows::new(width, 0);
    for file in &answer.files {
        let healthy = if file.vital { "; without it nothing is called healthy" } else { "" };
        rows.plain(file.path, &format!("{}{healthy}", file.about));
    }
    text + &rows.finish()
}
