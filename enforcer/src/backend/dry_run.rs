//! The backend that enforces nothing: it accepts or refuses a change exactly as the others do, and keeps it.
//!
//! Invariant: no kernel is touched. `observe` can only repeat what was accepted, so it counts nothing and says
//! in `probe` that it does not enforce.

use netlab_plugin::admission::{Admission, Admitted, applied};
use netlab_plugin::contract::{Applied, Backend, BackendError, Capabilities, Change, Leftover, Observation};

/// Validates changes and keeps the last one.
#[derive(Debug, Default)]
pub struct DryRun {
    admission: Admission,
}

impl DryRun {
    /// A backend with nothing in force.
    pub fn new() -> Self {
        Self::default()
    }

    /// The change that would be in force.
    pub const fn change(&self) -> Option<&Change> {
        self.admission.in_force()
    }
}

impl Backend for DryRun {
    fn probe(&self) -> Capabilities {
        Capabilities { name: "dry-run".to_owned(), ..Capabilities::default() }
    }

    fn apply(&mut self, change: &Change) -> Result<Applied, BackendError> {
        if self.admission.admit(change)? == Admitted::New {
            self.admission.record(change);
        }
        Ok(applied(change))
    }

    fn observe(&mut self) -> Result<Observation, BackendError> {
        Ok(Observation { generation: self.admission.generation(), ..Observation::default() })
    }

    fn teardown(&mut self) -> Vec<Leftover> {
        self.admission.clear();
        Vec::new()
    }
}
