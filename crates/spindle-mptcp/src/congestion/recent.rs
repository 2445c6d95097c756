//! The smallest value of the last seconds.

use spindle_units::{Duration, Instant};

/// A value is remembered for at least this long, and for at most twice as long while others are measured (Copa: 10 s for
/// the base round-trip time). After a pause, it is remembered for this long again.
pub(super) const MEMORY: Duration = Duration::from_secs(10);

/// The smallest value of the last 10 to 20 s. [`std::cmp::Reverse`] makes it the largest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recent<T> {
    /// The smallest value of the period before `since`.
    last: Option<T>,
    current: Option<T>,
    since: Instant,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            last: None,
            current: None,
            since: Instant::ZERO,
        }
    }
}

impl<T: Copy + Ord> Recent<T> {
    /// Processes a measured value.
    pub(super) fn on_sample(&mut self, now: Instant, value: T) {
        if now.since(self.since) >= MEMORY {
            self.last = self.current.take();
            self.since = now;
        }
        self.current = smaller(self.current, Some(value));
    }

    /// The smallest value, if there was any.
    pub(super) fn get(&self) -> Option<T> {
        smaller(self.last, self.current)
    }

    /// Adds the values of another one. Joining again and again keeps no value alive: periods begin with the earlier of the
    /// two, and what moves to the last period never returns.
    pub(super) fn join(&mut self, other: &Self) {
        let (earlier, later) = match self.since <= other.since {
            true => (*self, *other),
            false => (*other, *self),
        };
        let apart = later.since.since(earlier.since);
        *self = if apart < MEMORY {
            Self {
                last: smaller(earlier.last, later.last),
                current: smaller(earlier.current, later.current),
                since: earlier.since,
            }
        } else if apart < MEMORY * 2 {
            Self {
                last: smaller(later.last, earlier.current),
                ..later
            }
        } else {
            later
        };
    }
}

/// The smaller one of two values, or the only one.
fn smaller<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn value_is_forgotten_after_20_seconds() {
        let mut base = Recent::default();
        base.on_sample(at(0), 20);
        base.on_sample(at(9), 60);
        base.on_sample(at(11), 60);
        assert_eq!(base.get(), Some(20));
        base.on_sample(at(22), 60);
        assert_eq!(base.get(), Some(60));
    }

    #[test]
    fn largest_value_is_found_as_well() {
        let mut rate = Recent::default();
        assert_eq!(rate.get(), None);
        for value in [1, 3, 2] {
            rate.on_sample(at(0), Reverse(value));
        }
        assert_eq!(rate.get(), Some(Reverse(3)));
    }

    /// Each of many subflows knows what the one before it measured. The path became longer after the first one.
    #[test]
    fn value_is_forgotten_although_it_is_passed_on_again_and_again() {
        for apart in 1..=10 {
            let mut memory = Recent::default();
            memory.on_sample(at(0), 20);
            for start in (1..).map(|n| n * apart).take_while(|start| *start <= 60) {
                let mut subflow = Recent::default();
                subflow.on_sample(at(start), 60);
                subflow.join(&memory);
                subflow.on_sample(at(start), 60);
                memory.join(&subflow);
            }
            assert_eq!(memory.get(), Some(60), "a subflow in {apart} s");
        }
    }

    proptest! {
        #[test]
        fn joined_values_are_those_of_both_and_are_forgotten_in_time(
            samples in proptest::collection::vec((0_u64..60, 0_u32..100, any::<bool>()), 1..40),
        ) {
            let mut samples = samples;
            samples.sort_by_key(|s| s.0);
            let (mut a, mut b) = (Recent::default(), Recent::default());
            for (second, value, first) in &samples {
                if *first { &mut a } else { &mut b }.on_sample(at(*second), *value);
            }
            let newest = a.since.max(b.since);
            let mut joined = a;
            joined.join(&b);
            let mut reversed = b;
            reversed.join(&a);
            prop_assert_eq!(joined, reversed);
            // What both measured since the later period began is known. Nothing comes from elsewhere.
            let measured = samples.iter().filter(|s| at(s.0) >= newest).map(|s| s.1).min();
            let got = joined.get();
            prop_assert!(measured.is_none_or(|v| got.is_some_and(|got| got <= v)));
            prop_assert!(got.is_none_or(|got| Some(got) >= smaller(a.get(), b.get())));
        }
    }
}
