//! What policies mean: the compiler, its tables and the questions they answer; and, apart from all that, the
//! oracle.
//!
//! The way of a policy: [`classes`] cuts pods and addresses into classes that no policy tells apart, [`ports`]
//! cuts ports, [`mod@compile`] makes the tables of every (ruleset, direction), [`decide`] says what each (peer class, port
//! class) of them comes to and who decided it ([`ruleset`], [`provenance`]); [`change`] is that as plain data for backends, [`image`] as the kernel's
//! bytes, and [`engine`] runs the kernel's judgement over them. [`mod@evaluate`] answers one question that way,
//! [`mod@lint`] finds what is probably not meant.

pub mod backends;
pub mod change;
pub mod claims;
pub mod clash;
mod classes;
mod compile;
pub mod connections;
mod decide;
pub mod describe;
pub mod engine;
pub mod evaluate;
pub mod frame;
pub mod frontends;
mod groups;
pub mod headless;
pub mod image;
mod limits;
pub mod lint;
pub mod near_miss;
mod numbers;
mod open_address;
pub mod oracle;
pub mod outside;
mod ports;
mod posture;
mod prefixes;
pub mod provenance;
pub mod query;
mod ruleset;
mod scope;
pub mod trial;
mod unmodelled;

pub use compile::{Compiled, compile, compile_with};
pub use evaluate::{Evaluation, evaluate};
pub use limits::Limits;
pub use numbers::Numbers;
pub use posture::Posture;
pub use ruleset::{CompiledPod, Ruleset, Rulesets, Size};
pub use scope::Scope;
