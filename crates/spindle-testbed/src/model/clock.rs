//! Real time in the fabric's unit.

use spindle_units::Instant;

/// Nanoseconds since a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    /// Starts at zero, now.
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// The time now.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}
