//! What goes wrong for the pod: the failures that a verdict has to explain.
//!
//! Invariant: a failure is a row of the pod that harms what its resolver does, the report, the model's lookup of a name, or an
//! open socket that nobody answers; a fact that could make something fail is none. What nobody asked does not fail, and what
//! the pod never waits for harms nothing: a nameserver behind one that answers, a denial of a name that should not exist.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlab_plugin::evidence::{Flag, Outcome, Position, Probe, Transport};
use serde::Serialize;

use super::{ErrorClass, View, is_canary, is_connect};
use crate::bundle::layout;

/// A way in which it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Nothing comes back, or not always.
    Lost,
    /// Refused at once by the address that was asked: a port-unreachable or a reset.
    Refused,
    /// Rejected on the way: host unreachable or prohibited.
    Rejected,
    /// No route in the pod.
    Unroutable,
    /// Dropped in the pod's own network namespace.
    NotPermitted,
    /// The answer comes from another address.
    WrongSource,
    /// What comes cannot be read.
    Malformed,
    /// SERVFAIL, REFUSED, FORMERR or NOTIMP.
    Error,
    /// A name that is there, or that the application needs, is denied or has no address.
    Denied,
    /// The answer is cut, or longer than what was offered.
    Unfit,
    /// The answer comes, and late.
    Slow,
    /// An answer comes, and it is not what the application should get or does get: the rule itself compares.
    Misled,
    /// The connection after DNS fails.
    Connect,
    /// By the libc's model the lookup fails with the answers that were recorded.
    Model,
    /// What the application reports tells of waiting or of no answer.
    Waited,
    /// What the application reports: an error, a wait, an address that it should not use.
    Reported,
    /// Nothing by itself: what is set up serves nobody here, or would hurt another libc. Told only where nothing fails.
    Danger,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure<'e> {
    /// The fact that shows it.
    pub id: &'e str,
    /// How.
    pub effect: Effect,
}

/// From memory an answer takes about a millisecond; this is late, in milliseconds.
const LATE_NEAR: f64 = 100.0;
/// A recursor asks around in well under this.
const LATE_OUTSIDE: f64 = 500.0;
/// From here on a lookup waited for something, in seconds.
const WAITED: f64 = 1.0;

impl<'e> View<'e> {
    /// Everything that goes wrong for the pod, in the order of the facts.
    #[must_use]
    pub fn failures(&self) -> Vec<Failure<'e>> {
        let mut found = Vec::new();
        let harmless = self.never_waited_for();
        let needed = self.needed_denials();
        let rows = self.evidence.probes().filter(|(_, probe)| probe.from == Position::Pod);
        for (id, probe) in rows {
            if is_connect(probe) {
                if probe.result != Outcome::Noerror {
                    found.push(Failure { id, effect: Effect::Connect });
                }
                continue;
            }
            if harmless.contains(&probe.server) {
                continue;
            }
            let mut push = |effect| found.push(Failure { id, effect });
            if probe.has(Flag::Tc) || is_too_long(probe) {
                push(Effect::Unfit);
            }
            if probe
                .ms
                .is_some_and(|ms| ms >= if self.is_outside(&probe.name) { LATE_OUTSIDE } else { LATE_NEAR })
            {
                push(Effect::Slow);
            }
            let effect = match probe.result {
                Outcome::Noerror | Outcome::Nxdomain => (is_empty(probe)
                    && (needed.contains(&id) || self.wrongly_denied(probe)))
                .then_some(Effect::Denied),
                Outcome::Servfail | Outcome::Refused | Outcome::Formerr | Outcome::Notimp => {
                    Some(Effect::Error)
                }
                Outcome::ConnectionRefused => Some(Effect::Refused),
                Outcome::HostUnreachable => Some(Effect::Rejected),
                Outcome::NetworkUnreachable => Some(Effect::Unroutable),
                Outcome::NotPermitted => Some(Effect::NotPermitted),
                Outcome::UnexpectedSource => Some(Effect::WrongSource),
                Outcome::Malformed => Some(Effect::Malformed),
                Outcome::Silent => Some(Effect::Lost),
            };
            found.extend(effect.map(|effect| Failure { id, effect }));
            if probe.some_answered() && effect != Some(Effect::Lost) {
                found.push(Failure { id, effect: Effect::Lost });
            }
        }
        // A socket that is open, and whose questions nobody answers.
        let own = self.subject().map(|subject| subject.pod.addresses.clone()).unwrap_or_default();
        let unanswered = self.conntrack().unwrap_or_default().into_iter().any(|flow| {
            flow.unreplied
                && flow.protocol == "udp"
                && flow.original.destination_port == 53
                && own.contains(&flow.original.source)
                && self.has_socket(flow.original.source_port)
        });
        if unanswered {
            found.push(Failure { id: layout::NODE_CONNTRACK, effect: Effect::Lost });
        }
        let model = |name: &String| {
            let replay = self.replay(name);
            replay.is_some_and(|replay| replay.plan.runs.iter().all(|run| run.outcome.rc != Some(0)))
        };
        if self.target.names.iter().any(model) {
            found.push(Failure { id: layout::POD_RESOLV_CONF, effect: Effect::Model });
        }
        if let Some((id, symptom)) = self.evidence.symptom() {
            let waited = symptom.seconds.is_some_and(|seconds| seconds >= WAITED);
            if symptom.error.is_some() || waited || !symptom.uses.is_empty() {
                found.push(Failure { id, effect: Effect::Reported });
                let told =
                    symptom.error.is_some() && matches!(self.error_class(), Some(ErrorClass::Again) | None);
                if waited || told {
                    found.push(Failure { id, effect: Effect::Waited });
                }
            }
        }
        found
    }

    /// True when the report cannot come from such a failure: "no such name" at once is no wait for lost packets, and no answer is no
    /// denial. What a text does not tell (an unknown one, one of curl's) rules nothing out.
    #[must_use]
    pub fn contradicts_report(&self, effect: Effect) -> bool {
        let Some((_, symptom)) = self.evidence.symptom() else { return false };
        // curl prints that for whatever the resolver says.
        let vague = symptom
            .error
            .as_deref()
            .is_some_and(|error| error.to_lowercase().contains("could not resolve host"));
        let class = self.error_class().filter(|_| !vague);
        match class {
            Some(ErrorClass::NoName) => {
                let waits = matches!(
                    effect,
                    Effect::Lost
                        | Effect::Refused
                        | Effect::Rejected
                        | Effect::Unroutable
                        | Effect::NotPermitted
                        | Effect::WrongSource
                        | Effect::Malformed
                        | Effect::Slow
                );
                waits && symptom.seconds.is_some_and(|seconds| seconds < WAITED)
            }
            Some(ErrorClass::Again) => effect == Effect::Denied,
            Some(ErrorClass::NoData) | None => false,
        }
    }

    /// True when by the libc's model a name resolves with the answers that were recorded, whichever race is won.
    #[must_use]
    pub fn model_resolves(&self, name: &str) -> bool {
        let replay = self.replay(name);
        replay.is_some_and(|replay| {
            !replay.plan.runs.is_empty() && replay.plan.runs.iter().all(|run| run.outcome.rc == Some(0))
        })
    }

    /// True when the model of a name takes as long as was reported: then it needs no rare event.
    #[must_use]
    pub fn model_takes(&self, seconds: f64) -> bool {
        let fits = |millis: u64| (crate::resolver::as_seconds(millis) - seconds).abs() <= 0.4;
        self.target.names.iter().filter_map(|name| self.replay(name)).any(|replay| {
            replay.plan.predicted.outcomes.iter().filter_map(|outcome| outcome.millis).any(fits)
        })
    }

    /// Nameservers whose silence costs the pod nothing: those behind one that answers everything (glibc and Go ask the next one only
    /// after an error or a timeout), and for musl, which asks all at once, every one beside it.
    fn never_waited_for(&self) -> Vec<IpAddr> {
        let Some(conf) = self.conf() else { return Vec::new() };
        let servers = self.nameservers_seen();
        let good = servers.iter().position(|server| {
            let ask = super::Ask::from_pod().to([server.address]).port(53).over(Transport::Udp);
            server.udp.reach.answers()
                && self.rows(&ask).iter().all(|(_, probe)| {
                    probe.all_answered() && matches!(probe.result, Outcome::Noerror | Outcome::Nxdomain)
                })
        });
        let Some(good) = good else { return Vec::new() };
        let behind = |(place, server): (usize, &super::NameserverSeen)| {
            let asked = if self.is_musl() == Some(true) {
                // Its denial wins the race as an answer does.
                place == good || server.udp.reach.answers()
            } else {
                place <= good || conf.options.rotate
            };
            (!asked).then_some(server.address)
        };
        servers.iter().enumerate().filter_map(behind).collect()
    }

    /// Denials and empty answers that a name ends with: nothing that is tried for it has an address, by the model where there is
    /// one, or the same question was answered otherwise.
    fn needed_denials(&self) -> Vec<&'e str> {
        let mut found = Vec::new();
        let mut told: BTreeMap<(String, &str), bool> = BTreeMap::new();
        for (_, probe) in self.rows(&super::Ask::from_pod()) {
            *told.entry((probe.name.to_ascii_lowercase(), &probe.qtype)).or_default() |= !is_empty(probe);
        }
        for name in &self.target.names {
            let candidates = self.candidates(name);
            let resolves = match self.replay(name) {
                Some(replay) if replay.unasked.is_empty() => {
                    replay.plan.runs.iter().all(|run| run.outcome.rc == Some(0))
                }
                _ => candidates.iter().any(super::Candidate::resolves),
            };
            // An alias alone is an answer to the model.
            let has =
                |one: &super::Candidate| self.questions(&one.name).iter().any(|(_, probe)| !is_empty(probe));
            let resolves = resolves && candidates.iter().any(has);
            let mut full: Vec<String> = candidates.into_iter().map(|one| one.name).collect();
            full.push(self.intended(name));
            for full in full {
                let rows = self.questions(&full);
                found.extend(rows.into_iter().filter_map(|(id, probe)| {
                    let key = (probe.name.to_ascii_lowercase(), &*probe.qtype);
                    (!resolves || told.get(&key) == Some(&true)).then_some(id)
                }));
            }
        }
        found
    }

    /// A denial of a name that the cluster has.
    fn wrongly_denied(&self, probe: &Probe) -> bool {
        let of_server = is_canary(&probe.name) && !probe.name.starts_with("netlab-");
        probe.result == Outcome::Nxdomain
            && (of_server || self.truth(&probe.name).and_then(|truth| truth.exists()) == Some(true))
    }
}

/// No records of the type that was asked for: an alias alone leads nowhere.
fn is_empty(probe: &Probe) -> bool {
    let of_address = matches!(&*probe.qtype, "A" | "AAAA");
    probe.result != Outcome::Noerror
        || if of_address { probe.addresses().is_empty() } else { probe.answers.is_empty() }
}

/// An answer over UDP that is longer than 512 bytes (RFC 1035 section 4.2.1) or than what was offered (RFC 6891 section 6.2.3).
fn is_too_long(probe: &Probe) -> bool {
    let offered = probe.edns.map_or(512, |size| u32::from(size).max(512));
    probe.transport == Transport::Udp && probe.bytes.is_some_and(|bytes| bytes > offered)
}
