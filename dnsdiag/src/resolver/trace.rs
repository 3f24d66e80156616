//! One run as it goes: the clock, who was asked what, and what came back.
//!
//! Invariant: what a server would see is a [`Query`]; what nobody would see is [`Lost`]; time never goes back.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::{Millis, seconds};
use crate::answers::{Answer, Answers, Qtype, Question, Transport};

/// A query that reaches a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// From 1.
    pub n: usize,
    /// Seconds since the lookup began.
    #[serde(serialize_with = "seconds")]
    pub at: Millis,
    /// The server.
    pub nameserver: IpAddr,
    /// How it is asked.
    pub transport: Transport,
    /// The name, with its final dot.
    pub qname: String,
    /// The type.
    pub qtype: Qtype,
    /// What comes back.
    pub answer: Answer,
    /// False when it is sent only if another answer comes later than this server's.
    pub certain: bool,
}

/// A query that reaches nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lost {
    /// Seconds since the lookup began.
    #[serde(serialize_with = "seconds")]
    pub at: Millis,
    /// Where it was sent.
    pub nameserver: IpAddr,
    /// How.
    pub transport: Transport,
    /// The name, with its final dot.
    pub qname: String,
    /// The type.
    pub qtype: Qtype,
    /// Why nobody sees it.
    pub because: LostBecause,
}

/// Why nobody sees a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LostBecause {
    /// Nobody listens there.
    Unreachable,
    /// It is no DNS message that a server could read.
    Malformed,
}

impl LostBecause {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unreachable => "nobody listens",
            Self::Malformed => "unreadable query",
        }
    }
}

/// One name that was tried, and what its end meant to the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The name, with its final dot.
    pub candidate: String,
    /// Seconds since the lookup began.
    #[serde(serialize_with = "seconds")]
    pub at: Millis,
    /// When the next one was begun.
    #[serde(serialize_with = "seconds")]
    pub until: Millis,
    /// What came back, by type.
    pub answers: String,
    /// What follows.
    pub then: Then,
    /// Why that follows.
    pub why: String,
}

/// What follows a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Then {
    /// Its addresses are the answer.
    Found,
    /// The next name is tried.
    Next,
    /// The rest of the suffixes is left out; the name as it is comes next.
    AsIs,
    /// The lookup ends.
    Stop,
}

/// Where a name's queries begin.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    at: Millis,
    queries: usize,
    lost: usize,
}

/// So many queries are planned for one lookup; the options of a file can ask for millions.
const MOST: usize = 2000;
/// What is said of a lookup with more.
pub(super) const FULL: &str = "still asking after 2000 queries: planned no further";

/// A run.
#[derive(Clone)]
pub(super) struct Trace<'a> {
    answers: &'a dyn Answers,
    servers: &'a [IpAddr],
    pub(super) now: Millis,
    pub(super) queries: Vec<Query>,
    pub(super) lost: Vec<Lost>,
    pub(super) steps: Vec<Step>,
    asked: BTreeMap<(IpAddr, String, Qtype), u32>,
}

impl<'a> Trace<'a> {
    pub(super) fn new(answers: &'a dyn Answers, servers: &'a [IpAddr]) -> Self {
        let (queries, lost, steps) = (Vec::new(), Vec::new(), Vec::new());
        Self { answers, servers, now: 0, queries, lost, steps, asked: BTreeMap::new() }
    }

    pub(super) fn servers(&self) -> &'a [IpAddr] {
        self.servers
    }

    /// True when no more is planned.
    pub(super) fn is_full(&self) -> bool {
        self.queries.len() + self.lost.len() >= MOST
    }

    /// Tells the end of the last name otherwise.
    pub(super) fn amend(&mut self, then: Then, why: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.then = then;
            why.clone_into(&mut step.why);
        }
    }

    /// The place at which a name begins.
    pub(super) fn mark(&self) -> Mark {
        Mark { at: self.now, queries: self.queries.len(), lost: self.lost.len() }
    }

    /// Tells how a name ended.
    pub(super) fn step(&mut self, mark: Mark, candidate: &str, then: Then, why: &str) {
        let queries = self.queries.get(mark.queries..).unwrap_or_default();
        let lost = self.lost.get(mark.lost..).unwrap_or_default();
        let mut parts: Vec<String> = Vec::new();
        for qtype in [Qtype::A, Qtype::Aaaa] {
            let mut words: Vec<&str> = Vec::new();
            let told = queries.iter().filter(|query| query.qtype == qtype).map(|query| query.answer.words());
            let lost = lost.iter().filter(|lost| lost.qtype == qtype).map(|lost| lost.because.words());
            for word in told.chain(lost) {
                if !words.contains(&word) {
                    words.push(word);
                }
            }
            if !words.is_empty() {
                parts.push(format!("{qtype} {}", words.join(", then ")));
            }
        }
        // The same for both is said once.
        let answers = match parts.as_slice() {
            [a, aaaa] if a.strip_prefix("A ") == aaaa.strip_prefix("AAAA ") => {
                format!("A and AAAA {}", a.strip_prefix("A ").unwrap_or_default())
            }
            [] => "nothing was asked".to_owned(),
            parts => parts.join("; "),
        };
        self.steps.push(Step {
            candidate: super::name::absolute(candidate),
            at: mark.at,
            until: self.now,
            answers,
            then,
            why: why.to_owned(),
        });
    }

    /// Asks, and tells the answer.
    pub(super) fn ask(&mut self, server: IpAddr, transport: Transport, name: &str, qtype: Qtype) -> Answer {
        self.ask_perhaps(server, transport, name, qtype, true)
    }

    /// The same for a question that depends on a race when `certain` is false.
    pub(super) fn ask_perhaps(
        &mut self,
        server: IpAddr,
        transport: Transport,
        name: &str,
        qtype: Qtype,
        certain: bool,
    ) -> Answer {
        let name = super::name::absolute(name);
        let count = self.asked.entry((server, name.to_ascii_lowercase(), qtype)).or_default();
        let question = Question { nameserver: server, transport, name: &name, qtype, asked_before: *count };
        let answer = self.answers.answer(&question);
        if answer == Answer::Unreachable {
            self.lose(server, transport, name, qtype, LostBecause::Unreachable);
            return answer;
        }
        *count += 1;
        let n = self.queries.len() + 1;
        let at = self.now;
        self.queries.push(Query {
            n,
            at,
            nameserver: server,
            transport,
            qname: name,
            qtype,
            answer,
            certain,
        });
        answer
    }

    /// Notes a query that nobody can see.
    pub(super) fn lose(
        &mut self,
        nameserver: IpAddr,
        transport: Transport,
        qname: String,
        qtype: Qtype,
        because: LostBecause,
    ) {
        self.lost.push(Lost { at: self.now, nameserver, transport, qname, qtype, because });
    }
}
