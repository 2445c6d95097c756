//! The rate limit of resets for segments of no connection.

use spindle_units::{Duration, Instant};

use crate::secrets::Generator;

/// Resets a second for segments of no connection, on average, over all peers.
pub(super) const RESETS_PER_SECOND: u64 = 1000;
/// Resets that may be sent at once after a pause.
pub(super) const RESETS_AT_ONCE: u64 = 1000;

/// The average cost of a reset, in nanoseconds.
const COST: u64 = 1_000_000_000 / RESETS_PER_SECOND;
/// The cost that may be outstanding.
const CREDIT: Duration = Duration::from_nanos(COST * RESETS_AT_ONCE);

/// A token bucket for the whole stack. The exact cost of a reset is random. An attacker who counts the answers
/// to its own flood cannot tell from one count whether another host was sent a reset too, as was possible with
/// the exact limits of CVE-2016-5696 and CVE-2020-25705.
#[derive(Debug)]
pub(super) struct ResetLimit {
    /// When the cost of all resets so far will be paid off.
    paid: Instant,
    costs: Generator,
}

impl ResetLimit {
    pub(super) fn new(costs: Generator) -> Self {
        Self {
            paid: Instant::ZERO,
            costs,
        }
    }

    /// Whether another reset may be sent now. If so, its cost is charged.
    pub(super) fn admits(&mut self, now: Instant) -> bool {
        self.paid = self.paid.max(now);
        if self.paid.since(now) >= CREDIT {
            return false;
        }
        // Between one half and one and a half of the average.
        let cost = COST / 2 + self.costs.next_u64() % COST;
        self.paid += Duration::from_nanos(cost);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::{Label, Secrets};

    /// How many of `wanted` resets are admitted at `now`.
    fn granted(limit: &mut ResetLimit, now: Instant, wanted: u64) -> u64 {
        (0..wanted).filter(|_| limit.admits(now)).count() as u64
    }

    #[test]
    fn resets_are_limited_to_the_rate_in_inexact_numbers() {
        let costs = Secrets::Simulation(1).generators(Label::ResetCosts);
        let mut limit = ResetLimit::new(costs.generator(0));
        let mut now = Instant::ZERO + Duration::from_secs(1);
        let near = |n: u64, mean: u64| n.abs_diff(mean) <= mean / 10;
        let first = granted(&mut limit, now, 5 * RESETS_AT_ONCE);
        assert!(near(first, RESETS_AT_ONCE), "{first}");
        let mut counts = vec![first];
        for _ in 0..20 {
            now += Duration::from_secs(1);
            counts.push(granted(&mut limit, now, 5 * RESETS_PER_SECOND));
        }
        assert!(
            counts.iter().all(|n| near(*n, RESETS_PER_SECOND)),
            "{counts:?}"
        );
        counts.dedup();
        assert!(counts.len() > 10, "{counts:?}");
    }
}
