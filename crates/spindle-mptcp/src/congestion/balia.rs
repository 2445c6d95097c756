//! BALIA, balanced linked adaptation (draft-walid-mptcp-congestion-control-04; Peng et al.,
//! "Multipath TCP: analysis, design, and implementation", IEEE/ACM ToN 2016).

use super::coupled::{Coupled, Paths, Rule, ratio};
use super::{Congestion, ControllerFactory, Coupling, Parameters};

/// The largest alpha_r that a decrease uses (draft, section 3).
const MAX_DECREASE_ALPHA: f64 = 1.5;

/// Balanced linked adaptation (draft-walid-mptcp-congestion-control-04): "balia".
/// The draft's rule: increase and decrease are both coupled.
#[derive(Clone, Copy, Debug)]
pub struct Balia;

impl ControllerFactory for Balia {
    fn name(&self) -> &str {
        "balia"
    }

    fn summary(&self) -> &str {
        "BALIA (draft-walid-mptcp-congestion-control-04)"
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(Coupled::<Balia>::new(p))
    }
}

/// alpha_r = max x_k / x_r with x = w / rtt (draft, section 3). At least one.
fn alpha(paths: &Paths<'_>, me: usize) -> f64 {
    let best = paths.all().map(|p| p.rate()).fold(0.0, f64::max);
    ratio(best, paths.one(me).rate(), 1.0)
}

impl Rule for Balia {
    /// One segment if several paths are established, like OLIA.
    const FLOOR: u64 = 1;

    /// The draft, section 3: per acknowledged segment, w_r grows by
    /// x_r / (rtt_r * (sum of x_k)^2) * (1 + alpha_r) / 2 * (4 + alpha_r) / 5.
    fn increase(coupling: &Coupling, me: usize) -> f64 {
        let paths = Paths::new(coupling);
        let share = ratio(paths.one(me).rate(), paths.total_rate(), 1.0);
        let a = alpha(&paths, me);
        ratio(share * share * (1.0 + a) * (4.0 + a), 10.0, 1.0)
    }

    /// The draft, section 3: w_r shrinks by w_r / 2 * min(alpha_r, 1.5).
    fn decrease(coupling: &Coupling, me: usize, in_flight: u64) -> u64 {
        let a = alpha(&Paths::new(coupling), me).min(MAX_DECREASE_ALPHA);
        (in_flight as f64 * (1.0 - a / 2.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{coupling, near};
    use super::*;

    #[test]
    fn balia_on_equal_paths_grows_as_one_tcp_and_halves() {
        let c = coupling(&[(10_000, Some(10)), (10_000, Some(10))]);
        near(Balia::increase(&c, 0), 0.25);
        assert_eq!(Balia::decrease(&c, 0, 10_000), 5_000);
    }

    /// Computed by hand: x = (3, 1) MB/s, alpha = (1, 3).
    #[test]
    fn balia_applies_the_larger_alpha_to_the_slower_path() {
        let c = coupling(&[(30_000, Some(10)), (10_000, Some(10))]);
        near(Balia::increase(&c, 0), 9.0 / 16.0);
        near(Balia::increase(&c, 1), 1.0 / 16.0 * 4.0 / 2.0 * 7.0 / 5.0);
        assert_eq!(Balia::decrease(&c, 0, 30_000), 15_000);
        assert_eq!(
            Balia::decrease(&c, 1, 10_000),
            2_500,
            "alpha 3 counts as 1.5"
        );
    }
}
