//! Data that a subflow acknowledged and the data level did not.
//!
//! A receiver may acknowledge data on a subflow and drop them before its data level accepts them. Therefore a
//! sender keeps data until the DATA_ACK covers them (RFC 8684, section 3.3.2). Linux drops such data if memory
//! is short. It also drops data that are out of order at the data level and lie beyond the window announced
//! with its last DATA_ACK (`mptcp_data_queue_ofo`). No subflow retransmits data that it has seen acknowledged,
//! so the data level has to reinject them.
//!
//! The sign is a DATA_ACK that does not advance although some subflow has acknowledged the next data. It may
//! also be late for data that did arrive, because Linux acknowledges a segment on its subflow before its data
//! level has processed it. So the DATA_ACK gets a round trip to advance, or a retransmission timeout as long as the
//! connection could fall back: a reinjection over the only subflow ends that. Then a single segment is reinjected.
//! If the DATA_ACK advances to the end of that segment and no further, the later data were dropped too. They
//! are reinjected at once, twice as many each time.

use spindle_units::{Duration, Instant};
use spindle_wire::{Dss, Segment};

use super::Connection;
use super::numbers::offset_of;
use crate::ranges::Ranges;
use crate::types::DataOffset;

/// What the connection knows about such data.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    /// Data offsets that a subflow acknowledged and that no DATA_ACK covers.
    acked_on_subflows: Ranges<DataOffset>,
    /// When the oldest data will be reinjected, and the DATA_ACK at which this was decided.
    due: Option<(Instant, DataOffset)>,
    /// Data below this offset were reinjected.
    reinjected_to: DataOffset,
    /// Number of segments to reinject the next time, minus one.
    burst: u64,
    /// Reinjections in a row without progress.
    tries: u32,
}

impl Undelivered {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.map(|(at, _)| at)
    }

    /// The range around `at` that a subflow acknowledged.
    pub(super) fn acknowledged_at(&self, at: DataOffset) -> Option<(DataOffset, DataOffset)> {
        self.acked_on_subflows.containing(at)
    }

    fn forget(&mut self) {
        self.due = None;
        self.burst = 0;
        self.tries = 0;
    }
}

impl Connection {
    /// The data offset up to which `dss` acknowledges data, if it has a DATA_ACK in the possible range.
    pub(super) fn data_acked_by(&self, dss: &Dss) -> Option<DataOffset> {
        let mp = self.multipath()?;
        let offset = offset_of(dss.data_ack?, mp.first_dsn(), self.send.una);
        (offset <= self.sent_to() + u64::from(self.teardown.data_fin_sent)).then_some(offset)
    }

    /// Data below this data offset cannot be undelivered if a subflow sees them acknowledged by `seg`.
    #[inline]
    pub(super) fn delivered_to(&self, seg: &Segment) -> DataOffset {
        if !self.is_multipath() || self.reinjects_when_idle() {
            return DataOffset::MAX;
        }
        let acked = seg.options.dss.as_ref().and_then(|d| self.data_acked_by(d));
        acked.unwrap_or_default().max(self.send.una)
    }

    /// Records the data beyond the DATA_ACK that the latest segment acknowledged on subflow `i`, and processes
    /// the current DATA_ACK.
    #[inline]
    pub(super) fn note_undelivered(&mut self, now: Instant, i: usize, seg: &Segment) {
        let known = !self.scheduling.undelivered.acked_on_subflows.is_empty();
        if known || self.subflows.untracked_at(i).tx.board.has_released() {
            self.watch_undelivered(now, i, seg);
        }
    }

    #[inline(never)] // only while the data level is behind
    fn watch_undelivered(&mut self, now: Instant, i: usize, seg: &Segment) {
        let released = self.subflows.untracked_at(i).tx.board.take_released();
        let has_data_ack = seg.options.dss.is_some_and(|d| d.data_ack.is_some());
        let una = self.send.una;
        let grace = match self.is_linear() {
            true => self.slowest_rto(),
            false => self.shortest_round_trip(),
        };
        let u = &mut self.scheduling.undelivered;
        for (start, end) in released {
            u.acked_on_subflows.insert(start.max(una), end);
        }
        u.acked_on_subflows.remove_below(una);
        // Without a DATA_ACK in the segment it is unknown whether the DATA_ACK has stalled. A middlebox may
        // remove the options.
        if !has_data_ack || u.acked_on_subflows.containing(una).is_none() {
            u.forget();
        } else if u.due.is_some() && una > u.reinjected_to {
            // The DATA_ACK advances by itself, so it gets another round trip.
            if u.due.is_some_and(|(_, at)| at != una) {
                u.forget();
                u.due = Some((now + grace, una));
            }
        } else if u.burst > 0 && una == u.reinjected_to {
            u.tries = 0;
            self.reinject_undelivered(now);
        } else if u.due.is_none() {
            u.due = Some((now + grace, una));
        }
    }

    /// Reinjects data if the DATA_ACK has not advanced for too long.
    pub(super) fn undelivered_timer(&mut self, now: Instant) {
        if self
            .scheduling
            .undelivered
            .due
            .is_some_and(|(at, _)| at <= now)
        {
            self.scheduling.undelivered.due = None;
            self.scheduling.undelivered.burst = 0;
            self.reinject_undelivered(now);
        }
    }

    /// Queues the oldest data that a subflow acknowledged for reinjection, and sets the timer for the next
    /// check.
    fn reinject_undelivered(&mut self, now: Instant) {
        let una = self.send.una;
        let Some((_, end)) = self
            .scheduling
            .undelivered
            .acked_on_subflows
            .containing(una)
        else {
            return;
        };
        let (mut at, mut left) = (una, self.scheduling.undelivered.burst.saturating_add(1));
        while at < end && left > 0 {
            let Some((offset, payload)) = self.send.sent_at(at) else {
                break;
            };
            at = offset + payload.len() as u64;
            left -= 1;
            self.counters.undelivered += 1;
            self.steps.add(1);
            self.scheduling.reinjections.insert(offset, payload, None);
        }
        let wait = self.backed_off(self.slowest_rto(), self.scheduling.undelivered.tries);
        let u = &mut self.scheduling.undelivered;
        u.reinjected_to = at;
        u.burst = u.burst.saturating_mul(2).saturating_add(1);
        u.tries += 1;
        u.due = Some((now + wait, una));
    }

    /// The least smoothed RTT of the subflows that may carry data.
    pub(super) fn shortest_round_trip(&self) -> Duration {
        let usable = self.subflows.iter().filter(|s| s.is_usable() && !s.dead);
        let shortest = usable.filter_map(|s| s.tx.srtt()).min();
        shortest.unwrap_or(self.config.tcp.min_rto)
    }
}
