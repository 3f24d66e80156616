//! The pod's lookup again: its libc's model, fed with the answers that were recorded.
//!
//! Invariant: a question that the model asks and nobody recorded makes the replay incomplete, unless its server was silent (or
//! refused) to everything: then it is that to this question too. An answer that came later than the resolver waits is silence. The symptom is never an input.

use std::cell::RefCell;
use std::collections::BTreeSet;

use netlab_plugin::evidence::{Flag, Outcome, Probe, Transport};

use super::{Ask, Reach, View};
use crate::answers::{self, Answer, Answers, Question};
use crate::resolv_conf::read;
use crate::resolver::{Family, Libc, Lookup, QueryPlan, plan};

/// A lookup, worked out.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The plan with its outcomes.
    pub plan: QueryPlan,
    /// Questions that it asks and that were not recorded: `A foo.example.com. of 10.96.0.10`.
    pub unasked: Vec<String>,
    /// The rows that it used.
    pub ids: Vec<String>,
}

struct Recorded<'v, 'e> {
    view: &'v View<'e>,
    edns: bool,
    unasked: RefCell<BTreeSet<String>>,
    used: RefCell<BTreeSet<String>>,
}

impl Answers for Recorded<'_, '_> {
    fn answer(&self, question: &Question<'_>) -> Answer {
        let transport = match question.transport {
            answers::Transport::Udp => Transport::Udp,
            answers::Transport::Tcp => Transport::Tcp,
        };
        let ask = Ask::from_pod().to([question.nameserver]).port(53).over(transport);
        let rows = self.view.rows(&ask);
        let qtype = question.qtype.to_string();
        let of_this = |probe: &Probe| probe.qtype == qtype && probe.name.eq_ignore_ascii_case(question.name);
        // Go sends EDNS always, the others do not.
        let with_edns = rows.iter().find(|(_, probe)| self.edns && probe.edns.is_some() && of_this(probe));
        let found =
            with_edns.or_else(|| rows.iter().find(|(_, probe)| probe.edns.is_none() && of_this(probe)));
        if let Some((id, probe)) = found {
            self.used.borrow_mut().insert((*id).to_owned());
            // An answer over TCP is waited for as long as it takes by some; over UDP nobody does.
            let late = probe.ms.is_some_and(|ms| ms >= self.view.patience());
            return if late && transport == Transport::Udp { Answer::Silence } else { answer(probe) };
        }
        let all = super::seen(&rows);
        match all.reach {
            Reach::Silent => {
                self.used.borrow_mut().extend(all.ids);
                Answer::Silence
            }
            Reach::Refused => {
                self.used.borrow_mut().extend(all.ids);
                Answer::Unreachable
            }
            _ => {
                let what = format!("{qtype} {} of {}", question.name, question.nameserver);
                self.unasked.borrow_mut().insert(what);
                Answer::NxDomain
            }
        }
    }
}

fn answer(probe: &Probe) -> Answer {
    match probe.result {
        _ if probe.has(Flag::Tc) => Answer::Truncated,
        Outcome::Noerror if probe.answers.is_empty() => Answer::NoData,
        Outcome::Noerror => Answer::Addresses,
        Outcome::Nxdomain => Answer::NxDomain,
        Outcome::Servfail => Answer::ServFail,
        Outcome::Refused => Answer::Refused,
        Outcome::Formerr => Answer::FormErr,
        Outcome::Notimp => Answer::NotImp,
        Outcome::ConnectionRefused => Answer::Unreachable,
        _ => Answer::Silence,
    }
}

impl View<'_> {
    /// The pod's libc; `None` when it is not known or not modelled.
    #[must_use]
    pub fn resolver(&self) -> Option<Libc> {
        self.target.libc.as_deref()?.parse().ok()
    }

    /// The lookup of a name with the recorded answers; `None` when the libc or the file is not known.
    #[must_use]
    pub fn replay(&self, name: &str) -> Option<Replay> {
        self.replay_with(name, self.resolver()?)
    }

    /// The same by another libc with the same file.
    #[must_use]
    pub fn replay_with(&self, name: &str, libc: Libc) -> Option<Replay> {
        let text = self.text(crate::bundle::layout::POD_RESOLV_CONF)?;
        let conf = read(text.as_bytes(), libc.dialect());
        let edns = matches!(libc, Libc::Go(_)) || conf.options.edns0;
        let recorded = Recorded { view: self, edns, unasked: RefCell::default(), used: RefCell::default() };
        let lookup = Lookup { name: name.to_owned(), family: Family::Unspec };
        let plan = plan(&lookup, &conf, libc, &recorded);
        let (unasked, ids) = (recorded.unasked.into_inner(), recorded.used.into_inner());
        Some(Replay { plan, unasked: unasked.into_iter().collect(), ids: ids.into_iter().collect() })
    }
}
