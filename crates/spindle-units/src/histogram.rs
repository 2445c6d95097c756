//! [`DurationHistogram`]: how often something took how long.

use crate::Duration;

/// A histogram of durations with `BUCKETS` bounds and one more bucket for what exceeds them all. The first bound is `FIRST`
/// microseconds, and each further bound is `FACTOR` times the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationHistogram<const FIRST: u64, const FACTOR: u64, const BUCKETS: usize> {
    /// Durations within each bound that are within no earlier bound.
    within: [u64; BUCKETS],
    /// Durations beyond all bounds.
    beyond: u64,
    sum: Duration,
}

impl<const FIRST: u64, const FACTOR: u64, const BUCKETS: usize> Default
    for DurationHistogram<FIRST, FACTOR, BUCKETS>
{
    fn default() -> Self {
        Self {
            within: [0; BUCKETS],
            beyond: 0,
            sum: Duration::ZERO,
        }
    }
}

impl<const FIRST: u64, const FACTOR: u64, const BUCKETS: usize>
    DurationHistogram<FIRST, FACTOR, BUCKETS>
{
    /// Adds a duration.
    pub fn add(&mut self, took: Duration) {
        match Self::bounds().position(|b| took <= b) {
            Some(at) => self.within[at] += 1,
            None => self.beyond += 1,
        }
        self.sum += took;
    }

    /// Adds the durations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, more) in self.within.iter_mut().zip(other.within) {
            *mine += more;
        }
        self.beyond += other.beyond;
        self.sum += other.sum;
    }

    fn bounds() -> impl Iterator<Item = Duration> {
        (0..BUCKETS as u32).map(|k| Duration::from_micros(FIRST * FACTOR.pow(k)))
    }

    /// The upper bound of each bucket, and the number of durations in it that are in no earlier bucket. The entry
    /// without a bound has the durations beyond all bounds.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let within = Self::bounds().map(Some).zip(self.within);
        within.chain([(None, self.beyond)])
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.within.iter().sum::<u64>() + self.beyond
    }

    /// Sum of all durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let mut times = DurationHistogram::<20, 4, 10>::default();
        for micros in [0, 20, 21, 80, 81, 30_000_000] {
            times.add(Duration::from_micros(micros));
        }
        let counts: Vec<u64> = times.buckets().map(|b| b.1).collect();
        assert_eq!(counts, [2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((times.count(), times.sum().as_micros()), (6, 30_000_202));
        let longest = times.buckets().filter_map(|b| b.0).last();
        assert_eq!(longest, Some(Duration::from_micros(5_242_880)));
    }

    #[test]
    fn histograms_add_up() {
        let mut all = DurationHistogram::<100, 2, 3>::default();
        let mut more = all;
        all.add(Duration::from_micros(100));
        more.add(Duration::from_micros(350));
        more.add(Duration::from_secs(1));
        all.merge(&more);
        let counts: Vec<u64> = all.buckets().map(|b| b.1).collect();
        assert_eq!(counts, [1, 0, 1, 1]);
        assert_eq!(all.sum(), Duration::from_micros(1_000_450));
    }
}
