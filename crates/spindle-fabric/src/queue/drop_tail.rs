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
    fn offer(
        &mut self,
        mut packet: QueuedPacket,
        port: &mut QueuePort<'_>,
    ) -> Result<(), QueuedPacket> {
        let fits = port.has_room(packet.wire_len()) || packet.is_exempt();
        if !fits || !port.mark_above_threshold(&mut packet) {
            return Err(packet);
        }
        self.waiting.push_back(packet);
        Ok(())
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
