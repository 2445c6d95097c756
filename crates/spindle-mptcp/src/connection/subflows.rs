//! The subflows of a connection, with what every event looks at on all of them kept close together.
//!
//! A subflow is more than a kilobyte. Each segment concerns one of them, but what is to be sent next,
//! and when the next timer is due, depends on all: read from the subflows themselves that would be
//! several cache lines of each, which in a network of thousands of connections are in no cache. So a
//! summary of each stands beside the others', a cache line long, and so does what recovery policies see
//! of it. Whoever may have changed a subflow has had it from here, which is when these become stale; they
//! are drawn anew when they are next asked for.

use std::ops::{Deref, Index, IndexMut};

use spindle_units::{Instant, prefetch};

use crate::recovery::SubflowView;
use crate::subflow::{Subflow, SubflowId, TcpState};

/// What a connection looks at on all of its subflows, drawn from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Outlook {
    /// [`Subflow::deadline`].
    pub(super) deadline: Option<Instant>,
    pub(super) in_flight: u64,
    pub(super) cwnd: u64,
    pub(super) mss: u32,
    /// What its receiver stores: bytes, and in how many pieces.
    stored_pieces: u32,
    stored_bytes: u64,
    pub(super) id: SubflowId,
    /// [`Subflow::is_usable`].
    pub(super) usable: bool,
    /// [`Subflow::is_backup`].
    pub(super) backup: bool,
    pub(super) dead: bool,
    /// Nothing is outstanding.
    pub(super) empty: bool,
    /// A SYN or a probe is due.
    pub(super) control: bool,
    /// A bare acknowledgement is due, and may be sent.
    pub(super) acknowledges: bool,
    /// Something is lost.
    pub(super) repeats: bool,
    /// Losses after a timeout are to be repaired before new data are sent.
    pub(super) repairs_first: bool,
    /// Fast recovery is going on.
    pub(super) rescues: bool,
    /// F-RTO waits for new data.
    pub(super) frto: bool,
    pub(super) closing: bool,
    /// [`TcpState::SynReceived`].
    pub(super) half_open: bool,
    /// [`TcpState::TimeWait`] or [`TcpState::Closed`].
    pub(super) ended: bool,
    /// [`TcpState::Closed`].
    pub(super) closed: bool,
    /// Pacing or the host's output queue has a say in when it sends.
    pub(super) gated: bool,
}

impl Outlook {
    fn of(s: &Subflow) -> Self {
        use TcpState::{Closed, SynReceived, SynSent, TimeWait};
        let lost = s.tx.board.lost_bytes() > 0;
        let (stored_bytes, pieces) = s.rx.stored();
        Self {
            deadline: s.deadline(),
            in_flight: s.tx.in_flight(),
            cwnd: s.tx.cc.cwnd(),
            mss: s.tx.mss as u32,
            stored_pieces: pieces as u32,
            stored_bytes,
            id: s.id,
            usable: s.is_usable(),
            backup: s.is_backup(),
            dead: s.dead,
            empty: s.tx.board.is_empty(),
            control: s.syn_due || s.probe_due,
            acknowledges: (s.rx.ack_now || s.challenge_due)
                && !matches!(s.state, SynSent | SynReceived | Closed),
            repeats: lost,
            repairs_first: s.tx.in_loss() && s.tx.sack && lost,
            rescues: s.tx.in_recovery(),
            frto: s.tx.frto_waits(),
            closing: s.closing,
            half_open: s.state == SynReceived,
            ended: matches!(s.state, TimeWait | Closed),
            closed: s.state == Closed,
            gated: s.tx.is_gated(),
        }
    }

    /// Whether `bytes` more may be in flight.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.in_flight + bytes <= self.cwnd
    }

    /// Bytes that its receiver stores, and in how many pieces.
    pub(super) fn stored(&self) -> (u64, usize) {
        (self.stored_bytes, self.stored_pieces as usize)
    }
}

/// A set of places, a bit each: there are at most as many as identifiers.
type Places = [u64; SubflowId::MAX as usize / 64 + 1];

/// Takes each place out of the set.
#[inline]
fn take_each(places: &mut Places, mut see: impl FnMut(usize)) {
    for (k, word) in places.iter_mut().enumerate() {
        while *word != 0 {
            see(64 * k + word.trailing_zeros() as usize);
            *word &= *word - 1;
        }
    }
}

/// The subflows of a connection, in order of their coming.
#[derive(Debug, Default)]
pub(crate) struct Subflows {
    all: Vec<Subflow>,
    /// One for each, at the same place.
    outlooks: Vec<Outlook>,
    /// Places whose outlook is stale.
    stale: Places,
    /// What a recovery policy last saw of each; fewer, if the last ones were never shown.
    views: Vec<SubflowView>,
    /// Places whose view is stale.
    unseen: Places,
}

impl Subflows {
    /// Adds one at the end.
    pub(crate) fn push(&mut self, s: Subflow) {
        self.outlooks.push(Outlook::of(&s));
        self.all.push(s);
    }

    /// Takes the one at `i` out; those behind it move up.
    pub(crate) fn remove(&mut self, i: usize) -> Subflow {
        self.refresh();
        self.views.clear();
        self.outlooks.remove(i);
        self.all.remove(i)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Has the outlooks brought near, and subflow `id`, which as a rule stands where its identifier
    /// says.
    #[inline]
    pub(super) fn foresee(&self, id: SubflowId) {
        prefetch(&self.outlooks[..]);
        self.all.get(usize::from(id)).into_iter().for_each(prefetch);
    }

    /// Where subflow `id` stands.
    #[inline]
    pub(crate) fn position_of(&self, id: SubflowId) -> Option<usize> {
        // Identifiers stay as they are, so that a stale outlook will do.
        self.outlooks.iter().position(|o| o.id == id)
    }

    #[inline]
    pub(crate) fn first_mut(&mut self) -> Option<&mut Subflow> {
        (!self.all.is_empty()).then(|| &mut self[0])
    }

    /// All of them, of which any may be changed. Where only some are to be, take those by index: each
    /// that is handed out has its outlook drawn anew.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subflow> {
        (0..self.all.len()).for_each(|i| self.outdate(i));
        self.all.iter_mut()
    }

    /// The outlooks, in the order of the subflows.
    #[inline]
    pub(super) fn outlooks(&mut self) -> &[Outlook] {
        self.refresh();
        &self.outlooks
    }

    /// The outlook of the one at `i`.
    #[inline]
    pub(super) fn outlook(&mut self, i: usize) -> Outlook {
        self.outlooks()[i]
    }

    /// What a recovery policy sees: of each subflow what `draw` says, or what it said the last time if
    /// the subflow was not changed since and that `is_valid` still. `draw` may change of a subflow what
    /// neither outlook nor view shows.
    pub(super) fn views(
        &mut self,
        is_valid: impl Fn(&SubflowView) -> bool,
        mut draw: impl FnMut(&mut Subflow) -> SubflowView,
    ) -> &[SubflowView] {
        let (all, views) = (&mut self.all, &mut self.views);
        take_each(&mut self.unseen, |i| {
            if let Some(view) = views.get_mut(i) {
                *view = draw(&mut all[i]);
            }
        });
        for (view, s) in views.iter_mut().zip(all.iter_mut()) {
            if !is_valid(view) {
                *view = draw(s);
            }
        }
        let further = views.len();
        views.extend(all[further..].iter_mut().map(&mut draw));
        #[cfg(debug_assertions)]
        for (s, view) in all.iter_mut().zip(views.iter()) {
            assert_eq!(*view, draw(s), "kept view of subflow {}", s.id);
        }
        views
    }

    /// Views are to be drawn anew; their memory is given back.
    pub(super) fn forget_views(&mut self) {
        self.views = Vec::new();
    }

    /// All of them, for changes that neither outlook nor view shows.
    pub(super) fn unnoticed(&mut self) -> impl Iterator<Item = &mut Subflow> {
        self.all.iter_mut()
    }

    #[inline]
    fn refresh(&mut self) {
        let (all, outlooks) = (&self.all, &mut self.outlooks);
        take_each(&mut self.stale, |i| outlooks[i] = Outlook::of(&all[i]));
    }

    #[inline]
    fn outdate(&mut self, i: usize) {
        self.stale[i / 64] |= 1 << (i % 64);
        self.unseen[i / 64] |= 1 << (i % 64);
    }

    /// Checks that no subflow was changed behind its outlook's back; debug builds only.
    #[cfg(debug_assertions)]
    pub(super) fn check(&self) {
        assert_eq!(self.all.len(), self.outlooks.len());
        for (i, (s, o)) in self.all.iter().zip(&self.outlooks).enumerate() {
            let stale = self.stale[i / 64] >> (i % 64) & 1 == 1;
            assert!(stale || *o == Outlook::of(s), "outlook of subflow {}", s.id);
        }
    }
}

impl Deref for Subflows {
    type Target = [Subflow];

    #[inline]
    fn deref(&self) -> &[Subflow] {
        &self.all
    }
}

impl Index<usize> for Subflows {
    type Output = Subflow;

    #[inline]
    fn index(&self, i: usize) -> &Subflow {
        &self.all[i]
    }
}

impl IndexMut<usize> for Subflows {
    #[inline]
    fn index_mut(&mut self, i: usize) -> &mut Subflow {
        self.outdate(i);
        &mut self.all[i]
    }
}

impl<'a> IntoIterator for &'a Subflows {
    type Item = &'a Subflow;
    type IntoIter = std::slice::Iter<'a, Subflow>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spindle_wire::{Endpoint, SeqNumber};

    use super::*;
    use crate::config::Config;
    use crate::subflow::{NewSubflow, Origin};

    fn subflow(id: SubflowId) -> Subflow {
        let at = |port| Endpoint::new([10, 0, 0, 1].into(), port);
        let new = NewSubflow {
            id,
            local: at(1000 + u16::from(id)),
            remote: at(80),
            origin: Origin::Initial,
            iss: SeqNumber::default(),
            planned: 1,
        };
        Subflow::new(Instant::ZERO, &Arc::new(Config::default()), new, None)
    }

    fn view(s: &Subflow) -> SubflowView {
        SubflowView {
            id: s.id,
            usable: s.is_usable(),
            sent: 0,
            retransmitted: 0,
            since_retransmission: 0,
            srtt: None,
            cwnd: s.tx.cc.cwnd(),
            in_flight: s.tx.in_flight(),
            mss: s.tx.mss,
            acked_to: s.tx.una,
            oldest_unprotected: None,
        }
    }

    fn three() -> Subflows {
        let mut all = Subflows::default();
        (0..3).for_each(|id| all.push(subflow(id)));
        all
    }

    #[test]
    fn an_outlook_follows_its_subflow() {
        let mut all = three();
        assert!(all.outlooks().iter().all(|o| !o.closing && o.control));
        all[1].closing = true;
        assert!(all.outlook(1).closing);
        for s in all.iter_mut() {
            s.dead = s.id == 2;
        }
        assert!(all.outlook(2).dead && !all.outlook(0).dead);
        all[2].dead = false;
        assert_eq!(all.remove(1).id, 1);
        assert_eq!((all.position_of(1), all.position_of(2)), (None, Some(1)));
        assert!(!all.outlook(1).dead);
        all.clear();
        assert!(all.is_empty() && all.outlooks().is_empty());
    }

    #[test]
    fn views_are_drawn_once_and_again_after_a_change() {
        let mut all = three();
        let drawn = |all: &mut Subflows, is_valid: &dyn Fn(&SubflowView) -> bool| {
            let mut ids = Vec::new();
            let n = all.views(is_valid, |s| {
                ids.push(s.id);
                view(s)
            });
            let n = n.len();
            // In debug builds each is drawn once more, to compare.
            ids.truncate(ids.len() - if cfg!(debug_assertions) { n } else { 0 });
            ids
        };
        assert_eq!(drawn(&mut all, &|_| true), [0, 1, 2]);
        assert_eq!(drawn(&mut all, &|_| true), []);
        all[2].tx.una = 7;
        assert_eq!(drawn(&mut all, &|_| true), [2]);
        assert_eq!(drawn(&mut all, &|v| v.id > 0), [0]);
        all.push(subflow(3));
        assert_eq!(drawn(&mut all, &|_| true), [3]);
        all.remove(0);
        assert_eq!(drawn(&mut all, &|_| true), [1, 2, 3]);
    }

    #[test]
    fn the_last_of_all_identifiers_has_its_place() {
        let mut all = Subflows::default();
        (0..=SubflowId::MAX).for_each(|id| all.push(subflow(id)));
        all[255].dead = true;
        assert!(all.outlook(255).dead && !all.outlook(254).dead);
        assert_eq!(all.position_of(255), Some(255));
    }
}
