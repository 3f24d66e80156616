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
