//! One packet on the command line: `--from`, `--to`, `--port`, `--proto`.

use clap::{Args, ValueEnum};
use netlab_core::endpoint_ref::{DestinationRef, EndpointRef, PortRef, ProtocolRef};

/// Who opens what to whom.
#[derive(Debug, Args)]
pub(crate) struct PacketArgs {
    /// Who opens: `[TYPE/][NAMESPACE/]NAME` (pod, deploy, sts, ds, job, svc, node) or an address
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) from: EndpointRef,
    /// To whom, in the same form; its port may stand behind it: `svc/shop/db:5432`, `10.0.0.1:53/udp`
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) to: DestinationRef,
    /// The port on the destination: `5432`, `53/udp` or a container port's name; a Service's own port, where that is
    /// the destination
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<PortRef>,
    /// The protocol: tcp, udp, sctp, icmp or a number
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) proto: Option<ProtocolRef>,
}

/// `--expect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Expected {
    /// The packet passes
    Allow,
    /// The packet is dropped
    Deny,
}
