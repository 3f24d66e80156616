//! Questions that leave a socket one right after the other, as C libraries ask for A and AAAA: what is lost of them only in company.
//!
//! Invariant: one loss proves nothing, and what is lost alone, too, is not lost for its company.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use netlab_plugin::evidence::{Outcome, Probe, Transport};

use super::{Ask, View};
use crate::resolv_conf::Dialect;

/// What a server's answers to pairs of questions show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together {
    /// Who was asked.
    pub server: SocketAddr,
    /// Pairs of which at least one question was answered.
    pub pairs: u32,
    /// Those of which the other was not.
    pub halves: u32,
    /// It was always the second that was lost.
    pub second: bool,
    /// The lost questions, asked alone.
    pub alone: u32,
    /// Those of them that were answered.
    pub alone_answered: u32,
    /// The rows.
    pub ids: Vec<String>,
}

impl Together {
    /// True when questions were lost that were answered whenever they were alone.
    #[must_use]
    pub const fn is_company(&self) -> bool {
        self.halves >= 2 && self.alone > 0 && self.alone_answered == self.alone
    }

    /// `of 4 pairs from one socket 4 lost the second question; alone it was answered (2/2)`.
    #[must_use]
    pub fn words(&self) -> String {
        format!(
            "of {} pairs of questions from one socket {} lost {}; alone it was answered ({}/{})",
            self.pairs,
            self.halves,
            if self.second { "the second" } else { "one" },
            self.alone_answered,
            self.alone
        )
    }
}

/// Sent and answered, of one name and type.
type Counts = (u32, u32);

impl View<'_> {
    /// Whether the pod's resolver asks for A and AAAA from one UDP socket: glibc (but with `single-request-reopen`, or over TCP)
    /// and musl do, Go does not. What is not known is taken for a C library.
    #[must_use]
    pub fn asks_from_one_socket(&self) -> bool {
        match self.conf() {
            Some(conf) => match conf.dialect {
                Dialect::Go(_) => false,
                Dialect::Glibc(_) => !conf.options.single_request_reopen && !conf.options.use_vc,
                Dialect::Musl(_) | Dialect::Kubelet => true,
            },
            None => true,
        }
    }

    /// Each server that the pod asked so, in the order of addresses.
    #[must_use]
    pub fn together(&self) -> Vec<Together> {
        let rows = self.rows(&Ask::from_pod().over(Transport::Udp));
        let mut servers: BTreeMap<SocketAddr, Vec<(&str, &Probe)>> = BTreeMap::new();
        for (id, probe) in rows.iter().copied().filter(|(_, probe)| probe.together) {
            servers.entry(SocketAddr::new(probe.server, probe.port)).or_default().push((id, probe));
        }
        let count = |rows: &mut dyn Iterator<Item = &Probe>| -> Counts {
            rows.fold((0, 0), |(sent, seen), probe| {
                (sent.saturating_add(probe.sent), seen.saturating_add(probe.answers_seen()))
            })
        };
        let of_server = |(server, pairs): (SocketAddr, Vec<(&str, &Probe)>)| {
            let names: BTreeSet<&str> = pairs.iter().map(|(_, probe)| &*probe.name).collect();
            let mut seen = Together {
                server,
                pairs: 0,
                halves: 0,
                second: true,
                alone: 0,
                alone_answered: 0,
                ids: pairs.iter().map(|(id, _)| (*id).to_owned()).collect(),
            };
            for name in names {
                let of = |qtype: &str| {
                    let same = |probe: &&Probe| probe.name == name && probe.qtype == qtype;
                    count(&mut pairs.iter().map(|(_, probe)| *probe).filter(same))
                };
                let (a, aaaa) = (of("A"), of("AAAA"));
                let most = a.1.max(aaaa.1);
                seen.pairs = seen.pairs.saturating_add(most);
                for (qtype, (sent, answered)) in [("A", a), ("AAAA", aaaa)] {
                    // A refusal is an end, too: only silence is a loss.
                    let silent = pairs.iter().any(|(_, probe)| {
                        probe.name == name
                            && probe.qtype == qtype
                            && (probe.some_answered() || probe.result == Outcome::Silent)
                    });
                    let lost = sent.min(most).saturating_sub(answered);
                    if lost == 0 || !silent {
                        continue;
                    }
                    seen.halves = seen.halves.saturating_add(lost);
                    seen.second &= qtype == "AAAA";
                    let by_itself = rows.iter().copied().filter(|(_, probe)| {
                        !probe.together
                            && probe.edns.is_none()
                            && SocketAddr::new(probe.server, probe.port) == server
                            && probe.name == name
                            && probe.qtype == qtype
                    });
                    let by_itself: Vec<_> = by_itself.collect();
                    let (sent, answered) = count(&mut by_itself.iter().map(|(_, probe)| *probe));
                    seen.alone = seen.alone.saturating_add(sent);
                    seen.alone_answered = seen.alone_answered.saturating_add(answered);
                    seen.ids.extend(by_itself.iter().map(|(id, _)| (*id).to_owned()));
                }
            }
            seen
        };
        servers.into_iter().map(of_server).collect()
    }

    /// The server of which questions are lost only in company, with what the others show.
    #[must_use]
    pub fn lost_in_company(&self) -> Option<(Together, Vec<Together>)> {
        let (mut lost, others): (Vec<_>, Vec<_>) =
            self.together().into_iter().partition(Together::is_company);
        let servers = self.nameservers();
        // What the pod asks first, then what stands behind it.
        lost.sort_by_key(|one| {
            servers.iter().position(|server| *server == one.server.ip()).unwrap_or(usize::MAX)
        });
        let mut lost = lost.into_iter();
        let first = lost.next()?;
        Some((first, lost.chain(others).collect()))
    }
}
