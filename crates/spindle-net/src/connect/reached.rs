//! Targets that a gateway has reached lately.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::target::Target;

/// How long a target is expected to be reached again (our choice).
const REMEMBERED: Duration = Duration::from_secs(600);
/// Most targets that are remembered. A browser uses some hundred in ten minutes.
const MOST: usize = 1024;

/// The targets that the gateway has reached within the last ten minutes, each with the time when it was reached last.
#[derive(Debug, Default)]
pub(super) struct Reached(Mutex<HashMap<Target, Instant>>);

impl Reached {
    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the target was reached lately, and the last attempt to reach it did not fail.
    pub(super) fn contains(&self, target: &Target, now: Instant) -> bool {
        let at = self.lock().get(target).copied();
        at.is_some_and(|at| now.saturating_duration_since(at) < REMEMBERED)
    }

    /// The gateway has reached the target. If too many are remembered, the one that was reached least lately is forgotten.
    pub(super) fn add(&self, target: &Target, now: Instant) {
        let mut targets = self.lock();
        if let Some(at) = targets.get_mut(target) {
            *at = now;
            return;
        }
        if targets.len() >= MOST {
            let oldest = targets.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(target, _)| target.clone()) {
                targets.remove(&oldest);
            }
        }
        targets.insert(target.clone(), now);
    }

    /// The gateway has not reached the target.
    pub(super) fn remove(&self, target: &Target) {
        self.lock().remove(target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(port: u16) -> Target {
        Target::Name("server.example".to_owned(), port)
    }

    #[test]
    fn target_is_known_for_ten_minutes_after_it_was_reached_and_until_it_fails() {
        let (reached, start) = (Reached::default(), Instant::now());
        assert!(!reached.contains(&target(80), start));
        reached.add(&target(80), start);
        let after = |s| start + Duration::from_secs(s);
        assert!(reached.contains(&target(80), after(599)));
        assert!(!reached.contains(&target(443), after(1)), "another port");
        assert!(!reached.contains(&target(80), after(600)));
        reached.add(&target(80), after(500));
        assert!(reached.contains(&target(80), after(1000)));
        reached.remove(&target(80));
        assert!(!reached.contains(&target(80), after(500)));
    }

    #[test]
    fn number_of_known_targets_is_limited() {
        let (reached, start) = (Reached::default(), Instant::now());
        let at = |i: u16| start + Duration::from_millis(i.into());
        let most = MOST as u16;
        (0..most).for_each(|i| reached.add(&target(i), at(i)));
        reached.add(&target(0), at(most));
        reached.add(&target(most), at(most));
        let known = |i| reached.contains(&target(i), at(most));
        assert_eq!(reached.lock().len(), MOST);
        assert!(known(0) && known(most) && known(2));
        assert!(!known(1), "reached least lately");
    }
}
