//! F77: a sidecar catches the pod's questions and answers them itself, otherwise than the cluster's DNS.

use std::net::IpAddr;

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, Reach, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F77",
    id: "ISTIO-DNS-CAPTURE",
    class: Class::NotDns,
    title: "a sidecar answers the pod's questions, otherwise than the cluster's DNS",
    needs: &[
        layout::POD_IPTABLES,
        layout::SERVICES,
        layout::SLICES,
        layout::NAMESPACES,
        layout::PODS,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Misled, Effect::Denied, Effect::Refused],
    test,
};

/// Where the sidecar listens for DNS (`istio-agent`, `pilot/cmd/pilot-agent`).
const PORT: &str = "15053";

fn test(view: &View<'_>) -> Option<Hit> {
    let Capture { file, line: number, rule } = capture(view)?;
    if let Some(hit) = nobody_there(view, file, number, rule) {
        return Some(hit);
    }
    for wanted in view.wanted() {
        let right = wanted.addresses();
        let rows = view.questions(&wanted.full);
        let wrong = |probe: &Probe| match probe.result {
            Outcome::Nxdomain => wanted.truth.exists() == Some(true),
            Outcome::Noerror => {
                let given = probe.addresses();
                let invented = given.iter().any(|address| is_invented(*address));
                let differs =
                    wanted.truth.exists() == Some(true) && !given.iter().any(|one| right.contains(one));
                !given.is_empty() && (invented || differs)
            }
            _ => false,
        };
        let wrongs: Vec<_> = rows.iter().copied().filter(|(_, probe)| wrong(probe)).collect();
        let Some((_, first)) = wrongs.first().copied() else { continue };
        let direct: Vec<_> = view
            .rows(&Ask::from_node())
            .into_iter()
            .filter(|(_, probe)| {
                probe.name.eq_ignore_ascii_case(&wanted.full)
                    && probe.qtype == first.qtype
                    && probe.result.is_answer()
                    && (probe.result, probe.addresses()) != (first.result, first.addresses())
            })
            .collect();
        if direct.is_empty() {
            continue;
        }
        let told = match first.result {
            Outcome::Noerror => first.answers.join(", "),
            other => other.as_str().to_owned(),
        };
        return Some(
            Hit::high(format!("the sidecar answers `{}`: {told}", wanted.name))
                .because(format!("{file}:{number}: {rule}"))
                .because(format!(
                    "the cluster's DNS says {}",
                    direct.first().map_or(String::new(), |(_, probe)| match probe.result {
                        Outcome::Noerror => probe.answers.join(", "),
                        other => other.as_str().to_owned(),
                    })
                ))
                .citing([file])
                .citing(row_ids(&wrongs))
                .citing(row_ids(&direct))
                .fix("turn DNS capture off for the pod (proxyMetadata ISTIO_META_DNS_CAPTURE: \"false\"), or mend the ServiceEntry or the Sidecar that hides the host")
                .verify(format!("istioctl proxy-config listeners {} -n {}", view.target.pod, view.target.namespace)),
        );
    }
    None
}

/// The rule that sends questions of the pod to a sidecar.
struct Capture<'e> {
    file: &'static str,
    line: usize,
    rule: &'e str,
}

fn capture<'e>(view: &View<'e>) -> Option<Capture<'e>> {
    let iptables = |line: &str| {
        line.starts_with("-A")
            && line.contains("--dport 53")
            && line.contains("REDIRECT")
            && line.contains(PORT)
    };
    let nft = |line: &str| line.contains("dport 53 ") && line.contains(&format!("redirect to :{PORT}"));
    let find = |file: &'static str, is_it: &dyn Fn(&str) -> bool| {
        let mut lines = view.text(file)?.lines().enumerate();
        lines.find(|(_, line)| is_it(line)).map(|(number, rule)| Capture {
            file,
            line: number + 1,
            rule: rule.trim(),
        })
    };
    find(layout::POD_IPTABLES, &iptables).or_else(|| find(layout::POD_NFT, &nft))
}

/// Everything that the pod asks is refused, whomever it asks, and the node gets answers from the same servers.
fn nobody_there(view: &View<'_>, file: &'static str, line: usize, rule: &str) -> Option<Hit> {
    let segments = view.segments();
    let refused = segments.vip_udp.reach == Reach::Refused
        && segments
            .endpoints_udp
            .iter()
            .all(|(_, seen)| matches!(seen.reach, Reach::Refused | Reach::NotAsked));
    let (_, works) = segments.node_udp.iter().find(|(_, seen)| seen.reach.answers())?;
    refused.then(|| {
        Hit::high("a sidecar takes the pod's questions and does not run")
            .because(format!("{file}:{line}: {rule}"))
            .because("whomever the pod asks, it is refused at once; its node gets answers from the same servers")
            .citing([file])
            .citing(segments.udp_ids())
            .citing(works.ids.clone())
            .fix("see why the sidecar's container does not run, or turn DNS capture off for the pod (proxyMetadata ISTIO_META_DNS_CAPTURE: \"false\")")
            .verify(format!("kubectl -n {} get pod {}", view.target.namespace, view.target.pod))
    })
}

/// 240.240.0.0/16, from which `ServiceEntry` hosts without addresses get theirs.
fn is_invented(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if matches!(v4.octets(), [240, 240, ..]))
}
