//! A pod of a lab: its namespaces, files and manifests are the supervisor's.

use std::collections::BTreeMap;

use netlab_core::input::Document;
use netlab_core::model::cluster::ObjectKey;
use netlab_dnsdiag::bundle::layout;
use netlab_dnsdiag::gather::{PodFiles, objects};
use netlab_lab::Place as LabPlace;
use netlab_lab::named::{Client, File, State};
use netlab_node::Netns;
use netlab_node::container::Container;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Place;
use crate::command::lab::{connect, failure, run_dir};
use crate::ends::nearest;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lab::names::Naming;
use crate::lab::{Manifests, operation};

/// Finds the pod's place.
pub(super) fn find(name: &str, pod: &ObjectKey) -> Result<Place, Failure> {
    let mut client = connect(name)?;
    if client.state().rootless {
        return Err(Failure::new(
            Exit::CannotTell,
            format!("lab `{name}` is in a user namespace of its own"),
        )
        .hint("bring it up as root to ask from its pods"));
    }
    let naming: Option<Naming> = ask(&mut client, operation::NAMES)?;
    let Some(naming) = naming else {
        return Err(Failure::unreadable(format!("lab `{name}` has no DNS"))
            .hint(format!("`netlab lab down --lab {name}`, then `netlab lab up --lab {name} --dns`")));
    };
    let manifests: Manifests = ask(&mut client, operation::MANIFESTS)?;
    let place = LabPlace::Pod(pod.clone());
    if !client.state().namespaces.contains_key(&place) {
        return Err(no_such_pod(name, pod, client.state()));
    }
    let node = client.state().nodes.get(&place).cloned();
    let directory = {
        let entry = client.entry(&place).map_err(|error| failure(&error, &run_dir()))?;
        entry.files().path(File::ResolvConf).parent().map(std::path::Path::to_owned)
    };
    let netns = |client: &mut Client, place: &LabPlace| -> Result<Netns, Failure> {
        let entry = client.entry(place).map_err(|error| failure(&error, &run_dir()))?;
        entry.netns().try_clone().map_err(|error| super::not_entered(&error))
    };
    let (mut dns_pods, mut counted) = (BTreeMap::new(), BTreeMap::new());
    for (server, _) in client.dns().map_err(|error| failure(&error, &run_dir()))? {
        for address in &server.addresses {
            if matches!(server.place, LabPlace::Pod(_)) {
                dns_pods.insert(*address, netns(&mut client, &server.place)?);
            }
        }
        if let LabPlace::Pod(key) = &server.place {
            counted.insert(format!("pod/{key}"), netns(&mut client, &server.place)?);
        }
    }
    let mut texts = texts(&manifests)?;
    texts.insert(layout::KUBELET.to_owned(), naming.kubelet_config());
    texts.insert(layout::NODE_RESOLV_CONF.to_owned(), naming.host_file.clone());
    texts.insert(layout::COREFILE.to_owned(), naming.corefile());
    let pod_netns = netns(&mut client, &place)?;
    let node_netns =
        node.as_ref().map(|node| netns(&mut client, &LabPlace::Node(node.clone()))).transpose()?;
    let same = |netns: &Netns| netns.try_clone().map_err(|error| super::not_entered(&error));
    let elsewhere = super::emulated::Supervisor::new(
        node.unwrap_or_default(),
        node_netns.as_ref().map(same).transpose()?,
        netns(&mut client, &LabPlace::Fabric)?,
        client,
    );
    Ok(Place {
        pod: pod_netns,
        node: node_netns,
        files: directory.map(PodFiles::Directory),
        node_root: None,
        // What `lab exec` runs there are this machine's programs.
        libc: Container::of_process(std::process::id()).ok().and_then(|own| own.libc()),
        dns_pods,
        counted,
        objects: texts,
        elsewhere: Some(Box::new(elsewhere)),
        not_examined: Vec::new(),
    })
}

/// A pod that the lab has not, with those that it has.
fn no_such_pod(name: &str, pod: &ObjectKey, state: &State) -> Failure {
    let all: Vec<String> = state
        .namespaces
        .keys()
        .filter_map(|place| match place {
            LabPlace::Pod(key) => Some(key.to_string()),
            LabPlace::Node(_) | LabPlace::Fabric => None,
        })
        .collect();
    let failure = Failure::unreadable(format!("lab `{name}` has no pod `{pod}` with a network of its own"));
    match nearest(&pod.to_string(), all.iter().map(String::as_str)) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint(format!("it has: {}", all.join(", "))),
    }
}

fn ask<T: DeserializeOwned>(client: &mut Client, operation: &str) -> Result<T, Failure> {
    let answer = client.ask(operation, Value::Null).map_err(|error| failure(&error, &run_dir()))?;
    serde_json::from_value(answer).map_err(|error| {
        Failure::new(Exit::CannotTell, "the lab's supervisor is of another netlab").because(&error)
    })
}

/// The lab's objects, each once.
fn texts(manifests: &Manifests) -> Result<BTreeMap<String, String>, Failure> {
    let unreadable = |why: String| Failure::unreadable("the lab's manifests cannot be read").caused_by(why);
    let all = manifests.objects().map_err(unreadable)?;
    let documents: Vec<Document> = all
        .iter()
        .map(|object| Document { name: "the lab's manifests".into(), text: format!("{object:#}").into() })
        .collect();
    Ok(objects(&documents).into_iter().map(|(id, text)| (id.to_owned(), text)).collect())
}
