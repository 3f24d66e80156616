//! One packet on the command line: `--from`, `--to`, `--port`, `--proto`.

use clap::{Args, ValueEnum};
use netlab_core::model::port::Protocol;

/// Who opens what to whom.
#[derive(Debug, Args)]
pub(crate) struct PacketArgs {
    /// Who opens: `[TYPE/][NAMESPACE/]NAME` (pod, deploy, sts, ds, job, node) or an address
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) from: String,
    /// To whom, in the same form
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) to: String,
    /// The port on the destination: `5432`, `53/udp` or a container port's name
    #[arg(long, value_name = "PORT", value_parser = parse_port)]
    pub(crate) port: Option<PortArg>,
    /// The protocol: tcp, udp, sctp, icmp or a number
    #[arg(long, value_name = "PROTOCOL", value_parser = parse_protocol)]
    pub(crate) proto: Option<ProtocolArg>,
}

/// `--expect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Expected {
    /// The packet passes
    Allow,
    /// The packet is dropped
    Deny,
}

/// `--port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortArg {
    /// A number or a name.
    pub(crate) port: PortId,
    /// What stands after the slash.
    pub(crate) protocol: Option<Protocol>,
}

/// A port by number or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortId {
    /// `5432`.
    Number(u16),
    /// `http`.
    Name(String),
}

/// `--proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolArg {
    /// One that has ports.
    Ports(Protocol),
    /// ICMP or ICMPv6, by the addresses' family.
    Icmp,
    /// Any other, by number.
    Number(u8),
}

fn parse_transport(text: &str) -> Option<Protocol> {
    Protocol::ALL.into_iter().find(|protocol| protocol.lower() == text.to_ascii_lowercase())
}

fn parse_port(text: &str) -> Result<PortArg, String> {
    let (port, protocol) = match text.split_once('/') {
        None => (text, None),
        Some((port, protocol)) => {
            let known = parse_transport(protocol)
                .ok_or_else(|| format!("`{protocol}` has no ports: use tcp, udp or sctp"))?;
            (port, Some(known))
        }
    };
    let port = if port.chars().all(|c| c.is_ascii_digit()) {
        match port.parse() {
            Ok(0) | Err(_) => return Err(format!("`{port}` is no port: use 1 to 65535, as in `5432/tcp`")),
            Ok(number) => PortId::Number(number),
        }
    } else if port.len() <= 15
        && port.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && port.chars().any(|c| c.is_ascii_lowercase())
    {
        PortId::Name(port.to_owned())
    } else {
        return Err(format!("`{port}` is neither a port number nor a container port's name"));
    };
    Ok(PortArg { port, protocol })
}

fn parse_protocol(text: &str) -> Result<ProtocolArg, String> {
    if let Some(protocol) = parse_transport(text) {
        return Ok(ProtocolArg::Ports(protocol));
    }
    match text.to_ascii_lowercase().as_str() {
        "icmp" | "icmpv6" | "1" | "58" => Ok(ProtocolArg::Icmp),
        "6" => Ok(ProtocolArg::Ports(Protocol::Tcp)),
        "17" => Ok(ProtocolArg::Ports(Protocol::Udp)),
        "132" => Ok(ProtocolArg::Ports(Protocol::Sctp)),
        number => number
            .parse()
            .map(ProtocolArg::Number)
            .map_err(|_| format!("`{text}` is no protocol: use tcp, udp, sctp, icmp or a number up to 255")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports() {
        let port = |port, protocol| Ok(PortArg { port, protocol });
        assert_eq!(parse_port("5432"), port(PortId::Number(5432), None));
        assert_eq!(parse_port("53/UDP"), port(PortId::Number(53), Some(Protocol::Udp)));
        assert_eq!(parse_port("http-alt/tcp"), port(PortId::Name("http-alt".into()), Some(Protocol::Tcp)));
        for wrong in ["0", "65536", "53/icmp", "", "80-", "HTTP", "a b", "80/tcp/x"] {
            assert!(parse_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn protocols() {
        assert_eq!(parse_protocol("17"), Ok(ProtocolArg::Ports(Protocol::Udp)));
        assert_eq!(parse_protocol("icmp"), Ok(ProtocolArg::Icmp));
        assert_eq!(parse_protocol("47"), Ok(ProtocolArg::Number(47)));
        assert!(parse_protocol("256").is_err() && parse_protocol("gre").is_err());
    }
}
