//! The names of plugins, and the order in which they are asked.
//!
//! Source: `plugin.cfg` of `CoreDNS` 1.15.0, which decides both when the program is built. Invariant: the order of the
//! file decides nothing. Newer versions have names that older ones lack; only names that no version has are unknown.

/// In the order in which a query meets them.
const STOCK: [&str; 60] = [
    "root",
    "metadata",
    "geoip",
    "cancel",
    "proxyproto",
    "quic",
    "grpc_server",
    "https",
    "https3",
    "timeouts",
    "multisocket",
    "reload",
    "nsid",
    "bufsize",
    "bind",
    "debug",
    "trace",
    "ready",
    "health",
    "pprof",
    "shed",
    "prometheus",
    "errors",
    "log",
    "dnstap",
    "local",
    "dns64",
    "siit",
    "any",
    "chaos",
    "loadbalance",
    "tsig",
    "rewrite",
    "autopath",
    "acl",
    "cache",
    "header",
    "dnssec",
    "tls",
    "minimal",
    "template",
    "transfer",
    "dynupdate",
    "hosts",
    "route53",
    "azure",
    "clouddns",
    "k8s_external",
    "kubernetes",
    "file",
    "auto",
    "secondary",
    "etcd",
    "loop",
    "forward",
    "grpc",
    "erratic",
    "whoami",
    "on",
    "sign",
];

/// After them all.
const LAST: [&str; 2] = ["view", "nomad"];

/// Names that old versions had: with what came instead.
const REMOVED: [(&str, &str); 2] = [
    ("federation", "it was taken out in 1.7.0: delete the block"),
    ("proxy", "it was taken out in 1.5.0: `forward` does its work"),
];

/// Plugins of others, which somebody has to build in.
const EXTERNAL: [&str; 34] = [
    "ads",
    "alias",
    "alternate",
    "amazondns",
    "blocklist",
    "delay",
    "docker",
    "dump",
    "edns",
    "ens",
    "fallback",
    "fanout",
    "filter",
    "finalize",
    "git",
    "gslb",
    "idetcd",
    "k8s_cache",
    "k8s_event",
    "k8s_gateway",
    "kubeapi",
    "kubenodes",
    "kubernetai",
    "lighthouse",
    "mdns",
    "mysql",
    "netbox",
    "pdsql",
    "records",
    "redis",
    "rrl",
    "traffic",
    "unbound",
    "wgsd",
];

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// A plugin of `CoreDNS` itself.
    Stock,
    /// One that was taken out.
    Removed {
        /// What to do.
        instead: &'static str,
    },
    /// Somebody else's: official images do not have it.
    External,
    /// Nothing.
    Unknown {
        /// A plugin of nearly this name.
        nearest: Option<&'static str>,
    },
}

fn stock() -> impl Iterator<Item = &'static str> {
    STOCK.into_iter().chain(LAST)
}

/// What a name is.
#[must_use]
pub fn known(name: &str) -> Known {
    if stock().any(|known| known == name) {
        return Known::Stock;
    }
    if let Some((_, instead)) = REMOVED.iter().find(|(removed, _)| *removed == name) {
        return Known::Removed { instead };
    }
    if EXTERNAL.contains(&name) || name == "multicluster" {
        return Known::External;
    }
    let lower = name.to_lowercase();
    let nearest = stock()
        .map(|known| (strsim::osa_distance(known, &lower), known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 5)
        .min()
        .map(|(_, known)| known);
    Known::Unknown { nearest }
}

/// The place of a plugin in the order of asking; `None` for those of others.
#[must_use]
pub fn order(name: &str) -> Option<usize> {
    stock().position(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        assert_eq!(known("forward"), Known::Stock);
        assert!(matches!(known("proxy"), Known::Removed { .. }));
        assert_eq!(known("k8s_gateway"), Known::External);
        assert_eq!(known("foward"), Known::Unknown { nearest: Some("forward") });
        assert_eq!(known("Kubernetes"), Known::Unknown { nearest: Some("kubernetes") });
        assert_eq!(known("kuberntes"), Known::Unknown { nearest: Some("kubernetes") });
        assert_eq!(known("foo"), Known::Unknown { nearest: None });
        assert!(order("cache") < order("hosts") && order("hosts") < order("kubernetes"));
    }
}
