//! `netlab policy …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use netlab_core::endpoint_ref::{DestinationRef, EndpointRef, PortRef};

use super::findings::FindingsArgs;
use super::lab::ProxyArg;
use super::packet::{Expected, PacketArgs};
use super::timeout::parse_timeout;
use super::what_if::WhatIfArgs;

/// A question, and the input to which it is put.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    pub(crate) what_if: WhatIfArgs,
    #[command(subcommand)]
    pub(crate) verb: Policy,
}

/// The questions about policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Say what the policies do to one packet, and why
    ///
    /// The answer is computed from the manifests alone, by the function that the kernel program runs too. Exit 0:
    /// allowed; 1: denied; 3: it depends. With `--expect` exit 0 when it is as expected.
    #[command(after_help = "Examples:
  netlab policy eval -f examples/shop --from shop/web --to shop/db --port 5432
  netlab policy eval -f examples/shop -n shop --from web --to api --port http
  netlab policy eval -f examples/shop --from deploy/shop/api --to 192.0.2.7 --proto icmp
  netlab policy eval -f examples/shop --from shop/web --to svc/shop/api --port http
  netlab policy eval -f examples/shop -n shop --from api --to db --port postgres --expect allow -q")]
    Eval(Eval),
    /// Prove what happens to one packet, in this machine's kernel
    ///
    /// Makes private network namespaces for the two ends and their nodes, loads the eBPF program, writes the
    /// compiled tables into its maps, sends the packet and compares what became of it with what was predicted.
    /// Nothing is left behind. Exit 0: proved, or as expected with `--expect`; 1: contradicted, or not as expected;
    /// 3: nothing was sent.
    #[command(after_help = "Examples:
  netlab policy prove -f examples/shop --from shop/api --to shop/db --port 5432
  netlab policy prove -f examples/shop -n shop --from web --to db --port 5432 --expect deny
  netlab policy prove -f examples/shop -n shop --from web --to svc/api --port http --proxy iptables
  netlab policy prove -f examples/shop -n shop --from web --to api --port http -o json")]
    Prove(Prove),
    /// Tell the story of one pod: what policies say about it, in plain words
    ///
    /// For each direction the policies that select the pod, in the order in which they are asked, and what each rule
    /// admits: the ports, and how every peer reads. One element with two selectors is an AND; several elements are an
    /// OR. Behind each peer stands whom it matches now. Then what becomes of the rest, what no policy changes, and
    /// the policies that nearly select the pod.
    #[command(after_help = "Examples:
  netlab policy describe -f examples/shop shop/api
  netlab policy describe -f examples/shop -n shop deploy/api
  netlab policy describe -f examples/tiers red/db
  netlab policy describe -f examples/shop shop/db -o json")]
    Describe(Describe),
    /// List who may talk to whom, on which ports
    ///
    /// For each pair of workloads the ports that the policies of both sides allow: TCP, UDP and SCTP. Pods are
    /// grouped by their controller, and a pair lists what some pod of one may open to some pod of the other.
    /// Addresses outside the cluster are peers too. In the table `*` stands for every workload and `shop/*` for
    /// every one of a namespace; the last line sums up. `-o wide`, csv, md, dot, json and yaml list each pair, `-o svg`
    /// is the table as a picture, and `-o matrix` a truth table: `#` everything, `+` some ports, `.` nothing.
    /// `-n` and `-l` choose pairs by either end; a Service in `--to` stands for the ports of the pods behind it.
    #[command(after_help = "Examples:
  netlab policy connections -f examples/shop --external off
  netlab policy connections -f examples/shop --to shop/db -o wide
  netlab policy connections -f examples/shop --to svc/shop/api
  netlab policy connections -f examples/shop -n monitoring -o csv
  netlab policy connections -f examples/shop --external off -o matrix
  netlab policy connections -f examples/shop --port 53/udp -o dot
  netlab policy connections -f examples/shop --external off -o svg
  netlab policy connections -f examples/shop --external off --exposure
  netlab policy connections -f examples/shop -o json")]
    Connections(Connections),
    /// Say what traffic one set of manifests allows and another does not, and which rule makes the difference
    ///
    /// `+` is a pair that could not talk and can, `-` one that could and cannot, `~` one with other ports; below each
    /// the side and the rule that caused it. Pairs with the same change are folded as in `policy connections`; `-o
    /// wide` lists each. What `-f` names is part of both sides, as a cluster's pods and namespaces may be. `--with` and
    /// `--without` change AFTER alone, which then need not be named: it is the same as BEFORE, or as `-f`. Exit 0:
    /// nothing changed; 1: something did, or what `--fail-on` asks for.
    #[command(after_help = "Examples:
  netlab policy diff examples/edit/old examples/edit/new -f examples/edit/pods.yaml
  netlab policy diff examples/edit/old examples/edit/new -f examples/edit/pods.yaml -o md
  netlab policy diff examples/edit/old examples/edit/new -f examples/edit/pods.yaml --fail-on added
  netlab policy diff -f examples/shop --without NetworkPolicy/shop/db
  netlab policy diff examples/edit/old examples/edit/new -f examples/edit/pods.yaml -n shop -o json")]
    Diff(Diff),
    /// Find what is probably not meant: mistakes that the API accepts
    ///
    /// Each finding has a code (`netlab explain CODE` says why it matters and shows the mistake mended), a place, what
    /// follows from it, what to do, and how much it touches. What the input itself says about fields is among them.
    /// Notes are about other readings: what some network plugins treat differently, or what the input does not show.
    /// `-o sarif` is for code scanning, `-o md` for reviews; `-o wide` adds why each kind of finding matters.
    /// Exit 0: nothing of the `--fail-on` level; 1: something is; 2: some object cannot be used.
    #[command(after_help = "Examples:
  netlab policy lint -f examples/shop
  netlab policy lint -f examples/clean
  netlab policy lint -f examples/shop --suppress NL0301=NetworkPolicy/shop/cache
  netlab policy lint -f examples/shop --severity warning --fail-on error -o wide
  netlab policy lint -f examples/shop -o sarif")]
    Lint(FindingsArgs),
    /// Try claims: who may open what to whom, and who may not
    ///
    /// A file of claims is a list below `claims:`, each with `from`, `to`, `port`, `expect: allow` or `deny`, and
    /// perhaps `by: NetworkPolicy shop/db` (who is to decide), `protocol: icmp` or a `name`. Files of netassert are
    /// read too. `--record` writes a file of claims that hold now, to be cut to what is meant. Exit 0: all claims hold;
    /// 1: one does not; 3: one cannot be told.
    #[command(after_help = "Examples:
  netlab policy test -f examples/shop examples/claims/shop.yaml
  netlab policy test -f examples/shop examples/claims/shop.yaml -o tap
  netlab policy test -f examples/shop examples/claims/shop.yaml -o junit --without netpol/shop/db
  netlab policy test -f examples/shop examples/claims/netassert.yaml --kernel
  netlab policy test -f examples/shop --record --external off")]
    Test(Test),
    /// Print the tables that the policies compile to
    ///
    /// One line for each ruleset (pods that are under the same rules); `-o wide` adds every entry with the rule
    /// that put it there. `-n` and `-l` choose the pods to show.
    #[command(after_help = "Examples:
  netlab policy compile -f examples/shop
  netlab policy compile -f examples/shop -l app=db -o wide
  netlab policy compile -f examples/shop -o json")]
    Compile,
}

/// `policy eval`.
#[derive(Debug, Args)]
pub(crate) struct Eval {
    #[command(flatten)]
    pub(crate) packet: PacketArgs,
    /// What you expect; the exit code then says whether it is so
    #[arg(long, value_name = "VERDICT")]
    pub(crate) expect: Option<Expected>,
}

/// `policy connections`.
#[derive(Debug, Args)]
pub(crate) struct Connections {
    /// Only what this one opens: `[TYPE/][NAMESPACE/]NAME` or an address
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) from: Option<EndpointRef>,
    /// Only what is opened to this one, in the same form; its port may stand behind it: `svc/shop/db:5432`
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) to: Option<DestinationRef>,
    /// Only this port: `5432` or `53/udp`; a Service's own port, where `--to` names one
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<PortRef>,
    /// Whether addresses outside the cluster are listed
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub(crate) external: Switch,
    /// Also list what pods that do not exist yet could open and be opened: any other pod, and one for each selector
    /// that no pod matches; and which workloads are under no policy
    #[arg(long)]
    pub(crate) exposure: bool,
    /// Whether pods that have finished and that nothing follows (of a Job, or of nobody) count as if they ran
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub(crate) finished: Switch,
    /// How to read policies about pods on the host's network, which the API leaves open
    #[arg(long, value_name = "READING", default_value = "pods")]
    pub(crate) host_network: HostNetworkArg,
}

/// `policy describe`.
#[derive(Debug, Args)]
pub(crate) struct Describe {
    /// Which: `[TYPE/][NAMESPACE/]NAME` (pod, deploy, sts, ds, job)
    #[arg(value_name = "ENDPOINT")]
    pub(crate) subject: EndpointRef,
}

/// `policy diff`.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Manifests as they were: a file or a directory
    #[arg(required_unless_present_any = ["with", "without"])]
    pub(crate) before: Option<PathBuf>,
    /// Manifests as they are to be
    #[arg(required_unless_present_any = ["with", "without"])]
    pub(crate) after: Option<PathBuf>,
    /// Which changes make the exit code 1
    #[arg(long, value_name = "CHANGE", default_value = "any")]
    pub(crate) fail_on: FailOn,
    /// Where links to files begin with `-o md`, as in `https://github.com/OWNER/NAME/blob/COMMIT`
    #[arg(long, value_name = "URL")]
    pub(crate) link_base: Option<String>,
    /// Whether addresses outside the cluster are compared
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub(crate) external: Switch,
    /// Whether pods that have finished and that nothing follows (of a Job, or of nobody) count as if they ran
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub(crate) finished: Switch,
    /// How to read policies about pods on the host's network, which the API leaves open
    #[arg(long, value_name = "READING", default_value = "pods")]
    pub(crate) host_network: HostNetworkArg,
}

/// `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Traffic is allowed that was not
    Added,
    /// Traffic was allowed that is not any more
    Removed,
    /// Either
    Any,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// They are
    On,
    /// They are not
    Off,
}

/// `--host-network`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostNetworkArg {
    /// As about any other pod
    Pods,
    /// Such a pod is its node: what `eval`, `prove` and most network plugins do
    Nodes,
}

/// `policy test`.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Files of claims; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "record")]
    pub(crate) claims: Vec<PathBuf>,
    /// Send every claim's packets in this machine's kernel, each in an ephemeral lab of its own
    #[arg(long)]
    pub(crate) kernel: bool,
    /// Which datapath to ask with `--kernel`
    #[arg(long, value_name = "BACKEND", default_value = "auto", requires = "kernel")]
    pub(crate) backend: BackendArg,
    /// Write claims that hold now instead, one for each pair and side of a port's edge
    #[arg(long, conflicts_with_all = ["claims", "kernel"])]
    pub(crate) record: bool,
    /// Whether `--record` writes claims about addresses outside the cluster
    #[arg(long, value_name = "WHEN", default_value = "on", requires = "record")]
    pub(crate) external: Switch,
}

/// `policy prove`.
#[derive(Debug, Args)]
pub(crate) struct Prove {
    #[command(flatten)]
    pub(crate) packet: PacketArgs,
    /// What you expect; the exit code then says whether it is so
    #[arg(long, value_name = "VERDICT")]
    pub(crate) expect: Option<Expected>,
    /// Which datapath to ask
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    pub(crate) backend: BackendArg,
    /// How the nodes are to lead from a Service to its endpoints
    #[arg(long, value_name = "MODE", default_value = "nftables")]
    pub(crate) proxy: ProxyArg,
    /// Be content with what the tables say where no kernel can be asked
    #[arg(long)]
    pub(crate) allow_simulated: bool,
    /// Keep the namespaces and maps after the answer, for this long or until Enter (or a signal), so that the
    /// printed `bpftool` command works
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, value_parser = parse_timeout)]
    #[expect(
        clippy::option_option,
        reason = "absent, given, and given with a duration are three cases to clap"
    )]
    pub(crate) hold: Option<Option<Duration>>,
}

/// `--backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// The best that this machine allows
    Auto,
    /// The eBPF program
    Tc,
    /// nftables: the same tables in another datapath; without root in a user namespace
    Nft,
    /// No kernel at all
    None,
}
