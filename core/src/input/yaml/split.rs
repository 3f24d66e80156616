//! Where one document of a text ends and the next begins.
//!
//! Invariant: the pieces are cut before parsing, so a syntax error in one cannot hide the next. YAML forbids a
//! line that starts with `---` or `...` inside every kind of scalar, so cutting there is never wrong.

/// One document's text and the line of the whole that it starts on, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) text: &'t str,
    pub(super) line: usize,
}

/// Cuts a text into documents; pieces that hold nothing but comments are left out.
pub(super) fn split(text: &str) -> Vec<Piece<'_>> {
    match text.trim_start().as_bytes().first() {
        Some(b'{') if !text.lines().any(is_separator) => split_json(text),
        _ => split_yaml(text),
    }
}

fn split_yaml(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 0, 0);
    // `%YAML` and `%TAG` lines belong to the document after the separator.
    let mut directives_only = true;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        if is_separator(content) && offset > start && !(content.starts_with("---") && directives_only) {
            push(&mut pieces, &text[start..offset], start_line);
            (start, start_line) = (offset, line);
            directives_only = true;
        }
        if content.starts_with("...") && is_separator(content) {
            (start, start_line) = (offset + content.len(), line + 1);
            directives_only = true;
        } else {
            directives_only &= content.starts_with(['%', '#']) || content.trim().is_empty();
        }
        offset += content.len();
    }
    push(&mut pieces, &text[start..], start_line);
    pieces
}

/// JSON documents one after the other (`jq -c`, `kubectl get -o json` twice).
fn split_json(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut start, mut start_line, mut line) = (0, 0, 0);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            b'\n' => line += 1,
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => {
                depth = depth.saturating_sub(1);
                if depth > 0 {
                    continue;
                }
                // Only what stands on lines of its own is cut, so that places keep their columns.
                let rest = &text[offset + 1..];
                let line_end = rest.find('\n').map_or(rest.len(), |end| end + 1);
                if rest[..line_end].trim().is_empty() && rest.trim_start().starts_with('{') {
                    let end = offset + 1 + line_end;
                    push(&mut pieces, &text[start..end], start_line);
                    (start, start_line) = (end, line + 1);
                }
            }
            _ => {}
        }
    }
    push(&mut pieces, &text[start..], start_line);
    pieces
}

fn push<'t>(pieces: &mut Vec<Piece<'t>>, text: &'t str, line: usize) {
    let blank = |content: &str| {
        let content = content.trim();
        content.is_empty() || content.starts_with('#') || content == "---"
    };
    if !text.lines().all(blank) {
        pieces.push(Piece { text, line });
    }
}

/// `---` or `...` at the start of a line and alone or followed by white space.
fn is_separator(line: &str) -> bool {
    (line.starts_with("---") || line.starts_with("..."))
        && line[3..].chars().next().is_none_or(|c| matches!(c, ' ' | '\t' | '\r' | '\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<(usize, &str)> {
        split(text).into_iter().map(|piece| (piece.line, piece.text)).collect()
    }

    #[test]
    fn documents_are_cut_at_markers() {
        assert_eq!(pieces("a: 1\n---\nb: 2\n"), [(0, "a: 1\n"), (1, "---\nb: 2\n")]);
        assert_eq!(pieces("---\n---\r\n# only words\n---\na: 1"), [(3, "---\na: 1")]);
        assert_eq!(
            pieces("%YAML 1.1\n---\na: 1\n...\nb: 2\n"),
            [(0, "%YAML 1.1\n---\na: 1\n"), (4, "b: 2\n")]
        );
        assert_eq!(pieces("--- {a: 1}\n--- {b: 1}\n").len(), 2);
        assert_eq!(pieces("a: |\n  x\n ---\n  y\n").len(), 1, "an indented marker is text");
        assert_eq!(pieces("---a: 1\n").len(), 1);
    }

    #[test]
    fn json_documents_are_cut_at_their_braces() {
        assert_eq!(
            pieces("{\"a\": \"}{\"}\n{\"b\":\n1}\n"),
            [(0, "{\"a\": \"}{\"}\n"), (1, "{\"b\":\n1}\n")]
        );
        assert_eq!(pieces("{a: 1}\n").len(), 1);
    }
}
