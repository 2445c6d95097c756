//! Data sent again on another subflow: from a dead or lost subflow, opportunistically if the window blocks, or
//! on the connection's timer (mechanisms A5.6; RFC 8684, section 3.3.6).

use std::collections::BTreeMap;

use spindle_units::Instant;
use spindle_wire::{Payload, Segment};

use super::Connection;
use super::transmit::Purpose;
use crate::subflow::Subflow;
use crate::types::{DataOffset, SubflowId};

/// Linux keeps written data in fragments of a page allocation of 32 KiB, and reinjects one fragment at a time.
pub(super) const FRAGMENT: u64 = 32 << 10;

/// Data waiting to be reinjected.
#[derive(Debug)]
struct Reinjection {
    payload: Payload,
    /// The subflow that failed to deliver the data.
    not_on: Option<SubflowId>,
}

/// Data that wait for reinjection, by data offset.
#[derive(Debug, Default)]
pub(super) struct Reinjections {
    queue: BTreeMap<DataOffset, Reinjection>,
    opportunistic: Opportunistic,
    /// End of the data that are, or may be, sent again, until all of them are acknowledged.
    end: Option<DataOffset>,
}

/// State of opportunistic retransmission while the window blocks new data.
#[derive(Debug, Default)]
struct Opportunistic {
    /// Data below this offset were already sent again.
    to: DataOffset,
    /// Number of segments of the latest round, and how many of them are not sent yet.
    burst: u64,
    left: u64,
    /// When that round began.
    since: Instant,
    /// The subflow that held the oldest data at that time.
    not_on: Option<SubflowId>,
}

impl Opportunistic {
    /// Begins a round. Everything before the round has arrived. If rounds follow each other and `grows` is set,
    /// each is about twice as long as the one before.
    fn begin(&mut self, now: Instant, una: DataOffset, holder: SubflowId, grows: bool) {
        // The length saturates, because a peer can let the window block again without limit.
        let longer = self.burst.saturating_mul(2).saturating_add(1);
        self.burst = if grows { longer } else { 1 };
        self.left = self.burst;
        self.to = una;
        self.since = now;
        self.not_on = Some(holder);
    }
}

impl Reinjections {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds the segment at `offset`, which subflow `not_on` failed to deliver, unless a segment at this offset
    /// that is at least as long already waits.
    pub(super) fn insert(
        &mut self,
        offset: DataOffset,
        payload: Payload,
        not_on: Option<SubflowId>,
    ) {
        self.note_again(offset + payload.len() as u64);
        let waits = self.queue.get(&offset);
        if waits.is_none_or(|r| r.payload.len() < payload.len()) {
            self.queue.insert(offset, Reinjection { payload, not_on });
        }
    }

    /// Notes that data up to `end` are sent again, or may be.
    pub(super) fn note_again(&mut self, end: DataOffset) {
        self.end = self.end.max(Some(end));
    }

    /// Whether the data level's acknowledgement, which is now `acknowledged`, may have reached data that another
    /// subflow has delivered.
    pub(super) fn passed(&mut self, acknowledged: DataOffset) -> bool {
        let again = self.end.is_some();
        self.end.take_if(|end| *end <= acknowledged);
        again
    }

    /// Drops data that end at or below `offset`.
    fn forget_below(&mut self, offset: DataOffset) {
        while let Some(first) = self.queue.first_entry()
            && *first.key() + first.get().payload.len() as u64 <= offset
        {
            first.remove();
        }
    }

    /// Subflow `id` no longer exists, and its identifier may be reused for another subflow.
    pub(super) fn forget(&mut self, id: SubflowId) {
        for r in self.queue.values_mut().filter(|r| r.not_on == Some(id)) {
            r.not_on = None;
        }
        self.opportunistic.not_on.take_if(|holder| *holder == id);
    }
}

impl Connection {
    /// Queues all outstanding data of subflow `i` that the data level still misses. With `held_back`, SACKed
    /// data are included: a receiver that delivers only data in order within their subflow holds them behind a
    /// hole.
    pub(super) fn reinject_from(&mut self, i: usize, held_back: bool) {
        let una = self.send.una;
        let sf = &mut self.subflows[i];
        let id = sf.id;
        for (offset, payload) in sf.tx.board.take_for_reinjection(una, held_back) {
            self.steps.add(1);
            self.scheduling
                .reinjections
                .insert(offset, payload, Some(id));
        }
    }

    /// Like [`Self::reinject_from`], but for all data, SACKed or not. The subflow no longer exists, so the peer
    /// will not deliver data that it holds for it. Not used for the last subflow, because there is no other
    /// subflow to reinject on.
    pub(super) fn reinject_all_from(&mut self, i: usize) {
        let una = self.send.una;
        for s in self.subflows[i].tx.board.iter() {
            let Some(map) = s.map.filter(|_| !s.payload.is_empty()) else {
                continue;
            };
            if map.offset + s.payload.len() as u64 > una {
                self.steps.add(1);
                self.scheduling
                    .reinjections
                    .insert(map.offset, s.payload.clone(), None);
            }
        }
    }

    /// Queues all data that were sent and that the data level misses. No subflow is left, and the peer's data
    /// level may not have accepted the data that the last subflow had acknowledged. Data that were assigned to
    /// a subflow and never sent continue to wait for the next subflow.
    pub(super) fn reinject_all(&mut self) {
        self.scheduling.reinjections = Reinjections::default();
        for from in [Some(self.send.una), self.send.tail_from()]
            .into_iter()
            .flatten()
        {
            let mut at = from;
            while let Some((offset, payload)) = self.send.sent_at(at) {
                at = offset + payload.len() as u64;
                self.steps.add(1);
                if !self.scheduling.assigned.holds(offset) {
                    self.scheduling.reinjections.insert(offset, payload, None);
                }
            }
        }
    }

    /// Queues the oldest data that the peer has not acknowledged at the data level: a segment or, as in the
    /// Linux kernel, a fragment.
    pub(super) fn reinject_oldest(&mut self) {
        if self.hand_over_oldest() {
            return;
        }
        let una = self.send.una;
        let fragment = if self.reinjects_when_idle() {
            FRAGMENT
        } else {
            1
        };
        let end = self.sent_to().min(una + fragment);
        let mut at = una;
        while at < end {
            let Some((offset, payload)) = self.send.sent_at(at) else {
                return;
            };
            at = offset + payload.len() as u64;
            self.steps.add(1);
            self.scheduling.reinjections.insert(offset, payload, None);
        }
    }

    /// Whether there may be something for [`Self::reinjection`] to do.
    #[inline]
    pub(super) fn may_reinject(&self) -> bool {
        !self.scheduling.reinjections.is_empty() || self.subflows.len() > 1
    }

    /// The next reinjected segment, if a subflow has room for it.
    #[inline(never)] // only with several subflows
    pub(super) fn reinjection(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        self.scheduling.reinjections.forget_below(self.send.una);
        if self.scheduling.reinjections.is_empty() {
            return self.opportunistic(now);
        }
        let not_on = self
            .scheduling
            .reinjections
            .queue
            .first_key_value()?
            .1
            .not_on;
        let i = self.open_reinjection_subflow(now, not_on)?;
        let (offset, r) = self.scheduling.reinjections.queue.pop_first()?;
        let (payload, rest) = split(r.payload, self.most_again(i) as usize);
        if let Some(rest) = rest {
            let offset = offset + payload.len() as u64;
            self.scheduling.reinjections.insert(offset, rest, not_on);
        }
        Some(self.send_on(now, i, offset, payload, Purpose::AGAIN))
    }

    /// Whether data are reinjected as in the Linux kernel: on the connection's timer, on an idle subflow.
    pub(super) fn reinjects_when_idle(&self) -> bool {
        let multipath = self.config.multipath.as_ref();
        multipath.is_some_and(|m| m.connection_timer)
    }

    /// A subflow that has no data outstanding and no data waiting.
    pub(super) fn idle_subflow(&self, not_on: Option<SubflowId>) -> Option<usize> {
        self.subflows.iter().position(|s| {
            let idle = s.tx.board.is_empty() && self.scheduling.assigned.bytes(s.id) == 0;
            s.is_usable() && !s.scheduling.draining && idle && Some(s.id) != not_on
        })
    }

    /// Like [`Self::reinjection_subflow`], if the peer's window on the subflow is open. If not, the peer will
    /// be probed for its window.
    fn open_reinjection_subflow(
        &mut self,
        now: Instant,
        not_on: Option<SubflowId>,
    ) -> Option<usize> {
        let i = self.reinjection_subflow(now, not_on)?;
        let open = self.subflows[i].window_is_open(true);
        if !open {
            self.subflows[i].await_window(now);
        }
        open.then_some(i)
    }

    /// The subflow with room and the smallest RTT. `not_on` is used only if there is no other.
    fn reinjection_subflow(&mut self, now: Instant, not_on: Option<SubflowId>) -> Option<usize> {
        if self.reinjects_when_idle() {
            return self.idle_subflow(not_on);
        }
        self.find_candidates(now, u64::MAX);
        let others = self
            .scheduling
            .candidates
            .iter()
            .filter(|c| Some(c.id) != not_on);
        let best = others.min_by_key(|c| (c.srtt.map_or(u64::MAX, |d| d.as_nanos()), c.id));
        // If nothing is outstanding on the subflow that failed to deliver the data, the peer has acknowledged
        // them there although the data level still misses them. The subflow will not retransmit them by itself.
        let last = || {
            let i = self.index(not_on?)?;
            let listed = self
                .scheduling
                .candidates
                .iter()
                .any(|c| Some(c.id) == not_on);
            (listed && self.subflows[i].tx.board.is_empty()).then_some(i)
        };
        match best {
            Some(c) => self.index(c.id),
            None => last(),
        }
    }

    /// Opportunistic retransmission: new data are blocked by the window, and the oldest unacknowledged data are
    /// outstanding on another subflow (mechanisms A5.6a). The subflow that holds them is penalised: its
    /// congestion window is halved, at most once a round trip.
    fn opportunistic(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        let wanted = self
            .config
            .multipath
            .as_ref()
            .is_some_and(|m| m.opportunistic_retransmission);
        let buffer_blocks = self.writer.blocked && self.send.unsent_bytes() == 0;
        if !wanted || !(self.window_blocks() || buffer_blocks) || self.subflows.len() < 2 {
            return None;
        }
        let una = self.send.una;
        if self.scheduling.reinjections.opportunistic.to <= una {
            let holds = |s: &mut Subflow| s.tx.board.carries(una);
            let holder = self.subflows.untracked().position(holds)?;
            let id = self.subflows[holder].id;
            let i = self.open_reinjection_subflow(now, Some(id))?;
            let grows = self.blocked_again(now);
            let o = &mut self.scheduling.reinjections.opportunistic;
            o.begin(now, una, id, grows);
            self.penalise(now, holder);
            return self.opportunistic_on(now, i);
        }
        if self.scheduling.reinjections.opportunistic.left == 0 {
            return None;
        }
        let not_on = self.scheduling.reinjections.opportunistic.not_on;
        let i = self.open_reinjection_subflow(now, not_on)?;
        self.opportunistic_on(now, i)
    }

    /// Whether the window blocks again, at most two round trips after data were sent again for this reason, and
    /// the receiver holds back data that are out of order within their subflow. With such a receiver the later
    /// data block as well, whether they arrived or not.
    fn blocked_again(&self, now: Instant) -> bool {
        let multipath = self.config.multipath.as_ref();
        let o = &self.scheduling.reinjections.opportunistic;
        multipath.is_some_and(|m| m.peer_holds_back)
            && o.burst > 0
            && now.since(o.since) <= self.shortest_round_trip() * 2
    }

    /// Sends the next segment of the round on subflow `i`. Data that another subflow has delivered are skipped.
    fn opportunistic_on(&mut self, now: Instant, i: usize) -> Option<(SubflowId, Segment)> {
        let mut at = self.scheduling.reinjections.opportunistic.to;
        if let Some((_, end)) = self.scheduling.undelivered.acknowledged_at(at) {
            at = end;
        }
        self.scheduling.reinjections.opportunistic.left -= 1;
        // Data that are assigned to a subflow were not sent yet.
        let next = self.send.sent_at(at);
        let Some((offset, payload)) = next.filter(|n| !self.scheduling.assigned.holds(n.0)) else {
            self.scheduling.reinjections.opportunistic.left = 0;
            return None;
        };
        let (payload, _) = split(payload, self.most_again(i) as usize);
        let end = offset + payload.len() as u64;
        self.scheduling.reinjections.opportunistic.to = end;
        self.scheduling.reinjections.note_again(end);
        self.counters.opportunistic += 1;
        Some(self.send_on(now, i, offset, payload, Purpose::AGAIN))
    }

    fn penalise(&mut self, now: Instant, i: usize) {
        let sf = &mut self.subflows[i];
        let rtt = sf.tx.srtt().unwrap_or_default();
        // A silent subflow is not slow. Its timer decides, and it needs its slow-start threshold when its path
        // works again.
        if sf.dead || now.since(sf.activity.last_heard) > rtt {
            return;
        }
        if sf
            .scheduling
            .penalised_at
            .is_some_and(|t| now.since(t) < rtt)
        {
            return;
        }
        sf.scheduling.penalised_at = Some(now);
        let half = (sf.tx.cc.cwnd() / 2).max(sf.tx.mss);
        sf.tx.cc.set_cwnd(half);
        self.counters.penalties += 1;
    }
}

fn split(payload: Payload, most: usize) -> (Payload, Option<Payload>) {
    if payload.len() <= most {
        return (payload, None);
    }
    let rest = payload.slice(most, payload.len() - most);
    (payload.slice(0, most), Some(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_of_successive_rounds_saturates_at_the_largest_number() {
        let mut o = Opportunistic::default();
        let mut bursts = Vec::new();
        for round in 0..100 {
            let una = DataOffset(round);
            o.begin(Instant::ZERO, una, SubflowId(0), round > 0);
            bursts.push(o.burst);
        }
        assert_eq!(bursts[..4], [1, 3, 7, 15]);
        assert_eq!(bursts[99], u64::MAX);
    }
}
