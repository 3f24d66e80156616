//! `netlab dns …`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use netlab_dnsdiag::resolver::{self, Libc};

use super::dns_lint::Lint;

/// The questions about DNS.
#[derive(Debug, Subcommand)]
pub(crate) enum Dns {
    /// Say whether it was DNS, with the evidence
    ///
    /// Walks from the pod's resolv.conf over the cluster's DNS Service, its endpoints, the node's proxy and policy to what
    /// servers answer, and gives one verdict with what speaks for it, what was not examined and what to do. The evidence is a
    /// bundle (`--bundle`), or is gathered from the pod's own place in the network, as root: `--lab`, `--pid`, `--netns`, or
    /// without any of them a pod of this node, found by its UID. `-f` gives what only the API knows. At most 50 questions are
    /// sent, nothing is changed, and Ctrl-C prints what is known. Exit 0: healthy; 1: a cause was found; 3: undetermined.
    #[command(after_help = "Examples:
  netlab dns diagnose --bundle examples/dns-bundle
  netlab dns diagnose --bundle examples/dns-bundle --expect F01 -o json")]
    Diagnose(Diagnose),
    /// List the checks of a diagnosis: what each finds out, needs and costs
    #[command(after_help = "Examples:
  netlab dns checks
  netlab dns checks -o json")]
    Checks,
    /// Say which queries a library sends for a name, and what comes of them
    ///
    /// Nothing is sent. The libraries' own rules are walked through: which names, in which order, to which server, over
    /// what, how long each wait is. Where several answers race, every outcome that can happen is listed. Exit 0: the name
    /// resolves; 1: it does not; 3: it depends on who is faster.
    #[command(after_help = "Examples:
  netlab dns plan www.example.com --resolv-conf examples/dns/pod.conf
  netlab dns plan api --resolv-conf examples/dns/pod.conf --libc musl:1.2.3
  netlab dns plan api --resolv-conf examples/dns/pod.conf --server examples/dns/aaaa.json --compare
  netlab dns plan www.example.com --resolv-conf examples/dns/pod.conf --libc go -o json")]
    Plan(Plan),
    /// Find mistakes in the configuration of a cluster's DNS
    ///
    /// Corefile, kubelet configuration, a node's resolv.conf and manifests are read as those who use them do, each by
    /// itself and against the others: what keeps the server from starting, what makes names vanish, what leaves pods
    /// without a server. A config map among the manifests that has a `Corefile`, or kubeadm's `kubelet`, counts as such a
    /// file. What was not given is told as not examined. Exit 0: nothing found that `--fail-on` names; 1: something
    /// found; 2: a file cannot be read.
    #[command(after_help = "Examples:
  netlab dns lint -f examples/dns/broken --kubelet-config examples/dns/kubelet.yaml
  netlab dns lint --corefile examples/dns/Corefile --resolv-conf examples/dns/node-resolv.conf
  netlab dns lint -f examples/dns/clean -o sarif")]
    Lint(Lint),
    /// Send one raw question and show all that is seen of it
    ///
    /// No search list, no hosts file, no second try: one message goes to one server, and what comes back is shown with
    /// its flags, or else the error, the ICMP message behind it, and the address of the hop that sent it. Exit 0: the
    /// server answered, whatever it said; 1: it did not. `--timeout` is how long to wait (2 s), for TCP to connect and
    /// again to answer.
    #[command(after_help = "Examples:
  netlab dns query example.com --server 127.0.0.1:5399
  netlab dns query kubernetes.default --server 127.0.0.1:5399 --tcp --type AAAA -o json")]
    Query(Query),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("place").args(["bundle", "lab", "pid", "netns"])))]
pub(crate) struct Diagnose {
    /// The pod, `[pod/][NAMESPACE/]NAME` (a bundle knows its own), and the names that it looks up
    #[arg(value_name = "[POD] NAME")]
    pub(crate) words: Vec<String>,
    /// Recorded evidence: a directory with a `bundle.json`
    #[arg(long, value_name = "DIR")]
    pub(crate) bundle: Option<PathBuf>,
    /// Gather in a lab that was brought up with `lab up --dns`
    #[arg(long, value_name = "NAME")]
    pub(crate) lab: Option<String>,
    /// Gather from the container of this process, on this node
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Gather from this network namespace; nothing is known of the container's files then but what is given
    #[arg(long, value_name = "PATH")]
    pub(crate) netns: Option<PathBuf>,
    /// The host network namespace of the pod's node: a process number or a file; that of process 1 when the pod is one of this
    /// node's
    #[arg(long, value_name = "PID|PATH", conflicts_with_all = ["bundle", "lab"])]
    pub(crate) node_netns: Option<String>,
    /// The pod's resolv.conf, where it cannot be read from the container
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    pub(crate) resolv_conf: Option<PathBuf>,
    /// The kubelet's configuration of the pod's node
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    pub(crate) kubelet_config: Option<PathBuf>,
    /// The DNS servers' Corefile
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    pub(crate) corefile: Option<PathBuf>,
    /// The container's resolver, as in `glibc:2.36` or `musl:1.2.5`; told from the process when it can be
    #[arg(long, value_name = "LIBC", conflicts_with = "bundle")]
    pub(crate) libc: Option<String>,
    /// Try a connection, too: to this TCP port of what the names resolve to; nothing is sent on it
    #[arg(long, value_name = "PORT", conflicts_with = "bundle", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connect: Option<u16>,
    /// Write what was gathered as a bundle, into a directory that is empty or not there
    #[arg(long, value_name = "DIR", conflicts_with = "bundle")]
    pub(crate) record: Option<PathBuf>,
    /// What it should be: a mode (`F01`), an id (`POLICY-EGRESS-DENY`), a class (`not-dns`) or `healthy`; exit 0 if it is so
    #[arg(long, value_name = "VERDICT")]
    pub(crate) expect: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The name as the program has it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The file that the program's library reads; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) resolv_conf: PathBuf,
    /// Whose resolver: `glibc`, `musl` or `go`, with a release if it is not 2.36, 1.2.5 or 1.26
    #[arg(long, value_name = "LIBC[:VERSION]", value_delimiter = ',', default_value = "glibc")]
    pub(crate) libc: Vec<Libc>,
    /// What each server answers: a script as `docs/dns.md` describes it; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,
    /// Which addresses the program wants
    #[arg(long, value_name = "FAMILY", default_value = "unspec")]
    pub(crate) family: Family,
    /// Show libraries side by side (all of them when `--libc` names one), and why they differ
    #[arg(long)]
    pub(crate) compare: bool,
}

/// `--family`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Family {
    /// IPv4 and IPv6
    Unspec,
    /// IPv4
    Inet,
    /// IPv6
    Inet6,
}

impl From<Family> for resolver::Family {
    fn from(family: Family) -> Self {
        match family {
            Family::Unspec => Self::Unspec,
            Family::Inet => Self::Inet,
            Family::Inet6 => Self::Inet6,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Query {
    /// The whole name; no search domain is added to it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Who is asked; the port is 53 if none is given
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = parse_server)]
    pub(crate) server: SocketAddr,
    /// The record type
    #[arg(long = "type", value_name = "TYPE", default_value = "A")]
    pub(crate) record: String,
    /// Ask over TCP
    #[arg(long)]
    pub(crate) tcp: bool,
    /// Listen on an unconnected socket, which hears replies from addresses that were not asked
    #[arg(long, conflicts_with = "tcp")]
    pub(crate) from_any: bool,
    /// Offer this answer size by EDNS; without it none is sent
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(512..))]
    pub(crate) edns: Option<u16>,
    /// The local port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) source_port: Option<u16>,
    /// Ask from this network namespace: a process number, or a file such as `/run/netns/NAME`
    #[arg(long, value_name = "PID|PATH")]
    pub(crate) netns: Option<String>,
}

/// An address with or without a port.
fn parse_server(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53)).or_else(|_| text.parse()).map_err(
        |_| "a server is an address, as in `10.96.0.10`, `10.96.0.10:53` or `[fd00::a]:53`".to_owned(),
    )
}
