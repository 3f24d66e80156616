//! The writer of the flip drill: a process of its own, which dies when it is told to.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use netlab_core::policy::change::Change;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_enforcer::pins::PinPlace;
use netlab_enforcer::update::step::Steps;
use netlab_node::Netns;
use netlab_plugin::contract::Backend as _;
use nix::sys::signal::{Signal, raise};

use crate::flip_world::OPTIONS;

/// Tells the test binary that it is the writer.
pub(crate) const WRITER: &str = "NETLAB_DRILL_WRITER";

/// The writer: takes over what is in force, then makes the changes that it is told.
#[test]
#[ignore = "the drill runs it as a process of its own"]
fn the_writer() {
    let Ok(order) = std::env::var(WRITER) else { return };
    let [netns, bpffs, state, kill]: [String; 4] = serde_json::from_str(&order).expect("an order");
    let left = Arc::new(AtomicUsize::new(kill.parse().unwrap_or(usize::MAX)));
    let counted = Arc::clone(&left);
    let steps = Steps::followed(move |_| {
        if counted.fetch_sub(1, Ordering::Relaxed) == 0 {
            let _ = raise(Signal::SIGKILL);
        }
    });
    let place = PinPlace { bpffs: bpffs.into(), state: state.into() };
    let netns = Netns::from_path(netns).expect("the node");
    let mut backend = TcBackend::open_followed(netns, &place, &OPTIONS, steps).expect("taken over");
    let mut out = std::io::stdout();
    let mut say = |generation: u32| {
        writeln!(out, "\nin force {generation}").and_then(|()| out.flush()).expect("heard");
    };
    say(backend.change().map_or(0, |change| change.generation));
    for line in std::io::stdin().lines() {
        let (kill, change): (usize, Change) = serde_json::from_str(&line.expect("a line")).expect("a change");
        left.store(kill, Ordering::Relaxed);
        backend.apply(&change).expect("applied");
        left.store(usize::MAX, Ordering::Relaxed);
        if change.generation.is_multiple_of(8) {
            let drift = backend.observe().expect("observation").drift;
            assert!(drift.is_empty(), "{drift:?}");
        }
        say(change.generation);
    }
}
