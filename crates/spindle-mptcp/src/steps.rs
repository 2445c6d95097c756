//! A count of the work that peers cause.

use std::cell::Cell;

/// Counts iterations of loops over state that a peer can make this host store: scoreboards, reassembly queues,
/// mappings, parities and coding units. However much is stored, one segment may cause only a few iterations
/// beyond those that sent or acknowledged data pay for. Tests check this bound for every stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Cell<u64>);

impl Steps {
    /// Counts `n` iterations.
    #[inline]
    pub(crate) fn add(&self, n: usize) {
        self.0.set(self.0.get() + n as u64);
    }

    /// Iterations counted so far.
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }

    /// Wraps `items` so that each item counts as one iteration when it is taken.
    #[inline]
    pub(crate) fn each<I: IntoIterator>(&self, items: I) -> impl Iterator<Item = I::Item> {
        items.into_iter().inspect(|_| self.add(1))
    }
}
