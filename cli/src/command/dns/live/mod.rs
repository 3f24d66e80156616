//! Evidence from this machine: which process, namespaces and files stand for the pod that is asked about.
//!
//! Invariant: what stands for the pod is named by the user or found by the pod's UID, never guessed. The network and the files of
//! this process stand for nothing.

mod emulated;
mod lab;
mod machine;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netlab_core::endpoint_ref::EndpointRef;
use netlab_core::model::cluster::ObjectKey;
use netlab_dnsdiag::bundle::{self, Bundle, layout};
use netlab_dnsdiag::gather::{Budget, Files, Found, LocalFiles, LocalProber, PodFiles, Prober, gather};
use netlab_node::Netns;
use netlab_node::container::Container;
use netlab_plugin::check::Target;
use nix::sys::signal::{SigSet, Signal};

use super::diagnose::Judged;
use super::not_entered;
use crate::args::dns::Diagnose;
use crate::args::globals::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::terminal::Terminal;

/// Numbers by owner and name.
type Numbers = BTreeMap<String, BTreeMap<String, f64>>;

/// What is not read in the pod's place: by a lab's supervisor, in a lab's other namespaces.
trait Elsewhere {
    /// The DNS pods' log.
    fn log(&self) -> Found;

    /// Numbers that take the place of the node's own.
    fn counters(&self) -> Numbers;
}

/// Files of a place, and what is known from elsewhere.
struct Both {
    files: LocalFiles,
    elsewhere: Option<Box<dyn Elsewhere>>,
}

impl Files for Both {
    fn read(&self, id: &str) -> Found {
        match &self.elsewhere {
            Some(elsewhere) if id == layout::DNS_LOG => elsewhere.log(),
            _ => self.files.read(id),
        }
    }

    fn counters(&self) -> Numbers {
        let mut counters = self.files.counters();
        for (owner, more) in self.elsewhere.iter().flat_map(|elsewhere| elsewhere.counters()) {
            counters.entry(owner).or_default().extend(more);
        }
        counters
    }
}

/// Where the pod is.
struct Place {
    pod: Netns,
    node: Option<Netns>,
    files: Option<PodFiles>,
    node_root: Option<Container>,
    libc: Option<String>,
    dns_pods: BTreeMap<IpAddr, Netns>,
    /// The same by name, `pod/NAMESPACE/NAME`.
    counted: BTreeMap<String, Netns>,
    /// Cluster objects, by the file of a bundle; none when nothing is known of the cluster.
    objects: BTreeMap<String, String>,
    elsewhere: Option<Box<dyn Elsewhere>>,
    /// What is not known, in words.
    not_examined: Vec<String>,
}

/// Gathers, and records it if that is wanted.
pub(super) fn gathered(args: &Diagnose, globals: &Globals, terminal: &Terminal) -> Result<Judged, Failure> {
    let (pod, names) = subject(args, globals)?;
    if let Some(directory) = &args.record {
        is_free(directory)?;
        std::fs::create_dir_all(directory).map_err(|error| unwritten(&error, directory))?;
    }
    let place = match &args.lab {
        Some(name) => lab::find(name, &pod)?,
        None => machine::find(args, &pod, globals, terminal)?,
    };
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
        counted: place.counted,
        ipv6: false,
        both: false,
    };
    files.look(&target);
    let files = Both { files, elsewhere: place.elsewhere };
    let prober: Arc<dyn Prober> =
        Arc::new(LocalProber { pod: Some(place.pod), node: place.node, dns_pods: place.dns_pods });
    let stop = stop_on_interrupt();
    let mut budget = Budget { connect: args.connect, ..Budget::default() };
    if let Some(limit) = globals.timeout {
        budget.patience = budget.patience.min(limit);
        budget.last_patience = budget.last_patience.min(limit);
    }
    terminal.progress("asking from the pod's network namespace");
    let random = RandomState::new().hash_one(std::process::id());
    let mut gathered = gather(target, &files, &prober, &budget, random, &stop);
    if let Some(PodFiles::Container(container)) = &files.files.pod_files
        && container.has_ended()
    {
        // Its network may have gone with it: what failed then is no fault of the network.
        let ended =
            format!("process {} of {} ended while it was looked at", container.pid(), gathered.bundle.target);
        return Err(
            Failure::new(Exit::CannotTell, ended).hint("name a process of the pod that stays, its main one")
        );
    }
    let mut not_examined = place.not_examined;
    not_examined.append(&mut gathered.not_examined);
    if gathered.interrupted {
        not_examined.push("probes: interrupted before all had come back".to_owned());
    }
    gathered.bundle.not_examined.clone_from(&not_examined);
    if let Some(directory) = &args.record {
        record(directory, &gathered.bundle)?;
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

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::unreadable(format!("cannot read `{}`", path.display())).because(&error))
}

/// Refuses to write over anything; asked before the first question, because the answers would be lost.
fn is_free(directory: &Path) -> Result<(), Failure> {
    let refused = |why: &str| {
        Err(Failure::unreadable(format!("`{}` {why}", directory.display()))
            .hint("`--record` writes into a directory that is empty or not there"))
    };
    match std::fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
        Ok(false) => refused("is not empty"),
        Err(_) if directory.symlink_metadata().is_ok() => refused("is no directory that can be read"),
        _ => Ok(()),
    }
}

fn unwritten(error: &std::io::Error, path: &Path) -> Failure {
    Failure::new(Exit::CannotTell, format!("cannot write `{}`", path.display())).because(error)
}

/// Writes a bundle.
fn record(directory: &Path, bundle: &Bundle) -> Result<(), Failure> {
    for (name, text) in bundle::files(bundle) {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(parent).map_err(|error| unwritten(&error, parent))?;
        std::fs::write(&path, text).map_err(|error| unwritten(&error, &path))?;
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
