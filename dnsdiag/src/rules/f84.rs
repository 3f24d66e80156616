//! F84: Node.js looks names up in four threads, and a name that takes long holds them all.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, Candidate, View, is_canary};

pub(super) const RULE: Rule = Rule {
    mode: "F84",
    id: "APP-THREADPOOL",
    class: Class::NotDns,
    title: "lookups of Node.js wait for others that take long, in a pool of four threads",
    needs: &[layout::SYMPTOM, layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Waited],
    test,
};

/// Slower than this is a lookup that waits, in seconds.
const LONG: f64 = 2.0;
/// Faster than this, in milliseconds, is DNS that works.
const FAST: f64 = 500.0;

fn test(view: &View<'_>) -> Option<Hit> {
    let (id, symptom) = view.evidence.symptom()?;
    let seconds = symptom.seconds.filter(|seconds| *seconds >= LONG)?;
    if symptom.application.as_deref() != Some("node") {
        return None;
    }
    // The names in question are answered, and at once.
    let mut tried = Vec::new();
    let mut ids = Vec::new();
    for name in &view.target.names {
        let candidates = view.candidates(name);
        if !candidates.iter().any(Candidate::resolves) {
            return None;
        }
        for one in &candidates {
            for (id, probe) in view.questions(&one.name) {
                if !probe.all_answered() || probe.ms.is_some_and(|ms| ms > FAST) {
                    return None;
                }
                ids.push(id.to_owned());
            }
            tried.push(one.name.to_ascii_lowercase());
        }
    }
    if ids.is_empty() {
        return None;
    }
    let servers = view.nameservers();
    let (slow_id, slow) = view.rows(&Ask::from_pod().to(servers)).into_iter().find(|(_, probe)| {
        let other = !tried.contains(&probe.name.to_ascii_lowercase()) && !is_canary(&probe.name);
        other && (probe.none_answered() || probe.ms.is_some_and(|ms| ms >= 1000.0 * LONG))
    })?;
    let how = slow.ms.filter(|_| slow.all_answered()).map_or_else(
        || format!("no answer ({}/{})", slow.answers_seen(), slow.sent),
        |ms| format!("an answer after {:.1} s", ms / 1000.0),
    );
    Some(
        Hit::medium(format!("Node.js waits for lookups of {}", slow.name.trim_end_matches('.')))
            .because(format!(
                "{} takes {seconds:.1} s there, and DNS answers it at once",
                view.target.names.join(", ")
            ))
            .because(format!(
                "{}: {how}; each such lookup holds one of the four threads of dns.lookup",
                slow.name
            ))
            .citing([id.to_owned(), slow_id.to_owned()])
            .citing(ids)
            .fix(format!("mend or stop the lookups of {}", slow.name.trim_end_matches('.')))
            .fix("meanwhile raise UV_THREADPOOL_SIZE, or use dns.resolve4, which takes no thread")
            .verify("UV_THREADPOOL_SIZE=64 for one pod: its lookups must be fast"),
    )
}
