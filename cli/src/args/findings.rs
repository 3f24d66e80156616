//! What `policy lint` and `dns lint` share.

use clap::{Args, ValueEnum};
use netlab_core::policy::lint::Suppression;

/// Which findings count.
#[derive(Debug, Args)]
pub(crate) struct FindingsArgs {
    /// Leave one finding out, as in `NL0301=NetworkPolicy/shop/cache` (or `CODE=Kind/NAME`); repeatable. One that
    /// matches nothing is told
    #[arg(long, value_name = "CODE=OBJECT")]
    pub(crate) suppress: Vec<Suppression>,
    /// Show findings of this level and worse
    #[arg(long, value_name = "LEVEL", default_value = "note")]
    pub(crate) severity: Level,
    /// Which findings make the exit code 1: of this level and worse
    #[arg(long, value_name = "LEVEL", default_value = "warning")]
    pub(crate) fail_on: Level,
}

/// `--severity` and `--fail-on` of lints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Everything
    Note,
    /// What is probably not meant
    Warning,
    /// Objects that cannot be used, and what does not work at all
    Error,
}
