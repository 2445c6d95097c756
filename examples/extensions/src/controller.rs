//! A custom congestion controller: Scalable TCP (Kelly, CCR 2003).

use spindle_mptcp::congestion::{
    AckSample, Congestion, ControllerFactory, Coupling, MIN_SSTHRESH_SEGMENTS, Parameters, Signal,
    Window,
};
use spindle_units::Instant;

/// In slow start, an acknowledgement increases cwnd by at most this many segments (RFC 5681, equation 2).
const SLOW_START_LIMIT: u64 = 1;

/// The settings of Scalable TCP. `Debug` shows all of them, because results are identified by this text.
#[derive(Clone, Copy, Debug)]
pub struct Scalable {
    /// cwnd grows by one segment for each window of acknowledged data, and at least for each this many segments.
    pub segments: u64,
    /// A loss reduces the window by this part of it: one eighth for 8.
    pub part: u64,
}

impl Default for Scalable {
    /// The values of the paper, section 2.
    fn default() -> Self {
        Self {
            segments: 100,
            part: 8,
        }
    }
}

impl ControllerFactory for Scalable {
    fn name(&self) -> &str {
        "scalable"
    }

    fn summary(&self) -> &str {
        "Scalable TCP (Kelly, CCR 2003), each subflow by itself"
    }

    fn kernel_name(&self) -> Option<&str> {
        Some("scalable")
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(ScalableController {
            settings: *self,
            window: Window::new(p),
            subflow: p.subflow,
        })
    }
}

/// The controller of one subflow.
#[derive(Debug)]
struct ScalableController {
    settings: Scalable,
    window: Window,
    subflow: usize,
}

impl ScalableController {
    /// The threshold after a loss with this many bytes in flight.
    fn reduced(&self, in_flight: u64) -> u64 {
        in_flight - in_flight / self.settings.part
    }
}

impl Congestion for ScalableController {
    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling) {
        if self.window.may_grow(sample) {
            let rest = self.window.slow_start(sample.acked, SLOW_START_LIMIT);
            // Reno credits the acknowledged bytes: a segment for each window of them.
            let segments = self.window.cwnd() / self.window.mss();
            let faster = (segments as f64 / self.settings.segments as f64).max(1.0);
            self.window.congestion_avoidance(rest as f64 * faster);
        }
        let cwnd = self.window.coupled_cwnd(sample.recovering);
        coupling.update(self.subflow, cwnd, sample.srtt);
    }

    fn on_signal(&mut self, _: Instant, in_flight: u64, _: Signal, coupling: &mut Coupling) {
        let ssthresh = self.reduced(in_flight);
        self.window.reduce(ssthresh, MIN_SSTHRESH_SEGMENTS);
        coupling.update(self.subflow, self.window.cwnd(), None);
    }

    fn on_timeout(&mut self, _: Instant, in_flight: u64, first: bool, coupling: &mut Coupling) {
        let ssthresh = self.reduced(in_flight);
        self.window.timeout(ssthresh, MIN_SSTHRESH_SEGMENTS, first);
        coupling.update(self.subflow, self.window.cwnd(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_reduces_the_window_by_one_eighth() {
        let mut coupling = Coupling::new();
        let mut controller = Scalable::default().build(&Parameters::new(1000, 80_000));
        controller.on_signal(Instant::ZERO, 80_000, Signal::Loss, &mut coupling);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (70_000, 70_000));
    }
}
