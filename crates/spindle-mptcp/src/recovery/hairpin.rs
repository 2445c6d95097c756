//! Hairpin's rule: the nearer the deadline, the more copies of a retransmission (Z. Meng et al., "Hairpin:
//! Rethinking Packet Loss Recovery in Edge-based Interactive Video Streaming", NSDI 2024).

use spindle_units::Duration;

use super::replicas::Replicas;
use super::{
    Action, Capabilities, Prospect, Recovery, RecoveryFactory, SentView, SubflowView, View,
};
use crate::types::SubflowId;

/// The policy. A retransmission that is lost can be repeated as long as round trips are left before the
/// deadline of the message, and costs a deadline miss in the last one. The number of copies minimises the
/// packets that are expected to be sent plus [`Self::penalty`] times the probability of a miss, over all round
/// trips that are left. This is the objective of Hairpin's Markov model for a single packet.
///
/// Without a deadline ([`super::MessageHints`]) or after it, a retransmission has no further copies. Hairpin
/// also protects first transmissions of a frame by parities; here they have none. Our choice: the rate of
/// retransmissions of the subflow is the estimate of the loss rate; the copies follow at once, inside the
/// window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hairpin {
    /// How many packets one deadline miss may cost. 10 000 by default: the authors' published model weighs a
    /// packet with 1e-4 of a miss (github.com/hkust-spark/hairpin, model/fec_w_rtx.py).
    pub penalty: f64,
}

impl Default for Hairpin {
    fn default() -> Self {
        Self { penalty: 10_000.0 }
    }
}

/// Most copies of a retransmission, counting itself. The authors' published model has at most five redundant
/// packets for each packet.
const MOST_COPIES: i32 = 6;
/// Most round trips that the computation looks ahead, as in the authors' published model.
const MOST_ROUNDS: u64 = 15;

impl Hairpin {
    /// The number of copies, counting the retransmission itself, with `rounds` round trips left, in each of
    /// which a copy is lost with probability `rate`: with V(0) = penalty, each V(n) is the minimum over the
    /// number c of copies of c + rate^c V(n - 1).
    fn copies(&self, rate: f64, rounds: u64) -> u32 {
        let (mut value, mut best) = (self.penalty, 1);
        for _ in 0..rounds.min(MOST_ROUNDS) {
            let mut lowest = f64::INFINITY;
            for copies in 1..=MOST_COPIES {
                let cost = f64::from(copies) + rate.powi(copies) * value;
                if cost < lowest {
                    (lowest, best) = (cost, copies);
                }
            }
            value = lowest;
        }
        best.unsigned_abs()
    }
}

/// How many more times a segment can be sent so that it arrives within `left`, counting now: it takes half a
/// round trip to arrive, and a whole one until it is known to be lost.
fn rounds(left: Duration, rtt: Duration) -> u64 {
    let (left, rtt) = (left.as_nanos(), rtt.as_nanos().max(1));
    match left.checked_sub(rtt / 2) {
        Some(spare) => 1 + spare / rtt,
        None => 0,
    }
}

#[derive(Debug)]
struct HairpinPolicy {
    settings: Hairpin,
    replicas: Replicas,
}

impl RecoveryFactory for Hairpin {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(HairpinPolicy {
            settings: *self,
            replicas: Replicas::default(),
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl Recovery for HairpinPolicy {
    fn on_sent(&mut self, sent: &SentView) {
        self.replicas.on_sent(sent);
    }

    fn on_subflow_ended(&mut self, subflow: SubflowId) {
        self.replicas.forget(subflow);
    }

    fn is_interested(&self, _prospect: &Prospect) -> bool {
        !self.replicas.is_empty()
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        let left = view.message.and_then(|m| m.time_left(view.now));
        let settings = self.settings;
        self.replicas.next(view, |s: &SubflowView, _| {
            let (Some(left), Some(rtt)) = (left, s.srtt) else {
                return 0;
            };
            settings.copies(s.retransmission_rate(), rounds(left, rtt)) - 1
        })
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::Instant;

    use super::super::tests::{subflow, view};
    use super::super::{MessageHints, MessageView, SegmentView, Trigger};
    use super::*;
    use crate::types::{DataOffset, SubflowPosition};

    #[test]
    fn copies_minimise_packets_and_weighted_misses_over_the_rounds_left() {
        let h = Hairpin::default();
        // One round: 1001, 102, 13, 5, 5.1 for 1 to 5 copies. Two: 1 + 0.1 x 5 = 1.5, 2 + 0.01 x 5.
        assert_eq!([1, 2, 9].map(|n| h.copies(0.1, n)), [4, 1, 1]);
        // One round: 29.3 and 13.3 for 5 and 6 copies. Two: 4.99, 3.20, 3.36. Three: 1.96, 2.29.
        assert_eq!([1, 2, 3].map(|n| h.copies(0.3, n)), [6, 2, 1]);
        assert_eq!(h.copies(0.0, 1), 1, "no loss");
        assert_eq!(h.copies(0.3, 0), 1, "too late");
    }

    #[test]
    fn rounds_leave_half_a_round_trip_to_arrive() {
        let ms = Duration::from_millis;
        let n = [4, 5, 14, 15, 100].map(|left| rounds(ms(left), ms(10)));
        assert_eq!(n, [0, 1, 1, 2, 10]);
    }

    /// How many times a retransmission is repeated with this much time left, at a loss rate of 10 % and an RTT
    /// of 280 us.
    fn repeats(left: Option<u64>) -> usize {
        let mut subflows = [subflow(SubflowId::FIRST)];
        (subflows[0].sent, subflows[0].retransmitted) = (100, 10);
        let mut v = view(&subflows, true, Trigger::Sent);
        v.message = left.map(|micros| MessageView {
            hints: MessageHints {
                deadline: Some(v.now + Duration::from_micros(micros)),
                ..MessageHints::default()
            },
            start: DataOffset::START,
        });
        let mut policy = Hairpin::default().build(1);
        let sent = SentView {
            now: Instant::ZERO,
            subflow: SubflowId::FIRST,
            segment: SegmentView {
                position: SubflowPosition::FIRST_BYTE,
                len: 1000,
                offset: DataOffset::START,
                sent_at: Instant::ZERO,
                retransmitted: false,
            },
            new: false,
        };
        policy.on_sent(&sent);
        let mut repeats = 0;
        while matches!(policy.on_opportunity(&v), Action::Repeat { .. }) {
            policy.on_sent(&sent);
            repeats += 1;
        }
        repeats
    }

    #[test]
    fn retransmission_in_the_last_round_trip_before_the_deadline_has_four_copies() {
        assert_eq!(repeats(Some(300)), 3);
        assert_eq!(repeats(Some(500)), 0, "there will be time for another");
        assert_eq!(repeats(Some(100)), 0, "too late");
        assert_eq!(repeats(None), 0, "no deadline");
    }
}
