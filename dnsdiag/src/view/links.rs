//! The pod's own links, as `ip address` shows them in its namespace.
//!
//! Invariant: a link is called down only by its flags; a pod whose links were not recorded has none that are down.

use super::View;
use crate::bundle::layout;

impl View<'_> {
    /// What of the pod's own links keeps it from the network: `eth0 is down`, `eth0 has no carrier: the other end of it is down`,
    /// `there is no interface but lo`. `None` when one of them works, or nobody looked.
    #[must_use]
    pub fn cut_off(&self) -> Option<String> {
        // A pod on its node's network has no links of its own.
        if self.subject().is_some_and(|subject| subject.host_network()) {
            return None;
        }
        let text = self.text(layout::POD_ROUTES)?;
        let links: Vec<(&str, &str)> =
            text.lines().filter_map(link).filter(|(name, _)| *name != "lo").collect();
        if links.is_empty() {
            // A text without any link, not even the loopback, is of something else.
            return text
                .lines()
                .any(|line| link(line).is_some())
                .then(|| "there is no interface but lo".to_owned());
        }
        let mut words = Vec::new();
        for (name, flags) in links {
            let has = |flag: &str| flags.split(',').any(|one| one == flag);
            if !has("UP") {
                words.push(format!("{name} is down"));
            } else if has("NO-CARRIER") || has("M-DOWN") {
                words.push(format!("{name} has no carrier: its other end is down"));
            } else {
                return None;
            }
        }
        Some(words.join(", "))
    }
}

/// Name and flags of `2: eth0@if5: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 …` (ip-address(8)).
fn link(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(": ")?;
    number.parse::<u32>().ok()?;
    let (name, rest) = rest.split_once(": <")?;
    let (flags, _) = rest.split_once('>')?;
    Some((name.split('@').next().unwrap_or(name), flags))
}
