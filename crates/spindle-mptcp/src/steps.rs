//! A count of the work that peers cause.

use std::cell::Cell;

/// Counts iterations of loops over what a peer can make this host store: scoreboards, reassembly queues,
/// mappings, parities, coding units. One segment may cause few of them, however much is stored, beyond
/// what is paid for by data sent or acknowledged; tests hold every stack to that.
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

    /// `items`, each of which counts when it is taken.
    #[inline]
    pub(crate) fn each<I: IntoIterator>(&self, items: I) -> impl Iterator<Item = I::Item> {
        items.into_iter().inspect(|_| self.add(1))
    }
}
