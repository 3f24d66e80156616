//! F73: answers come, and from another address than the one asked: nothing translates them back.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F73",
    id: "UNEXPECTED-SOURCE",
    class: Class::NotDns,
    title: "answers come from another address than the one that was asked",
    needs: &[layout::PROBES, layout::SERVICES, layout::SLICES, layout::PODS],
    latent: false,
    explains: &[Effect::WrongSource],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let rows: Vec<_> = view
        .rows(&Ask::from_pod())
        .into_iter()
        .filter(|(_, probe)| probe.result == Outcome::UnexpectedSource)
        .collect();
    let (_, first) = rows.first().copied()?;
    // Another socket of the same pod that gets answers from the address would make it chance.
    let through = view.canary(&Ask::from_pod().to([first.server]).port(first.port).over(first.transport));
    if through.reach.answers() {
        return None;
    }
    let from = first.replied_from.map(|address| address.to_string());
    let endpoint = view.dns_endpoints().into_iter().find(|one| Some(one.address) == first.replied_from);
    let node = view.subject()?.node().unwrap_or("the node").to_owned();
    let mut hit = Hit::high(format!("answers do not come from {}", first.server))
        .because(format!(
            "{} was asked, {} answered: a resolver throws that away",
            first.server,
            from.as_deref().unwrap_or("another address")
        ))
        .citing(row_ids(&rows));
    if let Some(endpoint) = &endpoint {
        hit = hit.because(format!(
            "that is DNS pod {}: the answer went past the node's translation",
            endpoint.pod.clone().unwrap_or_else(|| endpoint.address.to_string())
        ));
    }
    let sysctl = "sysctl.net.bridge.bridge-nf-call-iptables";
    let bridge = view.counter(sysctl).map(netlab_plugin::evidence::Reading::last);
    let same_node = endpoint.as_ref().is_some_and(|one| one.node.as_deref() == Some(&*node));
    hit = match bridge {
        Some(0.0) => hit
            .because(format!("bridge-nf-call-iptables is 0 on {node}: a bridge passes answers by the rules"))
            .citing([layout::COUNTERS])
            .fix(format!("load br_netfilter on {node} and set net.bridge.bridge-nf-call-iptables=1, for good in sysctl.d")),
        Some(_) => hit
            .citing([layout::COUNTERS])
            .fix("find why answers take another way than questions: routes on several interfaces, or a masquerade on one way only"),
        None if same_node => hit
            .because("the DNS pod is on the pod's own node, where a bridge may pass answers by the rules")
            .fix(format!("load br_netfilter on {node} and set net.bridge.bridge-nf-call-iptables=1")),
        None => hit
            .fix("find why answers take another way than questions: routes on several interfaces, or a masquerade on one way only"),
    };
    Some(hit.verify(command::query(view, &command::canary(view), first.server, "--from-any")))
}
