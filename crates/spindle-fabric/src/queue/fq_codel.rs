//! [`FqCoDel`]: a queue for each flow, each with its own CoDel (RFC 8290).

use std::collections::VecDeque;

use super::codel::{CoDelSettings, Control, Fifo};
use super::{QueueDiscipline, QueuePort, QueuedPacket};
use crate::random::{mix, reduce};

/// Settings of [`FqCoDel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelSettings {
    /// The number of queues, at least 1 (default 1024, RFC 8290, section 5.2.3).
    pub queues: u32,
    /// The bytes that a queue may send in a round, at least 1 (default 1500 B; RFC 8290, section 5.2.4, has the
    /// MTU with its Ethernet header, which packets do not have here).
    pub quantum: u32,
    /// The largest number of waiting packets, at least 1 (default 10,240, RFC 8290, section 5.2.5). The port's
    /// buffer also limits the queue.
    pub limit: u32,
    /// CoDel's settings of each queue.
    pub codel: CoDelSettings,
}

impl Default for FqCoDelSettings {
    fn default() -> Self {
        Self {
            queues: 1024,
            quantum: 1500,
            limit: 10_240,
            codel: CoDelSettings::default(),
        }
    }
}

/// The queue of the flows with one hash value.
#[derive(Debug, Default)]
struct FlowQueue {
    fifo: Fifo,
    control: Control,
    /// The bytes that the queue may still send before the other queues' turn. It may be negative.
    credits: i64,
    /// Whether the queue is in one of the two lists.
    active: bool,
}

/// Flows are hashed to queues, which are served by deficit round robin. A queue that becomes active is served
/// before the queues that were active before (Hoeiland-Joergensen, McKenney, Taht, Gettys and Dumazet, RFC
/// 8290). If the buffer is full, packets are dropped from the head of the longest queue. The port's marking
/// threshold does not apply.
#[derive(Debug)]
pub struct FqCoDel {
    settings: FqCoDelSettings,
    salt: u64,
    /// Empty until the first packet.
    queues: Vec<FlowQueue>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
}

impl FqCoDel {
    /// Empty queues. `salt` makes the hash differ from port to port.
    pub fn new(settings: FqCoDelSettings, salt: u64) -> Self {
        Self {
            settings,
            salt,
            queues: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    fn queue_of(&self, packet: &QueuedPacket, port: &QueuePort<'_>) -> u32 {
        let hash = mix(port.flow(packet) ^ self.salt);
        reduce(hash, self.settings.queues.max(1))
    }

    fn has_room(&self, len: u32, port: &QueuePort<'_>) -> bool {
        self.packets < self.settings.limit as usize && port.has_room(len)
    }

    /// Makes room for a packet of the queue `own`: drops from the head of the longest queue. The offered packet
    /// counts in its queue. Returns whether there is room.
    fn make_room(&mut self, own: u32, len: u32, port: &mut QueuePort<'_>) -> bool {
        while !self.has_room(len, port) {
            if self.packets == 0 || !port.would_have_room(len, self.bytes) {
                return false;
            }
            let length = |queue: u32| {
                let offered = if queue == own { u64::from(len) } else { 0 };
                self.queues[queue as usize].fifo.bytes() + offered
            };
            let listed = self.new.iter().chain(&self.old).copied();
            // Among equal queues the one with the lowest number loses, so that the order of lists does not matter.
            let Some(longest) = listed.max_by_key(|q| (length(*q), std::cmp::Reverse(*q))) else {
                return false;
            };
            // A new queue is not in a list yet. If it is the longest, its only packet is the offered one.
            if length(own) > length(longest) {
                return false;
            }
            let Some(victim) = self.pop_first(longest) else {
                return false;
            };
            port.discard(victim);
        }
        true
    }

    /// Removes the first packet of a queue without CoDel.
    fn pop_first(&mut self, queue: u32) -> Option<QueuedPacket> {
        let packet = self.queues[queue as usize].fifo.pop()?;
        self.packets -= 1;
        self.bytes -= u64::from(packet.wire_len());
        Some(packet)
    }

    /// Removes a queue from the head of its list.
    fn unlist(&mut self, is_new: bool) {
        match is_new {
            true => self.new.pop_front(),
            false => self.old.pop_front(),
        };
    }

    /// The packet that CoDel sends next from a queue.
    fn pop_by_codel(&mut self, queue: u32, port: &mut QueuePort<'_>) -> Option<QueuedPacket> {
        let chosen = &mut self.queues[queue as usize];
        let (packets, bytes) = (chosen.fifo.len(), chosen.fifo.bytes());
        let packet = chosen
            .control
            .next(&mut chosen.fifo, &self.settings.codel, port);
        self.packets -= packets - chosen.fifo.len();
        self.bytes -= bytes - chosen.fifo.bytes();
        packet
    }
}

impl QueueDiscipline for FqCoDel {
    fn admit(&mut self, packet: &mut QueuedPacket, port: &mut QueuePort<'_>) -> bool {
        if self.queues.is_empty() {
            let queues = self.settings.queues.max(1) as usize;
            self.queues.resize_with(queues, FlowQueue::default);
        }
        let len = packet.wire_len();
        self.has_room(len, port) || {
            let own = self.queue_of(packet, port);
            self.make_room(own, len, port) || packet.is_exempt()
        }
    }

    fn push(&mut self, packet: QueuedPacket, port: &mut QueuePort<'_>) {
        let number = self.queue_of(&packet, port);
        self.packets += 1;
        self.bytes += u64::from(packet.wire_len());
        let queue = &mut self.queues[number as usize];
        queue.fifo.push(packet);
        if !queue.active {
            queue.active = true;
            queue.credits = i64::from(self.settings.quantum.max(1));
            self.new.push_back(number);
        }
    }

    /// RFC 8290, section 4.2: new queues first. A queue without credits, and a new queue that is empty, moves
    /// to the end of the old queues.
    fn next(&mut self, port: &mut QueuePort<'_>) -> Option<QueuedPacket> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &self.new } else { &self.old };
            let number = *list.front()?;
            let queue = &mut self.queues[number as usize];
            if queue.credits <= 0 {
                queue.credits += i64::from(self.settings.quantum.max(1));
                self.unlist(is_new);
                self.old.push_back(number);
                continue;
            }
            if let Some(packet) = self.pop_by_codel(number, port) {
                self.queues[number as usize].credits -= i64::from(packet.wire_len());
                return Some(packet);
            }
            self.unlist(is_new);
            if is_new {
                self.old.push_back(number);
            } else {
                self.queues[number as usize].active = false;
            }
        }
    }

    fn len(&self) -> usize {
        self.packets
    }

    fn clear(&mut self) -> Vec<QueuedPacket> {
        let listed: Vec<u32> = self.new.drain(..).chain(self.old.drain(..)).collect();
        let mut waiting = Vec::with_capacity(self.packets);
        for number in listed {
            while let Some(packet) = self.pop_first(number) {
                waiting.push(packet);
            }
            self.queues[number as usize] = FlowQueue::default();
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::{Bench, TestPacket, packet};

    fn bench(buffer: u64) -> Bench<FqCoDel> {
        Bench::new(FqCoDel::new(FqCoDelSettings::default(), 0), buffer)
    }

    fn of(flow: u64, id: u64) -> TestPacket {
        TestPacket { flow, ..packet(id) }
    }

    #[test]
    fn packet_of_a_new_flow_is_sent_before_those_of_old_flows() {
        let mut bench = bench(u64::MAX);
        for id in 0..3 {
            assert!(bench.offer(0, of(1, id)));
        }
        // The flow uses up its quantum and moves to the old queues.
        assert_eq!(bench.send(0), Some(0));
        assert!(bench.offer(0, of(2, 10)));
        assert_eq!(bench.send(0), Some(10));
        assert_eq!(bench.send_all(0), [1, 2]);
    }

    #[test]
    fn new_queue_that_becomes_empty_is_an_old_queue_for_a_round() {
        let mut bench = bench(u64::MAX);
        for id in 0..4 {
            assert!(bench.offer(0, of(1, id)));
        }
        assert_eq!(bench.send(0), Some(0));
        let short = |id| TestPacket {
            len: 100,
            ..of(2, id)
        };
        assert!(bench.offer(0, short(10)));
        assert_eq!(bench.send(0), Some(10));
        // Flow 2 is empty and moves to the old queues behind flow 1. Its next packet must not be preferred to
        // the packet of flow 1 (RFC 8290, section 4.2).
        assert_eq!(bench.send(0), Some(1));
        assert!(bench.offer(0, short(11)));
        assert_eq!(bench.discipline.new.len(), 0, "it is still in a list");
        assert_eq!(bench.send_all(0), [11, 2, 3]);
    }

    #[test]
    fn flows_share_the_bytes_whatever_their_packets_lengths_are() {
        let mut bench = bench(u64::MAX);
        for id in 0..30 {
            assert!(bench.offer(0, of(1, id)));
            let short = TestPacket {
                len: 500,
                ..of(2, 100 + id)
            };
            assert!(bench.offer(0, short));
        }
        let sent: Vec<u64> = (0..40).filter_map(|_| bench.send(0)).collect();
        let long = sent.iter().filter(|id| **id < 100).count();
        // 10 rounds with one packet of 1500 B and three of 500 B each.
        assert_eq!((long, sent.len()), (10, 40));
    }

    #[test]
    fn full_buffer_drops_from_the_head_of_the_longest_queue() {
        let mut bench = bench(6000);
        for id in 0..3 {
            assert!(bench.offer(0, of(1, id)));
        }
        assert!(bench.offer(0, of(2, 10)));
        assert!(bench.offer(0, of(3, 20)));
        assert_eq!(bench.dropped, [0]);
        assert!(bench.offer(0, of(1, 3)), "the longest queue drops its head");
        assert_eq!(bench.dropped, [0, 1]);
        assert_eq!(bench.unsent_bytes(), 6000);
        assert_eq!(bench.send_all(0).len(), 4);
    }

    #[test]
    fn codel_acts_on_the_queue_that_waits_too_long_only() {
        let mut bench = bench(u64::MAX);
        for id in 0..500 {
            assert!(bench.offer(0, of(1, id)));
        }
        for ms in 0..200 {
            assert!(bench.offer(ms * 1000, of(2, 1000 + ms)));
            bench.send(ms * 1000);
            bench.send(ms * 1000 + 500);
        }
        assert!(!bench.dropped.is_empty());
        assert!(
            bench.dropped.iter().all(|id| *id < 1000),
            "{:?}",
            bench.dropped
        );
    }
}
