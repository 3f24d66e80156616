//! One file per command: read the arguments, ask a library, print the answer, choose the exit code.

mod check;
mod completions;
mod explain;

mod policy;
mod version;

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;

use crate::args::policy::Policy;
use crate::args::{Cli, Command};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::terminal::Terminal;

/// Runs the command that was typed.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed stream is the only way this fails, and then nobody reads it.
            let _ = error.print();
            return if error.use_stderr() { Exit::CannotRead } else { Exit::Yes };
        }
    };
    let terminal = Terminal::new(&cli.globals);
    if let Some(limit) = cli.globals.timeout {
        give_up_after(limit, terminal.clone());
    }
    dispatch(&cli, &terminal).unwrap_or_else(|failure| terminal.fail(&failure))
}

/// Ends the process when the time is over. Labs and proofs are held by file descriptors, so they end with it.
fn give_up_after(limit: Duration, terminal: Terminal) {
    let watch = move || {
        std::thread::sleep(limit);
        let failure = Failure::new(Exit::CannotTell, format!("gave up after {limit:?}"));
        let exit = terminal.fail(&failure.hint("allow more with `--timeout`"));
        #[expect(
            clippy::exit,
            reason = "the main thread may wait in the kernel; there is nothing to unwind"
        )]
        std::process::exit(exit.code().into());
    };
    // Without a thread there is no limit, which is what a run without `--timeout` has too.
    let _ = std::thread::Builder::new().name("timeout".to_owned()).spawn(watch);
}

fn dispatch(cli: &Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    let globals = &cli.globals;
    match &cli.command {
        Command::Policy(Policy::Eval(args)) => policy::eval::run(args, globals, terminal),
        Command::Policy(Policy::Prove(args)) => policy::prove::run(args, globals, terminal),
        Command::Policy(Policy::Compile) => policy::compile::run(globals, terminal),
        Command::Check => check::run(terminal),
        Command::Explain(args) => explain::run(args, terminal),
        Command::Completions(args) => completions::run(args, terminal),
        Command::Version => version::run(terminal),
    }
}
