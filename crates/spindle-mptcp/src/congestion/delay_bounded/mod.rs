//! A window that is bounded by the delay of the queue that it builds.

mod capacity;
mod losses;
mod second_half;
mod together;

use spindle_units::{Duration, Instant};

use super::cubic::CubicController;
use super::hystart::{self, Round};
use super::window::{MIN_SSTHRESH_SEGMENTS, Window};
use super::{
    AckSample, Congestion, ControllerFactory, Coupling, NetworkRate, Parameters, PathMeasurements,
    Signal,
};
use capacity::Capacity;
use losses::Losses;
use second_half::SecondHalf;
use together::Together;

/// A controller that keeps the queue short: "delay-bounded".
///
/// The delay of the queue is the smallest round-trip time of a round (RFC 9406, section 4.2) above the smallest of
/// the path, as in LEDBAT (RFC 6817) and Swift (Kumar et al., SIGCOMM 2020). Once a round, the window
///
/// - shrinks if the delay exceeds the target, to what the path carries without a queue, at most to half. The queue
///   drains then, so that flows that begin later measure the path's own round-trip time as well;
/// - grows if the delay is below the target: it doubles in slow start, and later grows by a step that doubles
///   while the delay stays below half of the target, as Copa's velocity (Arun and Balakrishnan, NSDI 2018). The second
///   half of the round must show this as well, since its first segments do not meet the queue of the last step.
///
/// **Several flows on one path** have a longer target: half of their number times as long, at most
/// [`Self::largest_factor`] times. The number is what the path carries in a round trip, as the first flight shows it, over
/// the window. The flow with the smaller window therefore has the longer target, and windows become equal, as by the
/// flow scaling of Swift.
///
/// **What an earlier subflow measured** of the same path, its round-trip time without a queue and its rate, counts as
/// measured by this one ([`PathMeasurements`]). A flow that begins in a full queue would take it for the path and keep it full.
/// The round-trip time of other hosts in the network is supposed to be that of the path, until two reductions do not shorten
/// the queue. Until then, flows to the network share what they measure of the rate ([`NetworkRate`]), so that all of them
/// expect the same number of flows.
///
/// **Several subflows in one queue** are one flow together: the number of flows is what the path carries over the windows of
/// all of them, each grows by its part, and a loss with a queue reduces all of them. Subflows are in one queue if their
/// delays are equal for some rounds while they are long.
///
/// **A loss without a queue is not congestion.** It does not reduce the window unless more than [`Self::most_loss`] of
/// the segments are lost. A queue that is shorter than half of the target may overflow without being noticed, so
///
/// - a growth of which more than half was lost is taken back;
/// - if losses continue, a smaller window is tried for two rounds. It stays if at most half as much is lost.
///
/// **Flows that fill the queue**, such as CUBIC's, and paths that became longer. Two reductions that do not shorten the
/// queue by a quarter are followed by no third one. If the delay stays above twice the target for [`Self::patience`]
/// rounds, CUBIC (RFC 9438) sets this window as well, until the delay is below the target again. Copa changes its mode
/// by the same sign.
///
/// The numbers are our choice; docs/spindle.md shows how results depend on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayBounded {
    /// The target is at least this long, and at least as long as the hosts' [timing
    /// precision](Parameters::timing_precision). 50 us by default: four packets of 1500 bytes at 1 Gbps.
    pub least_target: Duration,
    /// The target as a share of the path's smallest round-trip time. 1/4 by default: a request waits for long
    /// flows for at most a quarter of a round trip more.
    pub target_share: f64,
    /// Largest factor of the target if several flows share the path. 12 by default: up to 24 flows have equal windows.
    pub largest_factor: f64,
    /// Rounds with a long delay after which CUBIC sets the window. 6 by default; Copa waits for 5 round trips.
    pub patience: u32,
    /// Largest share of lost segments that is not congestion. 0.15 by default.
    pub most_loss: f64,
}

impl Default for DelayBounded {
    fn default() -> Self {
        Self {
            least_target: Duration::from_micros(50),
            target_share: 0.25,
            largest_factor: 12.0,
            patience: 6,
            most_loss: 0.15,
        }
    }
}

impl ControllerFactory for DelayBounded {
    fn name(&self) -> &str {
        "delay-bounded"
    }

    fn summary(&self) -> &str {
        "a window bounded by the delay of the queue; a loss without a queue is no congestion; CUBIC among flows that fill the queue (docs/spindle.md)"
    }

    fn is_part_of_transport(&self) -> bool {
        true
    }

    fn build(&self, p: &Parameters) -> Box<dyn Congestion> {
        Box::new(self.controller(p))
    }
}

impl DelayBounded {
    fn controller(&self, p: &Parameters) -> DelayBoundedController {
        DelayBoundedController {
            settings: *self,
            cubic: CubicController::new(p),
            least_target: self.least_target.max(p.timing_precision),
            subflow: p.subflow,
            path: PathMeasurements::default(),
            network_rate: None,
            capacity: Capacity::new(p.timing_precision),
            round: Round::default(),
            second_half: SecondHalf::default(),
            limited: false,
            losses: Losses::default(),
            ceiling: None,
            trial: None,
            untried: 0,
            step: 0,
            credit: 0.0,
            settling: false,
            shrunk_at: [None; 2],
            long_rounds: 0,
            competes: false,
            together: Together::default(),
            resumes_slow_start: false,
            queue: None,
        }
    }
}

/// The target's factor for each flow on the path. Below 1, because a flight may be measured as faster than it was, and
/// because a window that grows is smaller than what the path carries (our choice).
const TARGET_PER_FLOW: f64 = 0.5;
/// The factor of the window after an ECN echo (RFC 8511, section 4: beta of Alternative Backoff with ECN for CUBIC).
const BETA_ECN: f64 = 0.85;
/// The factor of the window after a loss with a queue (RFC 9438, section 4.6).
const BETA_LOSS: f64 = 0.7;
/// The window is never reduced below this share of itself at once (Swift's max_mdf).
const LEAST_FACTOR: f64 = 0.5;
/// The step is at most this share of the window in a round.
const LARGEST_STEP: f64 = 0.5;
/// Mean losses in a round from which a smaller window is tried. With fewer, a round without a loss would often be chance
/// (5 % of rounds, for a Poisson distribution with a mean of 3).
const LEAST_LOSSES: f64 = 3.0;
/// Rounds between two trials (our choice).
const TRIAL_INTERVAL: u32 = 8;
/// A trial makes the window smaller by twice the losses, and by at least this share (our choice).
const LEAST_TRIAL: f64 = 0.0625;
/// The ceiling is forgotten once the window exceeds it by this factor without losses (our choice).
const BEYOND_CEILING: f64 = 1.25;

/// A smaller window for two rounds, which shows whether losses depend on the window.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The window before.
    cwnd: u64,
    /// The mean share of losses before.
    losses: f64,
    /// Rounds until segments that were sent with the smaller window are acknowledged.
    rounds: u32,
}

#[derive(Clone, Debug)]
struct DelayBoundedController {
    settings: DelayBounded,
    /// CUBIC's state. It has the window in both modes.
    cubic: CubicController,
    /// The target is at least this long.
    least_target: Duration,
    subflow: usize,
    /// The round-trip time without a queue, and the rate of the slowest link.
    path: PathMeasurements,
    /// What this flow and others to the network of the peer measure together, if they are known.
    network_rate: Option<NetworkRate>,
    capacity: Capacity,
    round: Round,
    second_half: SecondHalf,
    /// cwnd limited the sender in this round.
    limited: bool,
    losses: Losses,
    /// A window in bytes that fitted into the path with its short queue, when a larger one lost segments.
    ceiling: Option<u64>,
    trial: Option<Trial>,
    /// Rounds since the last trial.
    untried: u32,
    /// Segments by which the window grows in the next round.
    step: u64,
    /// Growth of less than a segment, in segments.
    credit: f64,
    /// The window shrank after the last round, which the round-trip times of this one do not show yet.
    settling: bool,
    /// The delays of the queue that led to the last two reductions, the later one last, until it is below the target.
    shrunk_at: [Option<Duration>; 2],
    /// Rounds in a row with a delay above twice the target.
    long_rounds: u32,
    /// CUBIC sets the window.
    competes: bool,
    /// The subflows in the same queue.
    together: Together,
    /// Slow start continues after the losses are repaired.
    resumes_slow_start: bool,
    /// The delay of the queue in the last round.
    queue: Option<Duration>,
}

impl DelayBoundedController {
    fn target(&self, base: Duration) -> Duration {
        let share = base.as_nanos() as f64 * self.settings.target_share;
        let one = share.max(self.least_target.as_nanos() as f64);
        let windows = self.window().cwnd() as f64 * self.together.number();
        let own = self.path.rate();
        let rate = self.network_rate.as_ref().map_or(own, |n| n.for_flow(own));
        let flows = rate.unwrap_or(0) as f64 * base.as_secs_f64() / windows;
        let factor = (flows * TARGET_PER_FLOW).clamp(1.0, self.settings.largest_factor.max(1.0));
        Duration::from_nanos((one * factor) as u64)
    }

    /// Whether the queue was long when the last segments were acknowledged. Unknown counts as long.
    fn has_queue(&self) -> bool {
        let Some(base) = self.path.smallest_rtt() else {
            return true;
        };
        let now = self.round.current_min.map(|min| min.saturating_sub(base));
        let is_long = |queue| self.is_long(queue, base);
        match (now, self.queue) {
            (None, None) => true,
            (now, last) => now.is_some_and(is_long) || last.is_some_and(is_long),
        }
    }

    /// Whether a queue is longer than half of the target.
    fn is_long(&self, queue: Duration, base: Duration) -> bool {
        queue * 2 > self.target(base)
    }

    /// Multiplies the window by `factor` and leaves slow start.
    fn shrink(&mut self, factor: f64) {
        let window = self.cubic.window_mut();
        let least = window.mss() * MIN_SSTHRESH_SEGMENTS;
        let cwnd = (window.cwnd() as f64 * factor.max(LEAST_FACTOR)) as u64;
        window.shrink_to(cwnd.max(least));
        window.end_slow_start();
        self.step = 0;
        self.settling = true;
        self.resumes_slow_start = false;
    }

    /// A round has ended. `grown` if slow start has set the window for this acknowledgement.
    fn end_round(&mut self, s: &AckSample, grown: bool, coupling: &mut Coupling) {
        let smallest = self.round.current_min;
        let later = self.second_half.end_round(s);
        self.round.begin_next(s.next);
        if let Some(rate) = self.capacity.end_round(s.losses) {
            self.path.on_rate(s.now, rate);
            if let Some(network) = &self.network_rate {
                network.on_rate(rate.lower);
            }
        }
        self.losses.end_round(s.losses, self.window().mss());
        self.untried = self.untried.saturating_add(1);
        let limited = std::mem::take(&mut self.limited);
        let settling = std::mem::take(&mut self.settling);
        let mut adjusts = limited && !settling;
        if let (Some(smallest), Some(base)) = (smallest, self.path.smallest_rtt()) {
            let queue = smallest.saturating_sub(base);
            self.queue = Some(queue);
            self.choose_mode(queue, base, limited);
            self.share_queue(s.now, queue, base, coupling);
            if !self.competes && adjusts {
                adjusts = !self.reduce(smallest, base);
            }
        }
        if !self.competes && adjusts && !grown && self.may_grow(s) {
            self.grow(later);
        }
        self.losses.begin_round(self.cubic.cwnd());
    }

    fn choose_mode(&mut self, queue: Duration, base: Duration, limited: bool) {
        let target = self.target(base);
        if queue > target * 2 {
            self.long_rounds += u32::from(limited);
        } else {
            self.long_rounds = 0;
        }
        let competes = match self.competes {
            true => queue > target,
            false => self.long_rounds >= self.settings.patience,
        };
        if competes && !self.competes {
            self.cubic.window_mut().end_slow_start();
        }
        self.competes = competes;
    }

    /// Subflows in the same queue are one flow together.
    fn share_queue(
        &mut self,
        now: Instant,
        queue: Duration,
        base: Duration,
        coupling: &mut Coupling,
    ) {
        let long = self.competes || self.is_long(queue, base);
        self.together
            .end_round(now, long.then_some(queue), self.subflow, coupling);
        self.cubic.set_part(1.0 / self.together.number());
    }

    /// Reduces the window if the delay or the losses of the round require it. Returns whether the window must not grow.
    fn reduce(&mut self, smallest: Duration, base: Duration) -> bool {
        let target = self.target(base);
        let queue = smallest.saturating_sub(base);
        let cwnd = self.window().cwnd() as f64;
        if self.losses.mean > self.settings.most_loss {
            self.losses.mean *= LEAST_FACTOR;
            self.shrink(BETA_LOSS);
        } else if queue > target {
            if !self.is_futile(queue) {
                self.shrink(base.as_nanos() as f64 / smallest.as_nanos().max(1) as f64);
                self.shrunk_at = [self.shrunk_at[1], Some(queue)];
            } else {
                self.path.reject_supposition();
                self.network_rate = None;
            }
            return true;
        } else if let Some(arrived) = self.losses.lost_growth() {
            self.shrink((arrived as f64 / cwnd).min(1.0));
            self.ceiling = Some(arrived);
        } else {
            self.shrunk_at = [None; 2];
            return self.try_smaller_window();
        }
        self.shrunk_at = [None; 2];
        self.trial = None;
        true
    }

    /// Whether the last two reductions did not shorten the queue by a quarter, so that this flow does not cause it: the
    /// path became longer, or others fill the queue.
    fn is_futile(&self, queue: Duration) -> bool {
        self.shrunk_at[0].is_some_and(|before| queue * 4 > before * 3)
    }

    /// Tries a smaller window if segments are lost for some time. If fewer are lost then, a short queue overflowed, and
    /// the window stays small. If not, it returns. Returns whether a trial is under way.
    fn try_smaller_window(&mut self) -> bool {
        if let Some(trial) = &mut self.trial {
            trial.rounds -= 1;
            if trial.rounds > 0 {
                return true;
            }
            let (cwnd, losses) = (trial.cwnd, trial.losses);
            self.trial = None;
            self.untried = 0;
            if self.losses.last * 2.0 > losses {
                let window = self.cubic.window_mut();
                window.grow(cwnd.saturating_sub(window.cwnd()));
            } else {
                self.ceiling = Some(self.window().cwnd());
            }
            return true;
        }
        let window = self.window();
        let lost = self.losses.mean * window.cwnd() as f64 / window.mss() as f64;
        let due = self.untried >= TRIAL_INTERVAL && lost >= LEAST_LOSSES;
        if !due || self.window().in_slow_start() || self.resumes_slow_start {
            return false;
        }
        self.trial = Some(Trial {
            cwnd: self.window().cwnd(),
            losses: self.losses.mean,
            rounds: 2,
        });
        self.shrink(1.0 - (2.0 * self.losses.mean).max(LEAST_TRIAL));
        self.settling = false;
        true
    }

    /// Whether the window may grow, but not by slow start.
    fn may_grow(&mut self, s: &AckSample) -> bool {
        let window = self.cubic.window_mut();
        window.may_grow(s) && !window.in_slow_start()
    }

    /// Grows the window by a step, which doubles while the queue is below half of the target, also in the second half of
    /// the round, in which the smallest round-trip time was `later`. From the ceiling on it is one segment.
    fn grow(&mut self, later: Option<Duration>) {
        let grows = |base| later.is_some_and(|rtt| self.is_long(rtt.saturating_sub(base), base));
        let faster = !self.has_queue() && !self.path.smallest_rtt().is_some_and(grows);
        let number = self.together.number();
        let window = self.cubic.window_mut();
        let (cwnd, mss) = (window.cwnd(), window.mss());
        if cwnd as f64 > self.ceiling.unwrap_or(u64::MAX) as f64 * BEYOND_CEILING {
            self.ceiling = None;
        }
        let most = ((cwnd as f64 * LARGEST_STEP) as u64 / mss).max(1);
        let step = match faster {
            true => (self.step * 2).clamp(1, most),
            false => {
                self.credit += 1.0 / number;
                let whole = self.credit.floor();
                self.credit -= whole;
                whole as u64
            }
        };
        let below = self.ceiling.map(|c| c.saturating_sub(cwnd) / mss);
        self.step = below.map_or(step, |below| step.min(below.max(1)));
        window.grow(self.step * mss);
    }

    /// A loss of another subflow in the same queue reduces the window.
    fn reduce_together(&mut self, s: &AckSample, coupling: &mut Coupling) {
        let Some(srtt) = s.srtt else {
            return;
        };
        let lost = self
            .together
            .is_reduced(s.now, srtt, self.subflow, coupling);
        if !lost || s.recovering {
            return;
        }
        let cwnd = self.window().cwnd();
        if self.competes {
            self.cubic.on_signal(s.now, cwnd, Signal::Loss, coupling);
        } else if self.has_queue() {
            self.shrink(BETA_LOSS);
        }
    }

    fn slow_start(&mut self, s: &AckSample) {
        let window = self.cubic.window_mut();
        if self.resumes_slow_start && !s.recovering {
            window.forget_ssthresh();
            self.resumes_slow_start = false;
        }
        if !window.may_grow(s) || !window.in_slow_start() {
            return;
        }
        window.slow_start(s.acked, hystart::L);
        let (Some(base), Some(current)) = (self.path.smallest_rtt(), self.round.current_min) else {
            return;
        };
        let enough = self.round.samples >= hystart::N_RTT_SAMPLE;
        if enough && current > base + self.target(base) {
            self.cubic.window_mut().end_slow_start();
        }
    }
}

impl Congestion for DelayBoundedController {
    fn window(&self) -> &Window {
        self.cubic.window()
    }

    fn window_mut(&mut self) -> &mut Window {
        self.cubic.window_mut()
    }

    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling) {
        if let Some(rtt) = sample.rtt {
            self.path.on_rtt(sample.now, rtt);
        }
        self.capacity.on_ack(sample);
        self.second_half.on_ack(sample);
        let over = self.round.on_ack(sample);
        self.limited |= sample.cwnd_limited;
        let in_slow_start = self.window().in_slow_start();
        if self.competes {
            self.cubic.on_ack(sample, coupling);
        } else {
            self.slow_start(sample);
        }
        self.reduce_together(sample, coupling);
        if over {
            self.end_round(sample, in_slow_start, coupling);
        }
        let cwnd = self.window().coupled_cwnd(sample.recovering);
        coupling.update(self.subflow, cwnd, sample.srtt);
    }

    fn on_selective_ack(&mut self, now: Instant, rtt: Duration) {
        self.path.on_rtt(now, rtt);
        self.round.on_rtt(rtt);
    }

    fn on_signal(&mut self, now: Instant, in_flight: u64, signal: Signal, coupling: &mut Coupling) {
        if self.competes {
            self.together.on_loss(now, self.subflow, coupling);
            self.cubic.on_signal(now, in_flight, signal, coupling);
            return;
        }
        let in_slow_start = self.window().in_slow_start() || self.resumes_slow_start;
        let factor = match signal {
            Signal::Ecn => BETA_ECN,
            Signal::Loss if self.has_queue() => BETA_LOSS,
            Signal::Loss => 1.0,
        };
        let window = self.cubic.window_mut();
        let cwnd = (window.cwnd() as f64 * factor) as u64;
        window.reduce(cwnd, MIN_SSTHRESH_SEGMENTS);
        self.resumes_slow_start = factor == 1.0 && in_slow_start;
        self.step = 0;
        if factor < 1.0 {
            self.settling = true;
            self.together.on_loss(now, self.subflow, coupling);
        }
        coupling.update(self.subflow, self.window().cwnd(), None);
    }

    fn on_timeout(&mut self, now: Instant, in_flight: u64, first: bool, coupling: &mut Coupling) {
        let keeps = !self.competes && !self.has_queue();
        self.resumes_slow_start = false;
        self.step = 0;
        if keeps {
            let window = self.cubic.window_mut();
            let ssthresh = window.cwnd().max(in_flight);
            window.timeout(ssthresh, MIN_SSTHRESH_SEGMENTS, first);
            coupling.update(self.subflow, self.window().cwnd(), None);
        } else {
            self.cubic.on_timeout(now, in_flight, first, coupling);
        }
    }

    fn on_idle(&mut self, restart_window: u64) {
        self.cubic.on_idle(restart_window);
        self.long_rounds = 0;
    }

    fn on_return(&mut self) {
        self.cubic.on_return();
        self.path = PathMeasurements::default();
        self.network_rate = None;
        self.capacity.restart();
        self.queue = None;
    }

    fn measurements(&self) -> Option<PathMeasurements> {
        Some(self.path.without_supposition())
    }

    fn expect(&mut self, former: &PathMeasurements) {
        self.path.join(former);
    }

    fn share_rate(&mut self, network: &NetworkRate) {
        self.network_rate = Some(network.clone());
    }

    fn expect_losses(&mut self, share: f64) {
        if share > 0.0 {
            let cwnd = self.window().cwnd();
            self.losses.expect(share.min(self.settings.most_loss), cwnd);
        }
    }

    fn undo(&mut self, now: Instant) {
        self.cubic.undo(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MSS, Path, parameters};
    use super::super::{MeasuredRate, NetworkMeasurements};
    use super::*;

    /// A path of 20 ms that carries 100 segments in a round trip, and queues or drops the others.
    struct Bottleneck {
        path: Path<DelayBoundedController>,
        /// Segments that the queue takes.
        buffer: u64,
        /// Segments of other flows in the queue.
        others: u64,
    }

    const ROUND: Duration = Duration::from_millis(20);
    const CAPACITY: u64 = 100;

    impl Bottleneck {
        fn new(buffer: u64) -> Self {
            let mut path = Path::new(DelayBounded::default().controller(&parameters()));
            path.rtt = ROUND;
            Self {
                path,
                buffer,
                others: 0,
            }
        }

        /// A round trip with a full window.
        fn round(&mut self) {
            let window = self.path.cc.cwnd() / MSS;
            let excess = window.saturating_sub(CAPACITY) + self.others;
            let queue = excess.min(self.buffer);
            self.path.rtt = ROUND + ROUND * queue / CAPACITY;
            self.path.round();
            if excess > queue {
                self.path.losses += excess - queue;
                self.path.signal(Signal::Loss);
            }
        }

        /// The window in segments after this many rounds.
        fn after(&mut self, rounds: usize) -> u64 {
            (0..rounds).for_each(|_| self.round());
            self.path.cc.cwnd() / MSS
        }
    }

    #[test]
    fn window_fills_the_path_and_keeps_the_queue_below_a_quarter_of_the_round_trip() {
        let mut b = Bottleneck::new(1000);
        b.after(10);
        for _ in 0..200 {
            let window = b.after(1);
            // 100 segments are on the path. 25 in the queue are the target. A step may exceed it before it shows.
            assert!((100..=150).contains(&window), "{window}");
        }
    }

    #[test]
    fn slow_start_doubles_until_the_queue_exceeds_the_target() {
        let mut b = Bottleneck::new(1000);
        let windows: Vec<u64> = (0..4).map(|_| b.after(1)).collect();
        assert_eq!(windows, [20, 40, 80, 160]);
        // 60 segments wait for 12 ms, which the next round measures.
        let end = b.after(1);
        assert!((160..320).contains(&end), "{end}");
        assert!(!b.path.cc.window().in_slow_start());
        assert!(b.after(5) <= 130);
    }

    #[test]
    fn loss_without_a_queue_keeps_the_window_and_slow_start_resumes() {
        let mut b = Bottleneck::new(1000);
        b.after(2);
        b.path.losses += 1;
        b.path.signal(Signal::Loss);
        assert_eq!(b.path.cc.cwnd(), 40 * MSS);
        assert_eq!(b.path.cc.ssthresh(), 40 * MSS, "for fast recovery");
        assert_eq!(b.after(1), 80);
    }

    #[test]
    fn loss_with_a_queue_reduces_the_window_like_cubic_and_a_mark_by_less() {
        for (signal, factor) in [(Signal::Loss, BETA_LOSS), (Signal::Ecn, BETA_ECN)] {
            let mut b = Bottleneck::new(1000);
            let before = b.after(6);
            b.path.rtt = ROUND * 2;
            b.path.ack(MSS);
            b.path.signal(signal);
            let expected = (before as f64 * factor) as u64;
            let window = b.path.cc.cwnd() / MSS;
            assert!(
                window.abs_diff(expected) <= 1,
                "{signal:?} {before} {window}"
            );
        }
    }

    #[test]
    fn short_queue_that_overflows_keeps_losses_below_5_percent() {
        let mut b = Bottleneck::new(2);
        b.after(50);
        let (losses, mut sent) = (b.path.losses, 0);
        for _ in 0..500 {
            sent += b.path.cc.cwnd() / MSS;
            b.round();
        }
        let share = (b.path.losses - losses) as f64 / sent as f64;
        assert!(share < 0.05, "{share}");
        assert!(sent > 500 * CAPACITY * 8 / 10, "{sent}");
    }

    #[test]
    fn window_shrinks_if_more_is_lost_than_links_without_congestion_lose() {
        let mut b = Bottleneck::new(1000);
        b.after(20);
        for _ in 0..20 {
            let window = b.path.cc.cwnd() / MSS;
            b.path.losses += window / 4;
            b.path.signal(Signal::Loss);
            b.round();
        }
        assert!(b.path.cc.cwnd() < 50 * MSS, "{}", b.path.cc.cwnd() / MSS);
    }

    #[test]
    fn segments_beyond_a_hole_show_the_queue_while_acknowledgements_measure_nothing() {
        let mut b = Bottleneck::new(1000);
        let before = b.after(20);
        b.path.timed = false;
        for _ in 0..3 {
            b.path.cc.on_selective_ack(b.path.now, ROUND * 2);
            b.path.round();
        }
        assert_eq!(b.path.cc.queue, Some(ROUND));
        let window = b.path.cc.cwnd() / MSS;
        assert!(window <= before * 3 / 4, "{before} {window}");
    }

    #[test]
    fn cubic_sets_the_window_among_flows_that_fill_the_queue_and_only_then() {
        let mut b = Bottleneck::new(1000);
        b.after(20);
        b.others = 100;
        b.after(5);
        assert!(!b.path.cc.competes, "{}", b.path.cc.long_rounds);
        let least = b.after(10);
        assert!(b.path.cc.competes);
        assert!(b.after(100) > least, "CUBIC's window grows");
        b.others = 0;
        // A loss ends CUBIC's queue, and with it the competition.
        b.path.signal(Signal::Loss);
        b.after(30);
        assert!(!b.path.cc.competes);
    }

    #[test]
    fn timeout_without_a_queue_keeps_ssthresh_and_one_with_a_queue_lowers_it() {
        let mut b = Bottleneck::new(1000);
        b.after(3);
        b.path.timeout();
        assert_eq!((b.path.cc.cwnd(), b.path.cc.ssthresh()), (MSS, 80 * MSS));
        let mut b = Bottleneck::new(1000);
        b.after(6);
        b.path.rtt = ROUND * 2;
        b.path.ack(MSS);
        let cwnd = b.path.cc.cwnd();
        b.path.timeout();
        assert!(b.path.cc.ssthresh() < cwnd);
    }

    /// A rate that was measured by an exact clock.
    fn exact(rate: u64) -> MeasuredRate {
        MeasuredRate {
            lower: rate,
            upper: rate,
        }
    }

    #[test]
    fn target_is_longer_if_the_path_carries_more_than_twice_the_window() {
        let mut cc = DelayBounded::default().controller(&parameters());
        let base = Duration::from_millis(20);
        // In 20 ms the slowest link sends 200 segments.
        cc.path.on_rate(Instant::ZERO, exact(10_000 * MSS));
        let mut target_of = |segments: u64| {
            cc.window_mut().set_cwnd(segments * MSS);
            cc.target(base).as_micros()
        };
        assert_eq!(
            [200, 100, 50, 10, 5].map(&mut target_of),
            [5_000, 5_000, 10_000, 50_000, 60_000]
        );
    }

    /// The other flow measures that the slowest link sends 200 segments in 20 ms. This one measured 10, or nothing.
    #[test]
    fn flow_has_the_target_of_others_to_its_network_until_that_proves_wrong() {
        let base = Duration::from_millis(20);
        let network = NetworkRate::default();
        let mut cc = DelayBounded::default().controller(&parameters());
        cc.window_mut().set_cwnd(10 * MSS);
        cc.share_rate(&network);
        assert_eq!(cc.target(base).as_micros(), 5_000);
        network.on_rate(10_000 * MSS);
        assert_eq!(cc.target(base).as_micros(), 50_000);
        cc.path.on_rate(Instant::ZERO, exact(500 * MSS));
        assert_eq!(cc.target(base).as_micros(), 10_000, "four times its own");
        cc.on_return();
        assert_eq!(cc.target(base).as_micros(), 5_000);
    }

    #[test]
    fn flight_that_was_sent_at_once_shows_how_many_flows_share_the_path() {
        let mut cc = DelayBounded::default().controller(&parameters());
        let base = Duration::from_millis(20);
        for i in 0..=10 {
            let mut s = super::super::tests::sample(MSS);
            let rtt = base + Duration::from_micros(100) * i;
            (s.now, s.rtt) = (Instant::ZERO + rtt, Some(rtt));
            s.acked_to = crate::types::SubflowPosition::FIRST_BYTE + i * MSS;
            s.next = crate::types::SubflowPosition::FIRST_BYTE + 10 * MSS;
            cc.on_ack(&s, &mut Coupling::new());
        }
        assert_eq!(cc.path.rate(), Some(10_000 * MSS), "200 segments in 20 ms");
        cc.window_mut().set_cwnd(50 * MSS);
        assert_eq!(cc.target(base).as_micros(), 10_000);
    }

    #[test]
    fn measurements_of_a_former_subflow_show_the_queue_in_which_this_one_begins() {
        let rounds = |former: Option<Duration>| {
            let mut b = Bottleneck::new(1000);
            b.others = 200;
            if let Some(rtt) = former {
                let mut measured = PathMeasurements::default();
                measured.on_rtt(b.path.now, rtt);
                b.path.cc.expect(&measured);
            }
            b.after(4)
        };
        assert_eq!(rounds(None), 160);
        assert!(rounds(Some(ROUND)) < 40);
    }

    /// The path has 20 ms. Other hosts of the network have 10 ms, and their queue made it 20 ms at times.
    #[test]
    fn path_that_is_longer_than_that_of_the_network_is_filled_within_some_rounds() {
        let mut b = Bottleneck::new(1000);
        let mut network = NetworkMeasurements::default();
        network.on_handshake(b.path.now, ROUND / 2);
        let mut former = PathMeasurements::default();
        former.suppose(&network);
        b.path.cc.expect(&former);
        let windows: Vec<u64> = (0..16).map(|_| b.after(1)).collect();
        assert!(windows[3] < 20, "{windows:?}");
        assert!(windows[15] >= CAPACITY, "{windows:?}");
        let measured = b.path.cc.measurements().and_then(|m| m.smallest_rtt());
        assert_eq!(measured, Some(ROUND));
    }

    #[test]
    fn target_is_at_least_the_timing_precision_of_the_hosts() {
        let precise = Parameters {
            timing_precision: Duration::from_millis(1),
            ..parameters()
        };
        let cc = DelayBounded::default().controller(&precise);
        let target = |us| cc.target(Duration::from_micros(us)).as_micros();
        assert_eq!([100, 4_000, 20_000].map(target), [1_000, 1_000, 5_000]);
    }

    #[test]
    fn target_is_a_quarter_of_the_round_trip_and_at_least_50_us() {
        let cc = DelayBounded::default().controller(&parameters());
        let target = |us| cc.target(Duration::from_micros(us)).as_micros();
        assert_eq!([100, 200, 20_000].map(target), [50, 50, 5_000]);
    }
}
