//! F64: the search list is longer than the libc or the kubelet takes, and the suffix that is needed was cut off.

use netlab_plugin::evidence::Outcome;

use super::{Class, Confidence, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::resolv_conf::{Dialect, NoteKind, read};
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F64",
    id: "SEARCH-LIMIT",
    class: Class::DnsConfig,
    title: "the search domain that is needed was cut off by a limit",
    needs: &[
        layout::POD_RESOLV_CONF,
        layout::PROBES,
        layout::SERVICES,
        layout::SLICES,
        layout::NAMESPACES,
        layout::PODS,
    ],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

/// Who cut it off, in words; what he cut off; and where that is seen.
struct Cut {
    suffixes: Vec<String>,
    who: String,
    facts: Vec<&'static str>,
    fix: &'static str,
}

fn test(view: &View<'_>) -> Option<Hit> {
    let cut = by_libc(view).or_else(|| by_kubelet(view))?;
    for name in &view.target.names {
        if name.ends_with('.') {
            continue;
        }
        let tried = view.tried(name);
        let resolves = tried.iter().any(|full| answered(view, full));
        if resolves {
            continue;
        }
        let denied: Vec<_> = tried
            .iter()
            .flat_map(|full| view.questions(full))
            .filter(|(_, probe)| probe.result == Outcome::Nxdomain)
            .collect();
        if denied.is_empty() {
            continue;
        }
        // The suffix that would have led to it.
        let meant = cut.suffixes.iter().find(|suffix| {
            let full = format!("{name}.{}.", suffix.trim_end_matches('.'));
            answered(view, &full) || view.truth(&full).and_then(|truth| truth.exists()) == Some(true)
        });
        let mut hit = Hit::high(format!("search domains were cut off: {} of them", cut.suffixes.len()))
            .because(format!("{} took away {}", cut.who, cut.suffixes.join(", ")))
            .citing(cut.facts.clone())
            .citing(row_ids(&denied));
        if let Some(suffix) = meant {
            let full = format!("{name}.{}.", suffix.trim_end_matches('.'));
            hit = hit
                .because(format!("{full} exists and is never asked for"))
                .citing(row_ids(&view.questions(&full)))
                .verify(command::query(view, &full, denied.first()?.1.server, ""));
        } else {
            hit.confidence = Confidence::Low;
            hit = hit
                .because(format!(
                    "no name that is tried for `{name}` exists; nobody asked for those that are not"
                ))
                .verify(format!(
                    "netlab dns plan {name} --resolv-conf {} --libc {} --compare",
                    layout::POD_RESOLV_CONF,
                    view.target.libc.as_deref().unwrap_or("glibc")
                ));
        }
        return Some(hit.fix(cut.fix).fix(format!("or write more of the name than `{name}`")));
    }
    None
}

fn answered(view: &View<'_>, full: &str) -> bool {
    view.questions(full)
        .iter()
        .any(|(_, probe)| probe.result == Outcome::Noerror && !probe.answers.is_empty())
}

fn by_libc(view: &View<'_>) -> Option<Cut> {
    let conf = view.conf()?;
    if !conf.notes.iter().any(|note| note.kind == NoteKind::SearchTruncated) {
        return None;
    }
    let whole = read(view.text(layout::POD_RESOLV_CONF)?.as_bytes(), Dialect::Kubelet).search;
    let suffixes: Vec<String> = whole.into_iter().filter(|suffix| !conf.search.contains(suffix)).collect();
    (!suffixes.is_empty()).then(|| Cut {
        suffixes,
        who: format!("{} takes 6 search domains and 256 characters: it", conf.dialect),
        facts: vec![layout::POD_RESOLV_CONF],
        fix: "use an image with glibc 2.26 or later, or shorten the search list (dnsConfig, node's file)",
    })
}

fn by_kubelet(view: &View<'_>) -> Option<Cut> {
    let expected = view.expected()?;
    let searches = |cut: &&crate::kubelet::Cut| cut.why != crate::kubelet::Why::Nameservers;
    let suffixes: Vec<String> =
        expected.cut.iter().filter(searches).map(|cut| cut.entry.value.clone()).collect();
    let in_file = view.conf()?.search;
    if suffixes.is_empty() || suffixes.iter().any(|suffix| in_file.contains(suffix)) {
        return None;
    }
    let event = view.text(layout::EVENTS).is_some_and(|events| events.contains("DNSConfigForming"));
    let mut facts = vec![layout::KUBELET, layout::POD_RESOLV_CONF, layout::NODE_RESOLV_CONF, layout::PODS];
    if event {
        facts.push(layout::EVENTS);
    }
    Some(Cut {
        suffixes,
        who: if event { "kubelet (event DNSConfigForming)".to_owned() } else { "kubelet".to_owned() },
        facts,
        fix: "shorten the search list (dnsConfig, node's file), or let kubelet be 1.28 or later",
    })
}
