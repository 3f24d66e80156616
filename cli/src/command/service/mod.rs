//! `netlab service …`: one file per verb.

pub(crate) mod endpoints;
mod named;
mod rules;
pub(crate) mod trace;
