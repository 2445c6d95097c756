//! [`Wheel`]: a hierarchical timing wheel in nanoseconds.
//!
//! The digits of an instant in base 64 say where it waits (Varghese and Lauck 1987, scheme 7): at
//! the level of its highest digit that differs from the wheel's current instant, in the slot of
//! that digit. The lowest slot of the lowest level that holds anything holds the earliest value.
//! A slot of level 0 is one nanosecond; a higher slot, once it is the earliest, is dealt out to the
//! levels below, in order, so that ties keep the order in which they were pushed.

use spindle_units::Instant;

use super::EventQueue;

/// Base-64 digits of a 64-bit instant.
const LEVELS: usize = 11;
/// Bits of a digit.
const BITS: u32 = 6;
/// Slots of a level.
const SLOTS: usize = 1 << BITS;
/// A slot's buffer keeps its memory for reuse up to this many entries; what one burst made larger
/// than that is given back.
const KEEP: usize = 1 << 8;
/// Slots of level 2 with more values than this come near part by part, as those of level 1 below them.
const MANY: usize = 512;

/// A monotone timing wheel of 11 levels by 64 slots. Pushing and popping take constant time,
/// however many values wait. Values should be small: they are moved about once per level.
#[derive(Clone, Debug)]
pub struct Wheel<T> {
    /// Slot `s` of level `l` is at `l * SLOTS + s`.
    slots: Box<[Vec<Entry<T>>]>,
    /// Bit `s` of `occupied[l]`: slot `s` of level `l` holds something.
    occupied: [u64; LEVELS],
    /// Bit `l`: level `l` holds something.
    levels: u32,
    /// The last instant popped, or the first one of the slot dealt out since: nothing is due before it.
    current: u64,
    /// How much of the level 0 slot of `current` has been popped already.
    taken: usize,
    len: usize,
    /// The last slot dealt out; its buffer is the next one's.
    dealt: Vec<Entry<T>>,
    /// Whether it is to be known what comes near.
    watched: bool,
    /// What has come near and was not shown yet.
    near: Vec<T>,
    /// All that waited up to this instant has come near.
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

    /// Deals the entries of a slot of level 1 out: they all belong to level 0.
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

    /// The first and the last instant of a slot of a level, seen from the present.
    #[inline]
    fn span(&self, level: usize, slot: usize) -> (u64, u64) {
        let shift = level as u32 * BITS;
        let above = u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        let first = (self.current & above) | (slot as u64) << shift;
        (first, first | ((1 << shift) - 1))
    }

    /// The earliest instant in a slot of a level above 0, which is not empty.
    fn minimum(&self, level: usize, slot: usize) -> u64 {
        let entries = &self.slots[level * SLOTS + slot];
        entries.iter().map(|e| e.at).min().unwrap_or(u64::MAX)
    }

    /// The values of a slot that is dealt out come near, unless a slot above it was near already.
    #[inline]
    fn note(&mut self, level: usize, slot: usize, entries: &[Entry<T>]) {
        let (_, last) = self.span(level, slot);
        if last > self.near_to {
            self.near_to = last;
            self.near.clear();
            self.near.extend(entries.iter().map(|e| e.value));
        }
    }

    /// Deals the earliest slot, above level 0, out to the levels below; `first` is its first instant.
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
                // What is alone in its slot is the earliest of all.
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
    fn ties_come_out_in_the_order_they_went_in() {
        let mut wheel = Wheel::default();
        // Some of the ties go in while the wheel is far away, some when it is near, some at the time.
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

    /// What a watched wheel shows when the values at `times` are popped one by one.
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
    fn few_come_near_together_and_many_part_by_part_but_each_only_once() {
        let few: Vec<u64> = (4200..8000).step_by(100).collect();
        assert_eq!(shown(few.iter().copied()), [few]);
        // The first 64 ns of what is dealt out are due at once.
        let many = shown(4096..8192);
        assert_eq!(many.len(), 63, "a part for each other slot of level 1");
        assert!(many.iter().all(|part| part.len() == SLOTS));
        assert!(many.concat().into_iter().eq(4160..8192));
    }

    #[test]
    fn a_limit_that_nothing_meets_leaves_room_for_earlier_events() {
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
    fn the_whole_line_of_time_fits() {
        let mut wheel = Wheel::default();
        let times = [0, 1, 63, 64, 4095, 4096, 1 << 40, u64::MAX - 1, u64::MAX];
        for &t in times.iter().rev() {
            wheel.push(at(t), t);
        }
        let popped: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|(_, v)| v).collect();
        assert_eq!(popped, times);
    }

    #[test]
    fn the_past_is_now() {
        let mut wheel = Wheel::default();
        wheel.push(at(50), 'a');
        wheel.pop();
        wheel.push(at(7), 'b');
        assert_eq!(wheel.pop(), Some((at(50), 'b')));
    }

    /// What to do next: push so far ahead of the last popped instant, or pop until so far ahead.
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
        fn agrees_with_the_heap(steps in prop::collection::vec(step(), 1..400)) {
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
