//! F55: a headless Service has no ready endpoint, so its name does not exist: NXDOMAIN is the right answer.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::records::{Hint, What};
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F55",
    id: "HEADLESS-NOTREADY",
    class: Class::Name,
    title: "a headless Service has no ready endpoint, so its name does not exist",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let works = view.cluster_dns_works();
    if works.is_empty() {
        return None;
    }
    for wanted in view.wanted() {
        let What::Headless { service } = &wanted.truth.what else { continue };
        if wanted.truth.exists() != Some(false) {
            continue;
        }
        let rows = view.questions(&wanted.full);
        let absent: Vec<_> =
            rows.iter().copied().filter(|(_, probe)| probe.result == Outcome::Nxdomain).collect();
        let found =
            rows.iter().any(|(_, probe)| probe.result == Outcome::Noerror && !probe.answers.is_empty());
        let Some((_, first)) = absent.first() else { continue };
        if found {
            continue;
        }
        let mut hit = Hit::high(format!("no endpoint of headless {service} is ready"))
            .because(format!("{}: NXDOMAIN, which is right: {}", wanted.full, wanted.truth.why))
            .citing([layout::SLICES])
            .citing(row_ids(&absent))
            .citing(works);
        hit = match wanted.truth.hints.iter().find(|hint| matches!(hint, Hint::NotReady { .. })) {
            Some(Hint::NotReady { could_be_published: true, .. }) => hit
                .fix(format!("let its pods become ready, or set publishNotReadyAddresses on {service} if peers must find each other before")),
            _ => hit.fix(format!("let a pod that {service} selects become ready")),
        };
        return Some(hit.verify(command::query(view, &wanted.full, first.server, "")));
    }
    None
}
