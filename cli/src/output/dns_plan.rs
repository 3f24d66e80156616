//! Query plans, for people.
//!
//! Invariant: the first line says whether the name resolves, when, and at what cost; what the file says in vain and what
//! was assumed is never left out.

use netlab_dnsdiag::resolver::{Comparison, Outcome, QueryPlan, as_seconds, rc_name};

use super::layout::Rows;
use super::style::{BAD, GOOD, Style, WARNING, paint};
use super::table::Table;

const LABEL: usize = 9;

/// One plan.
pub(crate) fn render(plan: &QueryPlan, assumed: Option<&str>) -> String {
    let mut text = format!("{}\n", first_line(plan));
    if !plan.queries.is_empty() {
        let mut table = Table::new(["N", "AT", "SERVER", "BY", "NAME", "TYPE", "ANSWER"]);
        for query in &plan.queries {
            table.row([
                query.n.to_string(),
                format!("{:.2}", as_seconds(query.at)),
                query.nameserver.to_string(),
                query.transport.to_string(),
                query.qname.clone(),
                query.qtype.to_string(),
                query.answer.words().to_owned(),
            ]);
        }
        text += &format!("\n{}", table.finish());
    }
    let mut rows = Rows::new(LABEL, 0);
    rows.line("");
    let several = plan.predicted.outcomes.len() > 1;
    for outcome in plan.predicted.outcomes.iter().filter(|_| several) {
        let when = outcome.when.as_deref().unwrap_or_default();
        rows.plain("can be", &format!("{}: {when}", ending(outcome)));
    }
    if let Some(first) = plan.perhaps.first() {
        let count = plan.perhaps.len();
        let words = format!(
            "{count} more from {} s on, if their moment comes before an answer",
            as_seconds(first.at)
        );
        rows.plain("perhaps", &words);
    }
    if !plan.lost.is_empty() {
        let lost = plan.lost.len();
        let why = plan.lost.first().map_or("", |lost| lost.because.words());
        rows.plain("lost", &format!("{lost} more that no server sees: {why}"));
    }
    let steps = plan.runs.first().map(|run| run.steps.as_slice()).unwrap_or_default();
    if let Some(step) = steps.last().filter(|_| plan.resolves() != Some(true) || steps.len() > 1) {
        rows.plain("end", &format!("{} {}: {}", step.candidate, step.answers, step.why));
    }
    facts(&mut rows, plan, assumed);
    text + &rows.finish()
}

/// What was read, and what was taken for granted.
fn facts(rows: &mut Rows, plan: &QueryPlan, assumed: Option<&str>) {
    let conf = &plan.resolv_conf;
    let search = if conf.search.is_empty() { "no search list".to_owned() } else { conf.search.join(" ") };
    rows.plain("reads", &format!("{}; {search}; ndots {}", conf.nameservers.join(" "), conf.options.ndots));
    for note in &conf.notes {
        let place = if note.line == 0 { String::new() } else { format!("line {}: ", note.line) };
        rows.plain("note", &format!("{place}{}", note.text));
    }
    if let Some(assumed) = assumed {
        rows.plain("assumed", assumed);
    }
}

fn first_line(plan: &QueryPlan) -> String {
    let (style, word) = verdict(plan);
    let end = match plan.predicted.outcomes.as_slice() {
        [only] => ending(only),
        outcomes => format!("{} outcomes, by who answers first", outcomes.len()),
    };
    format!("{}  {} by {}: {end}; {}", paint(style, word), plan.name, plan.libc.words(), cost(plan))
}

fn verdict(plan: &QueryPlan) -> (Style, &'static str) {
    match plan.resolves() {
        Some(true) => (GOOD, "RESOLVES"),
        Some(false) => (BAD, "FAILS"),
        None => (WARNING, "DEPENDS"),
    }
}

/// `8 queries, 6 of them for names nobody meant`.
fn cost(plan: &QueryPlan) -> String {
    let queries = match plan.cost.queries {
        0 => "no query".to_owned(),
        1 => "1 query".to_owned(),
        count => format!("{count} queries"),
    };
    match plan.cost.for_other_names {
        0 => queries,
        1 => format!("{queries}, 1 of them for a name nobody meant"),
        others => format!("{queries}, {others} of them for names nobody meant"),
    }
}

/// `ok in 0 s`, `EAI_AGAIN "Try again" after 5 s`.
fn ending(outcome: &Outcome) -> String {
    let Some(millis) = outcome.millis else { return outcome.text.clone() };
    let seconds = as_seconds(millis);
    match outcome.rc {
        Some(0) => format!("ok in {seconds} s"),
        Some(rc) => format!("{} ({rc}) \"{}\" after {seconds} s", rc_name(rc), outcome.text),
        None => outcome.text.clone(),
    }
}

/// Plans side by side.
pub(crate) fn render_comparison(comparison: &Comparison, assumed: Option<&str>) -> String {
    let mut table = Table::new(["LIBC", "RESULT", "SECONDS", "QUERIES", "FOR OTHER NAMES", "NAMES TRIED"]);
    for plan in &comparison.plans {
        let all = |each: &dyn Fn(&Outcome) -> String| {
            let mut all: Vec<String> = Vec::new();
            for outcome in &plan.predicted.outcomes {
                let text = each(outcome);
                if !all.contains(&text) {
                    all.push(text);
                }
            }
            all.join(" or ")
        };
        let steps = plan.runs.first().map_or(0, |run| run.steps.len());
        table.row([
            plan.libc.words(),
            all(&|outcome| outcome.rc.map_or_else(|| "none".to_owned(), |rc| rc_name(rc).to_owned())),
            all(&|outcome| {
                outcome.millis.map_or_else(|| "no end".to_owned(), |millis| as_seconds(millis).to_string())
            }),
            plan.cost.queries.to_string(),
            plan.cost.for_other_names.to_string(),
            format!("{steps} of {}", plan.candidates.len()),
        ]);
    }
    let name = comparison.plans.first().map_or("", |plan| plan.name.as_str());
    let who = |wanted: Option<bool>| {
        let names: Vec<String> = comparison
            .plans
            .iter()
            .filter(|plan| plan.resolves() == wanted)
            .map(|plan| plan.libc.words())
            .collect();
        names
    };
    let list =
        |names: &[String], what: &str| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
    let told: Vec<String> = [
        list(&who(Some(true)), "resolves with"),
        list(&who(Some(false)), "fails with"),
        list(&who(None), "depends on who answers first with"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let head = if comparison.same { paint(GOOD, "SAME") } else { paint(WARNING, "DIFFER") };
    let mut rows = Rows::new(LABEL, 0);
    rows.line("");
    for because in &comparison.because {
        rows.plain("why", because);
    }
    if let Some(assumed) = assumed {
        rows.plain("assumed", assumed);
    }
    format!("{head}  {name}: {}\n\n{}{}", told.join("; "), table.finish(), rows.finish())
}
