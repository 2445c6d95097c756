//! Fully coupled control (Kelly and Voice, CCR 2005; Han et al., IEEE/ACM ToN 2006; in windows: Wischik et al.,
//! NSDI 2011, section 2.2): the sum of the windows behaves like the window of one TCP.

use super::coupled::{Coupled, Rule, ratio};
use super::{Congestion, ControllerFactory, Coupling, Parameters};

/// Fully coupled control, in which the sum of the windows behaves like one window: "fully-coupled".
/// Increase by 1 / w_total per acknowledged segment, decrease by w_total / 2, down to one segment.
#[derive(Clone, Copy, Debug)]
pub struct FullyCoupled;

impl ControllerFactory for FullyCoupled {
    fn name(&self) -> &str {
        "fully-coupled"
    }

    fn summary(&self) -> &str {
        "fully coupled (mechanisms A5.8)"
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(Coupled::<FullyCoupled>::new(p))
    }
}

impl Rule for FullyCoupled {
    /// The floor is one segment (mechanisms A5.8).
    const FLOOR: u64 = 1;

    fn increase(coupling: &Coupling, me: usize) -> f64 {
        ratio(
            coupling.rows()[me].cwnd as f64,
            coupling.total_cwnd() as f64,
            1.0,
        )
    }

    fn decrease(coupling: &Coupling, _me: usize, in_flight: u64) -> u64 {
        in_flight.saturating_sub(coupling.total_cwnd() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{coupling, near};
    use super::*;

    #[test]
    fn fully_coupled_increase_and_decrease_use_the_total_window() {
        let c = coupling(&[(30_000, Some(10)), (10_000, Some(90))]);
        near(FullyCoupled::increase(&c, 0), 0.75);
        near(FullyCoupled::increase(&c, 1), 0.25);
        assert_eq!(FullyCoupled::decrease(&c, 0, 30_000), 10_000);
        assert_eq!(
            FullyCoupled::decrease(&c, 1, 10_000),
            0,
            "the controller's floor applies"
        );
    }
}
