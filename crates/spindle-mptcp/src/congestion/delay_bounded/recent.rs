//! The smallest or largest value of the last seconds.

use spindle_units::{Duration, Instant};

/// A value is remembered for at least this long, and for at most twice as long (Copa: 10 s for the base round-trip
/// time).
const MEMORY: Duration = Duration::from_secs(10);

/// The value of the last 10 to 20 s that `choose` prefers to all others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recent<T> {
    choose: fn(T, T) -> T,
    /// The preferred value before `since`, in the period before.
    last: Option<T>,
    current: Option<T>,
    since: Instant,
}

impl<T: Copy> Recent<T> {
    pub(super) fn new(choose: fn(T, T) -> T) -> Self {
        Self {
            choose,
            last: None,
            current: None,
            since: Instant::ZERO,
        }
    }

    /// Processes a measured value.
    pub(super) fn on_sample(&mut self, now: Instant, value: T) {
        if now.since(self.since) >= MEMORY {
            self.last = self.current.take();
            self.since = now;
        }
        let choose = self.choose;
        self.current = Some(self.current.map_or(value, |other| choose(other, value)));
    }

    /// The preferred value, if there was any.
    pub(super) fn get(&self) -> Option<T> {
        match (self.last, self.current) {
            (Some(a), Some(b)) => Some((self.choose)(a, b)),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_forgotten_after_20_seconds() {
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        let mut base = Recent::new(Ord::min);
        let (short, long) = (Duration::from_millis(20), Duration::from_millis(60));
        base.on_sample(at(0), short);
        base.on_sample(at(9), long);
        base.on_sample(at(11), long);
        assert_eq!(base.get(), Some(short));
        base.on_sample(at(22), long);
        assert_eq!(base.get(), Some(long));
    }

    #[test]
    fn largest_value_is_found_as_well() {
        let mut rate = Recent::new(f64::max);
        assert_eq!(rate.get(), None);
        for value in [1.0, 3.0, 2.0] {
            rate.on_sample(Instant::ZERO, value);
        }
        assert_eq!(rate.get(), Some(3.0));
    }
}
