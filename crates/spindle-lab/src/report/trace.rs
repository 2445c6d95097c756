//! What happened to one flow, as plain data for the time-sequence picture.

use spindle_units::{Duration, Instant};

/// One flow from its request to its last byte, as its sender and the network saw it.
#[derive(Clone, Debug)]
pub struct FlowTrace {
    /// The transport that carried it.
    pub transport: String,
    /// What flow it is, "flow 812: 43 KB from h4 to h1".
    pub title: String,
    /// When the request was issued; the picture's time zero.
    pub issued: Instant,
    /// When the last byte was delivered in order.
    pub completed: Instant,
    /// How many subflows the connection had; each has a lane of its own.
    pub subflows: u8,
    /// Everything that happened, in the order of time.
    pub events: Vec<FlowEvent>,
    /// The same flow under another transport, to be drawn below on the same scale of time.
    pub compare_with: Option<Box<Self>>,
}

impl FlowTrace {
    /// How long the flow took.
    pub fn completion_time(&self) -> Duration {
        self.completed.since(self.issued)
    }
}

/// One thing that happened to a flow.
#[derive(Clone, Debug)]
pub struct FlowEvent {
    /// When.
    pub at: Instant,
    /// On which subflow, counted from zero.
    pub subflow: u8,
    /// What.
    pub kind: FlowEventKind,
    /// The data sequence number of the first byte concerned; for [`FlowEventKind::AckedData`] the
    /// DATA_ACK itself.
    pub dsn: u64,
    /// How many bytes are concerned.
    pub len: u32,
    /// Anything worth saying, shown when the event is pointed at; may be empty.
    pub note: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEventKind {
    /// The sender sent data for the first time.
    New,
    /// The subflow's own TCP sent data again.
    Retransmission,
    /// A recovery policy or reinjection sent data here that was sent before on another subflow.
    Recovery {
        /// The subflow that carried the data first.
        copy_of_subflow: u8,
    },
    /// A loss probe (TLP).
    Probe,
    /// A segment was dropped by the network.
    Lost {
        /// The link that dropped it.
        link: String,
    },
    /// A segment reached the receiver.
    Arrived,
    /// The sender learned of a DATA_ACK.
    AckedData,
    /// The subflow's retransmission timer fired; `dsn` is the oldest unacknowledged byte's.
    Rto,
    /// The subflow's loss detection marked a segment lost without the timer.
    FastRetransmit,
}
