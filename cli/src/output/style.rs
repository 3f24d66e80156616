//! Colour and marks, and when to use them.
//!
//! Invariant: text is written with its escape codes and the stream takes them out where they are not wanted
//! (pipes, `NO_COLOR`, `--color never`), so there is one way to build a line.

use anstyle::AnsiColor;
pub(crate) use anstyle::Style;

/// For `allow`, `√` and whatever is well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// For `deny`.
pub(crate) const DENIED: Style = AnsiColor::Yellow.on_default();
/// For errors, contradictions and `×`.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// For warnings and `‼`.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// For hints, paths and commands to type.
pub(crate) const POINTER: Style = AnsiColor::Cyan.on_default();
/// For the first line.
pub(crate) const STRONG: Style = Style::new().bold();
/// For labels, gutters and what can be skipped.
pub(crate) const QUIET: Style = Style::new().dimmed();

/// `text` in a style.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// `text` in which only our own styles are control sequences: a manifest's names and a file's path may hold others,
/// which would move the cursor, set the title or turn the reading direction. Those are shown as `\u{1b}`.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = style_length(rest).unwrap_or(first.len_utf8());
        let (taken, left) = rest.split_at(length);
        let turns = matches!(first, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if length == first.len_utf8() && (turns || first.is_control() && !matches!(first, '\n' | '\t')) {
            shown.extend(first.escape_unicode());
        } else {
            shown.push_str(taken);
        }
        rest = left;
    }
    shown
}

/// The length of the style that a text begins with: bold, dim, a plain colour or the end of all.
fn style_length(text: &str) -> Option<usize> {
    const STYLES: [&str; 8] = ["0", "1", "2", "31", "32", "33", "35", "36"];
    let (number, _) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    STYLES.contains(&number).then(|| number.len() + 3)
}

/// The state of one line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It is well.
    Good,
    /// It is not.
    Bad,
    /// It works, with a reservation.
    Warning,
    /// It was not looked at, or is not here.
    Absent,
}

/// Which characters the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    /// `√ × ‼ -`.
    Unicode,
    /// `ok FAIL warn --`.
    Ascii,
}

impl Charset {
    /// From the locale, in the order that `setlocale` uses.
    pub(crate) fn from_environment() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .unwrap_or_default()
            .to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }

    /// A mark, padded so that what follows lines up.
    pub(crate) fn mark(self, mark: Mark) -> String {
        let (style, unicode, ascii) = match mark {
            Mark::Good => (GOOD, "√", "ok  "),
            Mark::Bad => (BAD, "×", "FAIL"),
            Mark::Warning => (WARNING, "‼", "warn"),
            Mark::Absent => (QUIET, "-", "--  "),
        };
        paint(style, if self == Self::Unicode { unicode } else { ascii })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_styles_reach_the_terminal() {
        for style in [GOOD, DENIED, BAD, WARNING, POINTER, STRONG, QUIET] {
            let ours = paint(style, "deny\tx\n");
            assert_eq!(harmless(&ours), ours);
        }
        for (text, shown) in [
            ("a\u{1b}]0;title\u{7}b", "a\\u{1b}]0;title\\u{7}b"),
            ("\u{1b}[8mhidden", "\\u{1b}[8mhidden"),
            ("\u{1b}[2Kx\r", "\\u{1b}[2Kx\\u{d}"),
            ("\u{9b}2K \u{202e}ylla", "\\u{9b}2K \\u{202e}ylla"),
            ("\u{1b}", "\\u{1b}"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }

    #[test]
    fn marks_of_one_charset_are_equally_wide() {
        for charset in [Charset::Unicode, Charset::Ascii] {
            let widths: Vec<usize> = [Mark::Good, Mark::Bad, Mark::Warning, Mark::Absent]
                .into_iter()
                .map(|mark| anstream::adapter::strip_str(&charset.mark(mark)).to_string().chars().count())
                .collect();
            assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{charset:?}: {widths:?}");
        }
    }
}
