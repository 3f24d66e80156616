//! F61: DNS is right: nothing has this name.

use std::net::IpAddr;

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::records::{Hint, What};
use crate::view::{Ask, View, Wanted, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F61",
    id: "NAME-ABSENT",
    class: Class::Name,
    title: "nothing has this name",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

/// A name that should not exist and does not, while DNS works.
pub(super) struct Absent {
    pub(super) wanted: Wanted,
    pub(super) ids: Vec<String>,
    pub(super) works: Vec<String>,
    pub(super) server: IpAddr,
}

/// The first such name; names with a final dot that only lack the search list are not among them.
pub(super) fn absent(view: &View<'_>) -> Option<Absent> {
    let works: Vec<String> = view.cluster_dns_works().into_iter().map(str::to_owned).collect();
    if works.is_empty() {
        return None;
    }
    view.wanted().into_iter().find_map(|wanted| {
        let nothing = matches!(wanted.truth.what, What::Nothing | What::Outside);
        let rows = view.questions(&wanted.full);
        let denied: Vec<_> =
            rows.iter().copied().filter(|(_, probe)| probe.result == Outcome::Nxdomain).collect();
        let (_, first) = denied.first().copied()?;
        let all = denied.len() == rows.len();
        // Somebody gets an answer for it, or for it with a suffix: then it exists somewhere.
        let stem = wanted.name.trim_end_matches('.').to_ascii_lowercase() + ".";
        let exists = view.rows(&Ask::default()).into_iter().any(|(_, probe)| {
            probe.name.to_ascii_lowercase().starts_with(&stem) && probe.result == Outcome::Noerror
        });
        // A name that is tried and was not asked for may be the one that is meant.
        let tried = view.tried(&wanted.name);
        let all_asked = !tried.is_empty() && tried.iter().all(|full| !view.questions(full).is_empty());
        // An error or silence for one of them tells nothing of whether it exists.
        let all_told = tried.iter().flat_map(|full| view.questions(full)).all(|(_, probe)| {
            probe.all_answered() && matches!(probe.result, Outcome::Noerror | Outcome::Nxdomain)
        });
        (nothing && all && all_asked && all_told && !exists).then(|| Absent {
            ids: row_ids(&denied),
            works: works.clone(),
            server: first.server,
            wanted,
        })
    })
}

fn test(view: &View<'_>) -> Option<Hit> {
    let absent = absent(view)?;
    let wanted = &absent.wanted;
    if wanted.truth.hints.iter().any(|hint| matches!(hint, Hint::OtherNamespace { .. })) {
        return None;
    }
    // Those say why.
    if super::f58::test(view).is_some() || super::f63::test(view).is_some() {
        return None;
    }
    let near: Vec<&str> = wanted
        .truth
        .hints
        .iter()
        .filter_map(|hint| match hint {
            Hint::NearMiss { name } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let outside = wanted.truth.what == What::Outside;
    let summary = format!("nothing is called `{}`", wanted.name);
    let mut hit = if outside { Hit::medium(summary) } else { Hit::high(summary) };
    hit = if outside {
        hit.because(format!("{}: NXDOMAIN from upstream; the cluster knows nothing of it", wanted.full))
    } else {
        hit.because(format!("{}: NXDOMAIN, which is right: {}", wanted.full, wanted.truth.why))
    };
    hit = hit
        .because("DNS answers the cluster's own names from the same pod")
        .citing([layout::SERVICES])
        .citing(absent.ids)
        .citing(absent.works);
    hit = match near.as_slice() {
        [] if outside => hit.fix("correct the name, or ask whoever runs its zone"),
        [] => hit.fix(format!("correct the name in {}, or create the Service", view.target)),
        near => hit.because(format!("there is {}", near.join(", "))).fix(format!(
            "correct the name in {}: {}",
            view.target,
            near.join(", ")
        )),
    };
    Some(hit.verify(command::query(view, &wanted.full, absent.server, "")))
}
