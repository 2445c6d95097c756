//! Parities of the last flight: one lost segment of it is recovered without a retransmission.

use spindle_units::Duration;

use super::{Action, RunView, SubflowView, View};
use crate::types::AssumedLoss;

/// One parity of what is in flight, when all data of the application have been sent. Any one lost segment of the
/// flight is recovered from it. It is sent over the subflow with the shortest RTT among those with room in their
/// windows, which may be the flight's own: where each packet has its own flow label, it still takes another path.
///
/// The parity is sent if its expected gain exceeds the price of the policy that has it. The gain is the probability
/// that a segment of the flight is lost, times the time that is saved if one is.
///
/// Short connections end before they have seen a loss. Until a path was observed, it is therefore assumed to have the
/// [`Self::assumed_loss`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailParities {
    /// The loss that a path is assumed to have until it was observed. 0.01 by default, half of it after 1000 segments
    /// (our choice).
    pub assumed_loss: AssumedLoss,
    /// The most segments of which a parity is made. 30 by default, as in CoFUSO's testbed (CoFUSO section 5.2).
    pub longest_block: usize,
}

impl Default for TailParities {
    fn default() -> Self {
        Self {
            assumed_loss: AssumedLoss {
                share: 0.01,
                weight: 1000.0,
            },
            longest_block: 30,
        }
    }
}

/// A parity of one segment would be a copy.
const FEWEST: usize = 2;

impl TailParities {
    /// The parity of what subflow `of` has in flight, and how many smoothed RTTs of the subflow that carries it are
    /// gained on average. `None` if there is nothing to protect, or no subflow has room.
    pub(super) fn parity(&self, view: &View<'_>, of: &SubflowView) -> Option<(f64, Action)> {
        let run = of.uncoded.filter(|run| run.segments >= FEWEST)?;
        let has_room = |s: &&SubflowView| s.srtt.is_some() && s.has_room(u64::from(run.parity_len));
        let on = view
            .subflows
            .iter()
            .filter(has_room)
            .min_by_key(|s| s.srtt)?;
        let risk = self.assumed_loss.risk(of.loss, of.sent);
        let segments = i32::try_from(run.segments).unwrap_or(i32::MAX);
        let any_lost = 1.0 - (1.0 - risk).powi(segments);
        let rtts = saved(of.srtt?, on.srtt?);
        Some((any_lost * rtts, block_of(of, run, on)))
    }
}

/// How much earlier a lost segment of a subflow with a smoothed RTT of `own` is recovered by a parity over one of
/// `other`, in units of `other`. RACK detects the loss after an RTT and a quarter (RFC 8985, section 6.2), and the
/// retransmission takes one way. The parity takes one way.
fn saved(own: Duration, other: Duration) -> f64 {
    let saved = (own + own / 4 + own / 2).saturating_sub(other / 2);
    saved.as_nanos() as f64 / other.max(Duration::from_nanos(1)).as_nanos() as f64
}

fn block_of(of: &SubflowView, run: RunView, on: &SubflowView) -> Action {
    Action::BlockParity {
        of: of.id,
        first: run.first,
        segments: run.segments,
        index: 0,
        parities: 1,
        on: on.id,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Trigger;
    use super::super::tests::{subflow, view};
    use super::*;
    use crate::types::{SubflowId, SubflowPosition};

    fn flight(id: u8, segments: usize) -> SubflowView {
        SubflowView {
            uncoded: Some(RunView {
                first: SubflowPosition::FIRST_BYTE,
                segments,
                parity_len: 1000,
            }),
            ..subflow(SubflowId(id))
        }
    }

    fn parity(subflows: &[SubflowView]) -> Option<(f64, Action)> {
        let view = view(subflows, false, Trigger::Sent);
        TailParities::default().parity(&view, &subflows[0])
    }

    #[test]
    fn expected_gain_is_the_probability_of_a_loss_times_the_time_saved() {
        let mut s = [flight(0, 10)];
        s[0].sent = 0;
        let (gain, _) = parity(&s).unwrap();
        // 1 - 0.99^10 = 9.56 %, times an RTT and a quarter: 7/4 RTTs without the parity, half an RTT with it.
        assert!((gain - 0.0956 * 1.25).abs() < 1e-4, "{gain}");
    }

    #[test]
    fn parity_takes_the_fastest_subflow_with_room_even_the_flights_own() {
        let on = |subflows: &[SubflowView]| match parity(subflows) {
            Some((_, Action::BlockParity { on, .. })) => Some(on.0),
            _ => None,
        };
        let mut s = [flight(0, 5), subflow(SubflowId(1))];
        s[1].srtt = Some(Duration::from_micros(200));
        assert_eq!(on(&s), Some(1));
        s[1].in_flight = s[1].cwnd;
        assert_eq!(on(&s), Some(0));
        s[0].in_flight = s[0].cwnd;
        assert_eq!(on(&s), None, "no window has room");
    }

    #[test]
    fn single_segments_have_no_parity() {
        assert_eq!(parity(&[flight(0, 1)]), None);
        assert_eq!(parity(&[subflow(SubflowId(0))]), None);
    }
}
