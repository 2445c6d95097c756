//! Earliest arrival: the subflow over which data arrive first, with the repair of the losses that are expected.

use super::ecf::{Ecf, WaitingRule, nanos};
use super::{Decision, Scheduler, SchedulerFactory, SubflowView, View};

/// Earliest arrival: "earliest".
///
/// It chooses and waits as [`Ecf`] does, but for the round-trip time, to which it adds the time that repairs are
/// expected to take: a lossy path is not the fastest because its round-trip time is a little shorter.
#[derive(Clone, Copy, Debug)]
pub struct Earliest {
    /// The time that the repair of a lost segment takes, in smoothed round-trip times. 3 by default: a probe timeout of
    /// two (RFC 8985, section 7.2) and one for the retransmission.
    pub repair: f64,
    /// The hysteresis beta of ECF, 0.25 by default.
    pub beta: f64,
}

impl Default for Earliest {
    fn default() -> Self {
        Self {
            repair: 3.0,
            beta: Ecf::default().beta,
        }
    }
}

impl SchedulerFactory for Earliest {
    fn name(&self) -> &str {
        "earliest"
    }

    fn summary(&self) -> &str {
        "ECF, with the expected time of repairs added to the RTT of a path that loses packets (docs/spindle.md)"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(EarliestScheduler {
            settings: *self,
            rule: WaitingRule::new(self.beta),
        })
    }
}

#[derive(Debug)]
struct EarliestScheduler {
    settings: Earliest,
    rule: WaitingRule,
}

impl EarliestScheduler {
    /// The expected time until the next `unsent` bytes, at most a window, are acknowledged, in nanoseconds. Infinite
    /// if the round-trip time was not measured.
    fn time(&self, s: &SubflowView, unsent: u64) -> f64 {
        let segments = unsent.min(s.cwnd) as f64 / s.mss.max(1) as f64;
        let any_lost = 1.0 - (1.0 - s.loss).powf(segments.max(1.0));
        let srtt = s.srtt.map_or(f64::INFINITY, nanos);
        srtt * (1.0 + self.settings.repair * any_lost)
    }

    fn fastest<'a>(
        &self,
        subflows: impl Iterator<Item = &'a SubflowView>,
        unsent: u64,
    ) -> Option<(&'a SubflowView, f64)> {
        let timed = subflows.map(|s| (s, self.time(s, unsent)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.id.cmp(&b.0.id)))
    }
}

impl Scheduler for EarliestScheduler {
    fn sees_all(&self) -> bool {
        true
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        let with_room = view.subflows.iter().filter(|s| s.has_room);
        let Some(slow) = self
            .fastest(with_room, view.unsent)
            .filter(|_| view.unsent > 0)
        else {
            return Decision::Wait;
        };
        // Only an event on a subflow with unacknowledged data ends a wait for its room.
        let busy = view.subflows.iter().filter(|s| s.queued > 0);
        match self.fastest(busy.chain([slow.0]), view.unsent) {
            Some(fast) if fast.0.id != slow.0.id && slow.1.is_finite() => {
                match self.rule.waits(fast, slow, view.unsent) {
                    true => Decision::Wait,
                    false => Decision::new_data(slow.0.id),
                }
            }
            _ => Decision::new_data(slow.0.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{subflow, view_of};
    use super::*;
    use crate::types::SubflowId;

    fn pick(all: &[SubflowView], unsent: u64) -> Option<u8> {
        match Earliest::default().build().pick(&view_of(all, unsent)) {
            Decision::Assign(a) => Some(a.subflow.0),
            Decision::Wait | Decision::WaitUntil(_) => None,
        }
    }

    #[test]
    fn path_without_losses_goes_before_a_slightly_faster_one_that_loses_packets() {
        let mut all = [subflow(0, 20, 10, true), subflow(1, 21, 10, true)];
        assert_eq!(pick(&all, 1000), Some(0));
        // 20 ms (1 + 3 * 0.04) = 22.4 ms.
        all[0].loss = 0.04;
        assert_eq!(pick(&all, 1000), Some(1));
    }

    #[test]
    fn data_wait_for_the_faster_path_as_with_ecf() {
        let all = [subflow(0, 20, 10, false), subflow(1, 200, 10, true)];
        assert_eq!(pick(&all, 1000), None, "40 ms");
        assert_eq!(pick(&all, 90_000), Some(1), "200 ms");
        assert_eq!(pick(&all, 0), None, "nothing to send");
    }

    #[test]
    fn data_do_not_wait_for_a_path_without_unacknowledged_data_or_from_an_unmeasured_one() {
        let mut all = [subflow(0, 20, 10, false), subflow(1, 200, 10, true)];
        all[0].queued = 0;
        assert_eq!(pick(&all, 1000), Some(1));
        all[0].queued = 1000;
        all[1].srtt = None;
        assert_eq!(pick(&all, 1000), Some(1));
        assert_eq!(all[1].id, SubflowId(1));
    }
}
