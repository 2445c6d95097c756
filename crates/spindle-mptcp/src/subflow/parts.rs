//! The parts of a subflow's state, apart from its sender and receiver.

use spindle_units::{Duration, Instant};
use spindle_wire::SeqNumber;

use crate::types::{DataOffset, SubflowPosition};

/// The numbers of the two SYNs (RFC 9293, section 3.3.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct InitialSequenceNumbers {
    /// Initial send sequence number.
    pub(super) iss: SeqNumber,
    /// Initial receive sequence number.
    pub(super) irs: SeqNumber,
}

/// Payload bytes of the largest segment without options.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargestSegment {
    /// As both ends agreed.
    pub(super) agreed: u64,
    /// As the path can carry, once this is known.
    pub(super) path: Option<u32>,
}

/// The window scale option (RFC 7323, section 2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowScales {
    /// Shift of the windows that the peer announces.
    pub(super) send: u8,
    /// Shift of the windows that we announce.
    pub(super) receive: u8,
    /// Both ends sent the option.
    pub(super) negotiated: bool,
}

/// The window that the peer last announced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerWindow {
    /// Its size in bytes.
    pub(crate) current: u64,
    /// The largest size so far, in bytes.
    pub(crate) largest: u64,
    /// Positions of the sequence and acknowledgement number of the segment that announced it (RFC 9293, section 3.3.1, SND.WL1
    /// and SND.WL2).
    pub(super) from: (SubflowPosition, SubflowPosition),
}

/// The timestamps option (RFC 7323, section 3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Timestamps {
    /// Set if both ends use the option.
    pub(super) state: Option<TimestampState>,
    /// Offset of our timestamps from the host's clock.
    pub(super) offset: u32,
}

/// The peer's timestamps (RFC 7323, section 4.3: TS.Recent and its age).
#[derive(Clone, Copy, Debug)]
pub(super) struct TimestampState {
    pub(super) recent: u32,
    pub(super) recent_at: Instant,
}

/// Control segments that must be sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlDue {
    /// The SYN or SYN/ACK.
    pub(crate) syn: bool,
    /// A challenge ACK.
    pub(crate) challenge: bool,
    /// A keepalive or window probe.
    pub(crate) probe: bool,
}

/// The timer that probes the peer's window on this subflow. It is armed while that window holds back new data
/// and no outstanding segment would elicit an acknowledgement (RFC 9293, section 3.8.6.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PersistTimer {
    /// When to probe next.
    pub(super) at: Option<Instant>,
    /// Number of probes so far.
    pub(super) tries: u32,
}

/// Transmissions of the SYN or SYN/ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SynTimer {
    /// When it is retransmitted next.
    pub(super) at: Option<Instant>,
    /// Number of transmissions so far.
    pub(crate) tries: u32,
    /// When it was last sent, copies not included.
    pub(super) sent_at: Option<Instant>,
    /// The first SYN is sent twice at once.
    pub(super) doubled: bool,
    /// What is sent next is a copy, which is no sign of a loss: it does not count as a transmission, and its answer
    /// measures the round-trip time of the one before it.
    pub(super) copy_due: bool,
}

/// Limits for the answers to unacceptable segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerLimits {
    /// Challenge ACKs (RFC 5961, section 7).
    pub(super) challenges: ChallengeLimit,
    /// A separate limit for answers to probes and repeated SYNs, and for resets during the handshake.
    pub(super) probes: ChallengeLimit,
}

/// Limits how many answers are sent to unacceptable segments (RFC 5961, section 7). Each subflow has its own
/// limit, as Linux connections do (`tcp_invalid_ratelimit`). A shared limit would leak information about other
/// connections (CVE-2016-5696).
///
/// Old data are always acknowledged, as in Linux (`tcp_oow_rate_limited`). Two ends cannot answer each other's
/// acknowledgements with data endlessly, and a peer whose acknowledgements were lost needs each answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChallengeLimit {
    since: Instant,
    sent: u32,
    /// Answers granted in total.
    pub(super) total: u64,
}

impl ChallengeLimit {
    pub(super) const WINDOW: Duration = Duration::from_secs(5);
    /// Window for answers to probes, as in Linux (`tcp_invalid_ratelimit`).
    pub(super) const PROBES_WINDOW: Duration = Duration::from_millis(500);
    const MOST: u32 = 10;

    /// Whether one more answer may be sent in a window of this length.
    pub(super) fn admit(&mut self, now: Instant, window: Duration) -> bool {
        if now.since(self.since) >= window {
            *self = Self {
                since: now,
                sent: 0,
                total: self.total,
            };
        }
        self.sent = self.sent.saturating_add(1);
        let granted = self.sent <= Self::MOST;
        self.total += u64::from(granted);
        granted
    }
}

/// When the peer was last heard, and what it has not answered or not sent since then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerActivity {
    /// When its latest segment arrived.
    pub(crate) last_heard: Instant,
    /// How long it had been silent when that segment arrived.
    pub(super) silence: Duration,
    /// Keepalive probes that it has not answered.
    pub(super) keepalive_probes: u32,
    /// Number of consecutive acknowledgements of data that carried no MPTCP option.
    pub(crate) silent_acks: u8,
}

impl PeerActivity {
    /// The peer is regarded as heard at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            last_heard: now,
            silence: Duration::ZERO,
            keepalive_probes: 0,
            silent_acks: 0,
        }
    }
}

/// Requests to use the subflow only if no other subflow is usable (RFC 8684, section 3.3.8).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backup {
    /// Our request.
    pub(crate) local: bool,
    /// The peer's request.
    pub(crate) remote: bool,
}

/// Identifiers of the subflow's addresses (RFC 8684, section 3.4.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddressIds {
    /// Of our address.
    pub(crate) local: u8,
    /// Of the peer's address.
    pub(crate) remote: u8,
}

/// What the data level remembers about the assignment of data to this subflow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scheduling {
    /// No new data are assigned to it any more, unless no other subflow is available.
    pub(crate) draining: bool,
    /// Highest data offset that the redundant scheduler sent on it.
    pub(crate) redundant_next: DataOffset,
    /// No penalty before this time. Opportunistic retransmission penalises once per RTT.
    pub(crate) penalised_at: Option<Instant>,
}
