//! F74: DNS pods of other nodes work where they are, and packets between the nodes are lost.

use netlab_plugin::evidence::{Position, Transport};

use super::{Class, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, Reach, View};

pub(super) const RULE: Rule = Rule {
    mode: "F74",
    id: "OVERLAY",
    class: Class::NotDns,
    title: "packets between pods of different nodes are lost",
    needs: &[
        layout::SERVICES,
        layout::SLICES,
        layout::PODS,
        layout::NAMESPACES,
        layout::POLICIES,
        layout::PROBES,
    ],
    latent: false,
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let node = view.subject()?.node()?.to_owned();
    let endpoints = view.dns_endpoints();
    let (mut lost, mut works, mut local) = (Vec::new(), Vec::new(), Vec::new());
    for to in view.ready_dns_addresses(Transport::Udp) {
        let Some(of) = endpoints.iter().find(|one| one.address == to.ip()).and_then(|one| one.node.clone())
        else {
            continue;
        };
        let seen = view.canary(&Ask::from_pod().at(to).over(Transport::Udp));
        if of == node {
            // A DNS pod here that fails too makes it something else.
            if seen.reach.fails() {
                return None;
            }
            local.extend(seen.ids);
            continue;
        }
        if seen.reach.answers() {
            return None;
        }
        if seen.reach == Reach::NotAsked {
            continue;
        }
        let denied = matches!(
            view.policy(Transport::Udp, to.ip(), to.port()).verdict,
            PolicyVerdict::DenyEgress | PolicyVerdict::DenyIngress
        );
        let at_home = [Position::OtherNode(of.clone()), Position::DnsPod].into_iter().find_map(|from| {
            let seen = view.canary(&Ask { from: Some(from), ..Ask::default() }.at(to));
            seen.reach.answers().then_some(seen)
        });
        if denied || !matches!(seen.reach, Reach::Silent | Reach::Rejected) {
            return None;
        }
        lost.push((to, of, seen));
        works.extend(at_home);
    }
    let (to, of, seen) = lost.first()?;
    if works.is_empty() {
        return None;
    }
    let from_node = view.canary(&Ask::from_node().at(*to));
    // That says why.
    if super::f75::test(view).is_some() {
        return None;
    }
    let summary = format!("packets from {node} to pods of {of} are lost");
    let mut hit = if local.is_empty() && from_node.reach == Reach::NotAsked {
        Hit::medium(summary)
    } else {
        Hit::high(summary)
    };
    hit = hit
        .because(format!(
            "{to} on {of}: {} ({}), and it answers on its own node",
            seen.reach.as_str(),
            seen.count()
        ))
        .citing(lost.iter().flat_map(|(_, _, seen)| seen.ids.clone()))
        .citing(works.iter().flat_map(|seen| seen.ids.clone()));
    if !local.is_empty() {
        hit = hit.because(format!("the DNS pod on {node} answers the same pod")).citing(local);
    }
    if from_node.reach.fails() {
        hit = hit.because(format!("{node} itself gets nothing from {to} either")).citing(from_node.ids);
    } else if from_node.reach.answers() {
        hit = hit
            .because(format!("{node} itself reaches {to}: it is the way of pods alone"))
            .citing(from_node.ids);
    }
    Some(
        hit.fix(format!("open the overlay between {node} and {of} (VXLAN: UDP 8472 or 4789), and try with `ethtool -K DEVICE tx-checksum-ip-generic off`"))
            .verify(command::query(view, &command::canary(view), to.ip(), "")),
    )
}
