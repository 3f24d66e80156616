//! F16: the Corefile is broken, and the DNS pods still run with the one before: the next restart ends them.

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::{LogClass, View};

pub(super) const RULE: Rule = Rule {
    mode: "F16",
    id: "COREDNS-CONFIG",
    class: Class::DnsServer,
    title: "the Corefile would be refused; the DNS pods still run with the former one",
    needs: &[layout::COREFILE, layout::PODS, layout::SERVICES, layout::PROBES],
    latent: true,
    explains: &[],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let problem = view.corefile_refused()?;
    let segments = view.segments();
    // Once a pod has started anew with it, it is a failure and no danger any more.
    if view.dns_containers().iter().any(|one| one.waiting.is_some()) || !segments.vip_udp.reach.answers() {
        return None;
    }
    let place = problem.position;
    let mut hit = Hit::high("the Corefile is broken; the next restart ends DNS")
        .because(format!("{}:{}:{}: {}", layout::COREFILE, place.line, place.column, problem.message))
        .because("reload keeps the former configuration, so everything answers until a DNS pod restarts")
        .citing([layout::COREFILE])
        .citing(segments.vip_udp.ids)
        .fix(format!("before any DNS pod or node restarts: {}", problem.hint))
        .verify("netlab dns lint --corefile dns/Corefile");
    if let Some(line) = view.logged(LogClass::ReloadFailed) {
        let said = format!("the servers say so: {} ({}:{})", line.text.trim(), layout::DNS_LOG, line.line);
        hit = hit.because(said).citing([layout::DNS_LOG]);
    }
    Some(hit)
}
