//! Services while a change is under way.
//!
//! The endpoints of a Service and the rules about them change together, but pods are switched one after the other. So
//! a Service that changes holds both sets of endpoints, and from which generation on the second counts; a pod's word,
//! which says by which ruleset it goes, says by which endpoints too. Invariant: whatever a pod's word is at a moment, the
//! endpoints by which it is judged are those of the change that gave it this word. A Service that appears or goes has no
//! endpoint on one side: there it is an ordinary address.

use std::collections::BTreeMap;

use netlab_ebpf::abi::{ServiceKey, ServiceTargets, ServiceValue};

/// The Services that differ, with both sets. Those of `new` count from `generation` on.
#[must_use]
pub fn both(
    old: &BTreeMap<ServiceKey, ServiceValue>,
    new: &BTreeMap<ServiceKey, ServiceValue>,
    generation: u32,
) -> BTreeMap<ServiceKey, ServiceValue> {
    let targets = |of: &BTreeMap<ServiceKey, ServiceValue>, key: &ServiceKey| -> ServiceTargets {
        of.get(key).map(|value| value.targets).unwrap_or_default()
    };
    old.keys()
        .chain(new.keys())
        .filter(|key| old.get(*key) != new.get(*key))
        .map(|key| {
            let (former, targets) = (targets(old, key), targets(new, key));
            (*key, ServiceValue { targets, former, since: generation, echo: key.echo() })
        })
        .collect()
}
