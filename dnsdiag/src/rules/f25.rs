//! F25: several upstreams that do not know the same names; `CoreDNS` picks one at random.

use std::collections::BTreeMap;

use netlab_plugin::evidence::Outcome;

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::{View, ids};

pub(super) const RULE: Rule = Rule {
    mode: "F25",
    id: "UPSTREAM-MIXED",
    class: Class::Upstream,
    title: "CoreDNS forwards to servers that do not know the same names",
    needs: &[layout::PROBES, layout::COREFILE],
    latent: false,
    test,
};

/// Rows that answer, rows that deny.
type ByResult<'v> = (Vec<&'v str>, Vec<&'v str>);

fn test(view: &View<'_>) -> Option<Hit> {
    let upstreams = view.upstreams();
    if upstreams.len() < 2 {
        return None;
    }
    // The same question, answered both ways by the same server.
    let mut by_name: BTreeMap<(&str, &str), ByResult<'_>> = BTreeMap::new();
    for (id, probe) in view.outside() {
        let found = by_name.entry((&probe.name, &probe.qtype)).or_default();
        match probe.result {
            Outcome::Noerror if !probe.answers.is_empty() => found.0.push(id),
            Outcome::Nxdomain => found.1.push(id),
            _ => {}
        }
    }
    let ((name, _), (good, bad)) =
        by_name.into_iter().find(|(_, (good, bad))| !good.is_empty() && !bad.is_empty())?;
    let forward = view.forwards().into_iter().find(|forward| forward.from == ".")?;
    let hit = Hit::high("the upstreams do not know the same names")
        .because(format!("{name} is answered and denied by turns ({} and {} rows)", good.len(), bad.len()))
        .because(format!(
            "{}:{}: forward . {}: one is picked at random, and a denial is final",
            layout::COREFILE,
            forward.line,
            forward.to.join(" ")
        ))
        .citing(ids(good.into_iter().chain(bad)))
        .citing([layout::COREFILE])
        .fix(
            "give the private zone a server block of its own with `forward ZONE` to the server that knows it",
        )
        .verify("netlab dns lint --corefile dns/Corefile");
    Some(hit)
}
