//! What a resolver sends for a name, and what its caller gets: glibc, musl and Go as small simulations.
//!
//! [`plan`] needs no network: it walks the resolver's own steps over a clock that jumps from event to event, and asks
//! [`Answers`] what a server would say. Answers take no time; timeouts take all of theirs.
//!
//! Invariant: the same input gives the same plan. Where the outcome hangs on which of several answers comes first, or
//! on where a rotation begins, every possible run is worked out and [`Predicted::outcomes`] is exactly their set.
//! `/etc/hosts`, `nsswitch.conf`, caches and the environment are not part of the model: DNS is asked.

mod compare;
mod glibc;
mod go;
mod musl;
mod name;
mod texts;
mod trace;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

pub use compare::{Comparison, compare, rc_name};
pub use trace::{Lost, LostBecause, Query, Step, Then};

use crate::answers::Answers;
use crate::resolv_conf::{self, Dialect, Literal, Note, ResolvConf, Zone};
use crate::version::Version;

/// Whose resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// glibc's `getaddrinfo`.
    Glibc(Version),
    /// musl's `getaddrinfo`.
    Musl(Version),
    /// Go's own `net.Resolver`.
    Go(Version),
}

type Make = fn(Version) -> Libc;

/// The releases that are meant when none is named: those that were measured.
const DEFAULTS: [(&str, Make, Version); 3] = [
    ("glibc", Libc::Glibc, Version::new(2, 36, 0)),
    ("musl", Libc::Musl, Version::new(1, 2, 5)),
    ("go", Libc::Go, Version::new(1, 26, 0)),
];

/// The oldest releases whose rules are known here.
const OLDEST: [(&str, Version); 3] =
    [("glibc", Version::new(2, 17, 0)), ("musl", Version::new(1, 1, 13)), ("go", Version::new(1, 12, 0))];

impl Libc {
    /// How it reads `resolv.conf`.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Glibc(version) => Dialect::Glibc(version),
            Self::Musl(version) => Dialect::Musl(version),
            Self::Go(version) => Dialect::Go(version),
        }
    }

    /// For people: `glibc 2.36`.
    pub fn words(self) -> String {
        let (name, version) = match self {
            Self::Glibc(version) => ("glibc", version),
            Self::Musl(version) => ("musl", version),
            Self::Go(version) => ("Go", version),
        };
        format!("{name} {version}")
    }

    /// The three, in the releases that were measured.
    pub fn all() -> Vec<Self> {
        DEFAULTS.iter().map(|(_, make, version)| make(*version)).collect()
    }
}

impl fmt::Display for Libc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version) = match self {
            Self::Glibc(version) => ("glibc", version),
            Self::Musl(version) => ("musl", version),
            Self::Go(version) => ("go", version),
        };
        write!(f, "{name}:{version}")
    }
}

impl Serialize for Libc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is no libc that this crate knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibcError {
    /// No such name.
    #[error("`{text}` is none of glibc, musl and go")]
    Name {
        /// As written.
        text: String,
    },
    /// No version behind the colon.
    #[error("`{text}`: {source}")]
    Version {
        /// As written.
        text: String,
        /// What is wrong with it.
        source: crate::version::VersionError,
    },
    /// A release whose rules are not known here.
    #[error("`{text}`: releases before {oldest} are not modelled")]
    TooOld {
        /// As written.
        text: String,
        /// The oldest that is.
        oldest: Version,
    },
}

impl FromStr for Libc {
    type Err = LibcError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, version) = match text.split_once([':', '-']) {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let found = DEFAULTS.iter().find(|(known, ..)| *known == name);
        let Some((_, make, default)) = found else { return Err(LibcError::Name { text: text.to_owned() }) };
        let version = match version {
            None => *default,
            Some(version) => {
                version.parse().map_err(|source| LibcError::Version { text: text.to_owned(), source })?
            }
        };
        match OLDEST.iter().find(|(known, _)| *known == name) {
            Some((_, oldest)) if version < *oldest => {
                Err(LibcError::TooOld { text: text.to_owned(), oldest: *oldest })
            }
            _ => Ok(make(version)),
        }
    }
}

/// Which addresses are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// `AF_UNSPEC`: both.
    #[default]
    Unspec,
    /// `AF_INET`.
    Inet,
    /// `AF_INET6`.
    Inet6,
}

/// What is looked up, as `getaddrinfo` without `AI_ADDRCONFIG` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The name as the program has it.
    pub name: String,
    /// The family.
    pub family: Family,
}

/// Milliseconds since the lookup began.
pub type Millis = u64;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn seconds<S: Serializer>(millis: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(as_seconds(*millis))
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(crate) fn maybe_seconds<S: Serializer>(
    millis: &Option<Millis>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match millis {
        Some(millis) => seconds(millis, serializer),
        None => serializer.serialize_none(),
    }
}

/// Milliseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "a lookup does not last for 285,000 years")]
pub fn as_seconds(millis: Millis) -> f64 {
    millis as f64 / 1000.0
}

/// One way in which the lookup can end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// `getaddrinfo`'s number: 0, -2 `EAI_NONAME`, -3 `EAI_AGAIN`, -5 `EAI_NODATA`; for Go the nearest of them, and
    /// `None` where the call never returns a number.
    pub rc: Option<i32>,
    /// How long it takes; `None` when it never ends.
    #[serde(rename = "seconds", serialize_with = "maybe_seconds")]
    pub millis: Option<Millis>,
    /// What the program is told.
    pub text: String,
    /// When this is what happens, where there are several.
    pub when: Option<String>,
}

/// One possible course.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// What comes out.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The candidate whose answer was used.
    pub resolved: Option<String>,
    /// What reaches servers, in order.
    pub queries: Vec<Query>,
    /// What is sent and reaches nobody.
    pub lost: Vec<Lost>,
    /// The names that were tried, and what the end of each led to.
    pub steps: Vec<Step>,
}

/// What is expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Predicted {
    /// Each outcome that can happen, and no other.
    pub outcomes: Vec<Outcome>,
}

/// What the search list costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Queries in all, `perhaps` not counted.
    pub queries: usize,
    /// The candidate that gave the answer, if one did.
    pub meant: Option<String>,
    /// Queries for other names than that.
    pub for_other_names: usize,
}

/// What is read from `resolv.conf`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Read {
    /// The servers that are asked.
    pub nameservers: Vec<String>,
    /// The suffixes.
    pub search: Vec<String>,
    /// The options.
    #[serde(flatten)]
    pub options: resolv_conf::Options,
    /// What is worth saying, by line.
    pub notes: Vec<Note>,
}

/// The plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryPlan {
    /// Whose plan.
    pub libc: Libc,
    /// The name that is looked up.
    pub name: String,
    /// The family.
    pub family: Family,
    /// What is read from `resolv.conf`.
    pub resolv_conf: Read,
    /// The names in the order in which they would be tried if none existed.
    pub candidates: Vec<String>,
    /// What reaches servers in the first of the runs.
    pub queries: Vec<Query>,
    /// What reaches them besides, if a race goes one way; `runs` has it in its place.
    pub perhaps: Vec<Query>,
    /// What is sent and reaches nobody in the first of the runs.
    pub lost: Vec<Lost>,
    /// What comes out.
    pub predicted: Predicted,
    /// What the search list costs in the first of the runs.
    pub cost: Cost,
    /// Every run that can happen, one for each outcome and beginning.
    pub runs: Vec<Run>,
}

/// Works the plan out. `conf` is the file as `libc` reads it ([`Libc::dialect`]).
pub fn plan(lookup: &Lookup, conf: &ResolvConf, libc: Libc, answers: &dyn Answers) -> QueryPlan {
    let servers: Vec<IpAddr> = conf.nameservers.iter().filter_map(|server| server.address).collect();
    let (candidates, runs) = match (numeric(lookup, libc), libc) {
        (Some(runs), _) => (Vec::new(), runs),
        (None, Libc::Glibc(version)) => {
            (glibc::candidates(&lookup.name, conf), glibc::runs(lookup, conf, &servers, version, answers))
        }
        (None, Libc::Musl(version)) => {
            (musl::candidates(&lookup.name, conf), musl::runs(lookup, conf, &servers, version, answers))
        }
        (None, Libc::Go(_)) => {
            (go::candidates(&lookup.name, conf), go::runs(lookup, conf, &servers, answers))
        }
    };
    let mut outcomes: Vec<Outcome> = Vec::new();
    for run in &runs {
        let known =
            |outcome: &&mut Outcome| (outcome.rc, outcome.millis) == (run.outcome.rc, run.outcome.millis);
        match outcomes.iter_mut().find(known) {
            None => outcomes.push(run.outcome.clone()),
            Some(outcome) if outcome.when != run.outcome.when => {
                let both = [outcome.when.take(), run.outcome.when.clone()];
                outcome.when = Some(both.into_iter().flatten().collect::<Vec<_>>().join("; or "))
                    .filter(|when| !when.is_empty());
            }
            Some(_) => {}
        }
    }
    if let [only] = outcomes.as_mut_slice() {
        only.when = None;
    }
    let first = runs.first();
    let all = first.map(|run| run.queries.clone()).unwrap_or_default();
    let (mut queries, perhaps): (Vec<Query>, Vec<Query>) = all.into_iter().partition(|query| query.certain);
    for (query, n) in queries.iter_mut().zip(1..) {
        query.n = n;
    }
    let meant = first.and_then(|run| run.resolved.clone());
    let other = |query: &&Query| meant.as_deref().is_some_and(|meant| !name::same(meant, &query.qname));
    let cost = Cost { queries: queries.len(), for_other_names: queries.iter().filter(other).count(), meant };
    QueryPlan {
        libc,
        name: lookup.name.clone(),
        family: lookup.family,
        resolv_conf: Read {
            nameservers: conf.nameservers.iter().map(ToString::to_string).collect(),
            search: conf.search.clone(),
            options: conf.options,
            notes: conf.notes.clone(),
        },
        candidates,
        lost: first.map(|run| run.lost.clone()).unwrap_or_default(),
        queries,
        perhaps,
        predicted: Predicted { outcomes },
        cost,
        runs,
    }
}

/// An address needs no query.
fn numeric(lookup: &Lookup, libc: Libc) -> Option<Vec<Run>> {
    let Literal { address, zone } = match libc {
        Libc::Glibc(_) | Libc::Musl(_) => resolv_conf::literal(&lookup.name),
        Libc::Go(_) => resolv_conf::go_literal(&lookup.name),
    }?;
    let is_mapped = |address: IpAddr| matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let fits = match (lookup.family, libc) {
        (Family::Unspec, _) => true,
        // `gaih_inet` makes an IPv4 address of one that is mapped.
        (Family::Inet, Libc::Glibc(_)) => address.is_ipv4() || is_mapped(address),
        (Family::Inet, _) => address.is_ipv4(),
        (Family::Inet6, _) => address.is_ipv6(),
    };
    let rc = match (fits, libc) {
        (true, _) => 0,
        // EAI_ADDRFAMILY.
        (false, Libc::Glibc(_)) => -9,
        (false, Libc::Musl(version)) if version >= texts::MUSL_NODATA => texts::NODATA,
        (false, Libc::Musl(_)) => texts::NONAME,
        (false, Libc::Go(_)) => texts::AGAIN,
    };
    let text = match (fits, libc) {
        (true, _) => "ok, an address needs no DNS".to_owned(),
        (false, Libc::Go(_)) => "no suitable address found".to_owned(),
        (false, _) => texts::of(libc, rc),
    };
    let run = |rc: i32, text: &str, when: Option<String>| {
        let outcome = Outcome { rc: Some(rc), millis: Some(0), text: text.to_owned(), when };
        Run { outcome, resolved: None, queries: Vec::new(), lost: Vec::new(), steps: Vec::new() }
    };
    let refused = |when| run(texts::NONAME, &texts::of(libc, texts::NONAME), when);
    Some(match zone {
        Zone::Known => vec![run(rc, &text, None)],
        Zone::Refused => vec![refused(None)],
        Zone::Interface(name) => vec![
            run(rc, &text, Some(format!("there is an interface `{name}`"))),
            refused(Some(format!("there is no interface `{name}`"))),
        ],
    })
}
