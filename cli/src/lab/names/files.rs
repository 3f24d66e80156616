//! The files that pods and nodes have, as kubelet would write them.
//!
//! Sources: [`netlab_dnsdiag::kubelet`] for `resolv.conf`; `nodeHostsFileContent` and `managedHostsFileContent` of
//! `pkg/kubelet/kubelet_pods.go` for `hosts`; the images of Debian for `nsswitch.conf`.

use std::collections::BTreeMap;

use netlab_core::input::Document;
use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
use netlab_dnsdiag::kubelet::{Family, HostFile, KubeletConfig, Limits, NodeDns, Subject, expected};
use netlab_lab::{Place, Plan};

pub(crate) use netlab_lab::named::File;

use super::Naming;

const NSSWITCH: &str = "passwd:         files\ngroup:          files\nshadow:         files\n\nhosts:          files dns\n\
                        networks:       files\n\nprotocols:      db files\nservices:       db files\n";

/// The texts of all files, by place.
pub(crate) fn files(
    naming: &Naming,
    cluster: &Cluster,
    plan: &Plan,
) -> Result<BTreeMap<(Place, File), String>, String> {
    let config = KubeletConfig::read(&Document {
        name: "the kubelet's configuration".into(),
        text: naming.kubelet_config().into(),
    })
    .map_err(|error| error.message)?;
    let host =
        HostFile::read(&naming.host_file).map_err(|error| format!("the nodes' resolv.conf: {error}"))?;
    let mut files = BTreeMap::new();
    for place in plan.places().into_keys() {
        let (resolv_conf, hosts) = match place {
            Place::Fabric => continue,
            Place::Node(name) => (
                naming.host_file.clone(),
                format!("127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t{name}\n"),
            ),
            Place::Pod(key) => {
                let Some(pod) = cluster.pods.get(key) else { continue };
                let families: Vec<Family> = plan
                    .node_of(place)
                    .map(|node| plan.addresses_of(&Place::Node(node.to_owned())))
                    .unwrap_or_default()
                    .iter()
                    .map(|address| Family::of(*address))
                    .collect();
                let node = NodeDns {
                    config: &config,
                    host: Some(&host),
                    families: &families,
                    limits: Limits::of(&config),
                };
                let subject = Subject {
                    namespace: &key.namespace,
                    host_network: pod.host_network,
                    dns: pod.dns.as_deref(),
                };
                let expected = expected(subject, &node);
                // Kubelet asks for nothing: runtimes then copy the node's file.
                let text = if expected.runtime_copies_host_file() {
                    naming.host_file.clone()
                } else {
                    expected.text()
                };
                (text, hosts(naming, key, pod, plan))
            }
        };
        files.insert((place.clone(), File::ResolvConf), resolv_conf);
        files.insert((place.clone(), File::Hosts), hosts);
        files.insert((place.clone(), File::Nsswitch), NSSWITCH.to_owned());
    }
    Ok(files)
}

fn hosts(naming: &Naming, key: &ObjectKey, pod: &Pod, plan: &Plan) -> String {
    let mut text = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
                    fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
        .to_owned();
    let dns = pod.dns.as_deref();
    let hostname = dns.and_then(|dns| dns.hostname.as_deref()).unwrap_or(&key.name);
    let long = dns
        .and_then(|dns| dns.subdomain.as_deref())
        .map(|subdomain| format!("{hostname}.{subdomain}.{}.svc.{}\t", key.namespace, naming.cluster_domain))
        .unwrap_or_default();
    for address in plan.addresses_of(&Place::Pod(key.clone())) {
        text += &format!("{address}\t{long}{hostname}\n");
    }
    let aliases = dns.map(|dns| dns.host_aliases.as_slice()).unwrap_or_default();
    if !aliases.is_empty() {
        text += "\n# Entries added by HostAliases.\n";
        for (address, names) in aliases {
            text += &format!("{address}\t{}\n", names.join("\t"));
        }
    }
    text
}
