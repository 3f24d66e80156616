//! F52: large UDP answers are lost on the way: fragments are dropped, or the path's MTU is smaller than it claims.

use netlab_plugin::evidence::{Flag, Outcome, Probe, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::resolv_conf::Dialect;
use crate::view::{Ask, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F52",
    id: "EDNS-FRAG",
    class: Class::NotDns,
    title: "large answers are lost, over UDP at least; small ones come through",
    needs: &[layout::PROBES],
    latent: false,
    explains: &[Effect::Lost],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let rows = view.rows(&Ask::from_pod());
    let lost = |probe: &Probe| {
        probe.transport == Transport::Udp
            && probe.edns.is_some_and(|size| size > 512)
            && probe.result == Outcome::Silent
            && probe.none_answered()
    };
    for (id, big) in rows.iter().copied().filter(|(_, probe)| lost(probe)) {
        let same = |probe: &Probe| {
            probe.server == big.server
                && probe.name == big.name
                && probe.qtype == big.qtype
                && probe.all_answered()
        };
        let small: Vec<_> = rows
            .iter()
            .copied()
            .filter(|(_, probe)| {
                probe.transport == Transport::Udp
                    && probe.edns.unwrap_or(512) < big.edns.unwrap_or(0)
                    && same(probe)
            })
            .collect();
        let tcp: Vec<_> = rows
            .iter()
            .copied()
            .filter(|(_, probe)| probe.transport == Transport::Tcp && same(probe))
            .collect();
        let by_tcp = |probe: &Probe| probe.transport == Transport::Tcp && probe.server == big.server;
        // Over TCP too, where small answers come: whatever is large is lost.
        let stuck: Vec<_> = rows
            .iter()
            .copied()
            .filter(|(_, probe)| {
                by_tcp(probe)
                    && probe.name == big.name
                    && probe.qtype == big.qtype
                    && probe.result == Outcome::Silent
                    && probe.none_answered()
            })
            .collect();
        let small_tcp: Vec<_> =
            rows.iter().copied().filter(|(_, probe)| by_tcp(probe) && probe.all_answered()).collect();
        let cut = small.iter().any(|(_, probe)| probe.has(Flag::Tc));
        let all_large = tcp.is_empty() && cut && !stuck.is_empty() && !small_tcp.is_empty();
        if small.is_empty() || (tcp.is_empty() && !all_large) {
            continue;
        }
        let size = tcp.iter().filter_map(|(_, probe)| probe.bytes).max();
        // One datagram may be lost by chance.
        let asked: u32 = rows
            .iter()
            .filter(|(_, probe)| lost(probe) && probe.server == big.server && probe.name == big.name)
            .map(|(_, probe)| probe.sent)
            .fold(0, u32::saturating_add);
        if size.is_some_and(|size| size <= 512) || asked < 2 {
            continue;
        }
        // An OPT record in a question with a small answer comes through, or it is not the size that matters.
        let opt_passes = rows.iter().copied().find(|(_, probe)| {
            probe.server == big.server
                && probe.edns.is_some()
                && probe.transport == Transport::Udp
                && probe.all_answered()
        });
        if all_large {
            let Some((opt, _)) = opt_passes else { continue };
            return Some(
                Hit::medium(format!("large answers from {} are lost, over TCP too", big.server))
                    .because(format!(
                        "{} {}: truncated without EDNS; with EDNS {} and over TCP nothing comes",
                        big.name,
                        big.qtype,
                        big.edns.unwrap_or(0)
                    ))
                    .because("small answers come, over TCP and to questions with EDNS: it is the size of packets")
                    .citing([id, opt])
                    .citing(row_ids(&small))
                    .citing(row_ids(&stuck))
                    .citing(row_ids(&small_tcp))
                    .fix("find where the MTU is too small (`ip link`, `tracepath`), and let ICMP `fragmentation needed` and `packet too big` through")
                    .verify(command::query(view, &big.name, big.server, "--tcp")),
            );
        }
        let sends_edns =
            view.conf().is_some_and(|conf| conf.options.edns0) || matches!(view.dialect(), Dialect::Go(_));
        let what = size.map_or("a large answer".to_owned(), |size| format!("an answer of {size} bytes"));
        let summary = format!("large UDP answers from {} are lost", big.server);
        // A resolver that sends no EDNS is not hit by itself.
        let hurts = sends_edns || view.libc().is_none();
        let mut hit = if opt_passes.is_some() && hurts { Hit::high(summary) } else { Hit::medium(summary) };
        hit = hit
            .because(format!(
                "{} {}: with EDNS {} nothing comes (0/{}), without or with less it does, and TCP brings {what}",
                big.name,
                big.qtype,
                big.edns.unwrap_or(0),
                big.sent
            ))
            .citing([id])
            .citing(row_ids(&small))
            .citing(row_ids(&tcp));
        match opt_passes {
            Some((id, _)) => {
                hit = hit.because("small answers to questions with EDNS come through").citing([id]);
            }
            None => {
                hit =
                    hit.because("no question with EDNS was answered at all: it may be EDNS that is dropped");
            }
        }
        if !sends_edns && view.libc().is_some() {
            hit = hit.because(
                "this libc asks without EDNS and over TCP when told to: resolvers that use EDNS are hit",
            );
        }
        return Some(
            hit.fix("set `bufsize 1232` in the Corefile, and make the path carry its MTU (overlay header, fragments)")
                .verify(command::query(view, &big.name, big.server, &format!("--edns {}", big.edns.unwrap_or(4096)))),
        );
    }
    None
}
