//! Any backend and any check, spoken to through the JSON of the contract.
//!
//! Invariant: every argument and every answer crosses as text and back; nothing is passed by reference.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::check::{Check, CheckInfo, CheckOutcome, Target};
use crate::contract::{
    Applied, Backend, BackendError, Blame, Capabilities, Change, Leftover, Observation, PAYLOAD_VERSION,
};
use crate::evidence::Evidence;

/// A backend or a check behind its own JSON.
#[derive(Debug)]
pub struct Loopback<B> {
    inner: B,
}

#[derive(Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<T> {
    api_version: String,
    body: T,
}

impl<B> Loopback<B> {
    /// Puts a backend or a check behind JSON.
    pub const fn new(inner: B) -> Self {
        Self { inner }
    }

    /// The backend or check itself.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

fn bug(error: &serde_json::Error) -> BackendError {
    BackendError {
        message: format!("payload does not survive JSON: {error}"),
        hint: None,
        blame: Blame::Bug,
        retry: false,
    }
}

fn cross<T: Serialize + DeserializeOwned>(body: T) -> Result<T, BackendError> {
    let payload = Payload { api_version: PAYLOAD_VERSION.to_owned(), body };
    let text = serde_json::to_string(&payload).map_err(|error| bug(&error))?;
    let back: Payload<T> = serde_json::from_str(&text).map_err(|error| bug(&error))?;
    if back.api_version == PAYLOAD_VERSION {
        Ok(back.body)
    } else {
        Err(BackendError {
            message: format!("payload version {} is not {PAYLOAD_VERSION}", back.api_version),
            hint: None,
            blame: Blame::Bug,
            retry: false,
        })
    }
}

impl<B: Backend> Backend for Loopback<B> {
    fn probe(&self) -> Capabilities {
        cross(self.inner.probe()).unwrap_or_else(|error| Capabilities {
            missing: vec![error.to_string()],
            ..Capabilities::default()
        })
    }

    fn apply(&mut self, change: &Change) -> Result<Applied, BackendError> {
        let change = cross(change.clone())?;
        cross(self.inner.apply(&change))?.and_then(cross)
    }

    fn observe(&mut self) -> Result<Observation, BackendError> {
        cross(self.inner.observe())?.and_then(cross)
    }

    fn teardown(&mut self) -> Vec<Leftover> {
        let leftovers = self.inner.teardown();
        cross(leftovers.clone()).unwrap_or(leftovers)
    }
}

impl<C: Check> Check for Loopback<C> {
    fn describe(&self) -> CheckInfo {
        let broken = |error: &BackendError| CheckInfo { summary: error.to_string(), ..CheckInfo::default() };
        cross(self.inner.describe()).unwrap_or_else(|error| broken(&error))
    }

    fn run(&self, target: &Target, evidence: &Evidence) -> CheckOutcome {
        let call = || -> Result<CheckOutcome, BackendError> {
            let (target, evidence) = cross((target.clone(), evidence.clone()))?;
            cross(self.inner.run(&target, &evidence))
        };
        call().unwrap_or_else(|error| CheckOutcome::not_examined(error.to_string()))
    }
}
