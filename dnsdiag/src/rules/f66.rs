//! F66: the search list has `.`, for which musl before 1.2.4 sends a question that no server can read.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::resolver::LostBecause;
use crate::version::Version;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F66",
    id: "SEARCH-DOT-MUSL",
    class: Class::DnsConfig,
    title: "musl before 1.2.4 fails on the search domain `.`",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Model],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let ("musl", Some(version)) = view.libc()? else { return None };
    if version >= Version::new(1, 2, 4) {
        return None;
    }
    let conf = view.conf()?;
    if !conf.search.iter().any(|suffix| suffix == ".") {
        return None;
    }
    // A name that is found before `.` is reached, or that is never searched, is not hurt.
    for name in &view.target.names {
        let replay = view.replay(name)?;
        let malformed = replay.plan.lost.iter().any(|lost| lost.because == LostBecause::Malformed);
        let fails = replay.plan.runs.iter().all(|run| run.outcome.rc != Some(0));
        if !(malformed && fails) {
            continue;
        }
        let line = view.conf_line(".").map_or(String::new(), |line| format!(":{line}"));
        let of_node = view.text(layout::NODE_RESOLV_CONF).is_some_and(|text| {
            text.lines().any(|line| {
                line.starts_with("search") && line.split_ascii_whitespace().any(|word| word == ".")
            })
        });
        let mut hit = Hit::high(format!("musl {version} fails on the search domain `.`"))
            .because(format!("{}{line} has the search domain `.`", layout::POD_RESOLV_CONF))
            .because(format!(
                "for `{name}` musl {version} then sends a malformed question that nobody answers: {}",
                replay.plan.predicted.outcomes.first().map_or("", |outcome| &outcome.text)
            ))
            .citing([layout::POD_RESOLV_CONF])
            .citing(view.canary(&crate::view::Ask::from_pod()).ids)
            .fix("use an image with musl 1.2.4 or later (Alpine 3.18)");
        hit = if of_node {
            hit.because("it comes from the node's file")
                .citing([layout::NODE_RESOLV_CONF])
                .fix("or take `.` out of the node's search line")
        } else {
            hit.fix("or take `.` out of the search list (dnsConfig.searches; kubelet's resolvConf: \"\" writes it)")
        };
        return Some(hit.verify(format!(
            "netlab dns plan {name} --resolv-conf {} --libc musl:{version} --compare",
            layout::POD_RESOLV_CONF
        )));
    }
    None
}
