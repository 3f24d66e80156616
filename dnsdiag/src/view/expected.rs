//! The `resolv.conf` that kubelet writes for the pod, and how the pod's own differs.
//!
//! Invariant: the model is [`crate::kubelet`]'s. Without the pod, its node's kubelet configuration and the node's file there
//! is no expectation, and without the pod's file there is no difference.

use netlab_core::input::Document;

use super::View;
use crate::bundle::layout;
use crate::kubelet::{
    Difference, Expected, Family, Found, HostFile, KubeletConfig, Limits, NodeDns, Subject, difference,
    expected,
};
use crate::resolv_conf::{Dialect, read};

/// What an expectation rests on.
pub const EXPECTED_FACTS: [&str; 4] =
    [layout::PODS, layout::KUBELET, layout::NODE_RESOLV_CONF, layout::POD_RESOLV_CONF];

impl View<'_> {
    /// The kubelet's configuration; `None` when it was not recorded or cannot be read.
    #[must_use]
    pub fn kubelet(&self) -> Option<&KubeletConfig> {
        let read = || {
            let text = self.text(layout::KUBELET)?;
            KubeletConfig::read(&Document { name: layout::KUBELET.into(), text: text.into() }).ok()
        };
        self.kubelet.get_or_init(read).as_ref()
    }

    /// The file that this kubelet reads on the node.
    #[must_use]
    pub fn host_file(&self) -> Option<HostFile> {
        HostFile::read(self.text(layout::NODE_RESOLV_CONF)?).ok()
    }

    /// What kubelet writes for the pod.
    #[must_use]
    pub fn expected(&self) -> Option<Expected> {
        let subject = self.subject()?;
        let config = self.kubelet()?;
        let host = self.host_file();
        let node = subject.node().and_then(|name| self.loaded.cluster.nodes.get(name));
        let mut families: Vec<Family> = node
            .map(|node| node.addresses.iter().map(|address| Family::of(*address)).collect())
            .unwrap_or_default();
        families.dedup();
        let pod = Subject {
            namespace: &self.target.namespace,
            host_network: subject.host_network(),
            dns: subject.pod.dns.as_deref(),
        };
        let node = NodeDns { config, host: host.as_ref(), families: &families, limits: Limits::of(config) };
        Some(expected(pod, &node))
    }

    /// How the pod's file differs from that; `None` when either is not known.
    #[must_use]
    pub fn differences(&self) -> Option<Vec<Difference>> {
        if !self.missing(&EXPECTED_FACTS).is_empty() {
            return None;
        }
        let expected = self.expected()?;
        // As written: what a libc drops is no difference of the file.
        let conf = read(self.text(layout::POD_RESOLV_CONF)?.as_bytes(), Dialect::Kubelet);
        let nameservers: Vec<String> = conf.nameservers.iter().map(|server| server.text.clone()).collect();
        let host = self.host_file().unwrap_or_default();
        let of_node: Vec<String> = host.nameservers.iter().map(|line| line.value.clone()).collect();
        Some(difference(
            &expected,
            Found {
                nameservers: &nameservers,
                searches: &conf.search,
                options: &conf.option_words,
                node_nameservers: &of_node,
                older_than_config: self.older_than_config(),
            },
        ))
    }

    /// True when the pod is known to be older than the kubelet's configuration: the file says when it was changed in
    /// a comment line `# changed: RFC 3339`, as a gatherer writes it.
    #[must_use]
    pub fn older_than_config(&self) -> bool {
        let changed = self.text(layout::KUBELET).and_then(|text| {
            text.lines().find_map(|line| Some(line.strip_prefix("# changed:")?.trim().to_owned()))
        });
        let started = self.subject().and_then(|subject| subject.started().map(str::to_owned));
        // Both are RFC 3339 in UTC, which sorts as text.
        matches!((changed, started), (Some(changed), Some(started)) if started < changed)
    }
}
