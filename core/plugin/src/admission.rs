//! What a backend has accepted so far, and whether the next change may follow it.
//!
//! Invariant: nothing is programmed that was not admitted. A generation never goes back; a generation names one
//! content only; a ruleset's number, once given to a content, keeps that content while it is in force (new
//! peer classes may join it); a pod's number is never given to another pod.

use std::collections::BTreeMap;

use netlab_core::policy::change::{Cell, Change, DirectionTable, RulesetTable};
use netlab_ebpf::abi::Direction;

use crate::contract::{Applied, BackendError, Blame};
use crate::validate::{table_name, validate};

/// Most problems that one error message lists.
const SHOWN_PROBLEMS: usize = 5;

/// The change in force and the pods that ever were.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    in_force: Option<Change>,
    pods: BTreeMap<u32, (String, String)>,
}

/// The answer to an admitted change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is the very change that is in force already.
    Again,
    /// It is to be programmed.
    New,
}

impl Admission {
    /// Nothing in force.
    pub const fn new() -> Self {
        Self { in_force: None, pods: BTreeMap::new() }
    }

    /// The change in force.
    pub const fn in_force(&self) -> Option<&Change> {
        self.in_force.as_ref()
    }

    /// The generation in force, 0 when none is.
    pub fn generation(&self) -> u32 {
        self.in_force.as_ref().map_or(0, |change| change.generation)
    }

    /// Decides whether a change may be programmed now.
    ///
    /// # Errors
    /// [`BackendError`] that names what is wrong with it; nothing may be touched then.
    pub fn admit(&self, change: &Change) -> Result<Admitted, BackendError> {
        let problems = validate(change);
        if !problems.is_empty() {
            return Err(invalid(change, problems.iter().map(ToString::to_string).collect()));
        }
        if let Some(former) = &self.in_force {
            if former == change {
                return Ok(Admitted::Again);
            }
            admissible_generation(former.generation, change.generation)?;
            let conflicts = ruleset_conflicts(former, change);
            if !conflicts.is_empty() {
                return Err(invalid(change, conflicts));
            }
        }
        let reused: Vec<String> = change
            .pods
            .iter()
            .filter_map(|pod| {
                let (namespace, name) = self.pods.get(&pod.id)?;
                (*namespace != pod.namespace || *name != pod.name).then(|| {
                    format!("pod {}/{}: id {} was {namespace}/{name}'s", pod.namespace, pod.name, pod.id)
                })
            })
            .collect();
        if reused.is_empty() { Ok(Admitted::New) } else { Err(invalid(change, reused)) }
    }

    /// Notes that a change is in force now.
    pub fn record(&mut self, change: &Change) {
        for pod in &change.pods {
            self.pods.insert(pod.id, (pod.namespace.clone(), pod.name.clone()));
        }
        self.in_force = Some(change.clone());
    }

    /// Notes that nothing is in force any more. Pods' numbers stay taken.
    pub fn clear(&mut self) {
        self.in_force = None;
    }
}

/// Refuses a generation that does not come after the one in force.
///
/// # Errors
/// [`BackendError`] that names both.
pub fn admissible_generation(in_force: u32, asked: u32) -> Result<(), BackendError> {
    if asked > in_force {
        return Ok(());
    }
    let message = if asked == in_force {
        format!("generation {asked} is in force already, with other contents")
    } else {
        format!("generation {asked} is older than generation {in_force}, which is in force")
    };
    Err(BackendError {
        message,
        hint: Some(format!("compile again with a generation above {in_force}")),
        blame: Blame::Input,
        retry: false,
    })
}

/// The answer to a change that is in force.
pub fn applied(change: &Change) -> Applied {
    let rows = |table: &Option<DirectionTable>| {
        table.as_ref().map_or(1, |table| {
            table.rows.iter().map(|row| (row.peer_classes.len() * row.cells.len()) as u64).sum()
        })
    };
    Applied {
        generation: change.generation,
        rows: change.rulesets.iter().map(|ruleset| rows(&ruleset.ingress) + rows(&ruleset.egress)).sum(),
        pods: change.pods.len() as u64,
    }
}

fn invalid(change: &Change, mut problems: Vec<String>) -> BackendError {
    let more = problems.len().saturating_sub(SHOWN_PROBLEMS);
    problems.truncate(SHOWN_PROBLEMS);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    BackendError {
        message: format!("change of generation {} refused: {}", change.generation, problems.join("; ")),
        hint: Some("the former state is still in force; whoever compiled the change must mend it".to_owned()),
        blame: Blame::Input,
        retry: false,
    }
}

/// What two contents under one ruleset number disagree about.
fn ruleset_conflicts(former: &Change, change: &Change) -> Vec<String> {
    let before: BTreeMap<u32, &RulesetTable> =
        former.rulesets.iter().map(|ruleset| (ruleset.id, ruleset)).collect();
    let mut conflicts = Vec::new();
    for ruleset in &change.rulesets {
        let Some(former) = before.get(&ruleset.id) else { continue };
        for (direction, old, new) in [
            (Direction::Ingress, &former.ingress, &ruleset.ingress),
            (Direction::Egress, &former.egress, &ruleset.egress),
        ] {
            let name = table_name(ruleset.id, direction);
            match (old, new) {
                (None, None) => {}
                (Some(old), Some(new)) if old.port_classes == new.port_classes => {
                    let cells = cells_by_class(old);
                    for (class, cells_now) in cells_by_class(new) {
                        if cells.get(&class).is_some_and(|before| *before != cells_now) {
                            conflicts.push(format!(
                                "{name}: peer class {class} has other verdicts than under the same number before"
                            ));
                        }
                    }
                }
                (Some(_), Some(_)) => {
                    conflicts.push(format!("{name}: other port classes than under the same number before"));
                }
                _ => conflicts.push(format!("{name}: other isolation than under the same number before")),
            }
        }
    }
    conflicts
}

fn cells_by_class(table: &DirectionTable) -> BTreeMap<u32, &[Cell]> {
    table
        .rows
        .iter()
        .flat_map(|row| row.peer_classes.iter().map(|class| (*class, row.cells.as_slice())))
        .collect()
}
