//! Asking: all questions at once, then what their answers leave open.
//!
//! Invariant: the first round lasts as long as its slowest question, at most the patience for connecting and again for an answer;
//! the second at most the last patience. Rows are in the order of the questions, whatever came first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, mpsc::RecvTimeoutError};
use std::time::Duration;

use netlab_plugin::evidence::{Position, Probe as Row, Transport};

use super::follow::{Again, Open, connections, cut, lost, lost_together, silent};
use super::row::rows;
use super::{Budget, CONNECT, Prober, Question};
use crate::probe::{self, Observation, Order, Probe};

/// Before a pair that was lost is asked again: what lost it may have lasted for a moment.
const APART: Duration = Duration::from_millis(300);
/// Between the sends of one question: their losses tell nothing new when they leave together.
const STAGGER: Duration = Duration::from_millis(40);
/// How often somebody who waits looks whether to stop.
const TICK: Duration = Duration::from_millis(20);

pub(super) struct Answered {
    pub(super) rows: Vec<Row>,
    pub(super) sent: u32,
    pub(super) failed: Vec<String>,
    pub(super) interrupted: bool,
}

/// One send: of a question, or of the two that share a socket.
struct Send {
    wait: Duration,
    from: Position,
    /// Each with its question.
    probes: Vec<(usize, Probe)>,
}

/// Questions in sends.
fn count(sends: &[Send]) -> usize {
    sends.iter().map(|send| send.probes.len()).sum()
}

pub(super) fn ask(
    mut questions: Vec<Question>,
    prober: &Arc<dyn Prober>,
    budget: &Budget,
    order: Order,
    random: u64,
    stop: &Arc<AtomicBool>,
) -> Answered {
    let mut ids = Ids(random);
    let mut answered = Answered { rows: Vec::new(), sent: 0, failed: Vec::new(), interrupted: false };
    let first = sends(&questions, 0, budget.patience, &mut ids);
    answered.sent += u32::try_from(count(&first)).unwrap_or(u32::MAX);
    let mut seen = send(first, prober, order, stop, &mut answered);
    if !answered.interrupted {
        let room = usize::try_from(budget.questions.saturating_sub(answered.sent)).unwrap_or(0);
        let mut second = second(&mut questions, &seen, budget, &mut ids);
        let wanted = count(&second);
        while count(&second) > room {
            second.pop();
        }
        let more = wanted - count(&second);
        if more > 0 {
            answered.failed.push(format!(
                "probes: {more} questions were not asked again: a run sends {} at most",
                budget.questions
            ));
        }
        answered.sent += u32::try_from(count(&second)).unwrap_or(u32::MAX);
        seen.extend(send(second, prober, order, stop, &mut answered));
    }
    for (index, question) in questions.iter().enumerate() {
        let own: Vec<&Observation> =
            seen.iter().filter(|(asked, _)| *asked == index).map(|(_, observation)| observation).collect();
        answered.rows.extend(rows(question, &own));
    }
    answered
}

/// What the first answers leave open, in the order of what it is worth.
fn second(
    questions: &mut Vec<Question>,
    seen: &[(usize, Observation)],
    budget: &Budget,
    ids: &mut Ids,
) -> Vec<Send> {
    let open = Open::new(questions, seen);
    // A socket that hears anybody, and waits for as long as an unanswered ARP takes to be told.
    let from_any = silent(&open).into_iter().map(|index| Again { index, wait: Duration::ZERO });
    let again: Vec<(Again, bool)> = from_any
        .map(|again| (again, true))
        .chain(lost(&open).into_iter().map(|again| (again, false)))
        .collect();
    let (sockets, alone) = lost_together(&open);
    let more = [alone, cut(&open), connections(&open, budget.connect)].concat();
    let start = questions.len();
    let mut second: Vec<Send> = sockets
        .into_iter()
        .map(|socket| {
            let twins = questions.iter().enumerate().filter(|(_, question)| question.socket == Some(socket));
            pair(twins, APART, budget.patience, ids)
        })
        .collect();
    questions.extend(more);
    second.extend(sends(questions, start, budget.patience, ids));
    for (Again { index, wait }, from_any) in again {
        let Some(question) = questions.get(index) else { continue };
        let probe = if from_any {
            message(question, probe::Transport::UdpFromAny, budget.last_patience, ids.next())
        } else {
            message(question, probe::Transport::Udp, budget.patience, ids.next())
        };
        second.push(Send { wait, from: question.from.clone(), probes: vec![(index, probe)] });
    }
    second
}

/// The send of questions that share a socket.
fn pair<'q>(
    twins: impl Iterator<Item = (usize, &'q Question)>,
    wait: Duration,
    patience: Duration,
    ids: &mut Ids,
) -> Send {
    let probes: Vec<(usize, Probe)> = twins
        .map(|(index, question)| (index, message(question, probe::Transport::Udp, patience, ids.next())))
        .collect();
    Send { wait, from: Position::Pod, probes }
}

/// Each send of the questions from this one on.
fn sends(questions: &[Question], start: usize, patience: Duration, ids: &mut Ids) -> Vec<Send> {
    let mut sends = Vec::new();
    for (index, question) in questions.iter().enumerate().skip(start) {
        let transport = match question.transport {
            _ if question.record == CONNECT => probe::Transport::Connect,
            Transport::Udp => probe::Transport::Udp,
            Transport::Tcp => probe::Transport::Tcp,
        };
        if let Some(socket) = question.socket {
            let is_twin = |one: &&(usize, &Question)| one.1.socket == Some(socket);
            let all: Vec<(usize, &Question)> = questions.iter().enumerate().skip(start).collect();
            let twins: Vec<(usize, &Question)> = all.iter().filter(is_twin).copied().collect();
            if twins.first().is_some_and(|(first, _)| *first == index) {
                sends.push(pair(twins.into_iter(), Duration::ZERO, patience, ids));
            }
            continue;
        }
        for time in 0..question.times {
            let probe = message(question, transport, patience, ids.next());
            sends.push(Send {
                wait: STAGGER * time,
                from: question.from.clone(),
                probes: vec![(index, probe)],
            });
        }
    }
    sends
}

fn message(question: &Question, transport: probe::Transport, patience: Duration, id: u16) -> Probe {
    Probe {
        name: question.name.clone(),
        record: question.record.to_owned(),
        server: question.server,
        transport,
        id,
        edns: question.edns,
        source_port: None,
        patience,
    }
}

/// Sends each on a thread of its own and collects what comes back, until all have or somebody says stop.
fn send(
    sends: Vec<Send>,
    prober: &Arc<dyn Prober>,
    order: Order,
    stop: &Arc<AtomicBool>,
    answered: &mut Answered,
) -> Vec<(usize, Observation)> {
    let (results, collected) = mpsc::channel();
    let mut waiting = 0usize;
    for Send { wait, from, probes } in sends {
        let (results, prober) = (results.clone(), Arc::clone(prober));
        let work = move || {
            std::thread::sleep(wait);
            let (indices, probes): (Vec<usize>, Vec<Probe>) = probes.into_iter().unzip();
            let seen = match probes.as_slice() {
                [probe] => prober.ask(&from, probe).map(|seen| vec![seen]),
                probes => prober.ask_together(&from, probes, order),
            };
            // Nobody listens any more after a stop.
            let _ = results.send(seen.map(|seen| indices.into_iter().zip(seen).collect::<Vec<_>>()));
        };
        match std::thread::Builder::new().name("probe".to_owned()).spawn(work) {
            Ok(_) => waiting += 1,
            Err(error) => answered.failed.push(format!("probes: no thread for a question: {error}")),
        }
    }
    drop(results);
    let mut seen = Vec::new();
    while waiting > 0 {
        match collected.recv_timeout(TICK) {
            Ok(Ok(observations)) => {
                seen.extend(observations);
                waiting -= 1;
            }
            Ok(Err(why)) => {
                let why = format!("probes: {why}");
                if !answered.failed.contains(&why) {
                    answered.failed.push(why);
                }
                waiting -= 1;
            }
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                answered.interrupted = true;
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    seen.sort_by_key(|(question, observation)| (*question, observation.microseconds));
    seen
}

/// Message numbers that nobody outside can guess as long as the first is random (`SplitMix64`).
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> u16 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u16::try_from((mixed ^ (mixed >> 31)) >> 48).unwrap_or(0)
    }
}
