//! F21: every answer is slow, those from the servers' own memory too: the DNS pods are overloaded.

use netlab_plugin::evidence::{Outcome, Position, Transport};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, View, is_canary, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F21",
    id: "COREDNS-OVERLOAD",
    class: Class::DnsServer,
    title: "the DNS pods answer everything, and slowly: too much is asked of them",
    needs: &[layout::PROBES, layout::COUNTERS, layout::PODS, layout::SERVICES],
    latent: false,
    explains: &[Effect::Slow],
    test,
};

/// An answer from memory takes about a millisecond; this is what nobody would call near.
const SLOW: f64 = 100.0;

fn test(view: &View<'_>) -> Option<Hit> {
    let rows = view.rows(&Ask::from_pod().over(Transport::Udp));
    let canaries: Vec<_> = rows.iter().filter(|(_, probe)| is_canary(&probe.name)).collect();
    let slow: Vec<_> = canaries.iter().filter(|(_, probe)| probe.ms.is_some_and(|ms| ms >= SLOW)).collect();
    let answered =
        canaries.iter().all(|(_, probe)| matches!(probe.result, Outcome::Noerror | Outcome::Nxdomain));
    if canaries.is_empty() || !answered || slow.len() * 2 < canaries.len() {
        return None;
    }
    let mut signs = Vec::new();
    for ending in ["nr_throttled", "udp.RcvbufErrors"] {
        for (owner, name, growth) in view.grown(ending) {
            if owner.starts_with("pod/") {
                signs.push(format!("{owner}: {name} grew by {growth:.0}"));
            }
        }
    }
    // In the DNS pod's own namespace there is no network to be slow.
    let own: Vec<_> = view
        .rows(&Ask { from: Some(Position::DnsPod), ..Ask::default() })
        .into_iter()
        .filter(|(_, probe)| is_canary(&probe.name) && probe.all_answered())
        .collect();
    let own_slow: Vec<_> =
        own.iter().copied().filter(|(_, probe)| probe.ms.is_some_and(|ms| ms >= SLOW)).collect();
    if !own_slow.is_empty() && own_slow.len() == own.len() {
        let ms = own_slow.iter().filter_map(|(_, probe)| probe.ms).fold(0.0, f64::max);
        signs.push(format!("asked from their own namespaces they take up to {ms:.0} ms: it is no network"));
    }
    let sign = signs.first()?;
    let slowest = slow.iter().filter_map(|(_, probe)| probe.ms).fold(0.0, f64::max);
    let hit = Hit::medium("the DNS pods answer slowly: they are overloaded")
        .because(format!(
            "{} of {} answers from their memory took over {SLOW:.0} ms, up to {slowest:.0} ms",
            slow.len(),
            canaries.len()
        ))
        .because(sign.clone())
        .citing(slow.iter().map(|(id, _)| (*id).to_owned()))
        .citing(row_ids(&own_slow))
        .citing([layout::COUNTERS])
        .fix("more DNS pods or CPU, a cache on each node, and fewer questions (ndots, trailing dots)")
        .verify("kubectl -n kube-system top pods -l k8s-app=kube-dns");
    Some(hit)
}
