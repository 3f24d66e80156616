//! The two address families of a pod's DNS, told apart: one of them may be broken as a whole while the other works.
//!
//! Invariant: a family is called broken only when the other was asked in the same way and answered everything.

use std::net::IpAddr;

use netlab_core::model::service::AddressType;

use super::{Ask, Seen, View, seen};

/// One family of two that fails, in whole or in part, while the other answers everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Halved {
    /// The one that fails.
    pub family: AddressType,
    /// Its questions, from the pod, that any DNS server of the cluster can answer.
    pub broken: Seen,
    /// The same of the other.
    pub whole: Seen,
}

impl Halved {
    /// `IPv6`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.family {
            AddressType::Ipv6 => "IPv6",
            _ => "IPv4",
        }
    }

    /// `IPv4`, of the one that works.
    #[must_use]
    pub const fn other(&self) -> &'static str {
        match self.family {
            AddressType::Ipv6 => "IPv4",
            _ => "IPv6",
        }
    }
}

impl View<'_> {
    /// True when the pod's DNS has addresses of both families: nameservers, or the DNS Service.
    #[must_use]
    pub fn has_both_families(&self) -> bool {
        let of_service = self.dns_service().map(|dns| dns.service.cluster_ips.clone()).unwrap_or_default();
        let all: Vec<IpAddr> = self.nameservers().into_iter().chain(of_service).collect();
        all.iter().any(IpAddr::is_ipv4) && all.iter().any(IpAddr::is_ipv6)
    }

    /// The family that fails where the other answers everything.
    #[must_use]
    pub fn halved(&self) -> Option<Halved> {
        let of = |family: AddressType| {
            let rows: Vec<_> = self
                .rows(&Ask::from_pod())
                .into_iter()
                .filter(|(_, probe)| AddressType::of(probe.server) == family && super::is_canary(&probe.name))
                .collect();
            seen(&rows)
        };
        let (v4, v6) = (of(AddressType::Ipv4), of(AddressType::Ipv6));
        let fails = |seen: &Seen| seen.sent > 0 && !seen.reach.answers();
        if v4.reach.answers() && fails(&v6) {
            return Some(Halved { family: AddressType::Ipv6, broken: v6, whole: v4 });
        }
        (v6.reach.answers() && fails(&v4)).then_some(Halved {
            family: AddressType::Ipv4,
            broken: v4,
            whole: v6,
        })
    }
}
