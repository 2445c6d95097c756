//! A map of limited size whose entries have a limited life.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use spindle_units::{Duration, Instant};

use super::super::table::Keyed;

#[derive(Clone, Copy, Debug)]
struct Entry<V> {
    value: V,
    at: Instant,
    /// The number of the entry, which distinguishes it from others of the same key.
    number: u64,
}

/// The map. If there are too many entries, the oldest is dropped.
#[derive(Debug)]
pub(super) struct Aged<K, V> {
    entries: HashMap<K, Entry<V>, Keyed>,
    /// The entries by age, the oldest first. Entries that were removed or replaced are skipped.
    order: VecDeque<(K, u64)>,
    most: usize,
    life: Duration,
    numbered: u64,
}

impl<K: Copy + Eq + Hash, V: Clone> Aged<K, V> {
    /// A map of at most `most` entries, each of which lives for `life`.
    pub(super) fn new(keyed: Keyed, most: usize, life: Duration) -> Self {
        Self {
            entries: HashMap::with_hasher(keyed),
            order: VecDeque::new(),
            most,
            life,
            numbered: 0,
        }
    }

    /// Adds an entry or replaces the one with the same key.
    pub(super) fn insert(&mut self, now: Instant, key: K, value: V) {
        self.numbered += 1;
        let number = self.numbered;
        let entry = Entry {
            value,
            at: now,
            number,
        };
        self.entries.insert(key, entry);
        self.order.push_back((key, number));
        if self.entries.len() > self.most {
            self.drop_oldest();
        }
        // What stands for entries that were removed or replaced may wait behind an old one.
        if self.order.len() > 2 * self.most {
            let entries = &self.entries;
            self.order
                .retain(|(key, number)| is_current(entries, key, *number));
        }
    }

    /// The entry with this key, if it is not too old.
    pub(super) fn get(&self, now: Instant, key: &K) -> Option<V> {
        let entry = self.entries.get(key)?;
        (now.since(entry.at) <= self.life).then(|| entry.value.clone())
    }

    /// Like [`Self::get`], but the entry is removed.
    pub(super) fn take(&mut self, now: Instant, key: &K) -> Option<V> {
        let value = self.get(now, key);
        self.entries.remove(key);
        value
    }

    fn drop_oldest(&mut self) {
        while let Some((key, number)) = self.order.pop_front() {
            if is_current(&self.entries, &key, number) {
                self.entries.remove(&key);
                return;
            }
        }
    }
}

/// Whether the entry with this number is the current one of its key.
fn is_current<K: Eq + Hash, V>(
    entries: &HashMap<K, Entry<V>, Keyed>,
    key: &K,
    number: u64,
) -> bool {
    entries.get(key).is_some_and(|e| e.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(most: usize) -> Aged<u8, u64> {
        Aged::new(Keyed::new([7; 16]), most, Duration::from_secs(600))
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn entry_is_read_many_times_and_taken_once() {
        let mut map = map(4);
        map.insert(at(0), 1, 100);
        assert_eq!((map.get(at(1), &2), map.get(at(1), &1)), (None, Some(100)));
        assert_eq!(map.take(at(1), &1), Some(100));
        assert_eq!(map.take(at(1), &1), None);
    }

    #[test]
    fn entry_expires() {
        let mut map = map(4);
        map.insert(at(0), 1, 100);
        assert_eq!(map.get(at(600), &1), Some(100));
        assert_eq!(map.get(at(601), &1), None);
        assert_eq!(map.take(at(601), &1), None);
    }

    #[test]
    fn order_stays_short_while_one_entry_waits_and_another_is_used() {
        let mut map = map(3);
        map.insert(at(0), 1, 1);
        for _ in 0..1000 {
            map.insert(at(1), 2, 2);
            map.take(at(1), &2);
        }
        assert!(map.order.len() <= 6, "{}", map.order.len());
        assert_eq!(map.take(at(2), &1), Some(1));
    }

    #[test]
    fn oldest_entries_are_dropped_beyond_the_limit_and_the_order_stays_short() {
        let mut map = map(3);
        for round in 0..1000 {
            for n in 0..5 {
                map.insert(at(round), n, u64::from(n));
                assert!(map.entries.len() <= 3);
            }
            // An entry that is used and added again and again.
            map.take(at(round), &4);
            map.insert(at(round), 4, 40);
        }
        assert!(map.order.len() <= 6, "{}", map.order.len());
        let kept: Vec<_> = (0..5).filter_map(|n| map.take(at(1000), &n)).collect();
        assert_eq!(kept, [2, 3, 40]);
    }
}
