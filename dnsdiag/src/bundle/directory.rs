//! A bundle's directory, read within limits.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use super::error::{BundleError, Problem};
use super::{Bundle, layout, manifest, parse};

/// How much is read before it is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in one file.
    pub file_bytes: u64,
    /// Bytes in all files together.
    pub total_bytes: u64,
    /// Entries of the directory that are looked at.
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, total_bytes: 256 << 20, entries: 1_000 }
    }
}

/// Reads a bundle's directory.
///
/// # Errors
/// [`BundleError`] when it cannot be read or something in it cannot be understood.
pub fn read(directory: &Path) -> Result<Bundle, BundleError> {
    read_within(directory, Limits::default())
}

/// Reads a bundle's directory within limits of one's own.
///
/// # Errors
/// As [`read`].
pub fn read_within(directory: &Path, limits: Limits) -> Result<Bundle, BundleError> {
    let files = collect(directory, limits, BASES)?;
    let mut bundle = parse(&files)?;
    bundle.ignored = others(directory, limits.entries);
    Ok(bundle)
}

/// How many bundles may stand on each other.
const BASES: usize = 4;

/// The files of a bundle, those of its bases included.
fn collect(directory: &Path, limits: Limits, bases: usize) -> Result<BTreeMap<String, String>, BundleError> {
    let whole = directory.display().to_string();
    match fs::metadata(directory) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(BundleError::one(Problem::new(
                whole,
                "not a directory",
                "name the bundle's directory",
            )));
        }
        Err(error) => return Err(BundleError::one(Problem::io(whole, &error))),
    }
    let mut files = BTreeMap::new();
    let mut problems = Vec::new();
    let mut left = limits.total_bytes;
    for file in layout::FILES {
        match one(directory, file.path, limits.file_bytes.min(left)) {
            Ok(Some(text)) => {
                left = left.saturating_sub(text.len() as u64);
                files.insert(file.path.to_owned(), text);
            }
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(BundleError { problems });
    }
    let Some(text) = files.get(layout::MANIFEST) else { return Ok(files) };
    let manifest = manifest::read(text).map_err(BundleError::one)?;
    let Some(base) = &manifest.base else { return Ok(files) };
    if bases == 0 {
        let problem = Problem::new(
            layout::MANIFEST,
            format!("more than {BASES} bundles stand on each other, the last on `{base}`"),
            "name a base that has none",
        );
        return Err(BundleError::one(problem));
    }
    let mut below = collect(&directory.join(base), Limits { total_bytes: left, ..limits }, bases - 1)?;
    below.retain(|file, _| !manifest.without.contains(file) && !manifest.absent.contains(file));
    below.append(&mut files);
    Ok(below)
}

/// The text of one file; `None` when it is not there.
fn one(directory: &Path, path: &str, limit: u64) -> Result<Option<String>, Problem> {
    let mut place = directory.to_path_buf();
    for part in path.split('/') {
        place.push(part);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_symlink() => {
                return Err(Problem::new(
                    path,
                    "a link: what it leads to is no part of the bundle",
                    "put the file itself there",
                ));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Problem::io(path, &error)),
        }
    }
    let found = fs::symlink_metadata(&place).map_err(|error| Problem::io(path, &error))?;
    if !found.is_file() {
        return Err(Problem::new(path, "not a regular file", "put the text itself there"));
    }
    let mut bytes = Vec::new();
    let opened = File::open(&place).map_err(|error| Problem::io(path, &error))?;
    opened
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Problem::io(path, &error))?;
    if bytes.len() as u64 > limit {
        return Err(Problem::new(
            path,
            format!("more than {limit} bytes are left for it"),
            "leave out what has nothing to do with DNS",
        ));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let good = error.as_bytes().get(..good).unwrap_or_default();
            let line = good.split(|byte| *byte == b'\n').count();
            let column = 1 + good.iter().rev().take_while(|byte| **byte != b'\n').count();
            Err(Problem {
                place: Some((line, column)),
                ..Problem::new(path, "not UTF-8 from here on", "save it as UTF-8")
            })
        }
    }
}

/// What else lies in the directory.
fn others(directory: &Path, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(directory.join(&folder)) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > limit {
                found.push("… and more".to_owned());
                return found;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let known = layout::FILES.iter().any(|file| file.path.starts_with(&format!("{path}/")));
            if is_folder && known {
                folders.push(path);
            } else if layout::file(&path).is_none() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

impl Problem {
    fn io(file: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(file, error.to_string(), "check the path and who may read it")
    }
}
