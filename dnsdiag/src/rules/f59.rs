//! F59: an `ExternalName` Service stands for a name that is none, or that does not exist.

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::records::{Hint, RecordType, What};
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F59",
    id: "CNAME-EXTERNAL",
    class: Class::Name,
    title: "an ExternalName Service stands for a name that does not exist",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    for wanted in view.wanted() {
        let What::ExternalName { service } = &wanted.truth.what else { continue };
        let rows = view.questions(&wanted.full);
        let empty = |probe: &Probe| {
            probe.result == Outcome::Nxdomain
                || probe.result == Outcome::Noerror && probe.addresses().is_empty()
        };
        let without: Vec<_> = rows.iter().copied().filter(|(_, probe)| empty(probe)).collect();
        let Some((_, first)) = without.first().copied() else { continue };
        // A name may have one family only; an address of either shows that the target exists.
        if rows.iter().any(|(_, probe)| probe.result.is_answer() && !empty(probe)) {
            continue;
        }
        let target = wanted.truth.records.get(&RecordType::Cname).and_then(|names| names.first()).cloned();
        let (why, fix) = match (wanted.truth.hints.first(), &target) {
            (Some(Hint::ExternalNameNoName { target }), _) => (
                format!("externalName `{target}` is no name"),
                "use a Service without selector and an EndpointSlice for an address; externalName takes names only".to_owned(),
            ),
            (Some(Hint::ExternalNameDangles { target }), _) => (
                format!("externalName {target} is a name of the cluster, and nothing has it"),
                format!("correct externalName of {service}, or create what it names"),
            ),
            (_, Some(target)) => {
                let of_target = view.questions(target);
                if of_target.iter().any(|(_, probe)| probe.result == Outcome::Noerror && !probe.addresses().is_empty()) {
                    continue;
                }
                (
                    format!("the server follows it to {target}, and gets no address"),
                    format!("correct externalName of {service}: {target} does not exist for the cluster's upstreams"),
                )
            }
            _ => continue,
        };
        return Some(
            Hit::high(format!("{service} stands for a name without address"))
                .because(format!("{}: {}, no address", wanted.full, first.result.as_str()))
                .because(why)
                .citing([layout::SERVICES])
                .citing(row_ids(&without))
                .fix(fix)
                .verify(command::query(view, target.as_deref().unwrap_or(&wanted.full), first.server, "")),
        );
    }
    None
}
