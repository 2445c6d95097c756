//! What is held for connections outside the stack: queues, packets, tasks. The data path tells the stack, whose
//! limit of memory counts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a queued piece costs in addition to its bytes: its entry, and the allocator's and the reference
/// counter's words around it.
pub(crate) const PIECE_COST: usize = 80;
/// Bytes of a relayed connection without its queues: its pipe, its task and the entries that lead to them. With
/// the stack's own 8 KiB that is what an idle connection of a gateway takes, 13 kB as measured.
pub(crate) const RELAY_COST: u64 = 6 << 10;
/// Bytes of a TLS session: rustls's buffers of a record each way (16 KiB and their headers) and its state.
pub(crate) const TLS_COST: u64 = 40 << 10;

/// Bytes held over all connections of a network.
#[derive(Debug, Default)]
pub(crate) struct Held(AtomicU64);

impl Held {
    /// Bytes held now.
    pub(crate) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What one holder has of it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    held: Arc<Held>,
    bytes: u64,
}

impl Share {
    /// Nothing yet.
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self { held, bytes: 0 }
    }

    /// It holds so many bytes now.
    pub(crate) fn set(&mut self, bytes: u64) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.held.add(more),
            None => self.held.sub(self.bytes - bytes),
        }
        self.bytes = bytes;
    }

    /// The bytes it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_are_given_back() {
        let held = Arc::new(Held::default());
        let (mut a, mut b) = (Share::new(held.clone()), Share::new(held.clone()));
        a.set(10);
        b.set(5);
        a.set(7);
        assert_eq!((held.total(), a.bytes()), (12, 7));
        drop(a);
        assert_eq!(held.total(), 5);
        drop(b);
        assert_eq!(held.total(), 0);
    }
}
