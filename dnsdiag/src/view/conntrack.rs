//! Connection tracking entries, as `conntrack -L` prints them.
//!
//! Invariant: a line that is not understood is left out; every entry keeps the line where it stands. Format:
//! `conntrack-tools` `src/conntrack.c`, one entry a line, the original tuple before the reply tuple.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::View;
use crate::bundle::layout;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `udp` or `tcp`.
    pub protocol: String,
    /// Seconds until it goes.
    pub timeout: Option<u64>,
    /// The original direction.
    pub original: Tuple,
    /// The direction of replies.
    pub reply: Tuple,
    /// `[UNREPLIED]`.
    pub unreplied: bool,
    /// The line, from 1.
    pub line: usize,
}

/// One direction of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// `src`.
    pub source: IpAddr,
    /// `dst`.
    pub destination: IpAddr,
    /// `sport`.
    pub source_port: u16,
    /// `dport`.
    pub destination_port: u16,
}

impl View<'_> {
    /// The entries of the pod's node; `None` when they were not recorded.
    #[must_use]
    pub fn conntrack(&self) -> Option<Vec<Flow>> {
        let text = self.text(layout::NODE_CONNTRACK)?;
        Some(text.lines().enumerate().filter_map(|(number, line)| flow(number + 1, line)).collect())
    }

    /// True unless the pod's sockets were recorded and none has the port from which the flow comes: then its entry is what a
    /// lookup that is over has left, and leads nobody astray.
    #[must_use]
    pub fn may_go_on(&self, flow: &Flow) -> bool {
        self.text(layout::POD_SOCKETS)
            .is_none_or(|sockets| local_ports(sockets).contains(&flow.original.source_port))
    }
}

impl View<'_> {
    /// True when the pod's sockets were recorded and one has this port.
    #[must_use]
    pub fn has_socket(&self, port: u16) -> bool {
        self.text(layout::POD_SOCKETS).is_some_and(|sockets| local_ports(sockets).contains(&port))
    }
}

/// Local ports of the sockets in `/proc/net/udp` and `udp6` (`net/ipv4/udp.c`: `sl local_address rem_address st …`, port in
/// hexadecimal after the last colon).
fn local_ports(text: &str) -> BTreeSet<u16> {
    let local = |line: &str| {
        let address = line.split_ascii_whitespace().nth(1)?;
        u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok()
    };
    text.lines().filter_map(local).collect()
}

/// The id of a line: `node/conntrack` (facts are whole files), told in words as `node/conntrack:3`.
#[must_use]
pub fn place(flow: &Flow) -> String {
    format!("{}:{}", layout::NODE_CONNTRACK, flow.line)
}

fn flow(line: usize, text: &str) -> Option<Flow> {
    let mut words =
        text.split_ascii_whitespace().skip_while(|word| matches!(*word, "ipv4" | "ipv6" | "2" | "10"));
    let protocol = words.next()?.to_owned();
    let rest: Vec<&str> = words.collect();
    let timeout = rest.get(1).and_then(|word| word.parse().ok());
    let mut tuples = Vec::new();
    let mut current: [Option<&str>; 4] = [None; 4];
    for word in &rest {
        let Some((key, value)) = word.split_once('=') else { continue };
        let place = match key {
            "src" => 0,
            "dst" => 1,
            "sport" => 2,
            "dport" => 3,
            _ => continue,
        };
        current[place] = Some(value);
        if let [Some(source), Some(destination), Some(source_port), Some(destination_port)] = current {
            tuples.push(Tuple {
                source: source.parse().ok()?,
                destination: destination.parse().ok()?,
                source_port: source_port.parse().ok()?,
                destination_port: destination_port.parse().ok()?,
            });
            current = [None; 4];
        }
    }
    let [original, reply] = tuples.as_slice() else { return None };
    Some(Flow {
        protocol,
        timeout,
        original: *original,
        reply: *reply,
        unreplied: rest.contains(&"[UNREPLIED]"),
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_their_local_port() {
        let text = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n \
                    512: 00000000:9C75 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 0\n  \
                    sl  local_address                         remote_address                        st\n \
                    513: 00000000000000000000000000000000:0035 00000000000000000000000000000000:0000 07\n";
        assert_eq!(local_ports(text), BTreeSet::from([40_053, 53]));
    }

    #[test]
    fn an_entry_has_two_tuples() {
        let line = "udp      17 29 src=10.244.1.7 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] \
                    src=10.244.9.9 dst=10.244.1.7 sport=53 dport=40000 mark=0 use=1";
        let found = flow(3, line).expect("an entry");
        assert!(found.unreplied);
        assert_eq!(found.timeout, Some(29));
        assert_eq!(found.original.destination_port, 53);
        assert_eq!(found.reply.source.to_string(), "10.244.9.9");
        assert_eq!(place(&found), "node/conntrack:3");
        let long = "ipv4     2 tcp      6 431999 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 \
                    src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 [ASSURED] mark=0";
        assert_eq!(flow(1, long).expect("an entry").protocol, "tcp");
        assert_eq!(flow(1, "conntrack v1.4.7: 2 flow entries have been shown."), None);
    }
}
