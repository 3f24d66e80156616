//! Corefiles: `CoreDNS`'s configuration as a tree that knows where everything stands.
//!
//! [`parse`] reads the text as the server does (`caddyfile/{lexer,parse}.go` of github.com/coredns/caddy), but goes on
//! after faults that do not make the rest meaningless. Invariant: reading never fails and never panics; whatever the
//! server would refuse is a [`Problem`]. Environment variables stay as they are written: their values are the
//! container's. Files that are imported are not read, they are listed.

mod grammar;
mod lexer;
mod parser;
mod plugins;
mod zone;

use netlab_core::model::source::Position;

pub use grammar::arguments;
pub(crate) use grammar::go_duration;
pub use parser::parse;
pub use plugins::{Known, known, order};
pub use zone::{Transport, ZoneKey, covers, normal};

/// A word of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its text, without quotes.
    pub text: String,
    /// Where it begins.
    pub position: Position,
    /// True for the first word of its line.
    pub first: bool,
    /// True when it stands in quotes.
    pub quoted: bool,
}

impl Token {
    /// True when an environment variable stands in it: `{$NAME}` or `{%NAME%}`.
    #[must_use]
    pub fn has_variable(&self) -> bool {
        ["{$", "{%"].iter().any(|open| {
            self.text.find(open).is_some_and(|at| self.text.get(at..).is_some_and(|rest| rest.contains('}')))
        })
    }
}

/// A line of a plugin's block, and the block behind it if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its first word.
    pub name: Token,
    /// The other words.
    pub arguments: Vec<Token>,
    /// Lines between its braces.
    pub body: Vec<Property>,
}

/// A plugin of a server block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Its name.
    pub name: Token,
    /// The words behind it.
    pub arguments: Vec<Token>,
    /// The lines between its braces; `None` without braces.
    pub body: Option<Vec<Property>>,
}

impl Plugin {
    /// The lines of its block.
    pub fn properties(&self) -> impl Iterator<Item = &Property> {
        self.body.iter().flatten()
    }

    /// The last property of a name, which is the one that counts.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties().filter(|property| property.name.text == name).last()
    }

    /// The words behind it as texts.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(|argument| argument.text.as_str())
    }
}

/// A server block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The zones that it serves, as written.
    pub keys: Vec<Token>,
    /// Its plugins in the order of the file, which is not the order in which they are asked.
    pub plugins: Vec<Plugin>,
}

impl Block {
    /// The plugins of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Plugin> {
        self.plugins.iter().filter(move |plugin| plugin.name.text == name)
    }

    /// The first plugin of a name.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<&Plugin> {
        self.plugins.iter().find(|plugin| plugin.name.text == name)
    }

    /// The zones that it serves, as far as they can be read.
    #[must_use]
    pub fn zones(&self) -> Vec<ZoneKey> {
        self.keys.iter().filter_map(|key| ZoneKey::read(&key.text).ok()).flatten().collect()
    }
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub position: Position,
    /// What, one line.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
    /// True when the server takes it, though it is not what it looks like.
    pub harmless: bool,
}

/// A file that is read from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The name or pattern.
    pub pattern: Token,
    /// The number of the server block that it stands in; `None` between blocks.
    pub block: Option<usize>,
}

/// A Corefile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corefile {
    /// Its server blocks.
    pub blocks: Vec<Block>,
    /// Files that it imports.
    pub imports: Vec<Import>,
    /// What the server would refuse to read.
    pub problems: Vec<Problem>,
}

impl Corefile {
    /// True when a file that was not read may add to a block.
    #[must_use]
    pub fn imports_into(&self, block: usize) -> bool {
        self.imports.iter().any(|import| import.block == Some(block))
    }
}
