//! Evidence from this machine: which process, namespaces and files stand for the pod that is asked about.
//!
//! Invariant: what stands for the pod is named by the user or found by the pod's UID, never guessed. The network and the files of
//! this process stand for nothing.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netlab_core::endpoint_ref::EndpointRef;
use netlab_core::input::{Document, Loaded};
use netlab_core::model::cluster::ObjectKey;
use netlab_dnsdiag::bundle::{self, Bundle, layout};
use netlab_dnsdiag::gather::{Budget, LocalFiles, LocalProber, PodFiles, Prober, gather, objects};
use netlab_node::container::{Container, processes_of_pod};
use netlab_node::{Netns, NodeError};
use netlab_plugin::check::Target;
use nix::sys::signal::{SigSet, Signal};

use super::diagnose::Judged;
use crate::args::dns::Diagnose;
use crate::args::globals::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::terminal::Terminal;

/// Where the pod is.
struct Place {
    pod: Netns,
    node: Option<Netns>,
    files: Option<PodFiles>,
    node_root: Option<Container>,
    libc: Option<String>,
    dns_pods: BTreeMap<IpAddr, Netns>,
    /// Cluster objects, by the file of a bundle; none when nothing is known of the cluster.
    objects: BTreeMap<String, String>,
    /// What is not known, in words.
    not_examined: Vec<String>,
}

/// Gathers, and records it if that is wanted.
pub(super) fn gathered(args: &Diagnose, globals: &Globals, terminal: &Terminal) -> Result<Judged, Failure> {
    let (pod, names) = subject(args, globals)?;
    let place = find(args, &pod, globals, terminal)?;
    let mut given = place.objects;
    for (path, id) in [
        (&args.resolv_conf, layout::POD_RESOLV_CONF),
        (&args.kubelet_config, layout::KUBELET),
        (&args.corefile, layout::COREFILE),
    ] {
        if let Some(path) = path {
            given.insert(id.to_owned(), read(path)?);
        }
    }
    let clone = |netns: &Netns| netns.try_clone().map_err(|error| not_entered(&error));
    let node = place.node.as_ref();
    let target = Target {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: None,
        libc: args.libc.clone().or(place.libc),
        names,
    };
    let mut files = LocalFiles {
        given,
        pod_files: place.files,
        pod: Some(clone(&place.pod)?),
        node: node.map(clone).transpose()?,
        node_name: String::new(),
        node_root: place.node_root,
        ipv6: false,
    };
    files.look(&target);
    let prober: Arc<dyn Prober> =
        Arc::new(LocalProber { pod: Some(place.pod), node: place.node, dns_pods: place.dns_pods });
    let stop = stop_on_interrupt();
    let mut budget = Budget::default();
    if let Some(limit) = globals.timeout {
        budget.patience = budget.patience.min(limit);
        budget.last_patience = budget.last_patience.min(limit);
    }
    terminal.progress("asking from the pod's network namespace");
    let random = RandomState::new().hash_one(std::process::id());
    let gathered = gather(target, &files, &prober, &budget, random, &stop);
    if let Some(directory) = &args.record {
        record(directory, &gathered.bundle)?;
    }
    let mut not_examined = place.not_examined;
    not_examined.extend(gathered.not_examined);
    if gathered.interrupted {
        not_examined.push("probes: interrupted before all had come back".to_owned());
    }
    Ok(Judged { bundle: gathered.bundle, not_examined, interrupted: gathered.interrupted })
}

/// The pod and the names that were typed.
fn subject(args: &Diagnose, globals: &Globals) -> Result<(ObjectKey, Vec<String>), Failure> {
    let Some((pod, names)) = args.words.split_first() else {
        return Err(Failure::unreadable("no pod was named")
            .hint("`netlab dns diagnose pod/NAME -n NAMESPACE`, or `--bundle DIR` for recorded evidence"));
    };
    let reference: EndpointRef =
        pod.parse().map_err(|error| Failure::unreadable(format!("`{pod}` is no pod")).because(&error))?;
    match reference {
        EndpointRef::Named { kind, namespace, name } if kind.is_none_or(|kind| kind.kind() == "Pod") => {
            let default = globals.namespace.as_deref().unwrap_or("default");
            let namespace = namespace.unwrap_or_else(|| default.to_owned());
            Ok((ObjectKey { namespace, name }, names.to_vec()))
        }
        EndpointRef::Named { .. } | EndpointRef::Address(_) => {
            Err(Failure::unreadable(format!("`{pod}` is no pod: DNS is diagnosed for one pod"))
                .hint("write it as pod/NAME with `-n NAMESPACE`, or as NAMESPACE/NAME"))
        }
    }
}

fn find(args: &Diagnose, pod: &ObjectKey, globals: &Globals, terminal: &Terminal) -> Result<Place, Failure> {
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
        (Some(place), _) => Some(super::query::open(place)?),
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
    let netns = netns.map_err(|error| not_entered(&error))?;
    let node_root = process.and_then(|_| Container::of_process(1).ok());
    Ok(Place {
        pod: netns,
        node,
        libc: container.as_ref().and_then(Container::libc),
        files: container.map(PodFiles::Container),
        node_root,
        dns_pods: BTreeMap::new(),
        objects: objects_of,
        not_examined,
    })
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

fn not_entered(error: &NodeError) -> Failure {
    let what = "the pod's place cannot be entered";
    let failure = if error.is_permission() { Failure::not_allowed(what) } else { Failure::unreadable(what) };
    failure.because(error)
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::unreadable(format!("cannot read `{}`", path.display())).because(&error))
}

/// Writes a bundle where there is none yet.
fn record(directory: &Path, bundle: &Bundle) -> Result<(), Failure> {
    let failed = |error: &std::io::Error, path: &Path| {
        Failure::new(Exit::CannotTell, format!("cannot write `{}`", path.display())).because(error)
    };
    let is_empty = std::fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty {
        return Err(Failure::unreadable(format!("`{}` is not empty", directory.display()))
            .hint("`--record` writes into a directory that is empty or not there"));
    }
    for (name, text) in bundle::files(bundle) {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(parent).map_err(|error| failed(&error, parent))?;
        std::fs::write(&path, text).map_err(|error| failed(&error, &path))?;
    }
    Ok(())
}

/// Becomes true at the first Ctrl-C; a second one ends the process as ever.
fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut interrupt = SigSet::empty();
    interrupt.add(Signal::SIGINT);
    // Blocked here, and so in every thread that is started from now on: only the one below takes it.
    if interrupt.thread_block().is_ok() {
        let seen = Arc::clone(&stop);
        let wait = move || {
            if interrupt.wait().is_ok() {
                seen.store(true, Ordering::Relaxed);
                let _ = interrupt.thread_unblock();
            }
        };
        // Without the thread Ctrl-C would do nothing: then it had better end the process.
        if std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait).is_err() {
            let _ = interrupt.thread_unblock();
        }
    }
    stop
}
