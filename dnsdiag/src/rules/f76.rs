//! F76: Cilium's DNS proxy stands between the pod and its servers, and does not let this name through.

use netlab_plugin::evidence::{Outcome, Position};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F76",
    id: "DNS-PROXY",
    class: Class::NotDns,
    title: "a DNS policy (toFQDNs) refuses the name on the pod's node",
    needs: &[layout::POD_RESOLV_CONF, layout::POLICIES, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let policies = view.text(layout::POLICIES)?;
    let line = policies.lines().position(|line| {
        let line = line.trim();
        !line.starts_with('#') && (line.contains("matchPattern:") || line.contains("matchName:"))
    })?;
    if !policies.contains("CiliumNetworkPolicy") && !policies.contains("CiliumClusterwideNetworkPolicy") {
        return None;
    }
    for name in &view.target.names {
        for full in view.tried(name) {
            let refused: Vec<_> = view
                .questions(&full)
                .into_iter()
                .filter(|(_, probe)| matches!(probe.result, Outcome::Refused | Outcome::Nxdomain))
                .collect();
            let Some((_, first)) = refused.first().copied() else { continue };
            // The same server gives others another answer: it is not the server that refuses.
            let others: Vec<_> = view
                .rows(&Ask { from: None, ..Ask::default() })
                .into_iter()
                .filter(|(_, probe)| {
                    matches!(probe.from, Position::Node | Position::DnsPod | Position::OtherNode(_))
                        && probe.name.eq_ignore_ascii_case(&full)
                        && probe.qtype == first.qtype
                        && probe.result.is_answer()
                        && probe.result != first.result
                        && probe.result != Outcome::Servfail
                })
                .collect();
            if others.is_empty() {
                continue;
            }
            let other = others.first().map(|(_, probe)| probe.result.as_str()).unwrap_or_default();
            let code = first.result.as_str();
            return Some(
                Hit::high(format!("a DNS policy answers `{name}` with {code}"))
                    .because(format!("{full}: {code} for the pod, {other} for its node from the same servers"))
                    .because(format!("{}:{} lets named domains through only", layout::POLICIES, line + 1))
                    .citing([layout::POLICIES])
                    .citing(row_ids(&refused))
                    .citing(row_ids(&others))
                    .fix(format!("admit {full} in the policy's rules.dns (matchName or matchPattern), suffixes of the search list included"))
                    .verify(command::query(view, &full, first.server, "")),
            );
        }
    }
    None
}
