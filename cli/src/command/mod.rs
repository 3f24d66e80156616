//! One file per command: read the arguments, ask a library, print the answer, choose the exit code.

mod check;
mod check_object;
mod completions;
mod dns;
mod enforce;
mod explain;
mod findings;
mod lab;
mod policy;
mod service;
mod version;

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;

use crate::args::dns::Dns;
use crate::args::enforce::Enforce;
use crate::args::globals::Format;
use crate::args::lab::Lab;
use crate::args::policy::{Policy, PolicyArgs};
use crate::args::service::Service;
use crate::args::{Cli, Command};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::terminal::Terminal;

/// Runs the command that was typed.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed stream is the only way this fails, and then nobody reads it.
            let _ = error.print();
            if !error.use_stderr() {
                return Exit::Yes;
            }
            if let Some(format) = asked_for_data(&arguments) {
                let text = error.render().to_string();
                let what = text.lines().next().unwrap_or_default();
                let failure = Failure::unreadable(what.strip_prefix("error: ").unwrap_or(what));
                Terminal::of_data(format).fail_as_data(&failure.hint("`--help` tells what can be typed"));
            }
            return Exit::CannotRead;
        }
    };
    if let Command::Policy(args) = &mut cli.command {
        cli.globals.what_if = std::mem::take(&mut args.what_if);
    }
    let terminal = Terminal::new(&cli.globals);
    // To trace for so long is what was asked for; a proof may have to be the process's only thread first.
    let has_its_own_limit = matches!(
        cli.command,
        Command::Enforce(Enforce::Trace(_))
            | Command::Dns(Dns::Query(_) | Dns::Diagnose(_))
            | Command::Policy(PolicyArgs { verb: Policy::Prove(_) | Policy::Test(_), .. })
    );
    if let Some(limit) = cli.globals.timeout.filter(|_| !has_its_own_limit) {
        give_up_after(limit, terminal.clone());
    }
    dispatch(&cli, &terminal).unwrap_or_else(|failure| terminal.fail(&failure))
}

/// The format for machines that was asked for, by a command line that could not be understood as a whole.
fn asked_for_data(arguments: &[OsString]) -> Option<Format> {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let typed = words.iter().enumerate().find_map(|(index, word)| match word.as_ref() {
        "-o" | "--output" => words.get(index + 1).map(ToString::to_string),
        word => {
            let value = word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o"))?;
            Some(value.trim_start_matches('=').to_owned())
        }
    });
    match typed.or_else(|| std::env::var("NETLAB_OUTPUT").ok())?.as_str() {
        "json" => Some(Format::Json),
        "yaml" => Some(Format::Yaml),
        _ => None,
    }
}

/// Ends the process when the time is over. Labs and proofs are held by file descriptors, so they end with it.
pub(crate) fn give_up_after(limit: Duration, terminal: Terminal) {
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
    let formats = match &cli.command {
        Command::Policy(PolicyArgs { verb: Policy::Connections(_), .. }) => {
            &[Format::Csv, Format::Md, Format::Dot, Format::Svg, Format::Matrix][..]
        }
        Command::Policy(PolicyArgs { verb: Policy::Diff(_), .. }) => &[Format::Csv, Format::Md],
        Command::Policy(PolicyArgs { verb: Policy::Lint(_), .. }) | Command::Dns(Dns::Lint(_)) => {
            &[Format::Md, Format::Sarif]
        }
        Command::Policy(PolicyArgs { verb: Policy::Test(_), .. }) => &[Format::Tap, Format::Junit],
        _ => &[],
    };
    if globals.output.is_special() && !formats.contains(&globals.output) {
        return Err(Failure::unreadable(
            "this command has no such format: `-o csv` and `md` are of `policy connections` and `diff`, `dot`, `svg` \
             and `matrix` of the first alone, `md` and `sarif` of `policy lint` and `dns lint`, `tap` and `junit` of `policy test`",
        )
        .hint("use `-o table`, `wide`, `json` or `yaml`"));
    }
    match &cli.command {
        Command::Policy(PolicyArgs { verb, .. }) => match verb {
            Policy::Eval(args) => policy::eval::run(args, globals, terminal),
            Policy::Prove(args) => policy::prove::run(args, globals, terminal),
            Policy::Connections(args) => policy::connections::run(args, globals, terminal),
            Policy::Describe(args) => policy::describe::run(args, globals, terminal),
            Policy::Diff(args) => policy::diff::run(args, globals, terminal),
            Policy::Lint(args) => policy::lint::run(args, globals, terminal),
            Policy::Test(args) => policy::test::run(args, globals, terminal),
            Policy::Compile => policy::compile::run(globals, terminal),
        },
        Command::Enforce(Enforce::Plan) => enforce::plan::run(globals, terminal),
        Command::Enforce(Enforce::Attach(args)) => enforce::attach::attach(args, globals, terminal),
        Command::Enforce(Enforce::Status(args)) => enforce::status::run(args, terminal),
        Command::Enforce(Enforce::Map(args)) => enforce::map::run(args, globals, terminal),
        Command::Enforce(Enforce::Trace(args)) => enforce::trace::run(args, globals, terminal),
        Command::Enforce(Enforce::Detach(args)) => enforce::attach::detach(args, terminal),
        Command::Dns(Dns::Checks) => dns::checks::run(terminal),
        Command::Dns(Dns::Diagnose(args)) => dns::diagnose::run(args, globals, terminal),
        Command::Dns(Dns::Plan(args)) => dns::plan::run(args, terminal),
        Command::Dns(Dns::Lint(args)) => dns::lint::run(args, globals, terminal),
        Command::Dns(Dns::Query(args)) => dns::query::run(args, globals, terminal),
        Command::Service(Service::Endpoints(args)) => service::endpoints::run(args, globals, terminal),
        Command::Service(Service::Trace(args)) => service::trace::run(args, globals, terminal),
        Command::Lab(Lab::Up(args)) => lab::up::run(args, globals, terminal),
        Command::Lab(Lab::Exec(args)) => lab::exec::run(args, globals),
        Command::Lab(Lab::Break(args)) => lab::fault::break_it(args, globals, terminal),
        Command::Lab(Lab::Mend(args)) => lab::fault::mend(args, terminal),
        Command::Lab(Lab::Paths(args)) => lab::paths::run(args, terminal),
        Command::Lab(Lab::Status(args)) => lab::status::run(args, terminal),
        Command::Lab(Lab::Down(args)) => lab::down::run(args, terminal),
        Command::SuperviseLab => crate::lab::supervise().map(|()| Exit::Yes),
        Command::Check(args) => match &args.object {
            Some(object) => check_object::run(object.as_deref(), args.btf.as_deref(), terminal),
            None => check::run(terminal),
        },
        Command::Explain(args) => explain::run(args, terminal),
        Command::Completions(args) => completions::run(args, terminal),
        Command::Version => version::run(terminal),
    }
}
