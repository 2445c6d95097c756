//! OLIA, opportunistic linked increases (draft-khalili-mptcp-congestion-control-05; Khalili et al.,
//! "MPTCP is not Pareto-optimal", IEEE/ACM ToN 2013): windows move toward the best paths.

use super::coupled::{Coupled, PathState, Paths, Rule, ratio};
use super::{Congestion, ControllerFactory, Coupling, Parameters};

/// Opportunistic linked increases (draft-khalili-mptcp-congestion-control-05): "olia".
/// The draft's rule. A loss halves the window.
#[derive(Clone, Copy, Debug)]
pub struct Olia;

impl ControllerFactory for Olia {
    fn name(&self) -> &str {
        "olia"
    }

    fn summary(&self) -> &str {
        "OLIA (draft-khalili-mptcp-congestion-control-05)"
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(Coupled::<Olia>::new(p))
    }
}

/// l^2 / rtt, the value that ranks the paths (draft, section 2: an estimate of the rate that one TCP would
/// reach there).
fn quality(p: &PathState) -> f64 {
    p.l * p.l / p.rtt
}

/// alpha_r of the draft, section 2: the gain of the best paths with small windows is taken from the paths with
/// the largest windows.
fn alpha(coupling: &Coupling, me: usize) -> f64 {
    let paths = Paths::new(coupling);
    let best = paths.all().map(|p| quality(&p)).fold(0.0, f64::max);
    let largest = paths.all().map(|p| p.w).fold(0.0, f64::max);
    let is_largest = |p: &PathState| p.w >= largest;
    let is_collected = |p: &PathState| quality(p) >= best && !is_largest(p);
    let n = paths.all().count() as f64;
    let collected = paths.all().filter(is_collected).count() as f64;
    let largest_count = paths.all().filter(is_largest).count() as f64;
    let me = paths.one(me);
    if collected == 0.0 {
        0.0
    } else if is_collected(&me) {
        1.0 / (n * collected)
    } else if is_largest(&me) {
        -1.0 / (n * largest_count)
    } else {
        0.0
    }
}

impl Rule for Olia {
    /// The draft, section 2: one segment if several paths are established, so that a congested path carries
    /// little.
    const FLOOR: u64 = 1;

    /// The draft, section 2: per acknowledged segment, w_r grows by (w_r / rtt_r^2) / (sum of w_p / rtt_p)^2 +
    /// alpha_r / w_r. Multiplied by w_r, this is the multiple of Reno's increase.
    fn increase(coupling: &Coupling, me: usize) -> f64 {
        let paths = Paths::new(coupling);
        let share = ratio(paths.one(me).rate(), paths.total_rate(), 1.0);
        share * share + alpha(coupling, me)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Signal;
    use super::super::tests::{MSS, Path, coupling, near, parameters};
    use super::*;

    #[test]
    fn olia_alpha_is_zero_on_equal_paths() {
        let c = coupling(&[(10_000, Some(10)), (10_000, Some(10))]);
        near(alpha(&c, 0), 0.0);
        near(Olia::increase(&c, 0), 0.25);
    }

    /// Computed by hand. Path 0 has the larger window, path 1 has the longer run between losses.
    #[test]
    fn olia_moves_window_from_the_largest_to_the_best_path() {
        let mut c = coupling(&[(30_000, Some(10)), (10_000, Some(10)), (20_000, Some(10))]);
        c.row_mut(0).since_loss = 5_000;
        c.row_mut(1).before_loss = 50_000;
        c.row_mut(2).since_loss = 9_000;
        near(alpha(&c, 0), -1.0 / 3.0);
        near(alpha(&c, 1), 1.0 / 3.0);
        near(alpha(&c, 2), 0.0);
        near(Olia::increase(&c, 0), 0.25 - 1.0 / 3.0);
        near(Olia::increase(&c, 1), 1.0 / 36.0 + 1.0 / 3.0);
        near(Olia::increase(&c, 2), 1.0 / 9.0);
    }

    #[test]
    fn olia_splits_positive_alpha_between_two_best_paths() {
        let mut c = coupling(&[(30_000, Some(10)), (10_000, Some(10)), (10_000, Some(10))]);
        for i in 1..3 {
            c.row_mut(i).since_loss = 1_000;
        }
        near(alpha(&c, 0), -1.0 / 3.0);
        near(alpha(&c, 1), 1.0 / 6.0);
        near(alpha(&c, 2), 1.0 / 6.0);
    }

    #[test]
    fn olia_ssthresh_floor_is_two_segments_alone_and_one_with_another_subflow() {
        let mut path = Path::new(Coupled::<Olia>::new(&Parameters {
            initial_window: 2 * MSS,
            ..parameters()
        }));
        path.coupling.activate(0, 2 * MSS);
        path.signal(Signal::Loss);
        assert_eq!(path.cc.ssthresh(), 2 * MSS);
        path.coupling.activate(1, 2 * MSS);
        path.signal(Signal::Loss);
        assert_eq!((path.cc.ssthresh(), path.cc.cwnd()), (MSS, MSS));
    }

    #[test]
    fn olia_negative_increase_also_lowers_ssthresh() {
        let mut path = Path::new(Coupled::<Olia>::new(&Parameters {
            initial_window: 30 * MSS,
            initial_ssthresh: 30 * MSS,
            ..parameters()
        }));
        path.coupling = coupling(&[(30 * MSS, Some(100)), (10 * MSS, Some(100))]);
        path.coupling.row_mut(1).since_loss = 100_000 * MSS;
        path.coupling.row_mut(1).cwnd = 25 * MSS;
        // (30/55)^2 - 1/2 = -0.2: one segment less after five rounds. The segment is not regained.
        for _ in 0..6 {
            path.round();
        }
        assert_eq!(path.cc.cwnd(), 29 * MSS);
        assert_eq!(path.cc.ssthresh(), 29 * MSS);
    }
}
