//! `--with` and `--without`: the input as it would be.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use netlab_core::input::what_if::ObjectName;

/// What is supposed about the input.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "What if")]
pub(crate) struct WhatIfArgs {
    /// Suppose that these manifests were applied too: what has the kind, namespace and name of an object of `-f`
    /// stands for it
    #[arg(long, value_name = "PATH", global = true, action = ArgAction::Append)]
    pub(crate) with: Vec<PathBuf>,
    /// Suppose that this object of `-f` were deleted, as in `NetworkPolicy/shop/db` or `AdminNetworkPolicy/guard`
    #[arg(long, value_name = "KIND/[NAMESPACE/]NAME", global = true, action = ArgAction::Append)]
    pub(crate) without: Vec<ObjectName>,
}

impl WhatIfArgs {
    /// True when nothing is supposed.
    pub(crate) fn is_empty(&self) -> bool {
        self.with.is_empty() && self.without.is_empty()
    }
}
