//! F17: the DNS pods forward to themselves, and `loop` stops them, or nothing does.

use std::net::SocketAddr;

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{LogClass, LogLine, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F17",
    id: "COREDNS-LOOP",
    class: Class::DnsServer,
    title: "the DNS servers forward to themselves",
    needs: &[layout::PODS, layout::SERVICES, layout::DNS_LOG, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Error, Effect::Slow],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let Some(line) = view.logged(LogClass::Loop) else { return goes_round(view) };
    // `loop` ends the server, at its start. Where all of them are ready, the line is of a time before.
    let containers = view.dns_containers();
    if !containers.is_empty() && containers.iter().all(|one| one.ready && one.waiting.is_none()) {
        return goes_round(view);
    }
    let mut hit = Hit::high("the DNS servers forward to themselves")
        .because(format!("{} ({}:{})", line.text.trim(), layout::DNS_LOG, line.line))
        .citing([layout::DNS_LOG, layout::PODS])
        .citing(view.segments().udp_ids())
        .citing(row_ids(&view.outside()));
    let stub = view.host_file().and_then(|host| {
        host.nameservers.into_iter().find(|line| {
            line.value.starts_with("127.")
                || line.value == "::1"
                || view.vips().iter().any(|vip| vip.to_string() == line.value)
        })
    });
    match stub {
        Some(stub) => {
            hit = hit
                .because(format!("{}:{} has {}: in a DNS pod that is the pod itself", layout::NODE_RESOLV_CONF, stub.line, stub.value))
                .citing([layout::NODE_RESOLV_CONF])
                .fix("set the kubelet's resolvConf to /run/systemd/resolve/resolv.conf, then recreate the DNS pods");
        }
        None => {
            hit =
                hit.fix("let the Corefile's forward name real upstreams instead of its own Service or pods");
        }
    }
    Some(hit.verify("netlab dns lint --corefile dns/Corefile --resolv-conf node/resolv.conf"))
}

/// Without the plugin each question goes round until sockets or patience end; the log tells whom the server waited for.
fn goes_round(view: &View<'_>) -> Option<Hit> {
    let own = view.ready_dns_addresses(Transport::Udp);
    // Another server may listen beside this one, but not on its port.
    let is_own = |to: &SocketAddr| {
        let ip = to.ip();
        to.port() == 53
            && (ip.is_loopback() || view.vips().contains(&ip) || own.iter().any(|own| own.ip() == ip))
    };
    let to = view.upstreams().into_iter().find(is_own)?;
    // A refusal would show that nobody listens there, not even this server.
    let waited = |line: &LogLine<'_>| {
        matches!(line.class, LogClass::UpstreamTimeout | LogClass::NoSocketLeft)
            && line.text.contains(&to.to_string())
    };
    let line = view.dns_log().into_iter().find(waited)?;
    let hit = Hit::high("the DNS servers forward to themselves")
        .because(format!(
            "forward names {to}: in a DNS pod that is the server itself, and no `loop` plugin stops it"
        ))
        .because(format!("{} ({}:{})", line.text.trim(), layout::DNS_LOG, line.line))
        .citing([layout::COREFILE, layout::DNS_LOG])
        .citing(row_ids(&view.outside()))
        .fix("let the Corefile's forward name real upstreams instead of its own Service or pods");
    Some(hit.verify("netlab dns lint --corefile dns/Corefile"))
}
