//! The parameters of a directed link ([`LinkSpec`]) and its statistics ([`LinkStats`]).

use spindle_units::{BitRate, Bytes, Duration, Instant};

use crate::late::{self, Jitter, LocalRetransmission, Reorder};
use crate::queue::{Discipline, Priorities, QueueInfo, Queueing};
use crate::trace::Trace;
use crate::{Loss, NetworkError};

/// Size of a port's drop-tail buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The number of packets that may wait, at least 1. The packet being sent does not count.
    Packets(u32),
    /// The number of bytes of packets that are not yet sent completely, at least 1. The packet being sent
    /// counts in full.
    Bytes(Bytes),
    /// The buffer is never full.
    Unlimited,
}

/// A directed link: a port queue, a rate, a delay, a loss process, late deliveries and a script of failures.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Sending rate, above zero.
    pub rate: BitRate,
    /// Time from the last bit sent to the last bit received.
    pub delay: Duration,
    /// The port's buffer.
    pub buffer: Buffer,
    /// The ECN threshold in bytes. A packet is marked if more bytes than this are not yet sent completely when
    /// it arrives. The packet itself does not count (RFC 8257 section 3.1: instantaneous queue, at enqueue).
    /// `None` disables marking.
    pub mark_above: Option<Bytes>,
    /// Whether a packet that is not ECN-capable is dropped where it would be marked otherwise, as in Linux's RED
    /// (`red_enqueue` without `TC_RED_NODROP`, which came with Linux 5.7). Retransmissions and packets without
    /// data are not ECN-capable (RFC 3168, sections 6.1.4 and 6.1.5).
    pub drop_unmarkable: bool,
    /// Two strict priorities instead of one FIFO queue. Both share the buffer. If the buffer is full, a packet
    /// of high priority pushes out the newest waiting packets of low priority.
    pub priorities: bool,
    /// The queue discipline. `None` means one FIFO queue, or two priorities if [`Self::priorities`] is set.
    pub queue: Option<Queueing>,
    /// How rate and delay change over time. `None` means that they do not. [`Self::rate`] and [`Self::delay`]
    /// apply until the first step.
    pub trace: Option<Trace>,
    /// The loss process, which applies to packets after they were sent.
    pub loss: Loss,
    /// Random additional delays that keep the order of packets.
    pub jitter: Option<Jitter>,
    /// Packets that are held back and overtaken.
    pub reorder: Option<Reorder>,
    /// Retransmission of packets that the loss process loses by the switch at the start of the link.
    pub local_retransmission: Option<LocalRetransmission>,
    /// When the link goes down (`false`) and up (`true`), by ascending instants. The link starts up. When it
    /// goes down, it loses the packets that wait, are being sent or travel on it. While it is down, it loses
    /// all packets offered to it.
    pub up_down: Vec<(Instant, bool)>,
}

impl LinkSpec {
    /// A FIFO link without marking, loss or failures.
    pub fn new(rate: BitRate, delay: Duration, buffer: Buffer) -> Self {
        Self {
            rate,
            delay,
            buffer,
            mark_above: None,
            drop_unmarkable: false,
            priorities: false,
            queue: None,
            trace: None,
            loss: Loss::none(),
            jitter: None,
            reorder: None,
            local_retransmission: None,
            up_down: Vec::new(),
        }
    }

    /// Whether the port is served packet by packet.
    pub(crate) fn is_served(&self) -> bool {
        self.priorities || self.queue.is_some() || self.trace.is_some()
    }

    /// The discipline of a port that is served packet by packet.
    pub(crate) fn discipline(&self, info: &QueueInfo) -> Discipline {
        match &self.queue {
            Some(queue) => queue.discipline(info),
            None if self.priorities => Discipline::Priorities(Priorities::default()),
            None => Queueing::drop_tail().discipline(info),
        }
    }

    /// Checks the ranges documented at the fields. `name` is the cable's name, for the error.
    pub(crate) fn check(&self, name: &str) -> Result<(), NetworkError> {
        let fail = |parameter, found: String, remedy| {
            let what = format!("cable `{name}`");
            Err(NetworkError::parameter(what, parameter, found, remedy))
        };
        if self.rate.0 == 0 {
            let remedy = "give it a rate above zero; to cut a link, script it down";
            return fail("rate", self.rate.to_string(), remedy);
        }
        if matches!(self.buffer, Buffer::Packets(0) | Buffer::Bytes(Bytes(0))) {
            let remedy = "room for one packet is the least";
            return fail("buffer", "0".into(), remedy);
        }
        late::check(self, name)?;
        if self.priorities && self.queue.is_some() {
            let remedy = "want priorities or a queue discipline, not both";
            return fail("queue", format!("{:?}", self.queue), remedy);
        }
        if let Some(pair) = self.up_down.windows(2).find(|w| w[0].0 >= w[1].0) {
            let found = format!("{} after {}", pair[1].0, pair[0].0);
            return fail("up/down script", found, "sort it by ascending instants");
        }
        Ok(())
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropCause {
    /// The port's buffer was full, or its queue discipline dropped the packet.
    Queue,
    /// The link's loss process lost the packet.
    Loss,
    /// The link was down or went down.
    Down,
    /// The link leads to a node that has no route to the destination.
    NoRoute,
}

/// The number of packets that a link dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Because the buffer was full.
    pub queue: u64,
    /// By the loss process.
    pub loss: u64,
    /// Because the link was down.
    pub down: u64,
    /// Because there is no route from the link's far end.
    pub no_route: u64,
}

impl Drops {
    /// The sum over all causes.
    pub fn total(&self) -> u64 {
        self.queue + self.loss + self.down + self.no_route
    }

    pub(crate) fn count(&mut self, cause: DropCause) {
        *match cause {
            DropCause::Queue => &mut self.queue,
            DropCause::Loss => &mut self.loss,
            DropCause::Down => &mut self.down,
            DropCause::NoRoute => &mut self.no_route,
        } += 1;
    }
}

/// Statistics of a directed link since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered to the link, including dropped packets.
    pub offered: u64,
    /// Packets that reached the far end, including packets that have no route from there.
    pub packets: u64,
    /// Bytes that reached the far end.
    pub bytes: u64,
    /// Packets marked CE at this port.
    pub marked: u64,
    /// Packets that were lost and then recovered by local retransmission.
    pub recovered: u64,
    /// Dropped packets.
    pub drops: Drops,
    /// Time spent sending. It includes packets that were lost later, but not packets that are still waiting.
    pub busy: Duration,
    /// The largest number of bytes not yet sent completely, measured after a packet was accepted.
    pub max_queue: Bytes,
    /// The largest number of packets not yet sent completely, measured after a packet was accepted. It includes
    /// the packet being sent.
    pub max_queue_packets: u32,
}
