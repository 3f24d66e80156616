//! Answers that came and are none that a healthy DNS gives: errors for names that its servers can answer by themselves, answers that
//! contradict each other, and answers that come when the pod's resolver has given up, or nearly.
//!
//! Invariant: only what matters to the pod counts. Servers without traffic, names below search domains of others that its lookups
//! never come to, and EDNS where its resolver sends none say nothing. That NXDOMAIN and an empty NOERROR differ is no contradiction.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlab_plugin::evidence::{Flag, Outcome, Position, Probe, Transport};

use super::{Ask, Server, View, ids, is_below, is_canary};
use crate::resolv_conf::Dialect;
use crate::resolver::as_seconds;

/// Something that speaks against health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amiss {
    /// In a sentence.
    pub what: String,
    /// The rows.
    pub ids: Vec<String>,
    /// What to do.
    pub fix: String,
}

type Row<'e> = (&'e str, &'e Probe);

/// What is asked, and whom where it does not stand for others.
type Same<'e> = (Option<IpAddr>, String, &'e str);

/// What an answer comes to for a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Records,
    Nothing,
    Error(Outcome),
}

impl Said {
    const fn words(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Nothing => "that there are none",
            Self::Error(outcome) => outcome.as_str(),
        }
    }
}

const fn is_error(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Servfail | Outcome::Refused | Outcome::Formerr | Outcome::Notimp)
}

impl View<'_> {
    /// Everything of that kind.
    #[must_use]
    pub fn amiss(&self) -> Vec<Amiss> {
        let scope = Scope::new(self);
        let mut found = scope.errors();
        found.extend(scope.useless());
        found.extend(scope.outside());
        found.extend(scope.contradictions());
        found.extend(scope.late());
        found.extend(scope.lookups());
        found
    }

    /// How long the pod's resolver waits for an answer, in milliseconds; `timeout` of its `resolv.conf`, else its default.
    #[must_use]
    pub fn patience(&self) -> f64 {
        let seconds = self.conf().map_or(5, |conf| conf.options.timeout);
        f64::from(i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)) * 1000.0
    }
}

struct Scope<'v, 'e> {
    view: &'v View<'e>,
    domain: String,
    nameservers: Vec<IpAddr>,
    /// Addresses of the cluster's servers to which questions of the pod come.
    serving: BTreeSet<IpAddr>,
    /// The names that the pod's lookups ask for, in lower case.
    wanted: BTreeSet<String>,
    /// Those that search domains make of the names, in lower case.
    searched: BTreeSet<String>,
    rows: Vec<Row<'e>>,
}

impl<'v, 'e> Scope<'v, 'e> {
    fn new(view: &'v View<'e>) -> Self {
        let conf = view.conf();
        let edns =
            conf.as_ref().is_some_and(|conf| matches!(conf.dialect, Dialect::Go(_)) || conf.options.edns0);
        let rows: Vec<Row<'e>> = view
            .rows(&Ask::default())
            .into_iter()
            .filter(|(_, probe)| probe.result.is_answer() && (edns || probe.edns.is_none()))
            .collect();
        let nameservers = view.nameservers();
        let ready =
            [Transport::Udp, Transport::Tcp].into_iter().flat_map(|over| view.ready_dns_addresses(over));
        let mut serving: BTreeSet<IpAddr> = ready.map(|to| to.ip()).collect();
        serving.extend(rows.iter().map(|(_, probe)| probe.server).filter(
            |address| match view.server(*address) {
                Some(Server::ClusterDns(_)) => true,
                Some(Server::DnsPod(_) | Server::LinkLocal) => nameservers.contains(address),
                _ => false,
            },
        ));
        let (mut wanted, mut searched) = (BTreeSet::new(), BTreeSet::new());
        for name in &view.target.names {
            wanted.insert(lower(&view.intended(name)));
            let candidates = view.candidates(name);
            let made = candidates.iter().filter(|one| one.suffix.is_some());
            searched.extend(made.map(|one| lower(&one.name)));
            match view.replay(name) {
                Some(replay) => {
                    let used = rows.iter().filter(|(id, _)| replay.ids.iter().any(|used| used == id));
                    wanted.extend(used.map(|(_, probe)| lower(&probe.name)));
                }
                None => wanted.extend(candidates.iter().map(|one| lower(&one.name))),
            }
        }
        let domain = view.domain().unwrap_or_else(|| "cluster.local".to_owned());
        Self { view, domain, nameservers, serving, wanted, searched, rows }
    }

    fn serves(&self, probe: &Probe) -> bool {
        self.serving.contains(&probe.server)
    }

    fn within(&self, probe: &Probe) -> bool {
        is_below(&probe.name, &self.domain)
    }

    fn matters(&self, probe: &Probe) -> bool {
        self.within(probe) || self.wanted.contains(&lower(&probe.name))
    }

    fn of_pod(&self) -> impl Iterator<Item = Row<'e>> {
        self.rows.iter().copied().filter(|(_, probe)| probe.from == Position::Pod)
    }

    /// Names of the cluster need nobody else to be answered: an error for one of them is the server's own.
    fn errors(&self) -> Vec<Amiss> {
        let known = format!("kubernetes.default.svc.{}", lower(&self.domain));
        let mut by_server: BTreeMap<(IpAddr, Outcome), Vec<Row<'e>>> = BTreeMap::new();
        for (id, probe) in self.rows.iter().copied() {
            let denied = probe.result == Outcome::Nxdomain && lower(&probe.name) == known;
            if self.serves(probe) && self.within(probe) && (is_error(probe.result) || denied) {
                by_server.entry((probe.server, probe.result)).or_default().push((id, probe));
            }
        }
        let told = by_server.into_iter().filter_map(|((server, result), rows)| {
            let (id, first) = rows.first()?;
            let more = more(rows.len());
            Some(Amiss {
                what: format!(
                    "{server} says {} to {} {} over {} from {} ({id}{more}), which it can answer by itself",
                    result.as_str(),
                    first.qtype,
                    first.name,
                    first.transport,
                    first.from
                ),
                ids: of(&rows),
                fix: format!("read the log and the Corefile of the DNS server behind {server}"),
            })
        });
        told.collect()
    }

    /// A server of the pod that gives nothing but errors.
    fn useless(&self) -> Vec<Amiss> {
        let each = self.nameservers.iter().filter_map(|server| {
            let rows: Vec<Row<'e>> = self.of_pod().filter(|(_, probe)| probe.server == *server).collect();
            let (id, first) = rows.first()?;
            let all = rows.iter().all(|(_, probe)| is_error(probe.result));
            all.then(|| Amiss {
                what: format!(
                    "{server} gives errors only: {} to {} ({id})",
                    first.result.as_str(),
                    first.name
                ),
                ids: of(&rows),
                fix: format!("find out why {server} answers no question of the pod"),
            })
        });
        each.collect()
    }

    /// Names outside of which none gets an answer.
    fn outside(&self) -> Option<Amiss> {
        let asked: Vec<Row<'e>> = self
            .of_pod()
            .filter(|(_, probe)| {
                self.nameservers.contains(&probe.server)
                    && !self.within(probe)
                    && !is_canary(&probe.name)
                    && !self.searched.contains(&lower(&probe.name))
            })
            .collect();
        let (id, first) = asked.first()?;
        asked.iter().all(|(_, probe)| is_error(probe.result)).then(|| Amiss {
            what: format!(
                "no name outside of the cluster gets an answer: {} gets {} ({id}{})",
                first.name,
                first.result.as_str(),
                more(asked.len())
            ),
            ids: of(&asked),
            fix: "ask the servers that the Corefile forwards to, from the DNS pods' node".to_owned(),
        })
    }

    /// The same question, answered in ways that exclude each other: by one server, or by several that stand for each other. What
    /// [`Self::errors`] tells is not told again.
    fn contradictions(&self) -> Vec<Amiss> {
        let mut asked: BTreeMap<Same<'e>, Vec<(Row<'e>, Said)>> = BTreeMap::new();
        for (id, probe) in self.of_pod().filter(|(_, probe)| self.matters(probe)) {
            let serves = self.serves(probe);
            let own = serves && self.within(probe) && is_error(probe.result);
            if own || probe.has(Flag::Tc) || !(serves || self.nameservers.contains(&probe.server)) {
                continue;
            }
            let said = match probe.result {
                outcome if is_error(outcome) => Said::Error(outcome),
                Outcome::Noerror if !probe.answers.is_empty() => Said::Records,
                _ => Said::Nothing,
            };
            let whom = (!serves).then_some(probe.server);
            asked.entry((whom, lower(&probe.name), &probe.qtype)).or_default().push(((id, probe), said));
        }
        let differing = asked.into_values().filter_map(|all| {
            let ((first, one), said) = *all.first()?;
            let ((second, other), otherwise) = *all.iter().find(|(_, other)| *other != said)?;
            let rows: Vec<Row<'e>> = all.iter().map(|(row, _)| *row).collect();
            Some(Amiss {
                what: format!(
                    "{} {}: {} says {} ({first}), {} says {} ({second})",
                    one.qtype,
                    one.name,
                    one.server,
                    said.words(),
                    if one.server == other.server {
                        "and again it".to_owned()
                    } else {
                        other.server.to_string()
                    },
                    otherwise.words()
                ),
                ids: of(&rows),
                fix: format!("ask each server for {} {} 20 times or more, and compare", one.qtype, one.name),
            })
        });
        differing.collect()
    }

    /// Answers that come when the resolver has given up, or that need more than half of its patience.
    fn late(&self) -> Option<Amiss> {
        let patience = self.view.patience();
        let slow: Vec<(Row<'e>, f64)> = self
            .rows
            .iter()
            .filter(|(_, probe)| self.matters(probe))
            .filter(|(_, probe)| self.serves(probe) || self.nameservers.contains(&probe.server))
            .filter_map(|row| Some((*row, row.1.ms?)))
            .filter(|(_, ms)| *ms >= patience / 2.0)
            .collect();
        let ((id, probe), ms) = *slow.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        let rows: Vec<Row<'e>> = slow.iter().map(|(row, _)| *row).collect();
        let waits = patience / 1000.0;
        let too = if ms >= patience {
            format!("too late: the pod's resolver waits {waits:.0} s")
        } else {
            format!("more than half of the {waits:.0} s that the pod's resolver waits")
        };
        Some(Amiss {
            what: format!(
                "{} answers {} {} after {:.1} s ({id}{}), {too}",
                probe.server,
                probe.qtype,
                probe.name,
                ms / 1000.0,
                more(rows.len())
            ),
            ids: of(&rows),
            fix:
                "look at the load and the CPU limits of the DNS pods, and at what their log says of upstreams"
                    .to_owned(),
        })
    }

    /// Lookups that the answers do not bring to an end that the application wants.
    fn lookups(&self) -> Vec<Amiss> {
        let each = self.view.target.names.iter().filter_map(|name| {
            let replay = self.view.replay(name).filter(|replay| replay.unasked.is_empty())?;
            let failing = replay.plan.predicted.outcomes.iter().find(|outcome| outcome.rc != Some(0))?;
            let after = match failing.millis {
                Some(millis) => format!(" after {:.1} s", as_seconds(millis)),
                None => ", never ending".to_owned(),
            };
            Some(Amiss {
                what: format!("with these answers a lookup of `{name}` can come to: {}{after}", failing.text),
                ids: replay.ids.clone(),
                fix: format!("see how it comes to that: netlab dns plan {name} --compare"),
            })
        });
        each.collect()
    }
}

fn lower(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn of(rows: &[Row<'_>]) -> Vec<String> {
    ids(rows.iter().map(|(id, _)| *id))
}

fn more(rows: usize) -> String {
    match rows {
        0 | 1 => String::new(),
        rows => format!(" and {} more", rows - 1),
    }
}
