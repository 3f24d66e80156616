//! Plugins that are not there, and are missed when something goes wrong.
//!
//! Invariant: asked of the server behind the DNS Service alone, where the `kubernetes` plugin stands; a file that is
//! imported may have them.

use netlab_core::diagnostic::{Diagnostic, code};

use super::forward::forwards_all;
use super::ground::Ground;

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    for server in &ground.servers {
        let anywhere = |name: &str| server.file.blocks.iter().any(|block| block.plugin(name).is_some());
        for (index, block) in server.kubernetes() {
            if !server.file.imports.is_empty() && server.file.imports_into(index) {
                continue;
            }
            let at = block.keys.first().map(|key| key.position);
            let mut say = |note: bool, message: &str, hint: &str| {
                let diagnostic = if note {
                    Diagnostic::note(code::PLUGIN_MISSING, message)
                } else {
                    Diagnostic::warning(code::PLUGIN_MISSING, message)
                };
                found.push(server.text.place(diagnostic.with_hint(hint), at));
            };
            if !anywhere("ready") {
                let message = "no `ready`: pods get queries before they know the cluster";
                say(false, message, "add `ready`, and a readiness probe of port 8181, path /ready");
            }
            if !anywhere("health") {
                say(
                    false,
                    "no `health`: a server that hangs is not restarted",
                    "add `health`, with `lameduck 5s`",
                );
            }
            if block.plugin("errors").is_none() {
                say(false, "no `errors`: what fails at the upstream is not logged", "add `errors`");
            }
            let to_file =
                block.all("forward").any(|plugin| plugin.words().skip(1).any(|to| to.starts_with('/')));
            if to_file && block.plugin("loop").is_none() {
                let message = "no `loop`: a node file that leads back here is not noticed";
                say(true, message, "add `loop`: the server then stops at once, and says why");
            }
            if block.all("forward").any(forwards_all) && block.plugin("cache").is_none() {
                say(true, "no `cache`: every question goes to the upstream", "add `cache 30`");
            }
            let asks = [
                "forward",
                "grpc",
                "file",
                "auto",
                "secondary",
                "etcd",
                "route53",
                "azure",
                "clouddns",
                "proxy",
            ];
            let outside = block.zones().iter().any(|key| key.zone == ".");
            if outside && !asks.iter().any(|name| block.plugin(name).is_some()) {
                let message = "no `forward`: names outside of the cluster are answered SERVFAIL";
                say(true, message, "add `forward . /etc/resolv.conf`, if pods are to find names outside");
            }
            if !anywhere("reload") {
                let message = "no `reload`: changes of this file are seen by new pods alone";
                say(true, message, "add `reload`, or restart the pods after each change");
            }
        }
    }
}
