//! F27: two first packets of one flow race for their translation, and one is lost: rare lookups take exactly one timeout.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F27",
    id: "CONNTRACK-RACE",
    class: Class::NotDns,
    title: "A and AAAA from one socket race in connection tracking, and one of them is lost",
    needs: &[layout::COUNTERS, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Waited],
    test,
};

const FIX: &str =
    "a DNS cache on each node (no translation), a newer kernel, or `single-request-reopen` (glibc only)";
const VERIFY: &str = "conntrack -S | grep insert_failed   # on the node, before and after 100 lookups";

fn test(view: &View<'_>) -> Option<Hit> {
    by_pairs(view).or_else(|| by_symptom(view))
}

/// Pairs were asked from one socket, as C libraries ask, and lost halves that alone are answered, while the kernel counted
/// insertions that failed. Without that count it is no race: a filter may drop all but the first packet of a flow.
fn by_pairs(view: &View<'_>) -> Option<Hit> {
    let (lost, others) = view.lost_in_company()?;
    let failed = view.counter("conntrack.insert_failed")?;
    let growth = failed.growth().filter(|growth| *growth > 0.0)?;
    let summary = "two questions of one socket race in conntrack";
    let hit = if growth >= f64::from(lost.halves) { Hit::high(summary) } else { Hit::medium(summary) };
    let node = view.subject().and_then(|subject| subject.node().map(str::to_owned)).unwrap_or_default();
    let mut hit = hit
        .because(format!("{}: {}", lost.server.ip(), lost.words()))
        .because(format!("{node}: conntrack.insert_failed grew by {growth:.0} meanwhile"))
        .citing(lost.ids)
        .citing([layout::COUNTERS]);
    let untouched = others.iter().find(|one| one.halves == 0 && one.pairs > 0);
    if let Some(other) = untouched {
        hit = hit
            .because(format!("{}, asked without a translation, answers both", other.server.ip()))
            .citing(other.ids.clone());
    }
    Some(hit.fix(FIX).verify(VERIFY))
}

fn by_symptom(view: &View<'_>) -> Option<Hit> {
    let (id, symptom) = view.evidence.symptom()?;
    let seconds = symptom.seconds?;
    // glibc sends both again after 5 s, musl after 2.5 s.
    let timeout = if view.is_musl()? { 2.5 } else { 5.0 };
    let fingerprint = (seconds - timeout).abs() <= 0.4;
    let rare = symptom.share.is_some_and(|share| share < 0.5);
    let failed = view.counter("conntrack.insert_failed")?;
    let growth = failed.growth().filter(|growth| *growth > 0.0)?;
    // Where the recorded answers take as long each time, nothing rare is needed.
    if !fingerprint || !rare || view.model_takes(seconds) {
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
        .fix(FIX)
        .verify(VERIFY);
    Some(if segments.vip_tcp.reach.answers() {
        hit.because("over TCP nothing is lost").citing(segments.vip_tcp.ids)
    } else {
        hit
    })
}
