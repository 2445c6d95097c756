//! Data that a scheduler assigns to subflows ahead of their windows, as the Linux kernel does. They wait in the
//! subflow's own queue, even if another subflow has room by then.

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::{Payload, Segment};

use super::Connection;
use super::reinjection::FRAGMENT;
use super::transmit::Purpose;
use crate::scheduler::Candidate;
use crate::subflow::{Origin, Subflow};
use crate::types::{DataOffset, SubflowId};

/// Pieces of data in order of their offsets, and their total number of bytes.
#[derive(Debug, Default)]
struct Pieces {
    queue: VecDeque<(DataOffset, Payload)>,
    bytes: u64,
}

impl Pieces {
    /// Adds data behind all other pieces.
    fn push(&mut self, offset: DataOffset, payload: Payload) {
        self.bytes += payload.len() as u64;
        self.queue.push_back((offset, payload));
    }

    fn first_offset(&self) -> Option<DataOffset> {
        self.queue.front().map(|p| p.0)
    }

    /// Takes at most `most` bytes of the first piece.
    fn take(&mut self, most: u64) -> Option<(DataOffset, Payload)> {
        let (offset, payload) = self.queue.pop_front()?;
        let (len, cut) = (payload.len(), payload.len().min(most as usize));
        if cut < len {
            let rest = payload.slice(cut, len - cut);
            self.queue.push_front((offset + cut as u64, rest));
        }
        self.bytes -= cut as u64;
        Some((offset, payload.slice(0, cut)))
    }

    /// Adds the pieces of another queue, in order of offsets.
    fn merge(&mut self, mut other: Self) {
        self.bytes += other.bytes;
        self.queue.append(&mut other.queue);
        self.queue.make_contiguous().sort_by_key(|p| p.0);
    }
}

/// Data that are assigned and were never sent, by subflow. In the connection's bookkeeping (`send.nxt`)
/// assigned data count as sent for the first time.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    queues: Vec<(SubflowId, Pieces)>,
}

impl Assigned {
    /// Whether no data wait on any subflow.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Bytes waiting on subflow `id`.
    pub(super) fn bytes(&self, id: SubflowId) -> u64 {
        let queue = self.queues.iter().find(|q| q.0 == id);
        queue.map_or(0, |q| q.1.bytes)
    }

    fn push(&mut self, id: SubflowId, offset: DataOffset, payload: Payload) {
        self.queue_of(id).push(offset, payload);
    }

    fn queue_of(&mut self, id: SubflowId) -> &mut Pieces {
        let at = self.queues.iter().position(|q| q.0 == id);
        let at = at.unwrap_or_else(|| {
            self.queues.push((id, Pieces::default()));
            self.queues.len() - 1
        });
        &mut self.queues[at].1
    }

    /// Takes at most `most` bytes of the first piece of subflow `id`.
    pub(super) fn take(&mut self, id: SubflowId, most: u64) -> Option<(DataOffset, Payload)> {
        let at = self.queues.iter().position(|q| q.0 == id)?;
        let taken = self.queues[at].1.take(most);
        if self.queues[at].1.bytes == 0 {
            self.queues.swap_remove(at);
        }
        taken
    }

    /// Bytes waiting on all subflows.
    pub(super) fn total(&self) -> u64 {
        self.queues.iter().map(|q| q.1.bytes).sum()
    }

    /// The lowest data offset that waits.
    #[inline(never)] // only schedulers that assign ahead of windows
    fn first_offset(&self) -> Option<DataOffset> {
        let first = self.queues.iter().filter_map(|q| q.1.first_offset());
        first.min()
    }

    /// Whether the byte at `offset` waits on any subflow.
    pub(super) fn holds(&self, offset: DataOffset) -> bool {
        self.queues.iter().any(|(_, pieces)| {
            let after = pieces.queue.partition_point(|p| p.0 <= offset);
            let piece = after.checked_sub(1).and_then(|at| pieces.queue.get(at));
            piece.is_some_and(|(from, payload)| offset < *from + payload.len() as u64)
        })
    }

    /// The subflow whose first waiting piece begins at `offset`.
    fn holder(&self, offset: DataOffset) -> Option<SubflowId> {
        let next = |q: &Pieces| q.first_offset() == Some(offset);
        self.queues.iter().find(|q| next(&q.1)).map(|q| q.0)
    }

    /// Moves the waiting data of each subflow for which `stays` is false to subflow `to`.
    fn move_to(&mut self, to: SubflowId, stays: impl Fn(SubflowId) -> bool) {
        let leaves = |q: &mut (SubflowId, Pieces)| q.0 != to && !stays(q.0);
        let moved: Vec<_> = self.queues.extract_if(.., leaves).collect();
        for (_, pieces) in moved {
            self.queue_of(to).merge(pieces);
        }
    }
}

impl Connection {
    /// Sends data that wait for a window. If there are none, or none can be sent, assigns new data and sends
    /// those.
    pub(super) fn assigned_data(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        if self.scheduling.assigned.is_empty() && !self.assign(now) {
            return None;
        }
        let found = self.send_assigned(now);
        if found.is_some() {
            return found;
        }
        if self.assign(now) {
            self.send_assigned(now)
        } else {
            None
        }
    }

    /// The lowest data offset that was never sent. No acknowledgement can be beyond it.
    #[inline]
    pub(super) fn sent_to(&self) -> DataOffset {
        if self.scheduling.assigned.is_empty() {
            return self.send.nxt;
        }
        self.scheduling
            .assigned
            .first_offset()
            .unwrap_or(self.send.nxt)
    }

    /// If the oldest data still wait on a subflow, moves a fragment of them to an idle subflow. Returns whether
    /// they waited.
    pub(super) fn hand_over_oldest(&mut self) -> bool {
        let Some(holder) = self.scheduling.assigned.holder(self.send.una) else {
            return false;
        };
        if let Some(i) = self.idle_subflow(Some(holder)) {
            let to = self.subflows[i].id;
            if let Some((offset, payload)) = self.scheduling.assigned.take(holder, FRAGMENT) {
                self.scheduling.assigned.push(to, offset, payload);
            }
        }
        true
    }

    fn send_assigned(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        // Data that a subflow did not send before it was lost or closed are moved to another subflow.
        let subflows = &self.subflows;
        let usable = |id| subflows.iter().any(|s| s.id == id && s.is_usable());
        let to = subflows.iter().find(|s| s.is_usable())?.id;
        self.scheduling.assigned.move_to(to, usable);
        for i in 0..self.subflows.len() {
            let id = self.subflows[i].id;
            if self.scheduling.assigned.bytes(id) == 0 || !self.subflows[i].is_usable() {
                continue;
            }
            let tx = &self.subflows[i].tx;
            if tx.repairs_first() || tx.is_full() || !self.window_lets_out(now, i) {
                continue;
            }
            let most = self.most_new(i);
            let tx = &mut self.subflows[i].tx;
            let most = most.min(tx.window_room());
            tx.check_idle(now);
            let len = self.scheduling.assigned.bytes(id).min(most);
            if !tx.may_send(len) || !tx.is_paced_to(now) {
                continue;
            }
            let (offset, payload) = self.scheduling.assigned.take(id, most)?;
            return Some(self.send_on(now, i, offset, payload, Purpose::NEW));
        }
        None
    }

    /// Assigns the data that the peer's window allows, a burst at a time. Returns whether it assigned any data.
    fn assign(&mut self, now: Instant) -> bool {
        let Some(burst) = self
            .scheduling
            .scheduler
            .burst()
            .filter(|_| self.is_multipath())
        else {
            return false;
        };
        let mut any = false;
        loop {
            let (unsent, window) = (self.send.unsent_bytes(), self.send.window());
            let len = burst.min(unsent).min(window);
            if len == 0 {
                let idle = self.subflows.iter().all(|s| s.tx.board.is_empty());
                if unsent > 0 {
                    self.arm_persist(now, idle && self.scheduling.assigned.is_empty());
                }
                return any;
            }
            self.find_assignable();
            let picked = self.ask_scheduler(now, len);
            let Some(i) = picked.and_then(|a| self.index(a.subflow)) else {
                return any;
            };
            let unit = self.most_data(i) as usize;
            let (offset, payload) = self.send.take(len as usize, unit);
            self.scheduling
                .assigned
                .push(self.subflows[i].id, offset, payload);
            any = true;
        }
    }

    /// Lists the subflows that data may be assigned to, with or without room.
    fn find_assignable(&mut self) {
        self.scheduling.candidates.clear();
        let joins_wait = self.joins_wait();
        let usable = |s: &Subflow| {
            let held = joins_wait && s.origin != Origin::Initial;
            s.is_usable() && !s.dead && !held
        };
        let regular = self.subflows.iter().any(|s| usable(s) && !s.is_backup());
        for s in &self.subflows {
            if usable(s) && (!regular || !s.is_backup()) {
                self.scheduling.candidates.push(Candidate {
                    id: s.id,
                    srtt: s.tx.srtt(),
                    carried_to: s.scheduling.redundant_next,
                    queued: s.tx.board.outstanding() + self.scheduling.assigned.bytes(s.id),
                    cwnd: s.tx.cc.cwnd(),
                    pacing_rate: s.tx.pacing_rate(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes at most 60 bytes.
    fn take(assigned: &mut Assigned, id: SubflowId) -> Option<(u64, Payload)> {
        let (offset, payload) = assigned.take(id, 60)?;
        Some((offset.0, payload))
    }

    #[test]
    fn pieces_are_taken_in_order_of_offsets_and_cut() {
        let mut a = Assigned::default();
        a.push(SubflowId(1), DataOffset(0), Payload::Length(100));
        a.push(SubflowId(1), DataOffset(200), Payload::Length(50));
        a.push(SubflowId(2), DataOffset(100), Payload::Length(100));
        assert_eq!(
            (
                a.bytes(SubflowId(1)),
                a.bytes(SubflowId(2)),
                a.bytes(SubflowId(3))
            ),
            (150, 100, 0)
        );
        assert_eq!(take(&mut a, SubflowId(1)), Some((0, Payload::Length(60))));
        assert_eq!(take(&mut a, SubflowId(1)), Some((60, Payload::Length(40))));
        assert_eq!(take(&mut a, SubflowId(1)), Some((200, Payload::Length(50))));
        assert_eq!(take(&mut a, SubflowId(1)), None);
        a.push(SubflowId(3), DataOffset(250), Payload::Length(10));
        a.push(SubflowId(4), DataOffset(50), Payload::Length(10));
        a.move_to(SubflowId(3), |id| id == SubflowId(2));
        assert_eq!(
            (a.total(), a.bytes(SubflowId(2)), a.bytes(SubflowId(3))),
            (120, 100, 20)
        );
        assert_eq!(
            (a.first_offset(), a.holder(DataOffset(50))),
            (Some(DataOffset(50)), Some(SubflowId(3)))
        );
        assert_eq!(
            [49, 50, 59, 60, 199, 200].map(|at| a.holds(DataOffset(at))),
            [false, true, true, false, true, false]
        );
        assert_eq!(
            take(&mut a, SubflowId(3)),
            Some((50, Payload::Length(10))),
            "by offset"
        );
        assert_eq!(take(&mut a, SubflowId(3)), Some((250, Payload::Length(10))));
        a.move_to(SubflowId(5), |_| false);
        assert_eq!(
            a.take(SubflowId(5), 100),
            Some((DataOffset(100), Payload::Length(100)))
        );
        assert!(a.is_empty());
    }
}
