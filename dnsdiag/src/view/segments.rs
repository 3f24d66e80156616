//! The segments between the pod and its DNS servers, each measured apart: the position table of the method.
//!
//! Invariant: every field is a measurement of questions that any DNS server of the cluster can answer by itself
//! ([`View::canary`]), so a segment that fails says nothing about names. Unasked segments are [`Reach::NotAsked`].

use std::net::{IpAddr, SocketAddr};

use netlab_plugin::evidence::{Position, Transport};

use super::{Ask, Reach, Seen, View};

/// The segments.
#[derive(Clone, Debug)]
pub struct Segments {
    /// The cluster's DNS Service addresses that were asked: those in `resolv.conf`, else those of the Service.
    pub vips: Vec<IpAddr>,
    /// Pod to Service, UDP.
    pub vip_udp: Seen,
    /// Pod to Service, TCP.
    pub vip_tcp: Seen,
    /// Pod to the ready endpoints, UDP, one each.
    pub endpoints_udp: Vec<(SocketAddr, Seen)>,
    /// Pod to the ready endpoints, TCP, one each.
    pub endpoints_tcp: Vec<(SocketAddr, Seen)>,
    /// The pod's node to the ready endpoints, UDP, one each.
    pub node_udp: Vec<(SocketAddr, Seen)>,
}

impl Segments {
    /// Every endpoint answers the pod over UDP, and at least one was asked.
    #[must_use]
    pub fn endpoints_answer(&self) -> bool {
        all(&self.endpoints_udp, Reach::answers)
    }

    /// The same over TCP.
    #[must_use]
    pub fn endpoints_answer_tcp(&self) -> bool {
        all(&self.endpoints_tcp, Reach::answers)
    }

    /// No endpoint answers the pod over UDP, and at least one was asked.
    #[must_use]
    pub fn endpoints_fail(&self) -> bool {
        all(&self.endpoints_udp, Reach::fails)
    }

    /// The same over TCP.
    #[must_use]
    pub fn endpoints_fail_tcp(&self) -> bool {
        all(&self.endpoints_tcp, Reach::fails)
    }

    /// Every endpoint that the node asked answered it, and it asked at least one.
    #[must_use]
    pub fn node_gets_answers(&self) -> bool {
        all(&self.node_udp, Reach::answers)
    }

    /// The rows behind the UDP segments of the pod.
    #[must_use]
    pub fn udp_ids(&self) -> Vec<String> {
        let endpoints = self.endpoints_udp.iter().flat_map(|(_, seen)| seen.ids.clone());
        self.vip_udp.ids.iter().cloned().chain(endpoints).collect()
    }

    /// The rows behind the TCP segments of the pod.
    #[must_use]
    pub fn tcp_ids(&self) -> Vec<String> {
        let endpoints = self.endpoints_tcp.iter().flat_map(|(_, seen)| seen.ids.clone());
        self.vip_tcp.ids.iter().cloned().chain(endpoints).collect()
    }

    /// The rows that the node asked.
    #[must_use]
    pub fn node_ids(&self) -> Vec<String> {
        self.node_udp.iter().flat_map(|(_, seen)| seen.ids.clone()).collect()
    }
}

fn all(segments: &[(SocketAddr, Seen)], what: fn(Reach) -> bool) -> bool {
    let mut asked = segments.iter().filter(|(_, seen)| seen.reach != Reach::NotAsked).peekable();
    asked.peek().is_some() && asked.all(|(_, seen)| what(seen.reach))
}

impl View<'_> {
    /// The addresses of the DNS Service that the pod asks, else those that the Service has.
    #[must_use]
    pub fn vips(&self) -> Vec<IpAddr> {
        let of_service = self.dns_service().map(|dns| dns.service.cluster_ips.clone()).unwrap_or_default();
        let of_service: Vec<IpAddr> =
            of_service.into_iter().filter(|address| self.is_about(*address)).collect();
        let asked: Vec<IpAddr> =
            self.nameservers().into_iter().filter(|address| of_service.contains(address)).collect();
        if asked.is_empty() { of_service } else { asked }
    }

    /// The segments, measured.
    #[must_use]
    pub fn segments(&self) -> Segments {
        let vips = self.vips();
        let to_vip = |transport| self.canary(&Ask::from_pod().to(vips.clone()).port(53).over(transport));
        let each = |from: Position, transport: Transport| -> Vec<(SocketAddr, Seen)> {
            let addresses = self.ready_dns_addresses(transport);
            let ask =
                |to: SocketAddr| Ask { from: Some(from.clone()), ..Ask::default() }.at(to).over(transport);
            addresses.into_iter().map(|to| (to, self.canary(&ask(to)))).collect()
        };
        Segments {
            vip_udp: to_vip(Transport::Udp),
            vip_tcp: to_vip(Transport::Tcp),
            endpoints_udp: each(Position::Pod, Transport::Udp),
            endpoints_tcp: each(Position::Pod, Transport::Tcp),
            node_udp: each(Position::Node, Transport::Udp),
            vips,
        }
    }

    /// How the questions for names outside the cluster's domain went, from the pod to its nameservers.
    #[must_use]
    pub fn outside(&self) -> Vec<(&str, &netlab_plugin::evidence::Probe)> {
        let domain = self.domain().unwrap_or_else(|| "cluster.local".to_owned());
        let rows = self.rows(&Ask::from_pod());
        rows.into_iter().filter(|(_, probe)| !super::is_below(&probe.name, &domain)).collect()
    }
}
