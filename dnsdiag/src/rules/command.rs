//! Commands that verify a verdict, as a person types them.

use std::fmt::Display;

use crate::view::View;

/// One raw question from the pod's own network namespace.
pub(super) fn query(view: &View<'_>, name: &str, server: impl Display, options: &str) -> String {
    let space = if options.is_empty() { "" } else { " " };
    format!(
        "netlab dns query {name} --server {server}{space}{options} --netns PID  # a process of {}",
        view.target
    )
}

/// The name that every DNS server of the cluster knows.
pub(super) fn canary(view: &View<'_>) -> String {
    format!("kubernetes.default.svc.{}.", view.domain().unwrap_or_else(|| "cluster.local".to_owned()))
}
