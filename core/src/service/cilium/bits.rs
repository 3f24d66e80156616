//! The bits of a frontend's row in Cilium's service maps: what kind of address it is and which policies it has.
//!
//! Invariant: [`of`] is what is expected, and bits that depend on Cilium's own settings are not compared: that a
//! cluster IP may be asked from outside (`bpf-lb-external-clusterip`), that answers go past the node (DSR).

use super::dump::{ServiceKey, ServiceRow};
use crate::service::RouteKind;
use crate::service::expected::ExpectedPort;
use crate::service::fault::{Difference, Kind};

const KINDS: u8 =
    ServiceRow::EXTERNAL_IP | ServiceRow::NODE_PORT | ServiceRow::LOAD_BALANCER | ServiceRow::HOST_PORT;

/// Both fields of bits, for a kind of address; the row of node ports without an address is for sockets alone.
pub(super) fn of(
    port: &ExpectedPort,
    (kind, two_scopes): (RouteKind, bool),
    is_for_sockets: bool,
) -> (u8, u8) {
    let set = |is: bool, bit: u8| if is { bit } else { 0 };
    let of_kind = match kind {
        RouteKind::ExternalIp => ServiceRow::EXTERNAL_IP,
        RouteKind::NodePort => ServiceRow::NODE_PORT,
        RouteKind::LoadBalancer => ServiceRow::LOAD_BALANCER,
        _ => 0,
    };
    let ranges = kind == RouteKind::LoadBalancer && !port.source_ranges.is_empty();
    let flags = of_kind
        | set(port.policy.external_local, ServiceRow::EXTERNAL_LOCAL)
        | set(port.affinity.is_some(), ServiceRow::AFFINITY)
        | set(of_kind != 0 && !is_for_sockets, ServiceRow::ROUTABLE)
        | set(ranges, ServiceRow::SOURCE_RANGE);
    let flags2 =
        set(port.policy.internal_local, ServiceRow::INTERNAL_LOCAL) | set(two_scopes, ServiceRow::TWO_SCOPES);
    (flags, flags2)
}

/// Compares those of a row; affinity is compared with its seconds elsewhere.
pub(super) fn compare(
    row: ServiceRow,
    port: &ExpectedPort,
    (kind, two_scopes): (RouteKind, bool),
    key: ServiceKey,
    mut tell: impl FnMut((Difference, Kind), String),
) {
    let (flags, flags2) = of(port, (kind, two_scopes), key.address.is_unspecified());
    let is_external = kind != RouteKind::ClusterIp;
    let differs = |bit: u8| (row.flags ^ flags) & bit != 0;
    let differs2 = |bit: u8| (row.flags2 ^ flags2) & bit != 0;
    if differs(KINDS) {
        let found = kinds_words(row.flags);
        let detail = format!("it is a row for {found} by its bits, and should be for {}", kinds_words(flags));
        tell((Difference::Wrong, Kind::FrontendTarget), detail);
    }
    if is_external && !key.address.is_unspecified() && differs(ServiceRow::ROUTABLE) {
        let detail = "it is not for clients outside by its bits, so theirs are dropped";
        tell((Difference::Wrong, Kind::FrontendTarget), detail.to_owned());
    }
    let has_ranges = row.flags & ServiceRow::SOURCE_RANGE != 0;
    if has_ranges && port.source_ranges.is_empty() {
        let detail = "source ranges are asked for that the Service does not have";
        tell((Difference::Extra, Kind::SourceRange), detail.to_owned());
    } else if kind == RouteKind::LoadBalancer && !has_ranges && !port.source_ranges.is_empty() {
        tell((Difference::Missing, Kind::SourceRange), "everybody may come to the balancer's address".into());
    }
    if row.flags2 & ServiceRow::RANGES_DENY != 0 {
        let detail = "its source ranges are those that may not come, by its bits";
        tell((Difference::Wrong, Kind::SourceRange), detail.to_owned());
    }
    let policy = |is: u8| if is == 0 { "Cluster" } else { "Local" };
    if is_external && differs(ServiceRow::EXTERNAL_LOCAL) {
        let [found, wanted] = [row.flags, flags].map(|flags| policy(flags & ServiceRow::EXTERNAL_LOCAL));
        let detail = format!("it says externalTrafficPolicy {found}, and the Service {wanted}");
        tell((Difference::Wrong, Kind::FrontendTarget), detail);
    }
    if differs2(ServiceRow::INTERNAL_LOCAL) {
        let [found, wanted] = [row.flags2, flags2].map(|flags| policy(flags & ServiceRow::INTERNAL_LOCAL));
        let detail = format!("it says internalTrafficPolicy {found}, and the Service {wanted}");
        tell((Difference::Wrong, Kind::FrontendTarget), detail);
    }
    if differs2(ServiceRow::TWO_SCOPES) {
        let detail = if two_scopes {
            "it does not lead clients inside to their own row, so they get what those outside get"
        } else {
            "it leads clients inside to a row of their own, which no frontend of this Service has"
        };
        tell((Difference::Wrong, Kind::FrontendTarget), detail.to_owned());
    }
    for (bit, what) in [
        (ServiceRow::REDIRECTED, "a CiliumLocalRedirectPolicy has it"),
        (ServiceRow::OTHER_FAMILY, "its packets are translated to the other family"),
        (ServiceRow::PROXIED, "a proxy on the node takes its packets, and decides where they go"),
        (ServiceRow::LOOPBACK, "only the node's loopback may ask it"),
    ] {
        if row.flags2 & bit != 0 {
            tell(
                (Difference::Extra, Kind::Foreign),
                format!("{what}, by its bits; no Service asks for that"),
            );
        }
    }
}

fn kinds_words(flags: u8) -> String {
    let kinds = [
        (ServiceRow::EXTERNAL_IP, "an external IP"),
        (ServiceRow::NODE_PORT, "a node port"),
        (ServiceRow::LOAD_BALANCER, "a balancer's address"),
        (ServiceRow::HOST_PORT, "a container's host port"),
    ];
    let found: Vec<&str> = kinds.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| *word).collect();
    if found.is_empty() { "a cluster IP".to_owned() } else { found.join(" and ") }
}
