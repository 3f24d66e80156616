//! What is reported of a flood.

use netlab_ebpf::sampling::{BURST, INTERVAL, NEWS, admit};

/// The packets that are told of `packets`, one every `step` nanoseconds; `news` says which are.
fn told(start: u64, step: u64, packets: u64, news: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut due = 0;
    let mut told = Vec::new();
    for packet in 0..packets {
        if let Some(next) = admit(due, start + packet * step, news(packet)) {
            due = next;
            told.push(packet);
        }
    }
    told
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).expect("a number")
}

#[test]
fn a_flood_gets_its_burst_and_then_one_report_in_each_interval() {
    let second = 1_000_000_000;
    let told = told(second, 1_000, 1_000_000, |_| false);
    let (burst, later): (Vec<u64>, Vec<u64>) = told.iter().partition(|packet| **packet < BURST);
    assert_eq!(count(&burst), BURST);
    assert!(count(&later).abs_diff(second / INTERVAL) <= 1, "{} in the rest of the second", later.len());
}

#[test]
fn what_is_slow_is_told_whole() {
    assert_eq!(told(0, INTERVAL, 10_000, |_| false).len(), 10_000);
}

#[test]
fn another_entry_is_told_in_the_middle_of_a_flood() {
    let told = told(7, 1_000, 100_000, |packet| packet == 50_000);
    assert!(told.contains(&50_000));
    assert!(!told.contains(&50_001));
}

#[test]
fn alternating_entries_are_bounded_too() {
    // All at one moment: the budget does not grow meanwhile.
    assert_eq!(count(&told(0, 0, 1_000_000, |_| true)), BURST + NEWS);
}

#[test]
fn rest_restores_the_whole_burst() {
    let (mut due, mut now) = (0, 0);
    while let Some(next) = admit(due, now, false) {
        due = next;
    }
    now += BURST * INTERVAL;
    let mut again = 0;
    while let Some(next) = admit(due, now, false) {
        due = next;
        again += 1;
    }
    assert_eq!(again, BURST, "and no more than it");
}
