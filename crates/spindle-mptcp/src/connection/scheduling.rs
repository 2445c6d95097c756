//! Where data wait before a subflow sends them: data that are assigned, and data that must be sent again. What
//! the scheduler sees, and how its decisions are carried out.

use spindle_units::Instant;

use super::Connection;
use super::assigned::Assigned;
use super::reinjection::Reinjections;
use super::undelivered::Undelivered;
use crate::config::Config;
use crate::scheduler::{
    Assignment, Candidate, Decision, MinRtt, Scheduler, SchedulerFactory, SubflowView, View,
};
use crate::subflow::scoreboard::Sent;
use crate::subflow::{Origin, Subflow};

/// The scheduler, and the data that it has decided about or will decide about before new data.
#[derive(Debug)]
pub(super) struct Scheduling {
    pub(super) scheduler: Box<dyn Scheduler>,
    /// [`Scheduler::sees_all`].
    pub(super) sees_all: bool,
    /// Scratch list of the scheduler's candidates.
    pub(super) candidates: Vec<Candidate>,
    /// Scratch list of all usable subflows, for a scheduler that requests them.
    pub(super) subflows: Vec<SubflowView>,
    /// Data handed to subflows that have no room for them yet.
    pub(super) assigned: Assigned,
    pub(super) reinjections: Reinjections,
    pub(super) undelivered: Undelivered,
}

impl Scheduling {
    /// The scheduler that `config` names, and no data.
    pub(super) fn new(config: &Config) -> Self {
        let multipath = config.multipath.as_ref();
        let scheduler = multipath.map_or_else(|| MinRtt.build(), |m| m.scheduler.build());
        Self {
            sees_all: scheduler.sees_all(),
            scheduler,
            candidates: Vec::new(),
            subflows: Vec::new(),
            assigned: Assigned::default(),
            reinjections: Reinjections::default(),
            undelivered: Undelivered::default(),
        }
    }
}

impl Connection {
    /// Asks the scheduler, which sees the listed candidates, for a subflow. `unsent` is the number of bytes
    /// that may be sent or assigned.
    #[inline]
    pub(super) fn ask_scheduler(&mut self, now: Instant, unsent: u64) -> Option<Assignment> {
        let mut message_left = None;
        if self.scheduling.sees_all {
            self.list_subflows(unsent);
            message_left = self.message_left();
        }
        self.timers.scheduler_at = None;
        let view = View {
            now,
            candidates: &self.scheduling.candidates,
            subflows: &self.scheduling.subflows,
            acked_to: self.send.una,
            sent_to: self.send.nxt,
            unsent,
            window_end: self.send.right_edge,
            message_left,
            reinjected: self.counters.reinjections,
        };
        match self.scheduling.scheduler.pick(&view) {
            Decision::Assign(assignment) => Some(assignment),
            Decision::Wait => None,
            Decision::WaitUntil(at) => {
                self.wake_scheduler(now, at);
                None
            }
        }
    }

    /// The scheduler waits until `at`. A time that is not in the future would wake it in an endless loop.
    #[inline(never)] // only schedulers that wait
    fn wake_scheduler(&mut self, now: Instant, at: Instant) {
        debug_assert!(
            at > now,
            "{:?} waits until {at:?}, which is not later than {now:?}",
            self.scheduling.scheduler
        );
        self.timers.scheduler_at = Some(at).filter(|at| *at > now);
    }

    /// Lists all usable subflows, with or without room. Those with room are listed as candidates already,
    /// unless the scheduler assigns bursts ahead of windows. `unsent` bytes may be sent.
    #[inline(never)] // only schedulers that see all subflows
    fn list_subflows(&mut self, unsent: u64) {
        let joins_wait = self.joins_wait();
        let usable = |s: &Subflow| {
            let held = joins_wait && s.origin != Origin::Initial;
            s.is_usable() && !s.dead && !s.scheduling.draining && !held
        };
        let regular = self.subflows.iter().any(|s| usable(s) && !s.is_backup());
        let ahead = self.scheduling.scheduler.burst().is_some();
        let (all, scheduling) = (&self.subflows, &mut self.scheduling);
        scheduling.subflows.clear();
        for s in all.iter().filter(|s| usable(s)) {
            let listed = scheduling.candidates.iter().any(|c| c.id == s.id);
            if regular && s.is_backup() && !listed {
                continue;
            }
            let has_room = match ahead {
                true => s.tx.may_send(s.tx.mss) && s.tx.window_room() >= s.tx.mss,
                false => listed,
            };
            let queued = s.tx.board.outstanding() + scheduling.assigned.bytes(s.id);
            let view = view_of(s, has_room, queued);
            // Without a candidate there is no choice, and nothing to wait for.
            let room_at = match scheduling.candidates.is_empty() {
                true => None,
                false => room_at(s, &view, unsent),
            };
            scheduling.subflows.push(SubflowView { room_at, ..view });
        }
    }
}

/// What a scheduler sees of subflow `s`.
fn view_of(s: &Subflow, has_room: bool, queued: u64) -> SubflowView {
    let (rtt, counters, cwnd) = (&s.tx.rtt, &s.tx.counters, s.tx.cc.cwnd());
    SubflowView {
        id: s.id,
        has_room,
        srtt: rtt.smoothed(),
        rtt_variation: rtt.variation(),
        min_rtt: rtt.minimum(),
        cwnd,
        in_slow_start: cwnd < s.tx.cc.ssthresh(),
        mss: s.tx.mss,
        in_flight: s.tx.in_flight(),
        queued,
        pacing_rate: s.tx.pacing_rate(),
        timeouts: s.tx.consecutive_timeouts,
        sent: counters.segments,
        retransmitted: counters.retransmissions,
        loss: s.tx.loss(),
        room_at: None,
    }
}

/// The most segments in flight of which the acknowledgements are awaited, so that a decision costs little (our choice: a
/// window after three rounds of slow start).
const MOST_AWAITED: usize = 80;

/// When acknowledgements are expected to have opened the congestion window of `s` for `unsent` bytes
/// ([`SubflowView::room_at`]). In slow start, each acknowledged byte makes room for two.
fn room_at(s: &Subflow, view: &SubflowView, unsent: u64) -> Option<Instant> {
    let mut room = view.cwnd.saturating_sub(view.in_flight);
    if view.has_room || !view.in_slow_start || unsent > room + 2 * view.in_flight {
        return None;
    }
    let srtt = view.srtt?;
    let in_flight = |sent: &&Sent| !sent.sacked && !sent.lost;
    let awaited = s.tx.board.iter().take(MOST_AWAITED).filter(in_flight);
    for sent in awaited {
        room += 2 * sent.seq_len();
        if room >= unsent {
            return Some(sent.sent_at + srtt);
        }
    }
    None
}
