//! F45: questions for IPv6 addresses are never answered.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Told, View};

pub(super) const RULE: Rule = Rule {
    mode: "F45",
    id: "AAAA-DROPPED",
    class: Class::Upstream,
    title: "AAAA is never answered, A is",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let found = view.target.names.iter().find_map(|name| {
        view.candidates(name).into_iter().find(|one| {
            one.a.as_ref().is_some_and(Told::is_good)
                && one.aaaa.as_ref().is_some_and(|told| told.result == Outcome::Silent)
        })
    })?;
    let segments = view.segments();
    // Where other questions are lost too, it is not their type.
    let others_too = view.lost_but("AAAA");
    if segments.vip_udp.reach.fails() || (others_too && !view.never_answered("AAAA")) {
        return None;
    }
    let effect = match view.libc() {
        Some(("musl", _)) => "musl gives up after 5 s (EAI_AGAIN)",
        Some(("go", _)) => "Go waits about 10 s",
        Some(_) => "glibc waits 15 s and then uses the A records",
        None => "glibc waits 15 s, musl gives up after 5 s",
    };
    let summary = format!("AAAA of {} is never answered", found.name);
    // One datagram may be lost by chance.
    let sent = view
        .questions(&found.name)
        .into_iter()
        .filter(|(_, probe)| probe.qtype == "AAAA" && probe.none_answered())
        .fold(0_u32, |sum, (_, probe)| sum.saturating_add(probe.sent));
    let hit = if sent > 1 { Hit::high(summary) } else { Hit::medium(summary) }
        .because(format!("A is; {effect}"))
        .because_if(others_too, "other questions are lost as well, now and then: that is something else")
        .citing(found.ids())
        .citing([layout::POD_RESOLV_CONF])
        .citing(segments.vip_udp.ids)
        .fix(format!(
            "find the firewall or load balancer before the servers of {} that drops AAAA",
            found.name
        ))
        .fix("until then: options no-aaaa (glibc 2.36 and newer)")
        .verify(format!("netlab dns query {} --type AAAA", found.name));
    Some(hit)
}
