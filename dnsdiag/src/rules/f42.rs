//! F42: a search domain has the name without addresses, which musl takes for the answer.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Candidate, Told, View};

pub(super) const RULE: Rule = Rule {
    mode: "F42",
    id: "MUSL-SUFFIX-NODATA",
    class: Class::DnsConfig,
    title: "a search domain has the name without addresses, and musl stops the search there",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    if !view.is_musl()? {
        return None;
    }
    let (name, bad, good) =
        view.target.names.iter().filter(|name| !view.model_resolves(name)).find_map(|name| {
            let candidates = view.candidates(name);
            let nodata = |told: &Option<Told>| told.as_ref().is_some_and(Told::is_nodata);
            let bad = candidates.iter().position(|one| nodata(&one.a) && nodata(&one.aaaa))?;
            let before = candidates.get(..bad)?.iter().any(Candidate::resolves);
            let good = candidates.get(bad + 1..)?.iter().find(|one| one.resolves())?;
            (!before).then(|| (name.clone(), candidates[bad].clone(), good.clone()))
        })?;
    let hit = Hit::high(format!("musl takes an empty answer for `{name}`"))
        .because(format!("{} exists without addresses; glibc goes on to {}, musl stops", bad.name, good.name))
        .citing([layout::POD_RESOLV_CONF])
        .citing(bad.ids())
        .citing(good.ids())
        .fix(format!(
            "make {} not exist (a namespace or wildcard of that name), or use the full name",
            bad.name
        ))
        .verify(format!("netlab dns plan {name} --resolv-conf pod/resolv.conf --compare"));
    Some(hit)
}
