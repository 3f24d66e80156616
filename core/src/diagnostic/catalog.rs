//! Every diagnostic code and its page (`netlab explain NLxxxx`).
//!
//! Invariant: the examples are true. A test loads (and, for lints, lints) each one: the bad one yields its code, the
//! good one does not. Those of `NL07xx` are several files each, and are tried by the DNS lint's own tests.

mod claims;
mod dns;
mod field;
mod lint;
mod object;
mod service;
mod text;
mod tier;

use super::code;

/// What `netlab explain` says about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// `NL0101`.
    pub code: &'static str,
    /// One line.
    pub title: &'static str,
    /// Why it matters, in a few sentences.
    pub explanation: &'static str,
    /// A text that has the fault; empty where no short text can show it.
    pub bad: &'static str,
    /// The same, mended.
    pub good: &'static str,
}

const LIMITS: [Page; 1] = [Page {
    code: "NL0401",
    title: "a policy makes the tables larger than their limit",
    explanation: "The kernel's maps are sized before anything is programmed. A policy that would make them overflow \
                  is refused and named with what it costs, and all the others stay in force: a table that is cut off \
                  at its end would enforce something that nobody wrote. Name fewer distinct ports or peers, or merge \
                  ports into ranges.",
    bad: "",
    good: "",
}];

/// The page of a code, in any case: `nl0101` too.
pub fn page(code: &str) -> Option<&'static Page> {
    all().find(|page| page.code.eq_ignore_ascii_case(code))
}

/// All pages, by code.
pub fn all() -> impl Iterator<Item = &'static Page> {
    text::PAGES
        .iter()
        .chain(&object::PAGES)
        .chain(&field::PAGES)
        .chain(&tier::PAGES)
        .chain(&service::PAGES)
        .chain(lint::pages())
        .chain(&LIMITS)
        .chain(&claims::PAGES)
        .chain(dns::pages())
}
