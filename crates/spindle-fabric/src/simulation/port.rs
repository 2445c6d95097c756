//! [`Port`]: a link at work, and the FIFO discipline.
//!
//! What a FIFO link does with a packet is settled when the packet is offered: nothing that comes
//! later can delay it. So a packet needs no event for the end of its sending, only one for its
//! arrival, and of a link's packets only the first is in the event queue. How many have been sent by
//! now is worked out when somebody asks.

use std::collections::VecDeque;

use spindle_units::{BitRate, Bytes, Duration};

use super::ring::Ring;
use super::store::Meta;
use crate::loss::LossState;
use crate::{Buffer, Drops, LinkSpec};

/// Lengths up to this have their sending time in a table: all packets of Ethernet's MTU and some.
const TABLE: usize = 2048;

/// Something can be lost on the link.
pub(crate) const LOSSY: u32 = 1;
/// The link is down.
pub(crate) const DOWN: u32 = 2;
/// Two strict priorities.
pub(crate) const PRIORITIES: u32 = 4;
/// The link has been down: events of packets it lost then may still come.
pub(crate) const STALE: u32 = 8;
/// Somebody watches packets.
pub(crate) const WATCHED: u32 = 16;

/// What every hop needs of a link, in two neighbouring cache lines: the first for what leaves it, both
/// for what enters it.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(crate) struct Port {
    /// Packets that are being sent, were sent, or (FIFO) wait to be sent, in the order of arrival at
    /// the far end. On a FIFO link the last `unsent` of them are those not known to be wholly sent.
    pub(crate) ring: Ring,
    /// The switch at the far end, [`NONE`](crate::network::NONE) for a host.
    pub(crate) end: u32,
    pub(crate) flags: u32,
    /// Bytes that reached the far end.
    pub(crate) bytes: u64,
    /// Packets not known to be wholly sent, and their bytes.
    pub(crate) unsent: u32,
    /// Number of the rate's table.
    pub(crate) rate: u32,
    pub(crate) unsent_bytes: u64,
    /// Time it takes to send what waits beyond `free_at`.
    pub(crate) waiting: u64,
    /// When what is being sent (FIFO: all there is) will have been sent.
    pub(crate) free_at: u64,
    pub(crate) delay: u64,
    limit_bytes: u64,
    pub(crate) mark_above: u64,
    pub(crate) offered: u64,
    /// Time of sending, also of what still waits behind `free_at`'s packet on a FIFO link.
    pub(crate) busy: u64,
    pub(crate) max_bytes: u64,
    pub(crate) max_packets: u32,
    limit_packets: u32,
}

/// What a link rarely needs.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) loss: Option<Box<LossState>>,
    pub(crate) drops: Drops,
    pub(crate) marked: u64,
    pub(crate) priorities: Option<Box<Priorities>>,
    /// How much of the up/down script has happened.
    pub(crate) script_at: usize,
}

/// What waits at a port with two strict priorities.
#[derive(Debug, Default)]
pub(crate) struct Priorities {
    pub(crate) high: VecDeque<Meta>,
    pub(crate) low: VecDeque<Meta>,
    pub(crate) low_bytes: u64,
    /// Length of the packet being sent.
    pub(crate) sending: Option<u32>,
    /// Whether an event will start the next packet.
    pub(crate) armed: bool,
}

impl Priorities {
    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.high.len() + self.low.len()
    }
}

impl Port {
    /// An idle link; `rate` is the number of its rate's table, `end` the switch it leads to.
    pub(crate) fn new(spec: &LinkSpec, rate: u32, end: u32) -> Self {
        let (limit_packets, limit_bytes) = match spec.buffer {
            Buffer::Packets(packets) => (packets, u64::MAX),
            Buffer::Bytes(Bytes(bytes)) => (u32::MAX, bytes),
            Buffer::Unlimited => (u32::MAX, u64::MAX),
        };
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
            flags: if spec.priorities { PRIORITIES } else { 0 },
            end,
            offered: 0,
            bytes: 0,
            busy: 0,
            max_bytes: 0,
            max_packets: 0,
        }
    }

    /// Counts as sent what a FIFO link has sent by `now`.
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

    /// Has brought near what [`settle`](Self::settle) and [`send`](Self::send) will need of the ring.
    #[inline]
    pub(crate) fn bring(&self) {
        self.ring.bring(self.ring.len().wrapping_sub(self.unsent));
        self.ring.bring(self.ring.len());
    }

    /// One packet less is unsent.
    #[inline]
    pub(crate) fn sent(&mut self, len: u32) {
        self.unsent -= 1;
        self.unsent_bytes -= u64::from(len);
    }

    /// Whether a packet that arrives now finds room. In packets, one of the unsent does not wait: it
    /// is being sent.
    #[inline]
    pub(crate) fn has_room(&self, len: u32) -> bool {
        self.unsent <= self.limit_packets && self.unsent_bytes + u64::from(len) <= self.limit_bytes
    }

    /// Whether a packet finds room if all waiting packets of low priority go.
    pub(crate) fn could_have_room(&self, len: u32, queues: &Priorities) -> bool {
        !queues.low.is_empty()
            && self.unsent_bytes - queues.low_bytes + u64::from(len) <= self.limit_bytes
    }

    /// One packet more is unsent.
    #[inline]
    pub(crate) fn admit(&mut self, len: u32) {
        self.unsent += 1;
        self.unsent_bytes += u64::from(len);
        self.max_bytes = self.max_bytes.max(self.unsent_bytes);
        self.max_packets = self.max_packets.max(self.unsent);
    }

    /// Sends a packet as soon as the link is free, `time` long. Returns when it arrives if the event
    /// queue has to be told: if it is the only one on the link.
    #[inline]
    pub(crate) fn send(&mut self, now: u64, mut meta: Meta, time: u64) -> Option<u64> {
        self.free_at = self.free_at.max(now).saturating_add(time);
        self.busy = self.busy.saturating_add(time);
        meta.arrive = self.free_at.saturating_add(self.delay);
        let only = self.ring.len() == 0;
        self.ring.push(meta);
        only.then_some(meta.arrive)
    }

    /// The first packet, of `len` bytes, is off the link.
    #[inline]
    pub(crate) fn took(&mut self, len: u32) {
        // Added up, not branched on: whether a packet's end was noticed before it arrives is anybody's guess.
        let unnoticed = (self.unsent == self.ring.len()) & (self.flags & PRIORITIES == 0);
        self.ring.drop_front();
        self.unsent -= u32::from(unnoticed);
        self.unsent_bytes -= u64::from(u32::from(unnoticed) * len);
    }

    /// Takes off all packets and forgets what was being sent.
    pub(crate) fn clear(&mut self, now: u64) -> Ring {
        self.busy = self.busy.saturating_sub(self.free_at.saturating_sub(now));
        self.free_at = self.free_at.min(now);
        self.unsent = 0;
        self.unsent_bytes = 0;
        self.waiting = 0;
        std::mem::take(&mut self.ring)
    }

    /// How long it takes to send what the port holds.
    pub(crate) fn backlog(&self, now: u64) -> Duration {
        Duration::from_nanos(self.free_at.saturating_sub(now) + self.waiting)
    }
}

/// How long packets take to send, by rate and length.
#[derive(Debug, Default)]
pub(crate) struct SendingTimes {
    rates: Vec<(BitRate, Box<[u64]>)>,
}

impl SendingTimes {
    /// The number of a rate's table, which is made if there is none.
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

    /// The time to send `len` bytes at a rate, in nanoseconds, as
    /// [`BitRate::time_to_send`] rounds it.
    #[inline]
    pub(crate) fn time(&self, rate: u32, len: u32) -> u64 {
        let (rate, table) = &self.rates[rate as usize];
        match table.get(len as usize) {
            Some(time) => *time,
            None => rate.time_to_send(u64::from(len)).as_nanos(),
        }
    }
}
