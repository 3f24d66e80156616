//! `NetworkPolicyPort`: protocols, numbers, ranges and names.

use super::IpProtocol;
use crate::input::wire::core_v1::Pod;
use crate::input::wire::network_policy::{IntOrString, Port};

/// Lowest port number that an object can name (`NetworkPolicyPort.port`, `ContainerPort.containerPort`).
const FIRST: i64 = 1;
/// Highest one.
const LAST: i64 = 65535;

/// The spelling in the API; `None` for protocols that a policy cannot name.
pub(super) fn api_name(protocol: IpProtocol) -> Option<&'static str> {
    match protocol {
        IpProtocol::Tcp | IpProtocol::Other(6) => Some("TCP"),
        IpProtocol::Udp | IpProtocol::Other(17) => Some("UDP"),
        IpProtocol::Sctp | IpProtocol::Other(132) => Some("SCTP"),
        IpProtocol::Icmp | IpProtocol::Other(_) => None,
    }
}

/// `NetworkPolicyPort.protocol` and `ContainerPort.protocol`: "defaults to TCP".
fn protocol_or_default(protocol: Option<&String>) -> &str {
    protocol.map_or("TCP", String::as_str)
}

/// True when an element of `ports` matches the protocol and destination port. `named_on` is the pod whose
/// container ports give a name its meaning: the receiver of the connection, if that is a pod.
///
/// An element always has a protocol, so ICMP and others match none.
pub(super) fn matches(port: &Port, protocol: IpProtocol, number: u16, named_on: Option<&Pod>) -> bool {
    if !port.unknown.is_empty() || api_name(protocol) != Some(protocol_or_default(port.protocol.as_ref())) {
        return false;
    }
    let number = i64::from(number);
    match (&port.port, port.end_port) {
        // `port` absent: every port of the protocol.
        (None, None) => true,
        (Some(IntOrString::Int(only)), None) => (FIRST..=LAST).contains(only) && number == *only,
        // `endPort`: the last port of a range that starts at `port`.
        (Some(IntOrString::Int(first)), Some(last)) => {
            (FIRST..=LAST).contains(first) && last <= LAST && (*first..=last).contains(&number)
        }
        (Some(IntOrString::String(name)), None) => {
            named_on.is_some_and(|pod| has_named_port(pod, name, protocol, number))
        }
        // `endPort` needs a numeric `port`.
        (None | Some(IntOrString::String(_)), Some(_)) => false,
    }
}

/// True when a container of the pod declares this number under this name for this protocol. A name may be
/// declared several times, by several containers or for several protocols: each declaration counts.
pub(super) fn has_named_port(pod: &Pod, name: &str, protocol: IpProtocol, number: i64) -> bool {
    let sidecar = |container: &&crate::input::wire::core_v1::Container| {
        container.restart_policy.as_deref() == Some("Always")
    };
    // Sidecars are declared among the init containers, and run as long as the others.
    let containers = pod.spec.iter().flat_map(|spec| {
        let init = spec.init_containers.iter().flatten().filter(sidecar);
        spec.containers.iter().flatten().chain(init)
    });
    containers.flat_map(|container| container.ports.iter().flatten()).any(|declared| {
        declared.name.as_deref() == Some(name)
            && Some(protocol_or_default(declared.protocol.as_ref())) == api_name(protocol)
            && (FIRST..=LAST).contains(&declared.container_port)
            && declared.container_port == number
    })
}
