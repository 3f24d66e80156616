//! The supervisor's side of a lab: enforcer, proxy rules, DNS servers and files, derived from manifests.
//!
//! Invariant: one lock orders the changes. A request that this does not know goes to the enforcer.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use netlab_core::input::Loaded;
use netlab_lab::dns::Dns;
use netlab_lab::named::{self, Handler, Nothing, Reply, RunDir, supervise_on_stdin};
use netlab_lab::{Lab, Place};
use serde_json::{Value, json};

use super::names::{File, Naming, files};
use super::{Manifests, operation};
use crate::enforcement::{self, Enforcer, Order, Policies};
use crate::failure::Failure;

/// Becomes the supervisor of a lab: reads its order from standard input and serves until it is told to end.
pub(crate) fn supervise() -> Result<(), Failure> {
    supervise_on_stdin(|lab, payload| {
        if payload.is_null() {
            return Ok(Box::new(Nothing));
        }
        let order: Order =
            serde_json::from_value(payload.clone()).map_err(|error| format!("unreadable order: {error}"))?;
        Inside::furnish(lab, order).map(|inside| Box::new(inside) as Box<dyn Handler>)
    })
    .map_err(|error| Failure::not_allowed("the lab cannot be held").because(&error))
}

/// Everything in a lab but its namespaces.
struct Inside {
    enforcer: Enforcer,
    state: Mutex<State>,
}

/// What follows from what was asked for.
struct State {
    /// Without faults.
    manifests: Manifests,
    naming: Option<Naming>,
    dns: Dns,
    run_dir: RunDir,
    name: String,
    written: BTreeMap<(Place, File), String>,
}

impl Inside {
    fn furnish(lab: &Lab, order: Order) -> Result<Self, String> {
        let enforcer = Enforcer::new(order.proxy);
        let manifests =
            Manifests { documents: order.policies.documents, with: order.added, without: Vec::new() };
        let mut state = State {
            manifests,
            naming: order.naming,
            dns: Dns::new(),
            run_dir: order.run_dir,
            name: order.name,
            written: BTreeMap::new(),
        };
        let loaded = state.manifests.load()?;
        state.make_names(lab, &loaded)?;
        if order.open {
            enforcer.write_proxy(lab, &loaded.cluster)?;
        } else {
            enforcer.attach(lab, loaded)?;
        }
        Ok(Self { enforcer, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other manifests than those that the lab was made of. What was added for names stays, where they lack it.
    fn attach(&self, lab: &Lab, policies: Policies) -> Result<(), String> {
        let mut state = self.state();
        let manifests = Manifests { documents: policies.documents, ..state.manifests.clone() };
        let loaded = manifests.load()?;
        let naming = state.naming.is_some().then(|| loaded.clone());
        self.enforcer.attach(lab, loaded)?;
        state.manifests = manifests;
        naming.map_or(Ok(()), |loaded| state.make_names(lab, &loaded))
    }
}

impl State {
    /// Servers, what they say, and files, if the lab has DNS.
    fn make_names(&mut self, lab: &Lab, loaded: &Loaded) -> Result<(), String> {
        let Some(naming) = &self.naming else { return Ok(()) };
        self.dns.set_books(naming.books(&loaded.cluster));
        self.dns.set_servers(lab, &naming.servers).map_err(|error| enforcement::chain(&error))?;
        let files = files(naming, &loaded.cluster, lab.plan())?;
        for ((place, file), text) in &files {
            if self.written.get(&(place.clone(), *file)) != Some(text) {
                let files = self.run_dir.files(&self.name, place);
                files.write(*file, text).map_err(|error| enforcement::chain(&error))?;
            }
        }
        self.written = files;
        Ok(())
    }
}

impl Handler for Inside {
    fn handle(
        &self,
        lab: &Lab,
        operation: &str,
        parameters: &Value,
        reply: &mut Reply<'_>,
    ) -> Result<Value, String> {
        match operation {
            enforcement::operation::ATTACH => {
                let policies =
                    serde_json::from_value(parameters.clone()).map_err(|error| error.to_string())?;
                self.attach(lab, policies)?;
                self.enforcer.handle(lab, enforcement::operation::STATUS, &Value::Bool(false), reply)
            }
            operation::MANIFESTS => Ok(json!(self.state().manifests)),
            operation::NAMES => Ok(json!(self.state().naming)),
            named::DNS => Ok(json!(self.state().dns.servers())),
            _ => self.enforcer.handle(lab, operation, parameters, reply),
        }
    }
}
