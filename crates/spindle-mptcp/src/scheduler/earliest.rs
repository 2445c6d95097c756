//! Earliest arrival: the subflow over which data arrive first, with the repair of the losses that are expected.

use spindle_units::Instant;

use super::ecf::{Ecf, WaitingRule, nanos};
use super::{Decision, Scheduler, SchedulerFactory, SubflowView, View};
use crate::types::{AssumedLoss, SubflowId};

/// Earliest arrival: "earliest".
///
/// It chooses and waits as [`Ecf`] does, but for the round-trip time, to which it adds the time that repairs are
/// expected to take: a lossy path is not the fastest because its round-trip time is a little shorter.
///
/// ECF assumes that the faster path keeps its window. In slow start the window doubles, and a slow path would
/// finish last what it was given first: data then wait also if the faster path delivers them with a growing window
/// before the slower path would, both without losses.
///
/// ECF also assumes that nothing follows the unsent data. If an application keeps writing, they may never be many enough
/// for the slower path, whose round-trip time then is not measured any more, however large it was by chance. A wait
/// therefore ends after the time in which the slower path would have delivered the data, and that path gets a window.
///
/// Both rules count in round trips. In slow start, acknowledgements that are due within a fraction of a round trip may make
/// room for [all remaining data](SubflowView::room_at). These wait for them if they then arrive earlier than over the other
/// path, expected repairs included. A second path that is as fast would save nothing, and might lose packets.
///
/// Until a path was observed, it is assumed to have the [`Self::assumed_loss`].
#[derive(Clone, Copy, Debug)]
pub struct Earliest {
    /// The time that the repair of a lost segment takes, in smoothed round-trip times. 3 by default: a probe timeout of
    /// two (RFC 8985, section 7.2) and one for the retransmission.
    pub repair: f64,
    /// The hysteresis beta of ECF, 0.25 by default.
    pub beta: f64,
    /// The loss that a path is assumed to have until it was observed. 0.01 by default, as for
    /// [`TailParities`](crate::recovery::TailParities). Half of it is left after an initial window of ten segments (RFC
    /// 6928): a path that has delivered a window goes before an untried one.
    pub assumed_loss: AssumedLoss,
}

impl Default for Earliest {
    fn default() -> Self {
        Self {
            repair: 3.0,
            beta: Ecf::default().beta,
            assumed_loss: AssumedLoss {
                share: 0.01,
                weight: 10.0,
            },
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
            patience: Patience::default(),
        })
    }
}

#[derive(Debug)]
struct EarliestScheduler {
    settings: Earliest,
    rule: WaitingRule,
    patience: Patience,
}

/// How long data have waited for a faster subflow.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    /// Data have waited again and again since then, and there was always more to send.
    since: Option<Instant>,
    /// The wait was too long. This subflow gets data until it has no room.
    granted: Option<SubflowId>,
}

impl Patience {
    /// A window of the slower subflow ends the wait.
    fn look_at(&mut self, subflows: &[SubflowView]) {
        let has_room = |id| subflows.iter().any(|s| s.id == id && s.has_room);
        if self.granted.is_some_and(|id| !has_room(id)) {
            *self = Self::default();
        }
    }

    /// Whether `slow` gets data although the rule waits: the wait has lasted for `longest` nanoseconds.
    fn is_over(&mut self, now: Instant, slow: SubflowId, longest: f64) -> bool {
        let since = *self.since.get_or_insert(now);
        if self.granted.is_none() && nanos(now.since(since)) >= longest {
            self.granted = Some(slow);
        }
        self.granted == Some(slow)
    }

    /// Data are sent. If they are the last ones, the wait was not in vain.
    fn on_assignment(&mut self, unsent: u64, mss: u64) {
        if unsent <= mss {
            *self = Self::default();
        }
    }
}

impl EarliestScheduler {
    /// The expected time until the next `unsent` bytes, at most a window, are acknowledged, in nanoseconds. Infinite
    /// if the round-trip time was not measured.
    fn time(&self, s: &SubflowView, unsent: u64) -> f64 {
        let segments = unsent.min(s.cwnd) as f64 / s.mss.max(1) as f64;
        let loss = self.settings.assumed_loss.risk(s.loss, s.sent);
        let any_lost = 1.0 - (1.0 - loss).powf(segments.max(1.0));
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

    /// Until when the last data wait for acknowledgements that are due, if they then arrive in less than `time` nanoseconds.
    /// Acknowledgements may be a quarter of a round trip late, as RACK allows for reordering (RFC 8985, section 6.2). Data do
    /// not wait for an acknowledgement that is lost.
    fn wait_for_room(&self, view: &View<'_>, time: f64) -> Option<Instant> {
        let ends = view.subflows.iter().filter(|s| s.timeouts == 0);
        let ends = ends.filter_map(|s| {
            let (at, srtt) = (s.room_at?, s.srtt?);
            let is_earlier = nanos(at.since(view.now)) + self.time(s, view.unsent) < time;
            is_earlier.then_some(at + srtt / 4)
        });
        ends.filter(|end| *end > view.now).min()
    }
}

/// Whether `unsent` bytes are acknowledged on `fast`, which is in slow start, before a segment on `slow` is. The window
/// doubles in each round trip, and the first round trip passes before there is room. The variation of these counts
/// against the wait. What fits into one window needs no growth, so ECF's rule alone applies to it.
fn outgrows(fast: &SubflowView, slow: &SubflowView, unsent: u64) -> bool {
    let (Some(rtt_f), Some(rtt_s)) = (fast.srtt, slow.srtt) else {
        return false;
    };
    let windows = unsent as f64 / fast.cwnd.max(1) as f64;
    if !fast.in_slow_start || windows <= 1.0 {
        return false;
    }
    let rounds = (1.0 + windows).log2();
    let variation = nanos(fast.rtt_variation.unwrap_or_default());
    (1.0 + rounds) * nanos(rtt_f) + variation < nanos(rtt_s)
}

impl Scheduler for EarliestScheduler {
    fn sees_all(&self) -> bool {
        true
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        self.patience.look_at(view.subflows);
        let with_room = view.subflows.iter().filter(|s| s.has_room);
        let Some(slow) = self
            .fastest(with_room, view.unsent)
            .filter(|_| view.unsent > 0)
        else {
            return Decision::Wait;
        };
        // Only an event on a subflow with unacknowledged data ends a wait for its room. It is unknown when a subflow
        // answers that has timed out.
        let answers = |s: &&SubflowView| s.queued > 0 && s.timeouts == 0;
        let busy = view.subflows.iter().filter(answers);
        if let Some(fast) = self.fastest(busy.chain([slow.0]), view.unsent)
            && fast.0.id != slow.0.id
            && slow.1.is_finite()
            && (self.rule.waits(fast, slow, view.unsent) || outgrows(fast.0, slow.0, view.unsent))
        {
            let longest = self.rule.longest(fast.0, slow);
            if !self.patience.is_over(view.now, slow.0.id, longest) {
                return Decision::Wait;
            }
        }
        if slow.1.is_finite()
            && let Some(end) = self.wait_for_room(view, slow.1)
        {
            return Decision::WaitUntil(end);
        }
        self.patience.on_assignment(view.unsent, slow.0.mss);
        Decision::new_data(slow.0.id)
    }

    fn forget(&mut self, subflow: SubflowId) {
        if self.patience.granted == Some(subflow) {
            self.patience = Patience::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{subflow, view_of};
    use spindle_units::Duration;

    use super::*;

    fn pick(all: &[SubflowView], unsent: u64) -> Option<u8> {
        match Earliest::default().build().pick(&view_of(all, unsent)) {
            Decision::Assign(a) => Some(a.subflow.0),
            Decision::Wait | Decision::WaitUntil(_) => None,
        }
    }

    /// A subflow that has sent so many segments that its losses are known.
    fn known(id: u8, srtt_ms: u64, cwnd: u64, has_room: bool) -> SubflowView {
        SubflowView {
            sent: 1_000_000,
            ..subflow(id, srtt_ms, cwnd, has_room)
        }
    }

    #[test]
    fn path_without_losses_goes_before_a_slightly_faster_one_that_loses_packets() {
        let mut all = [known(0, 20, 10, true), known(1, 21, 10, true)];
        assert_eq!(pick(&all, 1000), Some(0));
        // 20 ms (1 + 3 * 0.04) = 22.4 ms.
        all[0].loss = 0.04;
        assert_eq!(pick(&all, 1000), Some(1));
    }

    #[test]
    fn path_that_has_delivered_data_goes_before_an_untried_one_that_is_as_fast() {
        let mut all = [subflow(0, 21, 10, true), subflow(1, 20, 10, true)];
        assert_eq!(pick(&all, 10_000), Some(1), "both are untried");
        // 21 ms (1 + 3 (1 - 0.995^10)) = 24.1 ms, and 20 ms (1 + 3 (1 - 0.99^10)) = 25.7 ms.
        all[0].sent = 10;
        assert_eq!(pick(&all, 10_000), Some(0));
        assert_eq!(pick(&all, 1000), Some(1), "21.3 and 20.6 ms for a segment");
    }

    #[test]
    fn last_data_wait_for_acknowledgements_that_are_due_and_not_for_late_ones() {
        let mut all = [subflow(0, 20, 10, false), subflow(1, 20, 10, true)];
        (all[0].sent, all[0].in_slow_start) = (10, true);
        let mut scheduler = Earliest::default().build();
        let mut at = |all: &[SubflowView], us: u64| {
            let mut view = view_of(all, 10_000);
            view.now = Instant::ZERO + Duration::from_micros(us);
            scheduler.pick(&view)
        };
        let on_1 = Decision::new_data(SubflowId(1));
        assert_eq!(at(&all, 0), on_1, "no acknowledgements suffice");
        // 22.9 ms on subflow 0, and 25.7 ms on subflow 1, which is untried.
        let due = Instant::ZERO + Duration::from_micros(2000);
        all[0].room_at = Some(due);
        let end = Decision::WaitUntil(due + Duration::from_millis(5));
        assert_eq!(at(&all, 0), end);
        assert_eq!(at(&all, 6999), end, "an acknowledgement may be late");
        assert_eq!(at(&all, 7000), on_1, "it may be lost");
        all[0].room_at = Some(Instant::ZERO + Duration::from_millis(10));
        assert_eq!(at(&all, 0), on_1, "30 ms");
        (all[0].room_at, all[0].timeouts) = (Some(due), 1);
        assert_eq!(at(&all, 0), on_1, "it has timed out");
    }

    #[test]
    fn data_wait_for_the_faster_path_as_with_ecf() {
        let all = [known(0, 20, 10, false), known(1, 200, 10, true)];
        assert_eq!(pick(&all, 1000), None, "40 ms");
        assert_eq!(pick(&all, 90_000), Some(1), "200 ms");
        assert_eq!(pick(&all, 0), None, "nothing to send");
    }

    #[test]
    fn data_wait_for_a_window_that_doubles() {
        // The window is 10 segments of 1000 bytes. 70 segments take 20 ms (1 + log2(1 + 7)) = 80 ms.
        let mut all = [known(0, 20, 10, false), known(1, 100, 10, true)];
        assert_eq!(pick(&all, 70_000), Some(1), "160 ms without growth");
        all[0].in_slow_start = true;
        assert_eq!(pick(&all, 70_000), None, "80 ms");
        assert_eq!(pick(&all, 150_000), Some(1), "100 ms");
        all[1].rtt_variation = Some(Duration::from_millis(61));
        assert_eq!(
            pick(&all, 9000),
            Some(1),
            "no growth, and ECF does not wait"
        );
        // Losses of the slower path are no reason to wait.
        all[1].srtt = Some(Duration::from_millis(20));
        all[1].loss = 0.5;
        assert_eq!(pick(&all, 70_000), Some(1), "as long as on the slower path");
    }

    /// Data wait for 20 ms instead of 200 ms, but the application writes more all the time. After 250 ms the slower path
    /// would have delivered what waited first.
    #[test]
    fn a_wait_ends_after_the_time_of_the_slower_path_until_its_window_is_full() {
        let mut all = [known(0, 20, 10, false), known(1, 200, 10, true)];
        let mut scheduler = Earliest::default().build();
        let mut at = |all: &[SubflowView], ms: u64, unsent: u64| {
            let mut view = view_of(all, unsent);
            view.now = Instant::ZERO + Duration::from_millis(ms);
            match scheduler.pick(&view) {
                Decision::Assign(a) => Some(a.subflow.0),
                Decision::Wait | Decision::WaitUntil(_) => None,
            }
        };
        let free = [known(0, 20, 10, true), all[1]];
        for ms in (0..=250).step_by(10) {
            assert_eq!(at(&all, ms, 20_000), None, "{ms} ms");
            assert_eq!(at(&free, ms, 20_000), Some(0), "{ms} ms");
        }
        for ms in [251, 260] {
            assert_eq!(at(&all, ms, 20_000), Some(1));
            assert_eq!(at(&free, ms, 20_000), Some(0));
        }
        all[1].has_room = false;
        assert_eq!(at(&all, 270, 20_000), None);
        all[1].has_room = true;
        assert_eq!(at(&all, 470, 20_000), None, "a new wait");
        assert_eq!(at(&free, 710, 1000), Some(0), "the last data");
        assert_eq!(at(&all, 730, 20_000), None, "the wait was not in vain");
    }

    #[test]
    fn data_do_not_wait_for_a_path_that_may_not_answer_or_from_an_unmeasured_one() {
        let mut all = [known(0, 20, 10, false), known(1, 200, 10, true)];
        all[0].queued = 0;
        assert_eq!(pick(&all, 1000), Some(1), "nothing to acknowledge");
        (all[0].queued, all[0].timeouts) = (1000, 1);
        assert_eq!(pick(&all, 1000), Some(1), "it has timed out");
        all[0].timeouts = 0;
        assert_eq!(pick(&all, 1000), None);
        all[1].srtt = None;
        assert_eq!(pick(&all, 1000), Some(1));
        assert_eq!(all[1].id, SubflowId(1));
    }
}
