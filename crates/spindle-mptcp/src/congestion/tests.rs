//! A small path model for the controllers' tests, and properties that hold for every controller.

use std::collections::HashSet;

use proptest::prelude::*;
use spindle_units::{Duration, Instant};

use super::*;

pub(super) const MSS: u64 = 1000;

/// Parameters with an initial window of ten segments, without a cap or a threshold.
pub(super) fn parameters() -> Parameters {
    Parameters::new(MSS, 10 * MSS)
}

/// An acknowledgement of `acked` bytes to a sender that is limited by cwnd.
pub(super) fn sample(acked: u64) -> AckSample {
    AckSample {
        now: Instant::ZERO,
        acked,
        marked: 0,
        prior_in_flight: acked,
        rtt: None,
        srtt: None,
        acked_to: SubflowPosition(acked),
        next: SubflowPosition(acked),
        cwnd_limited: true,
        recovering: false,
        losses: 0,
    }
}

/// Active rows with these windows in bytes and round-trip times in milliseconds.
pub(super) fn coupling(rows: &[(u64, Option<u64>)]) -> Coupling {
    let mut c = Coupling::new();
    for (i, (cwnd, ms)) in rows.iter().enumerate() {
        c.activate(i, *cwnd);
        c.row_mut(i).srtt = ms.map(Duration::from_millis);
    }
    c
}

#[track_caller]
pub(super) fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
}

/// A path that acknowledges each segment separately, one window per round-trip time.
pub(super) struct Path<C> {
    pub(super) cc: C,
    pub(super) coupling: Coupling,
    pub(super) now: Instant,
    pub(super) rtt: Duration,
    pub(super) limited: bool,
    /// Acknowledgements measure the round-trip time.
    pub(super) timed: bool,
    /// Segments lost so far.
    pub(super) losses: u64,
    acked_to: SubflowPosition,
}

impl<C: Congestion> Path<C> {
    pub(super) fn new(cc: C) -> Self {
        Self {
            cc,
            coupling: Coupling::new(),
            now: Instant::ZERO,
            rtt: Duration::from_millis(100),
            limited: true,
            timed: true,
            losses: 0,
            acked_to: SubflowPosition::SYN,
        }
    }

    /// SND.NXT: one window beyond the acknowledged data.
    pub(super) fn next(&self) -> SubflowPosition {
        self.acked_to + self.cc.cwnd()
    }

    pub(super) fn ack(&mut self, bytes: u64) {
        self.ack_marked(bytes, 0);
    }

    pub(super) fn ack_marked(&mut self, bytes: u64, marked: u64) {
        let next = self.next();
        self.acked_to += bytes;
        let s = AckSample {
            now: self.now,
            acked: bytes,
            marked,
            prior_in_flight: self.cc.cwnd(),
            rtt: self.timed.then_some(self.rtt),
            srtt: Some(self.rtt),
            acked_to: self.acked_to,
            next: next.max(self.acked_to),
            cwnd_limited: self.limited,
            recovering: false,
            losses: self.losses,
        };
        self.cc.on_ack(&s, &mut self.coupling);
    }

    /// Acknowledges the current window, evenly over a round-trip time.
    pub(super) fn round(&mut self) {
        let segments = self.cc.cwnd() / MSS;
        for _ in 0..segments {
            self.now += self.rtt / segments;
            self.ack(MSS);
        }
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        let flight = self.cc.cwnd();
        self.cc
            .on_signal(self.now, flight, signal, &mut self.coupling);
    }

    pub(super) fn timeout(&mut self) {
        let flight = self.cc.cwnd();
        self.cc
            .on_timeout(self.now, flight, true, &mut self.coupling);
    }
}

fn path(kind: &dyn ControllerFactory, p: Parameters) -> Path<Box<dyn Congestion>> {
    let mut path = Path::new(kind.build(&p));
    path.coupling.activate(p.subflow, path.cc.cwnd());
    path
}

impl Congestion for Box<dyn Congestion> {
    fn window(&self) -> &Window {
        (**self).window()
    }
    fn window_mut(&mut self) -> &mut Window {
        (**self).window_mut()
    }
    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling) {
        (**self).on_ack(sample, coupling);
    }
    fn on_signal(&mut self, now: Instant, flight: u64, signal: Signal, c: &mut Coupling) {
        (**self).on_signal(now, flight, signal, c);
    }
    fn on_timeout(&mut self, now: Instant, flight: u64, first: bool, c: &mut Coupling) {
        (**self).on_timeout(now, flight, first, c);
    }
    fn set_cwnd(&mut self, cwnd: u64) {
        (**self).set_cwnd(cwnd);
    }
    fn on_return(&mut self) {
        (**self).on_return();
    }
    fn on_idle(&mut self, restart_window: u64) {
        (**self).on_idle(restart_window);
    }
    fn undo(&mut self, now: Instant) {
        (**self).undo(now);
    }
    fn set_mss(&mut self, mss: u64) {
        (**self).set_mss(mss);
    }
}

/// cwnd in segments in each round: six rounds of slow start from 10 to 64 and congestion avoidance, a loss, six
/// rounds, a timeout, eight rounds.
fn evolution(kind: &dyn ControllerFactory) -> String {
    let mut p = parameters();
    p.initial_ssthresh = 64 * MSS;
    let mut path = path(kind, p);
    let mut line = Vec::new();
    let mut run = |path: &mut Path<Box<dyn Congestion>>, rounds| {
        for _ in 0..rounds {
            line.push((path.cc.cwnd() / MSS).to_string());
            path.round();
        }
        line.push("|".to_owned());
    };
    run(&mut path, 6);
    path.signal(Signal::Loss);
    run(&mut path, 6);
    path.timeout();
    run(&mut path, 8);
    line.join(" ")
}

#[test]
fn reno_cwnd_follows_the_expected_sequence() {
    // 67 segments are halved to 33.5. A round acknowledges 33 segments, which is not yet a whole window.
    assert_eq!(
        evolution(&Reno),
        "10 20 40 64 65 66 | 33 33 34 35 36 37 | 1 2 4 8 16 19 20 21 |"
    );
}

#[test]
fn coupled_controllers_and_dctcp_act_as_reno_on_a_single_subflow() {
    let all: [&dyn ControllerFactory; 5] = [&Lia, &Olia, &Balia, &FullyCoupled, &Dctcp];
    for kind in all {
        assert_eq!(evolution(kind), evolution(&Reno), "{kind:?}");
    }
}

#[test]
fn built_in_controllers_have_distinct_names_and_a_summary() {
    let names: HashSet<_> = built_in().iter().map(|k| k.name()).collect();
    assert_eq!(names.len(), built_in().len());
    assert!(names.contains("reno") && names.contains("fully-coupled"));
    assert!(built_in().iter().all(|k| !k.summary().is_empty()));
}

#[test]
fn cwnd_does_not_grow_in_fast_recovery_but_grows_after_a_timeout() {
    for kind in built_in() {
        let mut path = path(&**kind, parameters());
        let mut s = sample(MSS);
        s.recovering = true;
        path.signal(Signal::Loss);
        let reduced = path.cc.cwnd();
        path.cc.on_ack(&s, &mut path.coupling);
        assert_eq!(path.cc.cwnd(), reduced, "{kind:?}");
        // PRR may hold cwnd below ssthresh. That is not slow start.
        path.cc.set_cwnd(2 * MSS);
        path.cc.on_ack(&s, &mut path.coupling);
        assert_eq!(path.cc.cwnd(), 2 * MSS, "{kind:?}");
        assert_eq!(
            path.coupling.total_cwnd(),
            reduced,
            "ssthresh counts meanwhile"
        );
        path.timeout();
        path.cc.on_ack(&s, &mut path.coupling);
        assert_eq!(path.cc.cwnd(), 2 * MSS, "{kind:?}");
        // Congestion avoidance also continues (RFC 5681, section 3.1) until the losses are repaired.
        for _ in 0..20 {
            path.cc.on_ack(&s, &mut path.coupling);
        }
        assert!(path.cc.cwnd() > path.cc.ssthresh(), "{kind:?}");
    }
}

#[test]
fn cwnd_grows_only_if_it_limits_the_sender() {
    for kind in built_in() {
        let mut path = path(&**kind, parameters());
        path.limited = false;
        path.round();
        assert_eq!(path.cc.cwnd(), 10 * MSS, "{kind:?}");
    }
}

#[test]
fn undo_restores_the_window_after_a_repeated_timeout() {
    for kind in built_in() {
        let mut p = parameters();
        p.initial_ssthresh = 40 * MSS;
        let mut path = path(&**kind, p);
        path.timeout();
        path.cc.on_timeout(path.now, MSS, false, &mut path.coupling);
        assert!(
            path.cc.ssthresh() >= 5 * MSS,
            "{kind:?}: the second expiry does not lower ssthresh again"
        );
        path.cc.undo(path.now);
        assert_eq!(
            (path.cc.cwnd(), path.cc.ssthresh()),
            (10 * MSS, 40 * MSS),
            "{kind:?}"
        );
        path.signal(Signal::Ecn);
        let reduced = path.cc.cwnd();
        path.cc.undo(path.now);
        path.cc.undo(path.now);
        assert_eq!(path.cc.cwnd(), 10 * MSS, "{kind:?}: was {reduced}");
    }
}

/// RFC 5681, section 3.1, allows both. Linux 3.18 compares with "less or equal".
#[test]
fn slow_start_at_ssthresh_grows_by_one_segment_for_the_first_ack() {
    for through_ssthresh in [false, true] {
        let p = Parameters {
            initial_ssthresh: 10 * MSS,
            through_ssthresh,
            ..parameters()
        };
        let mut path = path(&Reno, p);
        path.ack(MSS);
        let expected = if through_ssthresh { 11 } else { 10 };
        assert_eq!(path.cc.cwnd(), expected * MSS);
        path.ack(MSS);
        assert_eq!(path.cc.cwnd(), expected * MSS, "congestion avoidance");
    }
}

#[test]
fn on_idle_never_raises_cwnd() {
    for kind in built_in() {
        let mut path = path(&**kind, parameters());
        path.cc.on_idle(20 * MSS);
        assert_eq!(path.cc.cwnd(), 10 * MSS, "{kind:?}");
        path.cc.on_idle(4 * MSS);
        assert_eq!(path.cc.cwnd(), 4 * MSS, "{kind:?}");
    }
}

#[derive(Clone, Debug)]
enum Call {
    Ack(AckSample),
    Signal(u64, Signal),
    Timeout(u64, bool),
    SetCwnd(u64),
    Idle(u64),
    Undo,
    SetMss(u64),
    Sibling(usize, u64, Option<u64>),
    Leave(usize),
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..200_000u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn ack() -> impl Strategy<Value = AckSample> {
    let rtt = prop_oneof![
        Just(None),
        any::<u64>().prop_map(Some),
        (0..10u64).prop_map(Some)
    ];
    let flags = any::<(bool, bool, bool)>();
    (bytes(), bytes(), bytes(), bytes(), rtt, flags).prop_map(
        |(now, acked, acked_to, next, rtt, (limited, recovering, marked))| AckSample {
            now: Instant::from_nanos(now),
            acked,
            marked: if marked { acked } else { 0 },
            prior_in_flight: acked,
            rtt: rtt.map(Duration::from_nanos),
            srtt: rtt.map(Duration::from_nanos),
            acked_to: SubflowPosition(acked_to),
            next: SubflowPosition(next),
            cwnd_limited: limited,
            recovering,
            losses: acked / 1000,
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    let signal = prop_oneof![Just(Signal::Loss), Just(Signal::Ecn)];
    let sibling_rtt = proptest::option::of(bytes());
    prop_oneof![
        12 => ack().prop_map(Call::Ack),
        3 => (bytes(), signal).prop_map(|(b, s)| Call::Signal(b, s)),
        2 => (bytes(), any::<bool>()).prop_map(|(b, f)| Call::Timeout(b, f)),
        2 => bytes().prop_map(Call::SetCwnd),
        1 => bytes().prop_map(Call::Idle),
        2 => Just(Call::Undo),
        1 => (0..3000u64).prop_map(Call::SetMss),
        2 => (0..4usize, bytes(), sibling_rtt).prop_map(|(i, b, r)| Call::Sibling(i, b, r)),
        1 => (0..4usize).prop_map(Call::Leave),
    ]
}

proptest! {
    #[test]
    fn cwnd_stays_in_bounds_for_any_sequence_of_calls(
        which in 0..built_in().len(),
        max_window in prop_oneof![Just(u64::MAX), 3000..100_000u64],
        initial_ssthresh in bytes(),
        slow_start_exit in prop::sample::select(vec![
            SlowStartExit::Loss,
            SlowStartExit::HyStart,
            SlowStartExit::RecentDelay,
            SlowStartExit::ClassicHyStart,
        ]),
        through_ssthresh in any::<bool>(),
        calls in prop::collection::vec(call(), 0..80),
    ) {
        let p = Parameters { max_window, initial_ssthresh, slow_start_exit, through_ssthresh, subflow: 1, ..parameters() };
        let mut cc = built_in()[which].build(&p);
        let mut c = Coupling::new();
        let mut mss = MSS;
        c.activate(1, cc.cwnd());
        for call in calls {
            match &call {
                Call::Ack(s) => cc.on_ack(s, &mut c),
                Call::Signal(b, s) => cc.on_signal(Instant::ZERO, *b, *s, &mut c),
                Call::Timeout(b, f) => cc.on_timeout(Instant::ZERO, *b, *f, &mut c),
                Call::SetCwnd(b) => cc.set_cwnd(*b),
                Call::Idle(b) => cc.on_idle(*b),
                Call::Undo => cc.undo(Instant::ZERO),
                Call::SetMss(m) => { mss = (*m).max(1); cc.set_mss(*m) }
                Call::Sibling(i, b, r) => {
                    c.activate(*i, *b);
                    c.row_mut(*i).srtt = r.map(Duration::from_nanos);
                }
                Call::Leave(i) => c.deactivate(*i),
            }
            prop_assert!(cc.cwnd() >= mss, "{call:?}: {cc:?}");
            prop_assert!(cc.cwnd() <= max_window.max(mss), "{call:?}: {cc:?}");
            if let Call::Signal(..) = call {
                prop_assert!(cc.cwnd() <= cc.ssthresh(), "{call:?}: {cc:?}");
            }
        }
    }
}
