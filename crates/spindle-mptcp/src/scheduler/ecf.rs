//! Earliest Completion First (ECF): waits for the fastest subflow if that completes the transfer earlier.

use spindle_units::Duration;

use super::{Decision, Scheduler, SchedulerFactory, SubflowView, View};

/// Earliest Completion First (Y. Lim, E. Nahum, D. Towsley, R. Gibbens, "ECF: An MPTCP Path Scheduler to Manage
/// Heterogeneous Paths", ACM CoNEXT 2017, Algorithm 1): "ecf".
///
/// If the subflow with the smallest RTT has no room, the data wait for it as long as waiting completes the
/// unsent data earlier than the next subflow would. See mechanisms A7.1.
#[derive(Clone, Copy, Debug)]
pub struct Ecf {
    /// The hysteresis beta of the paper's first inequality, 0 or more. Once the scheduler waits, it stops
    /// waiting only when the fastest subflow needs longer by this share.
    pub beta: f64,
}

impl Default for Ecf {
    /// The value of the paper's experiments: beta = 0.25.
    fn default() -> Self {
        Self { beta: 0.25 }
    }
}

impl SchedulerFactory for Ecf {
    fn name(&self) -> &str {
        "ecf"
    }

    fn summary(&self) -> &str {
        "ECF, waits for the fastest subflow if that completes the unsent data earlier (mechanisms A7.1)"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(EcfScheduler {
            rule: WaitingRule::new(self.beta),
        })
    }
}

/// The rule by which data wait for a faster subflow (Algorithm 1, lines 7 to 18).
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRule {
    beta: f64,
    /// The paper's `waiting`.
    waiting: bool,
}

impl WaitingRule {
    pub(super) fn new(beta: f64) -> Self {
        Self {
            beta,
            waiting: false,
        }
    }

    /// Whether `unsent` bytes wait for subflow `fast` instead of using subflow `slow`. Each has its round-trip
    /// time in nanoseconds.
    pub(super) fn waits(
        &mut self,
        (fast, rtt_f): (&SubflowView, f64),
        (slow, rtt_s): (&SubflowView, f64),
        unsent: u64,
    ) -> bool {
        let delta = larger_variation(fast, slow);
        let hysteresis = match self.waiting {
            true => 1.0 + self.beta,
            false => 1.0,
        };
        let n = 1.0 + windows(unsent, fast);
        if n * rtt_f >= hysteresis * (rtt_s + delta) {
            self.waiting = false;
            return false;
        }
        let waits = windows(unsent, slow) * rtt_s >= 2.0 * rtt_f + delta;
        self.waiting |= waits;
        waits
    }

    /// The time in nanoseconds after which the first inequality ends any wait for `fast`.
    pub(super) fn longest(&self, fast: &SubflowView, (slow, rtt_s): (&SubflowView, f64)) -> f64 {
        (1.0 + self.beta) * (rtt_s + larger_variation(fast, slow))
    }
}

/// The paper's delta, in nanoseconds.
fn larger_variation(fast: &SubflowView, slow: &SubflowView) -> f64 {
    let sigma = |s: &SubflowView| nanos(s.rtt_variation.unwrap_or_default());
    sigma(fast).max(sigma(slow))
}

#[derive(Debug)]
struct EcfScheduler {
    rule: WaitingRule,
}

impl EcfScheduler {
    fn waits(&mut self, fast: &SubflowView, slow: &SubflowView, unsent: u64) -> bool {
        let (Some(rtt_f), Some(rtt_s)) = (fast.srtt, slow.srtt) else {
            return false;
        };
        let (fast, slow) = ((fast, nanos(rtt_f)), (slow, nanos(rtt_s)));
        self.rule.waits(fast, slow, unsent)
    }
}

/// The number of congestion windows of subflow `s` that `bytes` fill. Part of a window takes a round trip as
/// well, so the result is at least 1. The authors' implementation has this bound (Linux MPTCP v0.95).
fn windows(bytes: u64, s: &SubflowView) -> f64 {
    (bytes as f64 / s.cwnd.max(1) as f64).max(1.0)
}

pub(super) fn nanos(d: Duration) -> f64 {
    d.as_nanos() as f64
}

impl Scheduler for EcfScheduler {
    fn sees_all(&self) -> bool {
        true
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        let Some(slow) = view.fastest_with_room().filter(|_| view.unsent > 0) else {
            return Decision::Wait;
        };
        match view.faster_than(slow) {
            Some(fast) if self.waits(fast, slow, view.unsent) => Decision::Wait,
            _ => Decision::new_data(slow.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{subflow, view_of};
    use super::*;
    use crate::types::SubflowId;

    const FAST: Decision = Decision::Assign(super::super::Assignment {
        subflow: SubflowId(0),
        portion: super::super::Portion::Next,
    });
    const SLOW: Decision = Decision::Assign(super::super::Assignment {
        subflow: SubflowId(1),
        portion: super::super::Portion::Next,
    });

    /// What a new scheduler decides if a subflow of 20 ms is full and one of `rtt_s` milliseconds has room, each
    /// with a window of 10 segments, and `unsent` segments are unsent.
    fn first_decision(rtt_s: u64, unsent: u64) -> Decision {
        let all = [subflow(0, 20, 10, false), subflow(1, rtt_s, 10, true)];
        let mut ecf = Ecf::default().build();
        ecf.pick(&view_of(&all, unsent * 1000))
    }

    #[test]
    fn ecf_uses_the_fastest_subflow_while_it_has_room() {
        let all = [subflow(1, 200, 10, true), subflow(0, 20, 10, true)];
        let mut ecf = Ecf::default().build();
        assert_eq!(ecf.pick(&view_of(&all, 1000)), FAST);
        assert_eq!(
            ecf.pick(&view_of(&all, 0)),
            Decision::Wait,
            "nothing to send"
        );
    }

    /// n RTT_f = (1 + k / 10) 20 ms, which is below RTT_s = 200 ms until k = 90.
    #[test]
    fn ecf_waits_until_the_unsent_data_take_as_long_on_the_fastest_subflow() {
        assert_eq!(first_decision(200, 89), Decision::Wait, "198 ms");
        assert_eq!(first_decision(200, 90), SLOW, "200 ms");
        assert_eq!(
            first_decision(200, 1),
            Decision::Wait,
            "40 ms: at least one window"
        );
    }

    /// k / CWND_s RTT_s >= 2 RTT_f: with one window, RTT_s must be at least 40 ms.
    #[test]
    fn ecf_does_not_wait_if_the_slow_subflow_completes_within_two_fast_round_trips() {
        assert_eq!(first_decision(39, 9), SLOW, "39 ms < 40 ms");
        assert_eq!(first_decision(41, 9), Decision::Wait, "40 < 41, 41 >= 40");
    }

    /// With beta = 0.25 the bound of 200 ms becomes 250 ms, which is reached at k = 115.
    #[test]
    fn ecf_stops_waiting_only_beyond_the_hysteresis() {
        let all = [subflow(0, 20, 10, false), subflow(1, 200, 10, true)];
        let mut ecf = Ecf::default().build();
        let mut pick = |segments: u64| ecf.pick(&view_of(&all, segments * 1000));
        assert_eq!(pick(50), Decision::Wait);
        assert_eq!(pick(114), Decision::Wait, "248 ms < 250 ms");
        assert_eq!(pick(115), SLOW, "250 ms");
        assert_eq!(pick(114), SLOW, "no longer waiting: 248 ms >= 200 ms");
    }

    /// delta = max(sigma_f, sigma_s) = 50 ms: (1 + k / 10) 20 ms < 250 ms until k = 115.
    #[test]
    fn ecf_adds_the_larger_rtt_variation_to_both_bounds() {
        let mut all = [subflow(0, 20, 10, false), subflow(1, 200, 10, true)];
        all[0].rtt_variation = Some(Duration::from_millis(10));
        all[1].rtt_variation = Some(Duration::from_millis(50));
        let decide =
            |all: &[SubflowView], k: u64| Ecf::default().build().pick(&view_of(all, k * 1000));
        assert_eq!(decide(&all, 114), Decision::Wait);
        assert_eq!(decide(&all, 115), SLOW);
        all[1].rtt_variation = Some(Duration::from_millis(161));
        assert_eq!(decide(&all, 5), SLOW, "200 ms < 2 * 20 ms + 161 ms");
    }

    #[test]
    fn ecf_does_not_wait_for_an_acknowledgement_that_cannot_come() {
        let mut all = [subflow(0, 20, 10, false), subflow(1, 200, 10, true)];
        all[0].queued = 0;
        assert_eq!(Ecf::default().build().pick(&view_of(&all, 1000)), SLOW);
        all[0].queued = 1000;
        all[1].srtt = None;
        assert_eq!(
            Ecf::default().build().pick(&view_of(&all, 1000)),
            SLOW,
            "unmeasured"
        );
    }
}
