//! CUBIC (RFC 9438): the window is a cubic function of the time since the last reduction.

use spindle_units::{Duration, Instant};

use super::hystart;
use super::reno;
use super::slow_start_exit::ExitDetector;
use super::window::{MIN_SSTHRESH_SEGMENTS, Window};
use super::{AckSample, Congestion, ControllerFactory, Coupling, Parameters, Signal};

/// C in segments per cubed second (RFC 9438, section 5.1).
const C: f64 = 0.4;
/// The multiplicative decrease factor (RFC 9438, section 4.6).
const BETA: f64 = 0.7;
/// The additive increase with which AIMD with `BETA` is as fast as Reno (RFC 9438, section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The target is at most this multiple of cwnd (RFC 9438, section 4.2).
const MAX_TARGET: f64 = 1.5;

/// The state of the curve. Windows are in bytes, so that a change of the segment size needs no conversion.
/// Times are in seconds.
#[derive(Clone, Copy, Debug)]
struct Curve {
    /// W_max: the window at the last reduction. Smaller with fast convergence.
    w_max: f64,
    /// K: the time at which the curve reaches W_max again.
    k: f64,
    /// W_est: the window that Reno would have.
    w_est: f64,
    /// cwnd_prior: cwnd when ssthresh was last set.
    cwnd_prior: f64,
    /// t_epoch: when this stage of congestion avoidance began. It moves later by the time in which cwnd did not
    /// limit the sender (RFC 9438, section 5.8). `None` between two stages.
    epoch: Option<Instant>,
    /// The next stage follows slow start or a timeout, not a reduction: K = 0 and W_max = cwnd (RFC 9438,
    /// sections 4.8 and 4.10).
    fresh: bool,
    /// The part of a flow's growth, from 0 to 1. Subflows that are one flow together have 1 in sum.
    part: f64,
}

impl Default for Curve {
    fn default() -> Self {
        Self {
            w_max: 0.0,
            k: 0.0,
            w_est: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            fresh: false,
            part: 1.0,
        }
    }
}

/// CUBIC (RFC 9438), each subflow independently: "cubic".
#[derive(Clone, Copy, Debug)]
pub struct Cubic;

impl ControllerFactory for Cubic {
    fn name(&self) -> &str {
        "cubic"
    }

    fn summary(&self) -> &str {
        "CUBIC (RFC 9438), each subflow by itself"
    }

    fn kernel_name(&self) -> Option<&str> {
        Some("cubic")
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(CubicController::new(p))
    }
}

/// CUBIC with the Reno-friendly region, fast convergence and HyStart++.
#[derive(Clone, Debug)]
pub(super) struct CubicController {
    window: Window,
    subflow: usize,
    curve: Curve,
    /// The curve before the last reduction (RFC 9438, section 4.9).
    before: Option<Curve>,
    /// What may end the initial slow start before a loss.
    exit: Option<ExitDetector>,
    /// Growth below one byte.
    fraction: f64,
    /// When the last acknowledgement arrived.
    last_ack: Instant,
    /// The subflow has been idle since then. Idle time does not count.
    idle: bool,
}

impl CubicController {
    /// A controller in slow start.
    pub(super) fn new(p: &Parameters) -> Self {
        Self {
            window: Window::new(p),
            subflow: p.subflow,
            curve: Curve {
                fresh: true,
                ..Curve::default()
            },
            before: None,
            exit: ExitDetector::new(p.slow_start_exit),
            fraction: 0.0,
            last_ack: Instant::ZERO,
            idle: false,
        }
    }

    /// From now on the window grows by this part of what one flow's would, from 0 to 1. The parts of subflows that are
    /// one flow together are 1 in sum: if their windows are reduced together as well, so is their sum one flow's window.
    pub(super) fn set_part(&mut self, part: f64) {
        if part != self.curve.part {
            self.curve.part = part;
            // The curve begins again at this window, since K depends on the part.
            self.curve.epoch = None;
        }
    }

    /// Slow start (RFC 9438, section 4.10). Returns the bytes left for congestion avoidance.
    fn slow_start(&mut self, s: &AckSample) -> u64 {
        if !self.window.in_slow_start() {
            return s.acked;
        }
        let Some(exit) = &mut self.exit else {
            return self.window.slow_start(s.acked, reno::L);
        };
        let segments = self.window.cwnd() / self.window.mss();
        let counted = self.window.counted(s.acked, hystart::L);
        let rest = self.window.slow_start(counted / exit.divisor(), hystart::L);
        let ends = exit.on_ack(s, segments);
        if ends {
            self.window.end_slow_start();
        }
        if ends || !self.window.in_slow_start() {
            self.exit = None;
        }
        rest
    }

    /// Congestion avoidance (RFC 9438, sections 4.2 to 4.5).
    fn congestion_avoidance(&mut self, acked: u64, s: &AckSample) {
        let cwnd = self.window.cwnd() as f64;
        let mss = self.window.mss() as f64;
        if self.curve.epoch.is_none() {
            self.curve.begin(cwnd, mss);
        }
        let epoch = *self.curve.epoch.get_or_insert(s.now);
        // An acknowledgement never covers more than a window.
        let acked = (acked as f64).min(cwnd);
        let t = s.now.since(epoch).as_secs_f64();
        let rtt = s.srtt.or(s.rtt).unwrap_or(Duration::ZERO).as_secs_f64();
        let friendly = self.curve.update_w_est(acked, cwnd, mss);
        let growth = if self.curve.w_cubic(t, mss) < friendly {
            (friendly - cwnd).max(0.0)
        } else {
            let target = self
                .curve
                .w_cubic(t + rtt, mss)
                .clamp(cwnd, MAX_TARGET * cwnd);
            (target - cwnd) / cwnd * acked
        };
        self.fraction += growth;
        self.window.grow(self.fraction as u64);
        self.fraction = self.fraction.fract();
    }

    /// Excludes time from the epoch in which cwnd did not limit the sender (RFC 9438, section 5.8).
    fn keep_time(&mut self, s: &AckSample) {
        if let Some(epoch) = &mut self.curve.epoch
            && (self.idle || !s.cwnd_limited)
        {
            *epoch += s.now.since((*epoch).max(self.last_ack));
        }
        self.idle = false;
        self.last_ack = s.now;
    }

    /// The changes that every kind of reduction makes.
    fn leave_curve(&mut self) {
        self.before = Some(self.curve);
        let cwnd = self.window.cwnd() as f64;
        self.curve.cwnd_prior = cwnd;
        self.curve.epoch = None;
        self.curve.w_est = 0.0;
        self.fraction = 0.0;
        self.exit = None;
    }
}

impl Curve {
    /// Begins a stage of congestion avoidance with this cwnd, which is cwnd_epoch.
    fn begin(&mut self, cwnd: f64, mss: f64) {
        self.w_est = cwnd;
        if self.cwnd_prior == 0.0 {
            self.cwnd_prior = cwnd;
        }
        if self.fresh || self.w_max <= cwnd {
            self.w_max = cwnd;
            self.k = 0.0;
        } else {
            // RFC 9438, section 4.2, figure 2.
            self.k = ((self.w_max - cwnd) / (C * self.part * mss)).cbrt();
        }
        self.fresh = false;
    }

    /// W_cubic(t) (RFC 9438, section 4.2, figure 1), in bytes.
    fn w_cubic(&self, t: f64, mss: f64) -> f64 {
        C * self.part * mss * (t - self.k).powi(3) + self.w_max
    }

    /// W_est after `acked` bytes (RFC 9438, section 4.3, figure 4).
    fn update_w_est(&mut self, acked: f64, cwnd: f64, mss: f64) -> f64 {
        let alpha = if self.w_est >= self.cwnd_prior {
            1.0
        } else {
            ALPHA
        };
        self.w_est += alpha * self.part * mss * acked / cwnd;
        self.w_est
    }

    /// W_max for the next stage (RFC 9438, sections 4.6 and 4.7).
    fn set_w_max(&mut self, cwnd: f64) {
        self.w_max = if cwnd < self.w_max {
            cwnd * (1.0 + BETA) / 2.0
        } else {
            cwnd
        };
    }
}

fn decreased(in_flight: u64) -> u64 {
    (in_flight as f64 * BETA) as u64
}

impl Congestion for CubicController {
    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling) {
        self.keep_time(sample);
        if self.window.may_grow(sample) {
            let rest = self.slow_start(sample);
            if rest > 0 && !self.window.in_slow_start() {
                self.congestion_avoidance(rest, sample);
            }
        }
        let cwnd = self.window.coupled_cwnd(sample.recovering);
        coupling.update(self.subflow, cwnd, sample.srtt);
    }

    fn on_signal(&mut self, _: Instant, in_flight: u64, signal: Signal, coupling: &mut Coupling) {
        self.leave_curve();
        self.curve.set_w_max(self.window.cwnd() as f64);
        self.curve.fresh = false;
        let ssthresh = decreased(in_flight);
        self.window.reduce(ssthresh, MIN_SSTHRESH_SEGMENTS);
        if signal == Signal::Ecn {
            // RFC 9438, section 4.6, figure 5: here the floor of cwnd is one segment.
            self.window.shrink_to(ssthresh);
        }
        coupling.update(self.subflow, self.window.cwnd(), None);
    }

    fn on_timeout(&mut self, _: Instant, in_flight: u64, first: bool, coupling: &mut Coupling) {
        if first {
            self.leave_curve();
        }
        self.curve.fresh = true;
        self.curve.epoch = None;
        self.curve.w_est = 0.0;
        self.window
            .timeout(decreased(in_flight), MIN_SSTHRESH_SEGMENTS, first);
        coupling.update(self.subflow, self.window.cwnd(), None);
    }

    fn on_idle(&mut self, restart_window: u64) {
        self.window.shrink_to(restart_window);
        self.idle = true;
    }

    fn undo(&mut self, _: Instant) {
        if self.window.undo()
            && let Some(curve) = self.before.take()
        {
            self.curve = curve;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SlowStartExit;
    use super::super::tests::{MSS, Path, near, parameters};
    use super::*;

    fn cubic(segments: u64, rtt_ms: u64) -> Path<CubicController> {
        let mut p = parameters();
        p.initial_window = segments * MSS;
        p.initial_ssthresh = segments * MSS;
        let mut path = Path::new(CubicController::new(&p));
        path.rtt = Duration::from_millis(rtt_ms);
        path
    }

    /// Computed by hand from RFC 9438, section 4.2: W_max = 100 segments, cwnd_epoch = 70:
    /// K = cbrt(30 / 0.4) = 4.217163; W(0) = 70, W(K) = 100, W(K + 2) = 100 + 0.4 * 8 = 103.2.
    #[test]
    fn w_cubic_matches_hand_computed_values() {
        let mss = MSS as f64;
        let mut c = Curve {
            w_max: 100.0 * mss,
            cwnd_prior: 100.0 * mss,
            ..Curve::default()
        };
        c.begin(70.0 * mss, mss);
        assert!((c.k - 4.217_163_327).abs() < 1e-8);
        near(c.w_cubic(0.0, mss), 70.0 * mss);
        near(c.w_cubic(c.k, mss), 100.0 * mss);
        near(c.w_cubic(c.k + 2.0, mss), 103.2 * mss);
        near(ALPHA, 9.0 / 17.0);
    }

    #[test]
    fn loss_reduces_cubic_cwnd_by_30_percent() {
        let mut path = cubic(100, 100);
        path.signal(Signal::Loss);
        assert_eq!((path.cc.cwnd(), path.cc.ssthresh()), (70 * MSS, 70 * MSS));
        near(path.cc.curve.w_max, (100 * MSS) as f64);
        // Fast convergence (section 4.7): 70 < 100, so W_max = 70 * 0.85.
        path.signal(Signal::Loss);
        near(path.cc.curve.w_max, 59.5 * MSS as f64);
    }

    /// After a loss at 1000 segments with an RTT of 100 ms: K = cbrt(300 / 0.4) = 9.086 s. The window is back
    /// at W_max in about 91 rounds. Reno would need 500 rounds.
    #[test]
    fn cubic_cwnd_returns_to_w_max_after_k() {
        let mut path = cubic(1000, 100);
        path.signal(Signal::Loss);
        let mut seconds = Vec::new();
        for round in 0..=140 {
            if round % 20 == 0 {
                seconds.push(format!("{}s {}", round / 10, path.cc.cwnd() / MSS));
            }
            path.round();
        }
        // W(t) = 0.4 (t - 9.086)^3 + 1000: 857 at 2 s, 947 at 4 s, 988 at 6 s, 999 at 8 s, 1000 at 10 s, 1010
        // at 12 s, 1047 at 14 s. cwnd is less than a round behind.
        let expected = "0s 700, 2s 857, 4s 947, 6s 988, 8s 999, 10s 1000, 12s 1009, 14s 1047";
        assert_eq!(seconds.join(", "), expected);
    }

    /// At 10 segments and 10 ms the cubic curve is slower than Reno, so W_est determines the window
    /// (section 4.3).
    #[test]
    fn cubic_grows_like_reno_on_a_small_fast_path() {
        let mut path = cubic(10, 10);
        path.signal(Signal::Loss);
        for _ in 0..5 {
            path.round();
        }
        // 7 + 5 * 9/17 = 9.6
        assert!(
            (9 * MSS..10 * MSS).contains(&path.cc.cwnd()),
            "{}",
            path.cc.cwnd()
        );
        for _ in 0..20 {
            path.round();
        }
        // Beyond cwnd_prior = 10 the growth is one segment per round: 10 + (20 - 0.7), or about 29.
        assert!(
            (27 * MSS..31 * MSS).contains(&path.cc.cwnd()),
            "{}",
            path.cc.cwnd()
        );
    }

    /// Both parts of a flow are reduced when it is, and have half of its window at all times.
    #[test]
    fn two_halves_of_a_flow_have_its_window_in_sum() {
        for (segments, rtt_ms) in [(1000, 100), (20, 10)] {
            let mut whole = cubic(segments, rtt_ms);
            let mut half = cubic(segments / 2, rtt_ms);
            half.cc.set_part(0.5);
            whole.signal(Signal::Loss);
            half.signal(Signal::Loss);
            for _ in 0..100 {
                whole.round();
                half.round();
                let (one, two) = (whole.cc.cwnd(), 2 * half.cc.cwnd());
                assert!(one.abs_diff(two) <= one / 20, "{one} and {two}");
            }
        }
    }

    #[test]
    fn window_does_not_jump_when_its_part_changes() {
        let mut path = cubic(1000, 100);
        path.signal(Signal::Loss);
        path.round();
        let before = path.cc.cwnd();
        path.cc.set_part(0.25);
        path.round();
        let grown = path.cc.cwnd() - before;
        assert!(grown < 30 * MSS, "{grown}");
    }

    #[test]
    fn cubic_restarts_with_k_zero_after_a_timeout() {
        let mut path = cubic(100, 100);
        path.timeout();
        assert_eq!((path.cc.cwnd(), path.cc.ssthresh()), (MSS, 70 * MSS));
        while path.cc.cwnd() < 70 * MSS {
            path.ack(MSS);
        }
        path.ack(MSS);
        assert_eq!(path.cc.curve.k, 0.0);
        near(path.cc.curve.w_max, 70.0 * MSS as f64);
        near(path.cc.curve.cwnd_prior, 100.0 * MSS as f64);
    }

    #[test]
    fn time_not_limited_by_cwnd_is_excluded_from_the_cubic_epoch() {
        let mut path = cubic(1000, 100);
        path.signal(Signal::Loss);
        path.round();
        let (cwnd, t0) = (path.cc.cwnd(), path.cc.curve.epoch.unwrap());
        path.limited = false;
        let start = path.now;
        for _ in 0..100 {
            path.round();
        }
        assert_eq!(path.cc.cwnd(), cwnd);
        assert_eq!(path.cc.curve.epoch.unwrap(), t0 + path.now.since(start));
        path.cc.on_idle(u64::MAX);
        path.now += Duration::from_secs(60);
        path.limited = true;
        path.ack(MSS);
        assert!(path.cc.cwnd() < cwnd + 2 * MSS, "no jump after idling");
    }

    #[test]
    fn undo_restores_the_cubic_curve() {
        let mut path = cubic(1000, 100);
        path.signal(Signal::Loss);
        for _ in 0..50 {
            path.round();
        }
        let (cwnd, curve) = (path.cc.cwnd(), path.cc.curve);
        path.timeout();
        path.cc.undo(path.now);
        assert_eq!(path.cc.cwnd(), cwnd);
        assert_eq!(path.cc.curve.epoch, curve.epoch);
        assert_eq!(
            (path.cc.curve.w_max, path.cc.curve.k),
            (curve.w_max, curve.k)
        );
    }

    /// Linux 3.18 `hystart_update`: the first acknowledgement of a train that lasts longer than half of the RTT.
    #[test]
    fn classic_hystart_ends_slow_start_by_an_ack_train_without_a_longer_rtt() {
        let mut p = parameters();
        p.slow_start_exit = SlowStartExit::ClassicHyStart;
        p.initial_window = 16 * MSS;
        let mut path = Path::new(CubicController::new(&p));
        path.rtt = Duration::from_millis(20);
        for _ in 0..12 {
            path.ack(MSS);
            path.now += Duration::from_millis(1);
        }
        assert_eq!(path.cc.ssthresh() / MSS, 28, "the twelfth, after 11 ms");
        assert!(path.cc.exit.is_none());
    }

    #[test]
    fn hystart_ends_slow_start_as_the_queue_builds() {
        let mut p = parameters();
        p.slow_start_exit = SlowStartExit::HyStart;
        let mut path = Path::new(CubicController::new(&p));
        path.rtt = Duration::from_millis(50);
        for _ in 0..4 {
            path.round();
        }
        assert_eq!(path.cc.cwnd(), 160 * MSS, "doubling from 10");
        path.rtt = Duration::from_millis(60);
        let mut segments = Vec::new();
        for _ in 0..7 {
            path.round();
            segments.push(path.cc.cwnd() / MSS);
        }
        // The round in which the delay grows also has older samples, so that only its end shows the increase.
        // From there the window grows by a quarter in each of five rounds. Then congestion avoidance follows.
        assert_eq!(segments, [303, 379, 474, 592, 740, 897, 898]);
        assert_eq!(path.cc.ssthresh() / MSS, 897);
        assert!(path.cc.exit.is_none());
    }
}
