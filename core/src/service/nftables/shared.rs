//! Comparing what all Services of a node share: the chains that the kernel asks, those that look addresses up, refuse,
//! mark and masquerade, and the sets and maps of every table.
//!
//! Invariant: by [`super::written`] alone; what nobody wrote there is named.

use super::dump::Dump;
use super::rules;
use super::written::BaseChain;
use crate::service::fault::{Difference, Fault, Kind, Place};

/// Compares it.
#[must_use]
pub fn shared_faults(dump: &Dump) -> Vec<Fault> {
    let style = &dump.style;
    let mut faults = Vec::new();
    let bases = style.bases();
    for base in &bases {
        of_base(dump, base, &mut faults);
    }
    for name in dump.bases.keys().filter(|name| bases.iter().all(|base| base.name != **name)) {
        let detail = "the kernel asks this chain, which no proxy writes";
        faults.push(fault(Difference::Extra, Kind::Foreign, name, name, detail.to_owned()));
    }
    for (chain, written) in style.shared() {
        rules::compare(dump, chain, &written, &mut faults);
    }
    for (name, kind, of) in style.declared() {
        let Some(found) = dump.declared.get(name) else {
            faults.push(fault(Difference::Missing, of, name, name, "it is not there".to_owned()));
            continue;
        };
        let is_other = found.kind.as_ref().is_some_and(|found| *found != kind);
        if is_other || !found.flags.is_empty() || found.timeout.is_some() || found.size.is_some() {
            let found = found.kind.clone().unwrap_or_default();
            let detail = format!(
                "it is declared otherwise than the proxy's, which is of type {kind}, keeps all elements and has no flags; its type is {found}"
            );
            faults.push(fault(Difference::Wrong, of, name, name, detail));
        }
    }
    if dump.has_iptables_mode {
        let detail = "rules of iptables mode are on the node, too; they take packets, and no proxy keeps them up to date";
        faults.push(Fault {
            place: Place::within("nat", "KUBE-SERVICES"),
            ..fault(Difference::Extra, Kind::Leftover, "iptables", "", detail.to_owned())
        });
    }
    faults
}

fn fault(difference: Difference, kind: Kind, object: &str, chain: &str, detail: String) -> Fault {
    Fault {
        difference,
        kind,
        object: object.to_owned(),
        place: Place::within(super::TABLE, chain),
        endpoint: None,
        detail,
    }
}

/// When the kernel asks a chain, and what it does with what no rule decides. Without a chain its jumps are missing.
fn of_base(dump: &Dump, base: &BaseChain, faults: &mut Vec<Fault>) {
    let Some(found) = dump.bases.get(base.name) else {
        if dump.chains.contains_key(base.name) {
            let detail = format!("the kernel does not ask the chain: {}", base.lost);
            faults.push(fault(Difference::Wrong, base.of, base.name, base.name, detail));
        }
        return;
    };
    if found.policy != "accept" {
        let object = format!("policy {}", found.policy);
        let detail = "the chain's policy drops what no rule decides; the proxy's is to accept";
        faults.push(fault(Difference::Extra, Kind::Foreign, &object, base.name, detail.to_owned()));
    }
    if (&*found.kind, &*found.hook, found.priority) != (base.kind, base.hook, base.priority) {
        let detail = format!(
            "it is a chain of type {}, hook {}, priority {}, and the proxy's is {}, {}, {}: {}",
            found.kind, found.hook, found.priority, base.kind, base.hook, base.priority, base.lost
        );
        faults.push(fault(Difference::Wrong, base.of, base.name, base.name, detail));
    }
}
