//! The steps of the method, S0 to S13, one file each: what each saw, as one line of the answer.
//!
//! Invariant: steps tell, rules conclude. A step looks at one part of the evidence and never at another step's outcome, so each can be
//! run alone, and through the JSON of the contract.

mod s00_symptom;
mod s01_subject;
mod s02_resolv_conf;
mod s03_expansion;
mod s04_truth;
mod s05_service;
mod s06_policy;
mod s07_probes;
mod s08_segments;
mod s09_kernel;
mod s09_proxy;
mod s10_servers;
mod s11_answers;
mod s12_replay;
mod s13_after;

use netlab_plugin::check::{Check, CheckInfo, CheckOutcome, Target};
use netlab_plugin::evidence::Evidence;

use crate::view::View;

/// A step of this package.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// `S6`.
    pub id: &'static str,
    /// `policy`.
    pub name: &'static str,
    /// What it finds out.
    pub summary: &'static str,
    /// The files that it reads.
    pub needs: &'static [&'static str],
    /// What gathering those costs.
    pub costs: &'static str,
    /// The step; `None` when it does not apply to this pod, so that there is nothing to say.
    pub examine: fn(&View<'_>) -> Option<CheckOutcome>,
}

/// The steps in order.
pub const STEPS: &[Step] = &[
    s00_symptom::STEP,
    s01_subject::STEP,
    s02_resolv_conf::STEP,
    s03_expansion::STEP,
    s04_truth::STEP,
    s05_service::STEP,
    s06_policy::STEP,
    s07_probes::STEP,
    s08_segments::STEP,
    s09_proxy::STEP,
    s09_kernel::STEP,
    s10_servers::STEP,
    s11_answers::STEP,
    s12_replay::STEP,
    s13_after::STEP,
];

impl Check for Step {
    fn describe(&self) -> CheckInfo {
        CheckInfo {
            id: self.id.to_owned(),
            name: self.name.to_owned(),
            summary: self.summary.to_owned(),
            needs: self.needs.iter().map(|file| (*file).to_owned()).collect(),
            costs: self.costs.to_owned(),
        }
    }

    fn run(&self, target: &Target, evidence: &Evidence) -> CheckOutcome {
        let outcome = (self.examine)(&View::new(target, evidence));
        outcome.unwrap_or_else(|| CheckOutcome::not_examined("does not apply to this pod"))
    }
}

/// The checks that a diagnosis runs: the steps, and those of others.
#[derive(Default)]
pub struct Registry {
    others: Vec<Box<dyn Check>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.describe().iter().map(|info| &info.id)).finish()
    }
}

impl Registry {
    /// Adds a check from elsewhere: it is run after the steps, and what it finds wrong contributes.
    pub fn add(&mut self, check: Box<dyn Check>) {
        self.others.push(check);
    }

    /// The checks from elsewhere.
    pub fn others(&self) -> impl Iterator<Item = &dyn Check> {
        self.others.iter().map(AsRef::as_ref)
    }

    /// What each check is.
    #[must_use]
    pub fn describe(&self) -> Vec<CheckInfo> {
        let steps = STEPS.iter().map(Check::describe);
        steps.chain(self.others.iter().map(|check| check.describe())).collect()
    }
}
