//! Answers that are assumed when none are known: one name exists, and that is the one that was meant.
//!
//! Invariant: what is assumed is said ([`Assumed::words`]); a name is never assumed to exist because a libc happens to
//! ask for it. In a cluster the meant name follows from the Kubernetes DNS schema and the pod's suffixes; elsewhere it
//! is the name as it is, or with the first suffix if it has no dot.

use crate::answers::{Answer, Answers, Question};
use crate::resolv_conf::{Dialect, read};
use crate::version::Version;

/// Servers that answer at once, and know one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// The name that exists, with its final dot.
    pub exists: String,
}

impl Assumed {
    /// The name that is meant by `name` in a pod with this file.
    pub fn meant(name: &str, resolv_conf: &[u8]) -> Self {
        // The whole search list, whichever library would lose some of it.
        let conf = read(resolv_conf, Dialect::Go(Version::new(1, 26, 0)));
        let bare = name.strip_suffix('.').unwrap_or(name);
        let suffix =
            |wanted: &dyn Fn(&str) -> bool| conf.search.iter().find(|suffix| wanted(suffix.as_str()));
        let labels: Vec<&str> = bare.split('.').collect();
        let found = match labels.as_slice() {
            _ if name.ends_with('.') => None,
            // A Service of the pod's namespace: `NAMESPACE.svc.DOMAIN`.
            [_] => suffix(&|suffix| suffix.split('.').nth(1) == Some("svc")).or_else(|| conf.search.first()),
            // A Service of another namespace: `svc.DOMAIN`. Names such as `example.com` look the same; the second
            // label is taken for a namespace only when it is no public ending.
            [_, second] if !is_public_ending(second) => suffix(&|suffix| suffix.starts_with("svc.")),
            [.., "svc"] => suffix(&|suffix| suffix.starts_with("svc."))
                .and_then(|svc| svc.strip_prefix("svc."))
                .and_then(|domain| conf.search.iter().find(|suffix| *suffix == domain)),
            _ => None,
        };
        Self { exists: found.map_or_else(|| format!("{bare}."), |suffix| format!("{bare}.{suffix}")) }
    }

    /// In words.
    pub fn words(&self) -> String {
        format!(
            "{} exists, with an IPv4 and an IPv6 address; no other name does; every server answers at once",
            self.exists
        )
    }
}

/// Endings that a namespace is unlikely to be named after.
fn is_public_ending(label: &str) -> bool {
    let common = ["com", "net", "org", "edu", "gov", "mil", "int", "info", "biz", "name", "cloud"];
    label.len() == 2 || ["io", "dev", "app"].contains(&label) || common.contains(&label)
}

impl Answers for Assumed {
    fn answer(&self, question: &Question<'_>) -> Answer {
        let same = question.name.eq_ignore_ascii_case(&self.exists);
        if same { Answer::Addresses } else { Answer::NxDomain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_in_a_pod() {
        let pod = b"search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\n";
        for (name, meant) in [
            ("api", "api.shop.svc.cluster.local."),
            ("api.billing", "api.billing.svc.cluster.local."),
            ("api.billing.svc", "api.billing.svc.cluster.local."),
            ("api.billing.svc.cluster.local", "api.billing.svc.cluster.local."),
            ("example.com", "example.com."),
            ("www.example.com", "www.example.com."),
            ("api.", "api."),
        ] {
            assert_eq!(Assumed::meant(name, pod).exists, meant, "{name}");
        }
        assert_eq!(Assumed::meant("host", b"search corp.example\n").exists, "host.corp.example.");
        assert_eq!(Assumed::meant("host", b"").exists, "host.");
    }
}
