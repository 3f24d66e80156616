//! F53: an answer does not fit into 512 bytes, and the application takes the part that does.

use netlab_plugin::evidence::{Flag, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F53",
    id: "UDP-512-LIMIT",
    class: Class::DnsConfig,
    title: "the application uses a truncated answer and never asks over TCP",
    needs: &[
        layout::PROBES,
        layout::SYMPTOM,
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
    let (_, symptom) = view.evidence.symptom()?;
    for wanted in view.wanted() {
        let rows = view.questions(&wanted.full);
        let Some((cut_id, cut)) = rows.iter().copied().find(|(_, probe)| {
            probe.transport == Transport::Udp && probe.edns.is_none() && probe.has(Flag::Tc)
        }) else {
            continue;
        };
        let whole: Vec<_> = rows
            .iter()
            .copied()
            .filter(|(_, probe)| {
                probe.server == cut.server
                    && probe.qtype == cut.qtype
                    && probe.transport == Transport::Tcp
                    && probe.addresses().len() > cut.addresses().len()
            })
            .collect();
        let Some((_, full)) = whole.first() else { continue };
        let (part, all) = (cut.addresses(), full.addresses());
        let trimmed = !symptom.uses.is_empty()
            && symptom.uses.len() < all.len()
            && symptom.uses.iter().all(|address| part.contains(address));
        if !trimmed {
            continue;
        }
        return Some(
            Hit::high(format!("{} takes {} of {} addresses", view.target, symptom.uses.len(), all.len()))
                .because(format!(
                    "{} has {} addresses; a datagram of 512 bytes holds {}, and says that it is truncated",
                    wanted.full,
                    all.len(),
                    part.len()
                ))
                .because("TCP brings all of them, and the application uses none that only TCP has")
                .citing([cut_id])
                .citing(row_ids(&whole))
                .citing([layout::SYMPTOM])
                .fix("let the application's resolver ask again over TCP, or offer 1232 bytes by EDNS (`options edns0` for glibc)")
                .verify(command::query(view, &wanted.full, cut.server, "--tcp")),
        );
    }
    None
}
