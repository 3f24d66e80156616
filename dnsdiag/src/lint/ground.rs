//! What every family looks at: the files as they were read, and the objects around them.
//!
//! Invariant: computed once; a file that cannot be read is a finding, and then it is as if it had not been given.

use std::net::IpAddr;

use netlab_core::diagnostic::{Diagnostic, ObjectRef};
use netlab_core::input::Document;
use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
use netlab_core::model::service::Service;

use super::Inputs;
use super::file;
use super::text::Text;
use crate::cluster_dns;
use crate::corefile::{self, Block, Corefile, normal};
use crate::kubelet::{HostFile, HostFileError, KubeletConfig};

/// A Corefile and its place.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) text: Text,
    pub(super) file: Corefile,
    /// It is a cache on each node, not the server behind the DNS Service.
    pub(super) node_local: bool,
}

impl Server {
    fn read(text: Text) -> Self {
        let file = corefile::parse(&text.written);
        let binds_link_local = file.blocks.iter().flat_map(|block| block.all("bind")).any(|bind| {
            bind.words().any(|word| word.starts_with("169.254.") || word.contains("__PILLAR__LOCAL__DNS__"))
        });
        let named = text.object().is_some_and(|object| object.name.contains("node-local"));
        Self { text, file, node_local: binds_link_local || named }
    }

    /// The blocks that have the `kubernetes` plugin.
    pub(super) fn kubernetes(&self) -> impl Iterator<Item = (usize, &Block)> {
        self.file.blocks.iter().enumerate().filter(|(_, block)| block.plugin("kubernetes").is_some())
    }
}

/// A kubelet's configuration and its place.
#[derive(Debug)]
pub(super) struct Kubelet {
    pub(super) text: Text,
    pub(super) config: KubeletConfig,
}

/// A node's file.
#[derive(Debug)]
pub(super) struct NodeFile {
    pub(super) text: Text,
    pub(super) read: Result<HostFile, HostFileError>,
}

impl NodeFile {
    /// Its nameservers that are addresses, with their lines.
    pub(super) fn nameservers(&self) -> impl Iterator<Item = (IpAddr, u32)> + '_ {
        self.read
            .iter()
            .flat_map(|file| &file.nameservers)
            .filter_map(|line| Some((line.value.split('%').next()?.parse().ok()?, line.line)))
    }
}

/// Everything.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub(super) inputs: Inputs<'a>,
    pub(super) servers: Vec<Server>,
    pub(super) kubelets: Vec<Kubelet>,
    pub(super) node_file: Option<NodeFile>,
    pub(super) dns: Option<(&'a ObjectKey, &'a Service)>,
    pub(super) dns_pods: Vec<(&'a ObjectKey, &'a Pod)>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(inputs: Inputs<'a>, found: &mut Vec<Diagnostic>) -> Self {
        let of_document = |document: &Document| Text::of_file(&document.name, &document.text);
        let inside = inputs.manifests.map(file::inside).unwrap_or_default();
        let corefiles = inputs.corefile.map(of_document).into_iter().chain(inside.corefiles);
        let kubelets = inputs.kubelet.map(of_document).into_iter().chain(inside.kubelets);
        let mut read_kubelets = Vec::new();
        for text in kubelets {
            let document = Document { name: text.file.clone(), text: text.written.clone() };
            match KubeletConfig::read(&document) {
                Ok(config) => read_kubelets.push(Kubelet { text, config }),
                Err(problem) => {
                    let position = problem.position;
                    let mut placed = text.place(*problem, position);
                    placed.hint.get_or_insert_with(|| "the file is left out".to_owned());
                    found.push(placed);
                }
            }
        }
        let cluster = inputs.manifests.map(|loaded| &loaded.cluster);
        let dns = cluster.and_then(cluster_dns::service);
        let dns_pods = cluster
            .zip(dns)
            .map(|(cluster, (key, service))| cluster_dns::pods(cluster, key, service).collect())
            .unwrap_or_default();
        Self {
            inputs,
            servers: corefiles.map(Server::read).collect(),
            kubelets: read_kubelets,
            node_file: inputs.node_file.map(|document| NodeFile {
                text: of_document(document),
                read: HostFile::read(&document.text),
            }),
            dns,
            dns_pods,
        }
    }

    pub(super) fn cluster(&self) -> Option<&'a Cluster> {
        self.inputs.manifests.map(|loaded| &loaded.cluster)
    }

    /// The cluster's zone as a kubelet tells it, in normal form.
    pub(super) fn kubelet_domain(&self) -> Option<String> {
        let mut domains = self.kubelets.iter().map(|kubelet| kubelet.config.cluster_domain.as_str());
        domains.find(|domain| !domain.is_empty()).map(normal)
    }

    /// The cluster's zone, as far as anything tells it; without the final dot.
    pub(super) fn domain(&self) -> String {
        let of_server = || {
            let mut zones = self.servers.iter().flat_map(|server| {
                server.kubernetes().flat_map(|(_, block)| super::zones::kubernetes_zones(block))
            });
            // Templates have something else in its place.
            let is_name =
                |zone: &str| zone.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
            zones.find(|zone| zone != "." && !super::zones::is_reverse(zone) && is_name(zone))
        };
        let domain = self.kubelet_domain().or_else(of_server);
        domain.map_or_else(|| "cluster.local".to_owned(), |domain| domain.trim_end_matches('.').to_owned())
    }

    /// Addresses at which pods ask the server behind the DNS Service.
    pub(super) fn own_addresses(&self) -> Vec<IpAddr> {
        let mut addresses: Vec<IpAddr> =
            self.dns.map(|(_, service)| service.cluster_ips.clone()).unwrap_or_default();
        let configured = self.kubelets.iter().flat_map(|kubelet| &kubelet.config.cluster_dns);
        addresses.extend(configured.map(|dns| dns.value).filter(|address| !is_link_local(*address)));
        addresses
    }

    /// What was not given.
    pub(super) fn not_examined(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut say = |text: &str| missing.push(text.to_owned());
        if self.servers.is_empty() {
            say("the server's configuration: no Corefile was given");
        }
        if self.kubelets.is_empty() {
            say("what pods are told to ask: no kubelet configuration was given");
        }
        if self.node_file.is_none() {
            say("what nodes themselves ask: no resolv.conf of a node was given");
        }
        if self.inputs.manifests.is_some() && self.dns.is_none() {
            say("the DNS Service: none of the Services is it");
        } else if self.inputs.manifests.is_none() {
            say("pods, Services and policies: no manifests were given");
        }
        for server in &self.servers {
            for import in &server.file.imports {
                missing.push(format!(
                    "what `import {}` adds ({}): imported files are not read",
                    import.pattern.text, server.text.file
                ));
            }
        }
        missing
    }

    /// What was looked at.
    pub(super) fn examined(&self) -> Vec<(&'static str, usize)> {
        let pods = self.cluster().map_or(0, |cluster| cluster.pods.len());
        let examined = [
            ("Corefile", self.servers.len()),
            ("kubelet configuration", self.kubelets.len()),
            ("resolv.conf", usize::from(self.node_file.is_some())),
            ("DNS Service", usize::from(self.dns.is_some())),
            ("pod", pods),
        ];
        examined.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// `169.254.0.0/16` and `fe80::/10`: the addresses that caches on nodes have.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments().first().is_some_and(|first| first & 0xffc0 == 0xfe80),
    }
}

/// Addresses that nobody outside can have: private, shared (RFC 6598), link-local, loopback, unique local.
pub(super) fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(v6) => {
            let unique_local = v6.segments().first().is_some_and(|first| first & 0xfe00 == 0xfc00);
            v6.is_loopback() || unique_local || is_link_local(address)
        }
    }
}

/// About a Service or pod.
pub(super) fn object(kind: &str, key: &ObjectKey) -> ObjectRef {
    ObjectRef { kind: kind.to_owned(), namespace: Some(key.namespace.clone()), name: key.name.clone() }
}
