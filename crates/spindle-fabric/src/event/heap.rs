//! [`HeapQueue`]: the simple queue with which the wheel is compared.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use spindle_units::Instant;

use super::EventQueue;

/// A binary heap ordered by instant, then by order of insertion. It is simple rather than fast.
#[derive(Clone, Debug)]
pub struct HeapQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
    now: Instant,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    at: Instant,
    order: u64,
    value: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<T> Default for HeapQueue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            pushed: 0,
            now: Instant::ZERO,
        }
    }
}

impl<T> EventQueue<T> for HeapQueue<T> {
    fn push(&mut self, at: Instant, value: T) {
        let order = self.pushed;
        self.pushed += 1;
        self.heap.push(Reverse(Entry {
            at: at.max(self.now),
            order,
            value,
        }));
    }

    fn pop_until(&mut self, limit: Instant) -> Option<(Instant, T)> {
        if self.peek()? > limit {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        Some((entry.at, entry.value))
    }

    fn peek(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}
