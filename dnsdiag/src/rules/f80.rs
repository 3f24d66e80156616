//! F80: a plugin of the Corefile takes names that it does not know and passes nothing on (`fallthrough`).

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{PluginUse, ServerBlock, View, is_below, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F80",
    id: "COREDNS-SHADOWED",
    class: Class::DnsServer,
    title: "hosts, template or file in the Corefile answers for names that it does not have",
    needs: &[
        layout::COREFILE,
        layout::PROBES,
        layout::SERVICES,
        layout::SLICES,
        layout::NAMESPACES,
        layout::PODS,
    ],
    latent: false,
    explains: &[Effect::Error, Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let domain = view.domain().unwrap_or_else(|| "cluster.local".to_owned());
    let canary = command::canary(view);
    let names = view.target.names.iter().map(|name| view.intended(name)).chain([canary]);
    for full in names {
        let Some((block, zone)) = view.block_of(&full) else { continue };
        let of_cluster = is_below(&full, &domain);
        if of_cluster && view.truth(&full).and_then(|truth| truth.exists()) != Some(true) {
            continue;
        }
        let rows = view.questions(&full);
        let by = |probe: &Probe| {
            let (plugin, told) = shadow(&block, &zone, &full, &probe.qtype, of_cluster)?;
            (probe.result == told).then_some(plugin)
        };
        let lost: Vec<_> = rows.iter().copied().filter(|(_, probe)| by(probe).is_some()).collect();
        let Some((_, first)) = lost.first().copied() else { continue };
        let Some(plugin) = by(first) else { continue };
        // Another failure of the same name is none of that plugin's.
        let others = rows.iter().any(|(_, probe)| {
            by(probe).is_none() && !matches!(probe.result, Outcome::Noerror | Outcome::Nxdomain)
        });
        // Which names a template's patterns fit is not worked out here.
        let sure = of_cluster && plugin.name != "template" && !others;
        if rows.iter().any(|(_, probe)| probe.result == Outcome::Noerror && !probe.answers.is_empty()) {
            continue;
        }
        let what = if plugin.words.is_empty() {
            plugin.name.clone()
        } else {
            format!("{} {}", plugin.name, plugin.words.join(" "))
        };
        let mut hit = if sure { Hit::high(summary(plugin)) } else { Hit::medium(summary(plugin)) }
            .because(format!(
                "{}:{}: `{what}` has no fallthrough, so it answers for all of its zone",
                layout::COREFILE,
                plugin.line
            ))
            .because(format!("{full}: {}, from that plugin and from no other", first.result.as_str()))
            .citing([layout::COREFILE])
            .citing(row_ids(&lost));
        if of_cluster {
            hit = hit.because("the cluster has that name").citing([layout::SERVICES]);
        }
        return Some(
            hit.fix(format!(
                "add `fallthrough` to the body of `{}` ({}:{})",
                plugin.name,
                layout::COREFILE,
                plugin.line
            ))
            .verify(command::query(view, &full, first.server, "")),
        );
    }
    None
}

fn summary(plugin: &PluginUse) -> String {
    format!("`{}` in the Corefile keeps names to itself", plugin.name)
}

/// The plugin that takes the name before the one that knows it, and what it says when it does not have it.
fn shadow<'b>(
    block: &'b ServerBlock,
    zone: &str,
    full: &str,
    qtype: &str,
    of_cluster: bool,
) -> Option<(&'b PluginUse, Outcome)> {
    block.plugins.iter().find_map(|plugin| {
        let zones: Vec<&String> = match plugin.name.as_str() {
            // hosts [FILE] [ZONES…]; a file has a slash.
            "hosts" => plugin.words.iter().filter(|word| !word.contains('/')).collect(),
            // template CLASS TYPE [ZONES…]
            "template" if takes(plugin, qtype) => plugin.words.iter().skip(2).collect(),
            // file DBFILE [ZONES…]; it stands behind kubernetes (`plugin.cfg`).
            "file" if !of_cluster => plugin.words.iter().skip(1).collect(),
            _ => return None,
        };
        let covers = if zones.is_empty() {
            is_below(full, zone)
        } else {
            zones.iter().any(|zone| is_below(full, zone))
        };
        let own_names = plugin.name == "hosts"
            && plugin.body.iter().any(|line| line.iter().skip(1).any(|word| is_same(word, full)));
        // `hosts` has no SOA to deny a name with (`plugin/hosts/hosts.go`), nor has `template`.
        let told = if plugin.name == "file" { Outcome::Nxdomain } else { Outcome::Servfail };
        (covers && !own_names && !plugin.has("fallthrough")).then_some((plugin, told))
    })
}

/// Whether a `template CLASS TYPE` takes a question, and leaves some of those that it takes without an answer: one with a pattern that fits
/// everything, or with none, has an answer to all (`plugin/template/template.go`).
fn takes(plugin: &PluginUse, qtype: &str) -> bool {
    let word = |place: usize, wanted: &str| {
        plugin
            .words
            .get(place)
            .is_some_and(|word| word.eq_ignore_ascii_case(wanted) || word.eq_ignore_ascii_case("ANY"))
    };
    let patterns: Vec<&String> = plugin
        .body
        .iter()
        .filter(|line| line.first().is_some_and(|word| word == "match"))
        .flat_map(|line| line.iter().skip(1))
        .collect();
    let fits_all = |pattern: &&String| {
        matches!(pattern.as_str(), "" | "." | ".*" | ".+" | "^.*$" | "^.+$" | "^.*" | ".*$")
    };
    word(0, "IN") && word(1, qtype) && !patterns.is_empty() && !patterns.iter().any(fits_all)
}

fn is_same(a: &str, b: &str) -> bool {
    a.trim_end_matches('.').eq_ignore_ascii_case(b.trim_end_matches('.'))
}
