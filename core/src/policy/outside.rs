//! Clients outside the cluster that ask by an address of a Service: which of them may, and whether policies see them.
//!
//! Invariant: about proxies alone, as `kube-proxy` has it; what policies make of the clients is asked elsewhere.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::model::cluster::ObjectKey;
use crate::model::service::{AddressType, Service};

/// Why nodes put an address of their own in place of that of clients outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rewriting {
    /// They do for whom they take for no pod.
    ClusterIp,
    /// `externalTrafficPolicy: Cluster`: they do for everybody, pods too.
    TrafficPolicy,
}

impl Rewriting {
    /// At an address of a Service; `None` where clients keep theirs.
    pub(super) fn at(service: &Service, address: IpAddr) -> Option<Self> {
        if service.cluster_ips.contains(&address) {
            return Some(Self::ClusterIp);
        }
        (!service.external_local).then_some(Self::TrafficPolicy)
    }
}

/// Clients outside that ask by some addresses of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// From where alone they may come: no proxy leads from one family to the other, and a balancer's address has ranges,
    /// maybe. `None` where no address is known.
    pub admitted: Option<Vec<IpNet>>,
    /// What is to be said of the ranges.
    pub narrowed: Option<String>,
    /// Why nobody can say what policies make of them, where that is so.
    pub undefined: Option<String>,
    /// True where that goes for pods as clients as well, on their way to endpoints of other nodes.
    pub pods_too: bool,
}

impl Outside {
    /// Of those that ask by these addresses.
    #[must_use]
    pub fn of(key: &ObjectKey, service: &Service, addresses: &[IpAddr]) -> Self {
        let (mut nets, mut ranges_words) = (Vec::new(), Vec::new());
        for address in addresses {
            let ranges = service.source_ranges_of(AddressType::of(*address));
            if service.load_balancer_ips.contains(address) && !ranges.is_empty() {
                ranges_words.extend(ranges.iter().map(ToString::to_string));
                nets.extend(ranges);
            } else {
                nets.push(match address {
                    IpAddr::V4(_) => Ipv4Net::default().into(),
                    IpAddr::V6(_) => Ipv6Net::default().into(),
                });
            }
        }
        let narrowed = (!ranges_words.is_empty()).then(|| {
            format!(
                "svc/{key} admits only {} there (loadBalancerSourceRanges): of addresses outside those alone are listed",
                ranges_words.join(", ")
            )
        });
        let ways: BTreeSet<Rewriting> =
            addresses.iter().filter_map(|address| Rewriting::at(service, *address)).collect();
        let pods_too = ways.contains(&Rewriting::TrafficPolicy);
        let undefined = ways.first().map(|why| {
            let by = match why {
                Rewriting::ClusterIp => "a cluster IP",
                Rewriting::TrafficPolicy => "externalTrafficPolicy Cluster",
            };
            format!(
                "svc/{key}: nodes put an address of their own in place of that of clients{} ({by}), so whether those \
                 listed get in is undefined: they do where their own address is seen",
                if pods_too { ", pods too" } else { " outside" }
            )
        });
        Self { admitted: (!nets.is_empty()).then_some(nets), narrowed, undefined, pods_too }
    }
}
