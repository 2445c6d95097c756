//! Trace of a connection's activity, segment by segment, for time-sequence graphs and debugging.

use spindle_units::Instant;

use crate::subflow::sender::SendKind;
use crate::types::{DataOffset, SubflowId, SubflowPosition};

/// One event of a traced connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Time of the event.
    pub at: Instant,
    /// The subflow.
    pub subflow: SubflowId,
    /// Kind and details of the event.
    pub kind: TraceKind,
}

/// Kind of a trace event. `offset` is the data offset of the first byte, and `position` its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// A data segment was sent.
    Sent {
        /// The purpose of the transmission.
        kind: SendKind,
        /// Data offset.
        offset: DataOffset,
        /// Subflow position.
        position: SubflowPosition,
        /// Payload bytes.
        len: u32,
        /// For a recovery copy: the subflow whose segment it copies.
        copy_of: Option<SubflowId>,
        /// For a parity, whatever its `kind`: the packets that it protects. `offset` is the offset of the first
        /// of these packets, and `len` is the parity's own length.
        parity: Option<Coded>,
    },
    /// Payload arrived from the peer.
    Arrived {
        /// Data offset, if mapped.
        offset: DataOffset,
        /// Subflow position.
        position: SubflowPosition,
        /// Payload bytes new to the data level.
        fresh: u32,
        /// Payload bytes.
        len: u32,
    },
    /// A parity of a block, or a piece of such a parity, arrived on the subflow.
    ParityArrived {
        /// Its first position on this subflow.
        position: SubflowPosition,
    },
    /// A packet of this subflow that had not arrived was decoded from parities.
    Decoded {
        /// Data offset.
        offset: DataOffset,
        /// Payload bytes new to the data level.
        fresh: u32,
        /// Payload bytes.
        len: u32,
        /// The subflow on which the last missing piece arrived, a parity or a packet.
        by: SubflowId,
    },
    /// The subflow's data were acknowledged up to `position`.
    Acked {
        /// Subflow position.
        position: SubflowPosition,
        /// Data-level acknowledgement.
        data: DataOffset,
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

/// The packets that a parity protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded {
    /// The subflow of the packets.
    pub of: SubflowId,
    /// Number of packets.
    pub packets: u8,
    /// Data offset of the first byte after the last packet.
    pub end: DataOffset,
    /// Index of this parity among the parities of these packets, from 0.
    pub index: u8,
}

/// The trace recorder. It costs one branch per event while it is off.
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
