//! F15: the DNS pods crash because their Corefile cannot be used.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{LogClass, View};

pub(super) const RULE: Rule = Rule {
    mode: "F15",
    id: "COREDNS-CRASH",
    class: Class::DnsServer,
    title: "the DNS pods crash over their Corefile",
    needs: &[layout::PODS, layout::SERVICES, layout::DNS_LOG, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let crashing: Vec<_> = view
        .dns_containers()
        .into_iter()
        .filter(|one| {
            !one.ready
                && (one.waiting.as_deref() == Some("CrashLoopBackOff")
                    || one.ended.as_deref() == Some("Error"))
        })
        .collect();
    let first = crashing.first()?;
    let line = view.logged(LogClass::Corefile)?;
    let summary = format!("{} of the DNS pods crash over the Corefile", crashing.len());
    // A log tells of other days, too: where the Corefile is in order now, they may crash over something else.
    let in_order = view.knows(layout::COREFILE) && view.corefile_refused().is_none();
    let hit = if in_order { Hit::medium(summary).despite([layout::COREFILE]) } else { Hit::high(summary) }
        .because(format!("{}: {} ({}:{})", first.pod, line.text.trim(), layout::DNS_LOG, line.line))
        .because(format!("it was started {} times again", first.restarts))
        .citing([layout::PODS, layout::DNS_LOG])
        .citing(view.segments().udp_ids())
        .fix("mend the Corefile in the ConfigMap, then delete the DNS pods that crash")
        .verify("netlab dns lint --corefile dns/Corefile");
    Some(if view.knows(layout::COREFILE) && !in_order { hit.citing([layout::COREFILE]) } else { hit })
}
