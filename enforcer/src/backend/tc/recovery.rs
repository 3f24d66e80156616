//! Taking over what an earlier process left in force.
//!
//! Invariants: whatever moment that process ended at, the pods' packets meet the decisions of one change or of the two
//! between which it was, before, while and after this runs. A change that was being made is completed; when that is not
//! possible and no pod was switched yet, it is undone. Programs are replaced link by link, without a packet between.

use std::os::fd::AsFd;

use netlab_core::policy::image::Image;
use netlab_node::Netns;
use nix::sys::stat::fstat;

use super::claims::{adopt, find_present, forget};
use super::{Loaded, Pinned, TcBackend};
use crate::error::EnforceError;
use crate::instance::{Datapath, LoadOptions};
use crate::maps::PolicyMaps;
use crate::pins::journal::{Journal, Saved};
use crate::pins::{PinError, PinPlace, Pins, io_error};
use crate::update::step::{Step, Steps};
use crate::update::{Placed, Update, mend};

impl TcBackend {
    pub(super) fn take_over(
        netns: Netns,
        place: &PinPlace,
        options: &LoadOptions,
        steps: Steps,
    ) -> Result<Self, EnforceError> {
        let pins = Pins::lock(place)?;
        let number = fstat(netns.as_fd()).map_err(|error| io_error("look at", &place.state)(error.into()))?;
        let number: u64 = number.st_ino;
        let Some((maps, journal, saved)) = former(&pins, number)? else {
            return Self::begin(netns, pins, number, options, steps);
        };
        let datapath = Datapath::load_on(options, &maps)?;
        let mut spare = pins.links()?;
        for ((_, direction), link) in &spare {
            // A link that has lost its interface meanwhile is found out when it is claimed.
            let program = if link.is_wire() { datapath.to_wire() } else { datapath.program(*direction) };
            let _ = link.run(program.fd());
        }
        pins.replace_programs(&datapath)?;
        spare.extend(pins.inherited()?);
        let pinned = Pinned { pins, journal, spare };
        // What an earlier process could not finish is not known to this one.
        let mut backend = Self::with(netns, datapath, Some(pinned), steps);
        backend.loaded.stale = true;
        let [in_force, next] = saved;
        if let Some(in_force) = in_force {
            backend.adopt(&in_force)?;
            if let Some(next) = next {
                backend.resume(Some(&in_force), &next)?;
            }
        } else if let Some(next) = next {
            backend.resume(None, &next)?;
        }
        backend.release_spare();
        Ok(backend)
    }

    /// With maps that hold nothing.
    fn begin(
        netns: Netns,
        pins: Pins,
        number: u64,
        options: &LoadOptions,
        steps: Steps,
    ) -> Result<Self, EnforceError> {
        let datapath = Datapath::load(options)?;
        let journal = Journal::create(pins.state(), number)?;
        pins.make_set(&datapath)?;
        let spare = pins.inherited()?;
        Ok(Self::with(netns, datapath, Some(Pinned { pins, journal, spare }), steps))
    }

    /// Takes over what is in force.
    fn adopt(&mut self, saved: &Saved) -> Result<(), EnforceError> {
        let image = Image::from_change(&saved.change)?;
        let found = find_present(&self.netns, &saved.change, &image, &saved.tables)?;
        let Loaded { datapath, pinned: Some(pinned), claims, .. } = &mut self.loaded else { return Ok(()) };
        claims.append(&mut adopt(datapath, &mut pinned.spare, &found)?);
        // A device that is gone lets nothing out either; the audit tells.
        let _ = self.loaded.claim_wires(&self.netns, &saved.change.wires);
        self.in_force(saved);
        Ok(())
    }

    /// Completes a change that was broken off, wherever that was.
    fn resume(&mut self, former: Option<&Saved>, next: &Saved) -> Result<(), EnforceError> {
        let image = Image::from_change(&next.change)?;
        let found = find_present(&self.netns, &next.change, &image, &next.tables)?;
        let loaded = &mut self.loaded;
        let switched =
            loaded.claims.values().any(|claim| claim.device.word.generation() == next.change.generation);
        let Loaded { datapath, pinned: Some(pinned), claims, .. } = &mut *loaded else { return Ok(()) };
        claims.append(&mut adopt(datapath, &mut pinned.spare, &found)?);

        let maps = loaded.datapath.policy().clone();
        let state = loaded.datapath.state().clone();
        let steps = loaded.steps.clone();
        let former = former.map(placed);
        let floor = highest_class(&maps)?;
        let update = Update::plan_above(floor, &maps, &state, former, placed(next), &steps)?;
        let prepared = update
            .prepare()
            .and_then(|()| loaded.claim_wires(&self.netns, &next.change.wires))
            .and_then(|()| loaded.claim_new(&self.netns, &found));
        let mut fresh = match prepared {
            Ok(fresh) => fresh,
            Err(error) if switched => return Err(error),
            Err(_) => {
                // What was in force before is all that can be, and is.
                update.undo();
                return self.forget_next(former.is_some());
            }
        };
        loaded.switch(&found);
        loaded.claims.append(&mut fresh);
        loaded.let_go(&found);
        update.finish()?;
        loaded.let_wires_go(&next.change.wires);
        mend(&maps, &next.tables)?;
        loaded.stale = false;
        self.in_force(next);
        self.loaded.note_finished()?;
        self.loaded.steps.done(Step::Finished);
        Ok(())
    }

    /// Gives a change up that nobody was switched to.
    fn forget_next(&mut self, was_in_force: bool) -> Result<(), EnforceError> {
        if was_in_force {
            // Pods that only the given up change has.
            let wanted = self.admission.in_force().map(|change| {
                let pods = change.pods.iter().map(|pod| pod.interface.clone());
                pods.collect::<std::collections::BTreeSet<_>>()
            });
            let wanted = wanted.unwrap_or_default();
            let claims = std::mem::take(&mut self.loaded.claims);
            for (ifindex, claim) in claims {
                if wanted.contains(claim.attached.interface()) {
                    self.loaded.claims.insert(ifindex, claim);
                } else {
                    claim.attached.release();
                    forget(self.loaded.datapath.policy(), ifindex);
                }
            }
        } else {
            self.loaded.let_all_go();
        }
        if let Some(pinned) = &mut self.loaded.pinned {
            pinned.journal.undo()?;
        }
        Ok(())
    }

    /// Takes programs off that nothing in force wants. Those of other sets stay until the next change.
    fn release_spare(&mut self) {
        let Loaded { datapath, pinned: Some(pinned), .. } = &mut self.loaded else { return };
        let unwanted: Vec<_> =
            pinned.spare.iter().filter(|(_, link)| !link.is_inherited()).map(|(key, _)| *key).collect();
        for key in unwanted {
            if let Some(link) = pinned.spare.remove(&key) {
                link.release();
                forget(datapath.policy(), key.0);
            }
        }
    }
}

const fn placed(saved: &Saved) -> Placed<'_> {
    Placed { change: &saved.change, tables: &saved.tables }
}

type Former =
    (std::collections::BTreeMap<String, std::sync::Arc<std::os::fd::OwnedFd>>, Journal, [Option<Saved>; 2]);

/// What is there to take over. Pins of which nobody knows what they hold are put aside.
fn former(pins: &Pins, netns: u64) -> Result<Option<Former>, PinError> {
    let Some(maps) = pins.maps()? else { return Ok(None) };
    let journal = match Journal::open(&pins.state(), netns) {
        // The namespace is gone, and with it all of its interfaces.
        Err(PinError::OtherNode { .. }) if pins.links()?.is_empty() => None,
        journal => journal?,
    };
    if let Some(journal) = journal
        && let Some(saved) = journal.read()?
    {
        return Ok(Some((maps, journal, saved)));
    }
    if pins.links()?.is_empty() {
        pins.remove()?;
    } else {
        pins.set_aside()?;
    }
    Ok(None)
}

/// The highest peer class that an address or a row has.
fn highest_class(maps: &PolicyMaps) -> Result<u32, EnforceError> {
    let labels = maps.peers.entries()?.into_iter().map(|(_, value)| value.class);
    let prefixes = maps.cidrs.entries()?.into_iter().map(|(_, value)| value.class);
    let rows = maps.policy.keys()?.into_iter().map(|key| key.peer_class);
    Ok(labels.chain(prefixes).chain(rows).max().unwrap_or(0))
}
