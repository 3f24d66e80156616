//! What a soak met: runs, questions by what they met, mutations, faults, and what was not run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::mutate::Fate;
use crate::mutate::patch::Patch;
use crate::tests_of::{Name, Ran, Run};

/// Most lines of a fault that are told.
const SHOWN: usize = 60;

/// The sums.
#[derive(Debug, Default)]
pub(super) struct Tally {
    runs: BTreeMap<&'static str, usize>,
    questions: BTreeMap<&'static str, u64>,
    /// Tests that this machine cannot run.
    unable: BTreeSet<(&'static str, Name)>,
    coverage: BTreeMap<String, u64>,
    mutations: BTreeMap<&'static str, usize>,
    faults: usize,
    not_run: Vec<String>,
}

impl Tally {
    /// Takes over a run.
    pub(super) fn run(&mut self, what: &'static str, name: &Name, run: &Run, command: &str) {
        match &run.ran {
            Ran::Passed => {
                *self.runs.entry(what).or_default() += 1;
                for (met, count) in coverage(&run.output) {
                    if met == "questions" {
                        *self.questions.entry(what).or_default() += count;
                    }
                    *self.coverage.entry(met).or_default() += count;
                }
            }
            Ran::Skipped(why) => {
                self.unable.insert((what, name.clone()));
                self.not_run(&format!("{what}: {why}"));
            }
            Ran::Failed => self.fault(&format!("{what}\n    {command}\n{}", said(&run.output))),
            Ran::Silent => self.fault(&format!("{what}: it did not end\n    {command}")),
        }
    }

    /// A test that could not even be run: it is not tried again.
    pub(super) fn broken(&mut self, what: &'static str, name: &Name, why: &str) {
        self.unable.insert((what, name.clone()));
        self.fault(&format!("{what}: {why}"));
    }

    /// Takes over a mutation.
    pub(super) fn mutation(&mut self, patch: &Patch, fate: &Fate) {
        *self.mutations.entry(fate.word()).or_default() += 1;
        if fate.is_bad() {
            self.faults += 1;
        }
        if let Fate::NotRun(why) = fate {
            self.not_run(&format!("mutation {}: {why}", patch.name));
        }
    }

    /// Something that must not be; told at once.
    #[expect(clippy::print_stdout, reason = "a fault is not kept for the end of a long run")]
    pub(super) fn fault(&mut self, words: &str) {
        self.faults += 1;
        println!("\nFAULT {}: {words}\n", self.faults);
    }

    /// Something that was left out.
    pub(super) fn not_run(&mut self, what: &str) {
        self.not_run.push(what.to_owned());
    }

    /// How many faults there were.
    pub(super) const fn faults(&self) -> usize {
        self.faults
    }

    /// Whether a test said that this machine lacks something.
    pub(super) fn is_unable(&self, what: &'static str, name: &Name) -> bool {
        self.unable.contains(&(what, name.clone()))
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (what, runs) in &self.runs {
            let questions = self.questions.get(what).copied().unwrap_or(0);
            writeln!(f, "{what:<36}{runs:>6} runs{questions:>10} questions")?;
        }
        for (word, count) in &self.mutations {
            writeln!(f, "mutations {word:<26}{count:>6}")?;
        }
        writeln!(f, "faults{:>36}", self.faults)?;
        let all = self.coverage.get("questions").copied().unwrap_or(0);
        writeln!(f, "\nof {all} questions")?;
        for (met, count) in self.coverage.iter().filter(|(met, _)| *met != "questions") {
            writeln!(f, "  {met:<34}{count:>10}{:>5} %", count * 100 / all.max(1))?;
        }
        for what in &self.not_run {
            writeln!(f, "not run: {what}")?;
        }
        Ok(())
    }
}

/// What a test met, as it prints it: a name in 28 columns, a count in 8, and a share.
fn coverage(output: &str) -> impl Iterator<Item = (String, u64)> {
    output.lines().filter(|line| !line.starts_with("NETLAB_")).filter_map(|line| {
        let (name, rest) = line.split_at_checked(28)?;
        let count = rest.split_at_checked(8).map_or(rest, |(count, _)| count);
        let share = rest.split_at_checked(8).map_or("", |(_, share)| share).trim();
        let is_share =
            share.is_empty() || share.strip_suffix(" %").is_some_and(|share| share.parse::<u8>().is_ok());
        Some((name.trim().to_owned(), count.trim().parse().ok()?)).filter(|_| is_share)
    })
}

/// From the first panic on, without what a backtrace says.
fn said(output: &str) -> String {
    let from = output.lines().skip_while(|line| !line.contains("panicked at"));
    let until = from.take_while(|line| !line.starts_with("stack backtrace") && !line.starts_with("note: "));
    until.take(SHOWN).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "    {line}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_prints_of_its_questions_is_read() {
        let output = "NETLAB_SEED=17257832534736176475\n\
                      questions                      20952\n\
                      rules: named port               3887   18 %\n\
                      test result: ok. 1 passed; 0 failed; 0 ignored\n\
                      1204 packets, 980 of them decided by a compiled entry\n";
        let read: Vec<(String, u64)> = coverage(output).collect();
        assert_eq!(read, [("questions".to_owned(), 20_952), ("rules: named port".to_owned(), 3_887)]);
    }

    #[test]
    fn a_fault_is_told_from_its_first_panic_on() {
        let output = "before\nthread 'x' panicked at y:\nleft\nright\nstack backtrace:\n 0: z\n";
        assert_eq!(said(output), "    thread 'x' panicked at y:\n    left\n    right\n");
    }
}
