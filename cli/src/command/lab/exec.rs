//! `netlab lab exec`: a command in a place of a lab.
//!
//! Invariant: on success this process becomes the command, so its exit code is the command's.

use std::process::Command;

use netlab_core::endpoint_ref::EndpointRef;
use netlab_core::model::cluster::ObjectKey;
use netlab_lab::Place;

use crate::args::globals::Globals;
use crate::args::lab::Exec;
use crate::command::lab::{connect, failure, run_dir};
use crate::ends::nearest;
use crate::exit::Exit;
use crate::failure::Failure;

/// What glibc's resolver takes from the environment (`resolver(5)`, `hostname(7)`): the caller's, which no pod has.
const RESOLVER_SETTINGS: [&str; 3] = ["LOCALDOMAIN", "RES_OPTIONS", "HOSTALIASES"];

/// Becomes the command.
pub(crate) fn run(args: &Exec, globals: &Globals) -> Result<Exit, Failure> {
    let mut client = connect(&args.lab.lab)?;
    let place = place(&args.place, globals)?;
    let entry = client.entry(&place).map_err(|error| {
        let known: Vec<String> = client.state().namespaces.keys().map(named).collect();
        let failure = failure(&error, &run_dir());
        match nearest(&named(&place), known.iter().map(String::as_str)) {
            Some(near) => {
                Failure { exit: Exit::CannotRead, ..failure }.hint(format!("did you mean `{near}`?"))
            }
            None => Failure { exit: Exit::CannotRead, ..failure }
                .hint(format!("`netlab lab status --lab {}` lists its places", args.lab.lab)),
        }
    })?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::unreadable("no command was given"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    for variable in RESOLVER_SETTINGS {
        command.env_remove(variable);
    }
    let error = entry.exec(&mut command);
    Err(failure(&error, &run_dir()))
}

/// The place that a text names.
pub(super) fn place(text: &str, globals: &Globals) -> Result<Place, Failure> {
    if text == "fabric" {
        return Ok(Place::Fabric);
    }
    let reference: EndpointRef = text
        .parse()
        .map_err(|error| Failure::unreadable(format!("`{text}` is no place in a lab")).because(&error))?;
    let default = globals.namespace.as_deref().unwrap_or("default");
    match reference {
        EndpointRef::Named { kind: Some(kind), name, .. } if kind.kind() == "Node" => Ok(Place::Node(name)),
        EndpointRef::Named { kind, namespace, name } if kind.is_none_or(|kind| kind.kind() == "Pod") => {
            let namespace = namespace.unwrap_or_else(|| default.to_owned());
            Ok(Place::Pod(ObjectKey { namespace, name }))
        }
        EndpointRef::Named { .. } | EndpointRef::Address(_) => {
            Err(Failure::unreadable(format!("`{text}` is no place in a lab"))
                .hint("write a pod as NAMESPACE/NAME, a node as node/NAME, or `fabric`"))
        }
    }
}

/// A place as it is typed.
fn named(place: &Place) -> String {
    match place {
        Place::Pod(key) => key.to_string(),
        Place::Node(_) | Place::Fabric => place.to_string(),
    }
}
