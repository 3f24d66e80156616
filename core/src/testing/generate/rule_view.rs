//! The rules of the Admin and Baseline tiers in one form, for whoever asks what they name.

use crate::input::WireObjects;
use crate::input::wire::admin_network_policy::Port;
use crate::input::wire::cluster_network_policy::Protocol;
use crate::input::wire::tier_policy::Peer;
use crate::policy::oracle::TierMatch;

/// A rule of any of the kinds.
pub(super) struct RuleView<'a> {
    kind: &'static str,
    policy: &'a str,
    path: String,
    /// `from` or `to`.
    pub(super) peers: &'a [Peer],
    /// Every port number that it names.
    pub(super) numbers: Vec<i64>,
    /// True when it names a port by name.
    pub(super) named_port: bool,
}

impl RuleView<'_> {
    /// True when this is the rule that matched.
    pub(super) fn is(&self, rule: &TierMatch) -> bool {
        self.kind == rule.policy.kind && self.policy == rule.policy.name && self.path == rule.path
    }
}

macro_rules! views {
    ($views:ident, $objects:expr, $kind:literal, $ports:ident, $numbers:path, $named:expr) => {
        for policy in $objects {
            let Some(spec) = &policy.spec else { continue };
            let name = policy.metadata.name.as_deref().unwrap_or_default();
            for (index, rule) in spec.ingress.iter().flatten().enumerate() {
                $views.push(RuleView {
                    kind: $kind,
                    policy: name,
                    path: format!("spec.ingress[{index}]"),
                    peers: rule.from.as_deref().unwrap_or_default(),
                    numbers: rule.$ports.iter().flatten().flat_map($numbers).collect(),
                    named_port: rule.$ports.iter().flatten().any($named),
                });
            }
            for (index, rule) in spec.egress.iter().flatten().enumerate() {
                $views.push(RuleView {
                    kind: $kind,
                    policy: name,
                    path: format!("spec.egress[{index}]"),
                    peers: rule.to.as_deref().unwrap_or_default(),
                    numbers: rule.$ports.iter().flatten().flat_map($numbers).collect(),
                    named_port: rule.$ports.iter().flatten().any($named),
                });
            }
        }
    };
}

/// Every rule of these objects.
pub(super) fn tier_rules(objects: &WireObjects) -> Vec<RuleView<'_>> {
    let mut views = Vec::new();
    let named = |port: &Port| port.named_port.is_some();
    views!(views, &objects.admin_network_policies, "AdminNetworkPolicy", ports, of_port, named);
    let baseline = &objects.baseline_admin_network_policies;
    views!(views, baseline, "BaselineAdminNetworkPolicy", ports, of_port, named);
    let named = |protocol: &Protocol| protocol.destination_named_port.is_some();
    let cluster = &objects.cluster_network_policies;
    views!(views, cluster, "ClusterNetworkPolicy", protocols, of_protocol, named);
    views
}

fn of_port(port: &Port) -> Vec<i64> {
    let number = port.port_number.iter().filter_map(|only| only.port);
    let range = port.port_range.iter().flat_map(|range| [range.start, range.end]).flatten();
    number.chain(range).collect()
}

fn of_protocol(protocol: &Protocol) -> Vec<i64> {
    let transports = [&protocol.tcp, &protocol.udp, &protocol.sctp].into_iter().flatten();
    let ports = transports.filter_map(|transport| transport.destination_port.as_ref());
    ports
        .flat_map(|port| {
            let range = port.range.iter().flat_map(|range| [range.start, range.end]);
            range.chain([port.number]).flatten().collect::<Vec<_>>()
        })
        .collect()
}
