//! `netlab lab …`: one file per verb, and what they share.

pub(super) mod down;
pub(super) mod exec;
pub(super) mod fault;
pub(super) mod paths;
pub(super) mod status;
pub(super) mod up;

use netlab_lab::LabError;
use netlab_lab::named::{Client, RunDir};
use netlab_node::error::Blame;

use crate::ends::nearest;
use crate::exit::Exit;
use crate::failure::Failure;

/// Where labs are registered: `NETLAB_RUN_DIR`, or the user's own directory.
pub(crate) fn run_dir() -> RunDir {
    match std::env::var_os("NETLAB_RUN_DIR") {
        Some(path) if !path.is_empty() => RunDir::at(path),
        _ => RunDir::for_user(),
    }
}

/// Connects to a lab's supervisor.
pub(crate) fn connect(name: &str) -> Result<Client, Failure> {
    let run_dir = run_dir();
    Client::connect(&run_dir, name).map_err(|error| failure(&error, &run_dir))
}

/// An error of the lab, for the user.
pub(crate) fn failure(error: &LabError, run_dir: &RunDir) -> Failure {
    let exit = match error {
        _ if error.is_permission() => Exit::NotAllowed,
        LabError::Supervisor { .. } => Exit::CannotTell,
        _ => match error.blame() {
            Blame::Input => Exit::CannotRead,
            _ => Exit::NotAllowed,
        },
    };
    let mut failure = Failure::new(exit, error.to_string());
    if let Some(source) = std::error::Error::source(error) {
        failure = failure.because(source);
    }
    match error {
        LabError::NotUp { name } => {
            let up = run_dir.list().unwrap_or_default();
            let names: Vec<&str> = up.iter().map(|state| state.name.as_str()).collect();
            match nearest(name, names.iter().copied()) {
                Some(near) => failure.hint(format!("did you mean `--lab {near}`?")),
                None if names.is_empty() => failure.hint("`netlab lab up -f DIRECTORY` builds one"),
                None => failure.hint(format!("up are: {}", names.join(", "))),
            }
        }
        LabError::AlreadyUp { name, .. } => {
            failure.hint(format!("`netlab lab down --lab {name}`, or another name with `--lab`"))
        }
        _ if error.is_permission() => failure.hint("run it as root; `netlab check` tells what is missing"),
        _ => failure,
    }
}
