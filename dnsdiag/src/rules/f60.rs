//! F60: the short name is a Service of another namespace.

use super::f61::absent;
use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::records::Hint;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F60",
    id: "WRONG-NAMESPACE",
    class: Class::Name,
    title: "the name is that of a Service in another namespace",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let absent = absent(view)?;
    let others: Vec<&str> = absent
        .wanted
        .truth
        .hints
        .iter()
        .filter_map(|hint| match hint {
            Hint::OtherNamespace { name } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let full = *others.first()?;
    // `name.namespace` is enough with the search list of a pod.
    let short: Vec<&str> = full.split('.').take(2).collect();
    let short = short.join(".");
    Some(
        Hit::high(format!("`{}` is in another namespace: {short}", absent.wanted.name))
            .because(format!("{}: NXDOMAIN, which is right: {}", absent.wanted.full, absent.wanted.truth.why))
            .because(format!("{} exists", others.join(", ")))
            .citing([layout::SERVICES])
            .citing(absent.ids)
            .citing(absent.works)
            .fix(format!("ask for `{short}` (or {full}) instead of `{}`", absent.wanted.name))
            .verify(command::query(view, full, absent.server, "")),
    )
}
