//! What the process's exit code means; `docs/exit-codes.md` says the same for users.
//!
//! Invariant: the code depends on the answer alone, never on the output format or on verbosity.

use std::process::ExitCode;

/// The answer as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Yes: allowed, proved, as expected, nothing found.
    Yes,
    /// No: denied, contradicted, not as expected, something found.
    No,
    /// The question or what it is about could not be read.
    CannotRead,
    /// There is no certain answer.
    CannotTell,
    /// The machine or its owner does not allow what the command needs.
    NotAllowed,
    /// The user did not wait for the end; what was known by then has been told.
    Interrupted,
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::CannotRead => 2,
            Self::CannotTell => 3,
            Self::NotAllowed => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
