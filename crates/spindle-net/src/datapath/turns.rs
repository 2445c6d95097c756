//! How long the data path's turns take.

use std::time::Duration;

/// The upper bound of the first bucket. Each further bound is four times as large, up to 5 s.
const FIRST: Duration = Duration::from_micros(20);
const FACTOR: u32 = 4;
const BUCKETS: usize = 10;

/// A histogram of the time from the data path's wake-up until it has done the work of its turn. During a turn,
/// no connection is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnTimes {
    /// Turns within the bounds of each bucket. The last entry has those beyond all bounds.
    buckets: [u64; BUCKETS + 1],
    sum: Duration,
}

impl TurnTimes {
    pub(super) fn add(&mut self, took: Duration) {
        let at = Self::bounds().position(|b| took <= b);
        self.buckets[at.unwrap_or(BUCKETS)] += 1;
        self.sum += took;
    }

    fn bounds() -> impl Iterator<Item = Duration> {
        (0..BUCKETS as u32).map(|k| FIRST * FACTOR.pow(k))
    }

    /// The upper bound of each bucket, and the number of turns in it that are in no earlier bucket. The entry
    /// without a bound has the turns that took longer than all bounds.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = Self::bounds().map(Some).chain([None]);
        bounds.zip(self.buckets)
    }

    /// Number of turns.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Total time of all turns.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_counted_in_the_first_bucket_that_holds_it() {
        let mut times = TurnTimes::default();
        for micros in [0, 20, 21, 80, 81, 30_000_000] {
            times.add(Duration::from_micros(micros));
        }
        let counts: Vec<u64> = times.buckets().map(|b| b.1).collect();
        assert_eq!(counts, [2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((times.count(), times.sum().as_micros()), (6, 30_000_202));
        let longest = times.buckets().filter_map(|b| b.0).last();
        assert_eq!(longest, Some(Duration::from_micros(5_242_880)));
    }
}
