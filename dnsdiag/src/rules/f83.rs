//! F83: Go's own resolver fails over answers with which a libc gets along.

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::resolver::Libc;
use crate::version::Version;
use crate::view::{Replay, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F83",
    id: "GO-RESOLVER",
    class: Class::DnsConfig,
    title: "Go's own resolver fails where glibc gets an answer",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Model],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let go @ Libc::Go(version) = view.resolver()? else { return None };
    let glibc = Libc::Glibc(Version::new(2, 36, 0));
    for name in &view.target.names {
        let ours = view.replay_with(name, go)?;
        let theirs = view.replay_with(name, glibc)?;
        let ends = |replay: &Replay, good: bool| {
            replay.plan.runs.iter().all(|run| (run.outcome.rc == Some(0)) == good)
        };
        if !ends(&ours, false) || !ends(&theirs, true) || !theirs.unasked.is_empty() || ours.ids.is_empty() {
            continue;
        }
        let rows: Vec<_> = view.tried(name).iter().flat_map(|full| view.questions(full)).collect();
        let refused = |probe: &Probe| {
            probe.edns.is_some()
                && matches!(probe.result, Outcome::Formerr | Outcome::Notimp | Outcome::Silent)
        };
        let edns: Vec<_> = rows.iter().copied().filter(|(_, probe)| refused(probe)).collect();
        let told = |replay: &Replay| {
            replay.plan.predicted.outcomes.first().map(|outcome| outcome.text.clone()).unwrap_or_default()
        };
        let mut hit = Hit::high(format!("Go's resolver fails for `{name}`, glibc does not"))
            .because(format!(
                "the same answers: Go {version} reports \"{}\", glibc \"{}\"",
                told(&ours),
                told(&theirs)
            ))
            .citing([layout::POD_RESOLV_CONF])
            .citing(ours.ids)
            .citing(theirs.ids)
            .verify(format!(
                "netlab dns plan {name} --resolv-conf {} --libc {go} --compare",
                layout::POD_RESOLV_CONF
            ));
        if let Some((_, probe)) = edns.first() {
            hit = hit
                .because(format!(
                    "{} answers questions with EDNS by {}, and Go sends EDNS always",
                    probe.server,
                    probe.result.as_str()
                ))
                .citing(row_ids(&edns))
                .fix("set GODEBUG=netedns0=0 for the program, or mend the server that does not know EDNS");
        }
        return Some(hit.fix("or let the program use the libc: GODEBUG=netdns=cgo (built with cgo)"));
    }
    None
}
