//! F38: `dnsPolicy` None without the search domains or ndots that short names need.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::kubelet::Policy;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F38",
    id: "DNSPOLICY-NONE",
    class: Class::DnsConfig,
    title: "dnsPolicy None without searches: names of the cluster need their full form",
    needs: &[layout::POD_RESOLV_CONF, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let subject = view.subject()?;
    if Policy::of(subject.dns()) != Policy::None {
        return None;
    }
    let conf = view.conf()?;
    let domain = view.domain().unwrap_or_else(|| "cluster.local".to_owned());
    let namespace = format!("{}.svc.{domain}", view.target.namespace);
    let missing = match (
        conf.search.iter().any(|suffix| suffix.trim_end_matches('.') == namespace),
        conf.options.ndots,
    ) {
        (false, _) => format!("no search domain {namespace}"),
        (true, ndots) if ndots < 2 => format!("ndots:{ndots}: names with a dot are tried as they are first"),
        (true, _) => return None,
    };
    let (name, denied) = view.denied_cluster_name()?;
    let key = view.key();
    let hit = Hit::high(format!("{key} has dnsPolicy None and no search domains"))
        .because(missing)
        .because(format!("`{name}` is asked as it is, and denied"))
        .citing([layout::PODS, layout::POD_RESOLV_CONF])
        .citing(denied)
        .fix(format!("add to dnsConfig: searches [{namespace}, svc.{domain}, {domain}], options [{{name: ndots, value: \"5\"}}]"))
        .verify(format!("netlab dns plan {name} --resolv-conf pod/resolv.conf"));
    Some(hit)
}
