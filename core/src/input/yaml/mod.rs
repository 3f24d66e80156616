//! YAML and JSON text to trees of [`Node`]s, within a budget.
//!
//! Invariant: the only place that knows the parser. Reading never panics and never costs more than the
//! [`Budget`] says; a fault costs its document at most, and a doubled key only the object that has it (see
//! [`Parsed::faults`]). Plain scalars mean what `kubectl` reads ([`scalar`]).

mod scalar;
mod split;

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::budget::Budget;
use super::node::{Entry, Node, Value, excerpt};
use crate::diagnostic::{Diagnostic, code};
use crate::model::source::Position;
use split::Piece;

/// One document, as far as it could be read.
#[derive(Debug)]
pub(crate) struct Parsed<'t> {
    /// Its tree.
    pub(crate) root: Node<'t>,
    /// What is wrong with some mapping inside, sorted by place; the object around it is not to be trusted.
    pub(crate) faults: Vec<Diagnostic>,
}

/// Reads every document of a text. Positions are those of the whole text.
pub(crate) fn read<'t>(text: &'t str, budget: &Budget) -> Vec<Result<Parsed<'t>, Box<Diagnostic>>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > budget.text_bytes {
        let (size, limit) = (text.len(), budget.text_bytes);
        let problem =
            Diagnostic::error(code::TEXT_TOO_LARGE, format!("{size} bytes of text, more than {limit}"))
                .with_hint("split it into several files");
        return vec![Err(Box::new(problem))];
    }
    split::split(text)
        .into_iter()
        .map(|piece| match control_character(piece) {
            Some(problem) => Err(Box::new(problem)),
            None => Builder::new(piece, budget).run(),
        })
        .collect()
}

/// Control characters that YAML forbids. The parser takes NUL for the end of the text, which would hide
/// whatever follows.
fn control_character(piece: Piece<'_>) -> Option<Diagnostic> {
    let forbidden = |byte: u8| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r') || byte == 0x7f;
    let offset = piece.text.bytes().position(forbidden)?;
    let before = &piece.text[..offset];
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let line = piece.line + before.bytes().filter(|&byte| byte == b'\n').count();
    let character = piece.text.as_bytes()[offset];
    Some(
        Diagnostic::error(
            code::CONTROL_CHARACTER,
            format!("control character 0x{character:02x} in the text"),
        )
        .at(position(line, column))
        .with_hint("is this a binary file, or one in another encoding? Write text as UTF-8"),
    )
}

fn position(line: usize, column: usize) -> Position {
    let count = |from_zero: usize| u32::try_from(from_zero + 1).unwrap_or(u32::MAX);
    Position { line: count(line), column: count(column) }
}

/// A collection that is still open.
struct Frame<'t> {
    position: Position,
    anchor: usize,
    /// [`Builder::values`] when it was opened.
    values_before: usize,
    content: Open<'t>,
}

enum Open<'t> {
    Sequence(Vec<Node<'t>>),
    Mapping { entries: Vec<Entry<'t>>, key: Option<Key<'t>> },
}

/// A key whose value is still to come.
struct Key<'t> {
    text: Cow<'t, str>,
    position: Position,
    merges: bool,
}

/// Turns the parser's events into a tree.
struct Builder<'t, 'b> {
    parser: Parser<'t, StrInput<'t>>,
    piece: Piece<'t>,
    budget: &'b Budget,
    open: Vec<Frame<'t>>,
    root: Option<Node<'t>>,
    anchors: BTreeMap<usize, (Node<'t>, usize)>,
    values: usize,
    alias_values: usize,
    faults: Vec<Diagnostic>,
}

impl<'t, 'b> Builder<'t, 'b> {
    fn new(piece: Piece<'t>, budget: &'b Budget) -> Self {
        let mut options = granit_parser::options! {
            flow_nesting_limit: budget.depth,
            block_nesting_limit: budget.depth,
        };
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_str_with_options(piece.text, options),
            piece,
            budget,
            open: Vec::new(),
            root: None,
            anchors: BTreeMap::new(),
            values: 0,
            alias_values: 0,
            faults: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Parsed<'t>, Box<Diagnostic>> {
        while let Some(event) = self.parser.next_event() {
            let taken = match event {
                Ok((event, span)) => self.take(event, span),
                Err(error) => Err(Box::new(self.syntax_error(&error))),
            };
            if let Err(problem) = taken {
                return Err(Box::new(self.if_template(*problem)));
            }
        }
        let start = position(self.piece.line, 0);
        let root = self.root.unwrap_or(Node { position: start, value: Value::Null });
        self.faults.sort();
        Ok(Parsed { root, faults: self.faults })
    }

    fn place(&self, span: Span) -> Position {
        position(self.piece.line + span.start.line().saturating_sub(1), span.start.col())
    }

    fn take(&mut self, event: Event<'t>, span: Span) -> Result<(), Box<Diagnostic>> {
        let position = self.place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1 + text.len() / 64, position)?;
                let string = tag.as_deref().is_some_and(|tag| {
                    // A tag of somebody's own leaves the text as it is; `!!int` and the like only repeat what it is.
                    !tag.is_yaml_core_schema() || matches!(tag.core_suffix(), Some("str" | "binary"))
                });
                if self.expects_key() && anchor == 0 {
                    return self.key(text, style == ScalarStyle::Plain && !string, position);
                }
                let plain = style == ScalarStyle::Plain && !string;
                let weight = 1 + text.len() / 64;
                let value = if plain { scalar::resolve(text) } else { Value::String(text) };
                let node = Node { position, value };
                self.remember(anchor, &node, weight)?;
                self.add(node)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(position, anchor, Open::Sequence(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                self.begin(position, anchor, Open::Mapping { entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some((node, weight)) = self.anchors.get(&anchor).cloned() else {
                    let problem = Diagnostic::error(code::ANCHOR_CYCLE, "an anchor that contains itself");
                    return Err(problem
                        .at(position)
                        .with_hint("write the value out instead of using `*`")
                        .into());
                };
                self.copy(weight, position)?;
                self.add(Node { position, ..node })
            }
            _ => Ok(()),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Frame { content: Open::Mapping { key: None, .. }, .. }))
    }

    fn begin(&mut self, position: Position, anchor: usize, content: Open<'t>) -> Result<(), Box<Diagnostic>> {
        self.count(1, position)?;
        if self.expects_key() {
            return Err(not_a_string(position).into());
        }
        if self.open.len() >= self.budget.depth {
            return Err(too_deep(self.budget.depth).at(position).into());
        }
        self.open.push(Frame { position, anchor, values_before: self.values, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Box<Diagnostic>> {
        let Some(frame) = self.open.pop() else { return Ok(()) };
        let value = match frame.content {
            Open::Sequence(items) => Value::Sequence(items),
            Open::Mapping { entries, .. } => {
                self.report_doubled_keys(&entries);
                Value::Mapping(entries)
            }
        };
        let node = Node { position: frame.position, value };
        self.remember(frame.anchor, &node, self.values - frame.values_before + 1)?;
        self.add(node)
    }

    /// A complete value: the root, a list element, a mapping's value or, where it is an alias, its key.
    fn add(&mut self, node: Node<'t>) -> Result<(), Box<Diagnostic>> {
        match self.open.last_mut().map(|frame| &mut frame.content) {
            None => {
                self.root.get_or_insert(node);
            }
            Some(Open::Sequence(items)) => items.push(node),
            Some(Open::Mapping { entries, key }) => match key.take() {
                None => {
                    let Value::String(text) = node.value else {
                        return Err(not_a_string(node.position).into());
                    };
                    return self.key(text, false, node.position);
                }
                Some(key) if key.merges => return self.merge(node),
                Some(key) => entries.push(Entry { key: key.text, position: key.position, value: node }),
            },
        }
        Ok(())
    }

    fn key(&mut self, text: Cow<'t, str>, plain: bool, position: Position) -> Result<(), Box<Diagnostic>> {
        let merges = plain && text == "<<";
        let resolved = if plain && !merges { scalar::resolve(text.clone()) } else { Value::Null };
        let read_as: Option<Cow<'t, str>> = match resolved {
            Value::Bool { value, .. } => Some(if value { "true" } else { "false" }.into()),
            Value::Int { value, .. } => Some(value.to_string().into()),
            Value::Null if plain && !merges => return Err(not_a_string(position).into()),
            _ => None,
        };
        let text = match read_as {
            Some(read_as) if read_as != text => {
                let message = format!("the unquoted key {} is read as `{read_as}`", excerpt(&text));
                let hint = format!("quote it: \"{text}\"");
                self.faults
                    .push(Diagnostic::error(code::KEY_NOT_STRING, message).at(position).with_hint(hint));
                read_as
            }
            _ => text,
        };
        if let Some(Frame { content: Open::Mapping { key, .. }, .. }) = self.open.last_mut() {
            *key = Some(Key { text, position, merges });
        }
        Ok(())
    }

    /// `<<`: entries of other mappings, less the keys that stand here already.
    fn merge(&mut self, node: Node<'t>) -> Result<(), Box<Diagnostic>> {
        let position = node.position;
        let sources = match node.value {
            Value::Mapping(_) => vec![node],
            Value::Sequence(items) => items,
            _ => Vec::new(),
        };
        let Some(Frame { content: Open::Mapping { entries, .. }, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        let mut cost = 0;
        let mut known: std::collections::BTreeSet<Cow<'t, str>> =
            entries.iter().map(|entry| entry.key.clone()).collect();
        for source in sources {
            let Value::Mapping(merged) = source.value else { continue };
            cost += known.len() + merged.len();
            entries.extend(merged.into_iter().filter(|entry| known.insert(entry.key.clone())));
        }
        self.copy(cost, position)
    }

    fn report_doubled_keys(&mut self, entries: &[Entry<'t>]) {
        let mut order: Vec<&Entry<'t>> = entries.iter().collect();
        order.sort_by(|a, b| (&a.key, a.position).cmp(&(&b.key, b.position)));
        for pair in order.windows(2) {
            if let [first, second] = pair
                && first.key == second.key
                && first.position != second.position
            {
                let Position { line, column } = first.position;
                let message =
                    format!("the key {} stands here twice: first at {line}:{column}", excerpt(&second.key));
                self.faults.push(
                    Diagnostic::error(code::DOUBLED_KEY, message)
                        .at(second.position)
                        .with_hint("keep one of the two"),
                );
            }
        }
    }

    /// Keeps an anchored value for its aliases.
    fn remember(&mut self, anchor: usize, node: &Node<'t>, weight: usize) -> Result<(), Box<Diagnostic>> {
        if anchor != 0 {
            self.copy(weight, node.position)?;
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        Ok(())
    }

    fn copy(&mut self, weight: usize, position: Position) -> Result<(), Box<Diagnostic>> {
        self.alias_values += weight;
        if self.alias_values > self.budget.alias_values {
            let message = format!("anchors and aliases copy more than {} values", self.budget.alias_values);
            let problem = Diagnostic::error(code::TOO_MANY_ALIASES, message).at(position);
            return Err(problem.with_hint("write the values out, or split the document").into());
        }
        self.count(weight, position)
    }

    fn count(&mut self, weight: usize, position: Position) -> Result<(), Box<Diagnostic>> {
        self.values += weight;
        if self.values > self.budget.values {
            let message = format!("more than {} values in one document", self.budget.values);
            let problem = Diagnostic::error(code::TOO_MANY_VALUES, message).at(position);
            return Err(problem.with_hint("split the document").into());
        }
        Ok(())
    }

    fn syntax_error(&self, error: &granit_parser::ScanError) -> Diagnostic {
        let marker = error.marker();
        let place = position(self.piece.line + marker.line().saturating_sub(1), marker.col());
        let info = error.info();
        if info.contains("nesting") || info.contains("recursion limit") {
            return too_deep(self.budget.depth).at(place);
        }
        let problem = Diagnostic::error(code::SYNTAX, format!("not YAML: {info}"));
        let line = self.line(place);
        let indentation = &line[..line.len() - line.trim_start().len()];
        match indentation.find('\t') {
            // Blanks before the tab are one byte each.
            Some(tab) => problem
                .at(Position { column: u32::try_from(tab + 1).unwrap_or(place.column), ..place })
                .with_hint("indent with spaces: YAML does not take tabs"),
            None => problem.at(place).with_hint("the rest of this document is not read; other documents are"),
        }
    }

    fn line(&self, place: Position) -> &'t str {
        let number = usize::try_from(place.line).unwrap_or(usize::MAX).saturating_sub(self.piece.line + 1);
        self.piece.text.lines().nth(number).unwrap_or_default()
    }

    /// Braces that are still in a text make it unreadable in many ways; there is one thing to do about all.
    fn if_template(&self, problem: Diagnostic) -> Diagnostic {
        if problem.position.is_some_and(|place| self.line(place).contains("{{")) {
            return problem
                .with_hint("is this a template? Render it first, with `helm template` for instance");
        }
        problem
    }
}

fn too_deep(depth: usize) -> Diagnostic {
    Diagnostic::error(code::TOO_DEEP, format!("values nest more than {depth} deep"))
        .with_hint("no Kubernetes object is that deep: is this the right file?")
}

fn not_a_string(position: Position) -> Diagnostic {
    Diagnostic::error(code::KEY_NOT_STRING, "a key that is not a string")
        .at(position)
        .with_hint("write a name, or quote what is here")
}

#[cfg(test)]
mod tests;
