//! The recovery interface: proactive loss recovery as a policy, separate from the transport.
//!
//! A [`Recovery`] policy is asked whenever the connection may send and has nothing more urgent to do. It sees
//! the subflows read-only and answers with an [`Action`]. The core carries out the action, enforces the window,
//! the at-most-once rule and the cost budget, and never lets a policy change congestion state.

mod autorec;
mod budget;
mod choice;
mod cofuso;
mod condition;
mod deadline;
mod fuso;
mod hairpin;
mod message;
mod metric;
mod oracle;
mod pinned_worst_path;
mod priced;
mod proactive;
mod repeats;
mod replicas;
mod tail_parities;
mod tcp_ir;
mod xlink;

use std::any::Any;
use std::sync::Arc;

use spindle_units::{Duration, Instant};

pub use autorec::AutoRec;
pub(crate) use budget::Bucket;
pub use budget::RecoveryBudget;
pub use choice::WorstOf;
pub use cofuso::{CoFuso, CodingRate};
pub use condition::PathQuality;
pub use deadline::DeadlineReinjection;
pub use fuso::Fuso;
pub use hairpin::Hairpin;
pub use message::{MessageHints, MessageView};
pub use metric::{MetricKind, PathMetric};
pub use oracle::Oracle;
pub use pinned_worst_path::PinnedWorstPath;
pub use priced::PricedCopies;
pub use proactive::Proactive;
pub use tail_parities::TailParities;
pub use tcp_ir::TcpIr;
pub use xlink::Xlink;

pub use crate::types::Eligibility;
use crate::types::{DataOffset, SubflowId, SubflowPosition};

/// Why the policy is asked (FUSO section 3.2 names the first two).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// An acknowledgement was processed.
    Ack,
    /// The application handed over data and all of it has been sent.
    AppDrained,
    /// Data were sent.
    Sent,
    /// The policy's own timer.
    Timer,
}

/// The set of triggers since the policy was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggers(u8);

impl Triggers {
    /// Adds a trigger.
    pub fn insert(&mut self, t: Trigger) {
        self.0 |= 1 << t as u8;
    }

    /// Whether `t` is in the set.
    pub fn contains(self, t: Trigger) -> bool {
        self.0 & (1 << t as u8) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A segment of a subflow's sequence space that a policy may act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentView {
    /// Position of its first byte.
    pub position: SubflowPosition,
    /// Payload bytes.
    pub len: u32,
    /// Data offset of its first byte.
    pub offset: DataOffset,
    /// When it was last sent. The probe of a segment that is not known to be lost does not count.
    pub sent_at: Instant,
    /// Whether it was lost and sent again.
    pub retransmitted: bool,
}

/// Consecutive segments of a subflow that may be protected by parities. Each is original data, not ACKed, not
/// SACKed, not acknowledged at the data level, never copied and in no block yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunView {
    /// Position of the first byte of the first segment.
    pub first: SubflowPosition,
    /// Number of segments, up to the policy's [`Recovery::longest_block`].
    pub segments: usize,
    /// Most payload bytes that a parity of these segments takes.
    pub parity_len: u32,
}

/// One subflow as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubflowView {
    /// Its identifier.
    pub id: SubflowId,
    /// Whether new segments may be sent on it.
    pub usable: bool,
    /// Whether pacing keeps it from sending now. It will have room again in a moment.
    pub paced: bool,
    /// Data segments sent, of every kind (FUSO section 3.2.1, `tx`).
    pub sent: u64,
    /// Segments its own TCP retransmitted (`retx`).
    pub retransmitted: u64,
    /// An estimate of the share of its segments that are lost, from 0 to 1. It begins with what former subflows on its
    /// path lost, if the stack [remembers](crate::StackConfig::remembered_paths) that, and else with 0.
    pub loss: f64,
    /// Segments sent since the latest retransmission, counting it (`since`); meaningless while
    /// `retransmitted` is 0.
    pub since_retransmission: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Round-trip time variation (RFC 6298, section 2), if measured.
    pub rttvar: Option<Duration>,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes of new sequence space that the peer's window on this subflow allows (RFC 8684, section 3.3.4).
    pub window_room: u64,
    /// Bytes of a full segment.
    pub mss: u64,
    /// Position up to which the subflow acknowledged everything.
    pub acked_to: SubflowPosition,
    /// Position after the last byte that was sent.
    pub sent_to: SubflowPosition,
    /// The oldest segment that may be copied and never was: not ACKed, not SACKed (unless the policy's
    /// [`Eligibility`] allows it), not itself a recovery copy, not acknowledged at the data level.
    pub oldest_unprotected: Option<SegmentView>,
    /// The first run of segments of which blocks may be made, for policies with a [`Recovery::longest_block`].
    pub uncoded: Option<RunView>,
    /// Position after the last segment that is in a block; 0 if no segment ever was.
    pub coded_to: SubflowPosition,
}

impl SubflowView {
    /// Whether a segment of `bytes` may be sent now: it fits the congestion window and the peer's window, and
    /// pacing allows it.
    pub fn has_room(&self, bytes: u64) -> bool {
        let fits = self.in_flight + bytes <= self.cwnd && bytes <= self.window_room;
        self.usable && !self.paced && fits
    }

    /// Retransmissions by the subflow's own TCP over all segments sent, an estimate of the loss rate. 0 before
    /// the first segment.
    pub fn retransmission_rate(&self) -> f64 {
        self.retransmitted as f64 / self.sent.max(1) as f64
    }
}

/// What a policy is shown before its [`View`] is built.
#[derive(Clone, Copy, Debug)]
pub struct Prospect {
    /// Why the policy would be asked.
    pub triggers: Triggers,
    /// [`View::new_data`].
    pub new_data: bool,
    /// [`View::window_blocked`].
    pub window_blocked: bool,
    /// Something is outstanding on some subflow.
    pub outstanding: bool,
    /// The congestion windows of the usable subflows are not full, taken together. Pacing may still keep
    /// subflows with room from sending.
    pub room: bool,
}

/// What a policy sees of a connection.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Now.
    pub now: Instant,
    /// Why the policy is asked.
    pub triggers: Triggers,
    /// The application has data that were never sent, or is about to hand over more.
    pub new_data: bool,
    /// There are new data, but the peer's window holds them back.
    pub window_blocked: bool,
    /// The peer decodes parities of blocks, so [`Action::BlockParity`] may be requested.
    pub decodes: bool,
    /// Payload bytes that recovery may still cost now ([`crate::Config::recovery_budget`]). `None` if there is
    /// no budget. An action that costs more is refused.
    pub budget_left: Option<u64>,
    /// What the application says about the message that it is writing or wrote last. `None` if it says nothing,
    /// or if the message has been acknowledged.
    pub message: Option<MessageView>,
    /// The subflows in order of identifier.
    pub subflows: &'a [SubflowView],
}

impl View<'_> {
    /// The [`Prospect`] that precedes this view.
    pub fn prospect(&self) -> Prospect {
        let outstanding = |s: &SubflowView| s.in_flight > 0 || s.oldest_unprotected.is_some();
        Prospect {
            triggers: self.triggers,
            new_data: self.new_data,
            window_blocked: self.window_blocked,
            outstanding: self.subflows.iter().any(outstanding),
            room: self.total_in_flight() < self.total_cwnd(),
        }
    }

    /// Sum of the congestion windows of the usable subflows, in bytes.
    pub fn total_cwnd(&self) -> u64 {
        self.subflows
            .iter()
            .filter(|s| s.usable)
            .map(|s| s.cwnd)
            .sum()
    }

    /// Sum of the bytes in flight on the usable subflows.
    pub fn total_in_flight(&self) -> u64 {
        self.subflows
            .iter()
            .filter(|s| s.usable)
            .map(|s| s.in_flight)
            .sum()
    }
}

/// Whether an action obeys the congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Yes. The action is refused if there is no room.
    Inside,
    /// No, as the policy declares (Proactive, TCP-IR, and copies of a silent path's segments).
    Outside,
}

/// What a policy requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing now.
    Nothing,
    /// Send the data of the segment at `position` of subflow `of` as a new segment on subflow `on`. The segment
    /// counts as protected from then on, and a second copy of it is refused.
    Copy {
        /// The subflow whose segment is copied.
        of: SubflowId,
        /// The segment.
        position: SubflowPosition,
        /// The subflow that carries the copy.
        on: SubflowId,
        /// Whether it obeys the congestion window.
        window: Window,
    },
    /// Send the segment at `position` of subflow `of` once more, unchanged. It is refused if the peer has SACKed
    /// the segment.
    Repeat {
        /// The subflow.
        of: SubflowId,
        /// The segment.
        position: SubflowPosition,
        /// Whether it obeys the congestion window.
        window: Window,
        /// Whether it is ECT if the connection uses ECN. Retransmissions are not (RFC 3168, section 6.1.5).
        ect: bool,
    },
    /// Send one parity on subflow `of`: the XOR of those of its segments from position `first` up to `end` that
    /// are not acknowledged cumulatively. The parity takes no sequence space, is outside the congestion window
    /// and is never retransmitted. It is refused under MPTCP, and if the peer has not agreed to parities
    /// ([`Capabilities::parities`]).
    Parity {
        /// The subflow.
        of: SubflowId,
        /// Position of the block's first byte.
        first: SubflowPosition,
        /// Position after its last byte.
        end: SubflowPosition,
    },
    /// Send a parity of a block of segments as new sequence space of subflow `on`, inside the congestion
    /// window. Index 0 begins the block: its segments must be the first of a [`RunView`], and from then on they
    /// are in no other block. Of the blocks of a subflow, only the one begun last has further parities. The
    /// action is refused under plain TCP, if the peer does not decode
    /// ([`Capabilities::block_parities`]), and if subflow `on` cannot carry a segment of this length.
    BlockParity {
        /// The subflow whose segments are protected.
        of: SubflowId,
        /// Position of the block's first segment.
        first: SubflowPosition,
        /// Segments of the block (CoFUSO's K).
        segments: usize,
        /// The index of the parity, from 0 on.
        index: usize,
        /// Most parities of the block (M).
        parities: usize,
        /// The subflow that carries the parity.
        on: SubflowId,
    },
    /// The segment at `position` of subflow `of` is known to be lost, but not by congestion. It is sent again
    /// at once as the subflow's own retransmission, at the place in the window that it had, and no window is
    /// reduced.
    Repair {
        /// The subflow.
        of: SubflowId,
        /// The segment.
        position: SubflowPosition,
    },
}

/// A data segment that the network dropped.
#[derive(Clone, Copy, Debug)]
pub struct DropView {
    /// When it happened.
    pub now: Instant,
    /// The subflow it was on.
    pub subflow: SubflowId,
    /// Position of its first byte.
    pub position: SubflowPosition,
}

/// A data segment that was sent, for the first time or again.
#[derive(Clone, Copy, Debug)]
pub struct SentView {
    /// When it happened.
    pub now: Instant,
    /// The subflow on which it was sent.
    pub subflow: SubflowId,
    /// The segment.
    pub segment: SegmentView,
    /// Whether it was new data, not a retransmission or copy.
    pub new: bool,
}

/// The sender's half of a proactive recovery policy.
pub trait Recovery: Send + std::fmt::Debug {
    /// A data segment was sent.
    fn on_sent(&mut self, sent: &SentView) {
        let _ = sent;
    }

    /// A subflow has detected a loss, by fast retransmit or (`timeout`) by a retransmission timeout.
    fn on_loss_hint(&mut self, now: Instant, subflow: SubflowId, timeout: bool) {
        let _ = (now, subflow, timeout);
    }

    /// A subflow has ended. Another subflow may have its identifier later.
    fn on_subflow_ended(&mut self, subflow: SubflowId) {
        let _ = subflow;
    }

    /// The network dropped a data segment, as only a simulation can report
    /// ([`Capabilities::drops`]). The action in response is carried out at once.
    fn on_drop(&mut self, drop: &DropView) -> Action {
        let _ = drop;
        Action::Nothing
    }

    /// Whether the policy might act at such an opportunity. If not, it is not asked, which saves building the
    /// [`View`]. An answer of `false` must not change what the policy would have done.
    fn is_interested(&self, prospect: &Prospect) -> bool {
        let _ = prospect;
        true
    }

    /// The connection has an opportunity to send. The policy is asked again after every action that was carried
    /// out, until it answers [`Action::Nothing`] or the core refuses an action.
    fn on_opportunity(&mut self, view: &View<'_>) -> Action;

    /// When the policy requests [`Trigger::Timer`]. A time does not count if the policy was asked at that time
    /// or later and answered [`Action::Nothing`].
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Which segments the policy may copy.
    fn eligibility(&self) -> Eligibility {
        Eligibility::default()
    }

    /// Most segments of a block, if the policy sends parities of blocks. The runs of a view are computed up to
    /// this length.
    fn longest_block(&self) -> usize {
        0
    }

    /// Whether the policy's actions are carried out at once after what caused them, before reinjections and
    /// further new data, and without waiting for pacing (Proactive, xquic's deadline controller).
    fn is_immediate(&self) -> bool {
        false
    }
}

/// The receiver's half of a policy. It is notified of what arrives at the data level. It may answer that this
/// counts as a congestion signal on the subflow on which it arrived, which is then echoed like an ECN mark.
pub trait RecoveryReceiver: Send + std::fmt::Debug {
    /// `len` bytes at data offset `offset` arrived on `subflow`; of these, `fresh` had not arrived before on
    /// any subflow. Returns whether congestion must be signalled to the peer.
    fn on_arrival(
        &mut self,
        now: Instant,
        subflow: SubflowId,
        offset: DataOffset,
        len: u32,
        fresh: u32,
    ) -> bool;
}

/// What a policy uses beyond copies of segments, so that the connection prepares it. Nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The policy sends parities ([`Action::Parity`]), so that the handshake must ask whether the peer decodes
    /// them. Data segments then leave room for a parity's option.
    pub parities: bool,
    /// The policy sends parities of blocks over MPTCP ([`Action::BlockParity`]), so that the handshake must ask
    /// whether the peer decodes them. Data segments then leave room for a parity's header.
    pub block_parities: bool,
    /// The policy must be notified of every drop in the network at the instant it happens
    /// ([`Recovery::on_drop`]). Simulations do so by [`crate::Stack::dropped`].
    pub drops: bool,
}

/// Makes the policy of each connection. As it is [`Any`], variants can find out which policy's settings it is,
/// and change them.
pub trait RecoveryFactory: Any + Send + Sync + std::fmt::Debug {
    /// Makes the policy for a connection. `seed` is the policy's own source of randomness.
    fn build(&self, seed: u64) -> Box<dyn Recovery>;

    /// What the policy uses beyond copies. [`Capabilities::default`] if it uses no more.
    fn capabilities(&self) -> Capabilities;

    /// The same policy for peers whose receivers were not modified, if it differs.
    fn for_unmodified_receivers(&self) -> Option<Arc<dyn RecoveryFactory>> {
        None
    }

    /// The receiver's half, if there is one.
    fn build_receiver(&self) -> Option<Box<dyn RecoveryReceiver>> {
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A usable subflow with an empty window of ten segments.
    pub(crate) fn subflow(id: SubflowId) -> SubflowView {
        SubflowView {
            id,
            usable: true,
            paced: false,
            sent: 10,
            retransmitted: 0,
            loss: 0.0,
            since_retransmission: 5,
            srtt: Some(Duration::from_micros(280)),
            rttvar: Some(Duration::from_micros(20)),
            cwnd: 10_000,
            in_flight: 0,
            window_room: u64::MAX,
            mss: 1000,
            acked_to: SubflowPosition::FIRST_BYTE,
            sent_to: SubflowPosition::FIRST_BYTE,
            oldest_unprotected: None,
            uncoded: None,
            coded_to: SubflowPosition::SYN,
        }
    }

    pub(crate) fn view(subflows: &[SubflowView], new_data: bool, trigger: Trigger) -> View<'_> {
        let mut triggers = Triggers::default();
        triggers.insert(trigger);
        View {
            now: Instant::ZERO,
            triggers,
            new_data,
            window_blocked: false,
            decodes: false,
            budget_left: None,
            message: None,
            subflows,
        }
    }
}
