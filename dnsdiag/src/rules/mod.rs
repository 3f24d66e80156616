//! One file for each way to fail, F01 to F95, and the order in which they are asked.
//!
//! Invariant: a rule fires only when every file in `needs` was recorded, and says what speaks for and against it. A rule that
//! rests on something *not* being there names the file that would hold it: so a missing file never proves anything.
//! How to add one: `docs/dns-diagnose.md`, "A new rule".

mod command;
mod f01;
mod f48;
mod f49;
mod f52;
mod f53;
mod f54;
mod f55;
mod f56;
mod f57;
mod f58;
mod f59;
mod f60;
mod f61;
mod f62;
mod f63;
mod rule;

pub use rule::{Class, Confidence, Hit, Rule};

/// The rules in the order in which they are asked: the first that fires is the verdict, later ones contribute. What is
/// sufficient by itself comes before what could be its consequence.
pub const RULES: &[Rule] = &[
    f01::RULE,
    f49::RULE,
    f48::RULE,
    f52::RULE,
    f53::RULE,
    f54::RULE,
    f55::RULE,
    f56::RULE,
    f57::RULE,
    f59::RULE,
    f58::RULE,
    f63::RULE,
    f60::RULE,
    f61::RULE,
    f62::RULE,
];

/// The rule of a mode.
#[must_use]
pub fn rule(mode: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.mode == mode)
}
