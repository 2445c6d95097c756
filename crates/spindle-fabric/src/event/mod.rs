//! Queues of future events: a hierarchical timing wheel, and a binary heap as its reference.

mod heap;
mod wheel;

use spindle_units::Instant;

pub use heap::HeapQueue;
pub use wheel::Wheel;

/// A queue of values, each due at an instant. Of values due at the same instant the one pushed
/// first comes out first. Time never runs backwards: a value pushed for an instant before the last
/// one popped is due at once, behind what is already due then.
pub trait EventQueue<T> {
    /// Adds `value`, due at `at`.
    fn push(&mut self, at: Instant, value: T);

    /// Takes out the earliest value if it is due at `limit` or before.
    fn pop_until(&mut self, limit: Instant) -> Option<(Instant, T)>;

    /// When the earliest value is due.
    fn peek(&self) -> Option<Instant>;

    /// How many values wait.
    fn len(&self) -> usize;

    /// Somebody is going to ask what has come [near](Self::approaching).
    fn watch(&mut self) {}

    /// Shows the values that have come near since the last call, if the queue knows and is
    /// [watched](Self::watch): they are due soon, and what they need can be brought into the cache
    /// together. Says nothing of their order, and what is due at once need not be among them.
    #[inline]
    fn approaching(&mut self, _see: impl FnMut(T)) {}

    /// Takes out the earliest value.
    fn pop(&mut self) -> Option<(Instant, T)> {
        self.pop_until(Instant::FAR_FUTURE)
    }

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
