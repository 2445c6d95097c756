//! [`TwoThresholds`]: packets that are not important are dropped earlier than important ones.

use std::collections::VecDeque;

use spindle_units::Bytes;

use super::{QueueDiscipline, QueuePort, QueuedPacket};

/// Settings of [`TwoThresholds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoThresholdsSettings {
    /// A packet that is not important is dropped if it would make the port's bytes exceed this.
    pub unimportant_above: Bytes,
}

/// One FIFO queue with two thresholds, the colour-aware dropping of commodity switches that TLT uses (Lim, Bai,
/// Zhu, Jung and Han: Towards Timeout-less Transport in Commodity Datacenter Networks, EuroSys 2021). A packet
/// that is not [important](crate::Packet::is_important) is dropped above the first threshold. An important
/// packet is dropped only if the port's buffer is full. The port's marking threshold applies to both. The
/// memory is bounded by the port's buffer.
#[derive(Debug)]
pub struct TwoThresholds {
    settings: TwoThresholdsSettings,
    waiting: VecDeque<QueuedPacket>,
}

impl TwoThresholds {
    /// An empty queue.
    pub fn new(settings: TwoThresholdsSettings) -> Self {
        Self {
            settings,
            waiting: VecDeque::new(),
        }
    }

    fn accepts(&self, packet: &QueuedPacket, port: &QueuePort<'_>) -> bool {
        if packet.is_exempt() {
            return true;
        }
        let len = packet.wire_len();
        let below = port.unsent_bytes() + u64::from(len) <= self.settings.unimportant_above.0;
        port.has_room(len) && (below || port.is_important(packet))
    }
}

impl QueueDiscipline for TwoThresholds {
    fn admit(&mut self, packet: &mut QueuedPacket, port: &mut QueuePort<'_>) -> bool {
        self.accepts(packet, port) && port.mark_above_threshold(packet)
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

#[cfg(test)]
mod tests {
    use crate::queue::testing::{Bench, important, packet};
    use spindle_units::Bytes;

    use super::*;

    #[test]
    fn unimportant_packet_is_dropped_above_the_first_threshold_and_important_one_at_the_limit() {
        let settings = TwoThresholdsSettings {
            unimportant_above: Bytes(3000),
        };
        let mut bench = Bench::new(TwoThresholds::new(settings), 6000);
        let offered = [packet(1), packet(2), packet(3), important(4), important(5)];
        let accepted = offered.map(|p| bench.offer(0, p));
        // 1500 B each: the third exceeds 3000 B, and the important ones fill up to 6000 B.
        assert_eq!(accepted, [true, true, false, true, true]);
        assert!(!bench.offer(0, important(6)), "the buffer is full");
        assert_eq!(bench.send_all(0), [1, 2, 4, 5]);
    }
}
