//! [`Priorities`]: two strict priorities.

use std::collections::VecDeque;

use super::{QueueDiscipline, QueuePort, QueuedPacket};
use crate::Class;

/// Two FIFO queues that share the port's buffer. A packet of low priority is sent if no packet of high priority
/// waits. If the buffer is full, a packet of high priority pushes out the newest waiting packets of low
/// priority, if this makes enough room (CAPS appendix B, mechanisms A5.13). It also drops packets
/// [that must not be lost](QueuedPacket::is_exempt).
#[derive(Debug, Default)]
pub struct Priorities {
    high: VecDeque<QueuedPacket>,
    low: VecDeque<QueuedPacket>,
    low_bytes: u64,
}

impl Priorities {
    /// Makes room for a packet. Returns whether there is room.
    fn make_room(&mut self, packet: &QueuedPacket, port: &mut QueuePort<'_>) -> bool {
        let len = packet.wire_len();
        while !port.has_room(len) {
            let can = packet.class() == Class::High && port.would_have_room(len, self.low_bytes);
            let victim = if can { self.low.pop_back() } else { None };
            let Some(victim) = victim else {
                return false;
            };
            self.low_bytes -= u64::from(victim.wire_len());
            port.discard(victim);
        }
        true
    }
}

impl QueueDiscipline for Priorities {
    #[inline]
    fn admit(&mut self, packet: &mut QueuedPacket, port: &mut QueuePort<'_>) -> bool {
        self.make_room(packet, port) && port.mark_above_threshold(packet)
    }

    #[inline]
    fn push(&mut self, packet: QueuedPacket, _: &mut QueuePort<'_>) {
        match packet.class() {
            Class::High => self.high.push_back(packet),
            Class::Low => {
                self.low_bytes += u64::from(packet.wire_len());
                self.low.push_back(packet);
            }
        }
    }

    fn may_be_bypassed(&self) -> bool {
        true
    }

    #[inline]
    fn next(&mut self, _: &mut QueuePort<'_>) -> Option<QueuedPacket> {
        self.high.pop_front().or_else(|| {
            let packet = self.low.pop_front()?;
            self.low_bytes -= u64::from(packet.wire_len());
            Some(packet)
        })
    }

    fn len(&self) -> usize {
        self.high.len() + self.low.len()
    }

    fn clear(&mut self) -> Vec<QueuedPacket> {
        self.low_bytes = 0;
        self.high.drain(..).chain(self.low.drain(..)).collect()
    }
}
