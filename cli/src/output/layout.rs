//! Columns and line breaks of human answers.
//!
//! Invariant: labels stand in one column and texts in another; a text that is too long goes on in its own
//! column. Words are never cut: a path that must be copied is worth more than the 80th column.

use std::io::IsTerminal;
use std::sync::OnceLock;

use anstyle::Style;

use super::style::{QUIET, paint};

/// Where lines end.
pub(crate) const WIDTH: usize = 80;

/// The narrowest that anything is fitted to.
const LEAST: usize = 40;

/// How wide lines may be where somebody looks at them: `COLUMNS`, else 80 on a terminal. `None` where the reader is a
/// program, which wants values whole.
pub(crate) fn fit() -> Option<usize> {
    static FIT: OnceLock<Option<usize>> = OnceLock::new();
    *FIT.get_or_init(|| {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse::<usize>().ok());
        columns.map(|columns| columns.max(LEAST)).or_else(|| std::io::stdout().is_terminal().then_some(WIDTH))
    })
}

/// A line of words, in several where it would be too wide for who looks at it.
pub(crate) fn fitted(line: &str) -> String {
    let Some(width) = fit().filter(|width| line.chars().count() > *width) else { return line.to_owned() };
    wrap(line, width - 2).join("\n  ")
}

/// A value in lines of at most `width` characters, broken behind the signs at which names and lists come apart, or where
/// there are none anywhere.
pub(crate) fn pieces(value: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest: Vec<char> = value.chars().collect();
    while rest.len() > width {
        let is_seam = |at: &usize| matches!(rest[*at - 1], ' ' | ',' | '/' | '-' | '+' | '.' | '_' | ':');
        let at = (width / 2..=width).rev().find(|at| *at > 0 && is_seam(at)).unwrap_or(width.max(1));
        let tail = rest.split_off(at);
        pieces.push(rest.iter().collect::<String>().trim_end().to_owned());
        rest = tail;
    }
    pieces.push(rest.into_iter().collect());
    pieces
}

/// `text` in lines of at most `width` characters, broken at spaces, never inside backticks.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in words(text) {
        let gap = usize::from(!line.is_empty());
        if !line.is_empty() && line.chars().count() + gap + word.chars().count() > width {
            // A number is not parted from its unit.
            let number = if word == "ms" { line.rfind(' ').map(|at| line.split_off(at)) } else { None };
            lines.push(std::mem::take(&mut line));
            if let Some(number) = number {
                line = format!("{} ", number.trim_start());
            }
        } else if gap == 1 {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// `1 pod`, `2 pods`, `3 policies`.
pub(crate) fn counted(number: usize, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if number == 1 => format!("1 {one}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {one}s"),
    }
}

/// The parts of a text between which a line may end.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '`';
        c == ' ' && !quoted
    })
}

/// A block of rows `label  word  text`, with one width for each column.
#[derive(Debug)]
pub(crate) struct Rows {
    label: usize,
    word: usize,
    text: String,
}

impl Rows {
    /// A block whose labels and words have at most these widths; `word` 0 leaves that column out.
    pub(crate) const fn new(label: usize, word: usize) -> Self {
        Self { label, word, text: String::new() }
    }

    /// The column in which texts start.
    pub(crate) const fn indent(&self) -> usize {
        2 + self.label + 2 + if self.word == 0 { 0 } else { self.word + 2 }
    }

    /// Adds a row; an empty label continues the one before.
    pub(crate) fn row(&mut self, label: &str, (style, word): (Style, &str), text: &str) {
        let width = WIDTH.saturating_sub(self.indent()).max(20);
        for (index, line) in wrap(text, width).into_iter().enumerate() {
            let (label, word) = if index == 0 { (label, word) } else { ("", "") };
            let mut head = format!("  {}", paint(QUIET, &format!("{label:<0$}", self.label)));
            if self.word > 0 {
                head += "  ";
                head += &paint(style, word);
                head += &" ".repeat(self.word.saturating_sub(word.chars().count()));
            }
            self.line(&format!("{head}  {line}"));
        }
    }

    /// Adds a row whose text starts where other rows have their word.
    pub(crate) fn broad(&mut self, label: &str, text: &str) {
        let indent = 2 + self.label + 2;
        for (index, line) in wrap(text, WIDTH - indent).into_iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            self.line(&format!("  {}  {line}", paint(QUIET, &format!("{label:<0$}", self.label))));
        }
    }

    /// Adds a row without a word in the middle column.
    pub(crate) fn plain(&mut self, label: &str, text: &str) {
        self.row(label, (Style::new(), ""), text);
    }

    /// Adds a line as it is, without trailing blanks.
    pub(crate) fn line(&mut self, line: &str) {
        let seen = anstream::adapter::strip_str(line).to_string().trim_end().chars().count();
        match fit().filter(|width| seen > *width) {
            Some(_) => self.text.push_str(&fitted(line.trim_end())),
            None => self.text.push_str(line.trim_end()),
        }
        self.text.push('\n');
    }

    /// The block.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_goes_on_in_its_own_column() {
        let mut rows = Rows::new(9, 5);
        rows.row(
            "ingress",
            (Style::new(), "deny"),
            "isolated by shop/db and shop/default-deny and by others; no rule admits it",
        );
        let text = anstream::adapter::strip_str(&rows.finish()).to_string();
        assert_eq!(
            text,
            "  ingress    deny   isolated by shop/db and shop/default-deny and by others; no\n\
             \x20                   rule admits it\n"
        );
    }

    #[test]
    fn a_value_breaks_where_names_do() {
        assert_eq!(pieces("shop/web", 20), ["shop/web"]);
        assert_eq!(pieces("network-policy/harry-potter", 16), ["network-policy/", "harry-potter"]);
        assert_eq!(pieces("TCP 1-79,81-65535, UDP", 10), ["TCP 1-79,", "81-65535,", "UDP"]);
        assert_eq!(pieces("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    }

    #[test]
    fn one_of_something_is_singular() {
        assert_eq!(
            [counted(0, "pod"), counted(1, "policy"), counted(2, "policy")],
            ["0 pods", "1 policy", "2 policies"]
        );
    }

    #[test]
    fn a_word_longer_than_the_line_stays_whole() {
        assert_eq!(wrap("see aaaaaaaaaaaa now", 6), ["see", "aaaaaaaaaaaa", "now"]);
        assert_eq!(wrap("answered in 0.2 ms", 15), ["answered in", "0.2 ms"]);
        assert_eq!(wrap("run `a b c d` now", 6), ["run", "`a b c d`", "now"]);
    }
}
