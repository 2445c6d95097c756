//! The recovery seam: proactive loss recovery as a policy beside the transport.
//!
//! A [`Recovery`] is asked whenever the connection has a chance to send and nothing more urgent to
//! do. It sees the subflows read-only and answers with an [`Action`]; the core carries it out,
//! keeps the window's law and the at-most-once rule, and never lets a policy touch congestion
//! state.

mod choice;
mod cofuso;
mod condition;
mod deadline;
mod fuso;
mod given_worst;
mod metric;
mod oracle;
mod proactive;
mod tcp_ir;

use std::any::Any;
use std::sync::Arc;

use spindle_units::{Duration, Instant};

pub use choice::WorstOf;
pub use cofuso::{CoFuso, CodingRate};
pub use condition::PathCondition;
pub use deadline::DeadlineReinjection;
pub use fuso::Fuso;
pub use given_worst::GivenWorst;
pub use metric::{MetricKind, PathMetric};
pub use oracle::Oracle;
pub use proactive::Proactive;
pub use tcp_ir::TcpIr;

use crate::subflow::SubflowId;

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

    /// Whether `t` is among them.
    pub fn contains(self, t: Trigger) -> bool {
        self.0 & (1 << t as u8) != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Which segments may be copied proactively. Whatever it is, a recovery copy is not, nor what was
/// copied before or is acknowledged at the data level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Eligibility {
    /// Those neither acknowledged nor SACKed by their subflow (FUSO section 3.2, footnote 4): the
    /// receiver hands up what lies behind a hole.
    #[default]
    Unacknowledged,
    /// Those SACKed too: a receiver that was not modified hands up only what is in order in its
    /// subflow, so that a copy of the hole alone frees nothing of what was SACKed behind it.
    NotDataAcked,
}

/// A segment of a subflow's sequence space that a policy may act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentView {
    /// Position of its first byte: bytes since the subflow's ISN, which is 0.
    pub position: u64,
    /// Payload bytes.
    pub len: u32,
    /// Data offset of its first byte: bytes since the start of the connection's stream.
    pub offset: u64,
    /// When it last left.
    pub sent_at: Instant,
}

/// Segments of a subflow one behind the other that may be protected by parities: each is original data,
/// un-ACKed, un-SACKed, not acknowledged at the data level, never copied and in no block yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunView {
    /// Position of the first byte of the first of them: bytes since the subflow's ISN.
    pub first: u64,
    /// How many they are, up to the policy's [`Recovery::longest_block`].
    pub segments: usize,
    /// Payload bytes that a parity of them takes at most.
    pub parity_len: u32,
}

/// One subflow as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubflowView {
    /// Its identifier.
    pub id: SubflowId,
    /// Whether new segments may be sent on it.
    pub usable: bool,
    /// Whether pacing keeps it from sending now: it has room again in a moment.
    pub paced: bool,
    /// Data segments sent, of every kind (FUSO section 3.2.1, `tx`).
    pub sent: u64,
    /// Segments its own TCP retransmitted (`retx`).
    pub retransmitted: u64,
    /// Segments sent since the latest retransmission, counting it (`since`); meaningless while
    /// `retransmitted` is 0.
    pub since_retransmission: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes of new sequence space that the peer's window on this subflow allows (RFC 8684, section 3.3.4).
    pub window_room: u64,
    /// Bytes of a full segment.
    pub mss: u64,
    /// Position up to which the subflow acknowledged everything: bytes since its ISN.
    pub acked_to: u64,
    /// The oldest segment that was never copied and may be: un-ACKed, un-SACKed (unless the policy's
    /// [`Eligibility`] says otherwise), not itself a recovery copy, not acknowledged at the data
    /// level.
    pub oldest_unprotected: Option<SegmentView>,
    /// The first run of segments that blocks may be made of, for policies with a
    /// [`Recovery::longest_block`].
    pub uncoded: Option<RunView>,
    /// Position behind the last segment that is in a block; 0 if none ever was.
    pub coded_to: u64,
}

impl SubflowView {
    /// Whether a segment of `bytes` may leave now: it fits the congestion window and the peer's window, and
    /// pacing lets it.
    pub fn has_room(&self, bytes: u64) -> bool {
        let fits = self.in_flight + bytes <= self.cwnd && bytes <= self.window_room;
        self.usable && !self.paced && fits
    }
}

/// What a policy is told before anything is looked up for it.
#[derive(Clone, Copy, Debug)]
pub struct Prospect {
    /// Why it would be asked.
    pub triggers: Triggers,
    /// [`View::new_data`].
    pub new_data: bool,
    /// [`View::window_blocked`].
    pub window_blocked: bool,
    /// Something is outstanding on some subflow.
    pub outstanding: bool,
    /// The congestion windows of the usable subflows are not full, taken all together. Pacing may
    /// still keep those with room from sending.
    pub room: bool,
}

/// What a policy sees of a connection.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Now.
    pub now: Instant,
    /// Why it is asked.
    pub triggers: Triggers,
    /// The application has data that were never sent, or is about to hand over more.
    pub new_data: bool,
    /// There are new data, and the peer's window keeps them back.
    pub window_blocked: bool,
    /// The peer decodes parities of blocks: [`Action::BlockParity`] may be asked for.
    pub decodes: bool,
    /// The subflows in order of identifier.
    pub subflows: &'a [SubflowView],
}

impl View<'_> {
    /// What a policy would have been told of it beforehand.
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

    /// Sum of the bytes in flight, in bytes.
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
    /// Yes: it is refused where there is no room.
    Inside,
    /// No, and declared so (Proactive, TCP-IR).
    Outside,
}

/// What a policy wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing now.
    Nothing,
    /// Send the data of the segment at `position` of subflow `of` as new segment on subflow `on`.
    /// The segment counts as protected from then on; a second copy of it is refused.
    Copy {
        /// The subflow whose segment is copied.
        of: SubflowId,
        /// The segment.
        position: u64,
        /// The subflow that carries the copy.
        on: SubflowId,
        /// The window's say.
        window: Window,
    },
    /// Send the segment at `position` of subflow `of` once more, verbatim.
    Repeat {
        /// The subflow.
        of: SubflowId,
        /// The segment.
        position: u64,
        /// The window's say.
        window: Window,
    },
    /// Send one parity, the XOR of those segments of subflow `of` from position `first` up to `end`
    /// that it has not acknowledged cumulatively, on the same subflow. It takes no sequence space,
    /// is outside the congestion window and is never repeated. Refused where the peer has not
    /// agreed to parities ([`RecoveryFactory::sends_parities`]) and under MPTCP.
    Parity {
        /// The subflow.
        of: SubflowId,
        /// Position of the block's first byte.
        first: u64,
        /// Position behind its last byte.
        end: u64,
    },
    /// Send a parity of a block of segments as new sequence space of subflow `on`, inside the
    /// congestion window. With index 0 the block begins: its segments have to be the first of a
    /// [`RunView`], and from then on are in no other; of a subflow only the block last begun has
    /// further parities. Refused under plain TCP, where the peer does not decode
    /// ([`RecoveryFactory::sends_block_parities`]), and where subflow `on` carries no segment so long.
    BlockParity {
        /// The subflow whose segments are protected.
        of: SubflowId,
        /// Position of the block's first segment.
        first: u64,
        /// Segments of the block (CoFUSO's K).
        segments: usize,
        /// Which of its parities, from 0 on.
        index: usize,
        /// How many it has at most (M).
        parities: usize,
        /// The subflow that carries the parity.
        on: SubflowId,
    },
    /// The segment at `position` of subflow `of` is known to be lost, and not by congestion: it
    /// leaves again at once as the subflow's own retransmission, in the place in the window that
    /// it had; nothing is reduced.
    Repair {
        /// The subflow.
        of: SubflowId,
        /// The segment.
        position: u64,
    },
}

/// A data segment that the network dropped.
#[derive(Clone, Copy, Debug)]
pub struct DropView {
    /// When.
    pub now: Instant,
    /// The subflow it was on.
    pub subflow: SubflowId,
    /// Position of its first byte.
    pub position: u64,
}

/// A data segment that left for the first time or again.
#[derive(Clone, Copy, Debug)]
pub struct SentView {
    /// When.
    pub now: Instant,
    /// On which subflow.
    pub subflow: SubflowId,
    /// What.
    pub segment: SegmentView,
    /// Whether it was new data, not a repeat or copy.
    pub new: bool,
}

/// The sender's half of a proactive recovery policy.
pub trait Recovery: Send + std::fmt::Debug {
    /// A data segment left.
    fn on_sent(&mut self, sent: &SentView) {
        let _ = sent;
    }

    /// A subflow found loss: fast retransmit or (`timeout`) a retransmission timeout.
    fn on_loss_hint(&mut self, now: Instant, subflow: SubflowId, timeout: bool) {
        let _ = (now, subflow, timeout);
    }

    /// A subflow has ended; its identifier may be another's later.
    fn on_subflow_ended(&mut self, subflow: SubflowId) {
        let _ = subflow;
    }

    /// The network says that it dropped a data segment, as only a simulation can
    /// ([`RecoveryFactory::hears_of_drops`]). What is to be done leaves at once.
    fn on_drop(&mut self, drop: &DropView) -> Action {
        let _ = drop;
        Action::Nothing
    }

    /// Whether it might act at such an opportunity. If not, it is not asked, which saves looking up
    /// what a [`View`] shows; an answer of `false` must not change what it would have done.
    fn is_interested(&self, prospect: &Prospect) -> bool {
        let _ = prospect;
        true
    }

    /// There is a chance to send. Asked again after every action carried out, until it answers
    /// [`Action::Nothing`] or the core refuses one.
    fn on_opportunity(&mut self, view: &View<'_>) -> Action;

    /// When it wants [`Trigger::Timer`]. A time at which it was asked and answered [`Action::Nothing`], or an
    /// earlier one, does not count.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// What it may copy.
    fn eligibility(&self) -> Eligibility {
        Eligibility::default()
    }

    /// Segments of a block at most, if it sends parities of blocks: so far are a view's runs looked at.
    fn longest_block(&self) -> usize {
        0
    }

    /// Whether its actions come before reinjections and further new data, at once after what caused
    /// them, and wait for no pacing (Proactive, xquic's deadline controller).
    fn is_immediate(&self) -> bool {
        false
    }
}

/// The receiver's half: told what arrives at the data level, it may answer that this is to count as
/// a congestion signal on the subflow it came by, which is then echoed as ECN's is.
pub trait RecoveryReceiver: Send + std::fmt::Debug {
    /// `len` bytes at data offset `offset` arrived on `subflow`; of these, `fresh` had not arrived
    /// before on any subflow. Returns whether the peer is to be told of congestion.
    fn on_arrival(
        &mut self,
        now: Instant,
        subflow: SubflowId,
        offset: u64,
        len: u32,
        fresh: u32,
    ) -> bool;
}

/// Makes the policy of each connection. As [`Any`] it can be told which policy's settings it is, for
/// variants of them.
pub trait RecoveryFactory: Any + Send + Sync + std::fmt::Debug {
    /// The policy for a connection; `seed` is its own stream of randomness.
    fn build(&self, seed: u64) -> Box<dyn Recovery>;

    /// Whether it sends parities, so that the handshake is to ask whether the peer decodes them. Data
    /// segments then leave room for a parity's option.
    fn sends_parities(&self) -> bool {
        false
    }

    /// Whether it sends parities of blocks over MPTCP ([`Action::BlockParity`]), so that the handshake is
    /// to ask whether the peer decodes them. Data segments then leave room for a parity's header.
    fn sends_block_parities(&self) -> bool {
        false
    }

    /// Whether it wants to be told of every drop in the network at the instant it happens
    /// ([`Recovery::on_drop`]); simulations do so by [`crate::Stack::dropped`].
    fn hears_of_drops(&self) -> bool {
        false
    }

    /// The same policy for peers whose receivers were not modified, if it makes a difference.
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
            since_retransmission: 5,
            srtt: Some(Duration::from_micros(280)),
            cwnd: 10_000,
            in_flight: 0,
            window_room: u64::MAX,
            mss: 1000,
            acked_to: 1,
            oldest_unprotected: None,
            uncoded: None,
            coded_to: 0,
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
            subflows,
        }
    }
}
