//! Data sent again on another subflow: from a dead or lost subflow, opportunistically when the
//! window blocks, or on the connection's timer (catalogue A5.6; RFC 8684, section 3.3.6).

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::{Payload, Segment};

use super::Connection;
use super::output::Purpose;
use crate::subflow::SubflowId;

/// Linux keeps what was written in fragments of a page allocation of 32 KiB and reinjects one at a
/// time.
pub(super) const FRAGMENT: u64 = 32 << 10;

/// Data waiting to be reinjected.
#[derive(Debug)]
struct Reinjection {
    offset: u64,
    payload: Payload,
    /// The subflow that failed them.
    not_on: Option<SubflowId>,
}

/// The reinjection queue, in order of data offset as they were lost.
#[derive(Debug, Default)]
pub(super) struct Reinjections {
    queue: VecDeque<Reinjection>,
    /// Data up to here were sent opportunistically already.
    opportunistic_to: u64,
}

impl Reinjections {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Connection {
    /// Queues everything outstanding on subflow `i` that the data level still misses; `held_back`:
    /// also what was SACKed, which a receiver that hands up only what is in order in its subflow
    /// holds behind a hole.
    pub(super) fn reinject_from(&mut self, i: usize, held_back: bool) {
        let una = self.send.una;
        let sf = &mut self.subflows[i];
        let id = sf.id;
        let starts: Vec<u64> = sf
            .tx
            .board
            .iter()
            .filter(|s| (held_back || !s.sacked) && !s.reinjected && !s.payload.is_empty())
            .filter(|s| {
                s.map
                    .is_some_and(|m| m.offset + s.payload.len() as u64 > una)
            })
            .map(|s| s.start)
            .collect();
        for start in starts {
            let Some((offset, payload)) = sf
                .tx
                .board
                .get(start)
                .and_then(|s| Some((s.map?.offset, s.payload.clone())))
            else {
                continue;
            };
            sf.tx.board.set_reinjected(start);
            if !self.reinjections.queue.iter().any(|r| r.offset == offset) {
                self.reinjections.queue.push_back(Reinjection {
                    offset,
                    payload,
                    not_on: Some(id),
                });
            }
        }
    }

    /// The same for data SACKed or not: the subflow is gone and nothing it holds will be delivered.
    pub(super) fn reinject_all_from(&mut self, i: usize) {
        let una = self.send.una;
        let sf = &self.subflows[i];
        let lost: Vec<_> = sf
            .tx
            .board
            .iter()
            .filter(|s| !s.payload.is_empty())
            .filter_map(|s| Some((s.map?.offset, s.payload.clone())))
            .filter(|(offset, p)| offset + p.len() as u64 > una)
            .collect();
        for (offset, payload) in lost {
            if !self.reinjections.queue.iter().any(|r| r.offset == offset) {
                self.reinjections.queue.push_back(Reinjection {
                    offset,
                    payload,
                    not_on: None,
                });
            }
        }
    }

    /// Queues the oldest data the peer has not acknowledged at the data level: a segment, or a
    /// fragment as the Linux kernel does.
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
            if !self.reinjections.queue.iter().any(|r| r.offset == offset) {
                self.reinjections.queue.push_back(Reinjection {
                    offset,
                    payload,
                    not_on: None,
                });
            }
        }
    }

    /// Whether there may be something for [`Self::reinjection`] to do.
    #[inline]
    pub(super) fn may_reinject(&self) -> bool {
        !self.reinjections.is_empty() || self.subflows.len() > 1
    }

    /// The next reinjected segment, if a subflow has room for it.
    #[inline(never)]
    pub(super) fn reinjection(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        while self
            .reinjections
            .queue
            .front()
            .is_some_and(|r| r.offset + r.payload.len() as u64 <= self.send.una)
        {
            self.reinjections.queue.pop_front();
        }
        if self.reinjections.is_empty() {
            return self.opportunistic(now);
        }
        let not_on = self.reinjections.queue.front()?.not_on;
        let i = self.reinjection_subflow(now, not_on)?;
        let r = self.reinjections.queue.pop_front()?;
        let (payload, rest) = split(r.payload, self.most_data(i) as usize);
        if let Some(rest) = rest {
            let offset = r.offset + payload.len() as u64;
            self.reinjections.queue.push_front(Reinjection {
                offset,
                payload: rest,
                not_on,
            });
        }
        Some(self.send_on(now, i, r.offset, payload, Purpose::AGAIN))
    }

    /// Whether data go out again as in the Linux kernel: on the connection's timer, on an idle
    /// subflow.
    pub(super) fn reinjects_when_idle(&self) -> bool {
        let multipath = self.config.multipath.as_ref();
        multipath.is_some_and(|m| m.connection_timer)
    }

    /// A subflow with nothing outstanding or waiting at all.
    pub(super) fn idle_subflow(&self, not_on: Option<SubflowId>) -> Option<usize> {
        self.subflows.iter().position(|s| {
            let idle = s.tx.board.is_empty() && self.assigned.bytes(s.id) == 0;
            s.is_usable() && !s.draining && idle && Some(s.id) != not_on
        })
    }

    /// The subflow with room and the smallest RTT, `not_on` only if it is the last one.
    fn reinjection_subflow(&mut self, now: Instant, not_on: Option<SubflowId>) -> Option<usize> {
        if self.reinjects_when_idle() {
            return self.idle_subflow(not_on);
        }
        self.find_candidates(now);
        let others = self.candidates.iter().filter(|c| Some(c.id) != not_on);
        let best = others.min_by_key(|c| (c.srtt.map_or(u64::MAX, |d| d.as_nanos()), c.id));
        // Where nothing is outstanding on the subflow that failed them, it has acknowledged what the
        // data level still misses: it will not repeat that by itself.
        let last = || {
            let i = self.index(not_on?)?;
            let listed = self.candidates.iter().any(|c| Some(c.id) == not_on);
            (listed && self.subflows[i].tx.board.is_empty()).then_some(i)
        };
        match best {
            Some(c) => self.index(c.id),
            None => last(),
        }
    }

    /// Opportunistic retransmission: new data are blocked by the window, and the oldest
    /// unacknowledged data sit on another subflow (catalogue A5.6a). The subflow that holds them is
    /// penalised by halving its window, at most once a round trip.
    fn opportunistic(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        let wanted = self
            .config
            .multipath
            .as_ref()
            .is_some_and(|m| m.opportunistic_retransmission);
        let buffer_blocks = self.writer_blocked && self.send.unsent_bytes() == 0;
        if !wanted || !(self.window_blocks() || buffer_blocks) || self.subflows.len() < 2 {
            return None;
        }
        let una = self.send.una;
        if self.reinjections.opportunistic_to > una {
            return None;
        }
        let holder = self.subflows.iter().position(|s| {
            s.tx.board.iter().any(|x| {
                x.map
                    .is_some_and(|m| m.offset <= una && una < m.offset + x.payload.len() as u64)
            })
        })?;
        let id = self.subflows[holder].id;
        let i = self.reinjection_subflow(now, Some(id))?;
        let (offset, payload) = self.send.sent_at(una)?;
        let (payload, _) = split(payload, self.most_data(i) as usize);
        self.reinjections.opportunistic_to = offset + payload.len() as u64;
        self.penalise(now, holder);
        self.counters.opportunistic += 1;
        Some(self.send_on(now, i, offset, payload, Purpose::AGAIN))
    }

    fn penalise(&mut self, now: Instant, i: usize) {
        let sf = &mut self.subflows[i];
        let rtt = sf.tx.srtt().unwrap_or_default();
        // A silent one is not slow: its timer decides, and it needs its threshold when it returns.
        if sf.dead || now.since(sf.last_heard) > rtt {
            return;
        }
        if sf.penalised_at.is_some_and(|t| now.since(t) < rtt) {
            return;
        }
        sf.penalised_at = Some(now);
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
