//! `netlab dns lint`.

use std::path::PathBuf;

use clap::Args;
use netlab_core::policy::lint::Suppression;

use super::policy::Level;

#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// The server's configuration; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) corefile: Option<PathBuf>,
    /// A kubelet's configuration: its file, or what `kubectl get --raw /api/v1/nodes/NODE/proxy/configz` prints
    #[arg(long, value_name = "FILE")]
    pub(crate) kubelet_config: Option<PathBuf>,
    /// A node's file, the one that its kubelet's `resolvConf` names
    #[arg(long, value_name = "FILE")]
    pub(crate) resolv_conf: Option<PathBuf>,
    /// Leave one finding out, as in `NL0741=Service/kube-system/kube-dns` (or `CODE=Kind/NAME`); repeatable. One that
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
