//! F47: a search domain is refused, which ends glibc's search; what is left is the name as it is, and that does not exist.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F47",
    id: "REFUSED-SUFFIX",
    class: Class::DnsServer,
    title: "a search domain is refused: glibc ends the search and reports that there is no such name",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Error, Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    // musl gives up at once, and Go goes on with the next suffix.
    if view.libc()?.0 != "glibc" {
        return None;
    }
    let (name, bad, last) =
        view.target.names.iter().filter(|name| !view.model_resolves(name)).find_map(|name| {
            let candidates = view.candidates(name);
            let (last, before) = candidates.split_last()?;
            let refused = |result| matches!(result, Outcome::Refused | Outcome::Formerr | Outcome::Notimp);
            let place = before.iter().position(|one| one.any(|told| refused(told.result)))?;
            let resolved = before.get(..place)?.iter().any(crate::view::Candidate::resolves);
            let denied = last.any(|told| told.result == Outcome::Nxdomain);
            (!resolved && denied && last.suffix.is_none())
                .then(|| (name.clone(), before[place].clone(), last.clone()))
        })?;
    let told = bad.a.iter().chain(&bad.aaaa).map(|told| told.result.as_str()).next().unwrap_or_default();
    let hit =
        Hit::high(format!("the search for `{name}` ends at {}", bad.suffix.clone().unwrap_or_default()))
            .because(format!(
                "{} gets {told}; glibc then tries {} alone, is denied, and reports that",
                bad.name, last.name
            ))
            .because("\"Name or service not known\" does not mean here that there is no such name")
            .citing([layout::POD_RESOLV_CONF])
            .citing(bad.ids())
            .citing(last.ids())
            .fix(format!(
                "find who refuses {} (acl, max_concurrent, a DNS proxy's policy) and let it answer NXDOMAIN",
                bad.name
            ))
            .verify(format!("netlab dns query {}", bad.name));
    Some(hit)
}
