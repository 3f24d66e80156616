//! `netlab service …`: one file per verb.

pub(crate) mod endpoints;
mod named;
pub(crate) mod trace;
