//! F44: the name has IPv4 addresses, and the question for IPv6 addresses gets an error.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Told, View};

pub(super) const RULE: Rule = Rule {
    mode: "F44",
    id: "AAAA-ERROR",
    class: Class::Upstream,
    title: "an error for AAAA of a name that has A records: musl fails as a whole",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    if !view.is_musl()? {
        return None;
    }
    let (found, result) =
        view.target.names.iter().filter(|name| !view.model_resolves(name)).find_map(|name| {
            let bad = |result| {
                matches!(result, Outcome::Servfail | Outcome::Refused | Outcome::Notimp | Outcome::Formerr)
            };
            view.candidates(name).into_iter().find_map(|one| {
                let result = one.aaaa.as_ref().map(|told| told.result).filter(|result| bad(*result))?;
                one.a.as_ref().is_some_and(Told::is_good).then_some((one, result))
            })
        })?;
    let hit = Hit::high(format!("AAAA of {} gets {}, A is fine", found.name, result.as_str()))
        .because("glibc uses the A records; musl needs an answer to both, waits 5 s and says EAI_AGAIN")
        .citing(found.ids())
        .citing([layout::POD_RESOLV_CONF])
        .fix(format!("let the server of {} answer AAAA with no records", found.name))
        .verify(format!("netlab dns query {} --type AAAA", found.name));
    Some(hit)
}
