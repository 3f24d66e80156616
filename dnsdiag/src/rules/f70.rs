//! F70: the pod asks its node's own DNS cache, and the cache is not there: no listener, or not even the address.

use netlab_plugin::evidence::{Position, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, Reach, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F70",
    id: "NODELOCAL-DOWN",
    class: Class::DnsServer,
    title: "the node's DNS cache is down, and its pods ask it alone",
    needs: &[layout::POD_RESOLV_CONF, layout::SERVICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let cache = view.node_local()?;
    let address = cache.address;
    let from_pod = view.canary(&Ask::from_pod().to([address]).over(Transport::Udp));
    let from_node = view.canary(&Ask::from_node().to([address]).over(Transport::Udp));
    // An answer to the node, or to a pod over TCP, shows that the cache runs: then something lies between.
    let from_pod_tcp = view.canary(&Ask::from_pod().to([address]).over(Transport::Tcp));
    if !from_pod.reach.fails() || from_node.answered + from_pod_tcp.answered > 0 {
        return None;
    }
    let gone = cache.listens == Some(false) || cache.on_interface == Some(false);
    if !(gone || from_node.reach.fails() || from_pod.reach == Reach::Refused) {
        return None;
    }
    let node = view.subject()?.node().unwrap_or("the node").to_owned();
    let summary = format!("the DNS cache of {node} is down");
    let mut hit = if gone || from_node.reach.fails() { Hit::high(summary) } else { Hit::medium(summary) }
        .because(format!("{address}: {} ({})", from_pod.reach.as_str(), from_pod.count()))
        .citing(from_pod.ids)
        .citing([layout::POD_RESOLV_CONF]);
    if from_node.reach.fails() {
        hit = hit
            .because(format!("the node itself gets no answer from it ({})", from_node.count()))
            .citing(from_node.ids);
    }
    match (cache.on_interface, cache.listens) {
        (Some(false), _) => {
            hit = hit
                .because(format!("no interface of the node has {address}"))
                .citing([layout::NODE_ADDRESSES]);
        }
        (_, Some(false)) => {
            hit = hit
                .because(format!(
                    "the node has {address}, and nothing listens there: the cache ended without clearing up"
                ))
                .citing([layout::NODE_ADDRESSES]);
        }
        _ => {}
    }
    let elsewhere: Vec<_> = view
        .rows(&Ask::default().to([address]))
        .into_iter()
        .filter(|(_, probe)| matches!(probe.from, Position::OtherNode(_)) && probe.all_answered())
        .collect();
    if !elsewhere.is_empty() {
        hit = hit.because("other nodes get answers from theirs").citing(row_ids(&elsewhere));
    }
    let behind = view.segments();
    if behind.endpoints_answer() {
        hit = hit
            .because("the cluster's DNS pods answer the pod directly")
            .citing(behind.endpoints_udp.iter().flat_map(|(_, seen)| seen.ids.clone()));
    }
    let pods = view
        .loaded
        .cluster
        .pods
        .iter()
        .find(|(key, pod)| key.name.starts_with("node-local-dns") && pod.node.as_deref() == Some(&*node));
    if let Some((key, _)) = pods
        && let Some(state) = view.containers(key).into_iter().find(|state| !state.ready)
    {
        let why = state.waiting.or(state.ended).unwrap_or_else(|| "not ready".to_owned());
        hit = hit.because(format!("{key}: {why}, {} restarts", state.restarts)).citing([layout::PODS]);
    }
    let what =
        pods.map_or_else(|| format!("the node-local-dns pod of {node}"), |(key, _)| format!("pod {key}"));
    Some(
        hit.fix(format!("restart {what}, and see why it ended (memory limit, liveness probe)"))
            .fix("until then remove the cache's addresses and its rules from the node, so that questions reach the Service")
            .verify(command::query(view, &command::canary(view), address, "")),
    )
}
