//! `netlab enforce …`: one file per verb, and what they share.

pub(super) mod attach;
mod last;
pub(super) mod map;
pub(super) mod plan;
pub(super) mod status;
pub(super) mod trace;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::command::lab::{connect, failure, run_dir};
use crate::enforcement::{InForce, NodeInForce};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::style::{POINTER, paint};

/// Asks a lab's enforcer.
fn ask<T: DeserializeOwned>(lab: &str, operation: &str, parameters: Value) -> Result<T, Failure> {
    let answer = connect(lab)?.ask(operation, parameters).map_err(|error| failure(&error, &run_dir()))?;
    serde_json::from_value(answer)
        .map_err(|error| Failure::new(Exit::CannotTell, "the lab's answer is unreadable").because(&error))
}

/// A command to type, as it is printed.
fn twin(command: &str) -> String {
    format!("  {}\n", paint(POINTER, &format!("$ {command}")))
}

/// The programs on their hooks, as the kernel tells of the descriptors that hold them. (`bpftool net` tells of tcx
/// from version 7.3 on only.)
fn hooks(state: &InForce) -> String {
    twin(&format!("cat /proc/{}/fdinfo/* 2>/dev/null | grep -A6 tcx", state.pid))
}

/// The way into a node's network namespace, for somebody's own shell.
fn enter(state: &InForce, node: &NodeInForce) -> String {
    format!("nsenter --net=/proc/{}/fd/{}", state.pid, node.netns_fd)
}
