//! F17: the DNS pods forward to themselves, and `loop` stops them.

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::{LogClass, View};

pub(super) const RULE: Rule = Rule {
    mode: "F17",
    id: "COREDNS-LOOP",
    class: Class::DnsServer,
    title: "the DNS servers forward to themselves",
    needs: &[layout::PODS, layout::SERVICES, layout::DNS_LOG],
    latent: false,
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let line = view.logged(LogClass::Loop)?;
    let mut hit = Hit::high("the DNS servers forward to themselves")
        .because(format!("{} ({}:{})", line.text.trim(), layout::DNS_LOG, line.line))
        .citing([layout::DNS_LOG, layout::PODS]);
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
