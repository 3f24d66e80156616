//! From a plan to namespaces, links, addresses and routes in the kernel.
//!
//! Invariant: everything hangs on the descriptors in [`Lab`]; dropping it, or the death of the process, lets the
//! kernel take the whole lab down in the background. A build that fails midway leaves nothing either.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netlab_core::model::cluster::ObjectKey;
use netlab_node::netlink::{AddressSpec, Batch, Link, RouteSpec, VethEnd};
use netlab_node::{Netlink, Netns, NodeError, sysctl};

use crate::error::LabError;
use crate::place::Place;
use crate::plan::{EndPlan, NamespacePlan, Plan};

/// Making a namespace is mostly waiting for the kernel; more threads than this gain nothing.
const THREADS: usize = 4;
/// Carrier comes up in the kernel's own work queue.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);

/// The node's end of a pod's link: where a datapath attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInterface {
    /// The node.
    pub node: String,
    /// The link's name in the node's namespace.
    pub name: String,
    /// Its index there.
    pub index: u32,
    /// The id by which the node's namespace knows the pod's.
    pub netns_id: i32,
}

/// The first link of every namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;

/// A lab that stands.
#[derive(Debug)]
pub struct Lab {
    plan: Plan,
    namespaces: BTreeMap<Place, Netns>,
    interfaces: BTreeMap<ObjectKey, HostInterface>,
    uplinks: BTreeMap<String, u32>,
}

/// How far a build has got; one call of the observer each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A namespace is there.
    Namespace(Place, u64),
    /// The links of a namespace are there.
    Links(Place),
    /// The links of a namespace are up.
    Up(Place),
    /// Addresses and routes of a namespace are there.
    Configured(Place),
}

impl Lab {
    /// Builds what the plan says. Needs `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`, of the machine or of a user
    /// namespace ([`netlab_node::userns::enter`]).
    pub fn build(plan: &Plan) -> Result<Self, LabError> {
        Self::build_observed(plan, &mut |_| {})
    }

    /// [`Self::build`], telling `observer` of each step.
    pub fn build_observed(plan: &Plan, observer: &mut dyn FnMut(Step)) -> Result<Self, LabError> {
        let mut sites = make_namespaces(plan)?;
        for site in &sites {
            observer(Step::Namespace(site.plan.place.clone(), site.netns.identity().inode));
        }
        add_links(plan, &mut sites, observer)?;
        for site in &mut sites {
            site.wait_for_links()?;
            observer(Step::Up(site.plan.place.clone()));
        }
        for site in &mut sites {
            site.configure()?;
            observer(Step::Configured(site.plan.place.clone()));
        }
        Self::assemble(plan, sites)
    }

    fn assemble(plan: &Plan, sites: Vec<Site<'_>>) -> Result<Self, LabError> {
        let mut interfaces = BTreeMap::new();
        let mut uplinks = BTreeMap::new();
        let mut namespaces = BTreeMap::new();
        let mut ends = BTreeMap::new();
        for site in sites {
            let place = site.plan.place.clone();
            namespaces.insert(place.clone(), site.netns);
            ends.insert(place, (site.netlink, site.links));
        }
        for veth in &plan.veths {
            let missing = |place: &Place| LabError::NoSuchPlace { place: place.clone() };
            match (&veth.here.place, &veth.there.place) {
                (near @ Place::Node(node), far @ Place::Pod(pod)) => {
                    let netns = namespaces.get(far).ok_or_else(|| missing(far))?;
                    let (netlink, links) = ends.get_mut(near).ok_or_else(|| missing(near))?;
                    let netns_id = netlink.netns_id(netns).map_err(|source| failed(near, source))?;
                    let (name, index) = (veth.here.name.clone(), index(near, links, &veth.here.name)?);
                    interfaces
                        .insert(pod.clone(), HostInterface { node: node.clone(), name, index, netns_id });
                }
                (_, place @ Place::Node(node)) => {
                    let (_, links) = ends.get(place).ok_or_else(|| missing(place))?;
                    uplinks.insert(node.clone(), index(place, links, &veth.there.name)?);
                }
                _ => {}
            }
        }
        Ok(Self { plan: plan.clone(), namespaces, interfaces, uplinks })
    }

    /// What was built.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The namespace of a place; a hostNetwork pod's is its node's.
    pub fn netns(&self, place: &Place) -> Result<&Netns, LabError> {
        self.namespaces
            .get(self.plan.home(place))
            .ok_or_else(|| LabError::NoSuchPlace { place: place.clone() })
    }

    /// A node's namespace.
    pub fn node(&self, name: &str) -> Result<&Netns, LabError> {
        self.netns(&Place::Node(name.to_owned()))
    }

    /// A pod's namespace.
    pub fn pod(&self, key: &ObjectKey) -> Result<&Netns, LabError> {
        self.netns(&Place::Pod(key.clone()))
    }

    /// The namespace between and beyond the nodes.
    pub fn fabric(&self) -> Result<&Netns, LabError> {
        self.netns(&Place::Fabric)
    }

    /// Every namespace, by place.
    pub const fn namespaces(&self) -> &BTreeMap<Place, Netns> {
        &self.namespaces
    }

    /// The node's end of a pod's link. A hostNetwork pod has none.
    pub fn host_interface(&self, pod: &ObjectKey) -> Result<&HostInterface, LabError> {
        self.interfaces.get(pod).ok_or_else(|| LabError::NoSuchPlace { place: Place::Pod(pod.clone()) })
    }

    /// The node's ends of all pods' links.
    pub const fn host_interfaces(&self) -> &BTreeMap<ObjectKey, HostInterface> {
        &self.interfaces
    }

    /// The index of a node's link to the fabric.
    pub fn uplink(&self, node: &str) -> Result<u32, LabError> {
        self.uplinks
            .get(node)
            .copied()
            .ok_or_else(|| LabError::NoSuchPlace { place: Place::Node(node.to_owned()) })
    }
}

fn failed(place: &Place, source: NodeError) -> LabError {
    LabError::Build { place: place.clone(), source }
}

/// A namespace under construction.
struct Site<'plan> {
    plan: &'plan NamespacePlan,
    netns: Netns,
    netlink: Netlink,
    expected_links: Vec<&'plan EndPlan>,
    links: BTreeMap<String, Link>,
}

/// Makes every namespace, its sysctls set and a netlink socket open, on a few threads at a time.
fn make_namespaces(plan: &Plan) -> Result<Vec<Site<'_>>, LabError> {
    let next = AtomicUsize::new(0);
    let made: Mutex<Vec<(usize, Result<Site<'_>, LabError>)>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS.min(plan.namespaces.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(namespace) = plan.namespaces.get(index) else { break };
                    let site = make_namespace(namespace).map_err(|source| failed(&namespace.place, source));
                    made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, site));
                }
            });
        }
    });
    let mut made = made.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    made.sort_by_key(|(index, _)| *index);
    let mut sites = made.into_iter().map(|(_, site)| site).collect::<Result<Vec<_>, _>>()?;
    for site in &mut sites {
        site.expected_links = plan
            .veths
            .iter()
            .flat_map(|veth| [&veth.here, &veth.there])
            .filter(|end| end.place == site.plan.place)
            .collect();
    }
    Ok(sites)
}

fn make_namespace(plan: &NamespacePlan) -> Result<Site<'_>, NodeError> {
    let (netns, netlink) = Netns::create_with(|| {
        let has_ipv6 = sysctl::has_ipv6();
        for value in &plan.sysctls {
            // A plan without IPv6 addresses switches IPv6 off; a kernel without it is off already.
            if has_ipv6 || !is_ipv6_off_switch(&value.name) {
                sysctl::write(value)?;
            }
        }
        let mut netlink = Netlink::open()?;
        let mut batch = Batch::new();
        batch.link_up("lo");
        netlink.apply(&batch)?;
        Ok(netlink)
    })?;
    Ok(Site { plan, netns, netlink: netlink?, expected_links: Vec::new(), links: BTreeMap::new() })
}

fn is_ipv6_off_switch(name: &str) -> bool {
    name.starts_with("ipv6/") && name.ends_with("/disable_ipv6")
}

/// Makes all veth pairs, each from the namespace of its `here` end, and brings both ends up.
fn add_links(plan: &Plan, sites: &mut [Site<'_>], observer: &mut dyn FnMut(Step)) -> Result<(), LabError> {
    let peers: BTreeMap<&Place, &Netns> = sites.iter().map(|site| (&site.plan.place, &site.netns)).collect();
    let mut batches = Vec::with_capacity(sites.len());
    for site in &*sites {
        let mut batch = Batch::new();
        for veth in plan.veths.iter().filter(|veth| veth.here.place == site.plan.place) {
            let peer = *peers
                .get(&veth.there.place)
                .ok_or_else(|| LabError::NoSuchPlace { place: veth.there.place.clone() })?;
            batch.veth(
                VethEnd { name: &veth.here.name, mac: veth.here.mac },
                VethEnd { name: &veth.there.name, mac: veth.there.mac },
                peer,
            );
        }
        batches.push(batch);
    }
    for (site, batch) in sites.iter_mut().zip(&batches) {
        site.apply(batch)?;
        observer(Step::Links(site.plan.place.clone()));
    }
    for site in sites {
        let mut batch = Batch::new();
        for end in &site.expected_links {
            batch.link_up(&end.name);
        }
        site.apply(&batch)?;
    }
    Ok(())
}

impl Site<'_> {
    fn apply(&mut self, batch: &Batch) -> Result<(), LabError> {
        self.netlink.apply(batch).map_err(|source| failed(&self.plan.place, source))
    }

    /// Waits until every link may send: before that its queue drops packets. Asking for one link by name makes
    /// the kernel (6.8 and later, `rtnl_getlink`) finish the work at once that else waits for up to a second in
    /// its link-watch queue; a dump of all links does not.
    fn wait_for_links(&mut self) -> Result<(), LabError> {
        let deadline = Instant::now() + LINK_TIMEOUT;
        for end in &self.expected_links {
            loop {
                let link = self.netlink.link(&end.name).map_err(|source| failed(&self.plan.place, source))?;
                if let Some(link) = link.filter(|link| link.running) {
                    self.links.insert(link.name.clone(), link);
                    break;
                }
                if Instant::now() > deadline {
                    return Err(LabError::LinkDown {
                        place: self.plan.place.clone(),
                        milliseconds: u64::try_from(LINK_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
                    });
                }
                thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }

    fn configure(&mut self) -> Result<(), LabError> {
        let mut batch = Batch::new();
        for address in &self.plan.addresses {
            let index = self.index(&address.interface)?;
            batch.address(index, AddressSpec { address: address.address, scope: address.scope });
        }
        for neighbour in &self.plan.neighbours {
            batch.neighbour(self.index(&neighbour.interface)?, neighbour.address, neighbour.mac);
        }
        for route in &self.plan.routes {
            batch.route(&RouteSpec {
                destination: route.destination,
                via: route.via,
                interface: self.index(&route.interface)?,
                onlink: route.via.is_some(),
                source: route.source,
            });
        }
        self.apply(&batch)
    }

    fn index(&self, name: &str) -> Result<u32, LabError> {
        index(&self.plan.place, &self.links, name)
    }
}

fn index(place: &Place, links: &BTreeMap<String, Link>, name: &str) -> Result<u32, LabError> {
    if name == "lo" {
        return Ok(LOOPBACK);
    }
    let reason = || format!("{name} is missing though the kernel acknowledged it");
    links.get(name).map(|link| link.index).ok_or_else(|| {
        failed(place, NodeError::Malformed { action: "ip link show".to_owned(), reason: reason() })
    })
}
