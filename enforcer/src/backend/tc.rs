//! The eBPF datapath as a backend: one instance of the object on one node.
//!
//! Invariant: an interface is attached before its `DEVICES` element is written, so there is no moment in which a
//! claimed pod is open; until then its packets are dropped as not ready.

use netlab_core::policy::image::Image;
use netlab_node::Netns;
use netlab_plugin::contract::{
    Applied, Backend, BackendError, Blame, Capabilities, Change, Leftover, Observation,
};

use crate::attach::Attached;
use crate::instance::{Datapath, LoadOptions};

/// Enforcement by the tc programs in one network namespace.
#[derive(Debug)]
pub struct TcBackend {
    netns: Netns,
    datapath: Datapath,
    attached: Vec<Attached>,
    applied: Option<Image>,
}

impl TcBackend {
    /// Loads the object; nothing is attached yet. `netns` is the node's.
    pub fn load(netns: Netns, options: &LoadOptions) -> Result<Self, BackendError> {
        let datapath = Datapath::load(options).map_err(|error| kernel(&error))?;
        Ok(Self { netns, datapath, attached: Vec::new(), applied: None })
    }

    /// The instance.
    pub const fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// The instance, to read its events.
    pub const fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.datapath
    }
}

fn kernel(error: &dyn std::fmt::Display) -> BackendError {
    BackendError { message: error.to_string(), hint: None, blame: Blame::Kernel, retry: false }
}

impl Backend for TcBackend {
    fn probe(&self) -> Capabilities {
        Capabilities { name: "tc".to_owned(), enforces: true, missing: Vec::new(), max_rows: None }
    }

    fn apply(&mut self, change: &Change) -> Result<Applied, BackendError> {
        let image = Image::from_change(change)
            .map_err(|error| BackendError { blame: Blame::Input, ..kernel(&error) })?;
        let maps = self.datapath.policy();
        maps.policy.set_all(image.policy.clone()).map_err(|error| kernel(&error))?;
        maps.port_classes.set_all(image.port_classes.clone()).map_err(|error| kernel(&error))?;
        maps.port_pages.set_all(image.port_pages.clone()).map_err(|error| kernel(&error))?;
        maps.rulesets.set_all(image.ruleset_ports.clone()).map_err(|error| kernel(&error))?;
        maps.cidrs.set_all(image.cidrs.clone()).map_err(|error| kernel(&error))?;
        maps.peers.set_all(image.peers.clone()).map_err(|error| kernel(&error))?;
        let datapath = &self.datapath;
        let attach =
            || change.pods.iter().map(|pod| datapath.attach(&pod.interface)).collect::<Result<Vec<_>, _>>();
        let attached =
            self.netns.run(attach).map_err(|error| kernel(&error))?.map_err(|error| kernel(&error))?;
        for (attached, pod) in attached.iter().zip(&change.pods) {
            maps.devices.set(attached.ifindex(), &image.device(pod, -1)).map_err(|error| kernel(&error))?;
        }
        self.attached = attached;
        let rows = u64::try_from(image.policy.len()).unwrap_or(u64::MAX);
        let pods = u64::try_from(change.pods.len()).unwrap_or(u64::MAX);
        self.applied = Some(image);
        Ok(Applied { generation: change.generation, rows, pods })
    }

    fn observe(&mut self) -> Result<Observation, BackendError> {
        let Some(image) = &self.applied else { return Ok(Observation::default()) };
        let entries = image.policy.values().map(|value| value.entry);
        let counters = self.datapath.state().counters.read(entries).map_err(|error| kernel(&error))?;
        Ok(Observation { generation: image.generation, counters, drift: Vec::new() })
    }

    fn teardown(&mut self) -> Vec<Leftover> {
        self.attached.clear();
        self.applied = None;
        Vec::new()
    }
}
