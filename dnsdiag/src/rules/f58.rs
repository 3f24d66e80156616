//! F58: a StatefulSet's pod has no name of its own: its Service is missing, or is not the one that the pods name.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::records::{Hint, What};
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F58",
    id: "STATEFUL-NAME-MISSING",
    class: Class::Name,
    title: "a StatefulSet's pod has no name below that Service",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

pub(super) fn test(view: &View<'_>) -> Option<Hit> {
    let works = view.cluster_dns_works();
    if works.is_empty() {
        return None;
    }
    let domain = view.domain()?;
    for wanted in view.wanted() {
        if wanted.truth.what != What::Nothing {
            continue;
        }
        // `pod-0.svc.ns.svc.cluster.local`; a name of which the Service is missing is taken for one outside.
        let zone = format!(".svc.{domain}.");
        let bare = wanted.full.strip_suffix(&*zone).map(str::to_owned).unwrap_or_default();
        let labels: Vec<&str> = bare.split('.').collect();
        let [host, service, namespace] = labels.as_slice() else { continue };
        let key = netlab_core::model::cluster::ObjectKey::new(*namespace, *host);
        let Some(pod) = view.loaded.cluster.pods.get(&key) else { continue };
        let rows = view.questions(&wanted.full);
        let absent: Vec<_> =
            rows.iter().copied().filter(|(_, probe)| probe.result == Outcome::Nxdomain).collect();
        let Some((_, first)) = absent.first().copied() else { continue };
        if rows.iter().any(|(_, probe)| probe.result == Outcome::Noerror && !probe.answers.is_empty()) {
            continue;
        }
        let subdomain = pod.dns.as_ref().and_then(|dns| dns.subdomain.as_deref());
        let there = view
            .loaded
            .cluster
            .services
            .contains_key(&netlab_core::model::cluster::ObjectKey::new(*namespace, *service));
        let differs = wanted.truth.hints.iter().any(|hint| matches!(hint, Hint::SubdomainDiffers { .. }));
        let (why, fix) = match (there, subdomain) {
            (false, Some(subdomain)) if subdomain == *service => (
                format!("pod {key} names the Service {service} (subdomain), and there is no such Service"),
                format!(
                    "create the headless Service {namespace}/{service}, as the StatefulSet's serviceName says"
                ),
            ),
            (true, Some(subdomain)) if differs => (
                format!("pod {key} belongs below {subdomain} (subdomain), not below {service}"),
                format!(
                    "set serviceName of the StatefulSet to {service}, or ask for {host}.{subdomain}.{namespace}"
                ),
            ),
            (true, None) => (
                format!("pod {key} has no subdomain, so it has no name below {service}"),
                format!(
                    "set serviceName of the StatefulSet to {service} (hostname and subdomain of a bare pod)"
                ),
            ),
            (false, Some(subdomain)) => (
                format!("there is no Service {namespace}/{service}; pod {key} belongs below {subdomain}"),
                format!("ask for {host}.{subdomain}.{namespace}"),
            ),
            _ => continue,
        };
        return Some(
            Hit::high(format!("{host} has no name below {namespace}/{service}"))
                .because(why)
                .because(format!("{}: NXDOMAIN, which is right: {}", wanted.full, wanted.truth.why))
                .citing([layout::PODS, layout::SERVICES])
                .citing(row_ids(&absent))
                .citing(works)
                .fix(fix)
                .verify(command::query(view, &wanted.full, first.server, "")),
        );
    }
    None
}
