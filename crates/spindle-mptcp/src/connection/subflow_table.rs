//! The subflows of a connection, with a compact summary of what every event reads from all of them.
//!
//! A subflow is larger than a kilobyte. Each segment concerns one of them, but the next transmission and the
//! next timer depend on all of them. Reading this from the subflows themselves would need several cache lines
//! of each. In a network of thousands of connections none of these lines is in a cache. So the summaries of all
//! subflows are stored next to each other, each in one cache line, and so are the views that recovery policies
//! see. Code that may change a subflow must get it from here, and this marks its summary and view as stale.
//! They are recomputed when they are needed next.
//!
//! # Removal
//!
//! An index into the table is valid for one step of the connection: an incoming segment, the timers that are due,
//! or a call of the application. A subflow that ends in the middle of a step is only marked ([`SubflowTable::end`]):
//! its state is [`TcpState::Closed`], and [`SubflowTable::has_ended`] is true for it. Its end is recorded and
//! reported at once, and its identifier is no longer found. [`SubflowTable::remove_ended`] removes it at the end
//! of the step, when no index is in use. Until then code that may run after an end and does not check the state
//! of the subflows must use [`SubflowTable::remaining`] and [`SubflowTable::remaining_count`].

use std::ops::{Deref, Index, IndexMut};

use spindle_units::{Instant, prefetch};

use crate::recovery::SubflowView;
use crate::subflow::{Subflow, TcpState};
use crate::types::SubflowId;

/// Properties of a subflow that are true or false. Several can be tested at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u16);

impl Marks {
    /// [`Subflow::is_usable`].
    pub(super) const USABLE: Self = Self(1);
    /// [`Subflow::is_backup`].
    pub(super) const BACKUP: Self = Self(1 << 1);
    pub(super) const DEAD: Self = Self(1 << 2);
    /// Segments are outstanding.
    pub(super) const OUTSTANDING: Self = Self(1 << 3);
    /// A SYN or a probe is due.
    pub(super) const CONTROL: Self = Self(1 << 4);
    /// A bare acknowledgement is due, and may be sent.
    pub(super) const ACKNOWLEDGES: Self = Self(1 << 5);
    /// A segment is lost, and the congestion window may allow its retransmission.
    pub(super) const REPEATS: Self = Self(1 << 6);
    /// Losses after a timeout must be repaired before new data are sent.
    pub(super) const REPAIRS_FIRST: Self = Self(1 << 7);
    /// [`Sender::may_rescue`](crate::subflow::sender::Sender::may_rescue).
    pub(super) const RESCUES: Self = Self(1 << 8);
    /// F-RTO waits for new data.
    pub(super) const FRTO: Self = Self(1 << 9);
    pub(super) const CLOSING: Self = Self(1 << 10);
    /// [`TcpState::SynReceived`].
    pub(super) const HALF_OPEN: Self = Self(1 << 11);
    /// Neither [`TcpState::TimeWait`] nor [`TcpState::Closed`].
    pub(super) const GOES_ON: Self = Self(1 << 12);
    /// [`TcpState::Closed`].
    pub(super) const CLOSED: Self = Self(1 << 13);
    /// Pacing or the host's egress queue may delay its segments.
    pub(super) const GATED: Self = Self(1 << 14);
    /// It gets no new data.
    pub(super) const DRAINS: Self = Self(1 << 15);

    #[inline]
    fn of(s: &Subflow) -> Self {
        use TcpState::{Closed, SynReceived, SynSent, TimeWait};
        let acknowledges =
            (s.rx.ack_now || s.due.challenge) && !matches!(s.state, SynSent | SynReceived | Closed);
        Self::default()
            .with(Self::USABLE, s.is_usable())
            .with(Self::BACKUP, s.is_backup())
            .with(Self::DEAD, s.dead)
            .with(Self::OUTSTANDING, !s.tx.board.is_empty())
            .with(Self::CONTROL, s.syn_is_due() || s.due.probe)
            .with(Self::ACKNOWLEDGES, acknowledges)
            .with(Self::REPEATS, s.tx.may_repeat())
            .with(Self::REPAIRS_FIRST, s.tx.repairs_first())
            .with(Self::RESCUES, s.tx.may_rescue())
            .with(Self::FRTO, s.tx.frto_waits())
            .with(Self::CLOSING, s.closing)
            .with(Self::HALF_OPEN, s.state == SynReceived)
            .with(Self::GOES_ON, !matches!(s.state, TimeWait | Closed))
            .with(Self::CLOSED, s.state == Closed)
            .with(Self::GATED, s.tx.is_gated())
            .with(Self::DRAINS, s.scheduling.draining)
    }

    #[inline]
    fn with(self, mark: Self, set: bool) -> Self {
        Self(self.0 | if set { mark.0 } else { 0 })
    }

    /// Whether the subflow may carry data.
    #[inline]
    fn carry_data(self) -> bool {
        self.any(Self::USABLE) && !self.any(Self::DEAD)
    }

    /// Whether any of `marks` is set.
    #[inline]
    pub(super) fn any(self, marks: Self) -> bool {
        self.0 & marks.0 != 0
    }
}

/// Summary of one subflow: what a connection reads from all of its subflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct SubflowSummary {
    /// [`Subflow::deadline`], or [`Instant::FAR_FUTURE`] if there is none.
    deadline: Instant,
    pub(super) in_flight: u64,
    pub(super) cwnd: u64,
    /// Bytes of new sequence space that the peer's window on this subflow allows.
    pub(super) window_room: u64,
    /// Bytes and number of pieces that its receiver and its scoreboard store.
    stored_bytes: u64,
    stored_pieces: u32,
    pub(super) mss: u32,
    pub(super) marks: Marks,
    pub(super) id: SubflowId,
    /// The subflow has ended, and [`SubflowTable::remove_ended`] will remove it.
    ended: bool,
}

impl SubflowSummary {
    #[cfg(debug_assertions)]
    fn of(s: &Subflow) -> Self {
        let mut summary = Self::default();
        summary.draw(s, &mut Sums::default());
        summary
    }

    /// Recomputes the summary field by field in place, and updates `sums` from the same registers. A value that
    /// is moved or summed from memory here would be read before the processor's store buffer has written it.
    #[inline]
    fn draw(&mut self, s: &Subflow, sums: &mut Sums) {
        sums.subtract(self);
        let (received, pieces) = s.rx.stored();
        let stored_bytes = received + s.tx.board.stored();
        let marks = Marks::of(s);
        let (in_flight, cwnd) = (s.tx.in_flight(), s.tx.cc.cwnd());
        self.deadline = s.next_deadline();
        self.in_flight = in_flight;
        self.cwnd = cwnd;
        self.window_room = s.tx.window_room();
        self.stored_bytes = stored_bytes;
        self.stored_pieces = pieces as u32;
        self.mss = s.tx.mss as u32;
        self.marks = marks;
        self.id = s.id;
        if marks.carry_data() {
            sums.in_flight += in_flight;
            sums.cwnd += cwnd;
        }
        sums.stored.0 += stored_bytes;
        sums.stored.1 += pieces;
    }

    /// Whether any of `marks` is set.
    #[inline]
    pub(super) fn is(&self, marks: Marks) -> bool {
        self.marks.any(marks)
    }

    /// Whether the subflow may carry data.
    #[inline]
    pub(super) fn is_usable(&self) -> bool {
        self.marks.carry_data()
    }

    /// Whether the subflow may carry new data.
    #[inline]
    pub(super) fn takes_data(&self) -> bool {
        self.is_usable() && !self.is(Marks::DRAINS)
    }

    /// Whether `bytes` more may be in flight.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.in_flight + bytes <= self.cwnd
    }
}

/// Sums over all summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Sums over the subflows that may carry data.
    pub(super) in_flight: u64,
    pub(super) cwnd: u64,
    /// Bytes and number of pieces that receivers and scoreboards store.
    pub(super) stored: (u64, usize),
}

impl Sums {
    /// Subtracts the values of the last [`SubflowSummary::draw`].
    #[inline]
    fn subtract(&mut self, o: &SubflowSummary) {
        if o.is_usable() {
            self.in_flight -= o.in_flight;
            self.cwnd -= o.cwnd;
        }
        self.stored.0 -= o.stored_bytes;
        self.stored.1 -= o.stored_pieces as usize;
    }

    #[cfg(debug_assertions)]
    fn of(summaries: &[SubflowSummary]) -> Self {
        let mut all = Self::default();
        for o in summaries {
            if o.is_usable() {
                all.in_flight += o.in_flight;
                all.cwnd += o.cwnd;
            }
            all.stored.0 += o.stored_bytes;
            all.stored.1 += o.stored_pieces as usize;
        }
        all
    }
}

/// All summaries combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overview {
    /// The marks that are set for any subflow.
    pub(super) marks: Marks,
    /// The earliest deadline, or [`Instant::FAR_FUTURE`] if there is none.
    deadline: Instant,
    /// The smallest MSS of the [usable](Subflow::is_usable) subflows, or `u32::MAX` if there are none.
    least_mss: u32,
}

impl Default for Overview {
    fn default() -> Self {
        Self::of(&[])
    }
}

impl Overview {
    #[inline]
    fn of(summaries: &[SubflowSummary]) -> Self {
        let (mut marks, mut deadline, mut least_mss) = (0, Instant::FAR_FUTURE, u32::MAX);
        for o in summaries {
            marks |= o.marks.0;
            deadline = deadline.min(o.deadline);
            let mss = if o.is(Marks::USABLE) { o.mss } else { u32::MAX };
            least_mss = least_mss.min(mss);
        }
        Self {
            marks: Marks(marks),
            deadline,
            least_mss,
        }
    }

    /// The earliest deadline, or [`Instant::FAR_FUTURE`] if there is none.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The smallest MSS of the [usable](Subflow::is_usable) subflows, if there are any.
    #[inline]
    pub(super) fn least_mss(&self) -> Option<u32> {
        (self.least_mss != u32::MAX).then_some(self.least_mss)
    }
}

/// A set of subflow indices, with one bit for each. There are at most as many subflows as identifiers.
#[derive(Debug, Default)]
struct Places {
    /// Bit set of the words that are not zero, so that a single test shows whether the set is empty.
    used: u64,
    words: [u64; SubflowId::MAX.0 as usize / 64 + 1],
}

impl Places {
    #[inline]
    fn insert(&mut self, i: usize) {
        self.used |= 1 << (i / 64);
        self.words[i / 64] |= 1 << (i % 64);
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.used == 0
    }

    #[cfg(debug_assertions)]
    fn contains(&self, i: usize) -> bool {
        self.words[i / 64] >> (i % 64) & 1 == 1
    }

    /// Removes all indices in ascending order and passes each to `see`.
    #[inline]
    fn take_each(&mut self, mut see: impl FnMut(usize)) {
        while self.used != 0 {
            let k = self.used.trailing_zeros() as usize;
            self.used &= self.used - 1;
            let mut word = std::mem::take(&mut self.words[k]);
            while word != 0 {
                see(64 * k + word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
    }
}

/// The subflows of a connection, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct SubflowTable {
    all: Vec<Subflow>,
    /// The summary of each subflow, at the same index.
    summaries: Vec<SubflowSummary>,
    /// The stored summaries combined, including stale ones.
    overview: Overview,
    sums: Sums,
    /// Indices of stale summaries.
    stale: Places,
    /// The views that a recovery policy last saw. There are fewer views than subflows if the last ones were
    /// never shown.
    views: Vec<SubflowView>,
    /// Indices of stale views.
    unseen: Places,
}

impl SubflowTable {
    /// Adds a subflow at the end.
    pub(crate) fn push(&mut self, s: Subflow) {
        let mut summary = SubflowSummary::default();
        summary.draw(&s, &mut self.sums);
        self.summaries.push(summary);
        self.overview = Overview::of(&self.summaries);
        self.all.push(s);
    }

    /// Moves the subflow at `i` to the beginning, with the identifier of the first subflow. Neither of the two may
    /// be established.
    #[cold] // the handshake
    pub(super) fn promote(&mut self, i: usize) {
        let [first, promoted] = match self.all.get_disjoint_mut([0, i]) {
            Ok(two) => two,
            Err(_) => return,
        };
        first.exchange_id(promoted);
        self.all.swap(0, i);
        self.outdate(0);
        self.outdate(i);
        self.refresh();
    }

    /// [`Subflow::become_first`] for the subflow at `i`.
    #[cold] // the handshake
    pub(super) fn make_first(&mut self, i: usize) {
        self[i].become_first();
        self.refresh();
    }

    /// Marks the subflow at `i` as ended. It keeps its index until [`Self::remove_ended`].
    pub(super) fn end(&mut self, i: usize) {
        self[i].state = TcpState::Closed;
        self.summaries[i].ended = true;
        self.refresh();
    }

    /// Whether the subflow at `i` has ended in this step.
    #[inline]
    pub(super) fn has_ended(&self, i: usize) -> bool {
        self.summaries[i].ended
    }

    /// Marks all subflows as ended.
    pub(super) fn end_all(&mut self) {
        (0..self.all.len()).for_each(|i| self.end(i));
    }

    /// Removes the subflows that have ended. Later subflows move up, so it is called only at the end of a step.
    #[cold] // the end of a subflow
    pub(super) fn remove_ended(&mut self) {
        let left = self.remaining_count();
        if left == self.all.len() {
            return;
        }
        if left == 0 {
            *self = Self::default();
            return;
        }
        self.refresh();
        self.views.clear();
        while let Some(i) = self.summaries.iter().position(|o| o.ended) {
            let summary = self.summaries.remove(i);
            self.sums.subtract(&summary);
            self.all.remove(i);
        }
        self.overview = Overview::of(&self.summaries);
    }

    /// The subflows that have not ended.
    #[inline]
    pub(super) fn remaining(&self) -> impl Iterator<Item = &Subflow> {
        let all = self.all.iter().zip(&self.summaries);
        all.filter(|(_, o)| !o.ended).map(|(s, _)| s)
    }

    /// Number of subflows that have not ended.
    #[inline]
    pub(super) fn remaining_count(&self) -> usize {
        // A subflow that ends is closed, and its summary is drawn at once.
        match self.overview.marks.any(Marks::CLOSED) {
            true => self.summaries.iter().filter(|o| !o.ended).count(),
            false => self.all.len(),
        }
    }

    /// Index of the subflow that has not ended, if there is exactly one.
    #[inline]
    pub(super) fn only(&self) -> Option<usize> {
        match self.remaining_count() {
            1 => self.summaries.iter().position(|o| !o.ended),
            _ => None,
        }
    }

    /// Prefetches the summaries and subflow `id`, whose index usually equals its identifier.
    #[inline]
    pub(super) fn prefetch(&self, id: SubflowId) {
        prefetch(&self.summaries[..]);
        self.all.get(id.number()).into_iter().for_each(prefetch);
    }

    /// Index of subflow `id`, unless it has ended.
    #[inline]
    pub(crate) fn position_of(&self, id: SubflowId) -> Option<usize> {
        // Identifiers do not change, so a stale summary is sufficient.
        let found = |o: &SubflowSummary| o.id == id && !o.ended;
        self.summaries.iter().position(found)
    }

    #[inline]
    pub(crate) fn first_mut(&mut self) -> Option<&mut Subflow> {
        (!self.all.is_empty()).then(|| &mut self[0])
    }

    /// All subflows, any of which the caller may change. If only some of them are changed, they should be taken
    /// by index, because the summary of each subflow that is handed out is recomputed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subflow> {
        (0..self.all.len()).for_each(|i| self.outdate(i));
        self.all.iter_mut()
    }

    /// The summaries, in the order of the subflows.
    #[inline]
    pub(super) fn summaries(&mut self) -> &[SubflowSummary] {
        self.refresh();
        &self.summaries
    }

    /// The summary of the subflow at `i`.
    #[inline]
    pub(super) fn summary(&mut self, i: usize) -> &SubflowSummary {
        &self.summaries()[i]
    }

    /// All summaries combined.
    #[inline]
    pub(super) fn overview(&mut self) -> &Overview {
        self.refresh();
        &self.overview
    }

    /// Sums over all subflows.
    #[inline]
    pub(super) fn sums(&mut self) -> &Sums {
        self.refresh();
        &self.sums
    }

    /// The marks that are set for any subflow.
    #[inline]
    pub(super) fn marks(&mut self) -> Marks {
        self.overview().marks
    }

    /// Draws the views that a recovery policy sees. The view of a subflow is the result of `draw`. The previous
    /// result is kept if the subflow was not changed since then and `is_valid` accepts the view. `draw` may
    /// change parts of a subflow that neither summary nor view shows.
    pub(super) fn draw_views(
        &mut self,
        is_valid: impl Fn(&SubflowView) -> bool,
        mut draw: impl FnMut(&mut Subflow) -> SubflowView,
    ) {
        let (all, views) = (&mut self.all, &mut self.views);
        self.unseen.take_each(|i| {
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
    }

    /// The views as they were last drawn.
    pub(super) fn kept_views(&self) -> &[SubflowView] {
        &self.views
    }

    /// Drops the views, so that they are recomputed, and frees their memory.
    pub(super) fn forget_views(&mut self) {
        self.views = Vec::new();
    }

    /// The subflow at `i`, for changes that neither summary nor view shows.
    #[inline]
    pub(super) fn untracked_at(&mut self, i: usize) -> &mut Subflow {
        &mut self.all[i]
    }

    /// All subflows, for changes that neither summary nor view shows.
    pub(super) fn untracked(&mut self) -> impl Iterator<Item = &mut Subflow> {
        self.all.iter_mut()
    }

    /// Makes the subflow at `i` send a bare acknowledgement. In its summary this only clears the mark that an
    /// acknowledgement is due. If a delayed acknowledgement was pending, its timer changes too.
    #[inline]
    pub(super) fn acknowledge(&mut self, i: usize, put: impl FnOnce(&mut Subflow)) {
        self.refresh();
        let s = &mut self.all[i];
        let delayed = s.rx.ack_by.is_some();
        put(s);
        if delayed {
            self.outdate(i);
            return;
        }
        self.unseen.insert(i);
        let marks = &mut self.summaries[i].marks;
        *marks = Marks(marks.0 & !Marks::ACKNOWLEDGES.0);
        self.overview = Overview::of(&self.summaries);
    }

    #[inline]
    fn refresh(&mut self) {
        if !self.stale.is_empty() {
            self.draw_stale();
        }
    }

    fn draw_stale(&mut self) {
        let (all, summaries) = (&self.all, &mut self.summaries);
        let sums = &mut self.sums;
        self.stale.take_each(|i| summaries[i].draw(&all[i], sums));
        self.overview = Overview::of(summaries);
    }

    #[inline]
    fn outdate(&mut self, i: usize) {
        self.stale.insert(i);
        self.unseen.insert(i);
    }

    /// Checks that no subflow was changed without its summary being marked as stale. Debug builds only.
    #[cfg(debug_assertions)]
    pub(super) fn check(&self) {
        assert_eq!(self.all.len(), self.summaries.len());
        for (i, (s, o)) in self.all.iter().zip(&self.summaries).enumerate() {
            assert!(!o.ended, "subflow {} ended before this step", s.id);
            let stale = self.stale.contains(i);
            assert!(
                stale || *o == SubflowSummary::of(s),
                "summary of subflow {}",
                s.id
            );
        }
        assert_eq!(self.overview, Overview::of(&self.summaries));
        assert_eq!(self.sums, Sums::of(&self.summaries));
    }
}

impl Deref for SubflowTable {
    type Target = [Subflow];

    #[inline]
    fn deref(&self) -> &[Subflow] {
        &self.all
    }
}

impl Index<usize> for SubflowTable {
    type Output = Subflow;

    #[inline]
    fn index(&self, i: usize) -> &Subflow {
        &self.all[i]
    }
}

impl IndexMut<usize> for SubflowTable {
    #[inline]
    fn index_mut(&mut self, i: usize) -> &mut Subflow {
        self.outdate(i);
        &mut self.all[i]
    }
}

impl<'a> IntoIterator for &'a SubflowTable {
    type Item = &'a Subflow;
    type IntoIter = std::slice::Iter<'a, Subflow>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spindle_wire::Endpoint;

    use super::*;
    use crate::config::Config;
    use crate::subflow::{InitialNumbers, NewSubflow, Origin};
    use crate::types::SubflowPosition;

    fn subflow(id: SubflowId) -> Subflow {
        let at = |port| Endpoint::new([10, 0, 0, 1].into(), port);
        let new = NewSubflow {
            id,
            local: at(1000 + u16::from(id.0)),
            remote: at(80),
            origin: Origin::Initial,
            initial: InitialNumbers::default(),
            planned: 1,
        };
        Subflow::new(Instant::ZERO, &Arc::new(Config::default()), new, None)
    }

    fn view(s: &Subflow) -> SubflowView {
        SubflowView {
            id: s.id,
            usable: s.is_usable(),
            paced: false,
            sent: 0,
            retransmitted: 0,
            loss: 0.0,
            since_retransmission: 0,
            srtt: None,
            rttvar: None,
            cwnd: s.tx.cc.cwnd(),
            in_flight: s.tx.in_flight(),
            window_room: s.tx.window_room(),
            mss: s.tx.mss,
            acked_to: s.tx.una,
            sent_to: s.tx.nxt,
            oldest_unprotected: None,
            uncoded: None,
            coded_to: SubflowPosition::SYN,
        }
    }

    fn three() -> SubflowTable {
        let mut all = SubflowTable::default();
        (0..3).for_each(|id| all.push(subflow(SubflowId(id))));
        all
    }

    #[test]
    fn summary_is_updated_when_its_subflow_changes() {
        let mut all = three();
        let waits = |o: &SubflowSummary| !o.is(Marks::CLOSING) && o.is(Marks::CONTROL);
        assert!(all.summaries().iter().all(waits));
        all[1].closing = true;
        assert!(all.summary(1).is(Marks::CLOSING) && all.marks().any(Marks::CLOSING));
        for s in all.iter_mut() {
            s.dead = s.id == SubflowId(2);
        }
        let dead = |all: &mut SubflowTable, i| all.summary(i).is(Marks::DEAD);
        assert!(dead(&mut all, 2) && !dead(&mut all, 0));
        all[2].dead = false;
    }

    #[test]
    fn ended_subflow_keeps_its_index_until_it_is_removed() {
        let mut all = three();
        all[1].tx.una = SubflowPosition(7);
        all.end(1);
        assert_eq!((all[1].id, all[1].state), (SubflowId(1), TcpState::Closed));
        assert_eq!(
            (all.position_of(SubflowId(1)), all.position_of(SubflowId(2))),
            (None, Some(2)),
            "it is not found, and the index of the next subflow is unchanged"
        );
        assert_eq!((all.len(), all.remaining_count()), (3, 2));
        assert!(all.remaining().map(|s| s.id.0).eq([0, 2]) && all.only().is_none());
        all.remove_ended();
        assert!(all.iter().map(|s| s.id.0).eq([0, 2]) && all.remaining_count() == 2);
        assert_eq!(all.position_of(SubflowId(2)), Some(1));
        assert!(!all.marks().any(Marks::CLOSED));
        all.end(0);
        assert_eq!(all.only(), Some(1));
        all.end_all();
        assert_eq!((all.len(), all.remaining_count(), all.only()), (2, 0, None));
        all.remove_ended();
        assert!(all.is_empty() && all.summaries().is_empty());
    }

    #[test]
    fn views_are_redrawn_only_after_a_change() {
        let mut all = three();
        let drawn = |all: &mut SubflowTable, is_valid: &dyn Fn(&SubflowView) -> bool| {
            let mut ids = Vec::new();
            all.draw_views(is_valid, |s| {
                ids.push(s.id.0);
                view(s)
            });
            let n = all.kept_views().len();
            // In debug builds each view is drawn once more, for comparison.
            ids.truncate(ids.len() - if cfg!(debug_assertions) { n } else { 0 });
            ids
        };
        assert_eq!(drawn(&mut all, &|_| true), [0, 1, 2]);
        assert_eq!(drawn(&mut all, &|_| true), []);
        all[2].tx.una = SubflowPosition(7);
        assert_eq!(drawn(&mut all, &|_| true), [2]);
        assert_eq!(drawn(&mut all, &|v| v.id != SubflowId::FIRST), [0]);
        all.push(subflow(SubflowId(3)));
        assert_eq!(drawn(&mut all, &|_| true), [3]);
        all.end(0);
        all.remove_ended();
        assert_eq!(drawn(&mut all, &|_| true), [1, 2, 3]);
    }

    #[test]
    fn subflow_with_the_highest_identifier_has_a_summary() {
        let mut all = SubflowTable::default();
        (0..=SubflowId::MAX.0).for_each(|id| all.push(subflow(SubflowId(id))));
        all[255].dead = true;
        assert!(all.summary(255).is(Marks::DEAD) && !all.summary(254).is(Marks::DEAD));
        assert_eq!(all.position_of(SubflowId(255)), Some(255));
    }
}
