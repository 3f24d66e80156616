//! F78: `autopath` answers with another name than the one that the pod's search list leads to.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F78",
    id: "AUTOPATH",
    class: Class::DnsServer,
    title: "autopath follows another search list than the pod's",
    needs: &[layout::COREFILE, layout::POD_RESOLV_CONF, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Misled],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let blocks = view.server_blocks();
    let (block, autopath) = blocks.iter().find_map(|block| Some((block, block.all("autopath").next()?)))?;
    let verified = block.all("kubernetes").any(|plugin| {
        plugin.body.iter().any(|line| line.iter().map(String::as_str).eq(["pods", "verified"]))
    });
    let subject = view.subject()?;
    let own_list =
        subject.dns().and_then(|dns| dns.config.as_ref()).is_some_and(|config| !config.searches.is_empty());
    for name in &view.target.names {
        let candidates = view.candidates(name);
        let known = |full: &str| candidates.iter().any(|one| one.name.eq_ignore_ascii_case(full));
        for one in &candidates {
            let rows = view.questions(&one.name);
            let Some((id, probe, target)) = rows.iter().find_map(|(id, probe)| {
                let target = probe.answers.iter().find_map(|answer| answer.strip_prefix("CNAME "))?;
                (probe.result == Outcome::Noerror && !known(target)).then(|| (*id, *probe, target.to_owned()))
            }) else {
                continue;
            };
            // An alias that the cluster itself has is no work of autopath.
            if view.truth(&one.name).is_some_and(|truth| truth.exists() == Some(true))
                || !target.starts_with(name.trim_end_matches('.'))
            {
                continue;
            }
            let why = if subject.host_network() {
                "the pod uses its node's address, from which autopath cannot tell a namespace".to_owned()
            } else if own_list {
                "the pod has search domains of its own, which autopath does not know".to_owned()
            } else if verified {
                "autopath takes the namespace from the address that asks: it is another pod's by now, or translated".to_owned()
            } else {
                "`pods verified` is not set, without which autopath knows no namespace of an address"
                    .to_owned()
            };
            return Some(
                Hit::high(format!("autopath leads `{name}` to another name"))
                    .because(format!("{}: CNAME {target}, which is not in the pod's search list", one.name))
                    .because(format!("{}:{} has autopath {}", layout::COREFILE, autopath.line, autopath.words.join(" ")))
                    .because(why)
                    .citing([layout::COREFILE, layout::POD_RESOLV_CONF])
                    .citing(row_ids(&[(id, probe)]))
                    .fix("take autopath out of the Corefile; a DNS cache on each node makes the search list cheap")
                    .verify(command::query(view, &one.name, probe.server, "")),
            );
        }
    }
    None
}
