//! `netlab lab …`.

use clap::{Args, Subcommand, ValueEnum};
use netlab_core::service::nftables::Layout;
use netlab_lab::proxy::ProxyMode;

/// Labs with names.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Build the cluster as network namespaces, with the policies enforced
    ///
    /// The lab is held by a process of its own and lives until `netlab lab down`. It has no names on the host, no
    /// links outside its own namespaces and nothing pinned: should that process die, everything is gone with it.
    #[command(after_help = "Examples:
  netlab lab up -f examples/shop
  netlab lab up -f examples/shop --lab second
  netlab lab up -f examples/service-prediction --lab proxied --proxy nftables
  netlab lab up -f examples/shop --lab names --dns
  netlab lab up -f examples/shop --print")]
    Up(Up),
    /// Run a command in a pod, on a node or in the fabric between them
    #[command(after_help = "Examples:
  netlab lab exec shop/web -- ip -brief address
  netlab lab exec node/node-1 -- ip -brief link
  netlab lab exec --lab second shop/api -- cat /proc/net/tcp
  netlab lab exec --lab names shop/web -- getent ahostsv4 api")]
    Exec(Exec),
    /// Break a lab that has DNS, to find out what that looks like
    ///
    /// A fault is put in and stays until it is mended; several may be in at once. What is printed is what somebody sees who
    /// does not know the cause; `-v` tells that, too. Nothing outside of the lab is touched.
    #[command(after_help = "Examples:
  netlab lab break --list
  netlab lab break --lab names dns-policy
  netlab lab break --lab names wrong-cluster-ip -v
  netlab lab break --lab names host-alias --pod shop/db")]
    Break(Break),
    /// Take faults out again
    #[command(after_help = "Examples:
  netlab lab mend --lab names dns-policy
  netlab lab mend --lab names --all")]
    Mend(Mend),
    /// Try the four ways by which containers talk: in a pod, on a node, across nodes, through a Service
    ///
    /// Real connections between pods of the lab, as far as its policies admit them. Of one that does not come about it is told
    /// which rule counted its packets, where a route or a neighbour is lacking, and what is wrong with the proxy's rules. Exit
    /// 0: all four work; 1: one does not; 3: one could not be tried.
    #[command(after_help = "Examples:
  netlab lab paths --lab names
  netlab lab paths --lab names -o json")]
    Paths(LabName),
    /// List the labs that are up, and who lives in them
    #[command(after_help = "Examples:\n  netlab lab status\n  netlab lab status --lab second -o json")]
    Status(Which),
    /// Take a lab down
    #[command(after_help = "Examples:
  netlab lab down
  netlab lab down --lab second
  netlab lab down --lab proxied
  netlab lab down --lab names")]
    Down(LabName),
}

/// `lab up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The lab's name
    #[arg(long = "lab", alias = "name", value_name = "NAME", default_value = "lab")]
    pub(crate) name: String,
    /// Build nothing; print the commands that a person would type to build the same
    #[arg(long)]
    pub(crate) print: bool,
    /// Only these nodes and their pods; may be repeated
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Vec<String>,
    /// Enforce nothing yet: `netlab enforce attach` does it later
    #[arg(long)]
    pub(crate) open: bool,
    /// Give each node the rules by which pods reach the manifests' Services, in the shape of kube-proxy's
    #[arg(long, value_name = "MODE")]
    pub(crate) proxy: Option<ProxyArg>,
    /// Give the lab DNS: servers in the DNS pods, a zone of what the manifests' Services imply, `resolv.conf` per pod. What
    /// the manifests lack for it is added, the proxy's rules (nftables) too
    #[arg(long)]
    pub(crate) dns: bool,
}

/// How a lab's nodes lead from Services to their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyArg {
    /// As kube-proxy's nftables mode does, since 1.36
    Nftables,
    /// As its iptables mode does
    Iptables,
}

impl From<ProxyArg> for ProxyMode {
    fn from(mode: ProxyArg) -> Self {
        match mode {
            ProxyArg::Nftables => Self::Nftables(Layout::Maps),
            ProxyArg::Iptables => Self::Iptables,
        }
    }
}

/// `lab exec`.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) lab: LabName,
    /// Where: `[pod/][NAMESPACE/]NAME`, `node/NAME` or `fabric`
    #[arg(value_name = "PLACE")]
    pub(crate) place: String,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// `lab break`.
#[derive(Debug, Args)]
pub(crate) struct Break {
    #[command(flatten)]
    pub(crate) lab: LabName,
    /// The fault; without one, all are listed
    #[arg(value_name = "FAULT")]
    pub(crate) fault: Option<String>,
    /// List every fault: what is done, and what would be seen
    #[arg(long)]
    pub(crate) list: bool,
    /// The pod that asks; otherwise the first that has a Service to ask for
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) pod: Option<String>,
}

/// `lab mend`.
#[derive(Debug, Args)]
pub(crate) struct Mend {
    #[command(flatten)]
    pub(crate) lab: LabName,
    /// The fault; may be left out when there is only one
    #[arg(value_name = "FAULT", conflicts_with = "all")]
    pub(crate) fault: Option<String>,
    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
}

/// Which lab.
#[derive(Debug, Args)]
pub(crate) struct LabName {
    /// The lab's name
    #[arg(long, alias = "name", value_name = "NAME", default_value = "lab")]
    pub(crate) lab: String,
}

/// Which lab, or all.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Only this lab
    #[arg(long, alias = "name", value_name = "NAME")]
    pub(crate) lab: Option<String>,
}
