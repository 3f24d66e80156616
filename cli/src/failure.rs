//! Why a command gave no answer: what, on which object, the causes, and what to do.
//!
//! Invariant: `what` is one line that names the object; causes go from near to far and never repeat it.

use std::error::Error;

use netlab_core::diagnostic::Diagnostic;
use netlab_core::input::Loaded;

use crate::exit::Exit;

/// An error on its way to the user.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The process's exit code.
    pub(crate) exit: Exit,
    /// What, on which object.
    pub(crate) what: String,
    /// Why, from near to far.
    pub(crate) causes: Vec<String>,
    /// What to do.
    pub(crate) hint: Option<String>,
    /// The input, when its findings are the reason.
    pub(crate) input: Option<Box<Loaded>>,
}

impl Failure {
    /// A failure without causes or hint.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), causes: Vec::new(), hint: None, input: None }
    }

    /// The question or its material cannot be read.
    pub(crate) fn unreadable(what: impl Into<String>) -> Self {
        Self::new(Exit::CannotRead, what)
    }

    /// The machine does not allow it.
    pub(crate) fn not_allowed(what: impl Into<String>) -> Self {
        Self::new(Exit::NotAllowed, what)
    }

    /// Adds an error and its sources as causes.
    pub(crate) fn because(mut self, error: &dyn Error) -> Self {
        let mut next = Some(error);
        while let Some(cause) = next {
            let text = cause.to_string();
            // Many errors end with the text of their source: saying it twice helps nobody.
            if !self.causes.last().is_some_and(|last| last.ends_with(&text)) {
                self.causes.push(text);
            }
            next = cause.source();
        }
        self
    }

    /// Adds a cause in words.
    pub(crate) fn caused_by(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Attaches the input whose findings are the reason.
    pub(crate) fn about(mut self, loaded: Loaded) -> Self {
        self.input = Some(Box::new(loaded));
        self
    }

    /// The findings that are the reason, if it was the input.
    pub(crate) fn findings(&self) -> &[Diagnostic] {
        self.input.as_ref().map_or(&[], |loaded| &loaded.diagnostics)
    }
}
