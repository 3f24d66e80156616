//! Flags that every command takes; a short flag means the same everywhere.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use netlab_core::model::selector::Selector;

use super::selector::parse_selector;
use super::timeout::parse_timeout;
use super::what_if::WhatIfArgs;

/// What every command understands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Manifests: a file, a directory (searched in depth for *.yaml, *.yml and *.json) or `-`
    #[arg(short = 'f', long = "filename", value_name = "PATH", global = true, action = ArgAction::Append)]
    pub(crate) filename: Vec<PathBuf>,
    /// Namespace of names without one; listings show only this namespace
    #[arg(short, long, value_name = "NAMESPACE", global = true, env = "NETLAB_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Listings show every namespace, whatever NETLAB_NAMESPACE says
    #[arg(short = 'A', long, global = true)]
    pub(crate) all_namespaces: bool,
    /// Listings show only pods whose labels match, as in `app=web,tier!=test`
    #[arg(short = 'l', long, value_name = "SELECTOR", global = true, value_parser = parse_selector)]
    pub(crate) selector: Option<Selector>,
    /// How to print the answer
    #[arg(short, long, value_name = "FORMAT", global = true, default_value = "table", env = "NETLAB_OUTPUT")]
    pub(crate) output: Format,
    /// Print only the first line of the answer, and no notes
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Tell on standard error what is being done
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Colours; `auto` follows NO_COLOR, CLICOLOR_FORCE and whether the output is a terminal
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
    pub(crate) color: Color,
    /// Give up after this long, as in `500ms`, `10s`, `2m`
    #[arg(long, value_name = "DURATION", global = true, value_parser = parse_timeout)]
    pub(crate) timeout: Option<Duration>,
    /// Answer from what could be read even if some objects are invalid (the answer is then incomplete: exit 3)
    #[arg(long, global = true)]
    pub(crate) skip_invalid: bool,
    /// Of commands that have `--with` and `--without`.
    #[arg(skip)]
    pub(crate) what_if: WhatIfArgs,
}

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For people, with more columns
    Wide,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
    /// One comma-separated line for each connection (`policy connections`, `diff`)
    Csv,
    /// A Markdown table (`policy connections`, `diff`, `lint`, `dns lint`)
    Md,
    /// A graph for Graphviz (`policy connections`)
    Dot,
    /// A picture (`policy connections`)
    Svg,
    /// A truth table (`policy connections`)
    Matrix,
    /// For code scanning (`policy lint`, `dns lint`)
    Sarif,
    /// One line for each claim, for test harnesses (`policy test`)
    Tap,
    /// An XML report of the claims (`policy test`)
    Junit,
}

impl Format {
    /// True for the formats that only some commands have.
    pub(crate) const fn is_special(self) -> bool {
        matches!(
            self,
            Self::Csv
                | Self::Md
                | Self::Dot
                | Self::Svg
                | Self::Matrix
                | Self::Sarif
                | Self::Tap
                | Self::Junit
        )
    }
}

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// When the output is a terminal
    Auto,
    /// Also into pipes
    Always,
    /// Not at all
    Never,
}

impl Globals {
    /// The namespace to list, if the listing is limited to one.
    pub(crate) fn listed_namespace(&self) -> Option<&str> {
        if self.all_namespaces { None } else { self.namespace.as_deref() }
    }

    /// True when a listing shows an object of this namespace with these labels.
    pub(crate) fn shows(&self, namespace: &str, labels: &netlab_core::model::cluster::Labels) -> bool {
        self.listed_namespace().is_none_or(|wanted| wanted == namespace)
            && self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }
}
