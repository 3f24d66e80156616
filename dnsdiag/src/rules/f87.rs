//! F87: a line of `/etc/hosts` answers the name, so DNS is never asked.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Candidate, View};

pub(super) const RULE: Rule = Rule {
    mode: "F87",
    id: "HOSTS-FILE",
    class: Class::DnsConfig,
    title: "a line of /etc/hosts (hostAliases) answers the name with another address",
    needs: &[layout::POD_HOSTS, layout::PODS, layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Misled],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let subject = view.subject()?;
    if let Some(order) = view.name_order()
        && order.place("files").is_none_or(|files| order.place("dns").is_some_and(|dns| dns < files))
    {
        return None;
    }
    for name in &view.target.names {
        let lines = view.in_hosts(name);
        let Some(first) = lines.first() else { continue };
        // The pod's own name stands there by right.
        if subject.pod.addresses.contains(&first.address) {
            continue;
        }
        let found = view.candidates(name).into_iter().find(Candidate::resolves);
        let ids = found.iter().flat_map(Candidate::ids).collect::<Vec<_>>();
        let given: Vec<_> = found
            .iter()
            .flat_map(|one| view.questions(&one.name))
            .flat_map(|(_, probe)| probe.addresses())
            .collect();
        if given.is_empty() || lines.iter().any(|line| given.contains(&line.address)) {
            continue;
        }
        // Who is told that there is no such name was not told that address.
        if view.error_class().is_some() {
            continue;
        }
        let alias = subject
            .host_aliases()
            .iter()
            .any(|(_, names)| names.iter().any(|alias| alias.eq_ignore_ascii_case(name)));
        let told: Vec<String> = given.iter().map(ToString::to_string).collect();
        let summary = format!("/etc/hosts answers `{name}`: {}", first.address);
        // Where nobody complains it may be meant so.
        let failed = view.connects().iter().any(|(_, probe)| {
            probe.server == first.address && probe.result != netlab_plugin::evidence::Outcome::Noerror
        });
        let complains = failed || view.evidence.symptom().is_some();
        let mut hit = if complains { Hit::high(summary) } else { Hit::medium(summary) }
            .because(format!(
                "{}:{} gives {}; DNS has {}",
                layout::POD_HOSTS,
                first.line,
                first.address,
                told.join(", ")
            ))
            .because("a name that is found there is never asked for")
            .citing([layout::POD_HOSTS])
            .citing(ids);
        hit = if alias {
            hit.because("it comes from spec.hostAliases")
                .citing([layout::PODS])
                .fix(format!("take `{name}` out of spec.hostAliases and recreate {}", view.target))
        } else {
            hit.fix(format!("find what writes line {} into the container's /etc/hosts (image, start script, the node's file)", first.line))
        };
        return Some(hit.verify(format!(
            "kubectl -n {} exec {} -- getent ahosts {name}",
            view.target.namespace, view.target.pod
        )));
    }
    None
}
