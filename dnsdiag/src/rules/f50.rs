//! F50: an answer is truncated, and TCP to the server that says so does not work.

use netlab_plugin::evidence::{Flag, Outcome, Position, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F50",
    id: "TCP-FALLBACK",
    class: Class::NotDns,
    title: "a truncated answer should come over TCP, and TCP does not get through",
    needs: &[
        layout::POD_RESOLV_CONF,
        layout::PROBES,
        layout::SERVICES,
        layout::SLICES,
        layout::NAMESPACES,
        layout::PODS,
    ],
    latent: false,
    explains: &[Effect::Unfit],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let servers = view.nameservers();
    for name in &view.target.names {
        // Another nameserver may help out; then there is nothing to mend.
        let replay = view.replay(name);
        let runs = replay.as_ref().map(|replay| replay.plan.runs.as_slice()).unwrap_or_default();
        if !runs.is_empty() && runs.iter().all(|run| run.outcome.rc == Some(0)) {
            continue;
        }
        for full in &view.tried(name) {
            let rows = view.questions(full);
            let Some((cut_id, cut)) = rows.iter().copied().find(|(_, probe)| {
                probe.transport == Transport::Udp && probe.has(Flag::Tc) && servers.contains(&probe.server)
            }) else {
                continue;
            };
            let tcp: Vec<_> = rows
                .iter()
                .copied()
                .filter(|(_, probe)| probe.transport == Transport::Tcp && probe.server == cut.server)
                .collect();
            let Some((_, failed)) = tcp.first().copied() else { continue };
            if tcp.iter().any(|(_, probe)| probe.answers_seen() > 0) {
                continue;
            }
            // Small answers come over TCP, large ones are lost: it is the size.
            let small_come = view
                .rows(&Ask { from: Some(Position::Pod), ..Ask::default() }.to([cut.server]).port(cut.port))
                .iter()
                .any(|(_, probe)| probe.transport == Transport::Tcp && probe.answers_seen() > 0);
            if small_come && failed.result == Outcome::Silent {
                continue;
            }
            let mut hit = Hit::high(format!("TCP to {} fails; `{name}` needs it", cut.server))
                .because(format!("{full} {}: truncated over UDP, so it is asked again over TCP", cut.qtype))
                .because(format!("TCP to {}: {}", cut.server, failed.result.as_str()))
                .citing([cut_id])
                .citing(row_ids(&tcp))
                .fix(format!("let TCP 53 through to {} (firewall, security group, its listener)", cut.server))
                .verify(command::query(view, full, cut.server, "--tcp"));
            let others: Vec<_> = rows
                .iter()
                .copied()
                .filter(|(_, probe)| {
                    probe.transport == Transport::Tcp
                        && probe.server != cut.server
                        && probe.answers_seen() > 0
                })
                .collect();
            if let (Some(libc), Some(run)) = (view.resolver(), runs.first()) {
                hit = hit.because(format!("{libc} then reports: {}", run.outcome.text));
            } else if !others.is_empty() {
                continue;
            }
            if !others.is_empty() {
                hit = hit
                    .because("other servers do answer over TCP: it is the way to this one, not the protocol")
                    .citing(row_ids(&others));
            }
            return Some(hit);
        }
    }
    None
}
