//! Queues of future events: a hierarchical timing wheel, and a binary heap as its reference.

mod heap;
mod wheel;

use spindle_units::Instant;

pub use heap::HeapQueue;
pub use wheel::Wheel;

/// A queue of values, each due at an instant. Values due at the same instant are returned in the order of
/// insertion. Time never runs backwards: a value inserted for an instant before that of the last returned value
/// is due at once, after the values that are already due then.
pub trait EventQueue<T> {
    /// Adds `value`, due at `at`.
    fn push(&mut self, at: Instant, value: T);

    /// Removes and returns the earliest value if it is due at `limit` or before.
    fn pop_until(&mut self, limit: Instant) -> Option<(Instant, T)>;

    /// The instant at which the earliest value is due.
    fn peek(&self) -> Option<Instant>;

    /// The number of values in the queue.
    fn len(&self) -> usize;

    /// Announces that the caller will call [`approaching`](Self::approaching).
    fn watch(&mut self) {}

    /// Calls `see` for the values that became near since the last call, if the queue supports this and is
    /// [watched](Self::watch). Near values are due soon, so the caller can prefetch what they need together.
    /// Their order is unspecified, and values that are due at once may be missing.
    #[inline]
    fn approaching(&mut self, _see: impl FnMut(T)) {}

    /// Removes and returns the earliest value.
    fn pop(&mut self) -> Option<(Instant, T)> {
        self.pop_until(Instant::FAR_FUTURE)
    }

    /// Whether the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
