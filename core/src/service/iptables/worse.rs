//! Clients of a cluster IP that fare worse than most pods where packets keep their source: endpoints that ask their own
//! Service, and who comes from outside of the cluster.
//!
//! Invariant: by the marks that rules give on the way that pods' packets take, and by what reads those when packets
//! leave. Nothing is said where others may have marked them, too, and of who comes from outside nothing where the proxy
//! was not told who is a pod.

use std::net::SocketAddr;

use super::dump::{Dump, Rule};
use super::lists::{Marked, Written, pods};
use super::masquerade::Masqueraded;
use super::{beyond, follow, foreign, masquerade};
use crate::service::expected::{ExpectedPort, FrontendKey};
use crate::service::follow::{Client, Followed, Worse};
use crate::service::passage::{Flow, Match, Packet};

/// Adds them to what becomes of pods' packets to a cluster IP.
pub fn worse(written: &Written<'_>, to: FrontendKey, port: &ExpectedPort, followed: &mut Followed) {
    let dump = written.dump;
    let mut packet = Packet {
        client: Client::Pod,
        to: to.address,
        port: to.port,
        protocol: to.protocol,
        to_node: false,
        translated: false,
        mark: Some(0),
        pods: pods(dump),
        flow: Flow::First,
    };
    let untranslated = packet;
    let taken =
        foreign::first(dump, ("PREROUTING", Client::Pod), to, &mut foreign::Doubts::default()).is_some();
    beyond::before(dump, &mut packet);
    if taken || packet.mark != Some(0) || followed.unanswered {
        return;
    }
    let mark = masquerade::marked(dump, &untranslated);
    let leaves = |client: Client, marked: bool, to: SocketAddr| {
        let mark = if marked { mark } else { 0 };
        let (address, port) = (Some(to.ip()), to.port());
        let mut leaving =
            Packet { client, to: address, port, mark: Some(mark), translated: true, ..untranslated };
        let (_, remarks) = beyond::after(dump, &mut leaving);
        masquerade::is_masqueraded(dump, (mark, &leaving), &remarks)
    };
    let endpoints: Vec<SocketAddr> =
        followed.shares.to.keys().filter(|to| !port.on_host.contains(to)).copied().collect();
    let (own, elsewhere): (Vec<SocketAddr>, Vec<SocketAddr>) =
        endpoints.into_iter().partition(|to| port.on_node.contains(to));

    let of_pods = marks(dump, to, Client::Pod, followed);
    let itself = |to: SocketAddr| leaves(Client::Pod, of_pods || marks_itself(dump, to, followed), to);
    let (mut unsure, mut strange) = (Vec::new(), Vec::new());
    let mut keep = |all: Vec<SocketAddr>, whose: &str, leaves: &dyn Fn(SocketAddr) -> Masqueraded| {
        let mut kept = all;
        kept.retain(|to| {
            let leaving = leaves(*to);
            match leaving.is {
                Match::No => strange.extend(leaving.strange()),
                Match::Perhaps => unsure.push(leaving.unsure(format!("from {whose} to {to}"))),
                Match::Yes => {}
            }
            leaving.is == Match::No
        });
        kept
    };
    let alone = keep(own, "the endpoint itself", &itself);
    let mut lost = 0.0;
    if written.flags.marked != Marked::Nobody {
        let of_others = marks(dump, to, Client::Outside, followed);
        let unheard = keep(elsewhere, "outside", &|to| leaves(Client::Outside, of_others, to));
        lost = unheard.iter().filter_map(|to| followed.shares.to.get(to)).sum();
    }
    followed.unsure.extend(unsure);
    followed.strange.extend(strange);
    followed.worse.extend(Worse::to_themselves(&alone, &followed.shares));
    followed.worse.extend(Worse::of("outside of the cluster".to_owned(), lost));
}

/// Whether the chains that pods' packets go to mark a client's.
fn marks(dump: &Dump, to: FrontendKey, client: Client, followed: &Followed) -> bool {
    let mut entered = followed.hops.iter().filter(|hop| hop.depth == 0);
    entered.any(|hop| follow::marks(dump, to, client, &hop.to))
}

/// Whether a rule before the one that translates to an endpoint marks what that endpoint sends.
fn marks_itself(dump: &Dump, endpoint: SocketAddr, followed: &Followed) -> bool {
    let target = format!("DNAT {endpoint}");
    let is_own = |rule: &&Rule| {
        rule.target.as_deref() == Some("KUBE-MARK-MASQ")
            && rule.source.as_ref().is_some_and(|net| net.value.contains(&endpoint.ip()) != net.negated)
            && Rule { source: None, target: None, ..(*rule).clone() }.is_for_all(true)
    };
    let mut translating = followed.hops.iter().filter(|hop| hop.to == target);
    translating.any(|hop| {
        let rules = dump.rules(&hop.place.table, &hop.place.chain).iter();
        rules.take_while(|rule| Some(rule.position) < hop.place.position).any(|rule| is_own(&rule))
    })
}
