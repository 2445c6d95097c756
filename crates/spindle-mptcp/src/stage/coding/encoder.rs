//! Outgoing units: segments are kept until there are k of them, and are sent as k + r packets (mechanisms
//! A4.5).

use std::sync::Arc;

use bytes::Bytes;
use spindle_codes::{Body, Source};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    CODING_CLOCK, CodedKind, CodedPacket, CodingHeader, Ecn, Packet, Payload, Segment,
};

use super::codec::UnitCode;
use super::estimator::Estimator;
use super::formulas::{Blocking, Conditions, LastOptimum, Redundant, Units};
use super::{
    CodingConfig, CodingCounters, MAX_PACKETS, MAX_SOURCES, Redundancy, UNSPECIFIED_ENDPOINT,
    UnitSize,
};
use crate::stage::StageContext;

/// The time in the form that encoded packets carry.
pub(super) fn clock(now: Instant) -> u32 {
    (now.as_micros() % u64::from(CODING_CLOCK)) as u32
}

/// The sending end.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    /// Segments of the unit that is being filled.
    cache: Vec<Segment>,
    /// How many segments it will have; 0 before the first.
    target: usize,
    unit: u16,
    optimum: LastOptimum,
}

impl Encoder {
    /// Accepts a segment. The unit is sent if it is complete.
    pub(super) fn take(
        &mut self,
        cx: &StageContext,
        (config, code): (&CodingConfig, &UnitCode),
        segment: Segment,
        (estimator, counters): (&mut Estimator, &mut CodingCounters),
        out: &mut impl Extend<Packet>,
    ) {
        if self.cache.is_empty() {
            self.target = self
                .unit_size(cx, config, estimator)
                .min(code.max_sources());
        }
        self.cache.push(segment);
        if self.cache.len() >= self.target {
            self.flush(cx.now, (config, code), (estimator, counters), out);
        }
    }

    /// Sends the unit that is being filled, however many segments it has.
    pub(super) fn flush(
        &mut self,
        now: Instant,
        (config, code): (&CodingConfig, &UnitCode),
        (estimator, counters): (&mut Estimator, &mut CodingCounters),
        out: &mut impl Extend<Packet>,
    ) {
        if self.cache.is_empty() {
            return;
        }
        let k = self.cache.len();
        let r = match config.redundancy {
            Redundancy::Packets(r) => u32::from(r),
            Redundancy::Estimated | Redundancy::Blocking(_) => {
                blocking(now, config, estimator).redundancy(k as u32)
            }
        };
        let n = (k + r as usize).min(MAX_PACKETS);
        let unit = self.unit;
        self.unit = self.unit.wrapping_add(1);
        let sources: Arc<[Segment]> = self.cache.drain(..).collect();
        counters.units_sent += 1;
        counters.packets_coded += k as u64;
        counters.packets_encoded += n as u64;
        counters.extra_packets += (n - k) as u64;
        let longest = sources.iter().map(|s| s.payload.len()).max().unwrap_or(0);
        counters.extra_bytes += ((n - k) * longest) as u64;
        let base = Base {
            unit,
            shape: (k as u8, n as u8),
            timestamp: clock(now),
        };
        let twin = sources
            .iter()
            .any(|s| matches!(s.payload, Payload::Length(_)));
        if twin {
            out.extend(base.twins(&sources, code.is_systematic()));
        } else {
            out.extend(base.symbols(&sources, code));
        }
    }

    fn unit_size(&mut self, cx: &StageContext, config: &CodingConfig, e: &mut Estimator) -> usize {
        let window = cx.window_segments().clamp(1, MAX_SOURCES as u64) as u32;
        let size = match config.unit {
            UnitSize::Window => window,
            UnitSize::Fixed(k) => u32::from(k),
            UnitSize::Optimal => self.optimal(cx, window, config, (e, Redundant::Whole)),
            UnitSize::OptimalUnrounded => {
                self.optimal(cx, window, config, (e, Redundant::Unrounded))
            }
        };
        (size as usize).clamp(1, MAX_SOURCES)
    }

    /// k by equation 4 (mechanisms A4.6). Round-trip times are rounded, so that k need not be computed again
    /// for each unit.
    fn optimal(
        &mut self,
        cx: &StageContext,
        window: u32,
        config: &CodingConfig,
        (estimator, redundant): (&mut Estimator, Redundant),
    ) -> u32 {
        let blocking = blocking(cx.now, config, estimator);
        let (short, long) = estimator.round_trips();
        let conditions = Conditions {
            rate: config.rate,
            packet: cx.mss as u32,
            rtt_short: rounded(short),
            rtt_long: rounded(long),
        };
        let model = (Units::default(), redundant);
        self.optimum.get(window, blocking, &conditions, model)
    }

    /// Whether no unit is being filled.
    pub(super) fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Bytes kept, and the number of their segments.
    pub(super) fn stored(&self) -> (u64, usize) {
        let bytes = self.cache.iter().map(|s| s.payload.len() as u64).sum();
        (bytes, self.cache.len())
    }
}

/// The share of blocked packets: the configured one, otherwise the estimate.
fn blocking(now: Instant, config: &CodingConfig, estimator: &mut Estimator) -> Blocking {
    match config.redundancy {
        Redundancy::Blocking(share) => share,
        Redundancy::Estimated | Redundancy::Packets(_) => estimator.blocking(now),
    }
}

/// Rounds down to the four leading binary digits.
fn rounded(d: Duration) -> Duration {
    let ns = d.as_nanos();
    let drop = (64 - ns.leading_zeros()).saturating_sub(4);
    Duration::from_nanos(ns >> drop << drop)
}

/// What the packets of a unit have in common.
#[derive(Clone, Copy)]
struct Base {
    unit: u16,
    shape: (u8, u8),
    timestamp: u32,
}

impl Base {
    /// Packet `index` with symbol `payload`. Endpoints, ECN and sequence number are those of the unit's first
    /// segment.
    fn packet(
        self,
        first: &Segment,
        index: usize,
        (len, payload): (u16, Payload),
        twin: Option<Arc<[Segment]>>,
    ) -> CodedPacket {
        let header = CodingHeader {
            unit: self.unit,
            index: index as u8,
            timestamp: self.timestamp,
            kind: CodedKind::Encoded {
                sources: self.shape.0,
                total: self.shape.1,
                len,
                twin,
            },
        };
        let mut packet = CodedPacket::new(first.src, first.dst, header);
        packet.ecn = first.ecn;
        packet.payload = payload;
        packet.first_seq = Some(first.seq);
        packet
    }

    /// The packets of a unit whose payloads are only lengths. Each packet is as long as it would be with bytes,
    /// and refers to the segments themselves. The first packets of a systematic code are the segments.
    fn twins(self, sources: &Arc<[Segment]>, systematic: bool) -> impl Iterator<Item = Packet> {
        let len = |s: &Segment| s.tcp_header_len() + s.payload.len();
        let longest = sources.iter().map(len).max().unwrap_or(0);
        let ecn = common_ecn(sources);
        (0..usize::from(self.shape.1)).map(move |index| {
            let own = sources.get(index).filter(|_| systematic).map(len);
            let symbol = own.unwrap_or(longest);
            let symbol = (symbol as u16, Payload::Length(symbol as u32));
            let mut packet = self.packet(&sources[0], index, symbol, Some(sources.clone()));
            packet.ecn = ecn;
            Packet::Coded(packet)
        })
    }

    /// The packets of a unit of real bytes. There are none if a segment cannot be encoded as bytes, which TCP
    /// takes for loss.
    fn symbols(self, sources: &[Segment], code: &UnitCode) -> Vec<Packet> {
        let mut bytes = Vec::with_capacity(sources.len());
        for s in sources {
            let mut out = Vec::with_capacity(s.tcp_header_len() + s.payload.len());
            let mut bare = s.clone();
            (bare.src, bare.dst) = (UNSPECIFIED_ENDPOINT, UNSPECIFIED_ENDPOINT);
            if bare.encode_tcp(&mut out).is_err() {
                return Vec::new();
            }
            bytes.push(Bytes::from(out));
        }
        let body = |b| Source {
            dsn: 0,
            body: Body::Bytes(b),
        };
        let packets: Vec<Source<'_>> = bytes.iter().map(|b| body(b)).collect();
        let symbols = code.encode(&packets, usize::from(self.shape.1));
        let ecn = common_ecn(sources);
        let packets = symbols.into_iter().enumerate().map(|(index, symbol)| {
            let mut packet = self.packet(&sources[0], index, symbol, None);
            packet.ecn = ecn;
            Packet::Coded(packet)
        });
        packets.collect()
    }
}

/// A packet may be marked by ECN only if each of the segments in it may be.
fn common_ecn(sources: &[Segment]) -> Ecn {
    let capable = |s: &Segment| matches!(s.ecn, Ecn::Ect0 | Ecn::Ect1);
    match sources.iter().all(capable) {
        true => Ecn::Ect0,
        false => Ecn::NotEct,
    }
}
