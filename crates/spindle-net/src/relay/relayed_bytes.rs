//! What has passed through a relay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::Asking;
use super::exchanges::Exchanges;
use crate::datapath::pipe::AckObserver;
use crate::metrics::Metrics;
use crate::socket::ConnectionHandle;

/// Counts both directions, and measures response times. The two directions of a relay run in one task, so the
/// counters are never contended.
pub(super) struct RelayedBytes {
    outward: AtomicU64,
    inward: AtomicU64,
    asking: Asking,
    handle: ConnectionHandle,
    exchanges: Option<Arc<Exchanges>>,
}

impl RelayedBytes {
    pub(super) fn new(asking: Asking, metrics: Option<Metrics>, handle: &ConnectionHandle) -> Self {
        let exchanges = metrics.map(|m| Arc::new(Exchanges::new(m)));
        if let (Asking::Inside, Some(e)) = (asking, &exchanges) {
            handle.observe_acknowledgements(e.clone());
        }
        Self {
            outward: AtomicU64::new(0),
            inward: AtomicU64::new(0),
            asking,
            handle: handle.clone(),
            exchanges,
        }
    }

    /// Records bytes that have passed from Spindle's peer to the system's side.
    pub(super) fn add_outward(&self, bytes: u64) {
        self.outward.fetch_add(bytes, Ordering::Relaxed);
        let Some(e) = &self.exchanges else { return };
        match self.asking {
            Asking::Inside => e.request(Instant::now(), self.answered()),
            // The system's socket has accepted the bytes, so for a program on this host they have arrived.
            Asking::Outside => {
                e.response();
                e.acknowledged(self.outward(), Instant::now());
            }
        }
    }

    /// Records bytes that have passed in the other direction.
    pub(super) fn add_inward(&self, bytes: u64) {
        self.inward.fetch_add(bytes, Ordering::Relaxed);
        let Some(e) = &self.exchanges else { return };
        match self.asking {
            Asking::Inside => e.response(),
            Asking::Outside => e.request(Instant::now(), self.answered()),
        }
    }

    pub(super) fn outward(&self) -> u64 {
        self.outward.load(Ordering::Relaxed)
    }

    pub(super) fn inward(&self) -> u64 {
        self.inward.load(Ordering::Relaxed)
    }

    pub(super) fn total(&self) -> u64 {
        self.outward() + self.inward()
    }

    /// The offset at which the responses so far end, in the stream that carries responses.
    fn answered(&self) -> u64 {
        match self.asking {
            Asking::Inside => self.handle.written(),
            Asking::Outside => self.outward(),
        }
    }

    /// Records that no more bytes will pass.
    pub(super) fn end(&self) {
        if let Some(e) = &self.exchanges {
            e.end(self.answered());
        }
    }
}
