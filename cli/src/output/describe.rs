//! The story of a pod, for people.
//!
//! Invariant: the first line says what isolates the pod; policies and rules stand in the order in which they are asked.

use std::fmt::Write;

use netlab_core::model::cluster::Labels;
use netlab_core::policy::describe::{Chapter, Description, Sentence, Story};

use super::evaluation::place;
use super::layout::{WIDTH, counted, wrap};
use super::style::{POINTER, QUIET, STRONG, paint};

/// So many names are told of those whom a peer matches.
const MOST_NAMES: usize = 5;

/// The whole story.
pub(crate) fn render(told: &Description) -> String {
    let mut text = paint(STRONG, &head(told)) + "\n\n";
    labelled(&mut text, "labels", &labels(&told.labels));
    labelled(&mut text, "namespace", &labels(&told.namespace_labels));
    story(&mut text, "ingress", &told.ingress);
    story(&mut text, "egress", &told.egress);
    text.push('\n');
    for (index, exempt) in told.exempt.iter().enumerate() {
        labelled(&mut text, if index == 0 { "always" } else { "" }, exempt);
    }
    for near in &told.near_misses {
        labelled(&mut text, "near miss", &format!("{} {}", near.policy.kind_and_name(), near.reason));
        pointer(&mut text, 13, near.policy.file.as_deref(), near.policy.line);
    }
    for note in &told.notes {
        labelled(&mut text, "note", note);
    }
    text
}

/// `shop/api  isolated for ingress by 2 policies, not for egress`.
fn head(told: &Description) -> String {
    let by = |story: &Story| counted(story.isolating, "policy");
    let (pod, ingress, egress) = (&told.pod, &told.ingress, &told.egress);
    if told.finished {
        return format!("{pod}  has finished: no policy is about it");
    }
    match (ingress.isolated, egress.isolated) {
        (false, false) => match (tiers(ingress), tiers(egress)) {
            (0, 0) => format!("{pod}  not isolated"),
            (_, 0) => format!("{pod}  not isolated, but policies of tiers decide ingress"),
            (0, _) => format!("{pod}  not isolated, but policies of tiers decide egress"),
            (_, _) => format!("{pod}  not isolated, but policies of tiers decide both directions"),
        },
        (true, false) => format!("{pod}  isolated for ingress by {}, not for egress", by(ingress)),
        (false, true) => format!("{pod}  isolated for egress by {}, not for ingress", by(egress)),
        (true, true) => {
            format!("{pod}  isolated for ingress by {}, for egress by {}", by(ingress), by(egress))
        }
    }
}

/// How many policies of the Admin and Baseline tiers act.
fn tiers(story: &Story) -> usize {
    story.policies.iter().filter(|chapter| chapter.tier != "networkPolicy").count()
}

fn labels(labels: &Labels) -> String {
    if labels.is_empty() {
        return "no labels".to_owned();
    }
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

fn story(text: &mut String, direction: &str, story: &Story) {
    let _ = writeln!(text, "\n{direction}");
    for chapter in &story.policies {
        let way = if direction == "ingress" { "from" } else { "to" };
        self::chapter(text, chapter, way);
    }
    labelled(text, story.default, &story.otherwise);
}

fn chapter(text: &mut String, chapter: &Chapter, way: &str) {
    let tier = match chapter.tier {
        "admin" => ", Admin tier",
        "baseline" => ", Baseline tier",
        _ => "",
    };
    let priority = chapter.priority.map(|priority| format!(", priority {priority}")).unwrap_or_default();
    let name = paint(STRONG, &chapter.policy.kind_and_name());
    let _ = writeln!(text, "  {}. {name}{tier}{priority}", chapter.place);
    paragraph(text, 5, &format!("selects {}", chapter.selects));
    pointer(text, 5, chapter.policy.file.as_deref(), chapter.policy.line);
    if chapter.rules.is_empty() {
        paragraph(text, 5, "no rules: it isolates and admits nothing");
    }
    for rule in &chapter.rules {
        sentence(text, rule, way);
    }
}

/// `way` is `from` or `to`.
fn sentence(text: &mut String, rule: &Sentence, way: &str) {
    let name = rule.rule.rule_name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let head = format!("{}{name} {} {}", rule.rule.path, rule.verb, rule.ports);
    match rule.peers.as_slice() {
        [] if rule.everybody => paragraph(text, 5, &format!("{head} {way} anybody, in the cluster or not")),
        [] => paragraph(text, 5, &format!("{head} {way} nobody: its peers are not understood")),
        peers => {
            paragraph(text, 5, &format!("{head} {way}"));
            for (index, peer) in peers.iter().enumerate() {
                let or = if index == 0 { "   " } else { "OR " };
                let mut matches = match peer.matches.as_slice() {
                    [] if peer.unknown > 0 => "no pod or node is known to be in it".to_owned(),
                    [] => "nobody here now".to_owned(),
                    names if names.len() > MOST_NAMES => {
                        format!("{} and {} more", names[..MOST_NAMES].join(", "), names.len() - MOST_NAMES)
                    }
                    names => names.join(", "),
                };
                if peer.unknown > 0 {
                    let _ = write!(
                        matches,
                        " ({} without an address in the input)",
                        counted(peer.unknown, "pod")
                    );
                }
                paragraph(text, 7, &format!("{or}{}: {matches}", peer.reads));
            }
        }
    }
}

/// A line with a label of its own.
fn labelled(text: &mut String, label: &str, words: &str) {
    for (index, line) in wrap(words, WIDTH - 13).into_iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        let _ = writeln!(text, "  {}{line}", paint(QUIET, &format!("{label:<11}")));
    }
}

/// Words that go on two columns further in.
fn paragraph(text: &mut String, indent: usize, words: &str) {
    // Blanks at the start stand for themselves.
    let trimmed = words.trim_start();
    let indent = indent + words.len() - trimmed.len();
    for (index, line) in wrap(trimmed, WIDTH - indent - 2).into_iter().enumerate() {
        let more = if index == 0 { 0 } else { 2 };
        let _ = writeln!(text, "{}{line}", " ".repeat(indent + more));
    }
}

fn pointer(text: &mut String, indent: usize, file: Option<&str>, line: Option<u32>) {
    if let Some(place) = place(file, line) {
        let _ = writeln!(text, "{}{}", " ".repeat(indent), paint(POINTER, &place));
    }
}
