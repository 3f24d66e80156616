//! The two streams and everything that decides how they are written.
//!
//! Invariant: a reader that went away (a closed pipe) is no error: the answer still decides the exit code.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use anstream::{AutoStream, ColorChoice};
use netlab_core::diagnostic::{Diagnostic, Severity};
use netlab_core::envelope::Envelope;
use netlab_core::input::what_if::Supposed;
use serde::Serialize;

use super::busy::{self, Busy};
use super::diagnostic::{self, Texts};
use super::layout::{WIDTH, fitted, wrap};
use super::style::{BAD, Charset, POINTER, harmless, paint};
use super::{what_if, yaml};
use crate::args::globals::{Color, Format, Globals};
use crate::exit::Exit;
use crate::failure::Failure;

/// Standard output and standard error, as the user wants them.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    /// `-o`.
    pub(crate) format: Format,
    /// `-q`.
    pub(crate) quiet: bool,
    /// How often `-v`.
    pub(crate) verbose: u8,
    /// What the terminal can show.
    pub(crate) charset: Charset,
    color: ColorChoice,
    /// What the answer supposes about the input.
    supposed: Arc<OnceLock<Supposed>>,
}

impl Terminal {
    /// From the global flags and the environment.
    pub(crate) fn new(globals: &Globals) -> Self {
        Self {
            format: globals.output,
            quiet: globals.quiet,
            verbose: globals.verbose,
            charset: Charset::from_environment(),
            color: match globals.color {
                Color::Auto => ColorChoice::Auto,
                Color::Always => ColorChoice::AlwaysAnsi,
                Color::Never => ColorChoice::Never,
            },
            supposed: Arc::default(),
        }
    }

    /// For the data of a command line that could not be read.
    pub(crate) fn of_data(format: Format) -> Self {
        Self {
            format,
            quiet: false,
            verbose: 0,
            charset: Charset::Ascii,
            color: ColorChoice::Never,
            supposed: Arc::default(),
        }
    }

    /// True when answers are for people.
    pub(crate) fn is_human(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// Says with every answer from now on what it supposes about the input.
    pub(crate) fn suppose(&self, supposed: Supposed) {
        // Both sides of a comparison may be read, but one alone is supposed to be different.
        let _ = self.supposed.set(supposed);
    }

    /// Writes text for people to standard output; with `-q` only its first line.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        if self.quiet {
            return self.write(&harmless(text.split_inclusive('\n').next().unwrap_or_default()));
        }
        let supposed = self.supposed.get().map(what_if::render).unwrap_or_default();
        self.write(&harmless(&(text.to_owned() + &supposed)))
    }

    /// Writes text that `-q` must not cut: for machines.
    pub(crate) fn whole(&self, text: &str) -> Result<(), Failure> {
        if let Some(supposed) = self.supposed.get() {
            self.note(what_if::render(supposed).trim_end());
        }
        self.write(text)
    }

    /// Writes data for machines as it is made, which need not be in memory as a whole.
    pub(crate) fn stream(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        if let Some(supposed) = self.supposed.get() {
            self.note(what_if::render(supposed).trim_end());
        }
        self.rows(write)
    }

    /// The same without a word about what is supposed.
    #[expect(clippy::unused_self, reason = "whoever writes to standard output has the terminal")]
    pub(crate) fn rows(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let mut stdout = BufWriter::with_capacity(BUFFER, io::stdout().lock());
        written(write(&mut stdout).and_then(|()| stdout.flush()))
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = AutoStream::new(io::stdout().lock(), self.color);
        written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// Writes an answer as the user wants it: `human` for people, else the value in its envelope.
    pub(crate) fn answer<T: Serialize>(
        &self,
        envelope: &Envelope<T>,
        human: impl FnOnce(&Self) -> String,
    ) -> Result<(), Failure> {
        if self.is_human() { self.text(&human(self)) } else { self.data(envelope) }
    }

    /// Writes a value as JSON or YAML.
    pub(crate) fn data(&self, value: &impl Serialize) -> Result<(), Failure> {
        let bug = |error: serde_json::Error| {
            Failure::unreadable("cannot write the answer as JSON: this is a bug in netlab").because(&error)
        };
        let value = WithWhatIf { answer: value, what_if: self.supposed.get() };
        if self.format == Format::Yaml {
            return self.write(&yaml::document(&serde_json::to_value(value).map_err(bug)?));
        }
        let mut not_json = None;
        let streamed = self.rows(|out| {
            serde_json::to_writer_pretty(&mut *out, &value).or_else(|error| {
                if let Some(kind) = error.io_error_kind() {
                    return Err(io::Error::from(kind));
                }
                not_json = Some(error);
                Ok(())
            })?;
            out.write_all(b"\n")
        });
        match not_json {
            Some(error) => Err(bug(error)),
            None => streamed,
        }
    }

    /// Writes a value as one line of JSON: for commands that go on until they are stopped.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| {
            Failure::unreadable("cannot write the answer as JSON: this is a bug in netlab").because(&error)
        })?;
        self.write(&(text + "\n"))
    }

    /// Says something on standard error, unless `-q`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// Says in a note what an answer rests on.
    pub(crate) fn remark(&self, text: &str) {
        self.note(&fitted(&format!("note: {text}")));
    }

    /// Says what is being done on standard error, with `-v`.
    pub(crate) fn progress(&self, text: &str) {
        if self.verbose > 0 {
            self.note(text);
        }
    }

    /// Says on a terminal what takes longer than a second, until the returned value is dropped. It has a thread of its
    /// own: nothing for a process that wants to enter a user namespace.
    pub(crate) fn busy(&self, what: &'static str) -> Busy {
        Busy::new(what, !self.quiet && io::stderr().is_terminal())
    }

    /// Shows findings about the input on standard error; notes only with `-v`.
    pub(crate) fn findings(&self, findings: &[Diagnostic], texts: &Texts) {
        let shown: Vec<Diagnostic> = findings
            .iter()
            .filter(|finding| self.verbose > 0 || finding.severity < Severity::Note)
            .cloned()
            .collect();
        self.note(diagnostic::render_all(&shown, texts).trim_end());
    }

    /// Tells why there is no answer, and with `-o json` also as JSON.
    pub(crate) fn fail(&self, failure: &Failure) -> Exit {
        if let Some(loaded) = &failure.input {
            self.complain(diagnostic::render_all(&loaded.diagnostics, &loaded.texts).trim_end());
        }
        self.complain(&render(failure));
        self.fail_as_data(failure);
        failure.exit
    }

    /// Tells why there is no answer as JSON, with `-o json`.
    pub(crate) fn fail_as_data(&self, failure: &Failure) {
        if matches!(self.format, Format::Json | Format::Yaml) {
            // The human text went to standard error already; a second failure to write changes nothing.
            let _ = self.data(&Envelope::new("Failure", Body::from(failure), vec![failure.what.clone()]));
        }
    }

    fn complain(&self, text: &str) {
        if !text.is_empty() {
            busy::clear();
            // Standard error is the last place to complain: if it is closed nobody listens.
            let _ = writeln!(AutoStream::new(io::stderr().lock(), self.color), "{}", harmless(text));
        }
    }
}

/// An answer, and what it supposes about the input.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithWhatIf<'a, T> {
    #[serde(flatten)]
    answer: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_if: Option<&'a Supposed>,
}

/// How much is written at once.
const BUFFER: usize = 1 << 16;

/// A reader that went away is no failure.
fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::unreadable("cannot write to standard output").because(&error))
        }
        _ => Ok(()),
    }
}

/// `error: what`, causes, then the hint.
fn render(failure: &Failure) -> String {
    let mut lines = Vec::new();
    let text = format!("error: {}", failure.what);
    for (index, line) in wrap(&text, WIDTH - 2).into_iter().enumerate() {
        lines.push(if index == 0 {
            line.replacen("error:", &paint(BAD, "error:"), 1)
        } else {
            format!("  {line}")
        });
    }
    lines.extend(failure.causes.iter().map(|cause| format!("  caused by: {cause}")));
    if let Some(hint) = &failure.hint {
        for (index, line) in wrap(&format!("hint: {hint}"), WIDTH - 2).into_iter().enumerate() {
            lines.push(if index == 0 {
                line.replacen("hint:", &paint(POINTER, "hint:"), 1)
            } else {
                format!("  {line}")
            });
        }
    }
    lines.join("\n")
}

/// A failure, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    message: &'a str,
    causes: &'a [String],
    hint: Option<&'a str>,
    exit_code: u8,
    findings: &'a [Diagnostic],
}

impl<'a> From<&'a Failure> for Body<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self {
            message: &failure.what,
            causes: &failure.causes,
            hint: failure.hint.as_deref(),
            exit_code: failure.exit.code(),
            findings: failure.findings(),
        }
    }
}
