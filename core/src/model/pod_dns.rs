//! What a pod's spec says about names: how it resolves them, and what it is called itself.
//!
//! Invariant: texts are as written, valid or not: what kubelet makes of them is a question to its model.

/// `spec.dnsPolicy`, `dnsConfig`, `hostAliases`, `hostname` and `subdomain`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDns {
    /// `dnsPolicy`; `None` when absent, which is `ClusterFirst`.
    pub policy: Option<String>,
    /// `dnsConfig`; `None` when absent.
    pub config: Option<DnsConfig>,
    /// `hostAliases`: address and names.
    pub host_aliases: Vec<(String, Vec<String>)>,
    /// `hostname`.
    pub hostname: Option<String>,
    /// `subdomain`.
    pub subdomain: Option<String>,
}

/// `spec.dnsConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// `nameservers`.
    pub nameservers: Vec<String>,
    /// `searches`.
    pub searches: Vec<String>,
    /// `options`: name, and value where it has one.
    pub options: Vec<(String, Option<String>)>,
}
