//! Forward error correction between a subflow and the wire (CAPS).
//!
//! Short flows' segments are sent in *units*: k segments leave as k + r encoded packets, spread over all paths
//! by the switches, and come out of any k of them; so nobody waits for the few on paths that long flows
//! block. Long flows are not coded. TCP above knows nothing of it: what was blocked comes late or not at
//! all, and is not missed.
//!
//! Both ends agree on it in the handshake (`connection/coding.rs`); `docs/wire/coding.md` says what is on
//! the wire. r follows the share of blocked packets, which the receiver's echoes of each packet's time of
//! sending tell ([`estimator`]); k makes the mean time of a window shortest ([`formulas`]).

mod codec;
mod decoder;
mod encoder;
pub mod estimator;
pub mod formulas;
mod ways;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_units::{BitRate, Duration, Instant};
use spindle_wire::{
    CODING_CLOCK, CODING_OVERHEAD, Coded, CodedKind, Endpoint, Experimental, Flags, Options,
    RareOptions, Segment, SeqNumber,
};

use super::{Stage, StageContext, has_priority};
pub use codec::CodeKind;
use codec::UnitCode;
use decoder::{Decoder, Fate};
use encoder::{Encoder, clock};
use estimator::{Sampling, Share, Shared};
use formulas::Blocking;
pub(crate) use ways::Ways;

/// Segments of a unit at most: with as many packets again, which a half of them blocked calls for, they are
/// still counted in a byte.
pub const MAX_SOURCES: usize = 127;
/// Packets of a unit at most.
pub const MAX_PACKETS: usize = 255;
/// A flow is long from so many bytes on (CAPS section III-A, Algorithm 1: s_L).
pub const LONG: u64 = 100_000;
/// Two round trips without a queue (CAPS section IX-C: 200 us).
pub const PERIOD: Duration = Duration::from_micros(200);
/// Bytes by which a coded segment is shorter.
pub(crate) const CODING_ROOM: u64 = CODING_OVERHEAD as u64;
/// An echo waits so long for an acknowledgement of TCP's to ride on; it says how long it did.
const ECHO_WAIT: Duration = Duration::from_millis(1);
/// What stands for both ends in a segment that is coded: those of the packet count, which may be translated on
/// the way.
const NOWHERE: Endpoint = Endpoint {
    addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    port: 0,
};
/// Bytes of an echo that rides along: kind, length, ExID and 24 bits of time, padded.
const ECHO_LEN: usize = 8;
/// So many segments behind the handshake say that their sender decodes, unless something coded comes before:
/// the third ACK, and two in case that is lost.
const TELLS: u8 = 3;
/// Segments whose time of sending is remembered at most, where TCP's acknowledgements are the samples.
const MAX_TIMED: usize = 1024;

/// How a connection is coded.
#[derive(Clone, Debug)]
pub struct CodingConfig {
    /// The code; both ends must want the same.
    pub code: CodeKind,
    /// Segments of a unit, k.
    pub unit: UnitSize,
    /// Packets beyond the segments, r.
    pub redundancy: Redundancy,
    /// Which flows are short.
    pub short: Short,
    /// What the share of blocked packets is learnt from.
    pub samples: Samples,
    /// How the share follows from samples; in periods of [`PERIOD`].
    pub sampling: Sampling,
    /// Rate of the bottleneck, for [`UnitSize::Optimal`], where [`Destinations::bottleneck`] does not know it;
    /// 1 Gbps.
    pub rate: BitRate,
    /// Which peers are reached by the same paths.
    pub destinations: Arc<dyn Destinations>,
    /// For how long segments wait for those of earlier units; not at all by default (mechanisms A4.7: in
    /// order within the unit).
    pub hold: Option<Duration>,
}

/// How many segments a unit has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitSize {
    /// As many as the window (CAPS section VI-A: k = cwnd).
    Window,
    /// So many, 1 to [`MAX_SOURCES`].
    Fixed(u8),
    /// As many as make the mean time of a window shortest (CAPS section VI-C, equation 4).
    #[default]
    Optimal,
}

/// How many packets are sent beyond a unit's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// As the share of blocked packets calls for (CAPS section VI-B).
    #[default]
    Estimated,
    /// As this share calls for, always.
    Blocking(Blocking),
    /// So many, always.
    Packets(u8),
}

/// Which flows are short, and so coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Those whose segments are tagged, by a code point [with priority](has_priority) (CAPS section IV;
    /// mechanisms A4.1).
    Tagged,
    /// All, until they have sent so many bytes (CAPS section VII, CAPS_dark).
    UpTo(u64),
}

/// What the share of blocked packets is learnt from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Samples {
    /// The time of sending of each encoded packet, which the receiver echoes (mechanisms A4.3).
    #[default]
    Echoes,
    /// Acknowledgements of TCP, which hide what decoding has made good for.
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
            },
            rate: BitRate(1_000_000_000),
            destinations: Arc::new(Networks),
            hold: None,
        }
    }
}

/// Tells which peers are reached by the same paths and share an estimate: those under one leaf switch
/// (mechanisms A4.3).
pub trait Destinations: Send + Sync + std::fmt::Debug {
    /// A number that such peers have in common.
    fn of(&self, peer: IpAddr) -> u128;

    /// The rate of the bottleneck on the way from `local` to a peer, if it is known: C in CAPS's equation 4.
    /// Where it is not, [`CodingConfig::rate`] stands for it.
    fn bottleneck(&self, local: IpAddr, peer: IpAddr) -> Option<BitRate> {
        let _ = (local, peer);
        None
    }
}

/// Peers in one network, of 24 bits of IPv4 or 64 of IPv6, are reached by the same paths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Networks;

impl Destinations for Networks {
    fn of(&self, peer: IpAddr) -> u128 {
        match peer {
            // Beside IPv6's numbers, none of which is so small.
            IpAddr::V4(a) => u128::from(a.to_bits() >> 8),
            IpAddr::V6(a) => a.to_bits() >> 64 << 64,
        }
    }
}

/// What the coding of a connection has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodingCounters {
    /// Units sent.
    pub units_sent: u64,
    /// Segments in them.
    pub packets_coded: u64,
    /// Encoded packets sent.
    pub packets_encoded: u64,
    /// Those of them beyond one for each segment.
    pub extra_packets: u64,
    /// Payload bytes of these: the unit's longest each.
    pub extra_bytes: u64,
    /// Encoded packets that arrived.
    pub packets_received: u64,
    /// Those that came twice, or when their unit was decoded.
    pub packets_late: u64,
    /// Those that no unit can have, or one that is far from all others.
    pub packets_refused: u64,
    /// Units decoded.
    pub units_decoded: u64,
    /// Units that decoded to no segments of the connection.
    pub units_refused: u64,
    /// Units of which too few packets came until there was no more room for them.
    pub units_given_up: u64,
    /// Acknowledgements sent, beyond echoes that rode on TCP's.
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
            acks_sent: self.acks_sent + o.acks_sent,
        }
    }
}

/// The offer, or the answer, of a connection: the code's number behind the experiment's identifier.
pub(crate) fn offer(code: CodeKind) -> Experimental {
    option(vec![code as u8])
}

/// The code that a SYN or SYN/ACK speaks of.
pub(crate) fn offered(seg: &Segment) -> Option<CodeKind> {
    match said(seg)? {
        [number] => CodeKind::from_number(*number),
        _ => None,
    }
}

fn option(data: Vec<u8>) -> Experimental {
    Experimental {
        kind: Experimental::KIND,
        exid: Experimental::CODING,
        data,
    }
}

fn said(seg: &Segment) -> Option<&[u8]> {
    let all = &seg.options.rare.as_ref()?.experimental;
    let ours = all
        .iter()
        .find(|e| (e.kind, e.exid) == (Experimental::KIND, Experimental::CODING))?;
    Some(&ours.data)
}

/// Takes off a segment what it says to this layer. TCP above is not to see it: an acknowledgement with an echo
/// is as much a duplicate as one without (RFC 5681, section 2).
fn take_said(segment: &mut Segment) -> Option<Vec<u8>> {
    let rare = segment.options.rare.as_mut()?;
    let ours = |e: &Experimental| (e.kind, e.exid) == (Experimental::KIND, Experimental::CODING);
    let at = rare.experimental.iter().position(ours)?;
    let data = rare.experimental.remove(at).data;
    segment
        .options
        .rare
        .take_if(|r| **r == RareOptions::default());
    Some(data)
}

/// An encoded packet's time, to be sent back.
#[derive(Clone, Copy, Debug)]
struct Echo {
    unit: u16,
    index: u8,
    timestamp: u32,
    since: Instant,
    /// From where to where it goes, and with which code point.
    ends: (Endpoint, Endpoint),
    dscp: u8,
}

impl Echo {
    /// Of an encoded packet that has come.
    fn of(now: Instant, packet: &Segment, coded: &Coded) -> Self {
        Self {
            unit: coded.unit,
            index: coded.index,
            timestamp: coded.timestamp,
            since: now,
            ends: (packet.dst, packet.src),
            dscp: packet.dscp,
        }
    }

    /// The timestamp, later by what the echo was held.
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
    /// Payload bytes that have left.
    sent: u64,
    /// The peer is known to decode: the SYN/ACK said so, or something behind the handshake did.
    proven: bool,
    /// Segments that are still to say that this end decodes.
    tells: u8,
    echo: Option<Echo>,
    /// When segments left, by where they end, for [`Samples::TcpAcks`].
    timed: VecDeque<(SeqNumber, Instant)>,
    counters: CodingCounters,
}

impl Coding {
    /// Codes towards a peer, `estimator` being that of the way to it. `opened`: this end opened the connection,
    /// so it has the peer's answer; the other has yet to see that its own has arrived.
    pub(crate) fn new(config: Arc<CodingConfig>, estimator: Shared, opened: bool) -> Self {
        Self {
            code: UnitCode::new(config.code),
            config,
            estimator,
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            sent: 0,
            proven: opened,
            tells: if opened { TELLS } else { 0 },
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

    /// Handshakes, the close, and bare acknowledgements go as they are (CAPS section IV); so does what has
    /// options for which there is no room beside the coding's own.
    fn takes(&self, cx: &StageContext, segment: &Segment) -> bool {
        let plain = !segment.flags.intersects(Flags::SYN | Flags::RST);
        let fits = segment.options.rare.is_none();
        plain && fits && !segment.payload.is_empty() && self.proven && self.is_short(cx)
    }

    /// Says on a segment that goes as it is that this end decodes, if that is still to be said and there is room.
    fn tell(&mut self, segment: &mut Segment) {
        let room = segment.options.encoded_len() + ECHO_LEN <= Options::MAX_LEN;
        if self.tells > 0 && room && !segment.flags.contains(Flags::RST) {
            self.tells -= 1;
            let option = offer(self.config.code);
            segment.options.rare_mut().experimental.push(option);
        }
    }

    fn flush_unit(&mut self, now: Instant, out: &mut VecDeque<Segment>) {
        let estimator = &mut *self.estimator.get();
        let with = (&*self.config, &self.code);
        self.encoder
            .flush(now, with, (estimator, &mut self.counters), out);
    }

    /// Notes when a segment leaves, if that is to be known; one that leaves again is no measure (Karn).
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

    /// TCP acknowledges: a sample, if that is what samples are.
    fn heed_ack(&mut self, now: Instant, segment: &Segment) {
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

    /// The time of sending of one of our encoded packets has come back.
    fn heed_echo(&self, now: Instant, timestamp: u32) {
        if self.config.samples == Samples::Echoes {
            let rtt = clock(now).wrapping_sub(timestamp) % CODING_CLOCK;
            self.estimator
                .get()
                .sample(now, Duration::from_micros(u64::from(rtt)));
        }
    }

    /// Puts the echo that waits on a segment of TCP's, if there is room.
    fn ride(&mut self, now: Instant, segment: &mut Segment) {
        let Some(echo) = self.echo else { return };
        let [_, time @ ..] = echo.at(now).to_be_bytes();
        let option = option(time.to_vec());
        if segment.options.encoded_len() + ECHO_LEN <= Options::MAX_LEN {
            segment.options.rare_mut().experimental.push(option);
            self.echo = None;
        }
    }

    /// An acknowledgement of the coding layer's own.
    fn acknowledge(&mut self, now: Instant, echo: Echo) -> Segment {
        let mut ack = Segment::new(echo.ends.0, echo.ends.1);
        ack.dscp = echo.dscp;
        ack.options.rare_mut().coded = Some(Coded {
            unit: echo.unit,
            index: echo.index,
            timestamp: echo.at(now),
            kind: CodedKind::Ack {
                arrived: self.counters.packets_received as u32,
                decoded: self.counters.units_decoded as u32,
            },
        });
        self.counters.acks_sent += 1;
        ack
    }
}

impl Coding {
    /// An encoded packet has come.
    fn take_encoded(
        &mut self,
        now: Instant,
        segment: &Segment,
        up: &mut VecDeque<Segment>,
        out: &mut VecDeque<Segment>,
    ) {
        let Some(coded) = segment.coded() else { return };
        if let CodedKind::Ack { .. } = coded.kind {
            self.heed_echo(now, coded.timestamp);
            return;
        }
        let with = (&self.code, self.config.hold);
        let before = up.len();
        let fate = self
            .decoder
            .take(now, with, segment, &mut self.counters, up);
        if self.config.samples != Samples::Echoes {
            return;
        }
        let echo = Echo::of(now, segment, coded);
        // TCP will acknowledge what goes up, and the echo with it; one that still waits for that goes now.
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
    fn output(&mut self, cx: &StageContext, mut segment: Segment, out: &mut VecDeque<Segment>) {
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
            // What was sent earlier goes earlier.
            self.flush_unit(cx.now, out);
        }
        self.ride(cx.now, &mut segment);
        self.tell(&mut segment);
        out.push_back(segment);
    }

    fn keeps_back(&self) -> bool {
        !self.encoder.is_empty()
    }

    fn flush(&mut self, cx: &StageContext, out: &mut VecDeque<Segment>) {
        self.flush_unit(cx.now, out);
    }

    fn input(
        &mut self,
        now: Instant,
        mut segment: Segment,
        up: &mut VecDeque<Segment>,
        out: &mut VecDeque<Segment>,
    ) {
        if segment.coded().is_some() {
            (self.proven, self.tells) = (true, 0);
            self.take_encoded(now, &segment, up, out);
            return;
        }
        if let Some(data) = take_said(&mut segment) {
            self.proven = true;
            if let [a, b, c] = *data {
                self.heed_echo(now, u32::from_be_bytes([0, a, b, c]));
            }
        }
        if self.config.samples == Samples::TcpAcks {
            self.heed_ack(now, &segment);
        }
        up.push_back(segment);
    }

    fn next_timeout(&self) -> Option<Instant> {
        let echo = self.echo.map(|e| e.since + ECHO_WAIT);
        crate::subflow::earliest(echo, self.decoder.next_timeout())
    }

    fn timeout(&mut self, now: Instant, up: &mut VecDeque<Segment>, out: &mut VecDeque<Segment>) {
        if let Some(echo) = self.echo.take_if(|e| e.since + ECHO_WAIT <= now) {
            out.push_back(self.acknowledge(now, echo));
        }
        self.decoder.timeout(now, up);
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
