//! Which random worlds a test makes: the same ones on every run and some that vary, or those that the environment asks
//! for.

/// Seeds, and how many worlds each gives.
pub(crate) struct Seeds {
    pub(crate) list: Vec<u64>,
    pub(crate) worlds: usize,
    /// True when the environment decided: then a run is as long as it is, and nothing is said about its shares.
    pub(crate) asked_for: bool,
}

impl Seeds {
    /// One seed that is always the same and one that varies, with so many worlds each; or the seed `NETLAB_SEED` alone,
    /// with `NETLAB_WORLDS` worlds.
    pub(crate) fn new(fixed: u64, worlds: usize) -> Self {
        let asked_for = number("NETLAB_SEED");
        let list = asked_for.map_or_else(|| vec![fixed, fastrand::u64(1000..)], |seed| vec![seed]);
        for seed in &list {
            eprintln!("NETLAB_SEED={seed}");
        }
        let worlds =
            number("NETLAB_WORLDS").and_then(|worlds| usize::try_from(worlds).ok()).unwrap_or(worlds);
        Self { list, worlds, asked_for: asked_for.is_some() }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
