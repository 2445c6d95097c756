//! What has passed through a relay, and the exchanges it was made of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Asking;
use crate::metrics::Metrics;

/// Counts both directions, and observes how long responses take. A relay's two directions run in
/// one task, so that nothing here is ever contended.
pub(super) struct Moved {
    outward: AtomicU64,
    inward: AtomicU64,
    responses: Option<Responses>,
}

impl Moved {
    pub(super) fn new(asking: Asking, metrics: Option<Metrics>) -> Self {
        let responses = metrics.map(|metrics| Responses {
            asking,
            metrics,
            begin: Instant::now(),
            asked: AtomicU64::new(NEVER),
            answered: AtomicU64::new(NEVER),
        });
        Self {
            outward: AtomicU64::new(0),
            inward: AtomicU64::new(0),
            responses,
        }
    }

    /// Bytes from Spindle's peer to the system's side have passed.
    pub(super) fn add_outward(&self, bytes: u64) {
        self.outward.fetch_add(bytes, Ordering::Relaxed);
        if let Some(r) = &self.responses {
            r.passed(r.asking == Asking::Inside);
        }
    }

    /// Bytes have passed the other way.
    pub(super) fn add_inward(&self, bytes: u64) {
        self.inward.fetch_add(bytes, Ordering::Relaxed);
        if let Some(r) = &self.responses {
            r.passed(r.asking == Asking::Outside);
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

    /// Nothing more will pass.
    pub(super) fn end(&self) {
        if let Some(r) = &self.responses {
            r.end();
        }
    }
}

/// No such moment yet.
const NEVER: u64 = u64::MAX;

/// From the last byte of a request to the last byte of what came back before the next one.
struct Responses {
    asking: Asking,
    metrics: Metrics,
    begin: Instant,
    /// When the last bytes of a request passed, nanoseconds since `begin`.
    asked: AtomicU64,
    /// When the last bytes of its response did.
    answered: AtomicU64,
}

impl Responses {
    fn passed(&self, request: bool) {
        let now = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(NEVER);
        if request {
            self.end();
            self.asked.store(now, Ordering::Relaxed);
        } else {
            self.answered.store(now, Ordering::Relaxed);
        }
    }

    /// Another request begins, or nothing follows: the response, if there was one, is complete.
    fn end(&self) {
        let asked = self.asked.swap(NEVER, Ordering::Relaxed);
        let answered = self.answered.swap(NEVER, Ordering::Relaxed);
        if asked != NEVER && answered != NEVER {
            let took = Duration::from_nanos(answered.saturating_sub(asked));
            self.metrics.response_time(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_with_something_after_it_is_one_response() {
        let metrics = Metrics::new("fuso");
        let moved = Moved::new(Asking::Inside, Some(metrics.clone()));
        // A greeting answers nothing.
        moved.add_inward(1);
        // Two pieces of one request, two of its response.
        moved.add_outward(1);
        moved.add_outward(1);
        moved.add_inward(1);
        moved.add_inward(1);
        assert_eq!(metrics.responses(), 0);
        moved.add_outward(1);
        assert_eq!(metrics.responses(), 1);
        moved.add_inward(1);
        moved.end();
        assert_eq!(metrics.responses(), 2);
        // A request without a response is none.
        moved.add_outward(1);
        moved.end();
        moved.end();
        assert_eq!(metrics.responses(), 2);
        assert_eq!((moved.outward(), moved.inward(), moved.total()), (4, 4, 8));
    }
}
