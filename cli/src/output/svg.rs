//! Connections as a picture: who opens on the left, to whom on the right, and between them what is allowed.
//!
//! Invariant: the same list gives the same bytes; the file needs nothing else (no script, font or link); every name is
//! escaped. Each row of the folded table has a line of its own in the middle, so labels never meet.

use std::collections::BTreeMap;
use std::fmt::Write;

use netlab_core::policy::connections::Connections;

use super::claims::xml;
use super::connections::{folded, summary};

/// Width of a character of the monospaced font, at its size.
const LETTER: usize = 8;
const FONT: usize = 13;
/// From one row to the next.
const STEP: usize = 30;
const BOX: usize = 22;
/// Beside a text in its box.
const PAD: usize = 10;
/// Between columns, where the lines run.
const GAP: usize = 110;
const MARGIN: usize = 20;
/// Room for the headings.
const TOP: usize = 44;

/// A column: its names from top to bottom, with the middle of each.
struct Column {
    left: usize,
    width: usize,
    middles: BTreeMap<String, usize>,
    order: Vec<String>,
}

impl Column {
    /// Places names beside the rows that they have: each at the mean of its rows, in order, none above another.
    fn new(left: usize, rows: &[(String, usize)]) -> Self {
        let mut beside: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (name, middle) in rows {
            beside.entry(name).or_default().push(*middle);
        }
        let mut wanted: Vec<(usize, &str)> = beside
            .into_iter()
            .map(|(name, middles)| (middles.iter().sum::<usize>() / middles.len().max(1), name))
            .collect();
        wanted.sort_unstable();
        let (mut middles, mut order, mut next) = (BTreeMap::new(), Vec::new(), 0);
        // Names that want one place would run over the end: what they have too little of above is given below.
        let lowest = rows.iter().map(|(_, middle)| *middle).max().unwrap_or(TOP);
        let count = wanted.len();
        for (index, (middle, name)) in wanted.into_iter().enumerate() {
            let below = lowest.saturating_sub(STEP * (count - 1 - index));
            let middle = middle.min(below.max(TOP)).max(next);
            next = middle + STEP;
            middles.insert(name.to_owned(), middle);
            order.push(name.to_owned());
        }
        Self { left, width: width(order.iter().map(String::as_str)), middles, order }
    }

    fn right(&self) -> usize {
        self.left + self.width
    }

    fn draw(&self, text: &mut String, class: &str) {
        for name in &self.order {
            draw_box(
                text,
                class,
                self.left,
                self.width,
                self.middles.get(name).copied().unwrap_or(TOP),
                name,
            );
        }
    }
}

fn width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or_default() * LETTER + 2 * PAD
}

fn draw_box(text: &mut String, class: &str, left: usize, width: usize, middle: usize, name: &str) {
    let _ = writeln!(
        text,
        "<rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"{width}\" height=\"{BOX}\" rx=\"5\"/>\
         <text x=\"{}\" y=\"{}\">{}</text>",
        middle - BOX / 2,
        left + PAD,
        middle + FONT / 2 - 2,
        xml(name)
    );
}

/// A curve from one point to another, level at both ends.
fn draw_line(text: &mut String, (from_x, from_y): (usize, usize), (to_x, to_y): (usize, usize), arrow: bool) {
    let bend = (to_x - from_x) / 2;
    let head = if arrow { " marker-end=\"url(#head)\"" } else { "" };
    let _ = writeln!(
        text,
        "<path d=\"M{from_x} {from_y}C{} {from_y} {} {to_y} {to_x} {to_y}\"{head}/>",
        from_x + bend,
        to_x - bend
    );
}

/// The picture.
pub(crate) fn svg(connections: &Connections) -> String {
    let rows = folded(connections);
    let middle = |index: usize| TOP + STEP / 2 + index * STEP;
    let with_middle = |side: fn(&[String; 3]) -> &String| -> Vec<(String, usize)> {
        rows.iter().enumerate().map(|(index, row)| (side(row).clone(), middle(index))).collect()
    };
    let from = Column::new(MARGIN, &with_middle(|row| &row[0]));
    let allowed = (from.right() + GAP, width(rows.iter().map(|row| row[2].as_str()).chain(["ALLOWED"])));
    let to = Column::new(allowed.0 + allowed.1 + GAP, &with_middle(|row| &row[1]));
    let summary = summary(connections);
    let lowest = from.middles.values().chain(to.middles.values()).copied().chain([middle(rows.len())]).max();
    let height = lowest.unwrap_or(TOP) + STEP + MARGIN;
    let wide = (to.right() + MARGIN).max(summary.trim_end().chars().count() * LETTER + 2 * MARGIN);

    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{height}\" viewBox=\"0 0 {wide} {height}\" role=\"img\">\n\
         <title>{}</title>\n\
         <style>text{{font:{FONT}px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1b1f24;white-space:pre}}.h{{font-weight:bold}}.w{{fill:#e7f0fb;stroke:#5b84b1}}\
         .a{{fill:#fff;stroke:#8a8f98}}path{{fill:none;stroke:#8a8f98}}.m{{fill:#8a8f98;stroke:none}}</style>\n\
         <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path class=\"m\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
         <rect width=\"{wide}\" height=\"{height}\" fill=\"#fff\"/>\n",
        xml(summary.trim_end())
    );
    for (left, heading) in [(from.left, "FROM"), (allowed.0, "ALLOWED"), (to.left, "TO")] {
        let _ = writeln!(
            text,
            "<text class=\"h\" x=\"{}\" y=\"{}\">{heading}</text>",
            left + PAD,
            TOP - STEP / 2
        );
    }
    for (index, [source, destination, _]) in rows.iter().enumerate() {
        let lane = middle(index);
        if let (Some(start), Some(end)) = (from.middles.get(source), to.middles.get(destination)) {
            draw_line(&mut text, (from.right(), *start), (allowed.0, lane), false);
            draw_line(&mut text, (allowed.0 + allowed.1, lane), (to.left, *end), true);
        }
    }
    from.draw(&mut text, "w");
    to.draw(&mut text, "w");
    for (index, [.., ports]) in rows.iter().enumerate() {
        draw_box(&mut text, "a", allowed.0, allowed.1, middle(index), ports);
    }
    let _ =
        writeln!(text, "<text x=\"{MARGIN}\" y=\"{}\">{}</text>", height - MARGIN, xml(summary.trim_end()));
    text + "</svg>\n"
}
