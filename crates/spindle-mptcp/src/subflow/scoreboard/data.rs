//! The data level of a scoreboard: which segments' data are acknowledged at the data level, which segments are
//! copied proactively, which data must be reinjected on another subflow, and which data were acknowledged on the
//! subflow before the data level, or the reverse.

use spindle_units::Instant;
use spindle_wire::Payload;

use super::{Scoreboard, Sent, Uses};
use crate::types::{DataOffset, Eligibility, SubflowPosition};

/// Number of segments searched for the oldest data not acknowledged at the data level. The search starts at the
/// first segment whose data are not acknowledged. Data are first transmitted in order of their age, so only
/// copies of old data are further back in the queue.
const LOOK: usize = 32;

impl Sent {
    /// Whether all of its data are acknowledged at the data level, which acknowledges everything below
    /// `data_acked`.
    fn is_data_acked(&self, data_acked: DataOffset) -> bool {
        let end = |offset: DataOffset| offset + self.payload.len() as u64;
        self.map.is_none_or(|m| end(m.offset) <= data_acked)
    }
}

impl Scoreboard {
    /// Whether [`Self::take_released`] would return anything.
    #[inline]
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// The data ranges of the segments acknowledged since the last call, as far as the data level had not
    /// acknowledged them at that time.
    pub(crate) fn take_released(&mut self) -> Vec<(DataOffset, DataOffset)> {
        std::mem::take(&mut self.released)
    }

    /// Records the data range of the first `len` bytes of `s`, now acknowledged, if it ends beyond
    /// `data_acked`.
    #[inline]
    pub(super) fn release(&mut self, s: &Sent, len: u64, data_acked: DataOffset) {
        if let Some(map) = s.map
            && map.offset + len > data_acked
        {
            self.note_released(map.offset, map.offset + len);
        }
    }

    #[inline(never)] // only while the data level is behind
    fn note_released(&mut self, start: DataOffset, end: DataOffset) {
        match self.released.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.released.push((start, end)),
        }
    }

    /// Whether [`Self::take_repaired`] would return anything.
    #[inline]
    pub(crate) fn has_repaired(&self) -> bool {
        !self.repaired.is_empty()
    }

    /// When the segments were first transmitted that were sent again, as a retransmission, a copy or a reinjection
    /// from a dead subflow, and whose data have arrived since the last call. A segment whose retransmission was
    /// spurious is among them.
    pub(crate) fn take_repaired(&mut self) -> Vec<Instant> {
        std::mem::take(&mut self.repaired)
    }

    /// Records that the data of a segment that was sent again have arrived. If the data level acknowledged them before
    /// the subflow, this was recorded at that time.
    pub(super) fn note_repaired(&mut self, first_sent_at: Instant, uses: Uses) {
        if !uses.any(Uses::OUTRUN) {
            self.repaired.push(first_sent_at);
        }
    }

    /// Returns how many segments that are not acknowledged on this subflow had a copy on another subflow and
    /// have all their data below `data_acked`. Each segment is counted once. SACKed segments count only if the
    /// receiver holds them back. Such segments, and others that were sent again, count as repaired.
    pub(crate) fn take_useful_copies(
        &mut self,
        data_acked: DataOffset,
        eligibility: Eligibility,
    ) -> u64 {
        let held = eligibility == Eligibility::NotDataAcked;
        let mut count = 0;
        let from = self.count_below(self.outrun_from);
        for s in self.queue.range_mut(from..) {
            self.steps.add(1);
            if !s.is_data_acked(data_acked) {
                break;
            }
            self.outrun_from = s.end();
            if s.sacked && !held {
                continue;
            }
            let copied = s.uses.any(Uses::PROTECTED);
            count += u64::from(copied);
            let again = copied || s.uses.any(Uses::REINJECTED) || s.transmissions > 1;
            if again && !s.sacked {
                self.repaired.push(s.first_sent_at);
            }
            s.uses.insert(Uses::OUTRUN);
        }
        count
    }

    /// Whether the scoreboard holds the data at `offset`, the oldest data that are not acknowledged at the data
    /// level.
    pub(crate) fn carries(&mut self, offset: DataOffset) -> bool {
        let mut i = self.count_below(self.acked_data_below);
        while let Some(s) = self.queue.get(i).filter(|s| s.is_data_acked(offset)) {
            self.steps.add(1);
            self.acked_data_below = s.end();
            i += 1;
        }
        let holds =
            |s: &Sent| s.map.is_some_and(|m| m.offset <= offset) && !s.is_data_acked(offset);
        let mut candidates = self.steps.each(self.queue.range(i..).take(LOOK));
        candidates.any(holds)
    }

    /// Takes the data beyond `data_acked` that were not reinjected yet, with their offsets. With `held_back`,
    /// this includes SACKed data.
    pub(crate) fn take_for_reinjection(
        &mut self,
        data_acked: DataOffset,
        held_back: bool,
    ) -> Vec<(DataOffset, Payload)> {
        let (below, held_back_before) = self.reinjected_below;
        let from = match held_back && !held_back_before {
            true => 0,
            false => self.count_below(below),
        };
        let mut taken = Vec::new();
        for s in self.queue.range_mut(from..) {
            self.steps.add(1);
            let again = s.uses.any(Uses::REINJECTED);
            let wanted = (held_back || !s.sacked) && !again && !s.payload.is_empty();
            if let Some(map) = s.map
                && wanted
                && !s.is_data_acked(data_acked)
            {
                s.uses.insert(Uses::REINJECTED);
                taken.push((map.offset, s.payload.clone()));
            }
        }
        self.reinjected_below = (self.end, held_back);
        taken
    }

    /// The oldest segment that may be protected proactively. It contains data, is not acknowledged, is
    /// eligible, is not a copy, was never protected, and ends above the data offset `data_acked`.
    pub(crate) fn next_unprotected(
        &mut self,
        data_acked: DataOffset,
        eligibility: Eligibility,
    ) -> Option<&Sent> {
        let from = self.count_below(self.unprotected_from);
        let found = self.steps.each(self.queue.range(from..)).position(|s| {
            s.may_be_copied(eligibility)
                && s.map
                    .is_some_and(|m| m.offset + s.payload.len() as u64 > data_acked)
        });
        match found {
            Some(k) => {
                let s = &self.queue[from + k];
                self.unprotected_from = s.start;
                Some(s)
            }
            None => {
                self.unprotected_from = self.end_of_last();
                None
            }
        }
    }

    /// Marks the segment at `start` as protected.
    pub(crate) fn protect(&mut self, start: SubflowPosition) -> bool {
        let Some(i) = self.index_of(start) else {
            return false;
        };
        let uses = &mut self.queue[i].uses;
        let before = *uses;
        uses.insert(Uses::PROTECTED);
        *uses != before
    }
}
