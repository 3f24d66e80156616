//! `netlab policy …`.

use clap::{Args, Subcommand};

use super::packet::{Expected, PacketArgs};

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
  netlab policy eval -f examples/shop -n shop --from api --to db --port postgres --expect allow -q")]
    Eval(Eval),
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
