//! Numbers of nodes and DNS pods.
//!
//! Invariant: a counter that was read once has no growth; a counter that was not read has no value.
//! Names: `conntrack.count|max|insert_failed|drop|early_drop` (`/proc/net/stat/nf_conntrack`, `/proc/sys/net/netfilter`),
//! `ethtool.DEVICE.NAME` (`ethtool -S`), `udp.RcvbufErrors|InErrors` (`/proc/net/snmp`), `sysctl.NAME`, `cgroup.nr_throttled`.

use netlab_plugin::evidence::Reading;

use super::View;

impl View<'_> {
    /// A counter of the pod's own node.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<Reading> {
        let node = self.subject()?.node()?.to_owned();
        self.counter_of(&node, name)
    }

    /// A counter of a node, or of `pod/NAMESPACE/NAME`.
    #[must_use]
    pub fn counter_of(&self, owner: &str, name: &str) -> Option<Reading> {
        let (_, counters) = self.evidence.counters()?;
        counters.by_owner.get(owner)?.get(name).copied()
    }

    /// True when a counter of any owner has a name with this ending.
    #[must_use]
    pub fn any_counter(&self, ending: &str) -> bool {
        let counters = self.evidence.counters();
        counters.is_some_and(|(_, counters)| {
            counters.by_owner.values().flat_map(|of_owner| of_owner.keys()).any(|name| name.ends_with(ending))
        })
    }

    /// Counters whose name has this ending and that grew, with their owner, name and growth.
    #[must_use]
    pub fn grown(&self, ending: &str) -> Vec<(String, String, f64)> {
        let Some((_, counters)) = self.evidence.counters() else { return Vec::new() };
        let mut found = Vec::new();
        for (owner, of_owner) in &counters.by_owner {
            for (name, reading) in of_owner.iter().filter(|(name, _)| name.ends_with(ending)) {
                if let Some(growth) = reading.growth().filter(|growth| *growth > 0.0) {
                    found.push((owner.clone(), name.clone(), growth));
                }
            }
        }
        found
    }
}
