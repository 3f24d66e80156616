//! `netlab service …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use netlab_core::endpoint_ref::{DestinationRef, EndpointRef};

/// The questions about Services.
#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// Say which endpoints of a Service a node's proxy uses, and why
    ///
    /// For each port of the Service: the endpoints that traffic to anywhere may get (CLUSTER), those of the node
    /// itself where a policy is Local (LOCAL), how many the node's rules hold, and whether hints narrowed them. The
    /// model is kube-proxy's. Without endpoint slices in the input those that the controller would write are
    /// predicted from the pods. Exit 0: every address of the Service answers on these nodes; 1: some packets would be
    /// refused or dropped.
    #[command(after_help = "Examples:
  netlab service endpoints -f examples/service-prediction mynet/web --node worker
  netlab service endpoints -f examples/service-prediction mynet/web-local --all-nodes
  netlab service endpoints -f examples/service-prediction mynet/web --slices --per-slice 5
  netlab service endpoints -f examples/service-prediction mynet/web-outside --node worker -o json")]
    Endpoints(Endpoints),
    /// Follow packets to a Service through a node's own rules, and find what is broken
    ///
    /// What the proxy should have programmed is computed from the manifests and compared, by meaning, with the rules
    /// that a node has: each missing, extra or wrong rule is named, with the share of new connections that fails of it
    /// and how. With --compare the Service is shown under iptables, nftables and Cilium's eBPF maps side by side, and
    /// what a first packet costs under each; a proxy whose rules are not given is predicted, and said to be. Exit 0: the
    /// rules are as they should be; 1: they are not.
    ///
    /// Rules are asked for first packets only: with --conntrack, connections of UDP are named that still lead to what is
    /// no endpoint any more.
    #[command(after_help = "Examples:
  netlab service trace -f examples/broken mynet/web --iptables-save examples/broken/ok.save
  netlab service trace -f examples/broken mynet/web:http --iptables-save examples/broken/node.save
  netlab service trace -f examples/broken mynet/web --cilium examples/broken/cilium
  netlab service trace -f examples/stale kube-system/kube-dns --conntrack examples/stale/flows.txt
  netlab service trace -f examples/broken mynet/web --compare --cilium examples/broken/cilium")]
    Trace(Trace),
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The Service and, if wanted, its port by name or number: `[svc/][NAMESPACE/]NAME[:PORT[/PROTOCOL]]`
    #[arg(value_name = "SERVICE[:PORT]")]
    pub(crate) service: DestinationRef,
    /// The node's rules, as `iptables-save` (or `ip6tables-save`) prints them; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) iptables_save: Option<PathBuf>,
    /// The node's rules, as `nft -j list table ip kube-proxy` (or `ip6`) prints them; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) nft: Option<PathBuf>,
    /// A map of Cilium's, as `bpftool -j map dump pinned …/cilium_lb4_services_v2` prints it, or a directory of such
    /// files; give `services_v2`, `backends_v3` and `reverse_nat`
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) cilium: Vec<PathBuf>,
    /// Read the rules, and the connections of UDP, from a node's network namespace: of this process, or of a file
    /// (`/proc/PID/ns/net`, `/run/netns/NAME`) or process that is named; needs root, changes nothing
    #[arg(long, value_name = "PATH|PID", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the option alone means this process's own namespace")]
    pub(crate) node_netns: Option<Option<String>>,
    /// The kernel's connections, as `/proc/net/nf_conntrack` has them or `conntrack -L` prints them, `-o extended` and
    /// `-o xml` too; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) conntrack: Option<PathBuf>,
    /// Show the Service under every kind of proxy side by side; what is not given is predicted
    #[arg(long)]
    pub(crate) compare: bool,
    /// The node that has these rules; needed where nodes differ
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Endpoints {
    /// The Service: `[svc/][NAMESPACE/]NAME`
    #[arg(value_name = "SERVICE")]
    pub(crate) service: EndpointRef,
    /// Ask this node's proxy
    #[arg(long, value_name = "NODE", conflicts_with = "all_nodes")]
    pub(crate) node: Option<String>,
    /// Ask every node's proxy, which is what is done without `--node`
    #[arg(long)]
    pub(crate) all_nodes: bool,
    /// Show the endpoint slices, where the next endpoint goes, and what a change costs on the wire
    #[arg(long)]
    pub(crate) slices: bool,
    /// The controller's `--max-endpoints-per-slice`, for slices that are predicted
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) per_slice: u16,
}
