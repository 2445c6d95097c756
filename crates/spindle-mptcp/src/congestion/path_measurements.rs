//! What a controller measures of its path, whatever other flows send.

use std::cmp::Reverse;

use spindle_units::{Duration, Instant};

use super::recent::{MEMORY, Recent};

/// The path's own round-trip time and the rate of its slowest link, as measured in the last 10 to 20 s.
///
/// A subflow that begins while other flows fill the queue of its path cannot measure either of them. Its stack may remember
/// what a former subflow between the same hosts measured ([`crate::StackConfig::remembered_paths`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathMeasurements {
    rtt: Recent<Duration>,
    /// In bytes per second.
    rate: Recent<Reverse<u64>>,
}

impl PathMeasurements {
    /// After this time, measurements of a former subflow are not used. They are forgotten as long after that.
    pub const LIFETIME: Duration = MEMORY;

    /// Processes a measured round-trip time.
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        self.rtt.on_sample(now, rtt);
    }

    /// Processes a measured rate of the slowest link, in bytes per second.
    pub fn on_rate(&mut self, now: Instant, rate: u64) {
        self.rate.on_sample(now, Reverse(rate));
    }

    /// The smallest round-trip time. It has no queue if the queue was empty at any time.
    pub fn smallest_rtt(&self) -> Option<Duration> {
        self.rtt.get()
    }

    /// The largest measured rate of the slowest link, in bytes per second.
    pub fn rate(&self) -> Option<u64> {
        self.rate.get().map(|Reverse(rate)| rate)
    }

    /// The bytes that the slowest link carries in this time, by the largest measured rate.
    pub fn bytes_in(&self, time: Duration) -> Option<f64> {
        Some(self.rate()? as f64 * time.as_secs_f64())
    }

    /// Adds what another subflow measured on the same path.
    pub fn join(&mut self, other: &Self) {
        self.rtt.join(&other.rtt);
        self.rate.join(&other.rate);
    }
}
