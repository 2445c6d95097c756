//! The events of one flow, as plain data for the time-sequence picture.

use std::fmt::Write as _;

use spindle_units::{Duration, Instant};

/// One flow from its request to its last byte, as the sender and the network observed it.
#[derive(Clone, Debug)]
pub struct FlowTrace {
    /// The transport that carried it.
    pub transport: String,
    /// The flow's number in the order of arrival in its run, from 0.
    pub number: u32,
    /// A description of the flow, such as "flow 812: 43 KB from h4 to h1".
    pub title: String,
    /// When the request was issued. This is the picture's time zero.
    pub issued: Instant,
    /// When the last byte was delivered in order.
    pub completed: Instant,
    /// The number of subflows of the connection. Each has a lane.
    pub subflows: u8,
    /// The path of each subflow: the links that it does not share with all others, such as `P1`, or its two endpoints.
    /// Empty if it is not known.
    pub paths: Vec<String>,
    /// All events, ordered by time.
    pub events: Vec<FlowEvent>,
    /// The same flow under another transport, drawn below on the same time scale.
    pub compare_with: Option<Box<Self>>,
}

impl FlowTrace {
    /// How long the flow took.
    pub fn completion_time(&self) -> Duration {
        self.completed.since(self.issued)
    }

    /// One line per event: microseconds from the request, subflow, event, and the bytes of the response
    /// concerned (from, to; counted from its first).
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{} under {}: {}\n{:>10}  sub  event\n",
            self.title,
            self.transport,
            self.completion_time(),
            "us"
        );
        for e in &self.events {
            let us = e.at.since(self.issued).as_nanos() as f64 / 1e3;
            let end = e.dsn + u64::from(e.len);
            let bytes = match e.kind {
                FlowEventKind::Window { .. } => String::new(),
                _ if e.kind.carries_data() => format!(" {}..{end}", e.dsn),
                _ => format!(" {}", e.dsn),
            };
            let _ = writeln!(text, "{us:10.1}  {:3}  {}{bytes}", e.subflow, e.kind);
        }
        text
    }
}

/// An event of a flow.
#[derive(Clone, Debug)]
pub struct FlowEvent {
    /// The time.
    pub at: Instant,
    /// The subflow, counted from zero.
    pub subflow: u8,
    /// What happened.
    pub kind: FlowEventKind,
    /// The data sequence number of the first byte concerned. For [`FlowEventKind::AckedData`], the DATA_ACK
    /// itself.
    pub dsn: u64,
    /// How many bytes are concerned.
    pub len: u32,
    /// A note that is shown when the event is pointed at. It may be empty.
    pub note: String,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEventKind {
    /// The sender sent data for the first time.
    New,
    /// The subflow's own TCP sent data again.
    Retransmission,
    /// A recovery policy or reinjection sent data here that was sent earlier on another subflow.
    Recovery {
        /// The subflow that carried the data first.
        copy_of_subflow: u8,
    },
    /// A parity was sent. Its bytes span the packets of one subflow that it covers and the data between them.
    Parity {
        /// The subflow that carried the packets.
        of_subflow: u8,
        /// The number of packets that the parity covers.
        packets: u8,
        /// Whether the parity was sent before.
        again: bool,
    },
    /// A loss probe (TLP).
    Probe,
    /// A segment was dropped by the network.
    Lost {
        /// The link that dropped it.
        link: String,
    },
    /// A parity of these bytes was dropped by the network.
    ParityLost {
        /// The link that dropped it.
        link: String,
    },
    /// A segment reached the receiver.
    Arrived,
    /// A parity of these bytes reached the receiver.
    ParityArrived,
    /// The receiver decoded a packet of this subflow from parities.
    Decoded,
    /// The sender received a DATA_ACK.
    AckedData,
    /// The subflow's retransmission timer fired. `dsn` is the oldest unacknowledged byte's.
    Rto,
    /// The subflow's loss detection marked a segment as lost before the timer fired.
    FastRetransmit,
    /// The subflow's congestion window after an acknowledgement or timeout. The event concerns no bytes of the
    /// flow.
    Window {
        /// cwnd in bytes.
        cwnd: u64,
        /// Bytes in flight.
        in_flight: u64,
    },
}

impl FlowEventKind {
    /// Whether the event concerns the bytes of a segment and not a single number.
    fn carries_data(&self) -> bool {
        !matches!(
            self,
            Self::AckedData | Self::Rto | Self::FastRetransmit | Self::Window { .. }
        )
    }
}

impl std::fmt::Display for FlowEventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::New => f.write_str("send"),
            Self::Retransmission => f.write_str("retransmit"),
            Self::Recovery { copy_of_subflow } => write!(f, "recover (of {copy_of_subflow})"),
            Self::Parity {
                of_subflow,
                packets,
                again,
            } => {
                let again = if *again { " again" } else { "" };
                write!(f, "parity{again} (of {packets} packets of {of_subflow})")
            }
            Self::Probe => f.write_str("probe"),
            Self::Lost { link } => write!(f, "LOST on {link}"),
            Self::ParityLost { link } => write!(f, "LOST parity on {link}"),
            Self::Arrived => f.write_str("arrived"),
            Self::ParityArrived => f.write_str("parity arrived"),
            Self::Decoded => f.write_str("decoded"),
            Self::AckedData => f.write_str("DATA_ACK"),
            Self::Rto => f.write_str("TIMEOUT at"),
            Self::FastRetransmit => f.write_str("fast retransmit at"),
            Self::Window { cwnd, in_flight } => write!(f, "cwnd {cwnd}, in flight {in_flight}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_listed_in_microseconds_since_the_request() {
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        let lost = FlowEventKind::Lost {
            link: "P1.up".into(),
        };
        let event = |us, kind, dsn, len| FlowEvent {
            at: at(us),
            subflow: 1,
            kind,
            dsn,
            len,
            note: String::new(),
        };
        let trace = FlowTrace {
            transport: "fuso".into(),
            number: 7,
            title: "flow 7".into(),
            issued: at(100),
            completed: at(600),
            subflows: 2,
            paths: Vec::new(),
            events: vec![
                event(150, lost, 1460, 1460),
                event(400, FlowEventKind::Rto, 1460, 0),
            ],
            compare_with: None,
        };
        let lines: Vec<String> = trace.to_text().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "flow 7 under fuso: 500us");
        assert_eq!(lines[2].trim(), "50.0    1  LOST on P1.up 1460..2920");
        assert_eq!(lines[3].trim(), "300.0    1  TIMEOUT at 1460");
    }
}
