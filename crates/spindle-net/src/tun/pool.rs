//! Reusable buffers for packets from the device.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::datapath::held::HeldMemory;

/// Bytes of a buffer: the largest IP packet with the device's header.
pub(super) const BUFFER: usize = 65_536 + 64;
/// Most buffers that are kept. Further buffers that a burst needed are returned to the system.
const KEPT: usize = 128;
/// Payloads smaller than a quarter of a buffer are copied. A larger payload keeps its buffer in use, and the
/// rest of that buffer counts as held.
const SHARE_FROM: usize = BUFFER / 4;

/// The list of free buffers, and the bytes of lent buffers that are not payload.
#[derive(Default)]
struct Free {
    list: Mutex<Vec<Vec<u8>>>,
    unused: HeldMemory,
}

/// The buffers that are not in use.
#[derive(Default)]
pub(super) struct Pool {
    free: Arc<Free>,
}

/// A buffer that returns to the pool when the last reference to its bytes is dropped.
struct Lent {
    buffer: Vec<u8>,
    free: Arc<Free>,
    unused: u64,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.free.unused.sub(self.unused);
        let mut free = self
            .free
            .list
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.buffer));
        }
    }
}

impl Pool {
    /// A buffer of [`BUFFER`] bytes.
    pub(super) fn take(&self) -> Vec<u8> {
        self.free
            .list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .unwrap_or_else(|| vec![0; BUFFER])
    }

    /// Bytes of buffers that are not payload: the rest of lent buffers, and free buffers.
    pub(super) fn held(&self) -> u64 {
        let list = self
            .free
            .list
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.free.unused.total() + (list.len() * BUFFER) as u64
    }

    /// `buffer[from..to]` as bytes. A large part takes the buffer with it, and `buffer` is replaced. A small
    /// part is copied, and `buffer` can be used again.
    pub(super) fn share(&self, buffer: &mut Vec<u8>, from: usize, to: usize) -> Bytes {
        if to - from < SHARE_FROM {
            return Bytes::copy_from_slice(&buffer[from..to]);
        }
        let unused = (BUFFER - (to - from)) as u64;
        self.free.unused.add(unused);
        let lent = Lent {
            unused,
            buffer: std::mem::replace(buffer, self.take()),
            free: self.free.clone(),
        };
        Bytes::from_owner(lent).slice(from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_buffer_returns_to_the_pool_and_a_small_part_is_copied() {
        let pool = Pool::default();
        let mut buffer = pool.take();
        buffer[100] = 7;
        let first = buffer.as_ptr();
        assert_eq!(pool.share(&mut buffer, 100, 101)[0], 7);
        assert_eq!(buffer.as_ptr(), first, "only copied from");
        let large = pool.share(&mut buffer, 100, 100 + SHARE_FROM);
        assert_eq!((large[0], large.len()), (7, SHARE_FROM));
        assert_ne!(buffer.as_ptr(), first);
        let part = large.slice(5..6);
        drop(large);
        assert!(pool.free.list.lock().expect("no panic").is_empty());
        assert_eq!(pool.held(), (BUFFER - SHARE_FROM) as u64);
        drop(part);
        assert_eq!(pool.held(), BUFFER as u64, "it is kept for the next packet");
        let again = pool.take();
        assert_eq!(again.as_ptr(), first);
    }
}
