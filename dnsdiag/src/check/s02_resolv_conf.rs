//! S2: the pod's `resolv.conf` against the one that kubelet writes.

use std::net::IpAddr;

use netlab_plugin::check::{CheckOutcome, CheckStatus};

use super::Step;
use crate::bundle::layout;
use crate::resolv_conf::{Dialect, NoteKind};
use crate::view::{EXPECTED_FACTS, Server, View};

pub(super) const STEP: Step = Step {
    id: "S2",
    name: "resolv.conf",
    summary: "the pod's resolv.conf, what kubelet would write, and who made the difference",
    needs: &EXPECTED_FACTS,
    costs: "one file of the container; the kubelet's configuration needs get on nodes/proxy",
    examine,
};

/// Notes about lines that somebody meant otherwise. Options that a library ignores and limits that it keeps are no such lines.
const fn is_odd(kind: NoteKind) -> bool {
    matches!(
        kind,
        NoteKind::Indented
            | NoteKind::LineTooLong
            | NoteKind::NulByte
            | NoteKind::CarriageReturn
            | NoteKind::UnknownKeyword
            | NoteKind::MissingValue
            | NoteKind::NotAnAddress
            | NoteKind::CommentBecameSuffix
            | NoteKind::DefaultNameserver
    )
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of every step")]
fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let Some(conf) = view.conf() else {
        return Some(CheckOutcome::not_examined(format!("{} not recorded", layout::POD_RESOLV_CONF)));
    };
    let servers: Vec<String> = conf.nameservers.iter().map(ToString::to_string).collect();
    let has = format!("nameserver {}, ndots {}", servers.join(", "), conf.options.ndots);
    // A server outside that the manifest names is what somebody wanted.
    let own = view.subject().and_then(|subject| subject.dns()?.config.as_ref());
    let wanted = |address: &IpAddr| {
        own.is_some_and(|config| config.nameservers.iter().any(|one| one.parse() == Ok(*address)))
    };
    let bad = view.nameservers().into_iter().find_map(|address| match view.server(address) {
        Some(Server::Unowned) if wanted(&address) => None,
        Some(Server::Unowned) => Some(format!("{address} belongs to nobody that was recorded")),
        Some(Server::OtherService(key)) => Some(format!("{address} is Service {key}")),
        _ => None,
    });
    let differences = view.differences();
    let mut outcome = match (&differences, bad) {
        (_, Some(bad)) => CheckOutcome::fault(format!("{has}; {bad}")),
        (Some(differences), None) if differences.is_empty() => {
            CheckOutcome::ok(format!("what kubelet writes; {has}"))
        }
        (Some(differences), None) => {
            let told: Vec<String> = differences
                .iter()
                .map(|one| {
                    let missing = one.missing.iter().map(|value| format!("-{value}"));
                    let extra = one.extra.iter().map(|value| format!("+{value}"));
                    let values: Vec<String> = missing.chain(extra).collect();
                    format!("{:?} by {:?} {}", one.class, one.blame, values.join(" ")).to_lowercase()
                })
                .collect();
            CheckOutcome::fault(format!("not what kubelet writes ({}); {has}", told.join("; ")))
        }
        (None, None) => CheckOutcome { status: CheckStatus::Warning, ..CheckOutcome::ok(has) },
    };
    // What is not read as it is written, by this libc.
    let odd: Vec<String> = conf
        .notes
        .iter()
        .filter(|note| {
            is_odd(note.kind) || (note.kind == NoteKind::IgnoredOption && note.text.contains("`use-vc`"))
        })
        .map(|note| match note.line {
            0 => note.text.clone(),
            line => format!("{}:{line}: {}", layout::POD_RESOLV_CONF, note.text),
        })
        .collect();
    if !odd.is_empty() {
        // Kubelet's own reader is more lenient than any library.
        let line = outcome.line.replace("what kubelet writes; ", "what kubelet writes, spelled otherwise; ");
        outcome.line = format!("{line}; {}", odd.join("; "));
        if outcome.status == CheckStatus::Ok {
            outcome.status = CheckStatus::Warning;
        }
    }
    if conf.options.use_vc && !matches!(conf.dialect, Dialect::Kubelet) {
        outcome.line = format!("{}; `use-vc`: {} asks over TCP alone", outcome.line, conf.dialect);
    }
    outcome = outcome.citing([layout::POD_RESOLV_CONF]);
    let missing = view.missing(&EXPECTED_FACTS);
    if missing.is_empty() {
        outcome = outcome.citing([layout::KUBELET, layout::NODE_RESOLV_CONF]);
    } else {
        outcome = outcome.without(format!("what kubelet would write: {} not recorded", missing.join(", ")));
    }
    Some(outcome)
}
