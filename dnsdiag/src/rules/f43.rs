//! F43: the name has IPv4 addresses, and the question for IPv6 addresses is told that there is no such name.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Told, View};

pub(super) const RULE: Rule = Rule {
    mode: "F43",
    id: "AAAA-NXDOMAIN",
    class: Class::Upstream,
    title: "NXDOMAIN for AAAA of a name that has A records: musl believes it",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    if !view.is_musl()? {
        return None;
    }
    let (name, found) =
        view.target.names.iter().filter(|name| !view.model_resolves(name)).find_map(|name| {
            let candidates = view.candidates(name);
            let found = candidates.into_iter().find(|one| {
                one.a.as_ref().is_some_and(Told::is_good)
                    && one.aaaa.as_ref().is_some_and(|told| told.result == Outcome::Nxdomain)
            })?;
            Some((name.clone(), found))
        })?;
    let hit = Hit::high(format!("AAAA of {} is denied, A is not", found.name))
        .because("NXDOMAIN says that the name has no records at all; musl believes it, glibc keeps the A records")
        .citing(found.ids())
        .citing([layout::POD_RESOLV_CONF])
        .fix(format!("let the server of {} answer AAAA with no records (a template or rewrite in the Corefile, or a load balancer's DNS)", found.name))
        .verify(format!("netlab dns query {} --type AAAA", found.name));
    let _ = name;
    Some(hit)
}
