//! F46: the question for IPv4 addresses is never answered, that for IPv6 addresses is, without any: glibc then says that there
//! is no such name.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Told, View};

pub(super) const RULE: Rule = Rule {
    mode: "F46",
    id: "A-DROPPED",
    class: Class::Upstream,
    title: "A is never answered, AAAA is, without records",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let found = view.target.names.iter().find_map(|name| {
        view.candidates(name).into_iter().find(|one| {
            one.a.as_ref().is_some_and(|told| told.result == Outcome::Silent)
                && one.aaaa.as_ref().is_some_and(Told::is_nodata)
        })
    })?;
    let segments = view.segments();
    // Where other questions are lost too, it is not their type.
    if segments.vip_udp.reach.fails() || (view.lost_but("A") && !view.never_answered("A")) {
        return None;
    }
    let summary = format!("A of {} is never answered", found.name);
    // One datagram may be lost by chance.
    let sent = view
        .questions(&found.name)
        .into_iter()
        .filter(|(_, probe)| probe.qtype == "A" && probe.none_answered())
        .fold(0_u32, |sum, (_, probe)| sum.saturating_add(probe.sent));
    let hit = if sent > 1 { Hit::high(summary) } else { Hit::medium(summary) }
        .because("AAAA is, without records: after 15 s glibc says \"Name or service not known\", which is not true")
        .citing(found.ids())
        .citing([layout::POD_RESOLV_CONF])
        .citing(segments.vip_udp.ids)
        .fix(format!("find what drops the questions for A on the way to the servers of {}", found.name))
        .verify(format!("netlab dns query {} --type A", found.name));
    Some(hit)
}
