//! [`CoDel`]: controlled delay (RFC 8289).

use std::collections::VecDeque;

use spindle_units::Duration;

use super::{QueueDiscipline, QueuePort, QueuedPacket};

/// How long after the dropping state ended its count of drops still applies, in intervals (RFC 8289, section
/// 5.5).
const MEMORY: u64 = 16;

/// Settings of [`CoDel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelSettings {
    /// The acceptable time in the queue (default 5 ms, RFC 8289, section 4.4).
    pub target: Duration,
    /// The time for which packets must wait longer than the target before CoDel acts (default 100 ms, RFC 8289,
    /// section 4.3).
    pub interval: Duration,
    /// The largest packet in bytes. CoDel does not act if no more than this waits (default 1500 B, the MTU of
    /// Ethernet; RFC 8289, section 5.4, `maxpacket_`).
    pub mtu: u32,
    /// Whether ECN-capable packets are marked and not dropped (default true; RFC 8289 leaves it open, RFC 8290,
    /// section 4.2, has it).
    pub ecn: bool,
}

impl Default for CoDelSettings {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu: 1500,
            ecn: true,
        }
    }
}

/// A FIFO queue with its length in bytes.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    packets: VecDeque<QueuedPacket>,
    bytes: u64,
}

impl Fifo {
    pub(super) fn push(&mut self, packet: QueuedPacket) {
        self.bytes += u64::from(packet.wire_len());
        self.packets.push_back(packet);
    }

    pub(super) fn pop(&mut self) -> Option<QueuedPacket> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.wire_len());
        Some(packet)
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// CoDel's state of one queue (RFC 8289, section 5.3). Times are nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// When the time in the queue will have been above the target for an interval. `None` if it is below now.
    first_above: Option<u64>,
    /// When the next packet is dropped in the dropping state.
    drop_next: u64,
    /// The number of packets dropped since the dropping state began.
    count: u64,
    /// The count at the beginning of the dropping state.
    last_count: u64,
    dropping: bool,
}

impl Control {
    /// Removes the packet that is sent next. Packets before it are dropped, or it is marked, as the control law
    /// demands (RFC 8289, sections 5.4 and 5.5).
    pub(super) fn next(
        &mut self,
        queue: &mut Fifo,
        settings: &CoDelSettings,
        port: &mut QueuePort<'_>,
    ) -> Option<QueuedPacket> {
        let (mut packet, mut may_drop) = self.pop(queue, settings, port);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && port.now >= self.drop_next {
                self.count += 1;
                let after = self.drop_next;
                if let Some(marked) = settings.signal(packet?, port) {
                    self.drop_next = self.control_law(after, settings);
                    return Some(marked);
                }
                (packet, may_drop) = self.pop(queue, settings, port);
                self.dropping = may_drop;
                if may_drop {
                    self.drop_next = self.control_law(after, settings);
                }
            }
        } else if may_drop {
            let marked = settings.signal(packet?, port);
            packet = match marked {
                Some(marked) => Some(marked),
                None => self.pop(queue, settings, port).0,
            };
            self.enter(port.now, settings);
        }
        packet
    }

    /// Removes the first packet. Also returns whether it may be dropped: whether packets have waited for longer
    /// than the target during a whole interval.
    fn pop(
        &mut self,
        queue: &mut Fifo,
        settings: &CoDelSettings,
        port: &QueuePort<'_>,
    ) -> (Option<QueuedPacket>, bool) {
        let Some(packet) = queue.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let waited = port.now().since(packet.offered_at());
        if waited < settings.target || queue.bytes <= u64::from(settings.mtu) {
            self.first_above = None;
            return (Some(packet), false);
        }
        let interval = settings.interval.as_nanos();
        let first_above = *self
            .first_above
            .get_or_insert(port.now.saturating_add(interval));
        let may_drop = !packet.is_exempt() && port.now >= first_above;
        (Some(packet), may_drop)
    }

    /// Enters the dropping state. If the last one ended recently, its drop rate is resumed (RFC 8289, section
    /// 5.5).
    fn enter(&mut self, now: u64, settings: &CoDelSettings) {
        self.dropping = true;
        let drops = self.count - self.last_count;
        let memory = settings.interval.as_nanos().saturating_mul(MEMORY);
        let recent = now.saturating_sub(self.drop_next) < memory;
        self.count = if drops > 1 && recent { drops } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now, settings);
    }

    /// The time of the next drop: an interval divided by the root of the number of drops later (RFC 8289,
    /// section 5.2).
    fn control_law(&self, time: u64, settings: &CoDelSettings) -> u64 {
        let interval = settings.interval.as_nanos() as f64;
        time.saturating_add((interval / (self.count.max(1) as f64).sqrt()) as u64)
    }
}

impl CoDelSettings {
    /// Signals congestion by a packet: returns it if it could be marked, otherwise drops it.
    fn signal(&self, mut packet: QueuedPacket, port: &mut QueuePort<'_>) -> Option<QueuedPacket> {
        if self.ecn && port.mark(&mut packet) {
            return Some(packet);
        }
        port.discard(packet);
        None
    }
}

/// One FIFO queue that drops or marks at its head while packets wait too long (Nichols, Jacobson, McGregor and
/// Iyengar, RFC 8289). An offered packet is dropped if the port's buffer is full. The port's marking threshold
/// does not apply. The memory is bounded by the port's buffer.
#[derive(Debug)]
pub struct CoDel {
    settings: CoDelSettings,
    queue: Fifo,
    control: Control,
}

impl CoDel {
    /// An empty queue.
    pub fn new(settings: CoDelSettings) -> Self {
        Self {
            settings,
            queue: Fifo::default(),
            control: Control::default(),
        }
    }
}

impl QueueDiscipline for CoDel {
    fn admit(&mut self, packet: &mut QueuedPacket, port: &mut QueuePort<'_>) -> bool {
        port.has_room(packet.wire_len()) || packet.is_exempt()
    }

    fn push(&mut self, packet: QueuedPacket, _: &mut QueuePort<'_>) {
        self.queue.push(packet);
    }

    fn next(&mut self, port: &mut QueuePort<'_>) -> Option<QueuedPacket> {
        self.control.next(&mut self.queue, &self.settings, port)
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn clear(&mut self) -> Vec<QueuedPacket> {
        self.control = Control::default();
        std::iter::from_fn(|| self.queue.pop()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::{Bench, TestPacket, packet};

    fn bench() -> Bench<CoDel> {
        Bench::new(CoDel::new(CoDelSettings::default()), u64::MAX)
    }

    /// Offers `n` packets at time 0.
    fn fill(bench: &mut Bench<CoDel>, n: u64, ect: bool) {
        for id in 0..n {
            assert!(bench.offer(0, TestPacket { ect, ..packet(id) }));
        }
    }

    /// Sends a packet each millisecond from `from` to below `to`. Returns the times of drops in milliseconds.
    fn drops(bench: &mut Bench<CoDel>, from: u64, to: u64) -> Vec<u64> {
        let mut times = Vec::new();
        for ms in from..to {
            let before = bench.dropped.len() as u64 + bench.marked;
            bench.send(ms * 1000);
            let after = bench.dropped.len() as u64 + bench.marked;
            times.extend((before..after).map(|_| ms));
        }
        times
    }

    #[test]
    fn first_drop_is_an_interval_after_the_target_was_exceeded_and_later_ones_follow_the_root() {
        let mut bench = bench();
        fill(&mut bench, 1000, false);
        // The packet sent at 5 ms is the first that waited for the target. The first drop is 100 ms later, and
        // then 100 ms, 100/sqrt(2) = 70.7 ms, 100/sqrt(3) = 57.7 ms and 100/sqrt(4) = 50 ms after each other.
        assert_eq!(drops(&mut bench, 0, 400), [105, 205, 276, 334, 384]);
        assert_eq!(bench.dropped.len(), 5);
    }

    #[test]
    fn ecn_capable_packets_are_marked_at_the_times_of_drops_and_none_is_lost() {
        let mut bench = bench();
        fill(&mut bench, 1000, true);
        assert_eq!(drops(&mut bench, 0, 400), [105, 205, 276, 334, 384]);
        assert_eq!((bench.marked, bench.dropped.len()), (5, 0));
    }

    #[test]
    fn short_time_in_the_queue_ends_the_dropping_state() {
        let mut bench = bench();
        fill(&mut bench, 210, false);
        // At 105 and 205 ms one packet more leaves the queue than is sent.
        assert_eq!(drops(&mut bench, 0, 207), [105, 205]);
        // Only one packet is left, so the queue is not above one MTU.
        assert_eq!(drops(&mut bench, 207, 1000), []);
        assert!(!bench.discipline.control.dropping);
        assert_eq!(bench.unsent_bytes(), 0);
    }

    #[test]
    fn dropping_state_resumes_its_rate_if_the_last_one_ended_recently() {
        let mut bench = bench();
        fill(&mut bench, 400, false);
        assert_eq!(drops(&mut bench, 0, 390), [105, 205, 276, 334, 384]);
        while bench.send(390_000).is_some() {}
        let dropped = bench.dropped.len();
        for id in 0..400 {
            assert!(bench.offer(500_000, packet(id)));
        }
        // 5 drops, one of them before the first count: the new state begins with 4, so the second drop follows
        // 100/sqrt(4) = 50 ms and the third 100/sqrt(5) = 44.7 ms later.
        let times = drops(&mut bench, 500, 710);
        assert_eq!(times[..3], [605, 655, 700], "after {dropped} drops");
    }

    #[test]
    fn queue_below_the_target_is_never_touched() {
        let mut bench = bench();
        for ms in 0..500 {
            for id in 0..4 {
                assert!(bench.offer(ms * 5000, packet(id)));
            }
            for part in 1..5 {
                assert!(bench.send(ms * 5000 + part * 1000).is_some());
            }
        }
        assert_eq!((bench.dropped.len(), bench.marked), (0, 0));
    }
}
