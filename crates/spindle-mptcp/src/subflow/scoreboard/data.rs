//! Data-level queries on a scoreboard: which segments' data are acknowledged at the data level, which segments
//! are copied proactively, and which data must be reinjected on another subflow.

use spindle_wire::Payload;

use super::{Scoreboard, Sent, Uses};
use crate::types::Eligibility;

/// Number of segments searched for the oldest data not acknowledged at the data level. The search starts at the
/// first segment whose data are not acknowledged. Data are first transmitted in order of their age, so only
/// copies of old data are further back in the queue.
const LOOK: usize = 32;

impl Sent {
    /// Whether all of its data are acknowledged at the data level, which acknowledges everything below
    /// `data_acked`.
    fn is_data_acked(&self, data_acked: u64) -> bool {
        let end = |offset| offset + self.payload.len() as u64;
        self.map.is_none_or(|m| end(m.offset) <= data_acked)
    }
}

impl Scoreboard {
    /// Returns how many segments that are not acknowledged on this subflow had a copy on another subflow and
    /// have all their data below `data_acked`. Each segment is counted once. SACKed segments count only if the
    /// receiver holds them back.
    pub(crate) fn take_useful_copies(&mut self, data_acked: u64, eligibility: Eligibility) -> u64 {
        let held = eligibility == Eligibility::NotDataAcked;
        let mut count = 0;
        let from = self.count_below(self.outrun_from);
        for s in self.queue.range(from..) {
            self.steps.add(1);
            if !s.is_data_acked(data_acked) {
                break;
            }
            self.outrun_from = s.end();
            count += u64::from(s.uses.any(Uses::PROTECTED) && (held || !s.sacked));
        }
        count
    }

    /// Whether the scoreboard holds the data at `offset`, the oldest data that are not acknowledged at the data
    /// level.
    pub(crate) fn carries(&mut self, offset: u64) -> bool {
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
        data_acked: u64,
        held_back: bool,
    ) -> Vec<(u64, Payload)> {
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
        data_acked: u64,
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
                self.unprotected_from = self.queue.back().map_or(0, Sent::end);
                None
            }
        }
    }

    /// Marks the segment at `start` as protected.
    pub(crate) fn protect(&mut self, start: u64) -> bool {
        let Some(i) = self.index_of(start) else {
            return false;
        };
        let uses = &mut self.queue[i].uses;
        let before = *uses;
        uses.insert(Uses::PROTECTED);
        *uses != before
    }
}
