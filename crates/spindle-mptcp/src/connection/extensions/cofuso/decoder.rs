//! Decoder of one subflow. It keeps arrived packets that parities may need, and decodes missing packets (CoFUSO
//! sections 4.3 and 5.3, mechanisms A2.5).
//!
//! The peer may send anything. So the decoder stores a bounded amount, and drops parities that contradict
//! themselves or the data that arrived. A decoded packet is accepted only if it fits its hole to the byte.

use std::collections::{BTreeMap, VecDeque};

use spindle_codes::{CodeError, ErasureCode, Label, Parity, ReedSolomon, Shape, Source};
use spindle_wire::Payload;

use super::super::payloads::{body_of, payload_of};
use crate::steps::Steps;
use crate::types::SubflowPosition;

/// Maximum number of packets kept: the size of the largest possible block (CoFUSO section 5.3: K_max).
const MOST_PACKETS: usize = u8::MAX as usize;
/// Maximum number of parities kept, our choice: the parities of a window of 256 packets at L = 0.5, where three
/// parities are made of six packets.
const MOST_PARITIES: usize = 128;
/// Maximum number of settled blocks that are remembered. A late parity of a block that was forgotten is kept
/// for a while.
const MOST_SETTLED: usize = 64;

/// A block as its parities describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Block {
    /// Positions of the block's first byte and of the first byte after the block.
    pub(in crate::connection) first: SubflowPosition,
    pub(in crate::connection) end: SubflowPosition,
    pub(in crate::connection) shape: Shape,
    /// Payload bytes of its longest packet.
    pub(in crate::connection) width: usize,
}

impl Block {
    fn overlaps(&self, other: &Self) -> bool {
        self.first < other.end && other.first < self.end
    }

    /// Whether such a block can exist: each packet has at least one byte and at most `width` bytes.
    fn is_possible(&self) -> bool {
        let span = self.end.saturating_since(self.first);
        let sources = self.shape.sources as u64;
        let most = sources.saturating_mul(self.width as u64);
        span >= sources && span >= self.width as u64 && span <= most
    }
}

/// A parity that is kept, with its block, index, label and body.
#[derive(Clone, Debug)]
struct Kept {
    block: Block,
    index: usize,
    label: Label,
    body: Payload,
}

/// The result of adding a parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Verdict {
    /// The parity was kept.
    Taken,
    /// The parity is not needed: its block is complete, or the parity itself is already known.
    Needless,
    /// The parity contradicts itself or others.
    Refused,
}

/// A missing packet that was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Found {
    pub(in crate::connection) position: SubflowPosition,
    /// Low 32 bits of its DSN.
    pub(in crate::connection) dsn: u32,
    pub(in crate::connection) payload: Payload,
}

/// The result of decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) struct Decoded {
    pub(in crate::connection) packets: Vec<Found>,
    /// Number of blocks given up because their parities cannot be true: at most one.
    pub(in crate::connection) contradictions: u64,
}

/// State of a block.
enum State<'a> {
    /// No packet is missing.
    Whole,
    /// It is not known yet where all missing packets belong.
    Waits,
    /// The block cannot be what its parities describe.
    Impossible,
    /// The block can be decoded. The first list has the packets, with `None` for each missing one. The second
    /// list has the holes: the position and bytes of each, and the number of packets in it.
    Decodable(Vec<Option<Source<'a>>>, Vec<(SubflowPosition, u64, usize)>),
}

/// The packets and parities of one subflow.
#[derive(Debug, Default)]
pub(in crate::connection) struct Decoder {
    /// Payload and DSN (low 32 bits) by position.
    packets: BTreeMap<SubflowPosition, (u32, Payload)>,
    parities: VecDeque<Kept>,
    bytes: u64,
    /// Blocks that were decoded or given up.
    settled: VecDeque<Block>,
    /// Loop iterations over stored packets and parities.
    pub(in crate::connection) steps: Steps,
}

impl Decoder {
    /// Bytes kept, and number of packets, parities and settled blocks.
    pub(in crate::connection) fn stored(&self) -> (u64, usize) {
        let pieces = self.packets.len() + self.parities.len() + self.settled.len();
        (self.bytes, pieces)
    }

    /// Keeps a packet as it was sent. At most `most` bytes are kept in total. Of older packets, those with the
    /// lowest positions are dropped.
    pub(in crate::connection) fn keep(
        &mut self,
        position: SubflowPosition,
        dsn: u32,
        payload: Payload,
        most: u64,
    ) {
        self.bytes += payload.len() as u64;
        if let Some((_, old)) = self.packets.insert(position, (dsn, payload)) {
            self.bytes -= old.len() as u64;
        }
        while self.packets.len() > MOST_PACKETS || self.bytes > most && !self.packets.is_empty() {
            if let Some((_, (_, gone))) = self.packets.pop_first() {
                self.bytes -= gone.len() as u64;
            }
        }
    }

    /// Adds a parity. `nxt` is the next in-order position of the subflow, and `most` is the maximum number of
    /// bytes kept in total.
    pub(in crate::connection) fn add(
        &mut self,
        block: Block,
        index: usize,
        (label, body): (Label, Payload),
        nxt: SubflowPosition,
        most: u64,
    ) -> Verdict {
        self.forget_whole(nxt);
        self.steps.add(2 * self.parities.len() + self.settled.len());
        let limits = ReedSolomon::new().limits();
        let shaped = limits.check(block.shape).is_ok() && index < block.shape.parities;
        if !shaped || !block.is_possible() || body.len() != block.width {
            return Verdict::Refused;
        }
        if block.end <= nxt || self.settled.contains(&block) {
            return Verdict::Needless;
        }
        let mut others = self.parities.iter().filter(|k| k.block.overlaps(&block));
        if others.any(|k| k.block != block) || self.settled.iter().any(|b| b.overlaps(&block)) {
            return Verdict::Refused;
        }
        let known = self.parities.iter();
        if known.filter(|k| k.block == block).any(|k| k.index == index) {
            return Verdict::Needless;
        }
        self.bytes += body.len() as u64;
        self.parities.push_back(Kept {
            block,
            index,
            label,
            body,
        });
        while self.parities.len() > MOST_PARITIES || self.bytes > most && self.parities.len() > 1 {
            if let Some(gone) = self.parities.pop_front() {
                self.bytes -= gone.body.len() as u64;
            }
        }
        Verdict::Taken
    }

    /// Decodes the block that contains the byte at `at`, if possible. Called when a part of the block has
    /// arrived.
    pub(in crate::connection) fn decode(&mut self, at: SubflowPosition) -> Decoded {
        self.steps.add(self.parities.len());
        let holds = |k: &&Kept| (k.block.first..k.block.end).contains(&at);
        let kept = self.parities.iter().find(holds);
        let Some(block) = kept.map(|k| k.block) else {
            return Decoded::default();
        };
        let decoded = match self.decode_block(&block) {
            None => return Decoded::default(),
            Some(Ok(packets)) => Decoded {
                packets,
                contradictions: 0,
            },
            Some(Err(())) => Decoded {
                packets: Vec::new(),
                contradictions: 1,
            },
        };
        self.settle(block);
        decoded
    }

    /// The missing packets of a block, an empty list if no packet is missing. `None` if the block must wait, an
    /// error if its parities cannot be true.
    fn decode_block(&self, block: &Block) -> Option<Result<Vec<Found>, ()>> {
        let (sources, holes) = match self.state(block) {
            State::Whole => return Some(Ok(Vec::new())),
            State::Waits => return None,
            State::Impossible => return Some(Err(())),
            State::Decodable(sources, holes) => (sources, holes),
        };
        let kept = self.parities.iter().filter(|k| k.block == *block);
        let parities: Vec<_> = kept
            .map(|k| Parity {
                index: k.index,
                label: k.label,
                body: body_of(&k.body),
            })
            .collect();
        let packets = match ReedSolomon::new().decode(block.shape, &sources, &parities) {
            Ok(packets) => packets,
            Err(CodeError::Undecodable { .. }) => return None,
            Err(_) => return Some(Err(())),
        };
        let mut packets = packets.into_iter();
        let mut found = Vec::new();
        for (start, len, count) in holes {
            let mut at = start;
            for p in packets.by_ref().take(count) {
                let payload = payload_of(p.content);
                let next = at + payload.len() as u64;
                found.push(Found {
                    position: at,
                    dsn: p.dsn,
                    payload,
                });
                at = next;
            }
            if at != start + len {
                return Some(Err(()));
            }
        }
        Some(Ok(found))
    }

    /// Places the stored packets in the block. A hole counts as the number of full packets that fill it. If
    /// more packets than these are missing, it is not known which holes contain the others until more packets
    /// arrive.
    fn state(&self, block: &Block) -> State<'_> {
        let Shape { sources: k, .. } = block.shape;
        let (mut sources, mut holes) = (Vec::with_capacity(k), Vec::new());
        let mut at = block.first;
        let members = self.packets.range(block.first..block.end);
        let members = members.map(|(p, (dsn, payload))| (*p, Some((*dsn, payload))));
        for (position, packet) in self.steps.each(members.chain([(block.end, None)])) {
            if position < at {
                return State::Impossible;
            }
            if position > at {
                let len = position - at;
                let count = len.div_ceil(block.width as u64) as usize;
                if sources.len() + count > k {
                    return State::Impossible;
                }
                holes.push((at, len, count));
                sources.extend((0..count).map(|_| None));
            }
            at = position;
            if let Some((dsn, payload)) = packet {
                at += payload.len() as u64;
                let body = body_of(payload);
                sources.push(Some(Source { dsn, body }));
            }
        }
        if sources.len() > k || at != block.end {
            return State::Impossible;
        }
        match (sources.len() == k, holes.is_empty()) {
            (true, true) => State::Whole,
            (true, false) => State::Decodable(sources, holes),
            (false, true) => State::Impossible,
            (false, false) => State::Waits,
        }
    }

    /// Settles a block that was decoded or given up. Later parities of it are not needed.
    fn settle(&mut self, block: Block) {
        let bytes = &mut self.bytes;
        self.parities.retain(|k| {
            let stays = k.block != block;
            *bytes -= if stays { 0 } else { k.body.len() as u64 };
            stays
        });
        let members = self.packets.range(block.first..block.end);
        let members: Vec<_> = members.map(|(position, _)| *position).collect();
        for position in members {
            if let Some((_, gone)) = self.packets.remove(&position) {
                self.bytes -= gone.len() as u64;
            }
        }
        if self.settled.len() == MOST_SETTLED {
            self.settled.pop_front();
        }
        self.settled.push_back(block);
    }

    /// Everything below `nxt` has arrived, so parities of it are not needed.
    fn forget_whole(&mut self, nxt: SubflowPosition) {
        let bytes = &mut self.bytes;
        self.parities.retain(|k| {
            let stays = k.block.end > nxt;
            *bytes -= if stays { 0 } else { k.body.len() as u64 };
            stays
        });
        self.settled.retain(|b| b.end > nxt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spindle_codes::Symbol;

    /// More bytes than any test needs.
    const ROOM: u64 = 1 << 30;

    const FIRST: SubflowPosition = SubflowPosition::FIRST_BYTE;

    struct Sent {
        packets: Vec<(SubflowPosition, u32, Payload)>,
        block: Block,
        symbols: Vec<Symbol>,
    }

    /// Creates packets of these lengths from position 1 on, and their parities.
    fn sent(lengths: &[usize], parities: usize, real: bool) -> Sent {
        let mut at = FIRST;
        let mut packets = Vec::new();
        for (k, len) in lengths.iter().enumerate() {
            let bytes: Vec<u8> = (0..*len).map(|x| (x * 7 + k * 31 + 1) as u8).collect();
            let payload = match real {
                true => Payload::from(bytes),
                false => Payload::Length(*len as u32),
            };
            packets.push((at, 90 + 2 * at.relative_number(), payload));
            at += *len as u64;
        }
        let sources: Vec<_> = packets
            .iter()
            .map(|(_, dsn, p)| Source {
                dsn: *dsn,
                body: body_of(p),
            })
            .collect();
        let shape = Shape::new(lengths.len(), parities);
        let code = ReedSolomon::new();
        let symbols = (0..parities).map(|k| code.encode(shape, k, &sources).unwrap());
        let symbols = symbols.collect();
        let block = Block {
            first: FIRST,
            end: at,
            shape,
            width: lengths.iter().copied().max().unwrap_or(0),
        };
        Sent {
            packets,
            block,
            symbols,
        }
    }

    fn add(d: &mut Decoder, s: &Sent, index: usize) -> Verdict {
        let symbol = s.symbols[index].clone();
        let body = payload_of(symbol.content);
        d.add(s.block, index, (symbol.label, body), FIRST, ROOM)
    }

    fn keep(d: &mut Decoder, s: &Sent, k: usize) {
        let (position, dsn, payload) = s.packets[k].clone();
        d.keep(position, dsn, payload, ROOM);
    }

    fn check_sum(d: &Decoder) {
        let packets: usize = d.packets.values().map(|p| p.1.len()).sum();
        let parities: usize = d.parities.iter().map(|k| k.body.len()).sum();
        assert_eq!(d.bytes, (packets + parities) as u64);
    }

    proptest! {
        /// For any loss and any order of arrival, a decoded packet equals the packet that was sent and is
        /// decoded once. Missing packets are decoded if the size of each hole determines the number of packets
        /// in it.
        #[test]
        fn missing_packets_are_decoded_once_in_any_order_of_arrival(
            lengths in prop::collection::vec(prop_oneof![3 => Just(1000usize), 1 => 1usize..1000], 1..40),
            parities in 1usize..4, real in any::<bool>(),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let s = sent(&lengths, parities, real);
            let mut d = Decoder::default();
            let mut found: Vec<Found> = Vec::new();
            let mut there = vec![false; lengths.len() + parities];
            for which in order {
                let k = which.index(there.len());
                there[k] = true;
                if k < lengths.len() {
                    keep(&mut d, &s, k);
                } else {
                    prop_assert_ne!(add(&mut d, &s, k - lengths.len()), Verdict::Refused);
                }
                let decoded = d.decode(s.packets.get(k).map_or(FIRST, |p| p.0));
                prop_assert_eq!(decoded.contradictions, 0);
                found.extend(decoded.packets);
                check_sum(&d);
            }
            let missing: Vec<usize> = (0..lengths.len()).filter(|k| !there[*k]).collect();
            for f in &found {
                let right = s.packets.iter().any(|p| (p.0, p.1) == (f.position, f.dsn) && p.2 == f.payload);
                prop_assert!(right, "{:?}", f);
            }
            let at_hand = there[lengths.len()..].iter().filter(|t| **t).count();
            let full = missing.iter().all(|k| lengths[*k] == s.block.width);
            if full && missing.len() <= at_hand {
                for k in missing {
                    prop_assert_eq!(found.iter().filter(|f| f.position == s.packets[k].0).count(), 1);
                }
            }
        }

        /// Arbitrary headers with arbitrary bodies cause no panic, and the stored amount is bounded.
        #[test]
        fn arbitrary_parities_cause_no_panic_and_storage_stays_bounded(
            all in prop::collection::vec((0u64..9000, 0u64..9000, 0usize..300, 0usize..300, 0usize..300, 0usize..1500, any::<u64>()), 0..300),
            packets in prop::collection::vec((0u64..9000, 1u32..1500), 0..100),
        ) {
            let mut d = Decoder::default();
            for (position, len) in packets {
                d.keep(SubflowPosition(position), 0, Payload::Length(len), 100_000);
            }
            for (first, span, sources, parities, index, width, word) in all {
                let first = SubflowPosition(first);
                let block = Block { first, end: first + span, shape: Shape::new(sources, parities), width };
                let label = Label { len: word as u32, dsn: (word >> 32) as u32 };
                d.add(block, index, (label, Payload::Length(width as u32)), FIRST, 100_000);
                d.decode(first);
                check_sum(&d);
                prop_assert!(d.stored().0 <= 101_500);
                prop_assert!(d.stored().1 <= MOST_PACKETS + MOST_PARITIES + MOST_SETTLED);
            }
        }
    }

    #[test]
    fn parities_of_a_decoded_block_are_needless() {
        let s = sent(&[1000, 1000, 700], 2, true);
        let mut d = Decoder::default();
        keep(&mut d, &s, 0);
        assert_eq!(add(&mut d, &s, 0), Verdict::Taken);
        assert_eq!(add(&mut d, &s, 0), Verdict::Needless);
        assert_eq!(d.decode(FIRST), Decoded::default(), "two are missing");
        keep(&mut d, &s, 2);
        let found = d.decode(FIRST).packets;
        assert_eq!((found.len(), found[0].position), (1, SubflowPosition(1001)));
        assert_eq!(d.stored(), (0, 1), "the block is cleared");
        assert_eq!(add(&mut d, &s, 1), Verdict::Needless);
        assert_eq!(d.decode(FIRST), Decoded::default());
        d.forget_whole(s.block.end);
        assert_eq!(d.stored(), (0, 0));
    }

    #[test]
    fn contradictory_parities_are_refused() {
        let s = sent(&[1000; 4], 2, false);
        let mut d = Decoder::default();
        let label = s.symbols[0].label;
        let mut say = |block: Block, index| {
            let body = Payload::Length(block.width as u32);
            d.add(block, index, (label, body), FIRST, ROOM)
        };
        let with = |sources, parities| Block {
            shape: Shape::new(sources, parities),
            ..s.block
        };
        for impossible in [
            with(0, 1),
            with(4, 0),
            with(3, 2),
            with(255, 3),
            with(5000, 1),
        ] {
            assert_eq!(say(impossible, 0), Verdict::Refused, "{impossible:?}");
        }
        assert_eq!(say(s.block, 2), Verdict::Refused, "no such index");
        assert_eq!(say(s.block, 1), Verdict::Taken);
        let beyond = Block {
            end: s.block.end + 1000,
            ..with(5, 2)
        };
        for other in [with(5, 2), with(4, 3), beyond] {
            assert_eq!(say(other, 0), Verdict::Refused, "{other:?}");
        }
        let behind = Block {
            first: s.block.end,
            end: s.block.end + 4000,
            ..s.block
        };
        assert_eq!(say(behind, 0), Verdict::Taken, "another block");
    }

    #[test]
    fn block_with_a_corrupt_parity_is_given_up() {
        let s = sent(&[1000, 1000, 1000], 1, true);
        for flip in [0u64, 3, 40] {
            let mut d = Decoder::default();
            keep(&mut d, &s, 0);
            keep(&mut d, &s, 2);
            let mut label = s.symbols[0].label;
            label.len ^= 1 << (flip % 32);
            let body = payload_of(s.symbols[0].content.clone());
            assert_eq!(
                d.add(s.block, 0, (label, body), FIRST, ROOM),
                Verdict::Taken
            );
            let decoded = d.decode(FIRST);
            assert_eq!((decoded.packets.len(), decoded.contradictions), (0, 1));
            assert_eq!(d.stored(), (0, 1));
        }
    }

    #[test]
    fn block_waits_if_hole_sizes_do_not_determine_the_number_of_packets() {
        // One hole of 1600 bytes: two packets of 300 bytes and one of 1000 bytes are missing.
        let s = sent(&[1000, 300, 300, 1000, 1000], 3, true);
        let mut d = Decoder::default();
        for k in [0, 4] {
            keep(&mut d, &s, k);
        }
        for k in 0..3 {
            assert_eq!(add(&mut d, &s, k), Verdict::Taken);
        }
        // A hole of 1600 bytes takes at least two packets, and three are missing.
        assert_eq!(d.decode(FIRST), Decoded::default());
        keep(&mut d, &s, 1);
        let found = d.decode(FIRST).packets;
        assert_eq!(found.len(), 2, "1300 bytes, two packets");
    }

    #[test]
    fn packets_with_the_lowest_positions_are_dropped_first() {
        let mut d = Decoder::default();
        for k in 0..1000u64 {
            d.keep(FIRST + k * 10, 0, Payload::Length(10), ROOM);
        }
        assert_eq!(d.stored(), (2550, 255));
        assert_eq!(d.packets.keys().next(), Some(&(FIRST + 745 * 10)));
        d.keep(SubflowPosition(20_000), 0, Payload::Length(10), 100);
        assert_eq!(d.stored().0, 100);
    }
}
