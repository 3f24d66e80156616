//! F75: the node throws packets away because they come in on an interface that it would not send to them through.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Reach, View};

pub(super) const RULE: Rule = Rule {
    mode: "F75",
    id: "PATH-RP-FILTER",
    class: Class::NotDns,
    title: "the reverse path filter of the node drops packets of DNS",
    needs: &[layout::PROBES, layout::SERVICES, layout::SLICES, layout::PODS],
    latent: false,
    explains: &[Effect::Lost],
    test,
};

pub(super) fn test(view: &View<'_>) -> Option<Hit> {
    let segments = view.segments();
    let asked = [&segments.vip_udp]
        .into_iter()
        .chain(segments.endpoints_udp.iter().map(|(_, seen)| seen))
        .find(|seen| matches!(seen.reach, Reach::Silent | Reach::Lossy))?;
    let subject = view.subject()?;
    let node = subject.node().unwrap_or("the node").to_owned();
    let pod: Vec<String> = subject.pod.addresses.iter().map(ToString::to_string).collect();
    let servers: Vec<String> = view
        .dns_endpoints()
        .iter()
        .map(|one| one.address.to_string())
        .chain(view.upstreams().iter().map(|one| one.ip().to_string()))
        .collect();
    // `IPv4: martian source 10.244.1.7 from 10.244.2.7, on dev eth1`: destination, then source.
    let martian =
        view.text(layout::NODE_KERNEL_LOG).unwrap_or_default().lines().enumerate().find(|(_, line)| {
            let words: Vec<&str> = line.split([' ', ',']).collect();
            line.contains("martian source")
                && words.iter().any(|word| servers.iter().any(|server| server == word))
                && words.iter().any(|word| pod.iter().any(|pod| pod == word))
        });
    let dropped = view.grown("IPReversePathFilter").into_iter().find(|(owner, _, _)| *owner == node);
    // A kernel's log tells of other days, too: a counter that was read and did not grow says that it is over.
    let read = view.evidence.counters().and_then(|(_, counters)| counters.by_owner.get(&node));
    let over = read.is_some_and(|of_node| {
        let mut of_filter = of_node.iter().filter(|(name, _)| name.ends_with("IPReversePathFilter"));
        of_filter.any(|(_, reading)| reading.growth() == Some(0.0))
    });
    if over && dropped.is_none() {
        return None;
    }
    let (summary, sure) = (format!("{node} drops answers by its reverse path filter"), martian.is_some());
    let mut hit = match (&martian, &dropped) {
        (None, None) => return None,
        _ if sure => Hit::high(summary),
        _ => Hit::medium(summary),
    }
    .because(format!("the pod's questions: {} ({})", asked.reach.as_str(), asked.count()))
    .citing(asked.ids.clone());
    if let Some((number, line)) = martian {
        hit = hit
            .because(format!("{}:{}: {}", layout::NODE_KERNEL_LOG, number + 1, line.trim()))
            .citing([layout::NODE_KERNEL_LOG]);
    }
    if let Some((_, name, growth)) = dropped {
        hit = hit
            .because(format!("{name} of {node} grew by {growth:.0} during the probes"))
            .citing([layout::COUNTERS]);
    }
    let strict: Vec<String> = view
        .evidence
        .counters()
        .and_then(|(_, counters)| counters.by_owner.get(&node))
        .into_iter()
        .flatten()
        .filter(|(name, reading)| {
            name.starts_with("sysctl.net.ipv4.conf.")
                && name.ends_with(".rp_filter")
                && (reading.last() - 1.0).abs() < f64::EPSILON
        })
        .map(|(name, _)| name.trim_start_matches("sysctl.").to_owned())
        .collect();
    if !strict.is_empty() {
        hit = hit.because(format!("{} is 1: strict", strict.join(", "))).citing([layout::COUNTERS]);
    }
    let to = view.ready_dns_addresses(Transport::Udp).first().map(std::net::SocketAddr::ip);
    let to = to.or_else(|| view.nameservers().first().copied())?;
    Some(
        hit.fix("set rp_filter to 2 (loose) on the interfaces that packets of pods come in on, or make both ways the same")
            .verify(command::query(view, &command::canary(view), to, "")),
    )
}
