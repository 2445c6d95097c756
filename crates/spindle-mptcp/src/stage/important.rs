//! Marking of important packets, so that switches drop others before them (TLT).
//!
//! The host part of window-based TLT: Lim, Bai, Zhu, Jung and Han, Towards Timeout-less Transport in Commodity
//! Datacenter Networks, EuroSys 2021, section 4. The sender keeps one important data packet in flight, the last
//! of a burst. Its acknowledgement, the *echo*, shows which earlier packets were lost, because packets of a flow
//! stay in order. If nothing may be sent when the echo arrives, a *clocking* packet keeps an important packet in
//! flight: the first unacknowledged segment if it was lost, otherwise one byte of it. Packets without data are
//! always important.
//!
//! Our choices: the mark is a code point of DiffServ ([`IMPORTANT`]). The sender recognises the echo by its
//! acknowledgement number or SACK blocks, so the receiver needs no mark of its own. TCP's own loss recovery is
//! unchanged: a clocking packet is not recorded as a retransmission and does not reduce the window.

use std::collections::VecDeque;

use spindle_wire::{Ecn, Flags, Packet, Segment, SeqNumber};

use spindle_units::Instant;

use super::{Stage, StageContext, StageFactory};
use crate::types::SubflowId;

/// The code point of important packets: AF11, the low drop precedence of the first class of assured forwarding
/// (RFC 2597, section 6). It [has no priority](super::has_priority).
pub const IMPORTANT: u8 = 10;

/// Whether a differentiated services code point, 0 to 63, is that of an important packet.
#[must_use]
pub fn is_important(dscp: u8) -> bool {
    dscp == IMPORTANT
}

/// Makes a stage that marks important packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether clocking packets are sent.
    pub clocking: bool,
}

impl Default for Settings {
    /// With clocking packets, as in the paper.
    fn default() -> Self {
        Self { clocking: true }
    }
}

impl StageFactory for Settings {
    fn build(&self, _subflow: SubflowId) -> Box<dyn Stage> {
        Box::new(Marker::new(*self))
    }
}

/// A data segment that was sent and is not acknowledged.
#[derive(Debug)]
struct Sent {
    segment: Segment,
    /// The number of its last transmission, from 1. 0 if it was lost.
    transmission: u64,
}

impl Sent {
    fn end(&self) -> SeqNumber {
        end(&self.segment)
    }
}

/// The sequence number after a segment's payload.
fn end(segment: &Segment) -> SeqNumber {
    segment.seq + segment.payload.len() as u32
}

/// The important data packet in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// The sequence number after its data.
    end: SeqNumber,
    transmission: u64,
}

/// The stage of one subflow.
#[derive(Debug)]
pub struct Marker {
    settings: Settings,
    /// The last data segment, until it is known whether another one follows at once.
    held: Option<Segment>,
    /// The data segments that are not acknowledged cumulatively, by sequence number. The window bounds them.
    sent: VecDeque<Sent>,
    /// The number of transmissions of data.
    transmissions: u64,
    in_flight: Option<InFlight>,
    /// Transmissions before this one have arrived or are lost.
    settled: u64,
    /// An echo arrived, and nothing important was sent since.
    echoed: bool,
    /// The header of the last segment that was sent.
    last: Option<Segment>,
}

impl Marker {
    /// A stage before its first segment.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            held: None,
            sent: VecDeque::new(),
            transmissions: 0,
            in_flight: None,
            settled: 0,
            echoed: false,
            last: None,
        }
    }

    /// Records the transmission of a data segment.
    fn record(&mut self, segment: &Segment) {
        self.transmissions += 1;
        let transmission = self.transmissions;
        let known = self.sent.partition_point(|s| s.end().before(end(segment)));
        match self.sent.get_mut(known) {
            // A retransmission, possibly of a part.
            Some(sent) => sent.transmission = transmission,
            None => self.sent.push_back(Sent {
                segment: segment.clone(),
                transmission,
            }),
        }
        // The important packet itself is retransmitted, so it was lost.
        let lost = |f: &InFlight| segment.seq.before(f.end) && !end(segment).before(f.end);
        if self.in_flight.as_ref().is_some_and(lost) {
            self.in_flight = None;
        }
    }

    /// Sends the held segment. It is the last of its burst if `last`.
    fn release(&mut self, last: bool, out: &mut VecDeque<Packet>) {
        let Some(mut segment) = self.held.take() else {
            return;
        };
        if last && self.in_flight.is_none() {
            segment.dscp = IMPORTANT;
            self.echoed = false;
            self.in_flight = Some(InFlight {
                end: end(&segment),
                transmission: self.transmissions,
            });
        }
        self.last = Some(segment.clone());
        out.push_back(Packet::Tcp(segment));
    }

    /// A clocking packet: the first unacknowledged segment if it was lost, otherwise its first byte.
    fn clock(&mut self) -> Option<Segment> {
        let first = self.sent.front_mut()?;
        let mut packet = first.segment.clone();
        self.transmissions += 1;
        if first.transmission < self.settled {
            first.transmission = self.transmissions;
        } else {
            packet.payload = packet.payload.slice(0, 1);
        }
        // An acknowledgement of the byte may be that of the segment, so it settles nothing that was sent later.
        let transmission = first.transmission;
        if let Some(last) = &self.last {
            (packet.ack, packet.window) = (last.ack, last.window);
            packet.options.timestamps = last.options.timestamps;
        }
        packet.options.sack.truncate(0);
        (packet.ecn, packet.dscp) = (Ecn::NotEct, IMPORTANT);
        self.in_flight = Some(InFlight {
            end: end(&packet),
            transmission,
        });
        Some(packet)
    }

    /// Processes an acknowledgement.
    fn acknowledged(&mut self, segment: &Segment) {
        let ack = segment.ack;
        while self.sent.front().is_some_and(|s| !ack.before(s.end())) {
            self.sent.pop_front();
        }
        if let Some(first) = self.sent.front_mut() {
            let seq = first.segment.seq;
            if seq.before(ack) {
                // Only a clocking byte of the segment arrived, so the segment was lost.
                first.transmission = 0;
                let part = ack.distance(seq) as usize;
                let rest = first.segment.payload.len() - part;
                first.segment.payload = first.segment.payload.slice(part, rest);
                first.segment.seq = ack;
            }
        }
        let Some(in_flight) = self.in_flight else {
            return;
        };
        let within = |&(left, right): &(SeqNumber, SeqNumber)| {
            left.before(in_flight.end) && !right.before(in_flight.end)
        };
        let blocks = segment.options.sack.as_slice();
        if !ack.before(in_flight.end) || blocks.iter().any(within) {
            self.in_flight = None;
            self.settled = self.settled.max(in_flight.transmission);
            self.echoed = self.settings.clocking && !self.sent.is_empty();
        }
    }
}

impl Stage for Marker {
    fn output(&mut self, _: &StageContext, mut segment: Segment, out: &mut VecDeque<Packet>) {
        if segment.payload.is_empty() {
            // A FIN and a bare acknowledgement come after all data that may be sent.
            self.release(true, out);
            segment.dscp = IMPORTANT;
            out.push_back(Packet::Tcp(segment));
            return;
        }
        self.release(false, out);
        self.record(&segment);
        self.held = Some(segment);
    }

    fn is_buffering(&self) -> bool {
        self.held.is_some() || self.echoed
    }

    fn flush(&mut self, _: &StageContext, out: &mut VecDeque<Packet>) {
        self.release(true, out);
        if std::mem::take(&mut self.echoed)
            && let Some(packet) = self.clock()
        {
            out.push_back(Packet::Tcp(packet));
        }
    }

    fn input(
        &mut self,
        _: Instant,
        segment: Segment,
        up: &mut VecDeque<Segment>,
        _: &mut VecDeque<Packet>,
    ) {
        if segment.flags.contains(Flags::ACK) {
            self.acknowledged(&segment);
        }
        up.push_back(segment);
    }

    /// Forgets the segments. No clocking packets follow for them.
    fn shed(&mut self) {
        self.sent.clear();
        self.echoed = false;
    }
}

#[cfg(test)]
mod tests {
    use spindle_wire::{Endpoint, Payload};

    use super::*;

    const CX: StageContext = StageContext {
        now: Instant::ZERO,
        cwnd: 10_000,
        mss: 1000,
        dscp: 0,
    };

    fn end_of(port: u16) -> Endpoint {
        Endpoint::new("10.0.0.1".parse().unwrap(), port)
    }

    /// The n-th data segment of 1000 B.
    fn data(n: u32) -> Segment {
        let mut segment = Segment::new(end_of(1), end_of(2));
        segment.seq = SeqNumber(n * 1000);
        segment.flags = Flags::ACK;
        segment.payload = Payload::Length(1000);
        segment
    }

    /// An acknowledgement of the first n segments, with a SACK block for others.
    fn ack(n: u32, sack: Option<(u32, u32)>) -> Segment {
        let mut segment = Segment::new(end_of(2), end_of(1));
        segment.flags = Flags::ACK;
        segment.ack = SeqNumber(n * 1000);
        if let Some((left, right)) = sack {
            let sack = &mut segment.options.sack;
            sack.push(SeqNumber(left * 1000), SeqNumber(right * 1000));
        }
        segment
    }

    /// Sends these segments as one burst. Returns sequence number, length and importance of the packets.
    fn burst(marker: &mut Marker, numbers: &[u32]) -> Vec<(u32, usize, bool)> {
        let mut out = VecDeque::new();
        for n in numbers {
            marker.output(&CX, data(*n), &mut out);
        }
        if marker.is_buffering() {
            marker.flush(&CX, &mut out);
        }
        let seen = |p: &Packet| {
            let s = p.tcp().unwrap();
            (s.seq.0, s.payload.len(), is_important(s.dscp))
        };
        out.iter().map(seen).collect()
    }

    fn receive(marker: &mut Marker, segment: Segment) {
        let (mut up, mut out) = (VecDeque::new(), VecDeque::new());
        marker.input(Instant::ZERO, segment, &mut up, &mut out);
        assert_eq!((up.len(), out.len()), (1, 0));
    }

    #[test]
    fn last_segment_of_a_burst_is_important_and_only_one_is_in_flight() {
        let mut marker = Marker::new(Settings::default());
        let sent = burst(&mut marker, &[0, 1, 2]);
        assert_eq!(
            sent,
            [(0, 1000, false), (1000, 1000, false), (2000, 1000, true)]
        );
        receive(&mut marker, ack(1, None));
        assert_eq!(burst(&mut marker, &[3]), [(3000, 1000, false)]);
        receive(&mut marker, ack(3, None));
        let sent = burst(&mut marker, &[4, 5]);
        assert_eq!(sent, [(4000, 1000, false), (5000, 1000, true)]);
    }

    #[test]
    fn echo_without_anything_to_send_is_followed_by_one_byte_of_the_first_unacknowledged_segment() {
        let mut marker = Marker::new(Settings::default());
        burst(&mut marker, &[0]);
        burst(&mut marker, &[1, 2]);
        receive(&mut marker, ack(1, None));
        assert_eq!(burst(&mut marker, &[]), [(1000, 1, true)]);
        assert_eq!(burst(&mut marker, &[]), [], "one is in flight");
        // The segment arrived before the clocking packet.
        receive(&mut marker, ack(2, None));
        assert_eq!(burst(&mut marker, &[]), [(2000, 1, true)]);
        receive(&mut marker, ack(3, None));
        assert_eq!(burst(&mut marker, &[]), [], "all is acknowledged");
    }

    #[test]
    fn segment_that_the_echo_shows_to_be_lost_is_sent_whole() {
        let mut marker = Marker::new(Settings::default());
        burst(&mut marker, &[0, 1, 2]);
        receive(&mut marker, ack(1, Some((2, 3))));
        assert_eq!(burst(&mut marker, &[]), [(1000, 1000, true)]);
        receive(&mut marker, ack(3, None));
        assert_eq!(burst(&mut marker, &[]), []);
    }

    #[test]
    fn clocking_byte_that_was_missing_shows_that_the_rest_of_its_segment_is_lost() {
        let mut marker = Marker::new(Settings::default());
        burst(&mut marker, &[0]);
        burst(&mut marker, &[1]);
        receive(&mut marker, ack(1, None));
        assert_eq!(burst(&mut marker, &[]), [(1000, 1, true)]);
        let mut partial = ack(1, None);
        partial.ack = SeqNumber(1001);
        receive(&mut marker, partial);
        assert_eq!(burst(&mut marker, &[]), [(1001, 999, true)]);
    }

    #[test]
    fn retransmission_of_the_important_segment_is_important_again() {
        let mut marker = Marker::new(Settings::default());
        burst(&mut marker, &[0, 1]);
        assert_eq!(burst(&mut marker, &[0]), [(0, 1000, false)]);
        assert_eq!(burst(&mut marker, &[1]), [(1000, 1000, true)]);
    }

    #[test]
    fn packets_without_data_are_important_and_follow_the_data_before_them() {
        let mut marker = Marker::new(Settings::default());
        let mut out = VecDeque::new();
        marker.output(&CX, data(0), &mut out);
        let mut fin = data(1);
        fin.payload = Payload::EMPTY;
        fin.flags |= Flags::FIN;
        marker.output(&CX, fin, &mut out);
        let seen: Vec<(u32, u8)> = out
            .iter()
            .map(|p| (p.first_seq().unwrap().0, p.dscp()))
            .collect();
        assert_eq!(seen, [(0, IMPORTANT), (1000, IMPORTANT)]);
    }

    #[test]
    fn no_clocking_packet_is_sent_if_clocking_is_off() {
        let mut marker = Marker::new(Settings { clocking: false });
        burst(&mut marker, &[0]);
        burst(&mut marker, &[1]);
        receive(&mut marker, ack(1, None));
        assert_eq!(burst(&mut marker, &[]), []);
    }
}
