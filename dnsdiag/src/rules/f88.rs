//! F88: the image's `nsswitch.conf` does not lead to DNS for this name.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Candidate, View};

pub(super) const RULE: Rule = Rule {
    mode: "F88",
    id: "NSSWITCH",
    class: Class::DnsConfig,
    title: "the image's nsswitch.conf does not lead to DNS for this name",
    needs: &[layout::POD_NSSWITCH, layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Misled],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    if view.libc().is_some_and(|(family, _)| family != "glibc") {
        return None;
    }
    let order = view.name_order()?;
    let others = ["resolve", "sss", "nis"];
    let asks_nobody =
        order.place("dns").is_none() && !others.iter().any(|other| order.place(other).is_some());
    let stops = order.sources.iter().enumerate().find(|(place, source)| {
        source.name.starts_with("mdns")
            && source.actions.iter().any(|action| action == "notfound=return")
            && order.place("dns").is_none_or(|dns| *place < dns)
    });
    for name in &view.target.names {
        let found = view.candidates(name).into_iter().find(Candidate::resolves);
        let Some(found) = found else { continue };
        let bare = name.trim_end_matches('.').to_ascii_lowercase();
        let local = bare.rsplit('.').next() == Some("local");
        let (mut hit, fix) = match stops {
            _ if asks_nobody => {
                let has: Vec<&str> = order.sources.iter().map(|source| source.name.as_str()).collect();
                (
                    Hit::high("the image's nsswitch.conf does not name dns").because(format!(
                        "{}:{}: `hosts: {}`: programs look nowhere else",
                        layout::POD_NSSWITCH,
                        order.line,
                        has.join(" ")
                    )),
                    "write `hosts: files dns` into the image's nsswitch.conf".to_owned(),
                )
            }
            Some((_, source)) if local => {
                let summary = format!("{} keeps `{name}` from DNS", source.name);
                // Since nss-mdns 0.11 it takes names of two labels only.
                let two = bare.matches('.').count() == 1;
                let hit = if two { Hit::high(summary) } else { Hit::medium(summary) };
                (
                    hit.because(format!(
                        "{}:{}: {} answers names in .local, and [NOTFOUND=return] ends the search there",
                        layout::POD_NSSWITCH,
                        order.line,
                        source.name
                    )),
                    "take mdns and [NOTFOUND=return] out of the image's nsswitch.conf: `hosts: files dns`"
                        .to_owned(),
                )
            }
            _ => continue,
        };
        hit = hit
            .because(format!("DNS itself answers {}", found.name))
            .citing([layout::POD_NSSWITCH])
            .citing(found.ids());
        return Some(hit.fix(fix).verify(format!(
            "kubectl -n {} exec {} -- getent ahosts {name}",
            view.target.namespace, view.target.pod
        )));
    }
    None
}
