//! What a scheduler sees of a connection.

use spindle_units::{Duration, Instant};

use crate::types::{DataOffset, SubflowId};

/// A subflow that may get data. It is established, not dead, and has room for a segment. A backup is a
/// candidate only if there is no regular one.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its identifier.
    pub id: SubflowId,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Highest data offset it has carried, for schedulers that send data more than once.
    pub carried_to: DataOffset,
    /// Bytes that it was given and that are not acknowledged yet.
    pub queued: u64,
    /// Its congestion window in bytes.
    pub cwnd: u64,
    /// The rate at which pacing would send its segments, in bytes a second, if measured. Only set for
    /// schedulers that assign [bursts](super::Scheduler::burst).
    pub pacing_rate: Option<u64>,
}

/// A subflow that may get data when it has room. It is established and not dead. A backup is listed only if
/// there is no regular one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubflowView {
    /// Its identifier.
    pub id: SubflowId,
    /// Whether it has room for a segment now, so that it is also a [`Candidate`]. It has none if its congestion
    /// window or the peer's window on the subflow is full, if pacing holds it back, or if it must first repair
    /// losses after a timeout.
    pub has_room: bool,
    /// Smoothed round-trip time, if measured (RFC 6298, section 2: SRTT).
    pub srtt: Option<Duration>,
    /// Mean deviation of the round-trip time, if measured (RFC 6298, section 2: RTTVAR).
    pub rtt_variation: Option<Duration>,
    /// Smallest round-trip time, if measured.
    pub min_rtt: Option<Duration>,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Whether the congestion window is below the slow-start threshold (RFC 5681, section 3.1).
    pub in_slow_start: bool,
    /// Bytes of a full segment.
    pub mss: u64,
    /// Bytes in flight (RFC 6675, section 2: pipe).
    pub in_flight: u64,
    /// Bytes that it was given and that are not acknowledged yet.
    pub queued: u64,
    /// The rate at which pacing would send its segments, in bytes a second, if measured.
    pub pacing_rate: Option<u64>,
    /// How often its retransmission timer has expired since it last acknowledged anything new.
    pub timeouts: u32,
    /// Data segments sent, of every kind.
    pub sent: u64,
    /// Segments that its own loss recovery retransmitted.
    pub retransmitted: u64,
    /// An estimate of the share of its segments that are lost, from 0 to 1. It begins with what former subflows on its
    /// path lost, if the stack [remembers](crate::StackConfig::remembered_paths) that, and else with 0.
    pub loss: f64,
    /// When acknowledgements of the segments in flight are expected to have opened the congestion window for all unsent
    /// bytes. Only set if there is a candidate, in slow start, while the subflow itself has no room, and if these segments
    /// suffice.
    pub room_at: Option<Instant>,
}

impl SubflowView {
    /// The share of its segments that were retransmissions, from 0 to 1. `None` before the first segment.
    pub fn loss_share(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.retransmitted as f64 / self.sent as f64)
    }

    /// The key by which the minimum-RTT scheduler orders subflows (mechanisms A0): the smoothed RTT, with
    /// unmeasured subflows last, then the identifier.
    pub fn rtt_order(&self) -> (Duration, SubflowId) {
        (self.srtt.unwrap_or(Duration::MAX), self.id)
    }
}

/// What a scheduler sees of a connection.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Now.
    pub now: Instant,
    /// The subflows that may get data now, in the order in which they were added.
    pub candidates: &'a [Candidate],
    /// All usable subflows, with or without room, in the order in which they were added. Empty unless the
    /// scheduler [requests them](super::Scheduler::sees_all).
    pub subflows: &'a [SubflowView],
    /// The data offset up to which data are acknowledged at the data level.
    pub acked_to: DataOffset,
    /// The data offset up to which data were sent for the first time.
    pub sent_to: DataOffset,
    /// Bytes that the application has written and that were not sent yet.
    pub unsent: u64,
    /// The end of the peer's receive window at the data level.
    pub window_end: DataOffset,
    /// Bytes of the current message that were not sent yet, written or not. `None` if the application has not
    /// [declared](crate::Stack::message_ends_after) where the message ends, or if the scheduler does not
    /// [request it](super::Scheduler::sees_all).
    pub message_left: Option<u64>,
    /// Segments that the data level has sent again so far: reinjections, including opportunistic
    /// retransmissions while the peer's window blocks new data (mechanisms A5.6a).
    pub reinjected: u64,
}

impl<'a> View<'a> {
    /// Size of the peer's receive window at the data level, in bytes: from the first unacknowledged byte to the
    /// window's end.
    pub fn window(&self) -> u64 {
        self.window_end.saturating_since(self.acked_to)
    }

    /// Of all usable subflows the one with the smallest smoothed RTT, with or without room.
    pub fn fastest(&self) -> Option<&'a SubflowView> {
        self.subflows.iter().min_by_key(|s| s.rtt_order())
    }

    /// Of the usable subflows with room the one with the smallest smoothed RTT. It is the choice of the
    /// minimum-RTT scheduler.
    pub fn fastest_with_room(&self) -> Option<&'a SubflowView> {
        let with_room = self.subflows.iter().filter(|s| s.has_room);
        with_room.min_by_key(|s| s.rtt_order())
    }

    /// The [fastest](Self::fastest) subflow, if it is not `other` and has unacknowledged data. Only then will an
    /// event on it end a wait for its room.
    pub fn faster_than(&self, other: &SubflowView) -> Option<&'a SubflowView> {
        let fastest = self.fastest();
        fastest.filter(|s| s.id != other.id && s.queued > 0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn candidate(id: SubflowId, rtt_us: Option<u64>, carried_to: u64) -> Candidate {
        Candidate {
            id,
            srtt: rtt_us.map(Duration::from_micros),
            carried_to: DataOffset(carried_to),
            queued: 0,
            cwnd: 14_480,
            pacing_rate: rtt_us.map(|us| 2 * 14_480_000_000 / (us * 1000)),
        }
    }

    /// A view of these candidates with `unsent` bytes to send.
    pub(crate) fn view(candidates: &[Candidate], unsent: u64) -> View<'_> {
        View {
            now: Instant::ZERO,
            candidates,
            subflows: &[],
            acked_to: DataOffset::START,
            sent_to: DataOffset::START,
            unsent,
            window_end: DataOffset(1 << 20),
            message_left: None,
            reinjected: 0,
        }
    }

    /// A subflow with a window of `cwnd` segments of 1000 bytes, which is full unless `has_room`.
    pub(crate) fn subflow(id: u8, srtt_ms: u64, cwnd: u64, has_room: bool) -> SubflowView {
        SubflowView {
            id: SubflowId(id),
            has_room,
            srtt: Some(Duration::from_millis(srtt_ms)),
            rtt_variation: Some(Duration::ZERO),
            min_rtt: Some(Duration::from_millis(srtt_ms)),
            cwnd: cwnd * 1000,
            in_slow_start: false,
            mss: 1000,
            in_flight: if has_room { 0 } else { cwnd * 1000 },
            queued: if has_room { 0 } else { cwnd * 1000 },
            pacing_rate: None,
            timeouts: 0,
            sent: 0,
            retransmitted: 0,
            loss: 0.0,
            room_at: None,
        }
    }

    /// A view of these subflows with `unsent` bytes to send and a window of a megabyte.
    pub(crate) fn view_of(subflows: &[SubflowView], unsent: u64) -> View<'_> {
        View {
            subflows,
            window_end: DataOffset(1_000_000),
            ..view(&[], unsent)
        }
    }

    #[test]
    fn loss_share_is_retransmitted_of_sent_segments_and_unknown_before_the_first() {
        let mut s = subflow(0, 20, 10, true);
        assert_eq!(s.loss_share(), None);
        (s.sent, s.retransmitted) = (200, 3);
        assert_eq!(s.loss_share(), Some(0.015));
    }

    #[test]
    fn fastest_subflow_may_have_no_room_and_unmeasured_subflows_come_last() {
        let mut all = [
            subflow(0, 20, 10, false),
            subflow(1, 200, 10, true),
            subflow(2, 300, 10, true),
        ];
        let ids = |all: &[SubflowView]| {
            let v = view_of(all, 1);
            let id = |s: Option<&SubflowView>| s.map(|s| s.id.0);
            (id(v.fastest()), id(v.fastest_with_room()))
        };
        assert_eq!(ids(&all), (Some(0), Some(1)));
        all[0].srtt = None;
        assert_eq!(ids(&all), (Some(1), Some(1)));
        assert_eq!(ids(&all[..1]), (Some(0), None));
    }
}
