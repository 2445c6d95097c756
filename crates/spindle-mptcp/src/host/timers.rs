//! The stack's timers: a heap with at most one entry for each connection.

use spindle_units::{Instant, prefetch};

use super::Stack;
use crate::types::earliest;

/// Children of an entry. Four make the heap half as deep as two, and lie in one or two cache lines.
const ARITY: usize = 4;

/// The place of a slot without an entry.
const NOWHERE: u32 = u32::MAX;

/// When each connection must be looked at next, the earliest first.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// No entry is before its parent, by time and then by slot.
    heap: Vec<(Instant, u32)>,
    /// The index in the heap of each slot's entry.
    places: Vec<u32>,
}

impl Timers {
    /// The earliest entry: its time and slot.
    #[inline]
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    /// Brings the earliest entry into the processor's cache.
    #[inline]
    pub(super) fn prefetch_first(&self) {
        self.heap.first().into_iter().for_each(prefetch);
    }

    /// Sets the timer of `slot`, or moves it.
    pub(super) fn set(&mut self, slot: u32, at: Instant) {
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, NOWHERE);
        }
        let place = match self.places[slot as usize] {
            NOWHERE => {
                self.heap.push((at, slot));
                self.heap.len() - 1
            }
            place => place as usize,
        };
        self.put(place, (at, slot));
    }

    /// Removes the timer of `slot`, if it has one.
    pub(super) fn clear(&mut self, slot: u32) {
        let Some(place) = self.places.get_mut(slot as usize) else {
            return;
        };
        let place = std::mem::replace(place, NOWHERE) as usize;
        if place == NOWHERE as usize {
            return;
        }
        if let Some(last) = self.heap.pop()
            && place < self.heap.len()
        {
            self.put(place, last);
        }
    }

    /// Stores `entry` at `place`, replacing the entry there, and moves it to where the heap order requires it.
    fn put(&mut self, mut place: usize, entry: (Instant, u32)) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] <= entry {
                break;
            }
            self.store(place, self.heap[parent]);
            place = parent;
        }
        loop {
            let children = place * ARITY + 1..(place * ARITY + 1 + ARITY).min(self.heap.len());
            let Some(least) = children.min_by_key(|c| self.heap[*c]) else {
                break;
            };
            if entry <= self.heap[least] {
                break;
            }
            self.store(place, self.heap[least]);
            place = least;
        }
        self.store(place, entry);
    }

    fn store(&mut self, place: usize, entry: (Instant, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.heap.len()
    }
}

impl Stack {
    /// When [`Self::timeout`] must be called next, once [`Self::transmit`] returns `None`. This may be earlier
    /// than any timer is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| at);
        earliest(timer, self.next_relief())
    }

    /// Serves the timers that are due.
    pub fn timeout(&mut self, now: Instant) {
        self.relieve(now);
        while let Some((at, slot)) = self.timers.first() {
            if at > now {
                return;
            }
            self.timers.clear(slot);
            let Some(c) = self.table.connection_mut(slot) else {
                continue;
            };
            c.stack.armed = None;
            if c.deadline().is_some_and(|d| d <= now) {
                c.timeout(now);
                self.touch(now, slot);
            } else {
                self.rearm(slot);
            }
        }
    }

    /// Sets a connection's timer. Timers are lazy: a timer is only moved to an earlier time. If it fires before
    /// the connection's deadline, it is set again.
    pub(super) fn rearm(&mut self, slot: u32) {
        let Some(c) = self.table.connection_mut(slot) else {
            return;
        };
        let Some(due) = c.deadline() else { return };
        if c.stack.armed.is_none_or(|a| due < a) {
            c.stack.armed = Some(due);
            self.timers.set(slot, due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;
    use spindle_units::Duration;
    use spindle_wire::{Endpoint, Payload};

    use super::*;
    use crate::config::Config;
    use crate::host::StackConfig;
    use crate::tcp_config::Keepalive;

    proptest! {
        #[test]
        fn first_timer_is_the_earliest_whatever_was_set_and_cleared(
            steps in prop::collection::vec((0u32..40, prop::option::of(0u64..30)), 0..400),
        ) {
            let (mut timers, mut model) = (Timers::default(), BTreeMap::new());
            for (slot, at) in steps {
                match at.map(Instant::from_nanos) {
                    Some(at) => {
                        timers.set(slot, at);
                        model.insert(slot, at);
                    }
                    None => {
                        timers.clear(slot);
                        model.remove(&slot);
                    }
                }
                let first = model.iter().map(|(slot, at)| (*at, *slot)).min();
                prop_assert_eq!(timers.first(), first);
                prop_assert_eq!(timers.len(), model.len());
            }
        }
    }

    /// Exchanges segments between two stacks until both have nothing more to send.
    fn exchange(stacks: &mut [Stack; 2], now: Instant) {
        let mut quiet = false;
        while !quiet {
            quiet = true;
            for side in 0..2 {
                while let Some(segment) = stacks[side].transmit(now) {
                    stacks[1 - side].receive(now, segment);
                    quiet = false;
                }
            }
        }
    }

    #[test]
    fn each_connection_has_at_most_one_timer_after_many_exchanges() {
        const CONNECTIONS: usize = 3;
        let mut config = Config::default();
        config.tcp.delayed_ack = Some(Duration::from_millis(40));
        config.tcp.keepalive = Some(Keepalive {
            idle: Duration::from_secs(300),
            interval: Duration::from_secs(30),
            probes: 9,
        });
        let config = Arc::new(config);
        let mut stacks = [1, 2].map(|seed| Stack::deterministic(StackConfig::default(), seed));
        let end = |last, port| Endpoint::new([10, 0, 0, last].into(), port);
        stacks[1].listen(end(2, 80), config.clone()).unwrap();
        let mut now = Instant::from_nanos(1_000_000_000);
        let handles: Vec<_> = (0..CONNECTIONS)
            .map(|_| stacks[0].connect(now, end(1, 0), end(2, 80), config.clone()))
            .map(Result::unwrap)
            .collect();
        exchange(&mut stacks, now);
        for _ in 0..1000 {
            for h in &handles {
                let sent = stacks[0].send(now, *h, Payload::Length(100));
                assert_eq!(sent, Ok(100));
            }
            for _ in 0..2 {
                exchange(&mut stacks, now);
                now += Duration::from_millis(50);
                stacks.iter_mut().for_each(|s| s.timeout(now));
            }
        }
        for stack in &stacks {
            assert!(stack.timers.len() <= CONNECTIONS, "{}", stack.timers.len());
        }
        for h in handles {
            stacks[0].abort(now, h);
        }
        exchange(&mut stacks, now);
        assert_eq!(
            stacks[0].timers.len(),
            0,
            "closed connections keep no timer"
        );
    }
}
