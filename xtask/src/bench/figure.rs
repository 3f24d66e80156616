//! Figures: what was measured, beside what was promised.
//!
//! Invariant: a time is the median of its runs, with the least and the most of them. A figure without a target is
//! there to be read, never to be passed.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::Output;

/// One row.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figure {
    /// The part it belongs to.
    pub(crate) part: String,
    /// What was measured.
    pub(crate) what: String,
    /// The median.
    pub(crate) value: f64,
    /// Of all numbers here.
    pub(crate) unit: String,
    /// The least and the most of the runs; `None` for what does not vary.
    pub(crate) spread: Option<(f64, f64)>,
    /// At most this.
    pub(crate) target: Option<f64>,
}

impl Figure {
    /// A figure that does not vary.
    pub(crate) fn count(part: &str, what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self {
            part: part.to_owned(),
            what: what.into(),
            value,
            unit: unit.to_owned(),
            spread: None,
            target: None,
        }
    }

    /// The median of runs, with their spread. No runs are no figure: zero.
    pub(crate) fn median(part: &str, what: impl Into<String>, mut runs: Vec<f64>, unit: &str) -> Self {
        runs.sort_by(f64::total_cmp);
        let at = |index: usize| runs.get(index).copied().unwrap_or_default();
        let spread = Some((at(0), at(runs.len().saturating_sub(1))));
        Self { spread, ..Self::count(part, what, at(runs.len() / 2), unit) }
    }

    /// The same with what was promised.
    pub(crate) fn at_most(self, target: f64) -> Self {
        Self { target: Some(target), ..self }
    }

    /// Says whether the promise is kept.
    fn judged(&self) -> &'static str {
        match self.target {
            None => "",
            Some(target) if self.value <= target => "met",
            Some(_) => "MISSED",
        }
    }

    fn cells(&self) -> [String; 6] {
        let spread = self.spread.map(|(least, most)| format!("{}..{}", number(least), number(most)));
        [
            self.what.clone(),
            number(self.value),
            self.unit.clone(),
            spread.unwrap_or_default(),
            self.target.map(|target| format!("<= {}", number(target))).unwrap_or_default(),
            self.judged().to_owned(),
        ]
    }
}

/// Milliseconds of processor time that each of some runs of this process took: other programs on the machine do not
/// count. For what runs in one thread.
///
/// # Errors
/// When there is no such clock.
pub(crate) fn processor_milliseconds<T>(runs: usize, mut run: impl FnMut() -> T) -> anyhow::Result<Vec<f64>> {
    let now = || clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from);
    (0..runs.max(1))
        .map(|_| {
            let start = now()?;
            let outcome = run();
            let took = now()?.saturating_sub(start);
            drop(outcome);
            Ok(took.as_secs_f64() * 1e3)
        })
        .collect()
}

/// Milliseconds that each of some runs took.
pub(crate) fn milliseconds<T>(runs: usize, mut run: impl FnMut() -> T) -> Vec<f64> {
    (0..runs.max(1))
        .map(|_| {
            let start = Instant::now();
            let outcome = run();
            let took = start.elapsed().as_secs_f64() * 1e3;
            drop(outcome);
            took
        })
        .collect()
}

/// Three significant digits, and no more than two after the point.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

const COLUMNS: [&str; 6] = ["MEASURED", "MEDIAN", "UNIT", "LEAST..MOST", "TARGET", ""];

/// Prints figures of one or more parts.
#[expect(clippy::print_stdout, reason = "the figures are the product")]
pub(crate) fn show(figures: &[Figure], output: Output) -> anyhow::Result<()> {
    if output == Output::Json {
        println!("{}", serde_json::to_string_pretty(figures)?);
        return Ok(());
    }
    for part in figures.chunk_by(|one, other| one.part == other.part) {
        let title = part.first().map_or("", |figure| figure.part.as_str());
        let rows: Vec<[String; 6]> = part.iter().map(Figure::cells).collect();
        match output {
            Output::Md => println!("### {title}\n\n{}", markdown(&rows)),
            _ => println!("{title}\n{}", aligned(&rows)),
        }
    }
    Ok(())
}

fn markdown(rows: &[[String; 6]]) -> String {
    let mut text =
        "| measured | median | unit | least..most | target | |\n|---|---:|---|---|---|---|\n".to_owned();
    for row in rows {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}

fn aligned(rows: &[[String; 6]]) -> String {
    let titles = COLUMNS.map(str::to_owned);
    let all = || std::iter::once(&titles).chain(rows);
    let mut text = String::new();
    for row in all() {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let width = all().map(|row| row[column].chars().count()).max().unwrap_or_default();
            // Numbers end where those above them end.
            let cell = if column == 1 { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line += " ";
            line += &cell;
            line += " ";
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
