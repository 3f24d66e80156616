//! Words of a Corefile.
//!
//! Source: `caddyfile/lexer.go`. A word ends at white space; one that begins with a quote ends at the next quote, in which
//! a backslash escapes quotes alone; `#` begins a comment. One that touches the word before it ends at the next blank, not
//! at the end of the line: so the server has it.

use netlab_core::model::source::Position;

use super::Token;

/// The words, and the place of a quote that nothing closes.
pub(super) fn words(text: &str) -> (Vec<Token>, Option<Position>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut words: Vec<Token> = Vec::new();
    let mut here = Position { line: 1, column: 1 };
    let mut last_line = 0;
    let mut characters = text.chars().peekable();
    let step = |here: &mut Position, character: char| {
        if character == '\n' {
            *here = Position { line: here.line.saturating_add(1), column: 1 };
        } else {
            here.column = here.column.saturating_add(1);
        }
    };
    while let Some(character) = characters.next() {
        if character == '#' {
            // The newline itself ends the line for what follows.
            while characters.peek().is_some_and(|next| *next != '\n') {
                characters.next();
            }
            continue;
        }
        let position = here;
        step(&mut here, character);
        if character.is_whitespace() {
            continue;
        }
        let quoted = character == '"';
        let mut word = String::new();
        let mut closed = !quoted;
        if quoted {
            while let Some(character) = characters.next() {
                step(&mut here, character);
                match character {
                    '"' => {
                        closed = true;
                        break;
                    }
                    '\\' => match characters.peek() {
                        Some('"') => {
                            step(&mut here, '"');
                            characters.next();
                            word.push('"');
                        }
                        // Whatever follows is taken with the backslash, another backslash included.
                        Some(_) => {
                            word.push('\\');
                            if let Some(next) = characters.next() {
                                step(&mut here, next);
                                word.push(next);
                            }
                        }
                        None => {}
                    },
                    other => word.push(other),
                }
            }
        } else {
            word.push(character);
            let mut comment = false;
            while let Some(next) = characters.peek().copied() {
                if next.is_whitespace() && next != '\r' {
                    break;
                }
                characters.next();
                step(&mut here, next);
                comment |= next == '#';
                // Carriage returns are dropped wherever they are.
                if next != '\r' && !comment {
                    word.push(next);
                }
            }
        }
        if !closed && word.is_empty() {
            return (words, Some(position));
        }
        let first = position.line > last_line;
        last_line = here.line;
        words.push(Token { text: word, position, first, quoted });
        if !closed {
            return (words, Some(position));
        }
    }
    (words, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        words(text).0.into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_are_the_server_s() {
        for (text, wanted) in [
            ("a b\tc\r\nd", &["a", "b", "c", "d"][..]),
            ("a#b c\nd", &["a", "c", "d"]),
            ("a #b c\nd", &["a", "d"]),
            ("{# x", &["{", "x"]),
            ("# a\nb", &["b"]),
            ("\"a b\" c", &["a b", "c"]),
            ("\"a \\\" \\n \\\\\" c", &["a \" \\n \\\\", "c"]),
            ("\"a\"b", &["a", "b"]),
            ("a\"b c\"", &["a\"b", "c\""]),
            ("\"\" a", &["", "a"]),
            ("\u{feff}a", &["a"]),
            ("a\rb", &["ab"]),
            ("a # \"\nb", &["a", "b"]),
            ("\"a # b\"", &["a # b"]),
            ("", &[]),
        ] {
            assert_eq!(texts(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn places_count_lines_and_characters() {
        let (words, open) = words("é a\n\n  \"x\ny\" b\n\"open");
        let places: Vec<_> =
            words.iter().map(|word| (word.position.line, word.position.column, word.first)).collect();
        assert_eq!(places, [(1, 1, true), (1, 3, false), (3, 3, true), (4, 4, false), (5, 1, true)]);
        assert_eq!(open.map(|place| place.line), Some(5));
    }
}
