//! `netlab policy lint`: what is probably not meant.

use netlab_core::policy::lint::{Report, lint};
use serde::Serialize;

use crate::args::findings::FindingsArgs;
use crate::args::globals::Globals;
use crate::command::findings::{Found, tell};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::layout::counted;
use crate::output::terminal::Terminal;

/// What was read.
#[derive(Serialize)]
struct Read {
    policies: usize,
}

/// Lints.
pub(crate) fn run(args: &FindingsArgs, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    if globals.selector.is_some() {
        return Err(Failure::unreadable("`-l` chooses pods, and `policy lint` is about policies")
            .hint("`-n` limits it to the policies of a namespace"));
    }
    let busy = terminal.busy("reading policies");
    let input = load::read_lenient(&globals.filename, &globals.what_if, globals, terminal)?;
    let loaded = input.loaded;
    let unusable = load::spoilt(&loaded.diagnostics);
    let Report { findings, not_examined } = lint(&loaded.cluster, &loaded.policies, loaded.diagnostics);
    drop(busy);
    let policies = loaded.policies.list.len();
    let found = Found {
        findings,
        not_examined: [input.not_examined, not_examined].concat(),
        unusable,
        read: counted(policies, "policy"),
        read_as_data: Read { policies },
        texts: &loaded.texts,
    };
    tell(found, args, globals, terminal)
}
