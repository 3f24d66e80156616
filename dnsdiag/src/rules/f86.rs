//! F86: the image asks another resolver than DNS (systemd-resolved, SSSD, NIS), so programs are told something else.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Candidate, View};

pub(super) const RULE: Rule = Rule {
    mode: "F86",
    id: "IMAGE-RESOLVER",
    class: Class::DnsConfig,
    title: "the image's nsswitch.conf puts another resolver before DNS",
    needs: &[layout::SYMPTOM, layout::POD_NSSWITCH, layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Reported],
    test,
};

/// Sources that keep answers of their own or ask somebody else.
const OTHERS: [(&str, &str); 4] =
    [("resolve", "systemd-resolved"), ("sss", "SSSD"), ("nis", "NIS"), ("cache", "nscd of FreeBSD's kind")];

fn test(view: &View<'_>) -> Option<Hit> {
    let (id, symptom) = view.evidence.symptom()?;
    // Go and musl do not read the file's order as glibc does.
    if view.libc().is_some_and(|(family, _)| family != "glibc") {
        return None;
    }
    let order = view.name_order()?;
    let dns = order.place("dns");
    let (source, what) = order.sources.iter().enumerate().find_map(|(place, source)| {
        let (_, what) = OTHERS.iter().find(|(name, _)| *name == source.name)?;
        dns.is_none_or(|dns| place < dns).then_some((source, *what))
    })?;
    // DNS itself answers every name, and the program is told otherwise.
    let mut ids = Vec::new();
    let mut given = Vec::new();
    for name in &view.target.names {
        let candidates = view.candidates(name);
        let found = candidates.iter().find(|one| Candidate::resolves(one))?;
        ids.extend(found.ids());
        given.extend(view.questions(&found.name).into_iter().flat_map(|(_, probe)| probe.addresses()));
    }
    let differs = !symptom.uses.is_empty() && !symptom.uses.iter().any(|one| given.contains(one));
    if ids.is_empty() || !(view.error_class().is_some() || differs) {
        return None;
    }
    let told = symptom.error.clone().unwrap_or_else(|| "another address".to_owned());
    Some(
        Hit::medium(format!("the image asks {what} before DNS"))
            .because(format!("{}:{} has `{}` before dns", layout::POD_NSSWITCH, order.line, source.name))
            .because(format!("DNS answers {}; the program gets \"{told}\"", view.target.names.join(", ")))
            .citing([layout::POD_NSSWITCH.to_owned(), id.to_owned()])
            .citing(ids)
            .fix(format!(
                "take `{}` out of the hosts line of the image's nsswitch.conf: `hosts: files dns`",
                source.name
            ))
            .verify(format!(
                "kubectl -n {} exec {} -- getent ahosts {}",
                view.target.namespace,
                view.target.pod,
                view.target.names.first().cloned().unwrap_or_default()
            )),
    )
}
