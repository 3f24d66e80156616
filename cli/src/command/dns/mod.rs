//! `netlab dns …`: one file per verb.

pub(crate) mod query;
