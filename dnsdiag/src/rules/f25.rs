//! F25: several upstreams that do not know the same names; `CoreDNS` picks one at random.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, Forward, Server, View, ids};

pub(super) const RULE: Rule = Rule {
    mode: "F25",
    id: "UPSTREAM-MIXED",
    class: Class::Upstream,
    title: "CoreDNS forwards to servers that do not know the same names",
    needs: &[layout::PROBES, layout::COREFILE],
    latent: false,
    explains: &[Effect::Denied],
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
    let mut by_name: BTreeMap<(IpAddr, &str, &str), ByResult<'_>> = BTreeMap::new();
    for (id, probe) in view.outside() {
        let of_cluster = matches!(
            view.server(probe.server),
            None | Some(Server::ClusterDns(_) | Server::DnsPod(_) | Server::LinkLocal)
        );
        if !of_cluster {
            continue;
        }
        let found = by_name.entry((probe.server, &probe.name, &probe.qtype)).or_default();
        match probe.result {
            Outcome::Noerror if !probe.answers.is_empty() => found.0.push(id),
            Outcome::Nxdomain => found.1.push(id),
            _ => {}
        }
    }
    let forward = view.forwards().into_iter().find(|forward| forward.from == ".")?;
    let by_turns = by_name.into_iter().find(|(_, (good, bad))| !good.is_empty() && !bad.is_empty());
    let Some(((_, name, _), (good, bad))) = by_turns else { return asked_themselves(view, &forward) };
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

/// The upstreams, asked for the same name from the pod's node, contradict each other: what a cache in the DNS pods may hide.
fn asked_themselves(view: &View<'_>, forward: &Forward) -> Option<Hit> {
    for name in &view.target.names {
        let full = view.intended(name);
        let upstreams = view.upstreams_of(&full);
        let (mut known, mut denied) = (Vec::new(), Vec::new());
        for (id, probe) in view.rows(&Ask::from_node()) {
            let same = probe.name.trim_end_matches('.').eq_ignore_ascii_case(full.trim_end_matches('.'));
            if !same || !upstreams.contains(&SocketAddr::new(probe.server, probe.port)) {
                continue;
            }
            match probe.result {
                Outcome::Noerror if !probe.answers.is_empty() => known.push((id, probe.server)),
                Outcome::Nxdomain => denied.push((id, probe.server)),
                _ => {}
            }
        }
        let (Some((_, knows)), Some((_, denies))) = (known.first(), denied.first()) else { continue };
        let denies_now =
            view.questions(&full).into_iter().any(|(_, probe)| probe.result == Outcome::Nxdomain);
        let hit = if denies_now {
            Hit::high("the upstreams do not know the same names")
        } else {
            Hit::medium("the upstreams do not know the same names")
        };
        return Some(
            hit.because(format!("{full}: {knows} has it, {denies} says that there is no such name"))
                .because(format!(
                    "{}:{}: forward . {}: one is picked at random, and a denial is final",
                    layout::COREFILE,
                    forward.line,
                    forward.to.join(" ")
                ))
                .citing(ids(known.iter().chain(&denied).map(|(id, _)| *id)))
                .citing([layout::COREFILE])
                .fix("give the private zone a server block of its own with `forward ZONE` to the server that knows it")
                .verify("netlab dns lint --corefile dns/Corefile"),
        );
    }
    None
}
