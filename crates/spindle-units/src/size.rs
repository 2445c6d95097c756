//! [`Bytes`] and [`BitRate`].

use crate::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(pub u64);

impl BitRate {
    /// The time it takes to send `bytes` bytes at this rate, rounded to the nearest nanosecond.
    /// A rate of zero never sends: [`Duration::MAX`].
    pub fn time_to_send(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let bits_ns = u128::from(bytes) * 8 * 1_000_000_000;
        let rate = u128::from(self.0);
        Duration::from_nanos(((bits_ns + rate / 2) / rate) as u64)
    }
}
