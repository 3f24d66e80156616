//! F77: a sidecar catches the pod's questions and answers them itself, otherwise than the cluster's DNS.

use std::net::IpAddr;

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, View, row_ids};

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
    test,
};

/// Where the sidecar listens for DNS (`istio-agent`, `pilot/cmd/pilot-agent`).
const PORT: &str = "15053";

fn test(view: &View<'_>) -> Option<Hit> {
    let text = view.text(layout::POD_IPTABLES)?;
    let (number, rule) = text.lines().enumerate().find(|(_, line)| {
        line.starts_with("-A")
            && line.contains("--dport 53")
            && line.contains("REDIRECT")
            && line.contains(PORT)
    })?;
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
                .because(format!("{}:{}: {}", layout::POD_IPTABLES, number + 1, rule.trim()))
                .because(format!(
                    "the cluster's DNS says {}",
                    direct.first().map_or(String::new(), |(_, probe)| match probe.result {
                        Outcome::Noerror => probe.answers.join(", "),
                        other => other.as_str().to_owned(),
                    })
                ))
                .citing([layout::POD_IPTABLES])
                .citing(row_ids(&wrongs))
                .citing(row_ids(&direct))
                .fix("turn DNS capture off for the pod (proxyMetadata ISTIO_META_DNS_CAPTURE: \"false\"), or mend the ServiceEntry or the Sidecar that hides the host")
                .verify(format!("istioctl proxy-config listeners {} -n {}", view.target.pod, view.target.namespace)),
        );
    }
    None
}

/// 240.240.0.0/16, from which `ServiceEntry` hosts without addresses get theirs.
fn is_invented(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if matches!(v4.octets(), [240, 240, ..]))
}
