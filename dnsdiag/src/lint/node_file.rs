//! A node's `resolv.conf`: what becomes of it in pods, and which of its lines mean something else than they look.

use netlab_core::diagnostic::{Diagnostic, code};
use netlab_core::model::source::Position;

use super::ground::{Ground, NodeFile};
use crate::kubelet::Limits;
use crate::resolv_conf::{Dialect, NoteKind, read};

/// Search domains that kubelet puts before the node's.
const OF_CLUSTER: usize = 3;
/// Bytes of a line that musl reads; a longer one it skips.
pub(super) const MUSL_LINE: usize = 254;
/// Of a namespace's name.
const LONGEST_NAMESPACE: usize = 63;

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    let Some(node) = &ground.node_file else { return };
    stub(node, found);
    limits(ground, node, found);
    lines(node, found);
}

fn say(node: &NodeFile, diagnostic: Diagnostic, line: u32, found: &mut Vec<Diagnostic>) {
    let at = (line > 0).then_some(Position { line, column: 1 });
    found.push(node.text.place(diagnostic, at));
}

fn stub(node: &NodeFile, found: &mut Vec<Diagnostic>) {
    if let Some((address, line)) = node.nameservers().find(|(address, _)| address.is_loopback()) {
        let message = format!("{address} is the node to the node, and the pod itself to a pod");
        let hint = if address.to_string() == "127.0.0.53" {
            "it is systemd-resolved: give kubelet `resolvConf: /run/systemd/resolve/resolv.conf`"
        } else {
            "give kubelet a `resolvConf` with servers that pods can reach"
        };
        say(node, Diagnostic::warning(code::NODE_STUB, message).with_hint(hint), line, found);
    }
}

/// As `CheckLimitsForResolvConf` warns of them when kubelet starts, and what musl makes of a long line.
fn limits(ground: &Ground<'_>, node: &NodeFile, found: &mut Vec<Diagnostic>) {
    let Ok(file) = &node.read else { return };
    let mut over = |line: u32, message: String, hint: &str| {
        say(node, Diagnostic::warning(code::NODE_FILE_LIMITS, message).with_hint(hint), line, found);
    };
    if let Some(fourth) = file.nameservers.get(Limits::NAMESERVERS) {
        let message = format!("{} nameservers: pods and programs use three", file.nameservers.len());
        over(fourth.line, message, "take the others away: kubelet says DNSConfigForming for each pod");
    }
    let limits = ground.kubelets.first().map_or(Limits::EXPANDED, |kubelet| Limits::of(&kubelet.config));
    let line = file.searches.first().map_or(0, |search| search.line);
    let most = limits.searches.saturating_sub(OF_CLUSTER);
    if file.searches.len() > most {
        let message = format!(
            "{} search domains: with the cluster's three, kubelet writes {} and drops the last",
            file.searches.len(),
            limits.searches
        );
        over(line, message, "take some away, or lookups by short names fail in pods alone");
    }
    if let Some(long) = file.searches.iter().find(|search| search.value.len() > Limits::DOMAIN) {
        let message = format!("a search domain of {} bytes: kubelet drops it", long.value.len());
        over(long.line, message, "253 are the most");
    }
    let joined: usize = file.searches.iter().map(|search| search.value.len() + 1).sum();
    if joined > limits.bytes {
        let message = format!("search domains of {joined} bytes: kubelet drops the last ones");
        over(line, message, "take some away");
    }
    let domain = ground.domain().len();
    let of_cluster = |namespace: usize| namespace + 5 + domain + 1 + 4 + domain + 1 + domain;
    let in_pods = |namespace: usize| "search ".len() + of_cluster(namespace) + joined;
    if joined > 0 && in_pods(1) > MUSL_LINE {
        let message = format!("in pods the search line has {} bytes and more, and musl skips it", in_pods(1));
        let diagnostic = Diagnostic::warning(code::SEARCH_LINE_LONG, message)
            .with_hint("musl reads 254 bytes a line: in Alpine images no short name resolves");
        say(node, diagnostic, line, found);
    } else if joined > 0 && in_pods(LONGEST_NAMESPACE) > MUSL_LINE {
        let most = (1..=LONGEST_NAMESPACE).rev().find(|length| in_pods(*length) <= MUSL_LINE).unwrap_or(1);
        let message =
            format!("in namespaces with names longer than {most} the search line is one that musl skips");
        let diagnostic = Diagnostic::note(code::SEARCH_LINE_LONG, message)
            .with_hint("musl reads 254 bytes a line: in Alpine images no short name resolves there");
        say(node, diagnostic, line, found);
    }
}

fn lines(node: &NodeFile, found: &mut Vec<Diagnostic>) {
    if let Err(fault) = &node.read {
        let line = match fault {
            crate::kubelet::HostFileError::NoAddress { line } => *line,
            crate::kubelet::HostFileError::TooLarge => 0,
        };
        let message = "kubelet refuses this file, and no pod starts on the node";
        let diagnostic = Diagnostic::error(code::NODE_FILE_LINE, message)
            .with_hint("`nameserver` needs an address behind it");
        say(node, diagnostic, line, found);
        return;
    }
    let conf = read(node.text.written.as_bytes(), Dialect::Kubelet);
    if conf.nameservers.is_empty() {
        let message = "no `nameserver`: pods with the node's file, the DNS pods too, have nobody to ask";
        let diagnostic = Diagnostic::warning(code::NODE_FILE_LINE, message)
            .with_hint("write one, or give kubelet another file");
        say(node, diagnostic, 0, found);
    }
    for note in &conf.notes {
        let wanted = match note.kind {
            NoteKind::NotAnAddress | NoteKind::CommentBecameSuffix => true,
            NoteKind::UnknownKeyword => {
                let line = usize::try_from(note.line).unwrap_or(usize::MAX).saturating_sub(1);
                let text = node.text.written.lines().nth(line).unwrap_or_default().trim();
                let word = text.split_whitespace().next().unwrap_or_default();
                // Of the keywords that are not kubelet's these are meant as one; `;` begins a comment to a libc.
                match word {
                    "domain" => conf.search.is_empty(),
                    "Nameserver" | "nameservers" | "searches" | "option" => true,
                    _ => false,
                }
            }
            _ => false,
        };
        if wanted {
            let diagnostic = Diagnostic::warning(code::NODE_FILE_LINE, note.text.clone())
                .with_hint("pods get what kubelet reads, not what the node's own programs read");
            say(node, diagnostic, note.line, found);
        }
    }
}
