//! F54: an upstream sends more than was offered, or without the flag that says so: what comes cannot be read.

use netlab_plugin::evidence::{Flag, Outcome, Probe, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, LogClass, View, is_below, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F54",
    id: "UPSTREAM-OVERSIZE",
    class: Class::Upstream,
    title: "an upstream's answers are larger than what was offered and cannot be read",
    needs: &[layout::PROBES],
    latent: false,
    explains: &[Effect::Malformed, Effect::Error, Effect::Unfit],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let domain = view.domain().unwrap_or_else(|| "cluster.local".to_owned());
    let rows = view.rows(&Ask::default());
    let outside: Vec<_> = rows.into_iter().filter(|(_, probe)| !is_below(&probe.name, &domain)).collect();
    let logged = view.logged(LogClass::Overflow);
    let bad = |probe: &Probe| {
        let told = probe.result == Outcome::Malformed || is_too_long(probe);
        let failed = matches!(probe.result, Outcome::Servfail | Outcome::Formerr)
            && logged.as_ref().is_some_and(|line| {
                line.text.to_ascii_lowercase().contains(&*probe.name.to_ascii_lowercase())
            });
        told || failed
    };
    let (_, first) = outside.iter().copied().find(|(_, probe)| bad(probe))?;
    let hurt: Vec<_> =
        outside.iter().copied().filter(|(_, probe)| bad(probe) && probe.name == first.name).collect();
    // Where everything outside fails, it is not the size of one answer.
    let fine: Vec<_> = outside
        .iter()
        .copied()
        .filter(|(_, probe)| {
            probe.result == Outcome::Noerror
                && (probe.name != first.name || probe.transport != first.transport)
        })
        .collect();
    if fine.is_empty() {
        return None;
    }
    let what = match first.bytes {
        Some(bytes) if is_too_long(first) => {
            format!("{bytes} bytes over UDP and no word of TCP, where {} were offered", offered(first))
        }
        _ => first.result.as_str().to_owned(),
    };
    let mut hit = Hit::high("an upstream sends answers that cannot be read".to_owned())
        .because(format!("{} {}: {what}", first.name, first.qtype))
        .because("other names outside, or the same over TCP, are answered")
        .citing(row_ids(&hurt))
        .citing(row_ids(&fine));
    if let Some(line) = logged {
        hit = hit
            .because(format!("{}:{}: {}", layout::DNS_LOG, line.line, line.text.trim()))
            .citing([layout::DNS_LOG]);
    } else if !is_too_long(first) {
        hit.confidence = super::Confidence::Medium;
    }
    Some(
        hit.fix("set `bufsize 1232` in the Corefile's block, or `force_tcp` in its forward")
            .fix("or forward to another upstream: this one ignores the size that it is offered")
            .verify(command::query(view, &first.name, first.server, "--edns 1232")),
    )
}

/// What the asker takes over UDP: 512 bytes (RFC 1035 section 4.2.1), or what it offered (RFC 6891 section 6.2.3).
fn offered(probe: &Probe) -> u32 {
    probe.edns.map_or(512, |size| u32::from(size).max(512))
}

/// More than that without TC: a resolver with a buffer of that size cannot read it.
fn is_too_long(probe: &Probe) -> bool {
    probe.transport == Transport::Udp
        && probe.result == Outcome::Noerror
        && !probe.has(Flag::Tc)
        && probe.bytes.is_some_and(|bytes| bytes > offered(probe))
}
