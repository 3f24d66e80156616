//! F65: a line of `resolv.conf` is longer than musl's buffer, and musl skips the whole of it.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::resolv_conf::{Dialect, NoteKind, read};
use crate::view::{Ask, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F65",
    id: "MUSL-LINE-LIMIT",
    class: Class::DnsConfig,
    title: "musl skips a line of resolv.conf that is longer than 255 bytes",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied, Effect::Error, Effect::Lost],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    if view.is_musl() != Some(true) {
        return None;
    }
    let conf = view.conf()?;
    let note = conf.notes.iter().find(|note| note.kind == NoteKind::LineTooLong)?;
    let text = view.text(layout::POD_RESOLV_CONF)?;
    let line = text.lines().nth(usize::try_from(note.line).ok()?.checked_sub(1)?)?;
    let is_search = line.starts_with("search") || line.starts_with("domain");
    let is_server = line.starts_with("nameserver");
    if !(is_search || is_server) {
        return None;
    }
    // Names that are found as they are need no search list.
    let mut denied = Vec::new();
    for name in &view.target.names {
        let rows: Vec<_> = view.tried(name).iter().flat_map(|full| view.questions(full)).collect();
        if rows.iter().any(|(_, probe)| probe.result == Outcome::Noerror && !probe.answers.is_empty()) {
            return None;
        }
        denied.extend(rows);
    }
    if denied.is_empty() {
        return None;
    }
    // Whether the line would have led to a name: a suffix of it, or a nameserver.
    let whole = read(text.as_bytes(), Dialect::Kubelet).search;
    let mut leads = false;
    for name in view.target.names.iter().filter(|_| is_search) {
        for suffix in &whole {
            let full = format!("{}.{}.", name.trim_end_matches('.'), suffix.trim_end_matches('.'));
            let told = view
                .rows(&Ask::default())
                .into_iter()
                .any(|(_, probe)| probe.name.eq_ignore_ascii_case(&full) && !probe.addresses().is_empty());
            let truth = view.truth(&full).and_then(|truth| truth.exists());
            leads |= told || truth == Some(true);
        }
    }
    if is_search && !leads {
        return None;
    }
    let summary = format!("musl skips line {}: {} bytes are too long", note.line, line.len());
    Some(
        Hit::high(summary)
            .because(format!(
                "{}:{} has {} bytes, and musl reads 255 at most: {}",
                layout::POD_RESOLV_CONF,
                note.line,
                line.len(),
                if is_search { "no search domain is tried at all" } else { "the line is lost" }
            ))
            .because("glibc and Go read the whole line")
            .citing([layout::POD_RESOLV_CONF])
            .citing(row_ids(&denied))
            .fix("shorten the search list (dnsConfig.searches, the node's file), or write whole names")
            .verify(format!(
                "netlab dns plan NAME --resolv-conf {} --libc musl --compare",
                layout::POD_RESOLV_CONF
            )),
    )
}
