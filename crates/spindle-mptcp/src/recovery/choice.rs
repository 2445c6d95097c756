//! Which subflow is the worst, which the best, and when there is a chance at all: what FUSO and CoFUSO
//! have in common (FUSO section 3.2, Algorithm 1; CoFUSO section 4.2).

use std::cmp::Ordering;

use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Eligibility, Prospect, SubflowView, Trigger, View};
use crate::random::reduce;
use crate::subflow::SubflowId;

/// Among which subflows the worst is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WorstOf {
    /// Those with a segment that may be copied (mechanisms A1.3, our choice).
    #[default]
    Copyable,
    /// Those with data in flight, as the paper has it to the letter: if the worst of them has nothing
    /// to copy, there is no recovery now, as in the authors' code.
    InFlight,
}

/// Orders subflows by how good they are.
pub(super) trait Ranking {
    /// Of two candidates for the worst, the worse comes out greater.
    fn worse(&self, a: &SubflowView, b: &SubflowView) -> Ordering;

    /// Of two candidates for the best, the better comes out less.
    fn better(&self, a: &SubflowView, b: &SubflowView) -> Ordering;

    /// Whether so little is known of the best that lots are to be drawn among all candidates.
    fn is_unknown(&self, s: &SubflowView) -> bool;
}

/// What keeps the best subflow from being the worst itself, which the papers allow (FUSO section
/// 3.2.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Apart {
    /// It never is.
    pub(super) always: bool,
    /// It is not where the ranking holds another for equal.
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

/// The best of the subflows with room for `bytes`, `of` being the worst; random if nothing is known of
/// any.
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
        // Only the identifier tells them apart.
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

/// Whether a copy of a segment of subflow `of` is of no use there.
///
/// A receiver that holds back what is out of order in its subflow cannot hand up a copy on subflow
/// `of` before the original: there it goes only if no other subflow is usable. On a lone subflow it
/// does not go at all: were MPTCP's options to vanish at that moment, such a receiver would fall back
/// and take the copy for what follows.
pub(super) fn is_held_back(view: &View<'_>, of: SubflowId, eligibility: Eligibility) -> bool {
    let alone = view.subflows.len() == 1;
    let others = view.subflows.iter().any(|s| s.usable && s.id != of);
    (alone || others) && eligibility == Eligibility::NotDataAcked
}

/// Whether this is one of the two trigger points, without a timer (mechanisms A1.1, rule 2), there are
/// no new data, and the windows are not full.
pub(super) fn is_opportune(prospect: &Prospect, eligibility: Eligibility) -> bool {
    let triggers = prospect.triggers;
    let triggered = triggers.contains(Trigger::Ack) || triggers.contains(Trigger::AppDrained);
    // Ours: a window that such a receiver's held data fill is opened only by filling the hole.
    let waits = eligibility == Eligibility::NotDataAcked && prospect.window_blocked;
    let new_data = prospect.new_data && !waits;
    triggered && !new_data && prospect.room && prospect.outstanding
}
