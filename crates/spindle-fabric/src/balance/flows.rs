//! [`Flows`]: a switch's state about the flows that it has seen recently.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use spindle_units::{Duration, Instant};

use crate::random::mix;

/// A value for each recently seen flow. Flows are ordered by the time when they were last seen. Idle flows are
/// at the front of this order, where they are found and forgotten at constant cost.
#[derive(Debug)]
pub(crate) struct Flows<V> {
    idle: Duration,
    most: usize,
    places: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    entries: Vec<Entry<V>>,
    free: Vec<u32>,
    oldest: Option<u32>,
    newest: Option<u32>,
}

#[derive(Debug)]
struct Entry<V> {
    key: u64,
    seen: Instant,
    older: Option<u32>,
    newer: Option<u32>,
    value: V,
}

impl<V: Copy> Flows<V> {
    /// An empty table. Flows idle for longer than `idle` are forgotten. If there are more than `most` flows (at
    /// least one), the flow that was idle for longest is forgotten.
    pub(crate) fn new(idle: Duration, most: usize) -> Self {
        Self {
            idle,
            most: most.max(1),
            places: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            oldest: None,
            newest: None,
        }
    }

    /// The number of flows.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The value of a flow that is seen now, or `None` for a new flow. Must be called with ascending times.
    pub(crate) fn see(&mut self, now: Instant, key: u64) -> Option<&mut V> {
        let place = *self.places.get(&key)?;
        if self.newest != Some(place) {
            self.unlink(place);
            self.link(place);
        }
        let entry = &mut self.entries[place as usize];
        entry.seen = now;
        Some(&mut entry.value)
    }

    /// The value of a flow, without counting it as seen.
    pub(crate) fn get(&self, key: u64) -> Option<V> {
        let place = *self.places.get(&key)?;
        Some(self.entries[place as usize].value)
    }

    /// Adds a new flow that is seen now. If the table is full, a flow is forgotten and its value is returned.
    pub(crate) fn add(&mut self, now: Instant, key: u64, value: V) -> Option<V> {
        let displaced = match self.len() < self.most {
            true => None,
            false => self.forget_oldest(),
        };
        let entry = Entry {
            key,
            seen: now,
            older: None,
            newer: None,
            value,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.places.insert(key, place);
        self.link(place);
        displaced
    }

    /// Forgets a flow that has been idle for too long and returns its value. Must be called until it returns
    /// `None`.
    #[inline]
    pub(crate) fn forget_idle(&mut self, now: Instant) -> Option<V> {
        let oldest = &self.entries[self.oldest? as usize];
        match now.since(oldest.seen) > self.idle {
            true => self.forget_oldest(),
            false => None,
        }
    }

    fn forget_oldest(&mut self) -> Option<V> {
        let place = self.oldest?;
        let entry = &self.entries[place as usize];
        let (key, value) = (entry.key, entry.value);
        self.places.remove(&key);
        self.unlink(place);
        self.free.push(place);
        Some(value)
    }

    /// Removes an entry from the order.
    fn unlink(&mut self, place: u32) {
        let Entry { older, newer, .. } = self.entries[place as usize];
        match older {
            Some(older) => self.entries[older as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.entries[newer as usize].older = older,
            None => self.newest = older,
        }
    }

    /// Appends an entry to the end of the order.
    fn link(&mut self, place: u32) {
        let last = self.newest;
        match last {
            Some(last) => self.entries[last as usize].newer = Some(place),
            None => self.oldest = Some(place),
        }
        let entry = &mut self.entries[place as usize];
        (entry.older, entry.newer) = (last, None);
        self.newest = Some(place);
    }
}

/// Hashes flow keys in the same way in every run.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, key: u64) {
        self.0 = mix(key);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDLE: u64 = 50;
    const MOST: usize = 8;

    /// The reference: a plain list of (key, seen, value), ordered by the time when a flow was last seen.
    #[derive(Default)]
    struct Plain(Vec<(u64, u64, u32)>);

    impl Plain {
        fn forget_idle(&mut self, now: u64) -> Vec<u32> {
            let idle = self.0.iter().take_while(|f| now - f.1 > IDLE).count();
            self.0.drain(..idle).map(|f| f.2).collect()
        }

        fn see(&mut self, now: u64, key: u64, new: u32) -> (Option<u32>, Option<u32>) {
            if let Some(at) = self.0.iter().position(|f| f.0 == key) {
                let (_, _, value) = self.0.remove(at);
                self.0.push((key, now, value));
                return (Some(value), None);
            }
            let displaced = (self.0.len() == MOST).then(|| self.0.remove(0).2);
            self.0.push((key, now, new));
            (None, displaced)
        }
    }

    proptest! {
        #[test]
        fn flow_table_agrees_with_a_list(steps in prop::collection::vec((0..30u64, 0..14u64), 1..300)) {
            let mut flows = Flows::new(Duration::from_nanos(IDLE), MOST);
            let (mut plain, mut now) = (Plain::default(), 0);
            for (number, (wait, key)) in (0u32..).zip(steps) {
                now += wait;
                let at = Instant::from_nanos(now);
                let forgotten: Vec<u32> = std::iter::from_fn(|| flows.forget_idle(at)).collect();
                prop_assert_eq!(forgotten, plain.forget_idle(now));
                let known = flows.get(key);
                let seen = flows.see(at, key).copied();
                prop_assert_eq!(known, seen);
                let displaced = match seen {
                    Some(_) => None,
                    None => flows.add(at, key, number),
                };
                prop_assert_eq!((seen, displaced), plain.see(now, key, number));
                prop_assert_eq!(flows.len(), plain.0.len());
                prop_assert!(flows.entries.len() <= MOST);
            }
        }
    }
}
