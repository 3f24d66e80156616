//! Findings about the input, as a compiler shows them: code, place, source line, caret, help.
//!
//! Invariant: a finding without a file or a line still names its object and field; nothing here decides what
//! is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use netlab_core::diagnostic::{Diagnostic, Severity};
use netlab_core::model::source::Position;

use super::layout::{WIDTH, fit, wrap};
use super::style::{BAD, POINTER, STRONG, WARNING, paint};

/// Texts by file name, to quote lines from.
pub(crate) type Texts = BTreeMap<Arc<str>, Arc<str>>;

/// One finding, with the line it is about.
pub(crate) fn render(finding: &Diagnostic, texts: &Texts) -> String {
    let (style, word) = match finding.severity {
        Severity::Error => (BAD, "error"),
        Severity::Warning => (WARNING, "warning"),
        Severity::Note => (POINTER, "note"),
    };
    let head = format!("{word}[{}]: ", finding.code);
    let mut text = String::new();
    for (index, line) in wrap(&format!("{head}{}", finding.message), WIDTH).into_iter().enumerate() {
        if index == 0 {
            let (head, rest) = line.split_at(line.len().min(head.len() - 2));
            text += &format!("{}{}\n", paint(style, head), paint(STRONG, rest));
        } else {
            text += &format!("  {}\n", paint(STRONG, &line));
        }
    }
    let line = source_line(finding, texts);
    let gutter = line.map_or(1, |(position, _)| position.line.to_string().len());
    let place = place(finding);
    if !place.is_empty() {
        // A place that is too long for the screen goes on where its parts are.
        let room = fit().map_or(usize::MAX, |width| width.saturating_sub(gutter + 4));
        for (index, line) in wrap(&place, room).into_iter().enumerate() {
            let arrow = if index == 0 { paint(POINTER, "-->") } else { "   ".to_owned() };
            text += &format!("{}{arrow} {}\n", " ".repeat(gutter), line.trim_start());
        }
    }
    if let Some((position, line)) = line {
        let bar = paint(POINTER, "|");
        let (line, column) = window(line, position.column as usize);
        text += &format!("{} {bar}\n", " ".repeat(gutter));
        text += &format!("{} {bar} {line}\n", paint(POINTER, &position.line.to_string()));
        text += &format!("{} {bar} {}{}\n", " ".repeat(gutter), " ".repeat(column), paint(style, "^"));
    }
    if let Some(hint) = &finding.hint {
        let mut lines = wrap(hint, WIDTH - gutter - 9).into_iter();
        let first = lines.next().unwrap_or_default();
        text += &format!("{} {} {first}\n", " ".repeat(gutter), paint(POINTER, "= help:"));
        for line in lines {
            text += &format!("{}         {line}\n", " ".repeat(gutter));
        }
    }
    text
}

/// The line that a finding is about.
pub(crate) fn source_line<'a>(finding: &Diagnostic, texts: &'a Texts) -> Option<(Position, &'a str)> {
    let (position, file) = finding.position.zip(finding.file.as_ref())?;
    let line = texts.get(file)?.lines().nth(position.line.checked_sub(1)? as usize)?;
    Some((position, line))
}

/// `file:line:column  Kind ns/name path`, whatever of it is known.
fn place(finding: &Diagnostic) -> String {
    let file = finding.file.as_deref().map(|file| match finding.position {
        Some(position) => format!("{file}:{}:{}", position.line, position.column),
        None => file.to_owned(),
    });
    let mut object = finding.object.as_ref().map(ToString::to_string).unwrap_or_default();
    if !finding.path.is_empty() {
        if !object.is_empty() {
            object.push(' ');
        }
        object.push_str(&finding.path);
    }
    match file {
        Some(file) if object.is_empty() => file,
        Some(file) => format!("{file}  {object}"),
        None => object,
    }
}

/// The part of a line around a column (from 1), fit for the screen and without control characters, and the
/// column's offset in it.
fn window(line: &str, column: usize) -> (String, usize) {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let room = WIDTH - 8;
    let at = column.saturating_sub(1);
    let start = if at >= room { at - room / 2 } else { 0 };
    let shown: String = line.chars().skip(start).take(room).map(clean).collect();
    (shown.trim_end().to_owned(), at - start)
}

/// All findings, and one line that counts them; empty when there are none.
pub(crate) fn render_all(findings: &[Diagnostic], texts: &Texts) -> String {
    let mut text = String::new();
    for finding in findings {
        text += &render(finding, texts);
        text.push('\n');
    }
    if !findings.is_empty() {
        text += &count(findings);
        text.push('\n');
    }
    text
}

/// `2 errors, 1 warning`.
pub(crate) fn count(findings: &[Diagnostic]) -> String {
    let parts: Vec<String> =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")]
            .into_iter()
            .filter_map(|(severity, word)| {
                let number = findings.iter().filter(|finding| finding.severity == severity).count();
                (number > 0).then(|| format!("{number} {word}{}", if number == 1 { "" } else { "s" }))
            })
            .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use netlab_core::diagnostic::ObjectRef;

    use super::*;

    fn finding() -> Diagnostic {
        Diagnostic {
            file: Some("p.yaml".into()),
            position: Some(Position { line: 12, column: 3 }),
            code: "NL0203",
            severity: Severity::Error,
            object: Some(ObjectRef {
                kind: "NetworkPolicy".into(),
                namespace: Some("shop".into()),
                name: "db".into(),
            }),
            path: "spec.ingres".into(),
            message: "unknown field `ingres`".into(),
            hint: Some("did you mean `ingress`?".into()),
        }
    }

    #[test]
    fn the_caret_stands_under_the_field() {
        let lines: String = (1..=12)
            .map(|n| if n == 12 { "  ingres: []\n".to_owned() } else { format!("# {n}\n") })
            .collect();
        let texts = Texts::from([("p.yaml".into(), lines.into())]);
        assert_eq!(
            anstream::adapter::strip_str(&render(&finding(), &texts)).to_string(),
            "error[NL0203]: unknown field `ingres`\n\
             \x20 --> p.yaml:12:3  NetworkPolicy shop/db spec.ingres\n\
             \x20  |\n\
             12 |   ingres: []\n\
             \x20  |   ^\n\
             \x20  = help: did you mean `ingress`?\n"
        );
    }

    #[test]
    fn a_far_column_is_brought_into_view() {
        let (line, column) = window(&"x".repeat(1000), 500);
        assert!(line.len() <= WIDTH && column < line.len());
    }
}
