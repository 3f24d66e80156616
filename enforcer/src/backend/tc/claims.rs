//! The interfaces that the programs are on, and their records.
//!
//! Invariants: an interface is claimed only when its record is written, so a new pod never meets a program without its
//! ruleset; it is let go before its record is blanked. Pinned or not is the links' business ([`crate::attach`]).

use std::collections::{BTreeMap, BTreeSet};

use netlab_core::policy::change::{Change, PodDevice};
use netlab_core::policy::image::Image;
use netlab_ebpf::abi::{Device, Direction};
use netlab_node::{Netlink, Netns};

use super::{Claim, Loaded, in_netns};
use crate::attach::{AttachError, Attached, Hold, Wire};
use crate::error::EnforceError;
use crate::instance::Datapath;
use crate::maps::PolicyMaps;
use crate::update::step::Step;
use crate::update::tables::Tables;

/// A pod's interface as it is now.
pub(super) struct Found<'a> {
    pub(super) pod: &'a PodDevice,
    pub(super) ifindex: u32,
    /// Its record, as the kernel is to have it.
    pub(super) device: Device,
}

impl Found<'_> {
    /// Its record in place of a claim's: where its last drops are remembered stays.
    pub(super) fn beside(&self, claim: &Claim) -> Device {
        Device { drops: claim.device.drops, ..self.device }
    }

    fn no_interface(pod: &PodDevice) -> EnforceError {
        EnforceError::NoInterface {
            pod: format!("{}/{}", pod.namespace, pod.name),
            interface: pod.interface.clone(),
        }
    }
}

/// The pods' interfaces.
pub(super) fn find<'a>(
    netns: &Netns,
    change: &'a Change,
    image: &Image,
    tables: &Tables,
) -> Result<Vec<Found<'a>>, EnforceError> {
    let found = look(netns, change, image, tables)?;
    found.into_iter().map(|(pod, found)| found.ok_or_else(|| Found::no_interface(pod))).collect()
}

/// Those that are there.
pub(super) fn find_present<'a>(
    netns: &Netns,
    change: &'a Change,
    image: &Image,
    tables: &Tables,
) -> Result<Vec<Found<'a>>, EnforceError> {
    Ok(look(netns, change, image, tables)?.into_iter().filter_map(|(_, found)| found).collect())
}

fn look<'a>(
    netns: &Netns,
    change: &'a Change,
    image: &Image,
    tables: &Tables,
) -> Result<Vec<(&'a PodDevice, Option<Found<'a>>)>, EnforceError> {
    let mut netlink = Netlink::open_in(netns)?;
    let look = |pod: &'a PodDevice| {
        let link = netlink.link(&pod.interface)?;
        Ok((
            pod,
            link.map(|link| {
                // Without the id the mid-flow rule is off for the pod, nothing else.
                let device = tables.slots.device(&image.device(pod, link.peer_netns_id.unwrap_or(-1)));
                Found { pod, ifindex: link.index, device }
            }),
        ))
    };
    change.pods.iter().map(look).collect()
}

impl Loaded {
    /// Drops claims whose programs are gone, because the interface went or somebody detached them.
    pub(super) fn forget_lost_claims(
        &mut self,
        netns: &Netns,
        found: &[Found<'_>],
    ) -> Result<(), EnforceError> {
        let claims = &self.claims;
        let lost = in_netns(netns, || {
            let lost = |ifindex: &&u32| {
                claims.get(ifindex).is_some_and(|claim| {
                    [Direction::Egress, Direction::Ingress]
                        .iter()
                        .any(|direction| claim.attached.before_us(*direction).is_err())
                })
            };
            Ok(found.iter().map(|found| &found.ifindex).filter(lost).copied().collect::<Vec<u32>>())
        })?;
        for ifindex in lost {
            if let Some(claim) = self.claims.remove(&ifindex) {
                claim.attached.release();
            }
        }
        Ok(())
    }

    /// Writes the records of pods that are not claimed yet, then claims them. On error none of them is.
    pub(super) fn claim_new(
        &mut self,
        netns: &Netns,
        found: &[Found<'_>],
    ) -> Result<BTreeMap<u32, Claim>, EnforceError> {
        let fresh: Vec<&Found<'_>> =
            found.iter().filter(|found| !self.claims.contains_key(&found.ifindex)).collect();
        if fresh.is_empty() {
            return Ok(BTreeMap::new());
        }
        let Self { datapath, pinned, steps, claims: former, .. } = self;
        let devices = &datapath.policy().devices;
        let last_drops = &datapath.state().last_drops;
        let taken: BTreeSet<u16> = former.values().map(|claim| claim.device.drops).collect();
        // Pods beyond the places share one.
        let mut places = last_drops.places().filter(|place| !taken.contains(place));
        let mut claims = BTreeMap::new();
        let mut hold = pinned.as_mut().map(|pinned| Hold { pins: &pinned.pins, spare: &mut pinned.spare });
        let claim_all = || {
            for found in &fresh {
                let drops = places.next().unwrap_or_default();
                last_drops.forget(drops)?;
                let device = Device { drops, ..found.device };
                devices.set(found.ifindex, &device)?;
                steps.done(Step::Described);
                let attached = Attached::claim(&found.pod.interface, datapath, hold.as_mut(), steps);
                let attached = attached.map_err(|source| claim_error(found.pod, source))?;
                claims.insert(found.ifindex, Claim { attached, device });
            }
            Ok(())
        };
        let claimed: Result<(), EnforceError> = in_netns(netns, claim_all);
        if let Err(error) = claimed {
            for claim in std::mem::take(&mut claims).into_values() {
                claim.attached.give_back(hold.as_mut());
            }
            // A claimed interface without a record would drop its packets, but none is claimed.
            for found in &fresh {
                let _ = devices.set(found.ifindex, &Device::default());
            }
            return Err(error);
        }
        if let Some(hold) = hold {
            for claim in claims.values_mut() {
                claim.attached.settle(hold.pins);
            }
        }
        Ok(claims)
    }

    /// Puts our program on the devices by which packets leave the node, where it is not.
    pub(super) fn claim_wires(&mut self, netns: &Netns, wanted: &[String]) -> Result<(), EnforceError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let Self { datapath, pinned, wires, .. } = self;
        let mut hold = pinned.as_mut().map(|pinned| Hold { pins: &pinned.pins, spare: &mut pinned.spare });
        in_netns(netns, || {
            wires.retain(Wire::is_there);
            for interface in wanted {
                if !wires.iter().any(|wire| wire.interface() == interface) {
                    let wire = Wire::claim(interface, datapath, hold.as_mut());
                    wires.push(wire.map_err(|source| EnforceError::Wire { source })?);
                }
            }
            Ok(())
        })
    }

    /// Takes our program off the devices that are not wanted.
    pub(super) fn let_wires_go(&mut self, wanted: &[String]) {
        let (keep, go): (Vec<_>, Vec<_>) = std::mem::take(&mut self.wires)
            .into_iter()
            .partition(|wire| wanted.iter().any(|name| name == wire.interface()));
        self.wires = keep;
        go.into_iter().for_each(Wire::release);
    }

    /// Switches every pod that is claimed already.
    pub(super) fn switch(&mut self, found: &[Found<'_>]) {
        let devices = &self.datapath.policy().devices;
        for found in found {
            let Some(claim) = self.claims.get_mut(&found.ifindex) else { continue };
            let device = found.beside(claim);
            let same_pod = Device { word: claim.device.word, ..device } == claim.device;
            // A claimed number is within the map. Should the kernel refuse all the same, the pod is left with a word
            // that lets nothing pass, and the audit tells.
            let _ = if same_pod {
                devices.set_word(found.ifindex, device.word)
            } else {
                devices.set(found.ifindex, &device)
            };
            claim.device = device;
            self.steps.done(Step::Switched);
        }
    }

    /// Lets go of interfaces that are no longer wanted: first the programs, then the record.
    pub(super) fn let_go(&mut self, wanted: &[Found<'_>]) {
        let unwanted: Vec<u32> = self
            .claims
            .keys()
            .filter(|ifindex| !wanted.iter().any(|found| found.ifindex == **ifindex))
            .copied()
            .collect();
        for ifindex in unwanted {
            if let Some(claim) = self.claims.remove(&ifindex) {
                claim.attached.release();
            }
            forget(self.datapath.policy(), ifindex);
            self.steps.done(Step::LetGo);
        }
    }

    /// Lets go of everything.
    pub(super) fn let_all_go(&mut self) {
        self.let_go(&[]);
        self.let_wires_go(&[]);
    }
}

pub(super) fn forget(maps: &PolicyMaps, ifindex: u32) {
    let _ = maps.devices.set(ifindex, &Device::default());
}

fn claim_error(pod: &PodDevice, source: AttachError) -> EnforceError {
    match source {
        AttachError::NoInterface { .. } => Found::no_interface(pod),
        source => EnforceError::Claim { pod: format!("{}/{}", pod.namespace, pod.name), source },
    }
}

/// Adopts the interfaces whose links were found running our programs.
pub(super) fn adopt(
    datapath: &Datapath,
    spare: &mut crate::pins::Links,
    found: &[Found<'_>],
) -> Result<BTreeMap<u32, Claim>, EnforceError> {
    let mut claims = BTreeMap::new();
    for Found { pod, ifindex, device } in found {
        let Some(attached) = Attached::adopt(&pod.interface, *ifindex, datapath, spare) else { continue };
        // What the kernel has: the switch is to know what it changes.
        let device = datapath.policy().devices.get(*ifindex)?.unwrap_or(*device);
        claims.insert(*ifindex, Claim { attached, device });
    }
    Ok(claims)
}
