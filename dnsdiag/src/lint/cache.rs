//! Answers that are kept too long, and a plugin that needs to know pods.
//!
//! Sources: `plugin/cache` (SERVFAIL 5 s, negative answers at most 1800 s), `plugin/autopath`, `plugin/kubernetes` (ttl 5).

use netlab_core::diagnostic::{Diagnostic, code};

use super::ground::Ground;
use crate::corefile::{Property, Token, go_duration};

/// Seconds for which a wrong answer may stay.
const LONG: i64 = 60;
/// Seconds for which addresses of endpoints may stay.
const LONG_TTL: i64 = 300;

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    let number = |token: Option<&Token>| token.and_then(|token| token.text.parse::<i64>().ok());
    for server in &ground.servers {
        let mut say = |diagnostic: Diagnostic, hint: &str, at: &Token| {
            found.push(server.text.place(diagnostic.with_hint(hint), Some(at.position)));
        };
        for block in &server.file.blocks {
            let Some(cache) = block.plugin("cache") else { continue };
            let first = |property: &Property| property.arguments.first().cloned();
            if let Some(servfail) = cache.property("servfail")
                && let Some(written) = first(servfail)
                && go_duration(&written.text).is_some_and(|seconds| seconds > 30.0)
            {
                let message =
                    format!("one failure of the upstream is repeated from memory for {}", written.text);
                let hint = "the default is 5s; longer turns a blip into an outage";
                say(Diagnostic::warning(code::CACHE_LONG, message), hint, &servfail.name);
            }
            for (name, what) in [("denial", "that a name does not exist"), ("success", "addresses")] {
                let Some(property) = cache.property(name) else { continue };
                if let Some(least) = number(property.arguments.get(2)).filter(|seconds| *seconds > LONG) {
                    let message =
                        format!("{what} is remembered for at least {least} s, whatever the answer says");
                    let hint = "the third number is the least TTL: 5 is the default";
                    say(Diagnostic::warning(code::CACHE_LONG, message), hint, &property.name);
                }
            }
        }
        for (_, block) in server.kubernetes() {
            let Some(kubernetes) = block.plugin("kubernetes") else { continue };
            if let Some(ttl) = kubernetes.property("ttl") {
                match number(ttl.arguments.first()) {
                    Some(0) => {
                        let message = "records of the cluster with TTL 0 are never cached, by anybody";
                        let hint = "5 is the default, 30 is what kubeadm writes";
                        say(Diagnostic::warning(code::RECORD_TTL, message), hint, &ttl.name);
                    }
                    Some(seconds) if seconds > LONG_TTL => {
                        let message = format!(
                            "clients may keep the address of an endpoint for {seconds} s after it is gone"
                        );
                        let hint = "5 is the default, 30 is what kubeadm writes";
                        say(Diagnostic::warning(code::RECORD_TTL, message), hint, &ttl.name);
                    }
                    _ => {}
                }
            }
            let verified = kubernetes
                .property("pods")
                .is_some_and(|pods| pods.arguments.first().is_some_and(|mode| mode.text == "verified"));
            for autopath in block.all("autopath") {
                if autopath.words().any(|word| word == "@kubernetes") && !verified {
                    let message = "`autopath @kubernetes` does not know pods: it does nothing";
                    let hint = "write `pods verified` in `kubernetes` (it costs memory per pod), or take `autopath` away";
                    say(Diagnostic::warning(code::AUTOPATH_UNVERIFIED, message), hint, &autopath.name);
                }
            }
        }
    }
}
