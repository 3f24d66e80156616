//! `netlab dns …`.

use std::net::{IpAddr, SocketAddr};

use clap::{Args, Subcommand};

/// The questions about DNS.
#[derive(Debug, Subcommand)]
pub(crate) enum Dns {
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
