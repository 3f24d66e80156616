//! `netlab service …`: one file per verb.

pub(crate) mod endpoints;
