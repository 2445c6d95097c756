//! The round-trip time of a path without queues.

use spindle_units::{Duration, Instant};

/// The base round-trip time is the smallest of at least this long, and of at most twice as long (Copa: 10 s).
const BASE_MEMORY: Duration = Duration::from_secs(10);

/// The smallest round-trip time of the last 10 to 20 s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    /// The smallest before `since`, in the period before.
    last: Option<Duration>,
    current: Option<Duration>,
    since: Instant,
}

impl Base {
    /// Processes a measured round-trip time.
    pub(super) fn on_sample(&mut self, now: Instant, rtt: Duration) {
        if now.since(self.since) >= BASE_MEMORY {
            self.last = self.current.take();
            self.since = now;
        }
        self.current = Some(self.current.map_or(rtt, |least| least.min(rtt)));
    }

    /// The smallest, if there was any.
    pub(super) fn get(&self) -> Option<Duration> {
        match (self.last, self.current) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_path_is_noticed_after_20_seconds() {
        let mut base = Base::default();
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        let (short, long) = (Duration::from_millis(20), Duration::from_millis(60));
        base.on_sample(at(0), short);
        base.on_sample(at(9), long);
        base.on_sample(at(11), long);
        assert_eq!(base.get(), Some(short));
        base.on_sample(at(22), long);
        assert_eq!(base.get(), Some(long));
    }
}
