//! `netlab completions`: the script that makes a shell complete netlab's commands and flags.

use clap::CommandFactory;

use crate::args::{Cli, Completions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::terminal::Terminal;

/// Prints the script.
pub(crate) fn run(args: &Completions, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "netlab", &mut script);
    terminal.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Yes)
}
