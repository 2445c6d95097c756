//! Forward error correction between a subflow and the wire (CAPS).
//!
//! Segments of short flows are sent in *units*: k segments become k + r encoded packets, which switches spread
//! over all paths, and any k of which yield the segments. The receiver therefore does not wait for the few
//! packets on paths that long flows block. Long flows are not coded. TCP above is not aware of coding: blocked
//! packets arrive late or not at all, and are not needed.
//!
//! Both ends agree on coding in the handshake (`connection/coding.rs`). `docs/wire/coding.md` describes the
//! packets. r follows from the share of blocked packets, which the sender estimates from the receiver's echoes
//! of each packet's sending time ([`estimator`]). k minimises the mean time of a window ([`formulas`]).

mod codec;
mod decoder;
mod destinations;
mod encoder;
pub mod estimator;
pub mod formulas;
mod path_estimates;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_units::{BitRate, Duration, Instant};
use spindle_wire::{
    CODING_CLOCK, CODING_OVERHEAD, CodedKind, CodedPacket, CodingHeader, CodingOption, Endpoint,
    ExperimentId, Experimental, Flags, Packet, Segment, SeqNumber,
};

use super::{Stage, StageContext, has_priority};
pub use codec::CodeKind;
use codec::UnitCode;
use decoder::{Decoder, Fate};
pub use destinations::{Destinations, KnownInAdvance, Networks};
use encoder::{Encoder, clock};
use estimator::{FIRST_ROUND_TRIPS, Sampling, Share, Shared};
use formulas::Blocking;
pub(crate) use path_estimates::PathEstimates;
pub use path_estimates::{Estimates, SharedEstimates};

/// Most segments of a unit. With as many redundant packets, which are needed if half of the packets are
/// blocked, the number of packets still fits in a byte.
pub const MAX_SOURCES: usize = 127;
/// Most packets of a unit.
pub const MAX_PACKETS: usize = 255;
/// A flow is long from this many bytes on (CAPS section III-A, Algorithm 1: s_L).
pub const LONG: u64 = 100_000;
/// The length of a sampling period: two round trips without a queue (CAPS section IX-C: 200 us).
pub const PERIOD: Duration = Duration::from_micros(200);
/// Bytes by which a coded segment is shorter than others.
pub(crate) const CODING_ROOM: u64 = CODING_OVERHEAD as u64;
/// How long an echo waits for an acknowledgement of TCP that can carry it. The echo states how long it has
/// waited.
const ECHO_WAIT: Duration = Duration::from_millis(1);
/// The placeholder for both endpoints in a segment that is coded. The endpoints of the packet count, because
/// they may be translated on the path.
const UNSPECIFIED_ENDPOINT: Endpoint = Endpoint {
    addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    port: 0,
};
/// How many segments after the handshake announce that their sender decodes, unless an encoded packet arrives
/// before: the third ACK, and two more in case it is lost.
const CAPABILITY_REPEATS: u8 = 3;
/// Most segments whose sending time is remembered, if TCP's acknowledgements are the samples.
const MAX_TIMED: usize = 1024;

/// How a connection is coded.
#[derive(Clone, Debug)]
pub struct CodingConfig {
    /// The code. Both ends must be configured with the same code.
    pub code: CodeKind,
    /// Segments of a unit, k.
    pub unit: UnitSize,
    /// Redundant packets of a unit, r.
    pub redundancy: Redundancy,
    /// Which flows are short.
    pub short: Short,
    /// What the share of blocked packets is estimated from.
    pub samples: Samples,
    /// How the share is computed from samples, by default in periods of [`PERIOD`].
    pub sampling: Sampling,
    /// Rate of the bottleneck, for [`UnitSize::Optimal`], if [`Destinations::bottleneck`] does not know it. 1
    /// Gbps by default.
    pub rate: BitRate,
    /// Which peers are reached by the same paths, and what is known about these paths.
    pub destinations: Arc<dyn Destinations>,
    /// What is taken from [`Self::destinations`] instead of measured. By default nothing but the rate.
    pub known: KnownInAdvance,
    /// Which hosts share the estimates of paths. By default each host has its own.
    pub estimates: Estimates,
    /// How long segments wait for those of earlier units. `None`, the default: not at all (mechanisms A4.7: in
    /// order within the unit).
    pub hold: Option<Duration>,
}

/// How many segments a unit has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitSize {
    /// As many segments as the window (CAPS section VI-A: k = cwnd).
    Window,
    /// This many segments, 1 to [`MAX_SOURCES`].
    Fixed(u8),
    /// As many segments as minimise the mean time of a window (CAPS section VI-C, equation 4).
    #[default]
    Optimal,
    /// Like [`Self::Optimal`], but the equation has k p_B / (1 - p_B) redundant packets, which are not rounded up
    /// to whole packets. The number that is sent is rounded up (our choice; the paper does not state which of
    /// the two its optimum uses).
    OptimalUnrounded,
}

/// How many redundant packets are sent with a unit's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// As many as the estimated share of blocked packets requires (CAPS section VI-B).
    #[default]
    Estimated,
    /// Always as many as this share requires. [`UnitSize::Optimal`] uses this share, too.
    Blocking(Blocking),
    /// Always this many.
    Packets(u8),
}

/// Which flows are short, and so coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Flows whose segments are tagged, by a code point [with priority](has_priority) (CAPS section IV;
    /// mechanisms A4.1).
    Tagged,
    /// All flows, until they have sent this many bytes (CAPS section VII, CAPS_dark).
    UpTo(u64),
}

/// What the share of blocked packets is estimated from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Samples {
    /// The sending time of each encoded packet, which the receiver echoes (mechanisms A4.3).
    #[default]
    Echoes,
    /// TCP's acknowledgements, which hide what decoding has repaired.
    TcpAcks,
}

impl Default for CodingConfig {
    fn default() -> Self {
        Self {
            code: CodeKind::default(),
            unit: UnitSize::default(),
            redundancy: Redundancy::default(),
            short: Short::Tagged,
            samples: Samples::default(),
            sampling: Sampling {
                period: PERIOD,
                share: Share::Last,
                round_trips: FIRST_ROUND_TRIPS,
            },
            rate: BitRate(1_000_000_000),
            destinations: Arc::new(Networks),
            known: KnownInAdvance::default(),
            estimates: Estimates::default(),
            hold: None,
        }
    }
}

/// The counters of coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodingCounters {
    /// Units sent.
    pub units_sent: u64,
    /// Segments in the units sent.
    pub packets_coded: u64,
    /// Encoded packets sent.
    pub packets_encoded: u64,
    /// Encoded packets sent beyond one for each segment.
    pub extra_packets: u64,
    /// Payload bytes of the extra packets: for each, those of the unit's longest segment.
    pub extra_bytes: u64,
    /// Encoded packets that arrived.
    pub packets_received: u64,
    /// Encoded packets that arrived twice, or after their unit was decoded.
    pub packets_late: u64,
    /// Encoded packets that no unit can have, or that are far from all others.
    pub packets_refused: u64,
    /// Units decoded.
    pub units_decoded: u64,
    /// Units that decoded, but not to segments of the connection.
    pub units_refused: u64,
    /// Units that were given up for lack of room before enough of their packets had arrived.
    pub units_given_up: u64,
    /// Segments that were passed up to TCP.
    pub segments_decoded: u64,
    /// Of these, segments that were passed up after a segment of a unit that was sent later.
    pub segments_disordered: u64,
    /// Acknowledgements that coding sent by itself, not counting echoes on TCP's acknowledgements.
    pub acks_sent: u64,
}

impl CodingCounters {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, o: &Self) -> Self {
        Self {
            units_sent: self.units_sent + o.units_sent,
            packets_coded: self.packets_coded + o.packets_coded,
            packets_encoded: self.packets_encoded + o.packets_encoded,
            extra_packets: self.extra_packets + o.extra_packets,
            extra_bytes: self.extra_bytes + o.extra_bytes,
            packets_received: self.packets_received + o.packets_received,
            packets_late: self.packets_late + o.packets_late,
            packets_refused: self.packets_refused + o.packets_refused,
            units_decoded: self.units_decoded + o.units_decoded,
            units_refused: self.units_refused + o.units_refused,
            units_given_up: self.units_given_up + o.units_given_up,
            segments_decoded: self.segments_decoded + o.segments_decoded,
            segments_disordered: self.segments_disordered + o.segments_disordered,
            acks_sent: self.acks_sent + o.acks_sent,
        }
    }
}

/// The offer of a connection, or the answer to it: the experiment's identifier and the code's number.
pub(crate) fn offer(code: CodeKind) -> Experimental {
    CodingOption::Code(code as u8).to_option()
}

/// The code that a SYN or SYN/ACK contains.
pub(crate) fn offered(seg: &Segment) -> Option<CodeKind> {
    match CodingOption::of(&seg.options)? {
        CodingOption::Code(number) => CodeKind::from_number(number),
        CodingOption::Echo(_) => None,
    }
}

/// The sending time of an encoded packet, which is echoed to the sender.
#[derive(Clone, Copy, Debug)]
struct Echo {
    unit: u16,
    index: u8,
    timestamp: u32,
    since: Instant,
    /// The source and the destination of the echo, and its code point.
    ends: (Endpoint, Endpoint),
    dscp: u8,
}

impl Echo {
    /// The echo of an encoded packet that has arrived.
    fn of(now: Instant, packet: &CodedPacket) -> Self {
        Self {
            unit: packet.header.unit,
            index: packet.header.index,
            timestamp: packet.header.timestamp,
            since: now,
            ends: (packet.dst, packet.src),
            dscp: packet.dscp,
        }
    }

    /// The timestamp, increased by the time for which the echo was held.
    fn at(&self, now: Instant) -> u32 {
        let held = now.since(self.since).as_micros() % u64::from(CODING_CLOCK);
        (self.timestamp + held as u32) % CODING_CLOCK
    }
}

/// The stage of a subflow whose short flows are coded.
#[derive(Debug)]
pub(crate) struct Coding {
    config: Arc<CodingConfig>,
    code: UnitCode,
    estimator: Shared,
    encoder: Encoder,
    decoder: Decoder,
    /// Payload bytes that were sent.
    sent: u64,
    /// Whether the peer is known to decode, from the SYN/ACK or from a later segment.
    proven: bool,
    /// How many more segments announce that this end decodes.
    tells: u8,
    echo: Option<Echo>,
    /// The sending times of segments by the sequence number after their end, for [`Samples::TcpAcks`].
    timed: VecDeque<(SeqNumber, Instant)>,
    counters: CodingCounters,
}

impl Coding {
    /// Makes the stage towards a peer. `estimator` is that of the path to the peer. `opened` states that this
    /// end opened the connection, so it has the peer's answer. The other end does not know yet whether its
    /// answer has arrived.
    pub(crate) fn new(config: Arc<CodingConfig>, estimator: Shared, opened: bool) -> Self {
        Self {
            code: UnitCode::new(config.code),
            config,
            estimator,
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            sent: 0,
            proven: opened,
            tells: if opened { CAPABILITY_REPEATS } else { 0 },
            echo: None,
            timed: VecDeque::new(),
            counters: CodingCounters::default(),
        }
    }

    fn is_short(&self, cx: &StageContext) -> bool {
        match self.config.short {
            Short::Tagged => has_priority(cx.dscp),
            Short::UpTo(bytes) => self.sent < bytes,
        }
    }

    /// Whether a segment is coded. Handshakes, resets and bare acknowledgements are sent as they are (CAPS
    /// section IV). So are segments with rare options, which leave no room for the coding's own.
    fn takes(&self, cx: &StageContext, segment: &Segment) -> bool {
        let plain = !segment.flags.intersects(Flags::SYN | Flags::RST);
        let fits = segment.options.rare.is_none();
        plain && fits && !segment.payload.is_empty() && self.proven && self.is_short(cx)
    }

    /// Announces on a segment that is not coded that this end decodes, if that is still due and there is room.
    fn tell(&mut self, segment: &mut Segment) {
        let room = segment.options.room() >= CodingOption::MAX_LEN;
        if self.tells > 0 && room && !segment.flags.contains(Flags::RST) {
            self.tells -= 1;
            let option = offer(self.config.code);
            segment.options.add_experiment(option);
        }
    }

    fn flush_unit(&mut self, now: Instant, out: &mut VecDeque<Packet>) {
        let estimator = &mut *self.estimator.get();
        let with = (&*self.config, &self.code);
        self.encoder
            .flush(now, with, (estimator, &mut self.counters), out);
    }

    /// Records when a segment is sent, if that is a sample. A retransmission is none (Karn).
    fn time(&mut self, now: Instant, segment: &Segment) {
        if self.config.samples == Samples::TcpAcks && self.timed.len() < MAX_TIMED {
            let end = segment.seq + segment.payload.len() as u32;
            if self.timed.back().is_none_or(|(last, _)| last.before(end)) {
                self.timed.push_back((end, now));
            } else {
                self.timed.clear();
            }
        }
    }

    /// Processes an acknowledgement of TCP, which gives a sample with [`Samples::TcpAcks`].
    fn process_ack(&mut self, now: Instant, segment: &Segment) {
        let mut acked = None;
        while let Some(&(end, sent)) = self.timed.front()
            && segment.flags.contains(Flags::ACK)
            && !segment.ack.before(end)
        {
            acked = Some(sent);
            self.timed.pop_front();
        }
        if let Some(sent) = acked {
            self.estimator.get().sample(now, now.since(sent));
        }
    }

    /// Processes the echoed sending time of one of our encoded packets.
    fn process_echo(&self, now: Instant, timestamp: u32) {
        if self.config.samples == Samples::Echoes {
            let rtt = clock(now).wrapping_sub(timestamp) % CODING_CLOCK;
            self.estimator
                .get()
                .sample(now, Duration::from_micros(u64::from(rtt)));
        }
    }

    /// Adds the echo that waits to a segment of TCP, if there is room.
    fn ride(&mut self, now: Instant, segment: &mut Segment) {
        let Some(echo) = self.echo else { return };
        if segment.options.room() >= CodingOption::MAX_LEN {
            let option = CodingOption::Echo(echo.at(now));
            segment.options.add_experiment(option.to_option());
            self.echo = None;
        }
    }

    /// An acknowledgement by the coding layer itself.
    fn acknowledge(&mut self, now: Instant, echo: Echo) -> Packet {
        let header = CodingHeader {
            unit: echo.unit,
            index: echo.index,
            timestamp: echo.at(now),
            kind: CodedKind::Ack {
                arrived: self.counters.packets_received as u32,
                decoded: self.counters.units_decoded as u32,
            },
        };
        self.counters.acks_sent += 1;
        let mut ack = CodedPacket::new(echo.ends.0, echo.ends.1, header);
        ack.dscp = echo.dscp;
        Packet::Coded(ack)
    }

    /// Processes an encoded packet.
    fn take_encoded(
        &mut self,
        now: Instant,
        packet: &CodedPacket,
        up: &mut VecDeque<Segment>,
        out: &mut VecDeque<Packet>,
    ) {
        let with = (&self.code, self.config.hold);
        let before = up.len();
        let fate = self.decoder.take(now, with, packet, &mut self.counters, up);
        if self.config.samples != Samples::Echoes {
            return;
        }
        let echo = Echo::of(now, packet);
        // TCP will acknowledge the segments that are passed up, and this acknowledgement will carry the echo.
        // An earlier echo that still waits is sent now.
        if fate == Fate::Up && up.len() > before {
            if let Some(earlier) = self.echo.replace(echo) {
                out.push_back(self.acknowledge(now, earlier));
            }
        } else {
            out.push_back(self.acknowledge(now, echo));
        }
    }
}

impl Stage for Coding {
    fn output(&mut self, cx: &StageContext, mut segment: Segment, out: &mut VecDeque<Packet>) {
        let short = self.takes(cx, &segment);
        self.sent += segment.payload.len() as u64;
        if short {
            self.time(cx.now, &segment);
            let estimator = &mut *self.estimator.get();
            let with = (&*self.config, &self.code);
            self.encoder
                .take(cx, with, segment, (estimator, &mut self.counters), out);
            return;
        }
        if segment.seq_len() > 0 {
            // Segments that wait for their unit were sent earlier, so they go first.
            self.flush_unit(cx.now, out);
        }
        self.ride(cx.now, &mut segment);
        self.tell(&mut segment);
        out.push_back(Packet::Tcp(segment));
    }

    fn is_buffering(&self) -> bool {
        !self.encoder.is_empty()
    }

    fn flush(&mut self, cx: &StageContext, out: &mut VecDeque<Packet>) {
        self.flush_unit(cx.now, out);
    }

    fn input(
        &mut self,
        now: Instant,
        mut segment: Segment,
        up: &mut VecDeque<Segment>,
        _out: &mut VecDeque<Packet>,
    ) {
        // TCP must not see the option: an acknowledgement with an echo is as much a duplicate as one without
        // (RFC 5681, section 2).
        if let Some(data) = segment.options.take_experiment(ExperimentId::Coding) {
            self.proven = true;
            if let Some(CodingOption::Echo(time)) = CodingOption::parse(&data) {
                self.process_echo(now, time);
            }
        }
        if self.config.samples == Samples::TcpAcks {
            self.process_ack(now, &segment);
        }
        up.push_back(segment);
    }

    fn input_coded(
        &mut self,
        now: Instant,
        packet: &CodedPacket,
        up: &mut VecDeque<Segment>,
        out: &mut VecDeque<Packet>,
    ) {
        (self.proven, self.tells) = (true, 0);
        match packet.header.kind {
            CodedKind::Encoded { .. } => self.take_encoded(now, packet, up, out),
            CodedKind::Ack { .. } => self.process_echo(now, packet.header.timestamp),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let echo = self.echo.map(|e| e.since + ECHO_WAIT);
        crate::types::earliest(echo, self.decoder.next_timeout())
    }

    fn timeout(&mut self, now: Instant, up: &mut VecDeque<Segment>, out: &mut VecDeque<Packet>) {
        if let Some(echo) = self.echo.take_if(|e| e.since + ECHO_WAIT <= now) {
            out.push_back(self.acknowledge(now, echo));
        }
        self.decoder.timeout(now, &mut self.counters, up);
    }

    fn overhead(&self) -> usize {
        CODING_OVERHEAD
    }

    fn stored(&self) -> (u64, usize) {
        let (ours, theirs) = (self.encoder.stored(), self.decoder.stored());
        (ours.0 + theirs.0, ours.1 + theirs.1)
    }

    fn shed(&mut self) {
        self.decoder.shed_all(&mut self.counters);
    }

    fn steps(&self) -> u64 {
        self.decoder.steps.get()
    }

    fn coding(&self) -> Option<&CodingCounters> {
        Some(&self.counters)
    }
}
