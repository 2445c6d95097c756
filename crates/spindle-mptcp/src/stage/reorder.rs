//! A buffer at the receiver that puts segments in order before TCP sees them (Presto, He et al. 2015, section
//! 3.2).
//!
//! Presto sends each 64 KB of a flow on its own path. Segments that arrive out of order would look like loss to
//! TCP, so Presto's receivers keep segments until those before them have arrived, or for as long as reordering
//! has recently taken. They know cells by a mark of the sending host, and take a gap within a cell for a loss
//! at once. Here the network cuts the cells, so all gaps are alike. TCP sees a loss after the
//! [patience](Settings).

use std::collections::VecDeque;

use spindle_units::{Duration, Instant};
use spindle_wire::{Flags, Packet, Segment, SeqNumber};

use super::{Stage, StageContext, StageFactory};
use crate::types::SubflowId;

/// How long segments wait, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The wait before any reordering was seen.
    pub first: Duration,
    /// The least and the longest wait, however long reordering takes.
    pub bounds: (Duration, Duration),
    /// Most segments that are kept. With one more, all of them are passed up.
    pub most: usize,
}

impl Settings {
    /// The wait as a multiple of the average time that reordering takes: Presto's alpha (He et al. 2015,
    /// section 3.2).
    pub const ALPHA: u32 = 2;
}

impl Default for Settings {
    /// Our choices, because the paper has none. Before reordering was seen, 2 ms: more than the difference
    /// between two paths of an empty network. Then from 100 us, a round trip in a data centre, to 10 ms, TCP's
    /// least timeout there. 1024 segments are some twenty cells.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(2),
            bounds: (Duration::from_micros(100), Duration::from_millis(10)),
            most: 1024,
        }
    }
}

impl StageFactory for Settings {
    fn build(&self, _subflow: SubflowId) -> Box<dyn Stage> {
        Box::new(Reorder::new(*self))
    }
}

/// A segment that arrived before its turn.
#[derive(Debug)]
struct BufferedSegment {
    segment: Segment,
    since: Instant,
}

impl BufferedSegment {
    fn end(&self) -> SeqNumber {
        end(&self.segment)
    }
}

fn end(segment: &Segment) -> SeqNumber {
    SeqNumber(segment.seq.0.wrapping_add(segment.seq_len()))
}

/// The buffer of one subflow.
#[derive(Debug)]
pub struct Reorder {
    settings: Settings,
    /// The next sequence number in order; `None` before the first segment.
    next: Option<SeqNumber>,
    /// The kept segments by sequence number, all after `next`.
    kept: VecDeque<BufferedSegment>,
    /// The arrival of the kept segment that arrived first.
    oldest: Option<Instant>,
    bytes: u64,
    /// How long segments were kept until the missing segments arrived, smoothed with weight 1/8 like round-trip
    /// times (RFC 6298).
    took: Option<Duration>,
    /// All segments must be passed up at once, because memory is short.
    release: bool,
}

impl Reorder {
    /// An empty buffer.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            next: None,
            kept: VecDeque::new(),
            oldest: None,
            bytes: 0,
            took: None,
            release: false,
        }
    }

    /// How long a segment is kept.
    fn patience(&self) -> Duration {
        let (least, most) = self.settings.bounds;
        self.took.map_or(self.settings.first, |took| {
            (took * u64::from(Settings::ALPHA)).clamp(least, most)
        })
    }

    fn keep(&mut self, now: Instant, segment: Segment) {
        let at = self
            .kept
            .partition_point(|k| k.segment.seq == segment.seq || k.segment.seq.before(segment.seq));
        self.bytes += segment.payload.len() as u64;
        self.oldest.get_or_insert(now);
        self.kept.insert(
            at,
            BufferedSegment {
                segment,
                since: now,
            },
        );
    }

    /// Forwards the segments that are in order now, and measures how long they were kept.
    fn advance(&mut self, now: Instant, up: &mut VecDeque<Segment>) {
        let mut waited = None;
        while let (Some(next), Some(first)) = (self.next, self.kept.front())
            && !next.before(first.segment.seq)
        {
            waited = waited.max(Some(now.since(first.since)));
            self.pop(up);
        }
        if let Some(waited) = waited {
            self.find_oldest();
            self.took = Some(match self.took {
                None => waited,
                Some(took) => (took * 7 + waited) / 8,
            });
        }
    }

    /// Forwards the first kept segment, in order or not.
    fn pop(&mut self, up: &mut VecDeque<Segment>) {
        let Some(first) = self.kept.pop_front() else {
            return;
        };
        self.bytes -= first.segment.payload.len() as u64;
        let end = first.end();
        if self.next.is_none_or(|next| next.before(end)) {
            self.next = Some(end);
        }
        up.push_back(first.segment);
    }

    fn release_all(&mut self, up: &mut VecDeque<Segment>) {
        while !self.kept.is_empty() {
            self.pop(up);
        }
        self.oldest = None;
        self.release = false;
    }

    /// Must be called after [`Self::pop`], once after several calls.
    fn find_oldest(&mut self) {
        self.oldest = self.kept.iter().map(|k| k.since).min();
    }
}

impl Stage for Reorder {
    fn output(&mut self, _cx: &StageContext, segment: Segment, out: &mut VecDeque<Packet>) {
        out.push_back(Packet::Tcp(segment));
    }

    fn input(
        &mut self,
        now: Instant,
        segment: Segment,
        up: &mut VecDeque<Segment>,
        _out: &mut VecDeque<Packet>,
    ) {
        let next = match self.next {
            Some(next) if !segment.flags.contains(Flags::SYN) => next,
            _ => segment.seq,
        };
        // Segments without sequence space have no place in the order, and resets end the connection: neither
        // waits.
        if segment.seq_len() == 0 || segment.flags.contains(Flags::RST) {
            up.push_back(segment);
            return;
        }
        if next.before(segment.seq) {
            self.keep(now, segment);
            if self.kept.len() > self.settings.most {
                self.release_all(up);
            }
            return;
        }
        let end = end(&segment);
        if self.next.is_none() || next.before(end) {
            self.next = Some(end);
        }
        up.push_back(segment);
        self.advance(now, up);
    }

    fn next_timeout(&self) -> Option<Instant> {
        Some(match self.release {
            true => self.oldest?,
            false => self.oldest? + self.patience(),
        })
    }

    fn timeout(&mut self, now: Instant, up: &mut VecDeque<Segment>, _out: &mut VecDeque<Packet>) {
        while self.next_timeout().is_some_and(|t| t <= now) {
            // All segments before one that has waited long enough are passed up with it, and so are those that
            // follow in order.
            let patience = self.patience();
            let due = |k: &BufferedSegment| self.release || k.since + patience <= now;
            let Some(last) = self.kept.iter().rposition(due) else {
                return;
            };
            for _ in 0..=last {
                self.pop(up);
            }
            while let (Some(next), Some(first)) = (self.next, self.kept.front())
                && !next.before(first.segment.seq)
            {
                self.pop(up);
            }
            self.find_oldest();
        }
        self.release &= !self.kept.is_empty();
    }

    fn stored(&self) -> (u64, usize) {
        (self.bytes, self.kept.len())
    }

    fn shed(&mut self) {
        self.release = !self.kept.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spindle_wire::{Endpoint, Payload};

    const FIRST: u32 = u32::MAX - 5_000;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    /// Segment `n` of 1000 bytes, counted from 0. The segments cross the end of the sequence number space.
    fn data(n: u32) -> Segment {
        let end = Endpoint::new(std::net::Ipv4Addr::LOCALHOST.into(), 1);
        Segment {
            seq: SeqNumber(FIRST.wrapping_add(1000 * n)),
            payload: Payload::Length(1000),
            ..Segment::new(end, end)
        }
    }

    fn number(segment: &Segment) -> u32 {
        segment.seq.0.wrapping_sub(FIRST) / 1000
    }

    /// A buffer that has seen the SYN.
    fn open() -> Reorder {
        let mut buffer = Reorder::new(Settings::default());
        let mut syn = data(0);
        syn.seq = SeqNumber(FIRST.wrapping_sub(1));
        syn.payload = Payload::Length(0);
        syn.flags = Flags::SYN;
        assert_eq!(take(&mut buffer, 0, syn).len(), 1);
        buffer
    }

    fn take(buffer: &mut Reorder, us: u64, segment: Segment) -> Vec<u32> {
        let (mut up, mut out) = (VecDeque::new(), VecDeque::new());
        buffer.input(at(us), segment, &mut up, &mut out);
        assert!(out.is_empty());
        up.iter().map(number).collect()
    }

    fn time(buffer: &mut Reorder, us: u64) -> Vec<u32> {
        let (mut up, mut out) = (VecDeque::new(), VecDeque::new());
        buffer.timeout(at(us), &mut up, &mut out);
        up.iter().map(number).collect()
    }

    #[test]
    fn overtaking_segments_wait_for_the_overtaken_one() {
        let mut b = open();
        assert_eq!(take(&mut b, 1, data(0)), [0]);
        assert_eq!(take(&mut b, 2, data(2)), []);
        assert_eq!(take(&mut b, 3, data(3)), []);
        assert_eq!(b.stored(), (2000, 2));
        assert_eq!(take(&mut b, 302, data(1)), [1, 2, 3]);
        assert_eq!(b.stored(), (0, 0));
        assert_eq!(b.next_timeout(), None);
        // Reordering took 300 us. The next wait is twice as long.
        assert_eq!(take(&mut b, 1000, data(5)), []);
        assert_eq!(b.next_timeout(), Some(at(1600)));
    }

    #[test]
    fn missing_segment_is_waited_for_only_until_a_timeout() {
        let mut b = open();
        assert_eq!(take(&mut b, 0, data(1)), []);
        assert_eq!(take(&mut b, 500, data(3)), []);
        assert_eq!(b.next_timeout(), Some(at(2000)));
        assert_eq!(time(&mut b, 1999), []);
        assert_eq!(time(&mut b, 2000), [1]);
        assert_eq!(b.next_timeout(), Some(at(2500)));
        // A late segment is passed up as it is, and the others go on waiting.
        assert_eq!(take(&mut b, 2100, data(0)), [0]);
        assert_eq!(time(&mut b, 2500), [3]);
        assert_eq!(b.next_timeout(), None);
    }

    #[test]
    fn segments_without_sequence_space_and_resets_do_not_wait() {
        let mut b = open();
        let mut ack = data(7);
        ack.payload = Payload::Length(0);
        assert_eq!(take(&mut b, 1, ack.clone()), [7]);
        let mut reset = data(7);
        reset.flags = Flags::RST;
        assert_eq!(take(&mut b, 1, reset), [7]);
        ack.flags = Flags::FIN;
        assert_eq!(take(&mut b, 1, ack), []);
    }

    #[test]
    fn kept_segments_are_bounded_and_released_when_memory_is_short() {
        let mut b = open();
        for n in 1..=1024 {
            assert_eq!(take(&mut b, 1, data(n)), []);
        }
        assert_eq!(take(&mut b, 1, data(1025)).len(), 1025);
        assert_eq!(b.stored(), (0, 0));
        assert_eq!(take(&mut b, 2, data(1027)), []);
        b.shed();
        assert_eq!(b.next_timeout(), Some(at(2)));
        assert_eq!(time(&mut b, 2), [1027]);
    }

    proptest! {
        /// Every segment that arrives is passed up once, whatever the order of arrival. Segments are passed up
        /// in order unless time runs out, and none are left.
        #[test]
        fn each_arriving_segment_is_passed_up_once(
            order in Just((0u32..60).collect::<Vec<_>>()).prop_shuffle(),
            lost in proptest::collection::vec(proptest::bool::weighted(0.01), 60),
            twice in proptest::collection::vec(any::<bool>(), 60),
            gaps in proptest::collection::vec(0u64..40, 60),
        ) {
            let mut b = open();
            let (mut now, mut up, mut came, mut ran_out) = (0, Vec::new(), Vec::new(), false);
            for (n, gap) in order.iter().zip(gaps) {
                now += gap;
                let late = time(&mut b, now);
                ran_out |= !late.is_empty();
                up.extend(late);
                if lost[*n as usize] {
                    continue;
                }
                for _ in 0..1 + u32::from(twice[*n as usize]) {
                    came.push(*n);
                    up.extend(take(&mut b, now, data(*n)));
                    prop_assert_eq!(b.oldest, b.kept.iter().map(|k| k.since).min());
                }
            }
            while let Some(t) = b.next_timeout() {
                ran_out = true;
                now = t.since(Instant::ZERO).as_nanos() / 1000 + 1;
                up.extend(time(&mut b, now));
            }
            prop_assert_eq!(b.stored(), (0, 0));
            if !ran_out {
                let mut seen = std::collections::BTreeSet::new();
                let firsts: Vec<u32> = up.iter().copied().filter(|n| seen.insert(*n)).collect();
                prop_assert!(firsts.is_sorted(), "{firsts:?}");
            }
            up.sort_unstable();
            came.sort_unstable();
            prop_assert_eq!(up, came);
        }
    }
}
