//! Data that a scheduler hands to subflows ahead of their windows, as the Linux kernel does: they
//! wait in the subflow's own queue, whatever room another subflow has by then.

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::{Payload, Segment};

use super::Connection;
use super::output::Purpose;
use super::reinjection::FRAGMENT;
use super::scheduler::Candidate;
use crate::subflow::SubflowId;

/// Pieces of data with their offsets, in the order in which they were assigned.
type Pieces = VecDeque<(u64, Payload)>;

/// What is assigned and was never sent, by subflow. Data assigned count as sent for the first time
/// in the connection's books (`send.nxt`).
#[derive(Debug, Default)]
pub(super) struct Assigned {
    queues: Vec<(SubflowId, Pieces)>,
}

impl Assigned {
    /// Whether nothing waits anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Bytes waiting on subflow `id`.
    pub(super) fn bytes(&self, id: SubflowId) -> u64 {
        let queue = self.queues.iter().find(|q| q.0 == id);
        queue.map_or(0, |q| q.1.iter().map(|p| p.1.len() as u64).sum())
    }

    fn push(&mut self, id: SubflowId, offset: u64, payload: Payload) {
        match self.queues.iter_mut().find(|q| q.0 == id) {
            Some(q) => q.1.push_back((offset, payload)),
            None => self.queues.push((id, VecDeque::from([(offset, payload)]))),
        }
    }

    /// At most `most` bytes of the first piece of subflow `id`.
    pub(super) fn take(&mut self, id: SubflowId, most: u64) -> Option<(u64, Payload)> {
        let at = self.queues.iter().position(|q| q.0 == id)?;
        let queue = &mut self.queues[at].1;
        let (offset, payload) = queue.pop_front()?;
        let (len, cut) = (payload.len(), payload.len().min(most as usize));
        if cut < len {
            queue.push_front((offset + cut as u64, payload.slice(cut, len - cut)));
        }
        if queue.is_empty() {
            self.queues.swap_remove(at);
        }
        Some((offset, payload.slice(0, cut)))
    }

    /// Bytes waiting in all.
    pub(super) fn total(&self) -> u64 {
        let pieces = self.queues.iter().flat_map(|q| &q.1);
        pieces.map(|p| p.1.len() as u64).sum()
    }

    /// The lowest offset that waits.
    #[inline(never)]
    fn first_offset(&self) -> Option<u64> {
        let pieces = self.queues.iter().flat_map(|q| &q.1);
        pieces.map(|p| p.0).min()
    }

    /// The subflow on which the data at `offset` wait next.
    fn holder(&self, offset: u64) -> Option<SubflowId> {
        let next = |q: &Pieces| q.front().is_some_and(|p| p.0 == offset);
        self.queues.iter().find(|q| next(&q.1)).map(|q| q.0)
    }

    /// Moves what waits on subflows of which `stays` does not hold to subflow `to`.
    fn move_to(&mut self, to: SubflowId, stays: impl Fn(SubflowId) -> bool) {
        let mut moved = Pieces::new();
        self.queues.retain_mut(|q| {
            let keep = q.0 == to || stays(q.0);
            if !keep {
                moved.append(&mut q.1);
            }
            keep
        });
        for (offset, payload) in moved {
            self.push(to, offset, payload);
        }
        if let Some(q) = self.queues.iter_mut().find(|q| q.0 == to) {
            q.1.make_contiguous().sort_by_key(|p| p.0);
        }
    }
}

impl Connection {
    /// What waits for a window, or else new data once they have been assigned.
    pub(super) fn assigned_data(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        if self.assigned.is_empty() && !self.assign(now) {
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

    /// The lowest offset that was never sent: no acknowledgement can be beyond it.
    #[inline]
    pub(super) fn sent_to(&self) -> u64 {
        if self.assigned.is_empty() {
            return self.send.nxt;
        }
        self.assigned.first_offset().unwrap_or(self.send.nxt)
    }

    /// If the oldest data still wait on a subflow, a fragment of them goes to an idle one. Returns
    /// whether they waited.
    pub(super) fn hand_over_oldest(&mut self) -> bool {
        let Some(holder) = self.assigned.holder(self.send.una) else {
            return false;
        };
        if let Some(i) = self.idle_subflow(Some(holder)) {
            let to = self.subflows[i].id;
            if let Some((offset, payload)) = self.assigned.take(holder, FRAGMENT) {
                self.assigned.push(to, offset, payload);
            }
        }
        true
    }

    fn send_assigned(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        // What a subflow did not send before it was lost or closed goes to another.
        let subflows = &self.subflows;
        let usable = |id| subflows.iter().any(|s| s.id == id && s.is_usable());
        let to = subflows.iter().find(|s| s.is_usable())?.id;
        self.assigned.move_to(to, usable);
        for i in 0..self.subflows.len() {
            let id = self.subflows[i].id;
            if self.assigned.bytes(id) == 0 || !self.subflows[i].is_usable() {
                continue;
            }
            let most = self.most_new(i);
            let tx = &mut self.subflows[i].tx;
            if tx.repairs_first() {
                continue;
            }
            tx.check_idle(now);
            let len = self.assigned.bytes(id).min(most);
            if !tx.has_room(len) || !tx.is_paced_to(now) {
                continue;
            }
            let (offset, payload) = self.assigned.take(id, most)?;
            return Some(self.send_on(now, i, offset, payload, Purpose::NEW));
        }
        None
    }

    /// Hands out what the peer's window lets out, a burst at a time; returns whether it handed out
    /// anything.
    fn assign(&mut self, now: Instant) -> bool {
        let Some(burst) = self.scheduler.burst().filter(|_| self.is_multipath()) else {
            return false;
        };
        let mut any = false;
        loop {
            let (unsent, window) = (self.send.unsent_bytes(), self.send.window());
            let len = burst.min(unsent).min(window);
            if len == 0 {
                let idle = self.subflows.iter().all(|s| s.tx.board.is_empty());
                if unsent > 0 {
                    self.arm_persist(now, idle && self.assigned.is_empty());
                }
                return any;
            }
            self.find_assignable();
            let (una, nxt) = (self.send.una, self.send.nxt);
            let picked = self.scheduler.pick(&self.candidates, una, nxt, len);
            let Some(i) = picked.and_then(|a| self.index(a.subflow)) else {
                return any;
            };
            let unit = self.most_data(i) as usize;
            let (offset, payload) = self.send.take(len as usize, unit);
            self.assigned.push(self.subflows[i].id, offset, payload);
            any = true;
        }
    }

    /// Lists the subflows that may be given data, with room or not.
    fn find_assignable(&mut self) {
        self.candidates.clear();
        let usable = |s: &crate::subflow::Subflow| s.is_usable() && !s.dead;
        let regular = self.subflows.iter().any(|s| usable(s) && !s.is_backup());
        for s in &self.subflows {
            if usable(s) && (!regular || !s.is_backup()) {
                self.candidates.push(Candidate {
                    id: s.id,
                    srtt: s.tx.srtt(),
                    carried_to: s.redundant_next,
                    queued: s.tx.board.outstanding() + self.assigned.bytes(s.id),
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

    #[test]
    fn pieces_leave_in_order_and_are_cut() {
        let mut a = Assigned::default();
        a.push(1, 0, Payload::Length(100));
        a.push(1, 200, Payload::Length(50));
        a.push(2, 100, Payload::Length(100));
        assert_eq!((a.bytes(1), a.bytes(2), a.bytes(3)), (150, 100, 0));
        assert_eq!(a.take(1, 60), Some((0, Payload::Length(60))));
        assert_eq!(a.take(1, 60), Some((60, Payload::Length(40))));
        assert_eq!(a.take(1, 60), Some((200, Payload::Length(50))));
        assert_eq!(a.take(1, 60), None);
        a.push(3, 250, Payload::Length(10));
        a.push(4, 50, Payload::Length(10));
        a.move_to(3, |id| id == 2);
        assert_eq!((a.total(), a.bytes(2), a.bytes(3)), (120, 100, 20));
        assert_eq!((a.first_offset(), a.holder(50)), (Some(50), Some(3)));
        assert_eq!(a.take(3, 60), Some((50, Payload::Length(10))), "by offset");
        assert_eq!(a.take(3, 60), Some((250, Payload::Length(10))));
        a.move_to(5, |_| false);
        assert_eq!(a.take(5, 100), Some((100, Payload::Length(100))));
        assert!(a.is_empty());
    }
}
