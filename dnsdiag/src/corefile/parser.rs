//! From words to server blocks.
//!
//! Source: `caddyfile/parse.go`. Differences, all towards saying more: the server stops at its first fault, here the next
//! line or block is tried; files are listed instead of read. Invariant: as many expansions of snippets as the server
//! allows, and no more.

use std::collections::{BTreeMap, VecDeque};

use super::lexer::words;
use super::{Block, Corefile, Import, Plugin, Problem, Property, Token};

/// Expansions of snippets before it is taken for a circle. The server's own limit is 10,000, of any size.
const MOST_EXPANSIONS: usize = 10_000;
/// Words that expansions may add.
const MOST_WORDS: usize = 1_000_000;
/// How deep braces nest in a plugin; no plugin knows more than two.
const DEEPEST: usize = 32;

/// Reads a text.
#[must_use]
pub fn parse(text: &str) -> Corefile {
    let (words, open) = words(text);
    let mut parser = Parser {
        words: words.into(),
        snippets: BTreeMap::new(),
        file: Corefile::default(),
        expansions: 0,
        added: 0,
        last: None,
    };
    parser.run();
    if let Some(position) = open {
        let message = "a quote that nothing closes: the rest of the file is one word".to_owned();
        let hint = "close it, or take it away";
        parser.file.problems.push(Problem { position, message, hint, harmless: false });
    }
    parser.file.problems.sort_by_key(|problem| problem.position);
    parser.file
}

struct Parser {
    words: VecDeque<Token>,
    snippets: BTreeMap<String, Vec<Token>>,
    file: Corefile,
    expansions: usize,
    added: usize,
    last: Option<Token>,
}

impl Parser {
    fn next(&mut self) -> Option<Token> {
        let token = self.words.pop_front()?;
        self.last = Some(token.clone());
        Some(token)
    }

    fn problem(&mut self, at: &Token, message: impl Into<String>, hint: &'static str) {
        let message = message.into();
        self.file.problems.push(Problem { position: at.position, message, hint, harmless: false });
    }

    fn next_is(&self, text: &str) -> bool {
        self.words.front().is_some_and(|token| token.text == text)
    }

    fn run(&mut self) {
        while !self.words.is_empty() {
            self.server_block();
        }
    }

    fn server_block(&mut self) {
        let Some(keys) = self.keys() else { return };
        if let [key] = keys.as_slice()
            && let Some(name) = key.text.strip_prefix('(').and_then(|name| name.strip_suffix(')'))
        {
            return self.snippet(key, name.to_owned());
        }
        if keys.is_empty() && !self.next_is("{") {
            return;
        }
        let index = self.file.blocks.len();
        let braces = self.next_is("{");
        let opened = if braces { self.next() } else { None };
        let plugins = self.plugins(index, braces);
        if let Some(opened) = opened
            && self.last.as_ref().is_none_or(|last| last.text != "}")
        {
            self.problem(
                &opened,
                "the brace is never closed",
                "end the server block with `}` on a line of its own",
            );
        }
        if keys.is_empty() {
            if let Some(at) = plugins.first().map(|plugin| plugin.name.clone()) {
                self.problem(
                    &at,
                    "a server block without a zone: the server leaves it out",
                    "write the zone before `{`",
                );
            }
            return;
        }
        self.file.blocks.push(Block { keys, plugins });
    }

    /// Zones before a block. They end at `{` or at the end of the line, unless a comma promises more.
    fn keys(&mut self) -> Option<Vec<Token>> {
        let mut keys: Vec<Token> = Vec::new();
        let mut more = false;
        loop {
            let Some(token) = self.words.front() else {
                if let Some(last) = self.last.clone().filter(|_| more) {
                    self.problem(&last, "the comma promises another zone", "take the comma away");
                }
                return Some(keys);
            };
            if token.text == "{" {
                if more {
                    let at = token.clone();
                    self.problem(
                        &at,
                        "the comma promises another zone, and `{` follows",
                        "take the comma away",
                    );
                }
                return Some(keys);
            }
            if token.first && !keys.is_empty() && !more {
                return Some(keys);
            }
            if token.text == "import" && token.first {
                let at = self.next()?;
                self.import(&at, None);
                continue;
            }
            let mut token = self.next()?;
            if token.text == "}" && keys.is_empty() {
                self.problem(&token, "`}` without a block that it could close", "take it away");
                // Taken for a zone, which does no harm at the very end.
                if let (true, Some(problem)) = (self.words.is_empty(), self.file.problems.last_mut()) {
                    problem.harmless = true;
                }
                return None;
            }
            more = token.text.ends_with(',');
            if more {
                token.text.pop();
            }
            if !token.text.is_empty() {
                keys.push(token);
            }
        }
    }

    fn snippet(&mut self, key: &Token, name: String) {
        let mut depth = 0_usize;
        let mut body = Vec::new();
        if !self.next_is("{") {
            self.problem(key, format!("the snippet `{name}` has no block"), "write `{` behind its name");
            return;
        }
        while let Some(token) = self.next() {
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            body.push(token);
        }
        if depth > 0 {
            self.problem(key, format!("the snippet `{name}` is never closed"), "end it with `}`");
        }
        body.drain(..body.len().min(1));
        let imports_itself = body.windows(2).any(
            |pair| matches!(pair, [import, of] if import.text == "import" && import.first && of.text == name),
        );
        if imports_itself {
            self.problem(key, format!("the snippet `{name}` imports itself"), "take the import away");
            return;
        }
        if self.snippets.contains_key(&name) {
            self.problem(key, format!("a second snippet `{name}`"), "rename one of them");
            return;
        }
        if let Some(first) = body.first_mut() {
            first.first = true;
        }
        self.snippets.insert(name, body);
    }

    /// What stands for `import NAME`: a snippet's words, or a file that is not read.
    fn import(&mut self, at: &Token, block: Option<usize>) {
        let Some(pattern) = self.words.front().filter(|token| !token.first).cloned() else {
            self.problem(at, "`import` without the name of a snippet or file", "name one");
            return;
        };
        self.next();
        if self.words.front().is_some_and(|token| !token.first) {
            self.problem(&pattern, "`import` takes one name", "import each with a line of its own");
            self.rest_of_line();
            return;
        }
        if let Some(words) = self.snippets.get(&pattern.text).cloned() {
            let count = words.len();
            if self.expansions >= MOST_EXPANSIONS || self.added.saturating_add(count) > MOST_WORDS {
                let message = format!("`{}` is imported without end", pattern.text);
                self.problem(&pattern, message, "snippets import each other in a circle: break it");
                self.words.clear();
                return;
            }
            self.expansions += 1;
            self.added += count;
            for token in words.into_iter().rev() {
                self.words.push_front(token);
            }
            return;
        }
        if !pattern.has_variable()
            && pattern.text.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        {
            let message = format!("no snippet `{}` stands above", pattern.text);
            self.problem(
                &pattern,
                message,
                "define it before its first use; a file of that name would lie beside this one",
            );
        }
        let wildcards = |character: char| pattern.text.matches(character).count();
        if wildcards('*') > 1
            || wildcards('?') > 1
            || (pattern.text.contains('[') && pattern.text.contains(']'))
        {
            self.problem(&pattern, "a pattern with more than one wildcard", "one `*` is allowed");
        }
        self.file.imports.push(Import { pattern, block });
    }

    fn rest_of_line(&mut self) {
        while self.words.front().is_some_and(|token| !token.first) {
            self.next();
        }
    }

    /// The plugins of a block, up to its brace or the end of the file.
    fn plugins(&mut self, block: usize, braces: bool) -> Vec<Plugin> {
        let mut plugins = Vec::new();
        while let Some(name) = self.next() {
            match name.text.as_str() {
                "}" => {
                    if !braces {
                        self.problem(&name, "`}` without a `{` before", "write `{` behind the zones");
                    }
                    return plugins;
                }
                "import" => self.import(&name, Some(block)),
                "{" => {
                    self.problem(
                        &name,
                        "`{` on a line of its own, where a plugin should be",
                        "write it behind the plugin",
                    );
                    self.block_lines(block, 0);
                }
                _ => {
                    if let Some(plugin) = self.plugin(name, block) {
                        plugins.push(plugin);
                    }
                }
            }
        }
        plugins
    }

    fn plugin(&mut self, name: Token, block: usize) -> Option<Plugin> {
        let mut plugin = Plugin { name, arguments: Vec::new(), body: None };
        while let Some(token) = self.words.front() {
            if token.text == "{" {
                if token.first {
                    let at = token.clone();
                    let message = format!("`{{` must stand on the line of `{}`", plugin.name.text);
                    self.problem(&at, message, "move it up");
                }
                let open = self.next()?;
                plugin.body = Some(self.block_lines(block, 0));
                if self.last.as_ref().is_none_or(|last| last.text != "}") {
                    let message = format!("the brace of `{}` is never closed", plugin.name.text);
                    self.problem(&open, message, "end it with `}` on a line of its own");
                }
                if let Some(token) = self.words.front().filter(|token| !token.first).cloned() {
                    let message =
                        format!("`{}` behind a closing brace belongs to `{}`", token.text, plugin.name.text);
                    self.problem(&token, message, "begin a new line behind `}`");
                    self.rest_of_line();
                }
                return Some(plugin);
            }
            if token.first {
                break;
            }
            if token.text == "}" {
                let at = token.clone();
                let message = "`}` on the line of a plugin: it closes nothing there";
                self.problem(&at, message, "write it on a line of its own");
                return Some(plugin);
            }
            plugin.arguments.push(self.next()?);
        }
        Some(plugin)
    }

    /// The lines up to the brace that closes them.
    fn block_lines(&mut self, block: usize, depth: usize) -> Vec<Property> {
        let mut lines: Vec<Property> = Vec::new();
        while let Some(token) = self.next() {
            match token.text.as_str() {
                "}" => return lines,
                "import" if token.first => self.import(&token, Some(block)),
                "{" if depth >= DEEPEST => {
                    self.problem(&token, "braces nest too deep", "no plugin takes that");
                    self.words.clear();
                }
                "{" => {
                    let body = self.block_lines(block, depth + 1);
                    match lines.last_mut().filter(|_| !token.first) {
                        Some(property) => property.body = body,
                        None => self.problem(
                            &token,
                            "`{` without a word before it",
                            "write it behind the property",
                        ),
                    }
                }
                _ => {
                    let mut arguments = Vec::new();
                    while self
                        .words
                        .front()
                        .is_some_and(|next| !next.first && next.text != "{" && next.text != "}")
                    {
                        arguments.extend(self.next());
                    }
                    lines.push(Property { name: token, arguments, body: Vec::new() });
                }
            }
        }
        lines
    }
}
