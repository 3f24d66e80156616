//! What the first answers leave open, and the questions that settle it.
//!
//! Invariant: pure. One datagram that is lost proves nothing, so whatever was lost where others came through is asked again, and
//! what was lost in company is asked alone, too.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use netlab_plugin::evidence::{Position, Transport};

use super::{CONNECT, Question};
use crate::probe::{Observation, Outcome};
use crate::view::is_canary;

/// Between two tries of what was lost: a burst may lose both.
const APART: Duration = Duration::from_millis(300);
/// Truncated answers that are asked for over TCP, at most.
const CUT: usize = 2;
/// Other servers that are asked for a pair that was lost, at most.
const BESIDE: usize = 2;
/// Lost questions of pairs that are looked at, at most.
const PAIRS: usize = 4;
/// The EDNS size of `CoreDNS` and of most resolvers (DNS flag day 2020).
pub(super) const EDNS: u16 = 1232;

/// The size of an answer to a question without EDNS (RFC 1035 section 4.2.1).
const PLAIN: usize = 512;

/// A question that is asked once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    pub(super) index: usize,
    pub(super) wait: Duration,
}

/// The questions of the first round with what was seen of them.
pub(super) struct Open<'q> {
    questions: &'q [Question],
    seen: &'q [(usize, Observation)],
}

impl<'q> Open<'q> {
    pub(super) const fn new(questions: &'q [Question], seen: &'q [(usize, Observation)]) -> Self {
        Self { questions, seen }
    }

    fn of(&self, index: usize) -> impl Iterator<Item = &'q Observation> {
        self.seen.iter().filter(move |(asked, _)| *asked == index).map(|(_, observation)| observation)
    }

    /// True when it was asked and nothing at all came back.
    fn was_silent(&self, index: usize) -> bool {
        let mut own = self.of(index).peekable();
        own.peek().is_some() && own.all(|observation| observation.outcome == Outcome::Silent)
    }

    /// The pod's UDP questions that nothing came back for while the same server answered others.
    fn lost(&self) -> impl Iterator<Item = (usize, &'q Question)> {
        self.questions.iter().enumerate().filter(|(index, question)| {
            question.from == Position::Pod
                && question.transport == Transport::Udp
                && self.was_silent(*index)
                && self.answers(&Position::Pod, question.server)
        })
    }

    /// True when any question of this position over UDP to this server was answered.
    fn answers(&self, from: &Position, server: SocketAddr) -> bool {
        self.questions.iter().enumerate().any(|(index, one)| {
            one.from == *from
                && one.server == server
                && one.transport == Transport::Udp
                && self.of(index).any(|seen| matches!(seen.outcome, Outcome::Answered { .. }))
        })
    }
}

/// UDP questions that nothing at all came back for, one for each segment where nothing came back for any. The node's own are
/// there to be compared with the pod's: where that gets answers, they are not worth the wait.
pub(super) fn silent(open: &Open<'_>) -> Vec<usize> {
    let mut segments = Vec::new();
    let mut silent = Vec::new();
    for (index, question) in open.questions.iter().enumerate() {
        let segment = (&question.from, question.server);
        let compared = question.from == Position::Node && open.answers(&Position::Pod, question.server);
        if question.transport == Transport::Udp
            && open.was_silent(index)
            && !compared
            && !open.answers(&question.from, question.server)
            && !segments.contains(&segment)
        {
            segments.push(segment);
            silent.push(index);
        }
    }
    silent
}

/// The pod's UDP questions that were lost while others to the same server were answered, twice each.
pub(super) fn lost(open: &Open<'_>) -> Vec<Again> {
    let lost = open.lost().filter(|(_, question)| question.socket.is_none());
    // Each once before any twice, where there is not room for all.
    let lost: Vec<usize> = lost.map(|(index, _)| index).collect();
    let both = [Duration::ZERO, APART];
    both.into_iter().flat_map(|wait| lost.iter().map(move |index| Again { index: *index, wait })).collect()
}

/// Pairs from one socket of which a question was lost: the sockets, to be asked again as they were, and their lost questions
/// alone. So what is lost only in company is told from what is lost for its type or its name.
pub(super) fn lost_together(open: &Open<'_>) -> (Vec<u32>, Vec<Question>) {
    let mut sockets = Vec::new();
    let mut alone = Vec::new();
    for (_, question) in open.lost() {
        let Some(socket) = question.socket else { continue };
        if sockets.len() >= PAIRS {
            break;
        }
        let twin = |(_, one): &(usize, &Question)| one.socket == Some(socket) && *one != question;
        let whole = open.lost().any(|one| twin(&one));
        if !sockets.contains(&socket) {
            sockets.push(socket);
        }
        // What is lost as a whole is not lost for its company.
        if !whole {
            alone.push(Question { socket: None, times: 2, ..question.clone() });
        }
    }
    // The same pair at what stands behind the server: without a translation between, nothing of it may be lost.
    let Some(lost) = alone.first().cloned() else { return (sockets, alone) };
    let mut free = open.questions.iter().filter_map(|question| question.socket).max().unwrap_or(0);
    let mut others = BTreeSet::from([lost.server]);
    for question in open.questions {
        let beside = question.from == Position::Pod
            && question.transport == Transport::Udp
            && question.server.is_ipv4() == lost.server.is_ipv4();
        if beside && others.len() <= BESIDE && others.insert(question.server) {
            free += 1;
            alone.extend(["A", "AAAA"].map(|record| Question {
                server: question.server,
                record,
                times: 1,
                socket: Some(free),
                ..lost.clone()
            }));
        }
    }
    (sockets, alone)
}

/// What a truncated answer leads to, or one that is longer than it may be: the same over TCP, and with the size that EDNS
/// offers. Over TCP the name's other address type is asked, too: glibc asks for both again when either is cut.
pub(super) fn cut(open: &Open<'_>) -> Vec<Question> {
    let mut names = BTreeSet::new();
    let mut more = Vec::new();
    for (index, question) in open.questions.iter().enumerate() {
        let large = |seen: &Observation| match &seen.outcome {
            Outcome::Answered { answer } => answer.truncated || answer.bytes > PLAIN,
            _ => false,
        };
        if question.from != Position::Pod
            || question.transport != Transport::Udp
            || question.edns.is_some()
            || !open.of(index).any(large)
            || names.len() >= CUT
            || !names.insert((&question.name, question.record))
        {
            continue;
        }
        let other = match question.record {
            "A" => "AAAA",
            "AAAA" => "A",
            record => record,
        };
        for record in [question.record, other] {
            let whole =
                Question { transport: Transport::Tcp, record, times: 1, socket: None, ..question.clone() };
            let is_same = |one: &Question| {
                (&one.from, one.server, &one.name, one.record, one.transport)
                    == (&whole.from, whole.server, &whole.name, whole.record, whole.transport)
            };
            if !open.questions.iter().any(is_same) && !more.iter().any(is_same) {
                more.push(whole);
            }
        }
        more.push(Question { edns: Some(EDNS), times: 2, socket: None, ..question.clone() });
    }
    more
}

/// A connection to an address that each name got, if a port was given.
pub(super) fn connections(open: &Open<'_>, port: Option<u16>) -> Vec<Question> {
    let Some(port) = port else { return Vec::new() };
    let mut more: Vec<Question> = Vec::new();
    for (index, question) in open.questions.iter().enumerate() {
        if question.from != Position::Pod || is_canary(&question.name) {
            continue;
        }
        let address = open.of(index).find_map(|seen| match &seen.outcome {
            Outcome::Answered { answer } => answer
                .answers
                .iter()
                .filter(|one| matches!(&*one.kind, "A" | "AAAA"))
                .find_map(|one| one.data.parse().ok()),
            _ => None,
        });
        let Some(address) = address else { continue };
        let connection = Question {
            from: Position::Pod,
            server: SocketAddr::new(address, port),
            transport: Transport::Tcp,
            edns: None,
            name: question.name.clone(),
            record: CONNECT,
            times: 1,
            socket: None,
        };
        if !more.contains(&connection) && more.len() < 4 {
            more.push(connection);
        }
    }
    more
}
