//! `netlab policy …`: one file per verb.

pub(super) mod compile;
pub(super) mod connections;
pub(super) mod describe;
pub(super) mod diff;
pub(super) mod eval;
pub(super) mod lint;
pub(super) mod prove;
pub(super) mod test;
