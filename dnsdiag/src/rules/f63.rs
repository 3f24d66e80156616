//! F63: a short name ends with a dot, so no search domain is tried.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::records::{World, intended, truth};
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F63",
    id: "TRAILING-DOT",
    class: Class::Name,
    title: "the name ends with a dot, so no search domain is tried",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

pub(super) fn test(view: &View<'_>) -> Option<Hit> {
    let works = view.cluster_dns_works();
    let domain = view.domain()?;
    if works.is_empty() {
        return None;
    }
    for wanted in view.wanted() {
        let Some(bare) = wanted.name.strip_suffix('.') else { continue };
        if wanted.truth.exists() == Some(true) {
            continue;
        }
        let cluster = &view.loaded.cluster;
        let meant = intended(cluster, &domain, &view.target.namespace, bare);
        if meant == wanted.full || truth(World::new(cluster, &domain), &meant).exists() != Some(true) {
            continue;
        }
        let rows = view.questions(&wanted.full);
        let denied: Vec<_> =
            rows.iter().copied().filter(|(_, probe)| probe.result == Outcome::Nxdomain).collect();
        let Some((_, first)) = denied.first().copied() else { continue };
        if denied.len() < rows.len() {
            continue;
        }
        return Some(
            Hit::high(format!("`{}` ends with a dot: no search domain is tried", wanted.name))
                .because(format!("{}: NXDOMAIN; {meant} exists", wanted.full))
                .citing([layout::SERVICES])
                .citing(row_ids(&denied))
                .citing(works)
                .fix(format!("write `{bare}`, or the whole name {meant}"))
                .verify(command::query(view, &meant, first.server, "")),
        );
    }
    None
}
