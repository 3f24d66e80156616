//! `netlab dns …`: one file per verb.

mod live;
pub(crate) mod checks;
pub(crate) mod diagnose;
pub(crate) mod plan;
pub(crate) mod query;
