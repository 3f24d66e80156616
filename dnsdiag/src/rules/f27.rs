//! F27: two first packets of one flow race for their translation, and one is lost: rare lookups take exactly one timeout.

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F27",
    id: "CONNTRACK-RACE",
    class: Class::NotDns,
    title: "A and AAAA from one socket race in connection tracking, and one of them is lost",
    needs: &[layout::COUNTERS, layout::SYMPTOM, layout::PODS, layout::PROBES],
    latent: false,
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let (id, symptom) = view.evidence.symptom()?;
    let seconds = symptom.seconds?;
    // glibc sends both again after 5 s, musl after 2.5 s.
    let timeout = if view.is_musl()? { 2.5 } else { 5.0 };
    let fingerprint = (seconds - timeout).abs() <= 0.4;
    let rare = symptom.share.is_none_or(|share| share < 0.5);
    let failed = view.counter("conntrack.insert_failed")?;
    let growth = failed.growth().filter(|growth| *growth > 0.0)?;
    if !fingerprint || !rare {
        return None;
    }
    let (count, max) = (view.counter("conntrack.count"), view.counter("conntrack.max"));
    if let (Some(count), Some(max)) = (count, max)
        && count.last() >= 0.95 * max.last()
    {
        return None;
    }
    let segments = view.segments();
    if segments.vip_udp.reach.fails() {
        return None;
    }
    let node = view.subject().and_then(|subject| subject.node().map(str::to_owned)).unwrap_or_default();
    let hit = Hit::medium("two questions of one socket race in conntrack")
        .because(format!("a few lookups take {seconds:.1} s: the time until both questions are sent again"))
        .because(format!("{node}: conntrack.insert_failed grew by {growth:.0}"))
        .citing([id, layout::COUNTERS])
        .citing(segments.vip_udp.ids.clone())
        .fix("a DNS cache on each node (no translation), a newer kernel, or `single-request-reopen` (glibc only)")
        .verify("conntrack -S | grep insert_failed   # on the node, before and after 100 lookups");
    Some(if segments.vip_tcp.reach.answers() {
        hit.because("over TCP nothing is lost").citing(segments.vip_tcp.ids)
    } else {
        hit
    })
}
