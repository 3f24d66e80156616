//! What policies mean: the compiler, its tables and the questions they answer; and, apart from all that, the
//! oracle.
//!
//! The way of a policy: [`classes`] cuts pods and addresses into classes that no policy tells apart, [`ports`]
//! cuts ports, [`compile`] decides every (ruleset, direction, peer class, port class) and keeps who decided it
//! ([`ruleset`], [`provenance`]); [`change`] is that as plain data for backends, [`image`] as the kernel's
//! bytes, and [`engine`] runs the kernel's judgement over them. [`evaluate`] answers one question that way.

pub mod change;
pub mod engine;
pub mod frame;
pub mod image;
pub mod oracle;
