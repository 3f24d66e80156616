//! A text that stands in a file of its own or inside a `ConfigMap`, and where its lines are there.
//!
//! Invariant: a place in the text is the place in the file wherever YAML keeps lines as they are (`|`); elsewhere it is
//! the place of the key, and the message says the line of the text.

use std::sync::Arc;

use netlab_core::diagnostic::{Diagnostic, ObjectRef};
use netlab_core::model::source::Position;

/// A text and its place.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) file: Arc<str>,
    pub(super) written: Arc<str>,
    /// The object that holds it, and the field.
    holder: Option<(ObjectRef, String)>,
    lines: Lines,
}

#[derive(Clone, Copy, Debug)]
enum Lines {
    /// The file is the text.
    Same,
    /// The first line of the text is this line of the file, so many characters further right.
    Below { first: u32, indent: u32 },
    /// Lines were folded or escaped: all of it stands here.
    At(Position),
}

impl Text {
    pub(super) fn of_file(file: &Arc<str>, text: &Arc<str>) -> Self {
        Self { file: Arc::clone(file), written: Arc::clone(text), holder: None, lines: Lines::Same }
    }

    /// A value of a `ConfigMap`; `key` is the place of its key, `whole` the text of the file.
    pub(super) fn of_value(
        file: &Arc<str>,
        whole: &str,
        value: &str,
        key: Position,
        holder: ObjectRef,
        path: &str,
    ) -> Self {
        let holder = Some((holder, path.to_owned()));
        Self { file: Arc::clone(file), written: value.into(), holder, lines: block_lines(whole, value, key) }
    }

    /// The object that holds it.
    pub(super) fn object(&self) -> Option<&ObjectRef> {
        self.holder.as_ref().map(|(object, _)| object)
    }

    /// Gives a diagnostic its place.
    pub(super) fn place(&self, mut diagnostic: Diagnostic, at: Option<Position>) -> Diagnostic {
        diagnostic.file = Some(Arc::clone(&self.file));
        if let Some((object, path)) = &self.holder {
            diagnostic.object = Some(object.clone());
            diagnostic.path.clone_from(path);
        }
        diagnostic.position = match (self.lines, at) {
            (Lines::Same, at) => at,
            (Lines::Below { first, .. }, None) => Some(Position { line: first, column: 1 }),
            (Lines::Below { first, indent }, Some(at)) => {
                let line = first.saturating_add(at.line.saturating_sub(1));
                Some(Position { line, column: at.column.saturating_add(indent) })
            }
            (Lines::At(key), at) => {
                if let Some(at) = at {
                    diagnostic.message = format!("line {} of it: {}", at.line, diagnostic.message);
                }
                Some(key)
            }
        };
        diagnostic
    }
}

/// The lines of a literal block scalar (`key: |`), checked against the value.
fn block_lines(whole: &str, value: &str, key: Position) -> Lines {
    let from = usize::try_from(key.line).unwrap_or(usize::MAX);
    let head = whole.lines().nth(from.saturating_sub(1)).unwrap_or_default();
    // Everything but the indicator of the last value on the line is a key, a tag or an anchor.
    let indicator = head.split('#').next().unwrap_or_default().trim_end();
    let literal =
        indicator.rsplit([' ', ':']).next().is_some_and(|word| word.starts_with('|') && word.len() <= 3);
    let below = || whole.lines().skip(from);
    let first = below().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let wanted = value.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let indent = first.len().checked_sub(wanted.len());
    match indent {
        Some(indent) if literal && first.is_char_boundary(indent) && first.ends_with(wanted) => {
            Lines::Below {
                first: key.line.saturating_add(1),
                indent: u32::try_from(indent).unwrap_or_default(),
            }
        }
        _ => Lines::At(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(whole: &str, value: &str, line: u32) -> (Option<Position>, String) {
        let key = Position { line, column: 3 };
        let object = ObjectRef { kind: "ConfigMap".to_owned(), ..ObjectRef::default() };
        let text = Text::of_value(&"f.yaml".into(), whole, value, key, object, "data.Corefile");
        let placed = text.place(Diagnostic::note("NL0000", "x"), Some(Position { line: 2, column: 4 }));
        (placed.position, placed.message)
    }

    #[test]
    fn lines_of_a_literal_block_are_lines_of_the_file() {
        let at = |line, column| Some(Position { line, column });
        let literal = "data:\n  Corefile: |\n    .:53 {\n        errors\n    }\n";
        assert_eq!(places(literal, ".:53 {\n    errors\n}\n", 2), (at(4, 8), "x".to_owned()));
        let anchored = "data:\n  Corefile: &c |- # comment\n\n    .:53 {\n";
        assert_eq!(places(anchored, "\n.:53 {", 2).0, at(4, 8));
        let quoted = "data:\n  Corefile: \".:53 {\\n  errors\\n}\"\n";
        assert_eq!(places(quoted, ".:53 {\n  errors\n}", 2), (at(2, 3), "line 2 of it: x".to_owned()));
        let folded = "data:\n  Corefile: >\n    .:53 {\n";
        assert_eq!(places(folded, ".:53 {\n", 2).0, at(2, 3));
    }
}
