//! Claims and what became of them: for people, for test harnesses, and for machines.
//!
//! Invariant: every form says of each claim whether it holds, and of one that does not who decides and where both
//! were written.

use std::fmt::Write;

use netlab_core::policy::evaluate::{Outcome, Side};
use serde::Serialize;

use super::evaluation::{place, reason};
use super::layout::{WIDTH, fitted, wrap};
use super::style::{BAD, Charset, GOOD, Mark, POINTER, QUIET, STRONG, WARNING, paint};
use super::table::Table;
use crate::claims::{Kernel, Status, Tried};

/// `all 12 claims hold`, or how many do not.
pub(crate) fn summary(tried: &[Tried]) -> String {
    let count = |status| tried.iter().filter(|tried| tried.status == status).count();
    let (fails, undecided) = (count(Status::Fails), count(Status::Undecided));
    let of = |number: usize| match tried.len() {
        1 => "the claim".to_owned(),
        all if number == all => format!("all {all} claims"),
        all => format!("{number} of {all} claims"),
    };
    let does = |number: usize, one: &'static str, many: &'static str| if number == 1 { one } else { many };
    let (style, word, rest) = match (fails, undecided) {
        (0, 0) => (GOOD, "PASSED", format!("{} {}", of(tried.len()), does(tried.len(), "holds", "hold"))),
        (0, open) => (WARNING, "UNDECIDED", format!("{} cannot be told", of(open))),
        (fails, open) => {
            let mut rest = format!("{} {} not hold", of(fails), does(fails, "does", "do"));
            if open > 0 {
                let _ = write!(rest, ", {open} cannot be told");
            }
            (BAD, "FAILED", rest)
        }
    };
    format!("{}  {}\n", paint(style, word), paint(STRONG, &rest))
}

/// The claim in words: its name, or the packet.
fn title(tried: &Tried) -> String {
    tried.claim.name.clone().unwrap_or_else(|| tried.asked.to_string())
}

/// What is the case, against what was claimed.
fn verdict(tried: &Tried) -> String {
    let claimed = tried.claim.expect.to_string();
    let found = tried.found.to_string();
    if found == claimed && tried.status == Status::Fails {
        format!("is {found}, but not for the reason that is claimed")
    } else if found == claimed {
        format!("is {found}, as claimed")
    } else {
        format!("is {found}, claimed {claimed}")
    }
}

fn claim_place(tried: &Tried) -> String {
    format!("{}:{}", tried.claim.file, tried.claim.line)
}

/// Who decides a side, and where that was written.
fn decider(side: &Side) -> (String, Vec<String>) {
    let mut places: Vec<String> =
        side.rule.iter().filter_map(|rule| place(rule.file.as_deref(), rule.line)).collect();
    if side.rule.is_none() {
        places
            .extend(side.isolated_by.iter().filter_map(|policy| place(policy.file.as_deref(), policy.line)));
    }
    (reason(side, false), places)
}

/// The summary, all claims, and the reasons of those that do not hold.
pub(crate) fn table(tried: &[Tried], charset: Charset) -> String {
    let mut text = summary(tried) + "\n";
    let mut table = Table::new(["CLAIM", "CLAIMED", "IS", "AT"]);
    for one in tried {
        // The whole place stands below, for those that one has to look at.
        let file = one.claim.file.rsplit('/').next().unwrap_or_default();
        let place = format!("{file}:{}", one.claim.line);
        table.row([title(one), one.claim.expect.to_string(), one.found.to_string(), place]);
    }
    let blank = " ".repeat(if charset == Charset::Unicode { 1 } else { 4 });
    for (index, lines) in table.lines_beside(blank.len() + 1).into_iter().enumerate() {
        let mut mark = match index.checked_sub(1).and_then(|index| tried.get(index)).map(|tried| tried.status)
        {
            None => blank.clone(),
            Some(Status::Holds) => charset.mark(Mark::Good),
            Some(Status::Fails) => charset.mark(Mark::Bad),
            Some(Status::Undecided) => charset.mark(Mark::Warning),
        };
        for line in lines {
            let _ = writeln!(text, "{mark} {line}");
            mark.clone_from(&blank);
        }
    }
    for one in tried.iter().filter(|tried| tried.status != Status::Holds) {
        block(&mut text, one);
    }
    text
}

/// Why a claim does not hold.
fn block(text: &mut String, tried: &Tried) {
    let _ = writeln!(text, "\n{}", paint(STRONG, &fitted(&format!("{}  {}", tried.asked, verdict(tried)))));
    let mut row = |label: &str, words: &str| {
        for (index, line) in wrap(words, WIDTH - 11).into_iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let _ = writeln!(text, "  {}  {line}", paint(QUIET, &format!("{label:<7}")));
        }
    };
    row("claim", &paint(POINTER, &claim_place(tried)));
    for (direction, side) in &tried.because {
        let (words, places) = decider(side);
        row(direction, &format!("{}: {words}", side.verdict));
        for place in places {
            row("", &paint(POINTER, &place));
        }
        if let Some(near) = side.near_misses.first() {
            row("", &format!("near miss: {} {} {}", near.rule.qualified_name(), near.rule.path, near.reason));
        }
    }
    for note in &tried.notes {
        row("note", note);
    }
}

/// The reasons as plain lines.
fn lines(tried: &Tried) -> Vec<String> {
    let mut lines: Vec<String> = tried
        .because
        .iter()
        .map(|(direction, side)| {
            let (words, places) = decider(side);
            let places = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
            format!("{direction} {}: {words}{places}", side.verdict)
        })
        .collect();
    lines.extend(tried.notes.iter().cloned());
    lines
}

/// Test Anything Protocol, version 14.
pub(crate) fn tap(tried: &[Tried]) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", tried.len());
    for (number, one) in (1..).zip(tried) {
        let result = if one.status == Status::Holds { "ok" } else { "not ok" };
        // `#` begins a directive, and a line's end another line.
        let title = title(one).replace('\\', "\\\\").replace('#', "\\#").replace(['\n', '\r'], " ");
        let _ = writeln!(text, "{result} {number} - {title} {}", verdict(one));
        if one.status != Status::Holds {
            let quoted = |text: &str| serde_json::Value::from(text).to_string();
            let _ = writeln!(text, "  ---\n  message: {}", quoted(&verdict(one)));
            let severity = if one.status == Status::Fails { "fail" } else { "undecided" };
            let _ = writeln!(text, "  severity: {severity}\n  at: {}\n  because:", quoted(&claim_place(one)));
            for line in lines(one) {
                let _ = writeln!(text, "  - {}", quoted(&line));
            }
            text.push_str("  ...\n");
        }
    }
    text
}

/// The XML that CI systems read; one suite for each file.
pub(crate) fn junit(tried: &[Tried]) -> String {
    let count = |list: &[&Tried], status| list.iter().filter(|tried| tried.status == status).count();
    let attributes = |list: &[&Tried]| {
        let (failures, errors) = (count(list, Status::Fails), count(list, Status::Undecided));
        format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"", list.len())
    };
    let all: Vec<&Tried> = tried.iter().collect();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(text, "<testsuites name=\"netlab policy test\" {}>", attributes(&all));
    for suite in all.chunk_by(|one, next| one.claim.file == next.claim.file) {
        let file = xml(suite.first().map_or("", |tried| &tried.claim.file));
        let _ = writeln!(text, "  <testsuite name=\"{file}\" {}>", attributes(suite));
        for one in suite {
            let head = format!(
                "    <testcase classname=\"{file}\" name=\"{}\" file=\"{file}\" line=\"{}\"",
                xml(&title(one)),
                one.claim.line
            );
            let element = match one.status {
                Status::Holds => {
                    let _ = writeln!(text, "{head}/>");
                    continue;
                }
                Status::Fails => "failure",
                Status::Undecided => "error",
            };
            let body = xml(&format!("{} {}\n{}", one.asked, verdict(one), lines(one).join("\n")));
            let message = xml(&verdict(one));
            let _ = writeln!(
                text,
                "{head}>\n      <{element} message=\"{message}\">{body}</{element}>\n    </testcase>"
            );
        }
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

/// Text in XML. Characters that XML 1.0 does not have at all are shown as U+FFFD.
pub(super) fn xml(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&apos;"),
            c if c.is_control() && !matches!(c, '\n' | '\t') => shown.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => shown.push('\u{fffd}'),
            c => shown.push(c),
        }
    }
    shown
}

/// The answer, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    tried: usize,
    holds: usize,
    fails: usize,
    undecided: usize,
    claims: Vec<Row<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    name: Option<&'a str>,
    query: &'a crate::question::Asked,
    expect: String,
    by: Option<String>,
    found: Outcome,
    status: Status,
    because: Vec<Because<'a>>,
    notes: &'a [String],
    kernel: Option<&'a Kernel>,
    file: &'a str,
    line: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Because<'a> {
    direction: &'static str,
    #[serde(flatten)]
    side: &'a Side,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(tried: &'a [Tried]) -> Self {
        let count = |status| tried.iter().filter(|tried| tried.status == status).count();
        let because = |(direction, side): &'a (&'static str, Side)| Because { direction, side };
        Self {
            tried: tried.len(),
            holds: count(Status::Holds),
            fails: count(Status::Fails),
            undecided: count(Status::Undecided),
            claims: tried
                .iter()
                .map(|one| Row {
                    name: one.claim.name.as_deref(),
                    query: &one.asked,
                    expect: one.claim.expect.to_string(),
                    by: one.claim.by.as_ref().map(ToString::to_string),
                    found: one.found,
                    status: one.status,
                    because: one.because.iter().map(because).collect(),
                    notes: &one.notes,
                    kernel: one.kernel.as_ref(),
                    file: &one.claim.file,
                    line: one.claim.line,
                })
                .collect(),
        }
    }
}
