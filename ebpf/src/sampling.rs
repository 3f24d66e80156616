//! Which denied packets are reported when there are more than anybody can read.
//!
//! Each hook has a budget on each CPU: a burst, and then one report in each [`INTERVAL`]. A part of the burst is kept
//! for news: a packet that was denied by another entry than the one before it. Invariants: the first packet of a
//! hook, the first that an entry denies, and the first by another entry after a flood are reported; whatever is not
//! is counted by the caller. A decision never depends on any of this.

/// Nanoseconds after which a hook may report once more: some sixty reports a second.
pub const INTERVAL: u64 = 1 << 24;
/// How many packets denied by the same entry are reported at once.
pub const BURST: u64 = 16;
/// How many more are, when each is denied by another entry than the one before it.
pub const NEWS: u64 = 16;

/// Whether to report at `now`, given when the budget is due to be whole again: the new due time if so. Both in
/// nanoseconds of a clock that never goes back.
#[inline(always)]
#[must_use]
pub const fn admit(due: u64, now: u64, news: bool) -> Option<u64> {
    let burst = if news { BURST + NEWS } else { BURST };
    let due = if due > now { due } else { now };
    if due - now < burst * INTERVAL { Some(due + INTERVAL) } else { None }
}
