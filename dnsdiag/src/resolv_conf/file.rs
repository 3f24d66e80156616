//! The file as lines of bytes, and the words of a line.
//!
//! Invariant: nothing here decides what a line means; bytes that are no UTF-8 become the replacement character only
//! when they are shown.

/// One line without its newline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: u32,
    /// Its bytes.
    pub(super) bytes: &'a [u8],
    /// False for a last line that the file does not end.
    pub(super) ended: bool,
}

/// The lines of a file.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    bytes.split_inclusive(|byte| *byte == b'\n').zip(1..).map(|(line, number)| Line {
        number,
        bytes: line.strip_suffix(b"\n").unwrap_or(line),
        ended: line.ends_with(b"\n"),
    })
}

/// What C's string functions see of a line: up to the first NUL.
pub(super) fn before_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}

/// Shown as text.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Words between blanks, as `is_blank` sees them.
pub(super) fn words(bytes: &[u8], is_blank: impl Fn(u8) -> bool) -> Vec<String> {
    bytes.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty()).map(text).collect()
}

/// Space and tab.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// What C's `isspace` calls space.
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Whether the line would be one of a reader that accepts indentation.
pub(super) fn is_indented_keyword(bytes: &[u8]) -> bool {
    let keywords: [&[u8]; 4] = [b"nameserver", b"search", b"domain", b"options"];
    bytes.first().is_some_and(|byte| is_space(*byte))
        && bytes
            .split(|byte| is_space(*byte))
            .find(|word| !word.is_empty())
            .is_some_and(|word| keywords.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_whether_they_end() {
        let seen: Vec<(u32, &[u8], bool)> =
            lines(b"a\n\nb").map(|line| (line.number, line.bytes, line.ended)).collect();
        assert_eq!(seen, [(1, &b"a"[..], true), (2, b"", true), (3, b"b", false)]);
        assert_eq!(lines(b"").count(), 0);
        assert_eq!(lines(b"\n").count(), 1);
    }
}
