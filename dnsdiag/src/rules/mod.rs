//! One file for each way to fail, F01 to F95, and the order in which they are asked.
//!
//! Invariant: a rule fires only when every file in `needs` was recorded, and says what speaks for and against it. A rule that
//! rests on something *not* being there names the file that would hold it: so a missing file never proves anything.
//! How to add one: `docs/dns-diagnose.md`, "A new rule".

mod command;
mod dropped;
mod f01;
mod f02;
mod f03;
mod f04;
mod f05;
mod f06;
mod f07;
mod f08;
mod f09;
mod f10;
mod f11;
mod f12;
mod f13;
mod f14;
mod f15;
mod f16;
mod f17;
mod f18;
mod f19;
mod f20;
mod f21;
mod f22;
mod f23;
mod f24;
mod f25;
mod f26;
mod f27;
mod f28;
mod f29;
mod f30;
mod f31;
mod f32;
mod f33;
mod f34;
mod f35;
mod f36;
mod f37;
mod f38;
mod f39;
mod f40;
mod f41;
mod f42;
mod f43;
mod f44;
mod f45;
mod f46;
mod f47;
mod f48;
mod f49;
mod f50;
mod f51;
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
mod f64;
mod f65;
mod f66;
mod f67;
mod f68;
mod f69;
mod f70;
mod f71;
mod f72;
mod f73;
mod f74;
mod f75;
mod f76;
mod f77;
mod f78;
mod f79;
mod f80;
mod f81;
mod f82;
mod f83;
mod f84;
mod f85;
mod f86;
mod f87;
mod f88;
mod f89;
mod f90;
mod f91;
mod f92;
mod f93;
mod f94;
mod f95;
mod rule;

pub use rule::{Class, Confidence, Hit, Rule, Standing};

pub use crate::view::Effect;

/// The rules in the order in which they are asked: the first that fires is the verdict, later ones contribute. What is
/// sufficient by itself comes before what could be its consequence.
pub const RULES: &[Rule] = &[
    f14::RULE,
    f69::RULE,
    f33::RULE,
    f34::RULE,
    f37::RULE,
    f36::RULE,
    f38::RULE,
    f26::RULE,
    f80::RULE,
    f35::RULE,
    f70::RULE,
    f05::RULE,
    f03::RULE,
    f01::RULE,
    f04::RULE,
    f07::RULE,
    f51::RULE,
    f02::RULE,
    f06::RULE,
    f28::RULE,
    f29::RULE,
    f12::RULE,
    f17::RULE,
    f15::RULE,
    f18::RULE,
    f71::RULE,
    f19::RULE,
    f11::RULE,
    f13::RULE,
    f72::RULE,
    f73::RULE,
    f89::RULE,
    f10::RULE,
    f08::RULE,
    f09::RULE,
    f30::RULE,
    f31::RULE,
    f32::RULE,
    f92::RULE,
    f75::RULE,
    f77::RULE,
    f90::RULE,
    f74::RULE,
    f68::RULE,
    f76::RULE,
    f79::RULE,
    f82::RULE,
    f20::RULE,
    f94::RULE,
    f27::RULE,
    f21::RULE,
    f54::RULE,
    f81::RULE,
    f78::RULE,
    f25::RULE,
    f93::RULE,
    f24::RULE,
    f22::RULE,
    f23::RULE,
    f39::RULE,
    f44::RULE,
    f43::RULE,
    f45::RULE,
    f46::RULE,
    f83::RULE,
    f41::RULE,
    f42::RULE,
    f47::RULE,
    f16::RULE,
    f67::RULE,
    f40::RULE,
    f49::RULE,
    f48::RULE,
    f52::RULE,
    f53::RULE,
    f55::RULE,
    f56::RULE,
    f57::RULE,
    f59::RULE,
    f58::RULE,
    f63::RULE,
    f64::RULE,
    f65::RULE,
    f66::RULE,
    f60::RULE,
    f61::RULE,
    f62::RULE,
    f50::RULE,
    f84::RULE,
    f87::RULE,
    f85::RULE,
    f86::RULE,
    f88::RULE,
    f91::RULE,
    f95::RULE,
];

/// The rule of a mode.
#[must_use]
pub fn rule(mode: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.mode == mode)
}
