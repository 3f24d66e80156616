//! From manifests and faults to everything that follows from them.
//!
//! Invariant: [`Derived::of`] changes nothing and is a function of its arguments; a lab that is made as it says is the same
//! whatever it was before.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlab_core::input::Loaded;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_lab::dns::{Books, Role, Server};
use netlab_lab::fault::{Broken, Change, ProxyEdit, StuckFlow, believed};
use netlab_lab::{Place, Plan};
use serde_json::Value;

use super::Manifests;
use super::names::{File, Naming, files};

/// What a lab should be like.
pub(super) struct Derived {
    /// The manifests with what faults change.
    pub(super) manifests: Manifests,
    /// The same, read.
    pub(super) loaded: Loaded,
    /// What proxies believe besides.
    pub(super) edits: Vec<ProxyEdit>,
    /// How names are made.
    pub(super) naming: Option<Naming>,
    /// What DNS servers say.
    pub(super) books: Books,
    /// What is in each file.
    pub(super) files: BTreeMap<(Place, File), String>,
    /// Chains of nftables by place and fault.
    pub(super) tables: BTreeMap<(Place, String), String>,
    /// Interfaces by place and name.
    pub(super) links: BTreeMap<(Place, String), Vec<IpAddr>>,
    /// Flows that lead astray.
    pub(super) stuck: Vec<StuckFlow>,
}

impl Derived {
    pub(super) fn of(
        manifests: &Manifests,
        naming: Option<&Naming>,
        faults: &[Broken],
        plan: &Plan,
    ) -> Result<Self, String> {
        let mut manifests = manifests.clone();
        for fault in faults {
            apply(&mut manifests, fault)?;
        }
        let loaded = manifests.load()?;
        let mut derived = Self {
            manifests,
            loaded,
            edits: Vec::new(),
            naming: None,
            books: Books::default(),
            files: BTreeMap::new(),
            tables: BTreeMap::new(),
            links: BTreeMap::new(),
            stuck: Vec::new(),
        };
        let changes =
            || faults.iter().flat_map(|fault| fault.changes.iter().map(move |change| (fault, change)));
        for (fault, change) in changes() {
            match change {
                Change::Proxy(edit) => derived.edits.push(edit.clone()),
                Change::Rules { at, chains } => {
                    *derived.tables.entry((at.clone(), fault.name.clone())).or_default() += chains;
                }
                Change::Link { at, name, addresses } => {
                    derived.links.insert((at.clone(), name.clone()), addresses.clone());
                }
                Change::Stuck(flow) => derived.stuck.push(flow.clone()),
                _ => {}
            }
        }
        if let Some(naming) = naming {
            let mut naming = naming.clone();
            changes().for_each(|(_, change)| rename(&mut naming, change));
            derived.books = naming.books(&derived.loaded.cluster);
            for (_, change) in changes() {
                if let Change::Answer { role, rule } = change {
                    let book = match role {
                        Role::Cluster => &mut derived.books.cluster,
                        Role::Outside => &mut derived.books.outside,
                    };
                    book.rules.insert(0, rule.clone());
                }
            }
            derived.files = files(&naming, &derived.loaded.cluster, plan)?;
            for (_, change) in changes() {
                if let Change::File { at, file, text } = change {
                    derived.files.insert((at.clone(), *file), text.clone());
                }
            }
            derived.naming = Some(naming);
        }
        Ok(derived)
    }

    /// The cluster as proxies believe it to be.
    pub(super) fn proxied(&self) -> Cluster {
        believed(&self.loaded.cluster, &self.edits)
    }

    /// The servers that are to run.
    pub(super) fn servers(&self) -> &[Server] {
        self.naming.as_ref().map(|naming| naming.servers.as_slice()).unwrap_or_default()
    }
}

/// What a fault does to how names are made.
fn rename(naming: &mut Naming, change: &Change) {
    match change {
        Change::Kubelet(kubelet) => {
            if let Some(addresses) = &kubelet.cluster_dns {
                naming.cluster_dns.clone_from(addresses);
            }
            if let Some(domain) = &kubelet.cluster_domain {
                naming.cluster_domain.clone_from(domain);
            }
            if let Some(file) = &kubelet.host_file {
                naming.host_file.clone_from(file);
            }
            if kubelet.changed.is_some() {
                naming.changed.clone_from(&kubelet.changed);
            }
        }
        Change::Corefile(more) => {
            naming.corefile.plugins += &more.plugins;
            naming.corefile.forward += &more.forward;
            naming.corefile.blocks += &more.blocks;
        }
        Change::Serve(server) if !naming.servers.contains(server) => naming.servers.push(server.clone()),
        Change::Wrote(lines) => naming.wrote.extend(lines.iter().cloned()),
        Change::Above(addresses) => naming.above.clone_from(addresses),
        Change::Listen { at, port, udp, tcp } => {
            for server in naming.servers.iter_mut().filter(|server| server.place == *at) {
                server.port = port.unwrap_or(server.port);
                (server.udp, server.tcp) = (*udp, *tcp);
            }
        }
        _ => {}
    }
}

/// What a fault does to objects, with the slices that follow.
fn apply(manifests: &mut Manifests, fault: &Broken) -> Result<(), String> {
    let source = format!("fault {}:", fault.name);
    let mut services = BTreeSet::new();
    let mut pods = false;
    for change in &fault.changes {
        match change {
            Change::Put(object) => manifests.put(&source, object),
            Change::Remove { kind, namespace, name } => manifests.remove(kind, namespace, name),
            Change::Patch { kind, namespace, name, patch } => {
                let mut object = manifests.find(kind, namespace, name).ok_or_else(|| {
                    format!("the lab's manifests have no {kind} {namespace}/{name} to change")
                })?;
                merge(&mut object, patch);
                manifests.put(&source, &object);
                match kind.as_str() {
                    "Service" => {
                        services.insert(ObjectKey::new(namespace.clone(), name.clone()));
                    }
                    "Pod" => pods = true,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    if pods {
        // Whether a pod is ready is known to every Service that selects it.
        let cluster = manifests.load()?.cluster;
        services.extend(cluster.services.keys().cloned());
    }
    services.iter().try_for_each(|key| manifests.write_slices(&source, key))
}

/// RFC 7396.
fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (field, value) in patch {
                if value.is_null() {
                    object.remove(field);
                } else {
                    merge(object.entry(field.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (object, Value::Object(patch)) => {
            *object = Value::Object(serde_json::Map::new());
            merge(object, &Value::Object(patch.clone()));
        }
        (object, value) => *object = value.clone(),
    }
}
