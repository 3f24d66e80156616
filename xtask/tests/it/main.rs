//! Tidy tests: the rules of `ARCHITECTURE.md` and `STYLE.md` that a compiler does not check.
//!
//! Invariant: each test names every offender at once, with the file and line, and says what the rule is.

mod dependencies;
mod documents;
mod source;
mod tree;
