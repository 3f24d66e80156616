//! `netlab dns lint`.

use std::path::PathBuf;

use clap::Args;

use super::findings::FindingsArgs;

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
    #[command(flatten)]
    pub(crate) findings: FindingsArgs,
}
