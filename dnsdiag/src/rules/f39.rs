//! F39: ndots is so low that musl takes a name of the cluster for a full one, and musl then never searches.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Candidate, View};

pub(super) const RULE: Rule = Rule {
    mode: "F39",
    id: "NDOTS-TOO-LOW-MUSL",
    class: Class::DnsConfig,
    title: "musl never searches names with ndots dots or more",
    needs: &[
        layout::POD_RESOLV_CONF,
        layout::PODS,
        layout::SERVICES,
        layout::SLICES,
        layout::NAMESPACES,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let conf = view.conf()?;
    if !view.is_musl()? {
        return None;
    }
    let (name, as_is) = view.target.names.iter().find_map(|name| {
        let means = view.truth(&view.intended(name))?;
        let candidates = view.candidates(name);
        let [only] = candidates.as_slice() else { return None };
        let dotted =
            !name.ends_with('.') && name.contains('.') && !only.name.eq_ignore_ascii_case(&means.name);
        let denied = only.any(|told| told.result == Outcome::Nxdomain);
        (means.exists() == Some(true) && dotted && denied).then(|| (name.clone(), only.clone()))
    })?;
    let Candidate { name: asked, .. } = &as_is;
    let ndots = conf.options.ndots;
    let dots = name.matches('.').count();
    let hit = Hit::high(format!("musl does not search `{name}`: ndots is {ndots}"))
        .because(format!(
            "the name has {dots} dots, so musl asks for {asked} alone; glibc would search afterwards"
        ))
        .because(format!("{} exists", view.intended(&name)))
        .citing([layout::POD_RESOLV_CONF, layout::SERVICES])
        .citing(as_is.ids())
        .fix(format!("use the full name {}", view.intended(&name)))
        .fix(format!("or set ndots above {dots} in the pod's dnsConfig"))
        .verify(format!("netlab dns plan {name} --resolv-conf pod/resolv.conf --compare"));
    Some(hit)
}
