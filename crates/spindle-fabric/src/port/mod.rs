//! [`Port`]: the running state of a link, and the FIFO discipline.
//!
//! The times of a packet on a FIFO link are known when the packet is offered, because no later packet can delay
//! it. A packet therefore needs no event for the end of its transmission, only one for its arrival. Of all
//! packets on a link, only the first is in the event queue. The number of packets sent so far is computed on
//! demand.

pub(crate) mod ring;
pub(crate) mod store;

use spindle_units::{BitRate, Bytes, Duration};

use crate::{Buffer, LinkSpec};
use ring::Ring;
use store::Meta;

/// Sending times of packets shorter than this are in a table. This includes all packets up to Ethernet's MTU.
const TABLE: usize = 2048;

/// The link has a loss process.
pub(crate) const LOSSY: u32 = 1;
/// The link is down.
pub(crate) const DOWN: u32 = 2;
/// The port is served packet by packet.
pub(crate) const SERVED: u32 = 4;
/// The link has been down. Events of packets that it lost then may still occur.
pub(crate) const STALE: u32 = 8;
/// Packets are being watched.
pub(crate) const WATCHED: u32 = 16;
/// The rate and the delay of the link follow a trace.
pub(crate) const TRACED: u32 = 64;
/// Packets that cannot be marked are dropped where others are marked.
pub(crate) const DROPS_UNMARKABLE: u32 = 32;

/// The data of a link that every hop needs, in two adjacent cache lines. A packet that leaves the link needs
/// the first line, a packet that enters it needs both.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(crate) struct Port {
    /// Packets that are being sent, were sent, or (FIFO) wait to be sent, in the order of arrival at the far
    /// end. On a FIFO link the last `unsent` of them are not known to be sent completely.
    pub(crate) ring: Ring,
    /// The switch at the far end, or [`NONE`](crate::network::NONE) for a host.
    pub(crate) end: u32,
    pub(crate) flags: u32,
    /// Bytes that reached the far end.
    pub(crate) bytes: u64,
    /// The number of packets not known to be sent completely. `unsent_bytes` is their length.
    pub(crate) unsent: u32,
    /// The number of the rate's table.
    pub(crate) rate: u32,
    pub(crate) unsent_bytes: u64,
    /// The time needed to send the packets that wait beyond `free_at`.
    pub(crate) waiting: u64,
    /// When the packet being sent will be sent completely. On a FIFO link: when all packets in the queue will
    /// be.
    pub(crate) free_at: u64,
    pub(crate) delay: u64,
    limit_bytes: u64,
    pub(crate) mark_above: u64,
    pub(crate) offered: u64,
    /// Total sending time. On a FIFO link it includes packets that still wait.
    pub(crate) busy: u64,
    pub(crate) max_bytes: u64,
    pub(crate) max_packets: u32,
    limit_packets: u32,
}

impl Port {
    /// An idle link. `rate` is the number of its rate's table, `end` the switch to which it leads.
    pub(crate) fn new(spec: &LinkSpec, rate: u32, end: u32) -> Self {
        let (limit_packets, limit_bytes) = match spec.buffer {
            Buffer::Packets(packets) => (packets, u64::MAX),
            Buffer::Bytes(Bytes(bytes)) => (u32::MAX, bytes),
            Buffer::Unlimited => (u32::MAX, u64::MAX),
        };
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        Self {
            ring: Ring::default(),
            unsent: 0,
            unsent_bytes: 0,
            free_at: 0,
            waiting: 0,
            delay: spec.delay.as_nanos(),
            limit_bytes,
            mark_above: spec.mark_above.map_or(u64::MAX, |b| b.0),
            limit_packets,
            rate,
            flags: flag(spec.is_served(), SERVED)
                | flag(spec.trace.is_some(), TRACED)
                | flag(spec.drop_unmarkable, DROPS_UNMARKABLE),
            end,
            offered: 0,
            bytes: 0,
            busy: 0,
            max_bytes: 0,
            max_packets: 0,
        }
    }

    /// Updates a FIFO link: counts the packets that it has finished sending by `now`.
    #[inline]
    pub(crate) fn settle(&mut self, now: u64) {
        if self.free_at <= now {
            self.unsent = 0;
            self.unsent_bytes = 0;
            return;
        }
        let sent = |port: &Self| {
            let first = port.ring.get(port.ring.len() - port.unsent)?;
            (first.arrive - port.delay <= now).then_some(first.len)
        };
        while let Some(len) = sent(self) {
            self.sent(len);
        }
    }

    /// Prefetches the parts of the ring that [`settle`](Self::settle) and [`send`](Self::send) will need.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.ring
            .prefetch(self.ring.len().wrapping_sub(self.unsent));
        self.ring.prefetch(self.ring.len());
    }

    /// Whether a packet that cannot be marked is dropped at a port whose queue is above the marking threshold.
    #[inline]
    pub(crate) fn drops(&self, meta: &Meta) -> bool {
        self.flags & DROPS_UNMARKABLE != 0 && !meta.is_exempt()
    }

    /// Counts one packet as sent.
    #[inline]
    pub(crate) fn sent(&mut self, len: u32) {
        self.unsent -= 1;
        self.unsent_bytes -= u64::from(len);
    }

    /// Whether there is room for a packet that arrives now. A limit in packets does not count the packet being
    /// sent.
    #[inline]
    pub(crate) fn has_room(&self, len: u32) -> bool {
        self.unsent <= self.limit_packets && self.unsent_bytes + u64::from(len) <= self.limit_bytes
    }

    /// Whether there is room for a packet after waiting packets of `removed` bytes, at least one, were dropped.
    pub(crate) fn would_have_room(&self, len: u32, removed: u64) -> bool {
        removed > 0 && self.unsent_bytes - removed + u64::from(len) <= self.limit_bytes
    }

    /// Counts one more packet as unsent.
    #[inline]
    pub(crate) fn admit(&mut self, len: u32) {
        self.unsent += 1;
        self.unsent_bytes += u64::from(len);
        self.max_bytes = self.max_bytes.max(self.unsent_bytes);
        self.max_packets = self.max_packets.max(self.unsent);
    }

    /// Sends a packet as soon as the link is free; sending takes `time`. Returns the time of arrival if the
    /// packet is the only one on the link, because the caller must then add an event for it.
    #[inline]
    pub(crate) fn send(&mut self, now: u64, mut meta: Meta, time: u64) -> Option<u64> {
        self.free_at = self.free_at.max(now).saturating_add(time);
        self.busy = self.busy.saturating_add(time);
        meta.arrive = self.free_at.saturating_add(self.delay);
        let only = self.ring.len() == 0;
        self.ring.push(meta);
        only.then_some(meta.arrive)
    }

    /// Like [`send`](Self::send), but the packet does not arrive before the packet ahead of it, whose delay may
    /// have been longer.
    pub(crate) fn send_in_order(&mut self, now: u64, mut meta: Meta, time: u64) -> Option<u64> {
        let last = self.ring.len().checked_sub(1);
        let ahead = last
            .and_then(|last| self.ring.get(last))
            .map_or(0, |m| m.arrive);
        self.free_at = self.free_at.max(now).saturating_add(time);
        self.busy = self.busy.saturating_add(time);
        meta.arrive = self.free_at.saturating_add(self.delay).max(ahead);
        self.ring.push(meta);
        (self.ring.len() == 1).then_some(meta.arrive)
    }

    /// Removes the first packet, of `len` bytes, from the link.
    #[inline]
    pub(crate) fn remove_first(&mut self, len: u32) {
        // Computed without a branch: whether the end of a packet's transmission was noticed before its arrival
        // is unpredictable.
        let unnoticed = (self.unsent == self.ring.len()) & (self.flags & SERVED == 0);
        self.ring.drop_front();
        self.unsent -= u32::from(unnoticed);
        self.unsent_bytes -= u64::from(u32::from(unnoticed) * len);
    }

    /// Removes all packets and cancels the current transmission.
    pub(crate) fn clear(&mut self, now: u64) -> Ring {
        self.busy = self.busy.saturating_sub(self.free_at.saturating_sub(now));
        self.free_at = self.free_at.min(now);
        self.unsent = 0;
        self.unsent_bytes = 0;
        self.waiting = 0;
        std::mem::take(&mut self.ring)
    }

    /// The time needed to send all packets at the port.
    pub(crate) fn backlog(&self, now: u64) -> Duration {
        Duration::from_nanos(self.free_at.saturating_sub(now) + self.waiting)
    }
}

/// The sending times of packets, by rate and length.
#[derive(Debug, Default)]
pub(crate) struct SendingTimes {
    rates: Vec<(BitRate, Box<[u64]>)>,
}

impl SendingTimes {
    /// The number of a rate's table, which is created if necessary.
    pub(crate) fn number(&mut self, rate: BitRate) -> u32 {
        let known = self.rates.iter().position(|(r, _)| *r == rate);
        let number = known.unwrap_or_else(|| {
            let time = |len| rate.time_to_send(len).as_nanos();
            self.rates
                .push((rate, (0..TABLE as u64).map(time).collect()));
            self.rates.len() - 1
        });
        number as u32
    }

    /// The time to send `len` bytes at a rate in nanoseconds, rounded like [`BitRate::time_to_send`].
    #[inline]
    pub(crate) fn time(&self, rate: u32, len: u32) -> u64 {
        let (rate, table) = &self.rates[rate as usize];
        match table.get(len as usize) {
            Some(time) => *time,
            None => rate.time_to_send(u64::from(len)).as_nanos(),
        }
    }
}
