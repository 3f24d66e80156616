//! F05: the pod asks a cache on its node, which no `podSelector` can match.

use netlab_plugin::evidence::Transport;

use super::dropped::dropped;
use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, Server, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F05",
    id: "POLICY-NODELOCAL-IPBLOCK",
    class: Class::NotDns,
    title: "an egress policy admits the DNS pods, and the pod asks the cache on its node",
    needs: &[
        layout::POLICIES,
        layout::PODS,
        layout::NAMESPACES,
        layout::SERVICES,
        layout::POD_RESOLV_CONF,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Lost, Effect::Rejected, Effect::NotPermitted],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let cache =
        view.nameservers().into_iter().find(|address| view.server(*address) == Some(Server::LinkLocal))?;
    let answer = view.policy(Transport::Udp, cache, 53);
    if answer.verdict != PolicyVerdict::DenyEgress {
        return None;
    }
    let asked = view.rows(&Ask::from_pod().to([cache]).over(Transport::Udp));
    let from_node = view.canary(&Ask::from_node().to([cache]));
    // Where the cache does not answer its own node either, the policy is not what is in the way.
    if !dropped(&asked) || from_node.reach.fails() {
        return None;
    }
    let subject = view.key();
    let hit = Hit::high(format!("policy keeps {subject} from its node's DNS cache"))
        .because(match answer.isolated_by().as_slice() {
            [] => answer.cite(),
            policies => format!("{} isolates it, and no rule admits {cache}", policies.join(", ")),
        })
        .because("the cache uses the host's network: a podSelector never matches it")
        .citing([layout::POLICIES, layout::POD_RESOLV_CONF])
        .citing(row_ids(&asked))
        .citing(from_node.ids)
        .fix(format!(
            "admit UDP 53 and TCP 53 to ipBlock {cache}/32 (and, with some CNIs, to the node's own addresses)"
        ))
        .verify(format!("netlab policy prove --from {subject} --to {cache} --port 53/udp"));
    Some(hit)
}
