//! The DNS pods: their state, and what their logs say.
//!
//! Invariant: log lines are recognised loosely by what `CoreDNS` writes (`plugin/errors`, `plugin/loop`, `plugin/kubernetes`,
//! `plugin/reload`), never by their exact text; a line that fits nothing means nothing.

use netlab_core::model::cluster::ObjectKey;
use serde_json::Value;

use super::View;
use crate::bundle::layout;

/// How the container of a DNS pod does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerState {
    /// The pod.
    pub pod: String,
    /// `ready`.
    pub ready: bool,
    /// `restartCount`.
    pub restarts: u64,
    /// `state.waiting.reason`: `CrashLoopBackOff`.
    pub waiting: Option<String>,
    /// `lastState.terminated.reason` (or that of `state`): `OOMKilled`, `Error`.
    pub ended: Option<String>,
    /// `lastState.terminated.finishedAt`.
    pub ended_at: Option<String>,
}

/// What kinds of lines logs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogClass {
    /// `plugin/loop` saw its own question come back.
    Loop,
    /// The Corefile cannot be parsed, or names something that is not there.
    Corefile,
    /// `plugin/reload` kept the old configuration.
    ReloadFailed,
    /// `plugin/kubernetes` waits for the API, or lists and watches fail.
    Unsynced,
    /// The API refuses: RBAC.
    Forbidden,
    /// A question to an upstream timed out.
    UpstreamTimeout,
    /// An upstream refused, or no route leads there.
    UpstreamRefused,
    /// An upstream's answer did not fit or could not be unpacked.
    Overflow,
    /// No plugin takes the question.
    NoNextPlugin,
    /// A limit of concurrent questions was reached.
    Concurrency,
    /// No file descriptor is left for another socket (`EMFILE`).
    NoSocketLeft,
}

/// A line of a log that means something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine<'e> {
    /// What kind.
    pub class: LogClass,
    /// The line, from 1.
    pub line: usize,
    /// As written.
    pub text: &'e str,
}

impl<'e> View<'e> {
    /// The containers of the DNS pods.
    #[must_use]
    pub fn dns_containers(&self) -> Vec<ContainerState> {
        self.dns_pods().iter().flat_map(|(key, _)| self.containers(key)).collect()
    }

    /// The containers of a pod.
    #[must_use]
    pub fn containers(&self, key: &ObjectKey) -> Vec<ContainerState> {
        let Some(status) = self.pod_object(key).and_then(|pod| pod.status.as_ref()) else {
            return Vec::new();
        };
        let all = status.unknown.get("containerStatuses").and_then(Value::as_array);
        let all = all.map(Vec::as_slice).unwrap_or_default();
        let text =
            |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        all.iter()
            .map(|one| ContainerState {
                pod: key.to_string(),
                ready: one.get("ready").and_then(Value::as_bool).unwrap_or(false),
                restarts: one.get("restartCount").and_then(Value::as_u64).unwrap_or(0),
                waiting: text(one, "/state/waiting/reason"),
                ended: text(one, "/lastState/terminated/reason")
                    .or_else(|| text(one, "/state/terminated/reason")),
                ended_at: text(one, "/lastState/terminated/finishedAt"),
            })
            .collect()
    }

    /// The telling lines of the DNS pods' logs, in order; empty when they were not recorded.
    #[must_use]
    pub fn dns_log(&self) -> Vec<LogLine<'e>> {
        log_lines(self.text(layout::DNS_LOG).unwrap_or_default())
    }

    /// The first line of a kind.
    #[must_use]
    pub fn logged(&self, class: LogClass) -> Option<LogLine<'e>> {
        self.dns_log().into_iter().find(|line| line.class == class)
    }

    /// The value of a metric of the DNS pods, summed over its lines that have every one of these labels.
    #[must_use]
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let text = self.text(layout::DNS_METRICS)?;
        let mut sum = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((key, value)) = line.trim().rsplit_once(' ') else { continue };
            let (found, set) = key.split_once('{').unwrap_or((key, ""));
            let has = |(label, value): &(&str, &str)| set.contains(&format!("{label}=\"{value}\""));
            if found == name && labels.iter().all(has) {
                sum = Some(sum.unwrap_or(0.0) + value.parse::<f64>().unwrap_or(0.0));
            }
        }
        sum
    }
}

/// The telling lines of a log.
#[must_use]
pub fn log_lines(text: &str) -> Vec<LogLine<'_>> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(number, text)| Some(LogLine { class: class(text)?, line: number + 1, text })).collect()
}

fn class(line: &str) -> Option<LogClass> {
    let lower = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().all(|word| lower.contains(word));
    Some(match () {
        () if has(&["loop", "detected"]) => LogClass::Loop,
        () if has(&["reload", "fail"]) || has(&["not reloading"]) || has(&["keeping the old"]) => {
            LogClass::ReloadFailed
        }
        () if has(&["unknown directive"])
            || has(&["corefile", "error during parsing"])
            || has(&["error during parsing"]) =>
        {
            LogClass::Corefile
        }
        () if has(&["forbidden"]) => LogClass::Forbidden,
        () if has(&["waiting for kubernetes api"])
            || has(&["plugin/kubernetes", "unsynced"])
            || has(&["failed to list"])
            || has(&["failed to watch"])
            || has(&["kubernetes api connection failure"])
            || has(&["still waiting on", "kubernetes"]) =>
        {
            LogClass::Unsynced
        }
        () if has(&["concurrent"])
            && (lower.contains("max") || lower.contains("exceeded") || lower.contains("reached")) =>
        {
            LogClass::Concurrency
        }
        () if has(&["overflow"]) || has(&["unpacking"]) => LogClass::Overflow,
        () if has(&["no next plugin"]) => LogClass::NoNextPlugin,
        () if has(&["plugin/errors", "too many open files"]) => LogClass::NoSocketLeft,
        () if has(&["plugin/errors", "timeout"]) => LogClass::UpstreamTimeout,
        () if has(&["plugin/errors", "connection refused"])
            || has(&["unreachable backend"])
            || has(&["plugin/errors", "no route to host"])
            || has(&["plugin/errors", "network is unreachable"]) =>
        {
            LogClass::UpstreamRefused
        }
        () => return None,
    })
}
