//! Connections of which only TIME_WAIT is left. They do not count as open. Their number is limited, and beyond
//! the limit the oldest are forgotten early.

use spindle_units::Instant;
use spindle_wire::{Flags, Segment};

use super::Stack;
use crate::subflow::TcpState;

/// How far the next connection's initial sequence number lies beyond what this connection sent: more than a
/// window without scaling (Linux `tcp_timewait_state_process`).
const ISN_ADVANCE: u32 = u16::MAX as u32 + 2;

impl Stack {
    /// Whether subflow `i` is in TIME_WAIT and this SYN is newer than all segments that arrived for it. If so,
    /// the subflow ends, and the SYN opens the next connection or subflow between the same ports (RFC 9293,
    /// section 3.10.7.4; RFC 6191, section 2). Other subflows of the old connection stay in TIME_WAIT.
    #[cold] // TIME_WAIT
    pub(super) fn leaves_time_wait(
        &mut self,
        now: Instant,
        slot: u32,
        i: usize,
        segment: &Segment,
    ) -> bool {
        let alone = !segment.flags.intersects(Flags::ACK | Flags::RST);
        let Some(c) = self.table.connection_mut(slot).filter(|_| alone) else {
            return false;
        };
        let sf = &c.subflows[i];
        if sf.state != TcpState::TimeWait || !sf.is_newer_connection(segment) {
            return false;
        }
        let unused = sf.seq(sf.tx.nxt) + ISN_ADVANCE;
        c.end_time_wait(now, i);
        self.touch(now, slot);
        self.on_syn(now, segment, Some(unused));
        true
    }

    /// Forgets the oldest connection in TIME_WAIT; returns whether there was one.
    pub(super) fn forget_oldest_resting(&mut self) -> bool {
        while let Some(oldest) = self.time_wait.pop_front() {
            self.counters.steps += 1;
            if self.table.get(oldest).is_some() {
                self.forget(oldest.slot);
                return true;
            }
        }
        false
    }

    /// The connection in this slot has ended for both applications, and only TIME_WAIT is left of it.
    pub(super) fn rest(&mut self, slot: u32) {
        let Some(handle) = self.table.rest(slot) else {
            return;
        };
        let source = self.table.source(slot);
        self.account.sources.rest(source);
        self.time_wait.push_back(handle);
        if let Some(c) = self.table.connection_mut(slot) {
            c.shed();
            let overhead = c.set_overhead(0);
            self.account.sources.hold(source, overhead, 0);
        }
        let most = self.config.max_time_wait;
        while let Some(&oldest) = self.time_wait.front() {
            let rests = self.table.get(oldest).is_some();
            if rests && self.table.resting() <= most {
                break;
            }
            self.time_wait.pop_front();
            if rests {
                self.forget(oldest.slot);
            }
        }
        // Entries of connections that a new SYN replaced may wait behind others.
        if self.time_wait.len() > most.saturating_mul(2) {
            let table = &self.table;
            self.time_wait.retain(|h| table.get(*h).is_some());
        }
    }
}
