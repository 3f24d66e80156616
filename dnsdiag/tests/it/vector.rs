//! Measured lookups, and when a plan agrees with one.
//!
//! Agreement: some run of the plan has the measured return code, its duration within the tolerance, and its queries.
//! Queries agree when each server saw what the run sends to it, in that order and at those times (within the
//! tolerance), with these freedoms and no others:
//! - musl asks its servers at the same moment, so the order *between* servers is anybody's guess; glibc's is held to,
//!   but for a connection that is made while a datagram is still on its way;
//! - Go's A and AAAA, and musl's two connections, go side by side: each type has its order, not the two together;
//! - what a run sends only if a race goes one way (`certain: false`) may be missing, and of musl's repeats after
//!   SERVFAIL any server that failed may have got any;
//! - a recorder that stopped with the lookup may have missed what was sent in its last instants;
//! - by as much as servers saw queries late, they answered late, too, and the whole took longer.

use std::collections::{BTreeMap, BTreeSet};

use netlab_dnsdiag::answers::Answer;
use netlab_dnsdiag::resolv_conf;
use netlab_dnsdiag::resolver::{Family, Libc, Lookup, Query, QueryPlan, Run, plan};
use netlab_dnsdiag::script::Script;
use serde::Deserialize;

/// How far times may be apart.
pub(crate) const TOLERANCE: f64 = 0.4;

/// One scenario, and what was measured.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) resolv_conf: String,
    pub(crate) server: serde_json::Value,
    pub(crate) query: String,
    pub(crate) family: String,
    #[serde(default)]
    pub(crate) observed: BTreeMap<String, Observed>,
}

/// What one library did.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Observed {
    pub(crate) rc: i32,
    pub(crate) seconds: f64,
    /// `AT NAMESERVER TRANSPORT NAME TYPE`.
    pub(crate) queries: Vec<String>,
    /// True when the recorder waited for stragglers.
    #[serde(default)]
    pub(crate) complete: bool,
}

/// A query that a server saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) at: f64,
    pub(crate) what: String,
}

impl Vector {
    pub(crate) fn lookup(&self) -> Lookup {
        let family = match self.family.as_str() {
            "inet" => Family::Inet,
            "inet6" => Family::Inet6,
            _ => Family::Unspec,
        };
        Lookup { name: self.query.clone(), family }
    }

    pub(crate) fn script(&self) -> Script {
        self.server.to_string().parse().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    pub(crate) fn plan(&self, libc: Libc) -> QueryPlan {
        let conf = resolv_conf::read(self.resolv_conf.as_bytes(), libc.dialect());
        plan(&self.lookup(), &conf, libc, &self.script())
    }
}

/// The same and thirty random ones with glibc 2.36, musl 1.2.3, 1.2.4, 1.2.5 and Go 1.26, by `NETLAB_DNS_RECORD`.
pub(crate) fn measured() -> Vec<Vector> {
    serde_json::from_str(include_str!("../data/measured.json")).expect("vectors")
}

/// Those that were measured first, with other tools: what every new measurement is held to, too.
pub(crate) fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../data/vectors.json")).expect("vectors")
}

fn seconds(query: &Query) -> f64 {
    f64::from(u32::try_from(query.at).expect("a short lookup")) / 1000.0
}

fn what(query: &Query) -> String {
    format!("{} {} {} {}", query.nameserver, query.transport, query.qname, query.qtype)
}

/// Why the plan does not agree, for each of its runs; `Ok` when one does.
pub(crate) fn agrees(plan: &QueryPlan, observed: &Observed) -> Result<(), String> {
    agrees_within(plan, observed, TOLERANCE)
}

/// The same with another tolerance.
pub(crate) fn agrees_within(plan: &QueryPlan, observed: &Observed, tolerance: f64) -> Result<(), String> {
    let mut why = Vec::new();
    for run in &plan.runs {
        match run_agrees(plan, run, observed, tolerance) {
            Ok(()) => return Ok(()),
            Err(reason) => why.push(format!("rc {:?} {:?} ms: {reason}", run.outcome.rc, run.outcome.millis)),
        }
    }
    Err(why.join("\n  or "))
}

fn run_agrees(plan: &QueryPlan, run: &Run, observed: &Observed, tolerance: f64) -> Result<(), String> {
    let end =
        run.outcome.millis.map(|millis| f64::from(u32::try_from(millis).expect("a short lookup")) / 1000.0);
    let end = end.ok_or("never ends")?;
    if run.outcome.rc != Some(observed.rc) {
        return Err(format!("rc {} was seen", observed.rc));
    }
    let seen: Vec<Seen> = observed
        .queries
        .iter()
        .map(|line| {
            let (at, what) = line.split_once(' ').expect("AT WHAT");
            Seen { at: at.parse().expect("seconds"), what: what.to_owned() }
        })
        .collect();
    // Streams whose order is held to, by what a query says.
    let stream = |server: &str, transport: &str, qtype: &str| match plan.libc {
        Libc::Glibc(_) => transport.to_owned(),
        Libc::Musl(_) if transport == "tcp" => format!("{server} tcp {qtype}"),
        Libc::Musl(_) => format!("{server} udp"),
        Libc::Go(_) => qtype.to_owned(),
    };
    let mut planned: BTreeMap<String, Vec<(f64, String, bool)>> = BTreeMap::new();
    for query in &run.queries {
        let key =
            stream(&query.nameserver.to_string(), &query.transport.to_string(), &query.qtype.to_string());
        planned.entry(key).or_default().push((seconds(query), what(query), query.certain));
    }
    let mut measured: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for one in seen {
        let words: Vec<&str> = one.what.split(' ').collect();
        let [server, transport, _, qtype] = words.as_slice() else { panic!("four words: {}", one.what) };
        measured.entry(stream(server, transport, qtype)).or_default().push(one);
    }
    let keys: BTreeSet<String> = planned.keys().chain(measured.keys()).cloned().collect();
    let mut late: f64 = 0.0;
    let (repeats, mut spare) = repeats(run);
    for key in keys {
        let expected = planned.get(&key).cloned().unwrap_or_default();
        let mut rest = measured.get(&key).cloned().unwrap_or_default().into_iter().peekable();
        let mut repeated = |one: Option<&Seen>| {
            let is = one.is_some_and(|one| repeats.contains(&one.what)) && spare > 0;
            spare -= usize::from(is);
            is
        };
        for (at, what, _) in expected.into_iter().filter(|(.., certain)| *certain) {
            let fits = |one: &Seen| one.what == what && (one.at - at).abs() <= tolerance;
            while rest.peek().is_some_and(|one| !fits(one)) && repeated(rest.peek()) {
                rest.next();
            }
            if let Some(one) = rest.next_if(fits) {
                late = late.max(one.at - at);
                continue;
            }
            let missed = !observed.complete && at >= end - tolerance && rest.peek().is_none();
            if !missed {
                return Err(format!("{at} {what} is planned, {:?} was seen", rest.peek()));
            }
        }
        for one in rest {
            if !repeated(Some(&one)) {
                return Err(format!("{one:?} was seen and is not planned"));
            }
        }
    }
    if observed.seconds < end - tolerance || observed.seconds > end + tolerance + late {
        return Err(format!("{} s were seen", observed.seconds));
    }
    Ok(())
}

/// What may be sent more often than is certain, and how often in all: musl repeats after SERVFAIL, to any server that
/// failed, and sends once more just before the end when its timeout is not divided evenly.
fn repeats(run: &Run) -> (BTreeSet<String>, usize) {
    let uncertain: Vec<&Query> = run.queries.iter().filter(|query| !query.certain).collect();
    let failed = |query: &&Query| {
        query.answer == Answer::ServFail
            && uncertain.iter().any(|again| (&again.qname, again.qtype) == (&query.qname, query.qtype))
    };
    let all = run.queries.iter().filter(failed).chain(uncertain.iter().copied());
    (all.map(what).collect(), uncertain.len())
}
