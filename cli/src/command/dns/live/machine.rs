//! A pod of this machine: by a process, by a namespace, or by the pod's UID.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use netlab_core::input::{Document, Loaded};
use netlab_core::model::cluster::ObjectKey;
use netlab_dnsdiag::gather::{PodFiles, objects};
use netlab_node::container::{Container, processes_of_pod};
use netlab_node::{Netlink, Netns};

use super::{Place, not_entered};
use crate::args::dns::Diagnose;
use crate::args::globals::Globals;
use crate::command::dns::query;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::terminal::Terminal;

/// Finds the pod's place as the arguments name it.
pub(super) fn find(
    args: &Diagnose,
    pod: &ObjectKey,
    globals: &Globals,
    terminal: &Terminal,
) -> Result<Place, Failure> {
    let loaded = if globals.filename.is_empty() { None } else { Some(load::input(globals, terminal)?) };
    let mut not_examined = loaded.as_ref().map(|input| input.not_examined.clone()).unwrap_or_default();
    let mut objects_of = BTreeMap::new();
    if let Some(input) = &loaded {
        if !input.loaded.cluster.pods.contains_key(pod) {
            return Err(Failure::unreadable(format!("no Pod `{pod}` in the input"))
                .hint("`-f` has to hold the pod; without `-f` nothing of the cluster is examined"));
        }
        objects_of = files_of(&input.loaded);
    } else {
        not_examined
            .push("cluster: no `-f` was given, so Services, slices and policies are unknown".to_owned());
    }
    let uid = loaded.as_ref().and_then(|input| uid(&input.loaded, pod));
    let process = match (args.pid, &args.netns) {
        (Some(pid), _) => Some(pid),
        (None, Some(_)) => None,
        (None, None) => Some(on_this_node(pod, uid.as_deref())?),
    };
    let node = match (&args.node_netns, process) {
        (Some(place), _) => Some(query::open(place)?),
        (None, Some(_)) => Some(Netns::from_pid(1).map_err(|error| not_entered(&error))?),
        (None, None) => {
            not_examined.push("node: no `--node-netns` was given".to_owned());
            None
        }
    };
    let container = process.map(Container::of_process).transpose().map_err(|error| not_entered(&error))?;
    let netns = match (&container, &args.netns) {
        (Some(container), _) => container.netns(),
        (None, Some(path)) => Netns::from_path(path),
        (None, None) => return Err(Failure::unreadable("no place was named")),
    };
    let netns = query::enterable(netns)?;
    if let Some(input) = &loaded
        && let Some(unknown) = is_of_pod(&netns, pod, input)?
    {
        not_examined.push(unknown);
    }
    let node_root = process.and_then(|_| Container::of_process(1).ok());
    Ok(Place {
        pod: netns,
        node,
        libc: container.as_ref().and_then(Container::libc),
        files: container.map(PodFiles::Container),
        node_root,
        dns_pods: BTreeMap::new(),
        counted: BTreeMap::new(),
        objects: objects_of,
        elsewhere: None,
        not_examined,
    })
}

/// Refuses a namespace that has none of the addresses that the API gives the pod: what is seen there is of another pod. What
/// keeps this from being known, if anything.
fn is_of_pod(netns: &Netns, key: &ObjectKey, input: &load::Input) -> Result<Option<String>, Failure> {
    let Some(pod) = input.loaded.cluster.pods.get(key).filter(|pod| !pod.addresses.is_empty()) else {
        return Ok(Some(format!(
            "subject: {key} has no address in the input, so the namespace may be another pod's"
        )));
    };
    let found: Vec<IpAddr> = match Netlink::open_in(netns).and_then(|mut netlink| netlink.addresses()) {
        Ok(all) => {
            all.into_iter().map(|one| one.address.addr()).filter(|address| !address.is_loopback()).collect()
        }
        Err(error) => return Ok(Some(format!("subject: the namespace's addresses are not known: {error}"))),
    };
    if pod.addresses.iter().any(|address| found.contains(address)) {
        return Ok(None);
    }
    let list = |all: &[IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let has = if found.is_empty() { "no address".to_owned() } else { list(&found) };
    Err(Failure::unreadable(format!("the place that was named is not that of {key}"))
        .caused_by(format!("the Pod has {}, the namespace has {has}", list(&pod.addresses)))
        .hint("name a process or namespace of that pod, or give the manifests as they are now"))
}

fn files_of(loaded: &Loaded) -> BTreeMap<String, String> {
    let documents: Vec<Document> = loaded
        .texts
        .iter()
        .map(|(name, text)| Document { name: Arc::clone(name), text: Arc::clone(text) })
        .collect();
    objects(&documents).into_iter().map(|(id, text)| (id.to_owned(), text)).collect()
}

/// `metadata.uid` of the pod, which is in the names of its control groups.
fn uid(loaded: &Loaded, pod: &ObjectKey) -> Option<String> {
    let object = loaded.wire.pods.iter().find(|one| {
        one.metadata.name.as_deref() == Some(&pod.name)
            && one.metadata.namespace.as_deref().unwrap_or("default") == pod.namespace
    })?;
    object.metadata.unknown.get("uid")?.as_str().map(str::to_owned)
}

/// A process of the pod on this machine.
fn on_this_node(pod: &ObjectKey, uid: Option<&str>) -> Result<u32, Failure> {
    let Some(uid) = uid else {
        return Err(Failure::unreadable(format!("nothing says where {pod} is"))
            .hint("give its process with `--pid`, its namespace with `--netns`, or with `-f` a Pod that has a metadata.uid"));
    };
    processes_of_pod(uid).first().copied().ok_or_else(|| {
        Failure::new(Exit::CannotTell, format!("no process of {pod} (uid {uid}) is on this machine"))
            .hint("run it on the pod's node, as root, where all processes are seen")
    })
}
