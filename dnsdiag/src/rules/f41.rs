//! F41: a search domain answers with an error, and musl stops the search there.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F41",
    id: "MUSL-SUFFIX-ERROR",
    class: Class::DnsConfig,
    title: "a search domain answers with an error, and musl stops the search there",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    if !view.is_musl()? || view.segments().vip_udp.reach.fails() {
        return None;
    }
    let (name, bad, good) =
        view.target.names.iter().filter(|name| !view.model_resolves(name)).find_map(|name| {
            let candidates = view.candidates(name);
            let bad = candidates.iter().position(|one| {
                let failed = |result| {
                    matches!(result, Outcome::Servfail | Outcome::Refused | Outcome::Silent | Outcome::Notimp)
                };
                one.suffix.is_some() && !one.resolves() && one.any(|told| failed(told.result))
            })?;
            let before = candidates.get(..bad)?.iter().any(crate::view::Candidate::resolves);
            let good = candidates.get(bad + 1..)?.iter().find(|one| one.resolves())?;
            (!before).then(|| (name.clone(), candidates[bad].clone(), good.clone()))
        })?;
    let suffix = bad.suffix.clone().unwrap_or_default();
    let told = bad.a.iter().chain(&bad.aaaa).map(|told| told.result.as_str()).next().unwrap_or_default();
    let hit = Hit::high(format!("musl stops `{name}` at search domain {suffix}"))
        .because(format!(
            "{} gets {told}; glibc goes on to {}, musl gives up with EAI_AGAIN",
            bad.name, good.name
        ))
        .citing([layout::POD_RESOLV_CONF])
        .citing(bad.ids())
        .citing(good.ids())
        .fix(format!("mend the servers of {suffix}, or take it out of the search list"))
        .fix("or use the full name with its last dot")
        .verify(format!("netlab dns plan {name} --resolv-conf pod/resolv.conf --compare"));
    Some(hit)
}
