//! CoFUSO: parities of the segments that are most likely lost on the worst subflow, sent over the best subflow
//! (CoFUSO section 4).

use std::sync::Arc;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_codes::{ReedSolomon, Shape, authors_shape, dynamic_shape, fixed_shape};

use super::choice::{self, Apart};
use super::condition::Conditions;
use super::{
    Action, Capabilities, Eligibility, PathQuality, Prospect, Recovery, RecoveryFactory,
    SubflowView, View, Window, WorstOf,
};
use crate::types::{SubflowId, SubflowPosition};

/// Most packets of a block: the header has 8 bits for the number (CoFUSO section 5.1; mechanisms A2.4).
const MOST_SOURCES: usize = u8::MAX as usize;

/// How many packets a block has, and how many parities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CodingRate {
    /// As many as the expected losses require (CoFUSO section 4.2.2, Algorithm 2).
    Dynamic,
    /// This many parities for each packet, with one parity for each block (CoFUSO section 6.2.4).
    Fixed(f64),
    /// As in the code published with the paper: one parity for as many packets as were sent per retransmission.
    Authors,
}

/// CoFUSO's policy; the value is also its own factory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoFuso {
    /// The most parities of a block (M_max).
    pub max_parities: usize,
    /// The most packets of a block (K_max). `None` means as many as the header can express, 255.
    pub max_block: Option<usize>,
    /// The loss estimate and the path metric.
    pub condition: PathQuality,
    /// How large blocks are.
    pub rate: CodingRate,
    /// Which segments may be copied once all are covered by parities, or if the peer decodes no parities.
    pub eligibility: Eligibility,
    /// The subflows among which the worst is chosen.
    pub worst_of: WorstOf,
    /// No segment is copied before parities cover everything in flight on all subflows. Otherwise the worst
    /// subflow's segments are copied once parities cover them, regardless of other subflows' segments
    /// (Algorithm 2 to the letter).
    pub coding_first: bool,
}

impl CoFuso {
    /// As in the testbed (CoFUSO section 5.2): one parity, of at most 30 packets.
    pub const TESTBED: Self = Self {
        max_parities: 1,
        max_block: Some(30),
        condition: PathQuality::TESTBED,
        rate: CodingRate::Dynamic,
        eligibility: Eligibility::Unacknowledged,
        worst_of: WorstOf::Copyable,
        coding_first: false,
    };

    /// As in the simulations (CoFUSO section 6.2).
    pub const SIMULATION: Self = Self {
        max_parities: 3,
        max_block: None,
        condition: PathQuality::SIMULATION,
        ..Self::TESTBED
    };

    /// M_max and K_max, as far as the header can express them and the code supports them.
    fn limits(&self) -> Shape {
        let parities = self.max_parities.min(usize::from(u8::MAX));
        let sources = self.max_block.map_or(MOST_SOURCES, |k| k.min(MOST_SOURCES));
        Shape::new(sources.min(ReedSolomon::MAX_TOTAL - parities), parities)
    }

    /// The next block of subflow `s` if `eligible` packets of it may be coded.
    fn shape(&self, s: &SubflowView, eligible: usize) -> Option<Shape> {
        let most = self.limits();
        let shape = match self.rate {
            CodingRate::Dynamic => {
                let loss = self.condition.loss(s);
                dynamic_shape(loss, eligible, most.sources, most.parities)
            }
            CodingRate::Fixed(rate) => fixed_shape(rate, eligible, most.sources),
            CodingRate::Authors => {
                let since = s.since_retransmission;
                authors_shape(s.sent, s.retransmitted, since, eligible.min(most.sources))
            }
        };
        shape.filter(|_| most.parities > 0)
    }
}

/// The block of a subflow that was begun last (the paper's K, M and i).
#[derive(Clone, Copy, Debug)]
struct Block {
    of: SubflowId,
    /// Position of its first byte.
    first: SubflowPosition,
    shape: Shape,
    /// The index of its next parity.
    next: usize,
    /// Most payload bytes of a parity.
    parity_len: u32,
}

impl Block {
    /// Whether more parities of it must be sent. There are none if the core refused to begin the block, or once
    /// all of it has arrived.
    fn goes_on(&self, s: &SubflowView) -> bool {
        let missing = s
            .oldest_unprotected
            .is_some_and(|o| o.position < s.coded_to);
        self.next < self.shape.parities && self.first < s.coded_to && missing
    }
}

#[derive(Debug)]
struct CoFusoPolicy {
    settings: CoFuso,
    /// One block for each subflow that ever was the worst, in no order.
    blocks: Vec<Block>,
    rng: Xoshiro256PlusPlus,
}

impl RecoveryFactory for CoFuso {
    fn build(&self, seed: u64) -> Box<dyn Recovery> {
        Box::new(CoFusoPolicy {
            settings: *self,
            blocks: Vec::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            block_parities: true,
            ..Capabilities::default()
        }
    }

    fn for_unmodified_receivers(&self) -> Option<Arc<dyn RecoveryFactory>> {
        Some(Arc::new(Self {
            eligibility: Eligibility::NotDataAcked,
            ..*self
        }))
    }
}

impl CoFusoPolicy {
    /// The block whose next parity is due on the worst subflow (Algorithm 2): the block that was begun, or else
    /// a new one. `None` if all eligible segments are covered, so that copies are due.
    fn block(&self, worst: &SubflowView) -> Option<Block> {
        let begun = self.blocks.iter().find(|b| b.of == worst.id);
        if let Some(b) = begun.filter(|b| b.goes_on(worst)) {
            return Some(*b);
        }
        let run = worst.uncoded?;
        // A block that the core refused to begin is not requested again.
        if begun.is_some_and(|b| b.first == run.first) {
            return None;
        }
        Some(Block {
            of: worst.id,
            first: run.first,
            shape: self.settings.shape(worst, run.segments)?,
            next: 0,
            parity_len: run.parity_len,
        })
    }

    /// The worst subflow, whose segments are protected next.
    fn worst<'a>(&self, view: &View<'a>, ranking: &Conditions) -> Option<&'a SubflowView> {
        let to_be_coded =
            |s: &SubflowView| s.oldest_unprotected.is_some() && self.block(s).is_some();
        let coding = self.settings.coding_first && view.decodes;
        let first = coding.then(|| choice::worst_where(view, ranking, to_be_coded));
        first
            .flatten()
            .or_else(|| choice::worst(view, self.settings.worst_of, ranking))
    }

    fn remember(&mut self, block: Block) {
        match self.blocks.iter_mut().find(|b| b.of == block.of) {
            Some(b) => *b = block,
            None => self.blocks.push(block),
        }
    }
}

impl Recovery for CoFusoPolicy {
    fn on_subflow_ended(&mut self, subflow: SubflowId) {
        self.blocks.retain(|b| b.of != subflow);
    }

    fn eligibility(&self) -> Eligibility {
        self.settings.eligibility
    }

    fn longest_block(&self) -> usize {
        self.settings.limits().sources
    }

    fn is_interested(&self, prospect: &Prospect) -> bool {
        choice::should_recover(prospect, self.settings.eligibility)
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        if !self.is_interested(&view.prospect()) {
            return Action::Nothing;
        }
        let ranking = self.settings.condition.over(view.subflows);
        let Some(worst) = self.worst(view, &ranking) else {
            return Action::Nothing;
        };
        let of = worst.id;
        if let Some(block) = self.block(worst).filter(|_| view.decodes) {
            let bytes = u64::from(block.parity_len);
            let apart = Apart::default();
            let best = choice::best(view, of, bytes, apart, &ranking, &mut self.rng);
            let Some(best) = best else {
                return Action::Nothing;
            };
            self.remember(Block {
                next: block.next + 1,
                ..block
            });
            return Action::BlockParity {
                of,
                first: block.first,
                segments: block.shape.sources,
                index: block.next,
                parities: block.shape.parities,
                on: best.id,
            };
        }
        let Some(segment) = worst.oldest_unprotected else {
            return Action::Nothing;
        };
        let apart = Apart {
            always: choice::is_held_back(view, of, self.settings.eligibility),
            on_ties: false,
        };
        let bytes = u64::from(segment.len);
        let best = choice::best(view, of, bytes, apart, &ranking, &mut self.rng);
        best.map_or(Action::Nothing, |best| Action::Copy {
            of,
            position: segment.position,
            on: best.id,
            window: Window::Inside,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{subflow, view};
    use super::super::{RunView, SegmentView, Trigger};
    use super::*;
    use crate::types::DataOffset;
    use spindle_units::Instant;

    /// Two subflows and a policy. The first subflow has `packets` packets of 1000 bytes in flight, in order.
    /// The scene takes the core's part.
    struct Scene {
        policy: Box<dyn Recovery>,
        subflows: [SubflowView; 2],
        packets: usize,
        /// How many packets are in blocks, copied, and acknowledged, each counted from the first packet.
        coded: usize,
        copied: usize,
        acked: usize,
        new_data: bool,
        decodes: bool,
    }

    /// What was sent: parities as (first packet, K, index, M), copies as the number of their packet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Sent {
        Parity(usize, usize, usize, usize),
        Copied(usize),
        None,
    }
    use Sent::{Copied, Parity};

    impl Scene {
        fn new(settings: CoFuso, packets: usize) -> Self {
            let mut subflows = [subflow(SubflowId(0)), subflow(SubflowId(1))];
            subflows[0].in_flight = subflows[0].cwnd;
            subflows[1].cwnd = 10_000_000;
            Self {
                policy: settings.build(1),
                subflows,
                packets,
                coded: 0,
                copied: 0,
                acked: 0,
                new_data: false,
                decodes: true,
            }
        }

        /// Sets the worst subflow's L to `tenths` / 10, with the weights of the simulations.
        fn with_loss(mut self, tenths: u64) -> Self {
            let s = &mut self.subflows[0];
            (s.sent, s.retransmitted, s.since_retransmission) = (1000, 200 * tenths, u64::MAX);
            self
        }

        fn at(packet: usize) -> SubflowPosition {
            SubflowPosition::FIRST_BYTE + 1000 * packet as u64
        }

        fn ask(&mut self) -> Sent {
            let eligible = self.copied.max(self.acked);
            let uncoded = self.coded.max(eligible);
            let s = &mut self.subflows[0];
            s.oldest_unprotected = (eligible < self.packets).then(|| SegmentView {
                position: Self::at(eligible),
                len: 1000,
                offset: DataOffset::START,
                sent_at: Instant::ZERO,
                retransmitted: false,
            });
            s.uncoded = (uncoded < self.packets).then(|| RunView {
                first: Self::at(uncoded),
                segments: (self.packets - uncoded).min(self.policy.longest_block()),
                parity_len: 1020,
            });
            s.coded_to = if self.coded == 0 {
                SubflowPosition::SYN
            } else {
                Self::at(self.coded)
            };
            s.acked_to = Self::at(self.acked);
            let v = View {
                decodes: self.decodes,
                ..view(&self.subflows, self.new_data, Trigger::Ack)
            };
            let packet = |at: SubflowPosition| (at - SubflowPosition::FIRST_BYTE) as usize / 1000;
            match self.policy.on_opportunity(&v) {
                Action::BlockParity {
                    of,
                    first,
                    segments,
                    index,
                    parities,
                    on,
                } => {
                    assert_eq!((of, on), (SubflowId(0), SubflowId(1)));
                    if index == 0 {
                        self.coded = packet(first) + segments;
                    }
                    Parity(packet(first), segments, index, parities)
                }
                Action::Copy {
                    of, position, on, ..
                } => {
                    assert_eq!((of, on), (SubflowId(0), SubflowId(1)));
                    self.copied = packet(position) + 1;
                    Copied(packet(position))
                }
                Action::Nothing => Sent::None,
                other => panic!("{other:?}"),
            }
        }

        fn sent(&mut self, n: usize) -> Vec<Sent> {
            (0..n).map(|_| self.ask()).collect()
        }
    }

    #[test]
    fn block_sizes_are_the_documented_ones() {
        let simulation =
            |tenths, packets| Scene::new(CoFuso::SIMULATION, packets).with_loss(tenths);
        assert_eq!(
            simulation(1, 50).sent(6),
            [
                Parity(0, 30, 0, 3),
                Parity(0, 30, 1, 3),
                Parity(0, 30, 2, 3),
                Parity(30, 20, 0, 2),
                Parity(30, 20, 1, 2),
                Copied(0),
            ]
        );
        assert_eq!(simulation(5, 50).ask(), Parity(0, 6, 0, 3));
        assert_eq!(simulation(0, 7).sent(2), [Parity(0, 7, 0, 1), Copied(0)]);
        let mut testbed = Scene::new(CoFuso::TESTBED, 29);
        let s = &mut testbed.subflows[0];
        // L = 0.95 / 48. The other term is negligible.
        (s.sent, s.retransmitted, s.since_retransmission) = (u64::MAX, 1, 48);
        assert_eq!(testbed.ask(), Parity(0, 29, 0, 1));
    }

    #[test]
    fn each_segment_is_copied_once_after_parities_cover_all() {
        let mut scene = Scene::new(CoFuso::TESTBED, 3);
        assert_eq!(
            scene.sent(5),
            [
                Parity(0, 3, 0, 1),
                Copied(0),
                Copied(1),
                Copied(2),
                Sent::None
            ]
        );
        // More segments were sent meanwhile, so parities come first again.
        scene.packets = 5;
        assert_eq!(scene.sent(3), [Parity(3, 2, 0, 1), Copied(3), Copied(4)]);
    }

    #[test]
    fn block_pauses_for_new_data_and_goes_on_later() {
        let mut scene = Scene::new(CoFuso::SIMULATION, 6).with_loss(5);
        assert_eq!(scene.ask(), Parity(0, 6, 0, 3));
        scene.new_data = true;
        assert_eq!(scene.ask(), Sent::None);
        scene.new_data = false;
        scene.packets = 10;
        assert_eq!(
            scene.sent(3),
            [Parity(0, 6, 1, 3), Parity(0, 6, 2, 3), Parity(6, 4, 0, 2)]
        );
    }

    #[test]
    fn block_is_given_up_once_it_has_arrived() {
        let mut scene = Scene::new(CoFuso::SIMULATION, 10).with_loss(5);
        assert_eq!(scene.ask(), Parity(0, 6, 0, 3));
        scene.acked = 6;
        assert_eq!(scene.ask(), Parity(6, 4, 0, 2));
    }

    #[test]
    fn each_subflow_has_its_own_block() {
        let mut scene = Scene::new(CoFuso::SIMULATION, 6).with_loss(5);
        assert_eq!(scene.ask(), Parity(0, 6, 0, 3));
        // Meanwhile the other subflow is worse.
        let (s, run) = (
            &mut scene.subflows,
            RunView {
                first: SubflowPosition::FIRST_BYTE,
                segments: 2,
                parity_len: 1020,
            },
        );
        (s[1].sent, s[1].retransmitted, s[1].since_retransmission) = (100, 90, 1);
        (s[1].oldest_unprotected, s[1].uncoded) = (s[0].oldest_unprotected, Some(run));
        let v = View {
            decodes: true,
            ..view(&scene.subflows, false, Trigger::Ack)
        };
        let action = scene.policy.on_opportunity(&v);
        assert!(matches!(
            action,
            Action::BlockParity {
                of: SubflowId(1),
                index: 0,
                segments: 2,
                ..
            }
        ));
        scene.subflows[1] = Scene::new(CoFuso::SIMULATION, 0).subflows[1];
        assert_eq!(scene.ask(), Parity(0, 6, 1, 3), "it goes on");
    }

    #[test]
    fn copies_of_the_worst_precede_parities_of_others_unless_coding_first() {
        for (coding_first, second) in [(false, Copied(0)), (true, Parity(0, 2, 0, 1))] {
            let settings = CoFuso {
                coding_first,
                ..CoFuso::TESTBED
            };
            let mut scene = Scene::new(settings, 3).with_loss(1);
            assert_eq!(scene.ask(), Parity(0, 3, 0, 1));
            // The other subflow, which is not as bad, has two segments without a parity.
            let run = RunView {
                first: SubflowPosition::FIRST_BYTE,
                segments: 2,
                parity_len: 1020,
            };
            let s = &mut scene.subflows;
            (s[1].oldest_unprotected, s[1].uncoded) = (s[0].oldest_unprotected, Some(run));
            s[0].uncoded = None;
            s[0].coded_to = Scene::at(3);
            let v = View {
                decodes: true,
                ..view(&scene.subflows, false, Trigger::Ack)
            };
            match (scene.policy.on_opportunity(&v), second) {
                (
                    Action::Copy {
                        of: SubflowId(0),
                        position: SubflowPosition::FIRST_BYTE,
                        ..
                    },
                    Copied(0),
                ) => {}
                (
                    Action::BlockParity {
                        of: SubflowId(1),
                        first: SubflowPosition::FIRST_BYTE,
                        segments: 2,
                        ..
                    },
                    Parity(..),
                ) => {}
                (found, want) => panic!("{found:?}, want {want:?}"),
            }
        }
    }

    /// CoFUSO section 3.1, Algorithm 1: the worst subflow is one of all with data in flight.
    #[test]
    fn worst_subflow_of_all_in_flight_with_nothing_to_protect_ends_the_round() {
        for (worst_of, acts) in [(WorstOf::Copyable, true), (WorstOf::InFlight, false)] {
            let settings = CoFuso {
                worst_of,
                ..CoFuso::TESTBED
            };
            let mut scene = Scene::new(settings, 3);
            let s = &mut scene.subflows[1];
            (s.sent, s.retransmitted, s.in_flight) = (100, 90, 1000);
            assert_eq!(scene.ask() != Sent::None, acts, "{worst_of:?}");
        }
    }

    #[test]
    fn peer_that_does_not_decode_gets_copies() {
        let mut scene = Scene::new(CoFuso::SIMULATION, 2).with_loss(5);
        scene.decodes = false;
        assert_eq!(scene.sent(3), [Copied(0), Copied(1), Sent::None]);
    }

    #[test]
    fn block_that_the_core_refused_is_copied_instead() {
        let mut scene = Scene::new(CoFuso::SIMULATION, 2).with_loss(5);
        assert_eq!(scene.ask(), Parity(0, 2, 0, 1));
        scene.coded = 0;
        assert_eq!(scene.ask(), Copied(0));
        assert_eq!(
            scene.ask(),
            Parity(1, 1, 0, 1),
            "the next block is another one"
        );
    }

    #[test]
    fn coding_rate_may_be_fixed_or_as_in_the_authors_code() {
        let fixed = |rate| CoFuso {
            rate: CodingRate::Fixed(rate),
            ..CoFuso::SIMULATION
        };
        let mut scene = Scene::new(fixed(0.16), 10).with_loss(5);
        assert_eq!(
            scene.sent(3),
            [Parity(0, 6, 0, 1), Parity(6, 4, 0, 1), Copied(0)]
        );
        let authors = CoFuso {
            rate: CodingRate::Authors,
            ..CoFuso::TESTBED
        };
        let mut scene = Scene::new(authors, 50);
        let s = &mut scene.subflows[0];
        (s.sent, s.retransmitted) = (100, 10);
        assert_eq!(scene.ask(), Parity(0, 10, 0, 1));
        assert_eq!(Scene::new(authors, 1).ask(), Copied(0), "no block of one");
    }

    #[test]
    fn block_limits_fit_the_header_and_the_code() {
        for m in 0..300 {
            let settings = CoFuso {
                max_parities: m,
                ..CoFuso::SIMULATION
            };
            let most = settings.limits();
            assert!(most.sources <= 255 && most.parities <= 255);
            assert!(most.sources + most.parities <= ReedSolomon::MAX_TOTAL);
        }
        let none = CoFuso {
            max_parities: 0,
            ..CoFuso::SIMULATION
        };
        assert_eq!(Scene::new(none, 5).ask(), Copied(0));
        let fixed = CoFuso {
            rate: CodingRate::Fixed(0.5),
            ..none
        };
        assert_eq!(Scene::new(fixed, 5).ask(), Copied(0));
    }

    #[test]
    fn parity_needs_room_for_its_header() {
        let mut scene = Scene::new(CoFuso::TESTBED, 3);
        scene.subflows[1].cwnd = 1019;
        assert_eq!(scene.ask(), Sent::None);
        scene.subflows[1].cwnd = 1020;
        assert_eq!(scene.ask(), Parity(0, 3, 0, 1));
    }
}
