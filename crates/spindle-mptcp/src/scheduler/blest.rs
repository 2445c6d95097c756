//! BLocking ESTimation (BLEST): keeps the peer's window free for the fastest subflow.

use spindle_units::Instant;

use super::{Decision, Scheduler, SchedulerFactory, SubflowView, View};

/// BLocking ESTimation (S. Ferlin, O. Alay, O. Mehani, R. Boreli, "BLEST: Blocking Estimation-based MPTCP
/// Scheduler for Heterogeneous Networks", IFIP Networking 2016, section V): "blest".
///
/// If the subflow with the smallest RTT has no room, another one gets data only if they leave enough of the
/// peer's window to what the fastest subflow will send until they are acknowledged. See mechanisms A7.2.
#[derive(Clone, Copy, Debug)]
pub struct Blest;

impl SchedulerFactory for Blest {
    fn name(&self) -> &str {
        "blest"
    }

    fn summary(&self) -> &str {
        "BLEST, a slower subflow gets no data that would block the peer's window for the fastest (mechanisms A7.2)"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(BlestScheduler {
            lambda: INITIAL_LAMBDA,
            adapted: None,
        })
    }
}

/// The first value of lambda in thousandths. This value and the next four are the defaults of the authors'
/// implementation (Linux MPTCP v0.95).
const INITIAL_LAMBDA: u64 = 1200;
/// The smallest value of lambda in thousandths.
const LEAST_LAMBDA: u64 = 1000;
/// The largest value of lambda in thousandths.
const LARGEST_LAMBDA: u64 = 1300;
/// Added to lambda after a round trip in which the data level sent data again, in thousandths.
const INCREASE: u64 = 40;
/// Subtracted from lambda after any other round trip, in thousandths.
const DECREASE: u64 = 10;

#[derive(Debug)]
struct BlestScheduler {
    /// The correction of the estimate, in thousandths.
    lambda: u64,
    /// When lambda was last adapted, and the number of segments that the data level had sent again by then.
    adapted: Option<(Instant, u64)>,
}

impl BlestScheduler {
    /// Adapts lambda once a round trip of subflow `slow`: up if the data level had to send data again, down
    /// otherwise.
    fn adapt(&mut self, view: &View<'_>, slow: &SubflowView) {
        let Some((at, reinjected)) = self.adapted else {
            self.adapted = Some((view.now, view.reinjected));
            return;
        };
        if view.now.since(at) < slow.srtt.unwrap_or_default() {
            return;
        }
        let lambda = match view.reinjected > reinjected {
            true => self.lambda + INCREASE,
            false => self.lambda - DECREASE,
        };
        self.lambda = lambda.clamp(LEAST_LAMBDA, LARGEST_LAMBDA);
        self.adapted = Some((view.now, view.reinjected));
    }

    /// Whether a segment on subflow `slow` would block the window for subflow `fast`.
    fn blocks(&self, fast: &SubflowView, slow: &SubflowView, window: u64) -> bool {
        let (Some(rtt_f), Some(rtt_s)) = (fast.srtt, slow.srtt) else {
            return false;
        };
        let rtts = rtt_s.as_nanos() as f64 / rtt_f.as_nanos().max(1) as f64;
        // X = MSS_F (CWND_F + (rtts - 1) / 2) rtts, with CWND_F in segments.
        let growth = fast.mss as f64 * (rtts - 1.0) / 2.0;
        let sent = (fast.cwnd as f64 + growth) * rtts * self.lambda as f64 / 1000.0;
        let left = window.saturating_sub(slow.queued + slow.mss);
        sent > left as f64
    }
}

impl Scheduler for BlestScheduler {
    fn sees_all(&self) -> bool {
        true
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        let Some(slow) = view.fastest_with_room().filter(|_| view.unsent > 0) else {
            return Decision::Wait;
        };
        let Some(fast) = view.faster_than(slow) else {
            return Decision::new_data(slow.id);
        };
        self.adapt(view, slow);
        match self.blocks(fast, slow, view.window()) {
            true => Decision::Wait,
            false => Decision::new_data(slow.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{subflow, view_of};
    use super::*;
    use crate::types::{DataOffset, SubflowId};
    use spindle_units::Duration;

    const SLOW: Decision = Decision::Assign(super::super::Assignment {
        subflow: SubflowId(1),
        portion: super::super::Portion::Next,
    });

    fn scheduler(lambda: u64) -> BlestScheduler {
        BlestScheduler {
            lambda,
            adapted: None,
        }
    }

    /// A full subflow of 20 ms with a window of 10 segments of 1000 bytes, and one of 200 ms with room.
    fn two() -> [SubflowView; 2] {
        [subflow(0, 20, 10, false), subflow(1, 200, 10, true)]
    }

    fn with_window(all: &[SubflowView], window: u64) -> View<'_> {
        View {
            acked_to: DataOffset(5000),
            window_end: DataOffset(5000 + window),
            ..view_of(all, 1000)
        }
    }

    /// rtts = 10 and X = 1000 (10 + 4.5) 10 = 145 000. With lambda = 1 and nothing in flight on the slow
    /// subflow, the window must have 146 000 bytes.
    #[test]
    fn blest_uses_the_slow_subflow_if_the_window_holds_what_the_fast_one_sends_meanwhile() {
        let mut all = two();
        let decide = |all: &[SubflowView], window| scheduler(1000).pick(&with_window(all, window));
        assert_eq!(decide(&all, 145_999), Decision::Wait);
        assert_eq!(decide(&all, 146_000), SLOW);
        all[1].queued = 3000;
        assert_eq!(
            decide(&all, 148_999),
            Decision::Wait,
            "four segments on the slow subflow"
        );
        assert_eq!(decide(&all, 149_000), SLOW);
    }

    /// lambda X = 1.2 * 145 000 = 174 000.
    #[test]
    fn blest_multiplies_its_estimate_by_lambda() {
        let all = two();
        let decide = |window| Blest.build().pick(&with_window(&all, window));
        assert_eq!(decide(174_999), Decision::Wait);
        assert_eq!(decide(175_000), SLOW);
    }

    #[test]
    fn blest_uses_the_fastest_subflow_while_it_has_room() {
        let mut all = two();
        all[0].has_room = true;
        let fast = Decision::new_data(SubflowId(0));
        assert_eq!(Blest.build().pick(&with_window(&all, 1000)), fast);
    }

    #[test]
    fn blest_does_not_wait_for_an_acknowledgement_that_cannot_come() {
        let mut all = two();
        all[0].queued = 0;
        assert_eq!(Blest.build().pick(&with_window(&all, 1000)), SLOW);
        all[0].queued = 1000;
        all[1].srtt = None;
        assert_eq!(
            Blest.build().pick(&with_window(&all, 1000)),
            SLOW,
            "unmeasured"
        );
    }

    #[test]
    fn lambda_rises_after_round_trips_with_reinjections_and_falls_after_others() {
        let all = two();
        let mut blest = scheduler(INITIAL_LAMBDA);
        let mut at = |ms: u64, reinjected: u64| {
            let view = View {
                now: Instant::ZERO + Duration::from_millis(ms),
                reinjected,
                ..with_window(&all, 1000)
            };
            blest.pick(&view);
            blest.lambda
        };
        assert_eq!(at(0, 5), 1200, "the first decision begins a round trip");
        assert_eq!(at(199, 6), 1200, "within the round trip");
        assert_eq!(at(200, 6), 1240);
        assert_eq!(at(400, 6), 1230);
        assert_eq!(at(600, 7), 1270);
        assert_eq!(at(800, 9), 1300, "at most 1.3");
        let fallen = (0..40).map(|k| at(1000 + 200 * k, 9)).last();
        assert_eq!(fallen, Some(1000), "at least 1.0");
    }
}
