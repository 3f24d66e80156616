//! F32: IPVS keeps leading UDP flows to a DNS pod that is gone.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, View};

pub(super) const RULE: Rule = Rule {
    mode: "F32",
    id: "PROXY-IPVS-UDP-STALE",
    class: Class::NotDns,
    title: "IPVS keeps leading UDP flows to a DNS pod that is gone",
    needs: &[layout::NODE_IPVS, layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Waited],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let vips = view.vips();
    let text = view.text(layout::NODE_IPVS)?;
    let endpoints = view.ready_dns_addresses(Transport::Udp);
    // A connection of `ipvsadm -Lnc`: `UDP 04:52 UDP 10.244.1.7:40000 10.96.0.10:53 10.244.9.9:53`.
    let connection = text.lines().enumerate().find_map(|(number, line)| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [protocol, expires, _, client, virtual_address, destination] = words.as_slice() else {
            return None;
        };
        let (client, vip, to): (std::net::SocketAddr, std::net::SocketAddr, std::net::SocketAddr) =
            (client.parse().ok()?, virtual_address.parse().ok()?, destination.parse().ok()?);
        let stale = protocol.eq_ignore_ascii_case("udp")
            && vip.port() == 53
            && vips.contains(&vip.ip())
            && !endpoints.iter().any(|endpoint| endpoint.ip() == to.ip());
        stale.then(|| (number + 1, (*expires).to_owned(), client, to))
    });
    let (line, expires, client, to) = connection?;
    if endpoints.is_empty() || !view.subject()?.pod.addresses.contains(&client.ip()) {
        return None;
    }
    let rows = view.rows(&Ask::from_pod().to(vips).over(Transport::Udp));
    let fixed: Vec<_> = rows.iter().filter(|(_, probe)| probe.source_port == Some(client.port())).collect();
    if fixed.iter().any(|(_, probe)| probe.result.is_answer()) {
        return None;
    }
    // Unless somebody asks from that port still, a lookup that is over has left the entry.
    if fixed.is_empty() && !view.has_socket(client.port()) {
        return None;
    }
    let hit = Hit::high(format!("IPVS leads UDP port {} to a pod that is gone", client.port()))
        .because(format!(
            "{}:{line}: {client} goes to {to}, which is no endpoint, for {expires} more",
            layout::NODE_IPVS
        ))
        .because("each packet of the client renews it; IPVS waits up to 300 s")
        .citing([layout::NODE_IPVS, layout::SLICES])
        .citing(fixed.iter().map(|(id, _)| (*id).to_owned()))
        .citing(view.evidence.symptom().map(|(id, _)| id))
        .fix("sysctl -w net.ipv4.vs.expire_nodest_conn=1, and a short --ipvs-udp-timeout of kube-proxy")
        .verify("ipvsadm -Lnc | grep ':53'   # on the node");
    Some(hit)
}
