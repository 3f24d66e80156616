//! F51: this musl does not ask over TCP (before 1.2.4), or has no room for the answer that comes (1.2.4).

use netlab_plugin::evidence::{Flag, Transport};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::version::Version;
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F51",
    id: "MUSL-NO-TCP",
    class: Class::DnsConfig,
    title: "an old musl cannot take answers that do not fit into a datagram",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Unfit],
    test,
};

/// `src/network/res_msend.c` asks over TCP from here on.
const TCP: Version = Version::new(1, 2, 4);
/// `lookup_name.c` has 4800 bytes for an answer from here on, 768 before.
const ROOM: Version = Version::new(1, 2, 5);
const SMALL: u32 = 768;

fn test(view: &View<'_>) -> Option<Hit> {
    let ("musl", Some(version)) = view.libc()? else { return None };
    let servers = view.nameservers();
    for name in &view.target.names {
        for full in view.tried(name) {
            let rows = view.questions(&full);
            let Some((id, cut)) = rows.iter().copied().find(|(_, probe)| {
                probe.transport == Transport::Udp
                    && probe.edns.is_none()
                    && probe.has(Flag::Tc)
                    && servers.contains(&probe.server)
            }) else {
                continue;
            };
            let tcp: Vec<_> = rows
                .iter()
                .copied()
                .filter(|(_, probe)| probe.transport == Transport::Tcp && probe.answers_seen() > 0)
                .collect();
            let large = tcp.iter().filter_map(|(_, probe)| probe.bytes).max();
            // A part of the answer is enough for most; where nobody complains, nothing fails.
            if !cut.addresses().is_empty() && view.evidence.symptom().is_none() {
                continue;
            }
            let why = if version < TCP {
                match cut.addresses().len() {
                    0 => format!("musl {version} takes the truncated answer as it is, and it has no address"),
                    part => format!(
                        "musl {version} takes the truncated answer as it is: {part} addresses of more"
                    ),
                }
            } else if version < ROOM && large.is_some_and(|bytes| bytes > SMALL) {
                format!("musl {version} has room for {SMALL} bytes, and TCP brings {}", large.unwrap_or(0))
            } else {
                continue;
            };
            let mut hit = Hit::high(format!("musl {version} cannot take the answer for `{name}`"))
                .because(format!("{full} {}: truncated over UDP", cut.qtype))
                .because(why)
                .citing([id]);
            if !tcp.is_empty() {
                hit = hit.because("TCP brings the whole answer").citing(row_ids(&tcp));
            }
            let wanted =
                if version < TCP { "1.2.4 or later (Alpine 3.18)" } else { "1.2.5 or later (Alpine 3.20)" };
            return Some(hit.fix(format!("use an image with musl {wanted}, or one with glibc")).verify(
                format!(
                    "netlab dns plan {name} --resolv-conf {} --libc musl:{version} --compare",
                    layout::POD_RESOLV_CONF
                ),
            ));
        }
    }
    None
}
