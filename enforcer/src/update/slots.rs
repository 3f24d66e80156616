//! Numbers of the kernel for numbers that are never reused.
//!
//! A compiler numbers rulesets and entries once and for ever; the kernel's arrays end. So each number of a change
//! has a slot: the number itself while that is free, else one that nothing can refer to any more.
//!
//! Invariants: a number keeps its slot from one change to the next; a slot is not given away in the change that
//! frees it, so while two changes can be read no slot means two things, and whoever waits for the kernel's readers
//! after a change may then reuse what it freed. Slots that were never used come first, then those that were freed
//! longest ago: records of the past can be told for as long as possible, and are never told wrongly.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The places of all numbers of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    places: BTreeMap<u32, Place>,
    /// Numbers by slot.
    owners: BTreeMap<u32, u32>,
    freed: VecDeque<Freed>,
}

/// A slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot.
    pub slot: u32,
    /// The generation of the change that gave it.
    pub since: u32,
}

/// A slot that was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The slot.
    pub slot: u32,
    /// Whose it was.
    pub number: u32,
    /// The first generation in which it was.
    pub since: u32,
    /// The first generation in which it was not any more.
    pub until: u32,
}

/// There are not so many slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSlot {
    /// How many would be in use at once.
    pub needed: u64,
    /// How many there are.
    pub room: u64,
}

impl Slots {
    /// Gives every one of `numbers` a slot of `range`, beside what is in use.
    ///
    /// # Errors
    /// [`NoSlot`] when there are too few for both changes at once.
    pub fn next(
        &self,
        numbers: &BTreeSet<u32>,
        generation: u32,
        range: std::ops::Range<u32>,
    ) -> Result<Self, NoSlot> {
        let mut next = Self { freed: self.freed.clone(), ..Self::default() };
        let mut new = Vec::new();
        for number in numbers {
            match self.places.get(number).filter(|place| range.contains(&place.slot)) {
                Some(place) => next.give(*number, *place),
                None => new.push(*number),
            }
        }
        if new.is_empty() {
            next.free_rest(&self.places, generation);
            return Ok(next);
        }
        let mut never_used = NeverUsed::new(self, &range);
        let reusable = |freed: &Freed| range.contains(&freed.slot);
        for number in &new {
            let slot = never_used
                .take(*number)
                .or_else(|| {
                    let oldest = next.freed.iter().position(reusable)?;
                    next.freed.remove(oldest).map(|freed| freed.slot)
                })
                .ok_or_else(|| NoSlot {
                    needed: (self.places.len() + new.len()) as u64,
                    room: u64::from(range.end.saturating_sub(range.start)),
                })?;
            next.give(*number, Place { slot, since: generation });
        }
        next.free_rest(&self.places, generation);
        Ok(next)
    }

    fn give(&mut self, number: u32, place: Place) {
        self.places.insert(number, place);
        self.owners.insert(place.slot, number);
    }

    fn free_rest(&mut self, former: &BTreeMap<u32, Place>, until: u32) {
        let gone = former.iter().filter(|(number, _)| !self.places.contains_key(number));
        let gone = gone.map(|(number, Place { slot, since })| Freed {
            slot: *slot,
            number: *number,
            since: *since,
            until,
        });
        self.freed.extend(gone.collect::<Vec<_>>());
    }

    /// The slot of a number; `None` when it has none.
    pub fn slot(&self, number: u32) -> Option<u32> {
        self.places.get(&number).map(|place| place.slot)
    }

    /// Whose slot it was in a generation, as far as that is known.
    pub fn number(&self, slot: u32, generation: u32) -> Option<u32> {
        let owner = self
            .owners
            .get(&slot)
            .filter(|number| self.places.get(number).is_some_and(|place| place.since <= generation));
        owner.copied().or_else(|| {
            let was =
                |freed: &&Freed| freed.slot == slot && freed.since <= generation && generation < freed.until;
            self.freed.iter().find(was).map(|freed| freed.number)
        })
    }

    /// Slots that were somebody else's before, of those that `self` has and `former` has not.
    pub fn reused<'a>(&'a self, former: &'a Self) -> impl Iterator<Item = u32> + 'a {
        let before: BTreeSet<u32> = former.freed.iter().map(|freed| freed.slot).collect();
        self.places.values().map(|place| place.slot).filter(move |slot| before.contains(slot))
    }

    /// Every number in use with its place, in order.
    pub fn places(&self) -> &BTreeMap<u32, Place> {
        &self.places
    }

    /// Slots that were freed and not given away again, the oldest first.
    pub fn freed(&self) -> &VecDeque<Freed> {
        &self.freed
    }

    /// Slots as they were saved.
    pub fn from_parts(places: BTreeMap<u32, Place>, freed: VecDeque<Freed>) -> Self {
        let owners = places.iter().map(|(number, place)| (place.slot, *number)).collect();
        Self { places, owners, freed }
    }
}

/// Slots without a past.
struct NeverUsed {
    start: u32,
    free: Vec<bool>,
    /// None is free before this one.
    first: usize,
}

impl NeverUsed {
    fn new(slots: &Slots, range: &std::ops::Range<u32>) -> Self {
        let mut never = Self { start: range.start, free: vec![true; range.len()], first: 0 };
        for slot in slots.owners.keys().copied().chain(slots.freed.iter().map(|freed| freed.slot)) {
            never.claim(slot);
        }
        never
    }

    /// The number's own slot if that is free, else the first one.
    fn take(&mut self, number: u32) -> Option<u32> {
        if self.claim(number) {
            return Some(number);
        }
        let free = self.free.get(self.first..)?.iter().position(|free| *free)?;
        self.first += free;
        let slot = self.start.saturating_add(u32::try_from(self.first).ok()?);
        self.claim(slot).then_some(slot)
    }

    /// Takes a slot; false when it is not free.
    fn claim(&mut self, slot: u32) -> bool {
        let index = slot.checked_sub(self.start).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.free.get_mut(index)) {
            Some(free) => std::mem::replace(free, false),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
        numbers.into_iter().collect()
    }

    #[test]
    fn a_number_is_its_own_slot_while_that_is_free() {
        let slots = Slots::default().next(&set([1, 5, 9]), 1, 1..8).expect("room");
        assert_eq!([1, 5, 9].map(|number| slots.slot(number)), [Some(1), Some(5), Some(2)]);
    }

    #[test]
    fn a_slot_is_not_given_away_in_the_change_that_frees_it() {
        let one = Slots::default().next(&set([1, 2]), 1, 1..5).expect("room");
        let two = one.next(&set([10, 11]), 2, 1..5).expect("room");
        assert_eq!([10, 11].map(|number| two.slot(number)), [Some(3), Some(4)]);
        let three = two.next(&set([20]), 3, 1..5).expect("room");
        assert_eq!(three.slot(20), Some(1), "freed by the second change, the lower first");
        let refused = two.next(&set([30, 31, 32]), 3, 1..5).expect_err("four slots for five");
        assert_eq!(refused, NoSlot { needed: 5, room: 4 });
    }

    #[test]
    fn thousands_of_numbers_pass_through_few_slots_and_none_is_two_at_once() {
        let mut slots = Slots::default();
        for generation in 1..5_000_u32 {
            // Three numbers, each of which lives for three changes.
            let numbers = set(generation..generation + 3);
            let next = slots.next(&numbers, generation, 1..8).expect("room");
            let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
            for (number, place) in slots.places().iter().chain(next.places()) {
                let owner = *taken.entry(place.slot).or_insert(*number);
                assert_eq!(owner, *number, "slot {} in generation {generation}", place.slot);
            }
            for number in &numbers {
                let slot = next.slot(*number).expect("placed");
                assert!(slots.slot(*number).is_none_or(|before| before == slot), "it kept its slot");
                assert_eq!(next.number(slot, generation), Some(*number));
            }
            slots = next;
        }
    }

    #[test]
    fn a_record_of_the_past_is_told_rightly_or_not_at_all() {
        let one = Slots::default().next(&set([1]), 1, 1..3).expect("room");
        let two = one.next(&set([7]), 2, 1..3).expect("room");
        assert_eq!((two.number(1, 1), two.number(1, 2), two.number(2, 2)), (Some(1), None, Some(7)));
        let three = two.next(&set([9]), 3, 1..3).expect("room");
        assert_eq!((three.slot(9), three.number(1, 3), three.number(1, 1)), (Some(1), Some(9), None));
        assert_eq!(three.reused(&two).collect::<Vec<_>>(), [1]);
    }
}
