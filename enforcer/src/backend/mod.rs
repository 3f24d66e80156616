//! The enforcement backends that come with netlab.
//!
//! Invariant: each implements [`netlab_plugin::contract::Backend`] and passes the contract tests directly and
//! through JSON; none knows a policy, only the tables of a [`netlab_plugin::contract::Change`].

pub mod agreement;
pub mod dry_run;
pub mod nft;
pub mod tc;
pub mod wire;
