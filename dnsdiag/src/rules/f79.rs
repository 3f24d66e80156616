//! F79: names of one zone go to servers of their own, and those do not answer.

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, View, is_below, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F79",
    id: "STUB-DOMAIN",
    class: Class::Upstream,
    title: "the servers of one zone (a stub domain) do not answer CoreDNS",
    needs: &[layout::COREFILE, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let failing = |probe: &Probe| probe.result == Outcome::Servfail || probe.none_answered();
    for name in &view.target.names {
        let bare = name.trim_end_matches('.');
        let Some((block, zone)) = view.block_of(bare) else { continue };
        if zone.is_empty() || block.all("kubernetes").next().is_some() {
            continue;
        }
        let Some(forward) = block.all("forward").next() else { continue };
        let rows = view.questions(bare);
        let lost: Vec<_> = rows.iter().copied().filter(|(_, probe)| failing(probe)).collect();
        let Some((_, first)) = lost.first().copied() else { continue };
        if lost.len() < rows.len() {
            continue;
        }
        // Names of other zones are answered: the DNS pods work, and the way to them.
        let fine: Vec<_> = view
            .rows(&Ask::from_pod().to([first.server]))
            .into_iter()
            .filter(|(_, probe)| {
                !is_below(&probe.name, &zone) && matches!(probe.result, Outcome::Noerror | Outcome::Nxdomain)
            })
            .collect();
        // Where other names outside fail too, it is not this zone's servers.
        let outside: Vec<_> =
            view.outside().into_iter().filter(|(_, probe)| !is_below(&probe.name, &zone)).collect();
        // Where names of the cluster are lost, too, silence says nothing of anybody's servers.
        let lossy = !view.segments().vip_udp.reach.answers();
        let told = |probe: &Probe| !lossy || probe.result == Outcome::Servfail;
        let all_down = !outside.is_empty()
            && outside.iter().all(|(_, probe)| failing(probe))
            && outside.iter().any(|(_, probe)| told(probe));
        if fine.is_empty() || all_down {
            continue;
        }
        let servers: Vec<std::net::IpAddr> =
            forward.words.iter().skip(1).filter_map(|word| word.split(':').next()?.parse().ok()).collect();
        let asked = view.seen(&Ask::default().to(servers.clone()));
        let to = forward.words.iter().skip(1).cloned().collect::<Vec<_>>().join(", ");
        // Servers that answer others leave the way from the DNS pods, which this cannot show.
        let sure = asked.reach.fails();
        let summary = format!("the servers of {zone} do not answer CoreDNS");
        let mut hit = if sure { Hit::high(summary) } else { Hit::medium(summary) }
            .because(format!("{}: {}, names of other zones are answered", first.name, first.result.as_str()))
            .because(format!("{}:{}: {zone} goes to {to}", layout::COREFILE, forward.line))
            .citing([layout::COREFILE])
            .citing(row_ids(&lost))
            .citing(row_ids(&fine));
        if sure {
            hit =
                hit.because(format!("{to}: {} ({})", asked.reach.as_str(), asked.count())).citing(asked.ids);
        } else if asked.answered > 0 {
            hit = hit.despite(asked.ids);
        }
        if let Some(line) = view.dns_log().into_iter().find(|line| line.text.contains(bare)) {
            hit = hit
                .because(format!("{}:{}: {}", layout::DNS_LOG, line.line, line.text.trim()))
                .citing([layout::DNS_LOG]);
        }
        let server = servers.first().map_or(first.server, |server| *server);
        return Some(
            hit.fix(format!("mend {to} or the way there from the DNS pods, or correct the servers of {zone} in the Corefile"))
                .verify(format!("netlab dns query {} --server {server} --netns PID  # a process of a DNS pod", first.name)),
        );
    }
    None
}
