//! What a directed link is made of ([`LinkSpec`]) and what it has done so far ([`LinkStats`]).

use spindle_units::{BitRate, Bytes, Duration, Instant};

use crate::{Loss, NetworkError};

/// Size of a port's drop-tail buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// So many packets may wait; the one being sent is not counted. At least 1.
    Packets(u32),
    /// So many bytes of packets not yet wholly sent, the one being sent counted in full. At least 1.
    Bytes(Bytes),
    /// Holds everything.
    Unlimited,
}

/// A directed link: a port queue, a rate, a delay, a loss process and a script of failures.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Rate of sending, above zero.
    pub rate: BitRate,
    /// Time from the last bit sent to the last bit received.
    pub delay: Duration,
    /// The port's buffer.
    pub buffer: Buffer,
    /// Mark a packet that finds more bytes than this not yet wholly sent when it arrives, itself not
    /// counted (RFC 8257 section 3.1: instantaneous queue, at enqueue). `None`: never.
    pub mark_above: Option<Bytes>,
    /// Two strict priorities instead of one FIFO queue. Both share the buffer; a packet of high
    /// priority that finds it full pushes out the newest waiting ones of low priority.
    pub priorities: bool,
    /// What is lost after it was sent.
    pub loss: Loss,
    /// When the link goes down (`false`) and up (`true`), by ascending instants. It starts up. A link
    /// that goes down loses what waits, is being sent or travels on it; while it is down it loses
    /// what is offered to it.
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
            priorities: false,
            loss: Loss::none(),
            up_down: Vec::new(),
        }
    }

    /// Checks the ranges given at the fields; `name` is the cable's, for the error.
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
    /// The port's buffer was full.
    Queue,
    /// The link's loss process.
    Loss,
    /// The link was down, or went down.
    Down,
    /// The link leads where no way to the destination is.
    NoRoute,
}

/// How many packets a link dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// For want of room in the buffer.
    pub queue: u64,
    /// By the loss process.
    pub loss: u64,
    /// Because the link was down.
    pub down: u64,
    /// Because no way leads on from the link's far end.
    pub no_route: u64,
}

impl Drops {
    /// All causes together.
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

/// What a directed link has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered to the link, the dropped ones included.
    pub offered: u64,
    /// Packets that reached the far end, those included that find no way on from there.
    pub packets: u64,
    /// Bytes that reached the far end.
    pub bytes: u64,
    /// Packets marked CE at this port.
    pub marked: u64,
    /// Dropped packets.
    pub drops: Drops,
    /// Time spent sending, lost packets included, those still waiting not.
    pub busy: Duration,
    /// Most bytes ever found not yet wholly sent after a packet was taken in.
    pub max_queue: Bytes,
    /// Most packets ever found not yet wholly sent after a packet was taken in, the one being sent
    /// included.
    pub max_queue_packets: u32,
}
