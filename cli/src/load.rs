//! From `-f` to documents: files, directories in depth, standard input.
//!
//! Invariant: nothing that was named is skipped without a word. A file that cannot be read is an error of its
//! own and the others are still read; with `--skip-invalid` the answer then says that it is incomplete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use netlab_core::diagnostic::{Diagnostic, ObjectRef, Severity, code};
use netlab_core::input::what_if::{NotThere, WhatIf};
use netlab_core::input::{Budget, Document, Loaded, load_what_if};
use netlab_core::model::source::Position;
use netlab_core::policy::provenance::PolicyRef;

use crate::args::globals::Globals;
use crate::args::what_if::WhatIfArgs;
use crate::failure::Failure;
use crate::output::layout::counted;
use crate::output::terminal::Terminal;

/// Deepest directory that is searched below one that was named.
const MOST_DEPTH: usize = 32;

/// What can be read once, standard input and pipes, and may be both sides of a comparison; by path.
static READ_ONCE: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// The bytes of what can be read once, if it was read before, or else as `read` gives them.
fn once(path: &Path, read: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    let known = || READ_ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = known().get(path) {
        return Ok(bytes.clone());
    }
    let bytes = read()?;
    known().insert(path.to_owned(), bytes.clone());
    Ok(bytes)
}

/// What `-f` names, as documents; unreadable files apart.
#[derive(Debug, Default)]
struct Sources {
    documents: Vec<Document>,
    not_text: Vec<Diagnostic>,
    unreadable: Vec<(PathBuf, io::Error)>,
    visited: BTreeSet<PathBuf>,
}

/// The input and what of it had to be left out.
#[derive(Debug)]
pub(crate) struct Input {
    /// Everything that could be understood.
    pub(crate) loaded: Loaded,
    /// What was left out, in words; not empty only with `--skip-invalid`.
    pub(crate) not_examined: Vec<String>,
}

/// Reads everything that `-f` names.
pub(crate) fn input(globals: &Globals, terminal: &Terminal) -> Result<Input, Failure> {
    read(&globals.filename, &globals.what_if, globals, terminal)
}

/// Reads everything at these paths, as it would be if what is supposed were so.
///
/// Findings are shown on standard error. An object or file that cannot be used is an error unless
/// `--skip-invalid` was given.
pub(crate) fn read(
    paths: &[PathBuf],
    what_if: &WhatIfArgs,
    globals: &Globals,
    terminal: &Terminal,
) -> Result<Input, Failure> {
    let busy = terminal.busy("reading manifests");
    let input = read_in_silence(paths, what_if, globals, terminal)?;
    drop(busy);
    terminal.findings(&input.loaded.diagnostics, &input.loaded.texts);
    Ok(input)
}

/// The same, for commands that show the findings themselves.
pub(crate) fn read_in_silence(
    paths: &[PathBuf],
    what_if: &WhatIfArgs,
    globals: &Globals,
    terminal: &Terminal,
) -> Result<Input, Failure> {
    let input = read_lenient(paths, what_if, globals, terminal)?;
    let errors = spoilt(&input.loaded.diagnostics);
    if errors > 0 && !globals.skip_invalid {
        return Err(unusable(errors)
            .hint("mend it, or leave it out with `--skip-invalid` (the answer is then incomplete, exit 3)")
            .about(input.loaded));
    }
    Ok(input)
}

/// Shows the findings of an answer by workload. What leaves that answer open is an error, with which it is not
/// complete: pods of one owner that policies tell apart, and the policies without an order that decide.
pub(crate) fn show_open(input: &mut Input, ties: &[Vec<PolicyRef>], terminal: &Terminal) {
    let decides = |object: &ObjectRef| {
        ties.iter().flatten().any(|policy| policy.kind == object.kind && policy.name == object.name)
    };
    let opens = |finding: &Diagnostic| match finding.code {
        code::OWNER_SPLIT => true,
        code::TIED_POLICIES => finding.object.as_ref().is_some_and(decides),
        _ => false,
    };
    for finding in input.loaded.diagnostics.iter_mut().filter(|finding| opens(finding)) {
        finding.severity = Severity::Error;
        let object = finding.object.as_ref().map(ToString::to_string).unwrap_or_default();
        input.not_examined.push(format!("what follows from this: {object} {}", finding.message));
    }
    terminal.findings(&input.loaded.diagnostics, &input.loaded.texts);
}

/// How many objects cannot be used, each counted once whatever is wrong with it.
pub(crate) fn spoilt(diagnostics: &[Diagnostic]) -> usize {
    let errors = diagnostics.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(thing).collect::<BTreeSet<_>>().len()
}

/// Why an answer that leaves objects out is none.
pub(crate) fn unusable(number: usize) -> Failure {
    Failure::unreadable(format!(
        "{number} {} cannot be used, and an answer without {} could be wrong",
        if number == 1 { "object" } else { "objects" },
        if number == 1 { "it" } else { "them" },
    ))
}

/// The same for commands whose answer the findings are: an object that cannot be used is no error here, and nothing is
/// shown.
pub(crate) fn read_lenient(
    paths: &[PathBuf],
    what_if: &WhatIfArgs,
    globals: &Globals,
    terminal: &Terminal,
) -> Result<Input, Failure> {
    if paths.is_empty() {
        return Err(Failure::unreadable(
            "no `-f`, and this version has no support for a live cluster",
        )
        .hint("name manifests with `-f FILE`, `-f DIRECTORY` or `-f -`, which reads for instance what `kubectl get networkpolicy,pod,namespace,node,service,endpointslice -A -o yaml` prints"));
    }
    let mut sources = Sources::default();
    for path in paths {
        sources.read(path)?;
    }
    let read = sources.documents.len();
    sources.visited.clear();
    for path in &what_if.with {
        sources.read(path)?;
    }
    let with = sources.documents.split_off(read);
    let mut not_examined = Vec::new();
    if let Some((path, error)) = sources.unreadable.first() {
        for (path, error) in &sources.unreadable {
            not_examined.push(format!("{}: {error}", path.display()));
        }
        if !globals.skip_invalid {
            let mut failure = Failure::unreadable(format!("cannot read `{}`", path.display())).because(error);
            let others = sources.unreadable.iter().skip(1);
            failure.causes.extend(others.map(|(path, error)| format!("`{}`: {error}", path.display())));
            return Err(failure.hint(hint(error)));
        }
        for text in &not_examined {
            terminal.note(&format!("warning: left out {text}"));
        }
    }
    terminal.progress(&format!("read {}", counted(read + with.len(), "file")));
    let supposed = WhatIf { with, without: what_if.without.clone(), namespace: globals.namespace.clone() };
    let (mut loaded, supposed) = load_what_if(sources.documents, supposed, &Budget::default())
        .map_err(|missing| is_not_there(&missing))?;
    if !what_if.is_empty() {
        terminal.suppose(supposed);
    }
    loaded.diagnostics.append(&mut sources.not_text);
    for finding in loaded.diagnostics.iter().filter(|finding| finding.severity == Severity::Error) {
        let object = finding.object.as_ref().map(ToString::to_string);
        let place = object.or_else(|| finding.file.as_deref().map(str::to_owned)).unwrap_or_default();
        not_examined.push(format!("{place}: {}", finding.message));
    }
    for (kind, number) in &loaded.skipped {
        terminal.progress(&format!("{} cannot matter here", counted(*number, &format!("{kind} object"))));
    }
    Ok(Input { loaded, not_examined })
}

/// What of the input a finding makes unusable: its object, or else the place where none could be made out.
fn thing(finding: &Diagnostic) -> (Option<&str>, Option<String>, Option<Position>) {
    let object = finding.object.as_ref().map(ToString::to_string);
    let place = finding.position.filter(|_| object.is_none());
    (finding.file.as_deref(), object, place)
}

/// One text that is no manifest: a file, or `-`.
pub(crate) fn document(path: &Path) -> Result<Document, Failure> {
    let name = path.to_string_lossy();
    let read =
        if path == Path::new("-") { bytes(io::stdin().lock()) } else { File::open(path).and_then(bytes) };
    let bytes = read.map_err(|error| {
        Failure::unreadable(format!("cannot read `{name}`")).because(&error).hint(hint(&error))
    })?;
    Document::from_bytes(name.as_ref(), bytes).map_err(|finding| {
        let about = Loaded { diagnostics: vec![finding], ..Loaded::default() };
        Failure::unreadable(format!("cannot read `{name}`")).about(about)
    })
}

/// The texts that were read, to be read again elsewhere.
pub(crate) fn documents(loaded: &Loaded) -> Vec<(String, String)> {
    loaded.texts.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

fn is_not_there(missing: &NotThere) -> Failure {
    let failure = Failure::unreadable(format!("`--without`: {missing}"));
    match missing.nearest.as_slice() {
        [] => failure.hint("write it as in `--without NetworkPolicy/shop/db`"),
        nearest => failure.hint(format!("did you mean `{}`?", nearest.join("`, `"))),
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "is the path right? it is taken from the current directory",
        io::ErrorKind::PermissionDenied => "the file's owner must let you read it",
        _ => "leave it out with `--skip-invalid` (the answer is then incomplete, exit 3)",
    }
}

impl Sources {
    fn read(&mut self, path: &Path) -> Result<(), Failure> {
        if path == Path::new("-") {
            let bytes = once(path, || bytes(io::stdin().lock()))
                .map_err(|error| Failure::unreadable("cannot read standard input").because(&error))?;
            if bytes.iter().all(u8::is_ascii_whitespace) {
                return Err(Failure::unreadable("standard input is empty").hint(
                    "`-f -` reads manifests from standard input, as in `cat policy.yaml | netlab … -f -`",
                ));
            }
            self.document("-", bytes);
            return Ok(());
        }
        if path.is_dir() {
            let again = path.canonicalize().is_ok_and(|real| self.visited.contains(&real));
            let before = self.count();
            self.directory(path, 0);
            if self.count() == before && !again {
                return Err(Failure::unreadable(format!("no manifest in directory `{}`", path.display()))
                    .hint("netlab reads *.yaml, *.yml and *.json, in sub-directories too"));
            }
            return Ok(());
        }
        self.file(path);
        Ok(())
    }

    fn directory(&mut self, path: &Path, depth: usize) {
        // Symbolic links can lead in circles: each directory is searched once.
        match path.canonicalize() {
            Ok(real) if !self.visited.insert(real.clone()) => return,
            Ok(_) if depth > MOST_DEPTH => {
                self.unreadable
                    .push((path.to_owned(), io::Error::other("directories are nested too deeply")));
                return;
            }
            Ok(_) => {}
            Err(error) => return self.unreadable.push((path.to_owned(), error)),
        }
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut paths: Vec<PathBuf> = match entries {
            Ok(entries) => entries.into_iter().map(|entry| entry.path()).collect(),
            Err(error) => return self.unreadable.push((path.to_owned(), error)),
        };
        paths.sort();
        for path in paths {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() {
                self.directory(&path, depth + 1);
            } else if ["yaml", "yml", "json"].contains(&extension) {
                // Whoever names a pipe means it; one that lies in a directory may never end.
                if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
                    self.unreadable.push((path, io::Error::other("it is no regular file")));
                } else {
                    self.file(&path);
                }
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let read = || File::open(path).and_then(bytes);
        // A pipe, such as a shell makes for `<(kubectl get …)`, is empty when it is read again.
        let is_regular = path.metadata().is_ok_and(|metadata| metadata.is_file());
        match if is_regular { read() } else { once(path, read) } {
            Ok(bytes) => self.document(&path.to_string_lossy(), bytes),
            Err(error) => self.unreadable.push((path.to_owned(), error)),
        }
    }

    fn document(&mut self, name: &str, bytes: Vec<u8>) {
        match Document::from_bytes(name, bytes) {
            Ok(document) => self.documents.push(document),
            Err(finding) => self.not_text.push(finding),
        }
    }

    fn count(&self) -> usize {
        self.documents.len() + self.not_text.len() + self.unreadable.len()
    }
}

/// Everything, within the limit of one text.
fn bytes(reader: impl Read) -> io::Result<Vec<u8>> {
    let most = Budget::default().text_bytes;
    let mut bytes = Vec::new();
    reader.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}
