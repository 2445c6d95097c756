//! Data Center TCP (RFC 8257): the reduction of the window is proportional to the marked fraction.

use spindle_units::Instant;

use super::reno::L;
use super::window::{MIN_SSTHRESH_SEGMENTS, Window};
use super::{AckSample, Congestion, ControllerFactory, Coupling, Parameters, Signal};
use crate::types::{EcnMode, SubflowPosition};

/// Estimation gain (RFC 8257, section 4.1).
const G: f64 = 1.0 / 16.0;
/// Initial value of DCTCP.Alpha: the first mark halves the window (RFC 8257, section 4.2).
const INITIAL_ALPHA: f64 = 1.0;

/// DCTCP (RFC 8257), each subflow independently: "dctcp". Needs ECN.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp;

impl ControllerFactory for Dctcp {
    fn name(&self) -> &str {
        "dctcp"
    }

    fn summary(&self) -> &str {
        "DCTCP (RFC 8257) with its exact echo of marks, each subflow by itself (mechanisms A5.2's variant)"
    }

    fn ecn(&self) -> EcnMode {
        EcnMode::Dctcp
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(DctcpController::new(p))
    }
}

/// DCTCP's sender (RFC 8257, section 3.3). Otherwise it works like Reno.
#[derive(Clone, Debug)]
struct DctcpController {
    window: Window,
    subflow: usize,
    alpha: f64,
    /// DCTCP.WindowEnd: the observation window ends when more than this is acknowledged.
    window_end: SubflowPosition,
    bytes_acked: u64,
    bytes_marked: u64,
}

impl DctcpController {
    /// A controller in slow start that has seen no mark.
    fn new(p: &Parameters) -> Self {
        Self {
            window: Window::new(p),
            subflow: p.subflow,
            alpha: INITIAL_ALPHA,
            window_end: SubflowPosition::SYN,
            bytes_acked: 0,
            bytes_marked: 0,
        }
    }

    /// RFC 8257, section 3.3, steps 1 to 8.
    fn observe(&mut self, s: &AckSample) {
        self.bytes_acked = self.bytes_acked.saturating_add(s.acked);
        self.bytes_marked = self.bytes_marked.saturating_add(s.marked.min(s.acked));
        if s.acked_to <= self.window_end || self.bytes_acked == 0 {
            return;
        }
        let fraction = self.bytes_marked as f64 / self.bytes_acked as f64;
        self.alpha = self.alpha * (1.0 - G) + G * fraction;
        self.window_end = s.next;
        self.bytes_acked = 0;
        self.bytes_marked = 0;
    }
}

impl Congestion for DctcpController {
    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling) {
        self.observe(sample);
        if self.window.may_grow(sample) {
            let rest = self.window.slow_start(sample.acked, L);
            self.window.congestion_avoidance(rest as f64);
        }
        let cwnd = self.window.coupled_cwnd(sample.recovering);
        coupling.update(self.subflow, cwnd, sample.srtt);
    }

    fn on_signal(&mut self, _: Instant, in_flight: u64, signal: Signal, coupling: &mut Coupling) {
        let ssthresh = match signal {
            // RFC 8257, section 3.3, step 9: cwnd * (1 - Alpha / 2).
            Signal::Ecn => (self.window.cwnd() as f64 * (1.0 - self.alpha / 2.0)) as u64,
            // RFC 8257, section 3.5: as in any other TCP.
            Signal::Loss => in_flight / 2,
        };
        self.window.reduce(ssthresh, MIN_SSTHRESH_SEGMENTS);
        coupling.update(self.subflow, self.window.cwnd(), None);
    }

    fn on_timeout(&mut self, _: Instant, in_flight: u64, first: bool, coupling: &mut Coupling) {
        self.window
            .timeout(in_flight / 2, MIN_SSTHRESH_SEGMENTS, first);
        coupling.update(self.subflow, self.window.cwnd(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MSS, Path, parameters};
    use super::*;

    fn dctcp() -> Path<DctcpController> {
        let mut p = parameters();
        p.initial_window = 16 * MSS;
        p.initial_ssthresh = 16 * MSS;
        Path::new(DctcpController::new(&p))
    }

    #[test]
    fn alpha_follows_the_marked_fraction_once_per_window() {
        let mut path = dctcp();
        path.ack(MSS);
        assert_eq!(
            path.cc.alpha,
            15.0 / 16.0,
            "the first ACK ends the empty first window"
        );
        assert_eq!(
            path.cc.window_end,
            SubflowPosition(16 * MSS),
            "SND.NXT when it arrived"
        );
        // An ACK of exactly WindowEnd does not end it, an ACK beyond it does: 4 of 16 segments are marked.
        for i in 0..15 {
            path.ack_marked(MSS, if i % 4 == 0 { MSS } else { 0 });
        }
        assert_eq!(path.cc.alpha, 15.0 / 16.0);
        path.ack(MSS);
        assert_eq!(path.cc.alpha, 15.0 / 16.0 * 15.0 / 16.0 + 0.25 / 16.0);
    }

    #[test]
    fn ecn_signal_reduces_cwnd_by_half_of_alpha() {
        let mut path = dctcp();
        path.cc.alpha = 0.25;
        path.signal(Signal::Ecn);
        assert_eq!(path.cc.cwnd(), 14 * MSS, "16 * (1 - 0.25 / 2)");
        path.cc.alpha = 1.0;
        path.signal(Signal::Ecn);
        assert_eq!((path.cc.cwnd(), path.cc.ssthresh()), (7 * MSS, 7 * MSS));
    }

    #[test]
    fn loss_halves_cwnd_even_if_alpha_is_zero() {
        let mut path = dctcp();
        path.cc.alpha = 0.0;
        path.signal(Signal::Loss);
        assert_eq!(path.cc.cwnd(), 8 * MSS);
    }

    #[test]
    fn marked_acks_do_not_grow_cwnd() {
        let mut path = dctcp();
        for _ in 0..40 {
            path.ack_marked(MSS, MSS);
        }
        assert_eq!(path.cc.cwnd(), 16 * MSS);
    }

    #[test]
    fn alpha_decays_to_zero_without_marks() {
        let mut path = dctcp();
        for _ in 0..200 {
            path.round();
        }
        assert!(
            path.cc.alpha < 1e-4,
            "(15/16)^200 is 2.5e-6, not {}",
            path.cc.alpha
        );
    }
}
