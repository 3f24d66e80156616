//! The bundle: recorded evidence as a directory of plain files, written by a tool or by hand.
//!
//! Invariant: a file that is there was examined, a file that is not there was not; nothing is assumed in its place.
//! [`parse`] is pure; [`read`] is the only place of this package that touches a file system, and reads within the
//! directory only: regular files with the known names, never through a link. Format and examples: `docs/dns-diagnose.md`.

mod directory;
mod error;
pub mod layout;
mod manifest;
mod sense;

use std::collections::BTreeMap;

use netlab_plugin::check::Target;
use netlab_plugin::evidence::{Counters, Evidence, Fact, Probe, Symptom};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use directory::{Limits, read, read_within};
pub use error::{BundleError, Problem};
pub use manifest::{KIND, Manifest};

/// A bundle that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    /// Whose DNS, and which names.
    pub target: Target,
    /// What is known.
    pub evidence: Evidence,
    /// What whoever recorded it could not look at, in words.
    pub not_examined: Vec<String>,
    /// Files that are no part of a bundle and were not read.
    pub ignored: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Probes {
    probes: Vec<Probe>,
}

/// Reads the files of a bundle, by their path within it.
///
/// # Errors
/// [`BundleError`] with everything that is wrong, each with file, line and column.
pub fn parse(files: &BTreeMap<String, String>) -> Result<Bundle, BundleError> {
    let mut problems = Vec::new();
    let mut bundle = Bundle::default();
    let Some(manifest) = files.get(layout::MANIFEST) else {
        return Err(BundleError::one(Problem::no_manifest()));
    };
    match manifest::read(manifest) {
        Ok(manifest) => {
            for id in &manifest.absent {
                if layout::file(id).is_none() {
                    problems.push(Problem::unknown_absent(id));
                } else if files.contains_key(id) {
                    problems.push(Problem::absent_yet_there(id));
                }
                bundle.evidence.facts.insert(id.clone(), Fact::Absent);
            }
            bundle.target = manifest.target();
            bundle.not_examined = manifest.not_examined;
        }
        Err(problem) => problems.push(problem),
    }
    for (path, text) in files {
        match layout::file(path).map(|file| file.format) {
            Some(layout::Format::Manifest | layout::Format::Expected) => {}
            Some(layout::Format::Text | layout::Format::Objects) => {
                bundle.evidence.facts.insert(path.clone(), Fact::Text { text: text.clone() });
            }
            Some(layout::Format::Probes) => match json::<Probes>(path, text) {
                Ok(Probes { probes }) => {
                    for (number, probe) in probes.into_iter().enumerate() {
                        let id = format!("{path}#{}", number + 1);
                        problems.extend(sense::row(&id, &probe));
                        bundle.evidence.facts.insert(id, Fact::Probe(probe));
                    }
                }
                Err(problem) => problems.push(problem),
            },
            Some(layout::Format::Symptom) => match json::<Symptom>(path, text) {
                Ok(symptom) => {
                    problems.extend(sense::symptom(path, &symptom));
                    bundle.evidence.facts.insert(path.clone(), Fact::Symptom(symptom));
                }
                Err(problem) => problems.push(problem),
            },
            Some(layout::Format::Counters) => match json::<Counters>(path, text) {
                Ok(counters) => drop(bundle.evidence.facts.insert(path.clone(), Fact::Counters(counters))),
                Err(problem) => problems.push(problem),
            },
            None => bundle.ignored.push(path.clone()),
        }
    }
    if problems.is_empty() { Ok(bundle) } else { Err(BundleError { problems }) }
}

/// The files that give this bundle: what a gatherer writes, and what [`parse`] reads back.
#[must_use]
pub fn files(bundle: &Bundle) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut absent = Vec::new();
    let mut probes = Vec::new();
    for (id, fact) in &bundle.evidence.facts {
        match fact {
            Fact::Text { text } => drop(files.insert(id.clone(), text.clone())),
            Fact::Absent => absent.push(id.clone()),
            Fact::Symptom(symptom) => drop(files.insert(id.clone(), pretty(symptom))),
            Fact::Counters(counters) => drop(files.insert(id.clone(), pretty(counters))),
            Fact::Probe(_) => {}
        }
    }
    for (_, probe) in bundle.evidence.probes() {
        probes.push(serde_json::to_string(probe).unwrap_or_default());
    }
    if !probes.is_empty() {
        files
            .insert(layout::PROBES.to_owned(), format!("{{\"probes\": [\n  {}\n]}}\n", probes.join(",\n  ")));
    }
    let mut manifest = Manifest::new(&bundle.target, absent);
    manifest.not_examined.clone_from(&bundle.not_examined);
    files.insert(layout::MANIFEST.to_owned(), pretty(&manifest));
    files
}

fn pretty<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn json<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, Problem> {
    let read = serde_json::from_str(text).map_err(|error| Problem::json(path, &error))?;
    // A list of a structure's fields in their order is taken for the structure: nobody means that.
    let value: Value = serde_json::from_str(text).map_err(|error| Problem::json(path, &error))?;
    let rows = value.get("probes").and_then(Value::as_array).into_iter().flatten();
    let inner = rows.clone().filter_map(|row| row.get("icmp")).chain(value.get("subject"));
    let listed = std::iter::once(&value).chain(rows).chain(inner).any(Value::is_array);
    if listed {
        return Err(Problem::new(path, "a list stands where an object should", "name the fields"));
    }
    Ok(read)
}
