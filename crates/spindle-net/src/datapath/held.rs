//! Memory held for connections outside the stack: queues, packets, tasks. The data path reports it to the
//! stack, whose memory limit includes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cost of a queued piece in addition to its bytes: its queue entry, and the allocator's and the reference
/// counter's words around it.
pub(crate) const PIECE_COST: usize = 80;
/// Bytes of a relayed connection without its queues: its pipe, its task and the entries that refer to them.
/// Together with the stack's own 8 KiB, this is what an idle connection of a gateway takes, 13 kB as measured.
pub(crate) const RELAY_COST: u64 = 6 << 10;

/// One queue holds no more than this part of the free memory. Queues that grow at the same time then leave some
/// of it to others (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
/// IEEE/ACM Transactions on Networking 6(2), 1998): forty of them leave more than half.
const PART_OF_FREE: u64 = 64;

/// For this many bytes of buffers in use, the allocator holds one more byte that is unused. It returns pages of
/// 4 MiB only as a whole, and each of them contains buffers of several connections. Under the attack with shut
/// windows it held 50 to 70 MB in addition to 190 MB in use.
pub(crate) const BUFFERS_PER_UNUSED: u64 = 4;

/// Bytes held over all connections of a network.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    total: AtomicU64,
    /// Upper bound of `total`.
    most: AtomicU64,
}

impl Default for HeldMemory {
    fn default() -> Self {
        Self {
            total: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
        }
    }
}

impl HeldMemory {
    /// Bytes held now.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, bytes: u64) {
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets the upper bound of the total.
    pub(crate) fn bound(&self, most: u64) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Bytes that one queue may hold with the memory that is free now.
    fn most_of_one(&self) -> usize {
        let most = self.most.load(Ordering::Relaxed);
        let free = most.saturating_sub(self.total());
        usize::try_from(free / PART_OF_FREE).unwrap_or(usize::MAX)
    }
}

/// The bytes that one holder has in the account, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    held: Arc<HeldMemory>,
    bytes: u64,
}

impl Share {
    /// A share of zero bytes.
    pub(crate) fn new(held: Arc<HeldMemory>) -> Self {
        Self { held, bytes: 0 }
    }

    /// Sets the number of bytes that the holder has.
    pub(crate) fn set(&mut self, bytes: u64) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.held.add(more),
            None => self.held.sub(self.bytes - bytes),
        }
        self.bytes = bytes;
    }

    /// The number of bytes that the holder has.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that the holder may have with the memory that is free now.
    pub(crate) fn most(&self) -> usize {
        self.held.most_of_one()
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
    fn a_share_may_hold_a_64th_of_the_free_memory() {
        let held = Arc::new(HeldMemory::default());
        let mut share = Share::new(held.clone());
        assert_eq!(share.most(), (u64::MAX / PART_OF_FREE) as usize, "no bound");
        held.bound(64_000_000);
        assert_eq!(share.most(), 1_000_000);
        share.set(32_000_000);
        assert_eq!(share.most(), 500_000);
        held.bound(1000);
        assert_eq!(share.most(), 0);
    }

    #[test]
    fn shares_add_up_and_dropped_shares_are_returned() {
        let held = Arc::new(HeldMemory::default());
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
