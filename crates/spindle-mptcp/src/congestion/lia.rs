//! LIA, linked increases (RFC 6356): in total, no more aggressive than one TCP on the best path.

use super::coupled::{Coupled, Paths, Rule, ratio};
use super::window::MIN_SSTHRESH_SEGMENTS;
use super::{Congestion, ControllerFactory, Coupling, Parameters};

/// Linked increases (RFC 6356): "lia".
/// RFC 6356: only the increase is coupled.
#[derive(Clone, Copy, Debug)]
pub struct Lia;

impl ControllerFactory for Lia {
    fn name(&self) -> &str {
        "lia"
    }

    fn summary(&self) -> &str {
        "Linked Increases (RFC 6356)"
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(Coupled::<Lia>::new(p))
    }
}

/// How aggressive the connection as a whole may be (RFC 6356, section 3, equation 2):
/// cwnd_total * max(cwnd_i / rtt_i^2) / (sum of cwnd_i / rtt_i)^2.
fn alpha(coupling: &Coupling) -> f64 {
    let paths = Paths::new(coupling);
    let best = paths.all().map(|p| p.rate() / p.rtt).fold(0.0, f64::max);
    let total_rate = paths.total_rate();
    ratio(
        coupling.total_cwnd() as f64 * best,
        total_rate * total_rate,
        1.0,
    )
}

impl Rule for Lia {
    /// The floor of TCP, because slow start, recovery and the decrease follow RFC 5681 (RFC 6356, section 3). A
    /// floor of one segment is specific to OLIA.
    const FLOOR: u64 = MIN_SSTHRESH_SEGMENTS;

    /// RFC 6356, section 3, equation 1: the increase is the smaller of
    /// alpha * acked * MSS / cwnd_total and Reno's own, acked * MSS / cwnd.
    fn increase(coupling: &Coupling, me: usize) -> f64 {
        let share = ratio(
            coupling.rows()[me].cwnd as f64,
            coupling.total_cwnd() as f64,
            1.0,
        );
        (alpha(coupling) * share).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Signal;
    use super::super::tests::{MSS, Path, coupling, near, parameters};
    use super::*;

    #[test]
    fn lia_on_equal_subflows_grows_as_one_tcp() {
        for n in 1..=8u64 {
            let rows = vec![(20 * MSS, Some(100)); n as usize];
            let c = coupling(&rows);
            near(alpha(&c), 1.0 / n as f64);
            // Each subflow gets 1/n of Reno's increase because of alpha, and 1/n of that because of the larger
            // total.
            near(Lia::increase(&c, 0), 1.0 / (n * n) as f64);
        }
    }

    /// Computed by hand: w = (10, 20) segments, rtt = (10, 100) ms. w/rtt^2 = (100000, 2000),
    /// w/rtt = (1000, 200). alpha = 30 * 100000 / 1200^2 = 2.08333.
    #[test]
    fn lia_increase_with_unequal_rtts_matches_hand_computed_values() {
        let c = coupling(&[(10_000, Some(10)), (20_000, Some(100))]);
        near(alpha(&c), 3_000_000.0 / 1_440_000.0);
        near(Lia::increase(&c, 0), 2.083_333_333 / 3.0);
        // 2.08333 * 20 / 30 = 1.389, limited to Reno's increase.
        near(Lia::increase(&c, 1), 1.0);
    }

    #[test]
    fn subflow_without_rtt_uses_the_shortest_measured_rtt() {
        let known = coupling(&[(10_000, Some(10)), (20_000, Some(10)), (5_000, Some(40))]);
        let c = coupling(&[(10_000, Some(10)), (20_000, None), (5_000, Some(40))]);
        near(alpha(&c), alpha(&known));
        let c = coupling(&[(10_000, None), (10_000, None)]);
        near(alpha(&c), 0.5);
        let c = coupling(&[(10_000, Some(0)), (10_000, Some(0))]);
        near(alpha(&c), 0.5);
        let c = coupling(&[(0, None), (0, None)]);
        near(alpha(&c), 1.0);
    }

    #[test]
    fn two_equal_lia_subflows_each_grow_by_a_quarter_segment_per_rtt() {
        let mut p = parameters();
        p.initial_window = 10 * MSS;
        p.initial_ssthresh = 10 * MSS;
        let mut path = Path::new(Coupled::<Lia>::new(&p));
        path.coupling.activate(0, 10 * MSS);
        *path.coupling.row_mut(1) = path.coupling.rows()[0];
        path.coupling.row_mut(1).srtt = Some(path.rtt);
        for _ in 0..4 {
            assert_eq!(path.cc.cwnd(), 10 * MSS);
            path.round();
        }
        path.ack(MSS);
        assert_eq!(path.cc.cwnd(), 11 * MSS);
    }

    #[test]
    fn lia_ssthresh_floor_is_two_segments_alone_and_with_another_subflow() {
        let mut p = parameters();
        p.initial_window = 2 * MSS;
        let mut path = Path::new(Coupled::<Lia>::new(&p));
        path.coupling.activate(0, 2 * MSS);
        path.signal(Signal::Loss);
        assert_eq!(path.cc.ssthresh(), 2 * MSS);
        path.coupling.activate(1, 2 * MSS);
        path.signal(Signal::Ecn);
        assert_eq!((path.cc.ssthresh(), path.cc.cwnd()), (2 * MSS, 2 * MSS));
    }

    #[test]
    fn lia_recomputes_its_increase_when_another_subflow_shrinks() {
        let mut p = parameters();
        p.initial_window = 100 * MSS;
        p.initial_ssthresh = 100 * MSS;
        let mut path = Path::new(Coupled::<Lia>::new(&p));
        path.coupling.activate(0, 100 * MSS);
        path.coupling.activate(1, 0);
        path.coupling.update(1, 100 * MSS, Some(path.rtt));
        path.ack(MSS);
        let with_both = path.increase();
        path.coupling.update(1, 50 * MSS, None);
        path.ack(MSS);
        assert!(
            path.increase() > with_both,
            "the smaller sibling leaves more room"
        );
    }
}
