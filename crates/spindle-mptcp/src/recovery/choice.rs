//! The choice of the worst and the best subflow, and the conditions for recovery, which FUSO and CoFUSO have in
//! common (FUSO section 3.2, Algorithm 1; CoFUSO section 4.2). A copy over the fastest other subflow, which the
//! policies that reinject late segments have in common.

use std::cmp::Ordering;

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::Instant;

use super::{Action, Eligibility, Prospect, SegmentView, SubflowView, Trigger, View, Window};
use crate::random::reduce;
use crate::types::SubflowId;

/// The subflows among which the worst is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WorstOf {
    /// Subflows with a segment that may be copied (mechanisms A1.3, our choice).
    #[default]
    Copyable,
    /// Subflows with data in flight, to the letter of the papers (FUSO section 3.2, Algorithm 1). If the worst of
    /// them has no segment to copy, there is no recovery now.
    InFlight,
}

/// Orders subflows by how good they are.
pub(super) trait Ranking {
    /// Compares two candidates for the worst subflow. The worse one is greater.
    fn worse(&self, a: &SubflowView, b: &SubflowView) -> Ordering;

    /// Compares two candidates for the best subflow. The better one is less.
    fn better(&self, a: &SubflowView, b: &SubflowView) -> Ordering;

    /// Whether so little is known about the best subflow that the choice among all candidates is random.
    fn is_unknown(&self, s: &SubflowView) -> bool;
}

/// When the best subflow must be another one than the worst. The papers allow it to be the worst itself (FUSO
/// section 3.2.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Apart {
    /// It always must be another one.
    pub(super) always: bool,
    /// It must be another one if the ranking considers another one equally good.
    pub(super) on_ties: bool,
}

/// The worst subflow.
pub(super) fn worst<'a>(
    view: &View<'a>,
    of: WorstOf,
    ranking: &impl Ranking,
) -> Option<&'a SubflowView> {
    worst_where(view, ranking, |s| match of {
        WorstOf::Copyable => s.oldest_unprotected.is_some(),
        WorstOf::InFlight => s.in_flight > 0,
    })
}

/// The worst of the subflows that qualify.
pub(super) fn worst_where<'a>(
    view: &View<'a>,
    ranking: &impl Ranking,
    qualifies: impl Fn(&SubflowView) -> bool,
) -> Option<&'a SubflowView> {
    let candidates = view.subflows.iter().filter(|s| qualifies(s));
    candidates.max_by(|a, b| ranking.worse(a, b))
}

/// The best of the subflows with room for `bytes`, where `of` is the worst subflow. The choice is random if
/// nothing is known about any of them.
pub(super) fn best<'a>(
    view: &View<'a>,
    of: SubflowId,
    bytes: u64,
    apart: Apart,
    ranking: &impl Ranking,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<&'a SubflowView> {
    let candidates = || {
        let usable = view.subflows.iter().filter(|s| s.has_room(bytes));
        usable.filter(|s| !(apart.always && s.id == of))
    };
    let mut best = candidates().min_by(|a, b| ranking.better(a, b))?;
    if apart.on_ties && best.id == of {
        // Two subflows tie if they differ only by identifier in the ranking.
        let is_tie = |s: &SubflowView| {
            let same = SubflowView { id: best.id, ..*s };
            ranking.better(&same, best) == Ordering::Equal
        };
        best = candidates()
            .find(|s| s.id != of && is_tie(s))
            .unwrap_or(best);
    }
    if !ranking.is_unknown(best) {
        return Some(best);
    }
    let n = candidates().count() as u64;
    let k = reduce(rng.next_u64(), n) as usize;
    candidates().nth(k)
}

/// Whether a copy of a segment of subflow `of` is of no use on that subflow.
///
/// A receiver that holds back data that are out of order within their subflow cannot deliver a copy on subflow
/// `of` before the original. Such a copy is sent there only if no other subflow is usable. If there is no other
/// subflow at all, it is not sent: if MPTCP's options vanished at that moment, such a receiver would fall back
/// and take the copy for the data that follow.
pub(super) fn is_held_back(view: &View<'_>, of: SubflowId, eligibility: Eligibility) -> bool {
    let alone = view.subflows.len() == 1;
    let others = view.subflows.iter().any(|s| s.usable && s.id != of);
    (alone || others) && eligibility == Eligibility::NotDataAcked
}

/// Whether recovery may act: this is one of the two trigger points, without a timer (mechanisms A1.1, rule 2),
/// there are no new data, and the windows are not full.
pub(super) fn should_recover(prospect: &Prospect, eligibility: Eligibility) -> bool {
    let triggers = prospect.triggers;
    let triggered = triggers.contains(Trigger::Ack) || triggers.contains(Trigger::AppDrained);
    // Our choice: if a window is full of data that such a receiver holds back, only filling the hole opens it.
    let waits = eligibility == Eligibility::NotDataAcked && prospect.window_blocked;
    let new_data = prospect.new_data && !waits;
    triggered && !new_data && prospect.room && prospect.outstanding
}

/// Of the subflows other than `of` whose congestion window has room for `len` bytes, the one with the smallest
/// smoothed RTT.
pub(super) fn fastest_other<'a>(
    view: &View<'a>,
    of: SubflowId,
    len: u64,
) -> Option<&'a SubflowView> {
    fastest_other_where(view, of, len, |s| s.has_room(len))
}

/// Of the subflows other than `of` that qualify, and whose path and peer take a segment of `len` bytes, the one with the
/// smallest smoothed RTT.
pub(super) fn fastest_other_where<'a>(
    view: &View<'a>,
    of: SubflowId,
    len: u64,
    qualifies: impl Fn(&SubflowView) -> bool,
) -> Option<&'a SubflowView> {
    let others = view.subflows.iter().filter(|s| s.id != of);
    let open = others.filter(|s| len <= s.mss.min(s.window_room) && qualifies(s));
    open.min_by_key(|s| (s.srtt.map_or(u64::MAX, |rtt| rtt.as_nanos()), s.id))
}

/// The copy of `segment`, which subflow `of` carries, over subflow `on`.
pub(super) fn copy_over(
    of: SubflowId,
    segment: &SegmentView,
    on: &SubflowView,
    window: Window,
) -> Action {
    Action::Copy {
        of,
        position: segment.position,
        on: on.id,
        window,
    }
}

/// The copy of `segment`, which subflow `of` carries, over the [fastest other](fastest_other) subflow. `None` if no
/// other subflow has room.
pub(super) fn copy_over_fastest_other(
    view: &View<'_>,
    of: &SubflowView,
    segment: &SegmentView,
) -> Option<Action> {
    let on = fastest_other(view, of.id, u64::from(segment.len))?;
    Some(copy_over(of.id, segment, on, Window::Inside))
}

/// What a policy that copies late segments does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Late {
    /// A segment is late, and another subflow has room for its copy.
    Copy(Action),
    /// No segment that could be copied is late. The next one will be at this time.
    Next(Instant),
    /// No segment is or will be late, or there is no room for those that are. The next acknowledgement brings the
    /// next opportunity.
    Nothing,
}

/// Copies the oldest segment that is late over the fastest other subflow. `late_at` is when a segment of a subflow
/// is late, if ever.
pub(super) fn copy_late(
    view: &View<'_>,
    late_at: impl Fn(&SubflowView, &SegmentView) -> Option<Instant>,
) -> Late {
    let candidates = view.subflows.iter();
    let mut by_time: Vec<_> = candidates
        .filter_map(|s| {
            let segment = s.oldest_unprotected?;
            Some((late_at(s, &segment)?, segment, s))
        })
        .collect();
    by_time.sort_by_key(|(at, segment, s)| (*at, segment.sent_at, s.id));
    for (at, segment, of) in by_time {
        if at > view.now {
            return Late::Next(at);
        }
        if let Some(copy) = copy_over_fastest_other(view, of, &segment) {
            return Late::Copy(copy);
        }
    }
    Late::Nothing
}
