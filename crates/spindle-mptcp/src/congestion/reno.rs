//! Standard TCP congestion control (RFC 5681) with byte counting (RFC 3465).

use spindle_units::Instant;

use super::window::{MIN_SSTHRESH_SEGMENTS, Window};
use super::{AckSample, Congestion, ControllerFactory, Coupling, Parameters, Signal};

/// RFC 3465's L in segments: in slow start an acknowledgement increases cwnd by at most one segment (RFC 5681,
/// equation 2).
pub(super) const L: u64 = 1;

/// Reno (RFC 5681), each subflow independently: "reno".
#[derive(Clone, Copy, Debug)]
pub struct Reno;

impl ControllerFactory for Reno {
    fn name(&self) -> &str {
        "reno"
    }

    fn summary(&self) -> &str {
        "Reno (RFC 5681), each subflow by itself"
    }

    fn kernel_name(&self) -> Option<&str> {
        Some("reno")
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(RenoController::new(p))
    }
}

/// Slow start, congestion avoidance and halving (RFC 5681, sections 3.1 and 3.2). Subflows are independent of
/// each other. With several subflows this is "uncoupled" control.
#[derive(Clone, Debug)]
struct RenoController {
    window: Window,
    subflow: usize,
}

impl RenoController {
    /// A controller in slow start.
    fn new(p: &Parameters) -> Self {
        Self {
            window: Window::new(p),
            subflow: p.subflow,
        }
    }

    fn grow(&mut self, acked: u64) {
        let rest = self.window.slow_start(acked, L);
        if rest > 0 {
            self.window.congestion_avoidance(rest as f64);
        }
    }
}

impl Congestion for RenoController {
    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling) {
        if self.window.may_grow(sample) {
            self.grow(sample.acked);
        }
        let cwnd = self.window.coupled_cwnd(sample.recovering);
        coupling.update(self.subflow, cwnd, sample.srtt);
    }

    fn on_signal(&mut self, _: Instant, in_flight: u64, _: Signal, coupling: &mut Coupling) {
        self.window.reduce(in_flight / 2, MIN_SSTHRESH_SEGMENTS);
        coupling.update(self.subflow, self.window.cwnd(), None);
    }

    fn on_timeout(&mut self, _: Instant, in_flight: u64, first: bool, coupling: &mut Coupling) {
        self.window
            .timeout(in_flight / 2, MIN_SSTHRESH_SEGMENTS, first);
        coupling.update(self.subflow, self.window.cwnd(), None);
    }
}
