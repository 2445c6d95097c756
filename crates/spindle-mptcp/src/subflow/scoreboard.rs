//! The segments that a subflow has sent and that are not acknowledged yet.
//!
//! There is one [`Sent`] entry per transmitted segment, in order of subflow sequence number. The counters that
//! congestion control needs (SACKed, lost and retransmitted bytes) are updated incrementally and never
//! recounted. Scans start where the last scan ended and skip SACKed segments. The cost of an acknowledgement is
//! therefore proportional to what it changes, whatever the peer sends and however often.

mod blocks;
mod data;
mod order;

pub(crate) use order::SentOrder;

use std::collections::{BTreeSet, VecDeque};

use spindle_units::Instant;
use spindle_wire::Payload;

use crate::ranges::Ranges;
use crate::steps::Steps;
use crate::types::{DataOffset, Eligibility, SubflowPosition};

/// The data-level mapping of a sent segment, and the segment's place in it. One mapping may cover a burst of
/// several segments. A mapping is immutable: a retransmission repeats it verbatim, whatever part of it is
/// retransmitted (RFC 8684, section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentMap {
    /// Data offset of the segment's first byte.
    pub(crate) offset: DataOffset,
    /// Bytes of the mapping before that byte.
    pub(crate) before: u16,
    /// Total bytes that the mapping covers.
    pub(crate) len: u16,
    /// Checksum of the mapping, if checksums are in use.
    pub(crate) checksum: Option<u16>,
}

impl SentMap {
    /// The same mapping, for the part of the segment that starts `bytes` later.
    pub(crate) fn advanced(self, bytes: u64) -> Self {
        Self {
            offset: self.offset + bytes,
            before: self.before + bytes as u16,
            ..self
        }
    }
}

/// Maximum number of SACKed ranges that a search for losses visits. Beyond that number, RFC 6675's other
/// condition holds (section 4, IsLost: DupThresh discontiguous SACKed sequences above), since no threshold is
/// that large.
const MOST_RANGES: usize = 256;

/// One transmitted segment. Positions count from the subflow's ISN: SYN is 0, the first byte 1.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) start: SubflowPosition,
    pub(crate) payload: Payload,
    pub(crate) fin: bool,
    pub(crate) map: Option<SentMap>,
    /// When the segment was first transmitted, and when it was last transmitted.
    pub(crate) first_sent_at: Instant,
    pub(crate) sent_at: Instant,
    /// How many times the segment has been transmitted.
    pub(crate) transmissions: u16,
    pub(crate) sacked: bool,
    pub(crate) lost: bool,
    /// A retransmission of the segment is believed to be in flight.
    pub(crate) repeated: bool,
    pub(crate) uses: Uses,
}

/// A subflow with a full window has hundreds of entries. Eight more bytes per entry cost about 8 MB in a
/// network of 1024 hosts.
const _: () = assert!(size_of::<Sent>() <= 80);

/// The uses of a segment in addition to its own delivery, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses(u8);

impl Uses {
    /// It is a proactive recovery copy itself.
    pub(crate) const RECOVERY: Self = Self(1);
    /// A proactive copy of it has been made. At most one copy is made (FUSO section 3.2).
    const PROTECTED: Self = Self(1 << 1);
    /// The data level gave up on this copy and sent the data on another subflow.
    const REINJECTED: Self = Self(1 << 2);
    /// It is in a block that parities are computed from.
    const CODED: Self = Self(1 << 3);
    /// The data level acknowledged its data before the subflow acknowledged the segment.
    const OUTRUN: Self = Self(1 << 4);
    /// A segment with any of these uses is not copied.
    const NOT_COPIED: Self = Self(Self::RECOVERY.0 | Self::PROTECTED.0);
    /// A segment with any of these uses is not put into a block.
    const NOT_CODED: Self = Self(Self::NOT_COPIED.0 | Self::CODED.0);

    /// Whether at least one of `uses` is set.
    #[inline]
    fn any(self, uses: Self) -> bool {
        self.0 & uses.0 != 0
    }

    fn insert(&mut self, uses: Self) {
        self.0 |= uses.0;
    }
}

impl Sent {
    /// Since when the segment is without an answer: since its last transmission, or the first one if it was not lost and
    /// has only been repeated as a probe.
    pub(crate) fn unanswered_since(&self) -> Instant {
        match self.lost {
            true => self.sent_at,
            false => self.first_sent_at,
        }
    }

    /// A data segment that is transmitted for the first time at `sent_at`.
    pub(crate) fn new(start: SubflowPosition, payload: Payload, sent_at: Instant) -> Self {
        Self {
            start,
            payload,
            fin: false,
            map: None,
            first_sent_at: sent_at,
            sent_at,
            transmissions: 1,
            sacked: false,
            lost: false,
            repeated: false,
            uses: Uses::default(),
        }
    }

    pub(crate) fn seq_len(&self) -> u64 {
        self.payload.len() as u64 + u64::from(self.fin)
    }

    pub(crate) fn end(&self) -> SubflowPosition {
        self.start + self.seq_len()
    }

    /// Whether the segment is lost and has not been retransmitted since.
    fn awaits_retransmission(&self) -> bool {
        self.lost && !self.repeated
    }

    /// Whether the segment was transmitted more than once and is believed to be neither lost nor delivered.
    fn is_repeat_in_flight(&self) -> bool {
        self.transmissions > 1 && !self.sacked && !self.awaits_retransmission()
    }

    /// Whether the segment is not SACKed, not marked lost and not retransmitted.
    fn is_fresh_hole(&self) -> bool {
        !self.sacked && !self.repeated && !self.lost
    }

    /// Whether a proactive copy of the segment may be made. The data level's conditions are not checked here.
    pub(crate) fn may_be_copied(&self, eligibility: Eligibility) -> bool {
        let sacked = self.sacked && eligibility == Eligibility::Unacknowledged;
        !sacked && !self.uses.any(Uses::NOT_COPIED) && !self.payload.is_empty()
    }
}

/// The `len` bytes of a segment that start at `at`, as a segment.
fn part(s: &Sent, at: usize, len: usize) -> Sent {
    Sent {
        start: s.start + at as u64,
        payload: s.payload.slice(at, len),
        map: s.map.map(|m| m.advanced(at as u64)),
        ..s.clone()
    }
}

/// Splits a segment into pieces of at most `mss` bytes. The last piece keeps the FIN.
fn pieces(s: &Sent, mss: usize) -> impl Iterator<Item = Sent> {
    let len = s.payload.len();
    (0..len).step_by(mss.max(1)).map(move |at| {
        let n = mss.min(len - at);
        Sent {
            fin: s.fin && at + n == len,
            ..part(s, at, n)
        }
    })
}

/// The effect of acknowledging a prefix or a SACK block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// Bytes newly acknowledged, without those SACKed before.
    pub(crate) bytes: u64,
    /// Send time of the latest-sent segment among them that was sent only once.
    pub(crate) clean_sent_at: Option<Instant>,
    /// The latest-sent of all these segments, for RACK: (send time, end, was retransmitted).
    pub(crate) newest: Option<(Instant, SubflowPosition, bool)>,
    /// At least one of the segments was never retransmitted (the evidence that F-RTO needs).
    pub(crate) original: bool,
    /// At least one of the segments had been retransmitted.
    pub(crate) retransmitted: bool,
}

impl Acked {
    fn add(&mut self, s: &Sent) {
        self.bytes += s.seq_len();
        let repeated = s.transmissions > 1;
        if repeated {
            self.retransmitted = true;
        } else {
            self.original = true;
            self.clean_sent_at = Some(self.clean_sent_at.map_or(s.sent_at, |t| t.max(s.sent_at)));
        }
        let mine = (s.sent_at, s.end(), repeated);
        if self.newest.is_none_or(|n| (n.0, n.1) < (mine.0, mine.1)) {
            self.newest = Some(mine);
        }
    }
}

/// The retransmission queue with its marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    queue: VecDeque<Sent>,
    /// Start of the first entry and end of the last entry. Most queries are about these two, and the entries
    /// themselves may not be in any cache.
    begin: SubflowPosition,
    end: SubflowPosition,
    sacked: u64,
    lost: u64,
    repeated: u64,
    /// Bytes that are lost and have not been retransmitted since.
    unrepeated: u64,
    /// End of the highest SACKed segment. 0 if no segment is SACKed.
    highest_sacked: SubflowPosition,
    /// The SACKed ranges.
    sacked_ranges: Ranges<SubflowPosition>,
    /// The ranges that are lost and have not been retransmitted since.
    awaiting: Ranges<SubflowPosition>,
    /// Every segment below is already marked lost or SACKed, or was retransmitted.
    lost_below: SubflowPosition,
    /// Every segment below that was transmitted only once is marked lost or SACKed.
    fresh_from: SubflowPosition,
    /// The segments that were transmitted more than once and are neither SACKed nor lost, by time of their last
    /// transmission, then by end.
    repeats: BTreeSet<(Instant, SubflowPosition)>,
    /// No segment below is eligible for proactive recovery.
    unprotected_from: SubflowPosition,
    /// The data of every segment below are acknowledged at the data level, and [`Self::take_useful_copies`] has
    /// already considered these segments.
    outrun_from: SubflowPosition,
    /// The data of every segment below are acknowledged at the data level.
    acked_data_below: SubflowPosition,
    /// Every segment below was considered for reinjection. SACKed segments were considered only if the flag is
    /// set.
    reinjected_below: (SubflowPosition, bool),
    /// No segment below is a hole in the sense of [`Self::next_unsacked_hole`].
    hole_from: SubflowPosition,
    /// Number of times that a segment was marked lost, once for each transmission.
    losses: u64,
    /// No segment below may be put into a block.
    uncoded_from: SubflowPosition,
    /// End of the last segment that is in a block. 0 if no segment ever was in a block.
    coded_to: SubflowPosition,
    /// Work done on the scoreboard.
    pub(crate) steps: Steps,
    /// Data ranges of acknowledged segments that the data level had not acknowledged at that time. They are
    /// kept until they are [taken](Self::take_released).
    released: Vec<(DataOffset, DataOffset)>,
    /// When the segments were first transmitted that were sent again and whose data have arrived. They are kept until
    /// they are [taken](Self::take_repaired).
    repaired: Vec<Instant>,
}

impl Scoreboard {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that the entries take, without the payload.
    #[inline]
    pub(crate) fn stored(&self) -> u64 {
        (self.queue.len() * size_of::<Sent>()) as u64
    }

    /// Number of outstanding segments.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Releases unused memory.
    pub(crate) fn shed(&mut self) {
        self.queue.shrink_to_fit();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.steps.each(&self.queue)
    }

    /// The segments that begin at or after `from`.
    pub(crate) fn iter_from(&self, from: SubflowPosition) -> impl Iterator<Item = &Sent> {
        let first = self.count_below(from);
        self.steps.each(self.queue.range(first..))
    }

    pub(crate) fn front(&self) -> Option<&Sent> {
        self.queue.front()
    }

    pub(crate) fn back(&self) -> Option<&Sent> {
        self.queue.back()
    }

    /// Start of the first segment. The SYN's position if there is none.
    pub(crate) fn start_of_first(&self) -> SubflowPosition {
        self.front().map_or(SubflowPosition::SYN, |s| s.start)
    }

    /// End of the last segment. The SYN's position if there is none.
    fn end_of_last(&self) -> SubflowPosition {
        self.queue.back().map_or(SubflowPosition::SYN, Sent::end)
    }

    pub(crate) fn get(&self, start: SubflowPosition) -> Option<&Sent> {
        let i = self.index_of(start)?;
        self.queue.get(i)
    }

    /// The index of the segment that contains position `at`, if it is outstanding. Most segments have the same
    /// size, so that a guess by size usually finds the segment at once. Otherwise a binary search finds it.
    fn index_of(&self, at: SubflowPosition) -> Option<usize> {
        let (first, last) = (self.queue.front()?, self.queue.back()?);
        if at < first.start || at >= last.end() {
            return None;
        }
        let guess = ((at - first.start) / first.seq_len().max(1)) as usize;
        let holds = |s: &Sent| s.start <= at && at < s.end();
        if self.queue.get(guess).is_some_and(holds) {
            return Some(guess);
        }
        Some(self.queue.partition_point(|s| s.end() <= at))
    }

    /// How many segments begin below position `at`.
    fn count_below(&self, at: SubflowPosition) -> usize {
        match self.index_of(at) {
            Some(i) => i + usize::from(self.queue[i].start < at),
            None if self.queue.front().is_some_and(|f| f.start < at) => self.queue.len(),
            None => 0,
        }
    }

    pub(crate) fn push(&mut self, sent: Sent) {
        debug_assert!(self.queue.back().is_none_or(|b| b.end() == sent.start));
        if self.queue.is_empty() {
            self.begin = sent.start;
        }
        self.end = sent.end();
        self.queue.push_back(sent);
    }

    /// Sequence space that is not cumulatively acknowledged.
    #[inline]
    pub(crate) fn outstanding(&self) -> u64 {
        self.end - self.begin
    }

    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked
    }

    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost
    }

    /// Bytes that were marked lost, for the first time or again, and have not been retransmitted since.
    pub(crate) fn unrepeated_bytes(&self) -> u64 {
        self.unrepeated
    }

    /// RFC 6675's pipe: bytes that were sent and are neither SACKed nor lost, plus retransmissions in flight.
    pub(crate) fn pipe(&self) -> u64 {
        self.outstanding() - self.sacked - self.lost + self.repeated
    }

    fn forget_marks(&mut self, s: &Sent) {
        if s.sacked {
            self.sacked -= s.seq_len();
        } else {
            if s.lost {
                self.lost -= s.seq_len();
            }
            if s.repeated {
                self.repeated -= s.seq_len();
            }
            if s.awaits_retransmission() {
                self.unrepeated -= s.seq_len();
            }
        }
    }

    /// Removes everything below `ack`. A segment that is partly acknowledged loses that part. Removed data that
    /// end beyond the data offset `data_acked` are kept for [`Self::take_released`].
    pub(crate) fn acknowledge(&mut self, ack: SubflowPosition, data_acked: DataOffset) -> Acked {
        let mut acked = Acked::default();
        while let Some(front) = self.queue.front() {
            if front.end() > ack {
                break;
            }
            let Some(s) = self.queue.pop_front() else {
                break;
            };
            self.forget_marks(&s);
            self.release(&s, s.payload.len() as u64, data_acked);
            if !s.sacked {
                acked.add(&s);
            }
            if s.transmissions > 1 {
                self.on_repeat_acked(&s);
            }
        }
        if self.queue.front().is_some_and(|f| f.start < ack) {
            self.split_front(ack, data_acked, &mut acked);
        }
        self.begin = self.queue.front().map_or(self.end, |f| f.start);
        if !(self.sacked_ranges.is_empty() && self.awaiting.is_empty()) {
            self.forget_ranges();
        }
        acked
    }

    #[inline(never)] // a retransmission
    fn on_repeat_acked(&mut self, s: &Sent) {
        self.repeats.remove(&(s.sent_at, s.end()));
        if !s.sacked {
            self.note_repaired(s.first_sent_at, s.uses);
        }
    }

    /// Removes the acknowledged positions from the ranges.
    #[inline(never)] // only with SACK blocks
    fn forget_ranges(&mut self) {
        self.sacked_ranges.remove_below(self.begin);
        self.awaiting.remove_below(self.begin);
    }

    #[cold] // a segment acknowledged in part
    fn split_front(&mut self, ack: SubflowPosition, data_acked: DataOffset, acked: &mut Acked) {
        let Some(mut s) = self.queue.pop_front() else {
            return;
        };
        self.forget_marks(&s);
        let cut = (ack - s.start) as usize;
        self.release(&s, cut as u64, data_acked);
        if !s.sacked {
            acked.bytes += cut as u64;
            acked.original |= s.transmissions == 1;
            acked.retransmitted |= s.transmissions > 1;
        }
        let rest = s.payload.len() - cut;
        s.payload = s.payload.slice(cut, rest);
        s.start = ack;
        s.map = s.map.map(|m| m.advanced(cut as u64));
        self.remember_marks(&s);
        self.queue.push_front(s);
    }

    fn remember_marks(&mut self, s: &Sent) {
        if s.sacked {
            self.sacked += s.seq_len();
        } else {
            if s.lost {
                self.lost += s.seq_len();
            }
            if s.repeated {
                self.repeated += s.seq_len();
            }
            if s.awaits_retransmission() {
                self.unrepeated += s.seq_len();
            }
        }
    }

    /// Marks the segments that lie entirely within `[left, right)` as SACKed.
    pub(crate) fn sack(&mut self, left: SubflowPosition, right: SubflowPosition) -> Acked {
        let mut acked = Acked::default();
        let mut i = self.count_below(left);
        while let Some(s) = self.queue.get(i).filter(|s| s.end() <= right) {
            self.steps.add(1);
            let start = s.start;
            if s.sacked {
                i = self.behind_sacked(start);
                continue;
            }
            // All segments up to the next one that is SACKed already or is not covered by the block.
            let (first, mut to) = (i, start);
            while let Some(s) = self.queue.get(i)
                && !s.sacked
                && s.end() <= right
            {
                acked.add(s);
                to = s.end();
                self.mark_sacked(i);
                i += 1;
            }
            self.steps.add(i - first);
            self.awaiting.remove(start, to);
            self.sacked_ranges.insert(start, to);
            self.highest_sacked = self.highest_sacked.max(to);
        }
        acked
    }

    /// Marks the segment at index `i` as SACKed, without updating the ranges.
    fn mark_sacked(&mut self, i: usize) {
        let s = &mut self.queue[i];
        let len = s.seq_len();
        let repeated = (s.transmissions > 1).then_some((s.first_sent_at, s.uses));
        if repeated.is_some() {
            self.repeats.remove(&(s.sent_at, s.end()));
        }
        if s.lost {
            self.lost -= len;
        }
        if s.repeated {
            self.repeated -= len;
        }
        if s.awaits_retransmission() {
            self.unrepeated -= len;
        }
        s.lost = false;
        s.repeated = false;
        s.sacked = true;
        self.sacked += len;
        if let Some((first_sent_at, uses)) = repeated {
            self.note_repaired(first_sent_at, uses);
        }
    }

    /// The index of the first segment after the SACKed run that contains position `at`.
    fn behind_sacked(&self, at: SubflowPosition) -> usize {
        let end = self.sacked_ranges.containing(at).map_or(at, |r| r.1);
        self.index_of(end).unwrap_or(self.queue.len())
    }

    /// The position below which every segment has more than `bytes` SACKed bytes above it: RFC 6675's IsLost
    /// holds for all of them.
    pub(crate) fn loss_frontier(&self, bytes: u64) -> SubflowPosition {
        let mut above = 0;
        for (n, (from, to)) in self.sacked_ranges.iter().rev().enumerate() {
            self.steps.add(1);
            let len = to - from;
            if above + len > bytes || n == MOST_RANGES {
                // The position from which on the number of SACKed bytes just exceeds `bytes`.
                let within = bytes.saturating_sub(above).min(len - 1);
                let found = self.index_of(to - 1 - within).map(|i| &self.queue[i]);
                return found
                    .filter(|s| s.end() >= self.lost_below)
                    .map_or(SubflowPosition::SYN, |s| s.start);
            }
            above += len;
            if from < self.lost_below {
                break;
            }
        }
        SubflowPosition::SYN
    }

    /// Marks every segment below `frontier` as lost that is neither SACKed, lost nor retransmitted. Returns the
    /// number of newly marked bytes.
    pub(crate) fn mark_lost_below(&mut self, frontier: SubflowPosition) -> u64 {
        let before = self.lost;
        let mut i = self.count_below(self.lost_below);
        while let Some(s) = self.queue.get(i).filter(|s| s.start < frontier) {
            self.steps.add(1);
            if s.sacked {
                i = self.behind_sacked(s.start);
                continue;
            }
            if !s.lost && !s.repeated {
                self.mark_lost_at(i);
            }
            i += 1;
        }
        self.lost_below = self.lost_below.max(frontier);
        self.lost - before
    }

    /// Marks the segment at `start` as lost, including its retransmission. Returns whether this changed
    /// anything.
    pub(crate) fn mark_lost(&mut self, start: SubflowPosition) -> bool {
        let Some(i) = self.index_of(start) else {
            return false;
        };
        let s = &self.queue[i];
        if s.sacked || s.awaits_retransmission() {
            return false;
        }
        self.mark_lost_at(i);
        true
    }

    /// Marks the segment at index `i` as lost. The segment must be neither SACKed nor waiting for
    /// retransmission.
    fn mark_lost_at(&mut self, i: usize) {
        let s = &mut self.queue[i];
        let len = s.seq_len();
        if s.transmissions > 1 {
            self.repeats.remove(&(s.sent_at, s.end()));
        }
        self.losses += 1;
        if !s.lost {
            s.lost = true;
            self.lost += len;
        }
        if s.repeated {
            s.repeated = false;
            self.repeated -= len;
        }
        self.unrepeated += len;
        self.awaiting.insert(s.start, s.end());
    }

    /// Marks every segment that is not SACKed as lost after a timeout, including retransmissions. With
    /// `forget_sacks` the receiver is assumed to have reneged (RFC 2018, section 8).
    pub(crate) fn mark_all_lost(&mut self, forget_sacks: bool) {
        if forget_sacks {
            self.forget_sacks();
        }
        while let Some(i) = self.first_fresh() {
            self.mark_lost_at(i);
        }
        while let Some(i) = self.first_repeat() {
            self.steps.add(1);
            self.mark_lost_at(i);
        }
        self.lost_below = self.end_of_last();
    }

    /// Removes all SACK marks.
    fn forget_sacks(&mut self) {
        for (from, to) in std::mem::take(&mut self.sacked_ranges).iter() {
            let first = self.count_below(from);
            for s in self.queue.range_mut(first..).take_while(|s| s.start < to) {
                self.steps.add(1);
                s.sacked = false;
                if s.is_repeat_in_flight() {
                    self.repeats.insert((s.sent_at, s.end()));
                }
            }
        }
        self.fresh_from = SubflowPosition::SYN;
        self.sacked = 0;
        self.highest_sacked = SubflowPosition::SYN;
    }

    /// Removes every loss mark because the losses were not real. Returns how many segments and runs of SACKed
    /// segments it visited.
    pub(crate) fn clear_lost(&mut self) -> u64 {
        let (mut i, mut seen) = (0, 0);
        while self.lost > 0
            && let Some(s) = self.queue.get_mut(i)
        {
            seen += 1;
            if s.sacked {
                let start = s.start;
                i = self.behind_sacked(start);
                continue;
            }
            if std::mem::take(&mut s.lost) {
                self.lost -= s.seq_len();
                if s.is_repeat_in_flight() {
                    self.repeats.insert((s.sent_at, s.end()));
                }
            }
            i += 1;
        }
        self.steps.add(seen as usize);
        self.unrepeated = 0;
        self.awaiting.clear();
        self.lost_below = SubflowPosition::SYN;
        self.fresh_from = SubflowPosition::SYN;
        self.hole_from = SubflowPosition::SYN;
        seen
    }

    /// Number of times that a segment was marked lost, once for each transmission.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// The start of the first segment that is lost and not yet retransmitted.
    pub(crate) fn next_lost(&self) -> Option<SubflowPosition> {
        self.awaiting.first().map(|(start, _)| start)
    }

    /// RFC 6675, NextSeg rule 3: the first segment below the highest SACKed one that is neither SACKed nor
    /// retransmitted.
    pub(crate) fn next_unsacked_hole(&mut self) -> Option<SubflowPosition> {
        let mut i = self.count_below(self.hole_from);
        while let Some(s) = self.queue.get(i).filter(|s| s.end() <= self.highest_sacked) {
            self.steps.add(1);
            self.hole_from = s.start;
            if s.is_fresh_hole() {
                return Some(s.start);
            }
            self.hole_from = s.end();
            i += 1;
        }
        None
    }

    /// RFC 6675, NextSeg rule 4: the last outstanding segment that is neither SACKed nor retransmitted.
    pub(crate) fn last_unsacked(&self) -> Option<SubflowPosition> {
        let sacked = self.sacked_ranges.last().filter(|r| r.1 == self.end);
        let end = sacked.map_or(self.end, |r| r.0);
        let last = &self.queue[self.index_of(end.checked_sub(1)?)?];
        (!last.repeated).then_some(last.start)
    }

    /// Records a retransmission of the segment at `start`.
    pub(crate) fn repeat(&mut self, start: SubflowPosition, now: Instant) -> Option<&Sent> {
        let i = self.index_of(start)?;
        let s = &mut self.queue[i];
        if s.transmissions > 1 {
            self.repeats.remove(&(s.sent_at, s.end()));
        }
        s.sent_at = now;
        s.transmissions = s.transmissions.saturating_add(1);
        if !s.sacked {
            self.repeats.insert((now, s.end()));
            self.awaiting.remove(s.start, s.end());
        }
        if !s.repeated && !s.sacked {
            if s.lost {
                self.unrepeated -= s.seq_len();
            }
            s.repeated = true;
            self.repeated += s.seq_len();
        }
        Some(s)
    }

    /// Splits segments of more than `mss` bytes that are not SACKed into segments of at most `mss` bytes, each
    /// under its old mapping, and marks them lost. None of them can have passed a path that carries no more
    /// than `mss` bytes. Returns the number of affected bytes.
    pub(crate) fn resegment(&mut self, mss: usize) -> u64 {
        let large = |s: &Sent| !s.sacked && s.payload.len() > mss;
        if mss == 0 || !self.queue.iter().any(large) {
            return 0;
        }
        let mut cut = 0;
        for s in std::mem::take(&mut self.queue) {
            self.steps.add(1);
            if !large(&s) {
                self.queue.push_back(s);
                continue;
            }
            cut += s.payload.len() as u64;
            self.forget_marks(&s);
            self.repeats.remove(&(s.sent_at, s.end()));
            self.awaiting.insert(s.start, s.end());
            for mut piece in pieces(&s, mss) {
                piece.lost = true;
                piece.repeated = false;
                self.remember_marks(&piece);
                self.queue.push_back(piece);
            }
        }
        cut
    }

    /// Splits the segment at `start` so that it has at most `len` bytes. The rest becomes a separate segment
    /// with the same marks.
    pub(crate) fn split(&mut self, start: SubflowPosition, len: usize) {
        let Some(i) = self.index_of(start) else {
            return;
        };
        if len == 0 || self.queue[i].payload.len() <= len {
            return;
        }
        let s = self.queue[i].clone();
        let rest = s.payload.len() - len;
        let mut head = part(&s, 0, len);
        head.fin = false;
        if head.is_repeat_in_flight() {
            self.repeats.insert((head.sent_at, head.end()));
        }
        self.queue[i] = head;
        self.queue.insert(i + 1, part(&s, len, rest));
    }

    /// Recounts everything. Only for consistency checks.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self) {
        let count = |f: fn(&Sent) -> bool| -> u64 {
            self.queue.iter().filter(|s| f(s)).map(Sent::seq_len).sum()
        };
        assert_eq!(self.outstanding(), count(|_| true), "outstanding bytes");
        let begin = self.queue.front().map(|f| f.start);
        assert!(
            begin.is_none_or(|b| b == self.begin),
            "the first one's begin"
        );
        assert_eq!(self.sacked, count(|s| s.sacked), "sacked bytes");
        assert_eq!(self.lost, count(|s| s.lost && !s.sacked), "lost bytes");
        assert_eq!(
            self.repeated,
            count(|s| s.repeated && !s.sacked),
            "repeated bytes"
        );
        assert_eq!(
            self.unrepeated,
            count(|s| s.awaits_retransmission() && !s.sacked),
            "bytes to be repeated"
        );
        let contiguous = self
            .queue
            .iter()
            .zip(self.queue.iter().skip(1))
            .all(|(a, b)| a.end() == b.start);
        assert!(contiguous, "entries are contiguous");
        let passed = |s: &&Sent| s.start < self.hole_from && s.end() <= self.highest_sacked;
        assert!(
            !self.queue.iter().filter(passed).any(Sent::is_fresh_hole),
            "holes are looked for from the first on"
        );
        assert!(
            self.queue
                .iter()
                .all(|s| !(s.sacked && (s.lost || s.repeated))),
            "SACKed is final"
        );
        self.check_order();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(start: SubflowPosition, len: u32) -> Sent {
        Sent::new(start, Payload::Length(len), Instant::ZERO)
    }

    proptest! {
        /// Searches that guess an index or resume where the last search ended give the same result as a search
        /// of the whole queue.
        #[test]
        fn incremental_searches_equal_full_searches(lens in prop::collection::vec(prop_oneof![4 => Just(100u32), 1 => 1..300u32], 1..40),
                                       steps in prop::collection::vec((0..6u8, 0u64..5000), 1..60)) {
            let mut board = Scoreboard::default();
            let mut end = SubflowPosition::FIRST_BYTE;
            for len in lens {
                board.push(sent(end, len));
                end += u64::from(len);
            }
            for (what, number) in steps {
                let at = SubflowPosition(number);
                match what {
                    0 => { board.acknowledge(SubflowPosition(at.min(end).0 / 4), DataOffset::MAX); }
                    1 => { board.sack(at, at + 350); }
                    2 => { board.mark_lost(at); }
                    3 => { board.repeat(at, Instant::ZERO); }
                    4 => { board.clear_lost(); }
                    _ => { board.push(sent(end, 100)); end += 100; }
                }
                board.check();
                let plain = board.queue.iter().position(|s| s.start <= at && at < s.end());
                prop_assert_eq!(board.index_of(at), plain);
                prop_assert_eq!(board.count_below(at), board.queue.partition_point(|s| s.start < at));
                let hole = |s: &&Sent| s.is_fresh_hole() && s.end() <= board.highest_sacked;
                let plain = board.queue.iter().find(hole).map(|s| s.start);
                prop_assert_eq!(board.next_unsacked_hole(), plain);
            }
        }
    }
}
