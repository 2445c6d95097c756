//! [`DropTail`]: one FIFO queue.

use std::collections::VecDeque;

use super::{QueueDiscipline, QueuePort, QueuedPacket};

/// One FIFO queue that drops the offered packet if the buffer is full, and marks at the port's threshold. It
/// does the same as a port without a discipline. Links whose rate follows a trace need it.
#[derive(Debug, Default)]
pub struct DropTail {
    waiting: VecDeque<QueuedPacket>,
}

impl QueueDiscipline for DropTail {
    fn admit(&mut self, packet: &mut QueuedPacket, port: &mut QueuePort<'_>) -> bool {
        let fits = port.has_room(packet.wire_len()) || packet.is_exempt();
        fits && port.mark_above_threshold(packet)
    }

    fn push(&mut self, packet: QueuedPacket, _: &mut QueuePort<'_>) {
        self.waiting.push_back(packet);
    }

    fn may_be_bypassed(&self) -> bool {
        true
    }

    fn next(&mut self, _: &mut QueuePort<'_>) -> Option<QueuedPacket> {
        self.waiting.pop_front()
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn clear(&mut self) -> Vec<QueuedPacket> {
        self.waiting.drain(..).collect()
    }
}
