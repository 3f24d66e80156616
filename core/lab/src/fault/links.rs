//! Interfaces that faults add: of a node alone, with addresses that only it has.
//!
//! A pair of ends in the same namespace stands for the `dummy` interface of clusters, which not every kernel has. Invariant: an
//! interface is known by its name and place, and goes with the fault that brought it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netlab_node::NodeError;
use netlab_node::netlink::{AddressSpec, Batch, Mac, Netlink, Scope, VethEnd};

use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;

/// The other end of each.
const OTHER_END: &str = "netlab-nobody";

/// What interfaces are in, by place and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    there: BTreeMap<(Place, String), Vec<IpAddr>>,
}

impl Links {
    /// Has these interfaces in the lab and no others. What could not be done is still to be done the next time.
    pub fn set(
        &mut self,
        lab: &Lab,
        wanted: &BTreeMap<(Place, String), Vec<IpAddr>>,
    ) -> Result<(), LabError> {
        let gone: Vec<_> = self
            .there
            .iter()
            .filter(|(key, addresses)| wanted.get(*key) != Some(*addresses))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            let (place, name) = &key;
            let netns = lab.netns(place)?;
            let remove = || -> Result<(), NodeError> {
                let mut netlink = Netlink::open_in(netns)?;
                match netlink.link(name)? {
                    Some(link) => netlink.apply(Batch::new().link_delete(link.index)),
                    None => Ok(()),
                }
            };
            remove().map_err(|source| LabError::Enter { place: place.clone(), source })?;
            self.there.remove(&key);
        }
        for (key, addresses) in wanted {
            if self.there.contains_key(key) {
                continue;
            }
            let (place, name) = key;
            let netns = lab.netns(place)?;
            let add = || -> Result<(), NodeError> {
                let mut netlink = Netlink::open_in(netns)?;
                let end = |name, last| VethEnd { name, mac: Mac([2, 0x6e, 0x6c, 0, 0, last]) };
                netlink.apply(Batch::new().veth(end(name, 1), end(OTHER_END, 2), netns))?;
                let Some(link) = netlink.link(name)? else { return Ok(()) };
                let mut batch = Batch::new();
                for address in addresses {
                    batch.address(
                        link.index,
                        AddressSpec { address: IpNet::from(*address), scope: Scope::Global },
                    );
                }
                batch.link_up(name).link_up(OTHER_END);
                netlink.apply(&batch)
            };
            add().map_err(|source| LabError::Enter { place: place.clone(), source })?;
            self.there.insert(key.clone(), addresses.clone());
        }
        Ok(())
    }
}
