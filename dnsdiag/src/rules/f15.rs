//! F15: the DNS pods crash because their Corefile cannot be used.

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::{LogClass, View};

pub(super) const RULE: Rule = Rule {
    mode: "F15",
    id: "COREDNS-CRASH",
    class: Class::DnsServer,
    title: "the DNS pods crash over their Corefile",
    needs: &[layout::PODS, layout::SERVICES, layout::DNS_LOG],
    latent: false,
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
    let hit = Hit::high(format!("{} of the DNS pods crash over the Corefile", crashing.len()))
        .because(format!("{}: {} ({}:{})", first.pod, line.text.trim(), layout::DNS_LOG, line.line))
        .because(format!("it was started {} times again", first.restarts))
        .citing([layout::PODS, layout::DNS_LOG])
        .fix("mend the Corefile in the ConfigMap, then delete the DNS pods that crash")
        .verify("netlab dns lint --corefile dns/Corefile");
    Some(if view.knows(layout::COREFILE) { hit.citing([layout::COREFILE]) } else { hit })
}
