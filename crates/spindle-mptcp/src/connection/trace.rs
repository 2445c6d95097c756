//! What a connection does, segment by segment, for time-sequence pictures and debugging.

use spindle_units::Instant;

use crate::subflow::SubflowId;
use crate::subflow::sender::SendKind;

/// One happening of a traced connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When.
    pub at: Instant,
    /// On which subflow.
    pub subflow: SubflowId,
    /// What.
    pub kind: TraceKind,
}

/// What happened. `offset` is the data offset of the first byte, `position` that in the subflow
/// (1 is the first byte).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// A data segment left.
    Sent {
        /// What for.
        kind: SendKind,
        /// Data offset.
        offset: u64,
        /// Subflow position.
        position: u64,
        /// Payload bytes.
        len: u32,
        /// For a recovery copy: the subflow whose segment it copies.
        copy_of: Option<SubflowId>,
        /// For a parity, whatever it is sent for: what it is of. `offset` is that of its first packet,
        /// `len` its own length.
        parity: Option<Coded>,
    },
    /// Payload arrived from the peer.
    Arrived {
        /// Data offset, if mapped.
        offset: u64,
        /// Subflow position.
        position: u64,
        /// Payload bytes new to the data level.
        fresh: u32,
        /// Payload bytes.
        len: u32,
    },
    /// A parity of a block, or a piece of one, arrived on the subflow.
    ParityArrived {
        /// Where it begins on this subflow.
        position: u64,
    },
    /// A packet of this subflow that had not arrived was told from parities.
    Decoded {
        /// Data offset.
        offset: u64,
        /// Payload bytes new to the data level.
        fresh: u32,
        /// Payload bytes.
        len: u32,
        /// The subflow that brought what was wanting, a parity or a packet.
        by: SubflowId,
    },
    /// The subflow's data were acknowledged up to `position`.
    Acked {
        /// Subflow position.
        position: u64,
        /// Data-level acknowledgement, as data offset.
        data: u64,
    },
    /// A retransmission timeout.
    Timeout,
    /// Fast recovery began.
    FastRetransmit,
    /// The congestion window after an acknowledgement or timeout, in bytes.
    Window {
        /// cwnd.
        cwnd: u64,
        /// Bytes in flight.
        in_flight: u64,
    },
}

/// What a parity is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded {
    /// The subflow whose packets they are.
    pub of: SubflowId,
    /// How many.
    pub packets: u8,
    /// Data offset behind the last of them.
    pub end: u64,
    /// Which of their parities this is, from 0 on.
    pub index: u8,
}

/// The recorder; costs a branch while off.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) on: bool,
    pub(crate) events: Vec<TraceEvent>,
}

impl Trace {
    pub(crate) fn add(&mut self, at: Instant, subflow: SubflowId, kind: TraceKind) {
        if self.on {
            self.events.push(TraceEvent { at, subflow, kind });
        }
    }
}
