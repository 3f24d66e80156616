//! The supervisor's side of a lab: enforcer, proxy rules, DNS servers and files, as they follow from manifests and faults.
//!
//! Invariant: one lock orders the changes; a change that cannot be made is taken back as far as it was. A request that this
//! does not know goes to the enforcer.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use netlab_core::model::cluster::ObjectKey;
use netlab_lab::dns::Dns;
use netlab_lab::fault::{self, Broken, Links, ProxyEdit, Stuck, StuckFlow, Tables, believed};
use netlab_lab::named::{self, Handler, Nothing, Reply, RunDir, supervise_on_stdin};
use netlab_lab::{Lab, Place};
use serde_json::{Value, json};

use super::names::{File, Naming};
use super::paths::{Judge, Walked, walk};
use super::scene::scene;
use super::state::Derived;
use super::{Manifests, ToBreak, operation};
use crate::enforcement::{self, Enforcer, Order, Policies, chain};
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
    run_dir: RunDir,
    name: String,
    state: Mutex<State>,
}

/// What was asked for, and what of it is there.
#[derive(Default)]
struct State {
    /// Without faults.
    manifests: Manifests,
    /// Without faults.
    naming: Option<Naming>,
    faults: Vec<Broken>,
    dns: Dns,
    files: BTreeMap<(Place, File), String>,
    tables: Tables,
    links: Links,
    stuck: Vec<(StuckFlow, Stuck)>,
    /// What is in force, and in the proxies' rules.
    in_force: Option<Manifests>,
    proxied: Option<(Manifests, Vec<ProxyEdit>)>,
}

impl Inside {
    fn furnish(lab: &Lab, order: Order) -> Result<Self, String> {
        let manifests =
            Manifests { documents: order.policies.documents, with: order.added, without: Vec::new() };
        let inside = Self {
            enforcer: Enforcer::new(order.proxy),
            run_dir: order.run_dir,
            name: order.name,
            state: Mutex::new(State { manifests, naming: order.naming, ..State::default() }),
        };
        let mut state = inside.state();
        let derived = state.derive(lab)?;
        inside.make(lab, &mut state, derived, !order.open)?;
        drop(state);
        Ok(inside)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the lab as it should be; what is so already is left alone.
    fn make(&self, lab: &Lab, state: &mut State, derived: Derived, enforced: bool) -> Result<(), String> {
        let error = |error: netlab_lab::LabError| chain(&error);
        if enforced && (!self.enforcer.is_on() || state.in_force.as_ref() != Some(&derived.manifests)) {
            state.in_force = None;
            self.enforcer.attach(lab, derived.loaded.clone())?;
            state.in_force = Some(derived.manifests.clone());
        }
        let proxied = (derived.manifests.clone(), derived.edits.clone());
        if state.proxied.as_ref() != Some(&proxied) {
            state.proxied = None;
            self.enforcer.write_proxy(lab, &derived.proxied())?;
            state.proxied = Some(proxied);
        }
        if state.dns.books() != derived.books {
            state.dns.set_books(derived.books.clone());
        }
        // A server's address has to be there before it is bound.
        state.links.set(lab, &derived.links).map_err(error)?;
        state.dns.set_servers(lab, derived.servers()).map_err(error)?;
        for ((place, file), text) in derived.files {
            let key = (place, file);
            if state.files.get(&key) != Some(&text) {
                self.run_dir.files(&self.name, &key.0).write(file, &text).map_err(error)?;
                state.files.insert(key, text);
            }
        }
        state.tables.set(lab, derived.tables).map_err(error)?;
        state.stuck.retain(|(flow, _)| derived.stuck.contains(flow));
        for flow in derived.stuck {
            if !state.stuck.iter().any(|(known, _)| *known == flow) {
                // A flow that leads nowhere began before the rules were there.
                let early = flow.leads_to == flow.to;
                if early {
                    let none = believed(&derived.loaded.cluster, &[ProxyEdit::NoServices]);
                    self.enforcer.write_proxy(lab, &none)?;
                }
                let stuck = flow.begin(lab).map_err(error);
                if early {
                    self.enforcer.write_proxy(lab, &believed(&derived.loaded.cluster, &derived.edits))?;
                }
                state.stuck.push((flow, stuck?));
            }
        }
        Ok(())
    }

    /// Other manifests than those that the lab was made of. What was added for names stays, where they lack it.
    fn attach(&self, lab: &Lab, policies: Policies) -> Result<(), String> {
        let mut state = self.state();
        let renewed = state.manifests.renewed(policies.documents, lab.plan())?;
        let before = std::mem::replace(&mut state.manifests, renewed);
        // Who asks for it gets it: what the maps hold may no longer be what was written into them.
        state.in_force = None;
        let made = state.derive(lab).and_then(|derived| self.make(lab, &mut state, derived, true));
        if made.is_err() {
            state.manifests = before;
        }
        made
    }

    fn break_it(&self, lab: &Lab, order: &ToBreak) -> Result<Broken, String> {
        let mut state = self.state();
        let found =
            fault::find(&order.fault).ok_or_else(|| format!("there is no fault `{}`", order.fault))?;
        if state.faults.iter().any(|broken| broken.name == order.fault) {
            return Err(format!("`{}` is in already", order.fault));
        }
        let naming =
            state.naming.as_ref().ok_or("this lab has no DNS: only one of `lab up --dns` can be broken")?;
        let loaded = state.manifests.load()?;
        let wanted =
            order.pod.as_ref().map(|(namespace, name)| ObjectKey::new(namespace.clone(), name.clone()));
        let scene = scene(naming, &loaded, lab.plan(), wanted.as_ref())?;
        let changes = found.changes(&scene);
        if changes.is_empty() {
            return Err(format!("`{}` cannot be made in this lab: it lacks what that takes", order.fault));
        }
        if found.needs_policies(&scene) && !self.enforcer.is_on() {
            return Err(format!(
                "`{}` is a policy, and nothing is enforced in this lab: `netlab enforce attach` first",
                order.fault
            ));
        }
        let broken = Broken {
            name: order.fault.clone(),
            pod: format!("{}/{}", scene.client_key.0, scene.client_key.1),
            target: scene.target.name.clone(),
            changes,
        };
        state.faults.push(broken.clone());
        if let Err(error) = self.remake(lab, &mut state) {
            state.faults.pop();
            // It was so before, so it can be so again.
            let _ = self.remake(lab, &mut state);
            return Err(error);
        }
        Ok(broken)
    }

    fn mend(&self, lab: &Lab, names: &[String]) -> Result<Vec<Broken>, String> {
        let mut state = self.state();
        if let Some(unknown) =
            names.iter().find(|name| !state.faults.iter().any(|broken| broken.name == **name))
        {
            return Err(format!("`{unknown}` is not in"));
        }
        let goes = |broken: &Broken| names.is_empty() || names.contains(&broken.name);
        let (gone, left) = std::mem::take(&mut state.faults).into_iter().partition(goes);
        state.faults = left;
        self.remake(lab, &mut state)?;
        Ok(gone)
    }

    fn walk(&self, lab: &Lab) -> Result<Walked, String> {
        let cluster = self.state().derive(lab)?.loaded.cluster;
        self.enforcer
            .with_rulesets(|rulesets| walk(lab, &Judge::new(&cluster, rulesets)?, self.enforcer.proxy()))
    }

    fn remake(&self, lab: &Lab, state: &mut State) -> Result<(), String> {
        let derived = state.derive(lab)?;
        self.make(lab, state, derived, self.enforcer.is_on())?;
        // What they wrote before tells of another lab.
        state.dns.clear_log();
        Ok(())
    }
}

impl State {
    fn derive(&self, lab: &Lab) -> Result<Derived, String> {
        Derived::of(&self.manifests, self.naming.as_ref(), &self.faults, lab.plan())
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
        let json = |error: serde_json::Error| error.to_string();
        match operation {
            enforcement::operation::ATTACH => {
                self.attach(lab, serde_json::from_value(parameters.clone()).map_err(json)?)?;
                self.enforcer.handle(lab, enforcement::operation::STATUS, &Value::Bool(false), reply)
            }
            operation::MANIFESTS => Ok(json!(self.state().derive(lab)?.manifests)),
            operation::NAMES => Ok(json!(self.state().derive(lab)?.naming)),
            operation::LOG => {
                let state = self.state();
                let naming = state.derive(lab)?.naming;
                let wrote = naming.map(|naming| naming.wrote).unwrap_or_default();
                let wrote: String = wrote.into_iter().map(|line| line + "\n").collect();
                Ok(json!(wrote + &state.dns.log()))
            }
            operation::BREAK => {
                let order = serde_json::from_value(parameters.clone()).map_err(json)?;
                Ok(json!(self.break_it(lab, &order)?))
            }
            operation::MEND => {
                let names: Vec<String> = serde_json::from_value(parameters.clone()).map_err(json)?;
                Ok(json!(self.mend(lab, &names)?))
            }
            operation::PATHS => Ok(json!(self.walk(lab)?)),
            operation::FAULTS => Ok(json!(self.state().faults)),
            named::DNS => Ok(json!(self.state().dns.servers())),
            _ => self.enforcer.handle(lab, operation, parameters, reply),
        }
    }
}
