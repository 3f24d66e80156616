//! `netlab dns …`: one file per verb.

pub(crate) mod checks;
pub(crate) mod diagnose;
mod live;
pub(crate) mod plan;
pub(crate) mod query;
