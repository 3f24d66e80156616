//! Tests that run one after the other, round by round, each time with another seed.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::tally::Tally;
use crate::tests_of::{Executable, Name, Ran, Suite};

/// Most time that one test may take.
const AT_MOST: Duration = Duration::from_secs(1800);

/// What is run in turn.
pub(super) struct Lane<'a> {
    log: PathBuf,
    seed: u64,
    rounds: usize,
    legs: Vec<(&'static str, Name, &'a Executable)>,
}

impl<'a> Lane<'a> {
    /// `name` is for its log.
    pub(super) fn new(log: &Path, name: &str, seed: u64) -> Self {
        Self { log: log.join(format!("{name}.log")), seed, rounds: 0, legs: Vec::new() }
    }

    /// One more test.
    pub(super) fn add(&mut self, what: &'static str, name: Name, tests: &'a Executable) {
        self.legs.push((what, name, tests));
    }

    /// Rounds until the time is up; the first is made in any case.
    pub(super) fn run(&mut self, end: Instant, tally: &Mutex<Tally>) {
        while self.round(end, tally) {}
    }

    /// One round, as far as there is time; the first is whole. False when there is no more to do.
    pub(super) fn round(&mut self, end: Instant, tally: &Mutex<Tally>) -> bool {
        let mut ran = false;
        for index in 0..self.legs.len() {
            if self.rounds > 0 && Instant::now() >= end {
                return false;
            }
            ran |= self.leg(index, tally);
        }
        self.rounds += 1;
        self.seed = next(self.seed);
        ran
    }

    /// False when this machine cannot run it.
    #[expect(clippy::print_stdout, reason = "who waits wants to see what goes on")]
    fn leg(&self, index: usize, tally: &Mutex<Tally>) -> bool {
        let Some((what, name, tests)) = self.legs.get(index) else { return false };
        let tally = || tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if tally().is_unable(what, name) {
            return false;
        }
        let seed = self.seed.to_string();
        let environment = [("NETLAB_SEED".to_owned(), seed.clone())];
        let run = tests.run(&name.test, &environment, &self.log, AT_MOST);
        let command = format!("NETLAB_SEED={seed} {}", name.command(Suite::Integration));
        match run {
            Ok(run) => {
                let word = match &run.ran {
                    Ran::Passed => "ok",
                    Ran::Skipped(_) => "skipped",
                    Ran::Failed => "FAILED",
                    Ran::Silent => "did not end",
                };
                println!("{what:<36} {word:<8} {:>4.0} s  seed {seed}", run.time.as_secs_f64());
                tally().run(what, name, &run, &command);
            }
            Err(error) => tally().broken(what, name, &format!("{error:#}\n    {command}")),
        }
        true
    }
}

/// The next seed: neighbours in number are far from each other in worlds (Steele and others, `SplitMix`).
fn next(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
