//! F67: a search domain has a wildcard record, so every name outside is found below it.

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, View, is_below, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F67",
    id: "WILDCARD-SEARCH",
    class: Class::DnsConfig,
    title: "a search domain answers every name, so names outside lead to one address",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Misled],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let conf = view.conf()?;
    let domain = view.domain().unwrap_or_else(|| "cluster.local".to_owned());
    let found = |probe: &Probe| probe.result == Outcome::Noerror && !probe.addresses().is_empty();
    let all = view.rows(&Ask::from_pod());
    for name in view.target.names.iter().filter(|name| name.contains('.') && !name.ends_with('.')) {
        if is_below(name, &domain) {
            continue;
        }
        for suffix in conf.search.iter().map(|suffix| suffix.trim_end_matches('.')) {
            if suffix.is_empty() || is_below(suffix, &domain) {
                continue;
            }
            let full = format!("{name}.{suffix}.");
            let hits: Vec<_> = view.questions(&full).into_iter().filter(|(_, probe)| found(probe)).collect();
            let Some((_, first)) = hits.first().copied() else { continue };
            // Only what is tried before the name itself takes its place.
            let tried = view.tried(name);
            let place = |wanted: &str| tried.iter().position(|one| one.eq_ignore_ascii_case(wanted));
            if place(&full) > place(&format!("{name}.")) {
                continue;
            }
            // A name that cannot exist has an answer too, and the same.
            let others: Vec<_> = all
                .iter()
                .copied()
                .filter(|(_, probe)| {
                    found(probe)
                        && is_below(&probe.name, suffix)
                        && !probe.name.eq_ignore_ascii_case(&full)
                        && probe.addresses() == first.addresses()
                })
                .collect();
            let random = others.iter().any(|(_, probe)| probe.name.starts_with("netlab-"));
            let denied = all.iter().any(|(_, probe)| {
                probe.result == Outcome::Nxdomain
                    && is_below(&probe.name, suffix)
                    && probe.name.starts_with("netlab-")
            });
            let own: Vec<_> =
                view.questions(&format!("{name}.")).into_iter().filter(|(_, probe)| found(probe)).collect();
            // The name is somebody else's: it exists as it is, with other addresses. A name that exists below the suffix
            // alone may be meant so, and one address may serve many.
            let differs = own.iter().any(|(_, probe)| probe.addresses() != first.addresses());
            if denied || others.is_empty() || !differs || (!random && others.len() < 2) {
                continue;
            }
            let line = view.conf_line(suffix).map_or(String::new(), |line| format!(":{line}"));
            let addresses: Vec<String> = first.addresses().iter().map(ToString::to_string).collect();
            let summary = format!("search domain {suffix} answers every name");
            let mut hit = if random { Hit::high(summary) } else { Hit::medium(summary) };
            hit = hit
                .because(format!("`{name}` is found as {full}: {}", addresses.join(", ")))
                .because(if random {
                    format!("a random name below {suffix} has the same address: a wildcard record")
                } else {
                    format!("{} other names below {suffix} have the same address", others.len())
                })
                .citing([layout::POD_RESOLV_CONF])
                .citing(row_ids(&hits))
                .citing(row_ids(&others));
            if let Some((id, probe)) = own.first() {
                hit = hit.because(format!("{name}. itself is {}", probe.answers.join(", "))).citing([*id]);
            }
            let of_node = view.text(layout::NODE_RESOLV_CONF).is_some_and(|text| {
                text.split_ascii_whitespace().any(|word| word.trim_end_matches('.') == suffix)
            });
            let whence = if of_node { "the node's resolv.conf" } else { "dnsConfig.searches" };
            return Some(
                hit.fix(format!(
                    "remove {suffix} from {whence} ({}{line}), or its wildcard record",
                    layout::POD_RESOLV_CONF
                ))
                .fix(format!("meanwhile write `{name}.` with its final dot, or lower ndots"))
                .verify(command::query(view, &full, first.server, "")),
            );
        }
    }
    None
}
