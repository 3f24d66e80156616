//! F23: names outside resolve, and slowly; names of the cluster do not wait.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F23",
    id: "UPSTREAM-SLOW",
    class: Class::Upstream,
    title: "the servers that CoreDNS forwards to are slow",
    needs: &[layout::PROBES, layout::COREFILE],
    latent: false,
    explains: &[Effect::Slow],
    test,
};

/// A recursor asks around in well under this.
const SLOW: f64 = 500.0;

fn test(view: &View<'_>) -> Option<Hit> {
    let segments = view.segments();
    let outside = view.outside();
    let slow: Vec<_> = outside.iter().filter(|(_, probe)| probe.ms.is_some_and(|ms| ms >= SLOW)).collect();
    let answered =
        outside.iter().all(|(_, probe)| matches!(probe.result, Outcome::Noerror | Outcome::Nxdomain));
    let near = segments.vip_udp.slowest?;
    let (_, slowest) = slow
        .iter()
        .map(|(id, probe)| (id, probe.ms.unwrap_or_default()))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    if !answered || segments.vip_udp.answered == 0 || near * 10.0 > slowest {
        return None;
    }
    let upstreams: Vec<String> = view.upstreams().iter().map(ToString::to_string).collect();
    let name = slow.first().map(|(_, probe)| probe.name.clone()).unwrap_or_default();
    // One name that nobody asked for before takes its time at any recursor.
    let reported = view.evidence.symptom().is_some_and(|(_, symptom)| symptom.seconds.is_some());
    let summary = "the upstreams are slow";
    let mut hit = if slow.len() > 1 || reported { Hit::high(summary) } else { Hit::medium(summary) }
        .because(format!(
            "{name} takes {slowest:.0} ms, a name of the cluster {near:.1} ms from the same server"
        ))
        .citing(slow.iter().map(|(id, _)| (*id).to_owned()))
        .citing(segments.vip_udp.ids)
        .citing([layout::COREFILE]);
    let cached = outside.iter().find(|(_, probe)| probe.ms.is_some_and(|ms| ms < SLOW / 10.0));
    if let Some((id, probe)) = cached {
        hit = hit.because(format!("asked again, {} comes from the cache", probe.name)).citing([*id]);
    }
    Some(
        hit.fix(format!("look into {}, or forward to others; a longer cache hides it", upstreams.join(", ")))
            .verify(format!(
                "netlab dns query {name} --server {}",
                upstreams.first().cloned().unwrap_or_default()
            )),
    )
}
