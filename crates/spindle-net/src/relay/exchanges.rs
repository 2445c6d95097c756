//! The exchanges of a relayed connection, and the response times of these exchanges.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::datapath::pipe::AckObserver;
use crate::metrics::Metrics;

/// Most responses that wait for their acknowledgement at a time. Further responses to a client that sends
/// requests without waiting for responses are not timed.
const MAX_WAITING: usize = 64;

/// A response that has been written.
#[derive(Debug)]
struct Response {
    /// When the last byte of the request passed.
    asked: Instant,
    /// The offset at which the response ends, in the stream that carries responses.
    end: u64,
}

#[derive(Debug)]
struct State {
    /// When the last byte of the latest request passed, unless its response is complete.
    asked: Option<Instant>,
    /// Bytes of the response to that request have passed.
    answered: bool,
    /// Responses that were written and not yet acknowledged, the oldest first.
    waiting: VecDeque<Response>,
    /// The offset before which everything is acknowledged, and the time at which this was last reported.
    acknowledged: (u64, Instant),
}

/// Measures response times: from the last byte of a request until the requesting side has acknowledged the last
/// byte that was sent back before the next request or the end. A response that is never acknowledged as a whole
/// is not counted.
///
/// Offsets count the bytes of the stream that carries the responses, from its beginning.
#[derive(Debug)]
pub(super) struct Exchanges {
    metrics: Metrics,
    state: Mutex<State>,
}

impl Exchanges {
    pub(super) fn new(metrics: Metrics) -> Self {
        let state = State {
            asked: None,
            answered: false,
            waiting: VecDeque::new(),
            acknowledged: (0, Instant::now()),
        };
        Self {
            metrics,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that bytes of a request have passed, when responses had been written up to `end`.
    pub(super) fn request(&self, now: Instant, end: u64) {
        let mut s = self.lock();
        self.complete(&mut s, end);
        s.asked = Some(now);
    }

    /// Records that bytes of a response have passed.
    pub(super) fn response(&self) {
        let mut s = self.lock();
        s.answered = s.asked.is_some();
    }

    /// Records that no more bytes will pass. Responses were written up to `end`.
    pub(super) fn end(&self, end: u64) {
        self.complete(&mut self.lock(), end);
    }

    /// Completes the response to the latest request, if there is one. The response ends at `end`.
    fn complete(&self, s: &mut State, end: u64) {
        let answered = std::mem::take(&mut s.answered);
        let Some(asked) = s.asked.take().filter(|_| answered) else {
            return;
        };
        let (offset, at) = s.acknowledged;
        if offset >= end {
            self.metrics
                .response_time(at.saturating_duration_since(asked));
        } else if s.waiting.len() < MAX_WAITING {
            s.waiting.push_back(Response { asked, end });
        }
    }
}

impl AckObserver for Exchanges {
    fn next_offset(&self, written: u64) -> u64 {
        self.lock().waiting.front().map_or(written, |r| r.end)
    }

    fn acknowledged(&self, offset: u64, at: Instant) {
        let mut s = self.lock();
        s.acknowledged = (offset, at);
        while let Some(r) = s.waiting.pop_front_if(|r| r.end <= offset) {
            self.metrics
                .response_time(at.saturating_duration_since(r.asked));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn after(begin: Instant, millis: u64) -> Instant {
        begin + Duration::from_millis(millis)
    }

    #[test]
    fn each_request_that_is_answered_counts_as_one_response() {
        let metrics = Metrics::new("fuso");
        let (e, begin) = (Exchanges::new(metrics.clone()), Instant::now());
        // A greeting is not a response to a request.
        e.response();
        e.acknowledged(1, begin);
        // Two pieces of one request, then two of its response.
        e.request(begin, 1);
        e.request(after(begin, 1), 1);
        e.response();
        e.response();
        e.acknowledged(3, after(begin, 9));
        assert_eq!(metrics.responses().0, 0, "more of the response may follow");
        e.request(after(begin, 20), 3);
        assert_eq!(metrics.responses(), (1, 0.008));
        e.response();
        e.acknowledged(4, after(begin, 22));
        e.end(4);
        assert_eq!(metrics.responses(), (2, 0.010));
        // A request without a response is not counted.
        e.request(after(begin, 30), 4);
        e.end(4);
        e.end(4);
        assert_eq!(metrics.responses(), (2, 0.010));
    }

    #[test]
    fn pipelined_responses_end_with_their_own_acknowledgements() {
        let metrics = Metrics::new("fuso");
        let (e, begin) = (Exchanges::new(metrics.clone()), Instant::now());
        for end in [0, 100, 200] {
            e.request(begin, end);
            e.response();
        }
        e.end(300);
        assert_eq!(e.next_offset(300), 100);
        e.acknowledged(150, after(begin, 10));
        assert_eq!(metrics.responses(), (1, 0.010));
        assert_eq!(e.next_offset(300), 200);
        e.acknowledged(300, after(begin, 30));
        assert_eq!(metrics.responses(), (3, 0.070));
        assert_eq!(e.next_offset(300), 300);
    }

    #[test]
    fn unacknowledged_responses_that_are_remembered_are_bounded() {
        let e = Exchanges::new(Metrics::new("fuso"));
        for end in 0..10 * MAX_WAITING as u64 {
            e.request(Instant::now(), end);
            e.response();
        }
        assert_eq!(e.lock().waiting.len(), MAX_WAITING);
    }
}
