//! F82: the upstream failed for a moment, and a DNS pod repeats that failure from its cache.

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, LogClass, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F82",
    id: "SERVFAIL-CACHED",
    class: Class::DnsServer,
    title: "a failure of the upstream that is over is repeated from the cache",
    needs: &[layout::PROBES, layout::COREFILE, layout::DNS_LOG, layout::NODE_RESOLV_CONF],
    latent: false,
    explains: &[Effect::Error],
    test,
};

/// An answer this fast was not asked for upstream, in milliseconds.
const AT_ONCE: f64 = 20.0;

fn test(view: &View<'_>) -> Option<Hit> {
    let corefile = view.text(layout::COREFILE)?;
    let caches = corefile.lines().any(|line| line.split_ascii_whitespace().next() == Some("cache"));
    let off = corefile.lines().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        matches!(words.as_slice(), ["servfail", "0" | "0s"])
    });
    if !caches || off {
        return None;
    }
    let rows: Vec<_> =
        view.rows(&Ask::default()).into_iter().filter(|(_, probe)| view.is_outside(&probe.name)).collect();
    let at_once =
        |probe: &Probe| probe.result == Outcome::Servfail && probe.ms.is_some_and(|ms| ms < AT_ONCE);
    let (_, first) = rows.iter().copied().find(|(_, probe)| at_once(probe))?;
    let cached: Vec<_> =
        rows.iter().copied().filter(|(_, probe)| at_once(probe) && probe.name == first.name).collect();
    // That it is over is seen where the same name is answered now.
    let fine: Vec<_> = rows
        .iter()
        .copied()
        .filter(|(_, probe)| {
            probe.name == first.name && probe.result == Outcome::Noerror && !probe.answers.is_empty()
        })
        .collect();
    let logged = view.dns_log().into_iter().find(|line| {
        line.class == LogClass::UpstreamTimeout && line.text.contains(first.name.trim_end_matches('.'))
    })?;
    if fine.is_empty() {
        return None;
    }
    Some(
        Hit::medium("a failure of the upstream is served from cache")
            .because(format!(
                "{}: SERVFAIL after {:.1} ms, too fast to have been asked upstream",
                first.name,
                first.ms.unwrap_or(0.0)
            ))
            .because(format!("{}:{}: {}", layout::DNS_LOG, logged.line, logged.text.trim()))
            .because("the same name is answered elsewhere or later: the upstream is well again")
            .citing(row_ids(&cached))
            .citing(row_ids(&fine))
            .citing([layout::DNS_LOG, layout::COREFILE])
            .fix("wait 5 s (CoreDNS keeps SERVFAIL that long), or set `servfail 0` in the Corefile's cache")
            .verify(command::query(view, &first.name, first.server, "")),
    )
}
