//! `netlab dns …`: one file per verb.

pub(crate) mod checks;
pub(crate) mod diagnose;
pub(crate) mod lint;
mod live;
pub(crate) mod plan;
pub(crate) mod query;
