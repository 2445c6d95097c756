//! Detects that the host was suspended.
//!
//! CLOCK_BOOTTIME counts the time in suspend, CLOCK_MONOTONIC does not (clock_gettime(2)).

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A difference that grew by more than this indicates a suspend. Reading two clocks one after the other takes far
/// less (our choice).
const LEAST: Duration = Duration::from_secs(2);

/// The two clocks. Tests have their own.
pub trait Clocks: Send + Sync {
    /// Time since an arbitrary point, the time in suspend included.
    fn boottime(&self) -> Duration;

    /// Time since an arbitrary point, without the time in suspend.
    fn monotonic(&self) -> Duration;
}

/// The clocks of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClocks;

impl Clocks for SystemClocks {
    fn boottime(&self) -> Duration {
        read(ClockId::CLOCK_BOOTTIME)
    }

    fn monotonic(&self) -> Duration {
        read(ClockId::CLOCK_MONOTONIC)
    }
}

/// Linux has both clocks since 2.6.39, so that reading them does not fail.
fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// Compares the clocks.
#[derive(Debug)]
pub(super) struct SuspendDetector {
    suspended: Duration,
}

impl SuspendDetector {
    pub(super) fn new(clocks: &dyn Clocks) -> Self {
        Self {
            suspended: difference(clocks),
        }
    }

    /// How long the host was suspended since the last call, if it was.
    pub(super) fn check(&mut self, clocks: &dyn Clocks) -> Option<Duration> {
        let now = difference(clocks);
        let before = std::mem::replace(&mut self.suspended, now);
        let grown = now.saturating_sub(before);
        (grown > LEAST).then_some(grown)
    }
}

fn difference(clocks: &dyn Clocks) -> Duration {
    let monotonic = clocks.monotonic();
    clocks.boottime().saturating_sub(monotonic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Mutex;

    struct Simulated(Mutex<Cell<(u64, u64)>>);

    impl Clocks for Simulated {
        fn boottime(&self) -> Duration {
            Duration::from_secs(self.0.lock().unwrap().get().0)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.lock().unwrap().get().1)
        }
    }

    #[test]
    fn only_time_that_the_monotonic_clock_does_not_count_is_a_suspend() {
        let clocks = Simulated(Mutex::new(Cell::new((100, 90))));
        let set = |boottime, monotonic| clocks.0.lock().unwrap().set((boottime, monotonic));
        let mut detector = SuspendDetector::new(&clocks);
        assert_eq!(detector.check(&clocks), None);
        set(200, 190);
        assert_eq!(detector.check(&clocks), None);
        set(3800, 191);
        assert_eq!(detector.check(&clocks), Some(Duration::from_secs(3599)));
        set(3801, 192);
        assert_eq!(detector.check(&clocks), None);
        set(3804, 193);
        assert_eq!(detector.check(&clocks), None, "exactly two seconds");
    }

    #[test]
    fn system_clocks_advance() {
        assert!(SystemClocks.boottime() > Duration::ZERO);
        assert!(SystemClocks.monotonic() > Duration::ZERO);
        let mut detector = SuspendDetector::new(&SystemClocks);
        assert_eq!(detector.check(&SystemClocks), None);
    }
}
