//! [`Wheel`]: a hierarchical timing wheel in nanoseconds.
//!
//! The base-64 digits of an instant determine the slot of a value (Varghese and Lauck 1987, scheme 7). Its
//! level is that of the highest digit that differs from the wheel's current instant; its slot is the value of
//! that digit. The lowest occupied slot of the lowest occupied level contains the earliest value. A slot of
//! level 0 is one nanosecond. When a slot of a higher level becomes the earliest, its values are distributed to
//! the levels below, in order, so that values due at the same instant keep the order of insertion.

use spindle_units::Instant;

use super::EventQueue;

/// The number of base-64 digits of a 64-bit instant.
const LEVELS: usize = 11;
/// The number of bits of a digit.
const BITS: u32 = 6;
/// The number of slots of a level.
const SLOTS: usize = 1 << BITS;
/// The largest capacity with which a slot's buffer is kept for reuse. A buffer that a burst made larger is
/// freed.
const KEEP: usize = 1 << 8;
/// A slot of level 2 with more values than this does not become near as a whole, but in parts: the slots of
/// level 1 below it.
const MANY: usize = 512;

/// A monotone timing wheel of 11 levels by 64 slots. Pushing and popping take constant time, independent of the
/// number of values. Values should be small, because each is moved about once per level.
#[derive(Clone, Debug)]
pub struct Wheel<T> {
    /// Slot `s` of level `l` is at `l * SLOTS + s`.
    slots: Box<[Vec<Entry<T>>]>,
    /// Bit `s` of `occupied[l]`: slot `s` of level `l` is not empty.
    occupied: [u64; LEVELS],
    /// Bit `l`: level `l` is not empty.
    levels: u32,
    /// The last popped instant, or the first instant of the slot distributed since. No value is due before it.
    current: u64,
    /// How many values of the level 0 slot of `current` have been popped.
    taken: usize,
    len: usize,
    /// The buffer of the last distributed slot, which the next distributed slot will use.
    dealt: Vec<Entry<T>>,
    /// Whether near values must be recorded.
    watched: bool,
    /// Values that became near and were not shown yet.
    near: Vec<T>,
    /// All values that were waiting for instants up to this one have become near.
    near_to: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: u64,
    value: T,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self {
            slots: (0..LEVELS * SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; LEVELS],
            levels: 0,
            current: 0,
            taken: 0,
            len: 0,
            dealt: Vec::new(),
            watched: false,
            near: Vec::new(),
            near_to: 0,
        }
    }
}

impl<T: Copy> Wheel<T> {
    #[inline]
    fn place(&mut self, entry: Entry<T>) {
        // The lowest bit is set so that equal instants fall into level 0.
        let differs = (entry.at ^ self.current) | 1;
        let level = ((63 - differs.leading_zeros()) / BITS) as usize;
        let slot = ((entry.at >> (level as u32 * BITS)) as usize) & (SLOTS - 1);
        self.slots[level * SLOTS + slot].push(entry);
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
    }

    /// Distributes the entries of a slot of level 1. All of them belong to level 0.
    #[inline]
    fn place_at_once(&mut self, entries: &[Entry<T>]) {
        let nearest = &mut self.slots[..SLOTS];
        let mut occupied = 0;
        for entry in entries {
            let slot = entry.at as usize % SLOTS;
            nearest[slot].push(*entry);
            occupied |= 1 << slot;
        }
        self.occupied[0] |= occupied;
        self.levels |= 1;
    }

    /// Marks a slot as empty.
    #[inline]
    fn vacate(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        self.levels &= !(u32::from(self.occupied[level] == 0) << level);
    }

    /// Level and slot of the earliest value.
    #[inline]
    fn earliest(&self) -> Option<(usize, usize)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }

    /// The instant of level 0's `slot`.
    #[inline]
    fn instant_of(&self, slot: usize) -> u64 {
        (self.current & !(SLOTS as u64 - 1)) | slot as u64
    }

    /// The first and the last instant of a slot of a level, as seen from the current instant.
    #[inline]
    fn span(&self, level: usize, slot: usize) -> (u64, u64) {
        let shift = level as u32 * BITS;
        let above = u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        let first = (self.current & above) | (slot as u64) << shift;
        (first, first | ((1 << shift) - 1))
    }

    /// The earliest instant in a non-empty slot of a level above 0.
    fn minimum(&self, level: usize, slot: usize) -> u64 {
        let entries = &self.slots[level * SLOTS + slot];
        entries.iter().map(|e| e.at).min().unwrap_or(u64::MAX)
    }

    /// Records that the values of a distributed slot are near, unless they became near with a slot above it.
    #[inline]
    fn note(&mut self, level: usize, slot: usize, entries: &[Entry<T>]) {
        let (_, last) = self.span(level, slot);
        if last > self.near_to {
            self.near_to = last;
            self.near.clear();
            self.near.extend(entries.iter().map(|e| e.value));
        }
    }

    /// Distributes the earliest slot, which is above level 0, to the levels below. `first` is its first
    /// instant.
    fn cascade(&mut self, level: usize, slot: usize, first: u64) {
        self.current = first;
        self.vacate(level, slot);
        let index = level * SLOTS + slot;
        let mut entries = std::mem::take(&mut self.dealt);
        entries.clear();
        std::mem::swap(&mut entries, &mut self.slots[index]);
        if level == 1 {
            self.place_at_once(&entries);
        } else {
            for entry in &entries {
                self.place(*entry);
            }
        }
        if self.watched && entries.len() > 1 && (level == 1 || level == 2 && entries.len() <= MANY)
        {
            self.note(level, slot, &entries);
        }
        if entries.capacity() <= KEEP {
            self.dealt = entries;
        }
    }
}

impl<T: Copy> EventQueue<T> for Wheel<T> {
    #[inline]
    fn push(&mut self, at: Instant, value: T) {
        let at = at.as_nanos().max(self.current);
        self.len += 1;
        self.place(Entry { at, value });
    }

    #[inline]
    fn pop_until(&mut self, limit: Instant) -> Option<(Instant, T)> {
        let limit = limit.as_nanos();
        loop {
            let (level, slot) = self.earliest()?;
            if level > 0 {
                let (first, last) = self.span(level, slot);
                if last > limit && self.minimum(level, slot) > limit {
                    return None;
                }
                // A value that is alone in the earliest slot is the earliest of all values.
                let entries = &mut self.slots[level * SLOTS + slot];
                if entries.len() == 1
                    && let Some(entry) = entries.pop()
                {
                    self.vacate(level, slot);
                    self.current = entry.at;
                    self.len -= 1;
                    return Some((Instant::from_nanos(entry.at), entry.value));
                }
                self.cascade(level, slot, first);
                continue;
            }
            let at = self.instant_of(slot);
            if at > limit {
                return None;
            }
            self.current = at;
            let entries = &mut self.slots[slot];
            let value = entries[self.taken].value;
            self.taken += 1;
            if self.taken == entries.len() {
                match entries.capacity() {
                    0..=KEEP => entries.clear(),
                    _ => *entries = Vec::new(),
                }
                self.taken = 0;
                self.vacate(0, slot);
            }
            self.len -= 1;
            return Some((Instant::from_nanos(at), value));
        }
    }

    fn watch(&mut self) {
        self.watched = true;
    }

    #[inline]
    fn approaching(&mut self, see: impl FnMut(T)) {
        self.near.drain(..).for_each(see);
    }

    fn peek(&self) -> Option<Instant> {
        let (level, slot) = self.earliest()?;
        Some(Instant::from_nanos(match level {
            0 => self.instant_of(slot),
            _ => self.minimum(level, slot),
        }))
    }

    fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::super::HeapQueue;
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn values_due_at_the_same_instant_keep_the_order_of_insertion() {
        let mut wheel = Wheel::default();
        // Some of the values are inserted long before the instant, some shortly before and some at the instant.
        for value in 0..5 {
            wheel.push(at(1_000_000), value);
        }
        wheel.push(at(999_990), 100);
        assert_eq!(wheel.pop(), Some((at(999_990), 100)));
        for value in 5..8 {
            wheel.push(at(1_000_000), value);
        }
        assert_eq!(wheel.pop(), Some((at(1_000_000), 0)));
        wheel.push(at(1_000_000), 8);
        let rest: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|(_, v)| v).collect();
        assert_eq!(rest, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    /// The values that a watched wheel shows while the values at `times` are popped one by one.
    fn shown(times: impl Iterator<Item = u64>) -> Vec<Vec<u64>> {
        let mut wheel = Wheel::default();
        wheel.watch();
        times.for_each(|t| wheel.push(at(t), t));
        let mut shown = Vec::new();
        while wheel.pop().is_some() {
            let mut near = Vec::new();
            wheel.approaching(|t| near.push(t));
            if !near.is_empty() {
                shown.push(near);
            }
        }
        shown
    }

    #[test]
    fn watched_wheel_shows_each_value_once_few_together_and_many_in_parts() {
        let few: Vec<u64> = (4200..8000).step_by(100).collect();
        assert_eq!(shown(few.iter().copied()), [few]);
        // The first 64 ns of a distributed slot are due at once.
        let many = shown(4096..8192);
        assert_eq!(many.len(), 63, "a part for each other slot of level 1");
        assert!(many.iter().all(|part| part.len() == SLOTS));
        assert!(many.concat().into_iter().eq(4160..8192));
    }

    #[test]
    fn failed_pop_until_allows_earlier_values_to_be_pushed() {
        let mut wheel = Wheel::default();
        wheel.push(at(100_000), 'b');
        assert_eq!(wheel.pop_until(at(99_999)), None);
        wheel.push(at(10), 'a');
        assert_eq!(wheel.peek(), Some(at(10)));
        assert_eq!(wheel.pop_until(at(10)), Some((at(10), 'a')));
        assert_eq!(wheel.pop_until(at(100_000)), Some((at(100_000), 'b')));
        assert!(wheel.is_empty());
    }

    #[test]
    fn all_64_bit_instants_are_accepted() {
        let mut wheel = Wheel::default();
        let times = [0, 1, 63, 64, 4095, 4096, 1 << 40, u64::MAX - 1, u64::MAX];
        for &t in times.iter().rev() {
            wheel.push(at(t), t);
        }
        let popped: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|(_, v)| v).collect();
        assert_eq!(popped, times);
    }

    #[test]
    fn value_pushed_for_the_past_is_due_at_once() {
        let mut wheel = Wheel::default();
        wheel.push(at(50), 'a');
        wheel.pop();
        wheel.push(at(7), 'b');
        assert_eq!(wheel.pop(), Some((at(50), 'b')));
    }

    /// The next step: push a value this far ahead of the last popped instant, or pop until this far ahead.
    #[derive(Clone, Debug)]
    enum Step {
        Push(u64),
        Pop(u64),
    }

    fn ahead() -> impl Strategy<Value = u64> {
        prop_oneof![0..4u64, 0..200u64, 0..10_000u64, 0..1u64 << 40]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![3 => ahead().prop_map(Step::Push), 2 => ahead().prop_map(Step::Pop)]
    }

    proptest! {
        #[test]
        fn wheel_agrees_with_the_heap(steps in prop::collection::vec(step(), 1..400)) {
            let mut wheel = Wheel::default();
            let mut heap = HeapQueue::default();
            let mut now = 0u64;
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(ahead) => {
                        wheel.push(at(now + ahead), number);
                        heap.push(at(now + ahead), number);
                    }
                    Step::Pop(ahead) => {
                        let popped = wheel.pop_until(at(now + ahead));
                        prop_assert_eq!(popped, heap.pop_until(at(now + ahead)));
                        now = popped.map_or(now, |(t, _)| t.as_nanos());
                    }
                }
                prop_assert_eq!(wheel.peek(), heap.peek());
                prop_assert_eq!(wheel.len(), heap.len());
            }
            while let Some(popped) = heap.pop() {
                prop_assert_eq!(wheel.pop(), Some(popped));
            }
            prop_assert!(wheel.is_empty());
        }
    }
}
