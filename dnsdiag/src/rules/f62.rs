//! F62: a name that exists now is denied from a cache that remembers the time before.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Server, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F62",
    id: "NEG-CACHE",
    class: Class::DnsServer,
    title: "a cache still denies a name that exists now",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    for wanted in view.wanted() {
        if wanted.truth.exists() == Some(false) {
            continue;
        }
        // A server that does not know the cluster denies its names for good.
        let rows: Vec<_> = view
            .questions(&wanted.full)
            .into_iter()
            .filter(|(_, probe)| {
                !matches!(view.server(probe.server), Some(Server::Unowned | Server::OfNode | Server::Node(_)))
            })
            .collect();
        let denied: Vec<_> =
            rows.iter().copied().filter(|(_, probe)| probe.result == Outcome::Nxdomain).collect();
        let found: Vec<_> = rows
            .iter()
            .copied()
            .filter(|(_, probe)| probe.result == Outcome::Noerror && !probe.answers.is_empty())
            .collect();
        let Some((_, first)) = denied.first().copied() else { continue };
        let Some(ttl) = denied.iter().filter_map(|(_, probe)| probe.ttl).min() else { continue };
        // A denial that is made anew has the same TTL each time; one from a cache has what is left of it.
        let asked_again = denied
            .iter()
            .any(|(_, probe)| probe.server == first.server && probe.ttl.is_some_and(|other| other > ttl));
        let elsewhere = found.iter().any(|(_, probe)| probe.server != first.server);
        let later = found.iter().any(|(_, probe)| probe.server == first.server);
        if found.is_empty() || !(elsewhere || later || asked_again) || wanted.truth.exists().is_none() {
            continue;
        }
        // Another server that has it may be told from one whose watch has ended only by a TTL that runs down.
        let mut hit = if later || asked_again {
            Hit::high(format!("{} still denies `{}` from its cache", first.server, wanted.name))
        } else {
            Hit::medium(format!("{} still denies `{}` from its cache", first.server, wanted.name))
        }
        .because(format!("{}: NXDOMAIN with {ttl} s left, and the cluster has it", wanted.full))
        .citing([layout::SERVICES])
        .citing(row_ids(&denied))
        .citing(row_ids(&found));
        if elsewhere {
            hit = hit.because("another server has it already");
        } else if later {
            hit = hit.because("the same server has it now");
        }
        return Some(
            hit.fix(format!("wait {ttl} s, or ask after the Service was created"))
                .fix("lower `denial` in the Corefile's `cache` if names are asked for before they exist")
                .verify(command::query(view, &wanted.full, first.server, "")),
        );
    }
    None
}
