//! Variants of a transport: each changes one choice, and its name follows a plus sign (`fuso+roundrobin`).
//! Every congestion controller, scheduler, path manager and policy of flow labels is a variant, under its own name.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use spindle_units::Duration;

use crate::config::{Config, MultipathConfig};
use crate::congestion::{self, ControllerFactory, Dctcp, SlowStartExit};
use crate::entropy::{self, EntropyFactory};
use crate::path_manager::{self, PathManager};
use crate::recovery::{
    CoFuso, CodingRate, Fuso, MetricKind, PathMetric, PinnedWorstPath, PricedCopies, Proactive,
    RecoveryBudget, RecoveryFactory, WorstOf, Xlink,
};
use crate::scheduler::{self, SchedulerFactory};
use crate::stage::coding::estimator::Share;
use crate::stage::coding::{CodeKind, CodingConfig, Estimates, Samples, SharedEstimates, UnitSize};
use crate::stage::scatter::{PhaseSwitch, ScatterConfig, Threshold};
use crate::stage::{StageFactory, important, reorder};
use crate::tcp_config::{BackOff, EcnMode, IdleRestart, LossConfig, ReductionBase, RtoFloor};
use crate::types::{Eligibility, SubflowId};

use super::PROBE;
use super::coded::{blocked_of_12, coding, fixed_packets, fixed_unit};
use super::scattered::newreno_loss;
use super::spindle::{BOUNDED, EARLY_PROBE};

/// How long units wait for earlier ones with `in-order`. This is longer than the difference between two paths
/// of an empty network, and shorter than a queue of long flows (256 packets at 1 Gbps: 3 ms; our choice).
const HOLD: Duration = Duration::from_millis(2);

/// The tick of a kernel with `CONFIG_HZ` 1000. With fewer ticks a minimum RTO of 5 ms (FUSO section 5.1) could not be
/// set.
const TICK: Duration = Duration::from_millis(1);
/// The largest window without window scaling, in bytes (RFC 9293, section 3.1: the field has 16 bits).
const UNSCALED_WINDOW: u64 = 65_535;

/// A change of one choice of a configuration.
#[derive(Clone, Debug)]
pub struct Variant {
    name: Cow<'static, str>,
    part: Cow<'static, str>,
    change: Change,
}

/// What a variant changes.
#[derive(Clone, Debug)]
enum Change {
    /// Calls a function, which returns false if the configuration has nothing of the kind to change.
    Function(fn(&mut Config) -> bool),
    /// Sets the congestion controller, and ECN as it needs it.
    Controller(Arc<dyn ControllerFactory>),
    /// Sets the scheduler.
    Scheduler(Arc<dyn SchedulerFactory>),
    /// Sets the path manager.
    PathManager(Arc<dyn PathManager>),
    /// Sets the policy of flow labels.
    Entropy(Arc<dyn EntropyFactory>),
}

impl Variant {
    /// A variant with this name, which must not contain `+`, `@` or `>`. `part` describes in one line what it
    /// changes. `change` makes the change. It returns false if the configuration has nothing of the kind to
    /// change.
    pub fn new(name: &'static str, part: &'static str, change: fn(&mut Config) -> bool) -> Self {
        Self {
            name: name.into(),
            part: part.into(),
            change: Change::Function(change),
        }
    }

    /// The variant that sets this congestion controller, under the controller's name. It turns ECN on if the
    /// controller [needs it](ControllerFactory::ecn), and else off.
    pub fn controller(factory: Arc<dyn ControllerFactory>) -> Self {
        Self {
            name: factory.name().to_owned().into(),
            part: format!("congestion control: {}", factory.summary()).into(),
            change: Change::Controller(factory),
        }
    }

    /// The variant that sets this scheduler, under the scheduler's name. It applies only to MPTCP.
    pub fn scheduler(factory: Arc<dyn SchedulerFactory>) -> Self {
        Self {
            name: factory.name().to_owned().into(),
            part: format!("scheduler: {}", factory.summary()).into(),
            change: Change::Scheduler(factory),
        }
    }

    /// The variant that sets this path manager, under the path manager's name. It applies only to MPTCP.
    pub fn path_manager(manager: Arc<dyn PathManager>) -> Self {
        Self {
            name: manager.name().to_owned().into(),
            part: format!("path manager: {}", manager.summary()).into(),
            change: Change::PathManager(manager),
        }
    }

    /// The variant that sets this policy of flow labels, under the policy's name.
    pub fn entropy(factory: Arc<dyn EntropyFactory>) -> Self {
        Self {
            name: factory.name().to_owned().into(),
            part: format!("path entropy: {}", factory.summary()).into(),
            change: Change::Entropy(factory),
        }
    }

    /// Its name after the plus sign.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it changes, in one line.
    pub fn part(&self) -> &str {
        &self.part
    }

    /// Returns the changed configuration, or `None` if the configuration has nothing of the kind to change.
    pub fn apply(&self, mut config: Config) -> Option<Config> {
        let applies = match &self.change {
            Change::Function(change) => change(&mut config),
            Change::Controller(factory) => {
                config.congestion = factory.clone();
                config.tcp.ecn = factory.ecn();
                true
            }
            Change::Scheduler(factory) => multipath(&mut config, |m| m.scheduler = factory.clone()),
            Change::PathManager(manager) => {
                multipath(&mut config, |m| m.path_manager = manager.clone())
            }
            Change::Entropy(factory) => {
                config.entropy = Some(factory.clone());
                true
            }
        };
        applies.then_some(config)
    }
}

/// The variants that come with Spindle: the schedulers, the path managers, the congestion controllers, the
/// policies of flow labels, and all others.
static ALL: LazyLock<Vec<Variant>> = LazyLock::new(|| {
    let schedulers = scheduler::built_in().iter().cloned();
    let managers = path_manager::built_in().iter().cloned();
    let controllers = congestion::built_in().iter().cloned();
    let entropies = entropy::built_in().iter().cloned();
    let others = OTHERS
        .iter()
        .map(|(n, part, change)| Variant::new(n, part, *change));
    schedulers
        .map(Variant::scheduler)
        .chain(managers.map(Variant::path_manager))
        .chain(controllers.map(Variant::controller))
        .chain(entropies.map(Variant::entropy))
        .chain(others)
        .collect()
});

/// All variants that come with Spindle.
pub fn variants() -> &'static [Variant] {
    &ALL
}

/// The variant that comes with Spindle under this name.
pub fn variant(name: &str) -> Option<&'static Variant> {
    variants().iter().find(|v| v.name == name)
}

fn multipath(config: &mut Config, change: impl Fn(&mut MultipathConfig)) -> bool {
    config.multipath.as_mut().map(change).is_some()
}

/// Adds a reordering buffer if there is no other stage.
fn ordered(config: &mut Config) -> bool {
    stage(config, reorder::Settings::default())
}

/// Adds a stage if there is no other stage, neither configured nor agreed on with the peer later.
fn stage(config: &mut Config, factory: impl StageFactory + 'static) -> bool {
    let free = config.stage.is_none() && config.coding.is_none() && !scatter(config, |_| ());
    if free {
        config.stage = Some(Arc::new(factory));
    }
    free
}

/// The description of [`important`].
pub(super) const TLT: &str = "the last segment of a burst is marked important, one in flight on each subflow; a clocking packet follows its echo if nothing else may be sent (TLT, mechanisms A8.5)";

/// Changes the settings of the recovery policy, if they are of type `P`.
fn recovery<P: RecoveryFactory + Copy>(config: &mut Config, change: impl Fn(&mut P)) -> bool {
    let factory = config.recovery.as_deref();
    let found = factory.and_then(|f| (f as &dyn Any).downcast_ref::<P>());
    let Some(mut settings) = found.copied() else {
        return false;
    };
    change(&mut settings);
    config.recovery = Some(Arc::new(settings));
    true
}

fn fuso(config: &mut Config, change: impl Fn(&mut Fuso)) -> bool {
    recovery(config, change)
}

fn cofuso(config: &mut Config, change: impl Fn(&mut CoFuso)) -> bool {
    recovery(config, change)
}

fn fixed(config: &mut Config, percent: u32) -> bool {
    cofuso(config, |c| {
        c.rate = CodingRate::Fixed(f64::from(percent) / 100.0);
    })
}

fn metric(config: &mut Config, kind: MetricKind) -> bool {
    fuso(config, |f| {
        f.metric = PathMetric { kind, ..f.metric };
    })
}

fn given_worst(config: &mut Config) -> bool {
    config.recovery = config.recovery.take().map(|policy| {
        let given: Arc<dyn RecoveryFactory> = Arc::new(PinnedWorstPath {
            policy,
            worst: SubflowId::FIRST,
        });
        given
    });
    config.recovery.is_some()
}

fn rack(config: &mut Config) -> bool {
    let with = |loss: &mut LossConfig| {
        *loss = LossConfig {
            rack: true,
            prr: true,
            tail_loss_probe: Some(PROBE),
            early_retransmit: false,
            ..loss.clone()
        };
    };
    if !config.tcp.sack {
        sack(config);
    }
    with(&mut config.loss);
    scatter(config, |s| with(&mut s.loss));
    true
}

/// Changes how packets are scattered. Returns whether the configuration scatters any.
fn scatter(config: &mut Config, change: impl Fn(&mut ScatterConfig)) -> bool {
    let settings = config.multipath.as_mut().and_then(|m| m.scatter.as_mut());
    settings.map(|s| change(Arc::make_mut(s))).is_some()
}

fn threshold(config: &mut Config, segments: u32) -> bool {
    scatter(config, |s| {
        s.threshold = Threshold::Fixed;
        s.loss.dupack_threshold = segments;
    })
}

fn switch(config: &mut Config, at: PhaseSwitch) -> bool {
    scatter(config, |s| s.switch = at)
}

/// Enables SACK, and the mechanisms that use it, on every subflow.
fn sack(config: &mut Config) -> bool {
    config.tcp.sack = true;
    let with = |loss: &mut LossConfig| {
        loss.frto = true;
        loss.dsack_undo = true;
    };
    with(&mut config.loss);
    scatter(config, |s| with(&mut s.loss));
    true
}

fn newreno(config: &mut Config) -> bool {
    config.tcp.sack = false;
    config.loss = newreno_loss();
    scatter(config, |s| s.loss = newreno_loss());
    true
}

fn dctcp_first(config: &mut Config) -> bool {
    scatter(config, |s| {
        s.congestion = Arc::new(Dctcp);
        s.ecn = Some(EcnMode::Dctcp);
    })
}

fn with_fuso(config: &mut Config) -> bool {
    config.recovery = Some(Arc::new(Fuso::default()));
    multipath(config, |m| m.early_dsn_delivery = true)
}

fn with_priced_copies(config: &mut Config, copies: PricedCopies) -> bool {
    config.recovery = Some(Arc::new(copies));
    multipath(config, |m| m.early_dsn_delivery = true)
}

/// Limits the bytes of recovery to a share of new data, if there is a recovery policy.
fn budget(config: &mut Config, percent: u32) -> bool {
    config.recovery_budget = Some(RecoveryBudget::percent(percent));
    config.recovery.is_some()
}

fn tlp_floor(config: &mut Config) -> bool {
    let probe = config.loss.tail_loss_probe.as_mut();
    probe.map(|p| p.floor = Duration::from_millis(10)).is_some()
}

fn early_join(config: &mut Config) -> bool {
    let recovery = config.recovery.as_ref();
    let in_blocks = recovery.is_some_and(|r| r.capabilities().block_parities);
    let multipath = config.multipath.as_mut().filter(|_| in_blocks);
    multipath.is_some_and(|m| !std::mem::replace(&mut m.early_joins, true))
}

fn early_probe(config: &mut Config) -> bool {
    let probe = config.loss.tail_loss_probe.as_mut();
    probe.is_some_and(|p| std::mem::replace(&mut p.margin, EARLY_PROBE.margin).is_none())
}

macro_rules! others {
    ($($name:literal, $part:expr, $change:expr;)*) => {
        &[$(($name, $part, $change)),*]
    };
}

/// A name, a description, and the function that makes the change.
type Other = (&'static str, &'static str, fn(&mut Config) -> bool);

/// The variants that set neither a scheduler nor a congestion controller.
const OTHERS: &[Other] = others! {
    "early", "receiver: early_dsn_delivery on, out-of-order subflow data go up at once (FUSO section 4.1)",
        |c| multipath(c, |m| m.early_dsn_delivery = true);
    "held", "receiver: early_dsn_delivery off, as MPTCP v0.90's (mechanisms A0)",
        |c| multipath(c, |m| m.early_dsn_delivery = false);
    "tlp", "each subflow: tail loss probe after 2 smoothed RTTs (FUSO section 5.1)",
        |c| { c.loss.tail_loss_probe = Some(PROBE); true };
    "tlp-floor", "tail loss probe no earlier than 10 ms, as in the testbed's kernel (Linux 3.18)",
        tlp_floor;
    "early-probe", "without new data, tail loss probe a quarter of an RTT after the acknowledgement of the last segment is expected (docs/spindle.md)",
        early_probe;
    "no-early-probe", "tail loss probe after 2 smoothed RTTs (RFC 8985)",
        |c| c.loss.tail_loss_probe.as_mut().is_some_and(|p| p.margin.take().is_some());
    "rack", "each subflow: RACK-TLP (RFC 8985) and PRR (RFC 6937)",
        rack;
    "ordered", "receiver: a buffer puts segments in order before TCP sees them, for at most twice what reordering has lately taken (Presto, He et al. 2015, section 3.2)",
        ordered;
    "cwnd-halved", "each subflow: ssthresh from cwnd, not from FlightSize, as in the testbed's kernel (Linux 3.18)",
        |c| { c.loss.flight = ReductionBase::CongestionWindow; true };
    "no-er", "each subflow: no Early Retransmit (RFC 5827)",
        |c| std::mem::take(&mut c.loss.early_retransmit);
    "er-delay", "each subflow: Early Retransmit waits for a quarter of an RTT, at least 2 ms, as in the testbed's kernel (Linux 3.18)",
        |c| c.loss.early_retransmit
            && c.loss.early_retransmit_delay.replace(Duration::from_millis(2)).is_none();
    "bounded-back-off", "each subflow: the retransmission timeout doubles at most 5 times, up to 1 s, once the handshake is complete (docs/spindle.md)",
        |c| std::mem::replace(&mut c.tcp.back_off, BOUNDED) != BOUNDED;
    "no-bounded-back-off", "each subflow: the retransmission timeout doubles without bound, up to 60 s (RFC 6298)",
        |c| std::mem::take(&mut c.tcp.back_off) != BackOff::default();
    "full-windows", "each subflow: the initial window counts segments without their options, and the last data may fill the rest of a window (docs/spindle.md)",
        |c| !std::mem::replace(&mut c.tcp.slow_start.full_windows, true);
    "no-full-windows", "each subflow: windows are numbers of full segments, options included",
        |c| std::mem::take(&mut c.tcp.slow_start.full_windows);
    "rttvar-floor", "each subflow: the minimum RTO bounds only the part beyond the smoothed RTT, as in the testbed's kernel (Linux 3.18, tcp_rto_min)",
        |c| { c.tcp.rto_floor = RtoFloor::Variation; true };
    "slow-start-at-ssthresh", "each subflow: slow start also at cwnd = ssthresh, one segment beyond it, as in the testbed's kernel (Linux 3.18)",
        |c| { c.tcp.slow_start.through_ssthresh = true; true };
    "idle-decay", "each subflow: idle time halves cwnd for each RTO, ssthresh is at least 3/4 of cwnd before (RFC 2861), as in the testbed's kernel (Linux 3.18)",
        |c| { c.tcp.idle_restart = IdleRestart::Decay; true };
    "classic-hystart", "CUBIC leaves slow start by HyStart (Ha and Rhee 2008) instead of HyStart++, as in the testbed's kernel (Linux 3.18)",
        |c| { c.tcp.slow_start.exit = SlowStartExit::ClassicHyStart; true };
    "timer-ticks", "each subflow: timers of loss recovery expire at ticks of 1 ms, as in a kernel with 1000 Hz",
        |c| { c.loss.timer_tick = Some(TICK); true };
    "authors-proactive", "Proactive sends retransmissions twice, too, and copies of new data are ECT, as in FUSO's authors' code (mechanisms D1)",
        |c| recovery(c, |p: &mut Proactive| {
            *p = Proactive { repeats_retransmissions: true, ect_copies: true };
        });
    "no-opportunistic", "no opportunistic retransmission and penalisation (mechanisms A5.6a)",
        |c| multipath(c, |m| m.opportunistic_retransmission = false);
    "dead-1", "a subflow is dead after 1 timeout, its data reinjected (mechanisms A5.6b's sensitivity)",
        |c| multipath(c, |m| m.dead_after_timeouts = 1);
    "no-reinjection", "no subflow is ever judged dead",
        |c| multipath(c, |m| m.dead_after_timeouts = u32::MAX);
    "late-rtt", "each subflow: the handshake is no RTT measurement, and the RTO is 1.5 s before the first (MMPTCP's authors' code)",
        |c| c.tcp.data_rto.fixed.replace(Duration::from_millis(1500)).is_none();
    "joined-first", "new data wait while a join is unanswered, as where MMPTCP's authors' code goes round its subflows",
        |c| multipath(c, |m| m.wait_for_joins = true);
    "window-64k", "each subflow: at most 65 535 bytes unacknowledged (MMPTCP's authors' code)",
        |c| c.tcp.max_window.send.replace(UNSCALED_WINDOW).is_none();
    "authors", "FUSO's metric as in the authors' code: weights 1 in integers, no RTT beyond 8 ms, ties to the lower subflow (mechanisms D1)",
        |c| metric(c, MetricKind::Authors);
    "authors-drain", "FUSO's metric as in the authors' code, mode 1: time to drain what is in flight; never over the worst path itself",
        |c| metric(c, MetricKind::DrainTime) && fuso(c, |f| f.elsewhere = true);
    "literal-worst", "FUSO's or CoFUSO's worst path is that of all with data in flight, to the letter (FUSO section 3.2, Algorithm 1; CoFUSO section 3.1)",
        |c| fuso(c, |f| f.worst_of = WorstOf::InFlight)
            || cofuso(c, |s| s.worst_of = WorstOf::InFlight);
    "elsewhere", "FUSO's best path is never the worst itself",
        |c| fuso(c, |f| f.elsewhere = true);
    "tie-elsewhere", "among best paths that FUSO's metric holds for equal one that is not the worst itself",
        |c| fuso(c, |f| f.ties_elsewhere = true);
    "copy-sacked", "FUSO may copy whatever is not DATA_ACKed, SACKed or not",
        |c| fuso(c, |f| f.eligibility = Eligibility::NotDataAcked);
    "worst-1", "recovery: the first subflow is always the worst, as long as it has something to protect (CoFUSO section 6.1.1, Fig 9a)",
        given_worst;
    "fixed-1", "CoFUSO's blocks: one parity for 100 packets (1 %; CoFUSO section 6.2.4)",
        |c| fixed(c, 1);
    "fixed-2", "CoFUSO's blocks: one parity for 50 packets (2 %; CoFUSO section 6.2.4)",
        |c| fixed(c, 2);
    "fixed-4", "CoFUSO's blocks: one parity for 25 packets (4 %; CoFUSO section 6.2.4)",
        |c| fixed(c, 4);
    "fixed-8", "CoFUSO's blocks: one parity for 13 packets (8 %; CoFUSO section 6.2.4)",
        |c| fixed(c, 8);
    "fixed-16", "CoFUSO's blocks: one parity for 6 packets (16 %; CoFUSO section 6.2.4)",
        |c| fixed(c, 16);
    "fixed-32", "CoFUSO's blocks: one parity for 3 packets (32 %; CoFUSO section 6.2.4)",
        |c| fixed(c, 32);
    "authors-block", "CoFUSO's blocks as in the authors' code: one parity for tx/retx packets, at most 30 (mechanisms D2)",
        |c| cofuso(c, |s| s.rate = CodingRate::Authors);
    "coding-first", "CoFUSO copies nothing before parities cover what is in flight on all subflows, as in the authors' code (mechanisms D2; a reading of CoFUSO section 4.2.3)",
        |c| cofuso(c, |s| s.coding_first = true);
    "block-1", "CoFUSO's blocks: one packet at most (CoFUSO section 4.2.1, K_max 1)",
        |c| cofuso(c, |s| s.max_block = Some(1));
    "block-2", "CoFUSO's blocks: 2 packets at most (CoFUSO section 4.2.1, K_max 2)",
        |c| cofuso(c, |s| s.max_block = Some(2));
    "block-4", "CoFUSO's blocks: 4 packets at most (CoFUSO section 4.2.1, K_max 4)",
        |c| cofuso(c, |s| s.max_block = Some(4));
    "block-8", "CoFUSO's blocks: 8 packets at most (CoFUSO section 4.2.1, K_max 8)",
        |c| cofuso(c, |s| s.max_block = Some(8));
    "block-16", "CoFUSO's blocks: 16 packets at most (CoFUSO section 4.2.1, K_max 16)",
        |c| cofuso(c, |s| s.max_block = Some(16));
    "block-30", "CoFUSO's blocks: 30 packets at most (CoFUSO section 4.2.1, K_max 30)",
        |c| cofuso(c, |s| s.max_block = Some(30));
    "parities-1", "CoFUSO's blocks: one parity at most (CoFUSO section 6.2.4, M_max 1)",
        |c| cofuso(c, |s| s.max_parities = 1);
    "parities-2", "CoFUSO's blocks: 2 parities at most (CoFUSO section 6.2.4, M_max 2)",
        |c| cofuso(c, |s| s.max_parities = 2);
    "parities-3", "CoFUSO's blocks: 3 parities at most (CoFUSO section 6.2.4, M_max 3)",
        |c| cofuso(c, |s| s.max_parities = 3);
    "parities-4", "CoFUSO's blocks: 4 parities at most (CoFUSO section 6.2.4, M_max 4)",
        |c| cofuso(c, |s| s.max_parities = 4);
    "parities-5", "CoFUSO's blocks: 5 parities at most (CoFUSO section 6.2.4, M_max 5)",
        |c| cofuso(c, |s| s.max_parities = 5);
    "parities-6", "CoFUSO's blocks: 6 parities at most (CoFUSO section 6.2.4, M_max 6)",
        |c| cofuso(c, |s| s.max_parities = 6);
    "newreno", "each subflow: NewReno (RFC 6582) without SACK or Limited Transmit, as in MMPTCP's simulations (MMPTCP section 3)",
        newreno;
    "sack", "each subflow: SACK, recovery by RFC 6675, D-SACK undo (RFC 3708), F-RTO (RFC 5682)",
        sack;
    "tlt", TLT,
        |c| stage(c, important::Settings::default());
    "scatter-acks", "bare acknowledgements are scattered too (mechanisms A3.1)",
        |c| scatter(c, |s| s.acks = true);
    "dup-3", "while scattering, 3 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 3);
    "dup-5", "while scattering, 5 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 5);
    "dup-7", "while scattering, 7 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 7);
    "dup-9", "while scattering, 9 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 9);
    "dup-11", "while scattering, 11 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 11);
    "dup-13", "while scattering, 13 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 13);
    "dup-15", "while scattering, 15 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 15);
    "dup-17", "while scattering, 17 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 17);
    "dup-19", "while scattering, 19 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 19);
    "dup-21", "while scattering, 21 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 21);
    "dup-23", "while scattering, 23 duplicate acknowledgements mean loss, wherever the peer is (MMPTCP section 3.5)",
        |c| threshold(c, 23);
    "adaptive", "while scattering, what D-SACKs show to have been reordering raises the threshold from 3 to 64 at most (RR-TCP, Zhang et al. 2003; MMPTCP section 2.4 names it)",
        |c| sack(c) && scatter(c, |s| {
            s.threshold = Threshold::Adaptive { most: 64 };
        });
    "at-256KB", "the second phase begins after 256 KB (MMPTCP section 3.7)",
        |c| switch(c, PhaseSwitch::Bytes(256_000));
    "at-512KB", "the second phase begins after 512 KB (MMPTCP section 3.7)",
        |c| switch(c, PhaseSwitch::Bytes(512_000));
    "at-1024KB", "the second phase begins after 1024 KB (MMPTCP section 3.7)",
        |c| switch(c, PhaseSwitch::Bytes(1_024_000));
    "at-window", "the second phase begins once the window has 64 KB (mechanisms D3, CwndSize)",
        |c| switch(c, PhaseSwitch::Window(64_000));
    "at-congestion", "the second phase begins at the first sign of congestion (mechanisms D3, CwndSignal)",
        |c| switch(c, PhaseSwitch::Congestion);
    "dctcp-first", "while scattering: DCTCP (RFC 8257), whether or not the scenario has ECN; further subflows use ECN as they would (MMPTCP section 4, future work)",
        dctcp_first;
    "priority", "while scattering, data and their acknowledgements have priority at ports with a queue for it: DSCP AF21 (MMPTCP section 4, future work)",
        |c| scatter(c, |s| s.priority = true);
    "k-window", "units of as many segments as the window (CAPS section VI-A)",
        |c| coding(c, |s| s.unit = UnitSize::Window);
    "k-1", "units of 1 segment (CAPS section IX-D)",
        |c| fixed_unit(c, 1);
    "k-2", "units of 2 segments (CAPS section IX-D)",
        |c| fixed_unit(c, 2);
    "k-4", "units of 4 segments (CAPS section IX-D)",
        |c| fixed_unit(c, 4);
    "k-8", "units of 8 segments (CAPS section IX-D)",
        |c| fixed_unit(c, 8);
    "k-10", "units of 10 segments (CAPS section IX-E)",
        |c| fixed_unit(c, 10);
    "k-16", "units of 16 segments (CAPS section IX-D)",
        |c| fixed_unit(c, 16);
    "k-32", "units of 32 segments (CAPS section IX-D)",
        |c| fixed_unit(c, 32);
    "k-64", "units of 64 segments (CAPS section IX-D)",
        |c| fixed_unit(c, 64);
    "r-0", "0 packets more for each unit, whatever is blocked (CAPS section VI-B, Fig 6c)",
        |c| fixed_packets(c, 0);
    "r-1", "1 packet more for each unit, whatever is blocked (CAPS section VI-B, Fig 6c)",
        |c| fixed_packets(c, 1);
    "r-2", "2 packets more for each unit, whatever is blocked (CAPS section VI-B, Fig 6c)",
        |c| fixed_packets(c, 2);
    "r-3", "3 packets more for each unit, whatever is blocked (CAPS section VI-B, Fig 6c)",
        |c| fixed_packets(c, 3);
    "r-4", "4 packets more for each unit, whatever is blocked (CAPS section VI-B, Fig 6c)",
        |c| fixed_packets(c, 4);
    "r-6", "6 packets more for each unit, whatever is blocked (CAPS section VI-B, Fig 6c)",
        |c| fixed_packets(c, 6);
    "r-8", "8 packets more for each unit, whatever is blocked (CAPS section VI-B, Fig 6c)",
        |c| fixed_packets(c, 8);
    "blocked-1", "redundancy as if 1 of 12 paths were blocked (CAPS section IX-E)",
        |c| blocked_of_12(c, 1);
    "blocked-2", "redundancy as if 2 of 12 paths were blocked (CAPS section IX-E)",
        |c| blocked_of_12(c, 2);
    "blocked-3", "redundancy as if 3 of 12 paths were blocked (CAPS section IX-E)",
        |c| blocked_of_12(c, 3);
    "blocked-4", "redundancy as if 4 of 12 paths were blocked (CAPS section IX-E)",
        |c| blocked_of_12(c, 4);
    "ldpc", "code: LDPC over packets (CAPS section IV)",
        |c| coding(c, |s| s.code = CodeKind::Ldpc);
    "ldpc-systematic", "code: LDPC, the segments themselves first",
        |c| coding(c, |s| s.code = CodeKind::LdpcSystematic);
    "rs", "code: Reed-Solomon",
        |c| coding(c, |s| s.code = CodeKind::ReedSolomon);
    "rs-systematic", "code: Reed-Solomon, the segments themselves first",
        |c| coding(c, |s| s.code = CodeKind::ReedSolomonSystematic);
    "tcp-ack-rtt", "what is blocked is learnt from TCP's acknowledgements, which decoding makes look well (mechanisms A4.3)",
        |c| coding(c, |s| s.samples = Samples::TcpAcks);
    "p-smoothed", "what is blocked is a share of all packets so far, each sampling period weighing 7/8 of the next (our choice)",
        |c| coding(c, |s| s.sampling.share = Share::Smoothed);
    "p-known", "the share of blocked packets is the number of long flows over the number of paths, if it is known in advance (CAPS section VI-A)",
        |c| coding(c, |s| s.known.blocking = true);
    "p-shared", "the share of blocked packets is learnt by all hosts of a rack together (our choice)",
        |c| coding(c, |s| s.estimates = Estimates::OfRack(SharedEstimates::default()));
    "rtt-known", "the round-trip times in equation 4 are those of the network until one was measured, and not 0.1 and 3 ms (our choice)",
        |c| coding(c, |s| s.known.round_trips = true);
    "real-r", "k makes the mean time of a window shortest for r = k p / (1 - p), which equation 4 does not round; the r that is sent is rounded up (our choice)",
        |c| coding(c, unrounded);
    "in-order", "segments of a unit wait for those of earlier units, 2 ms at most",
        |c| coding(c, |s| s.hold = Some(HOLD));
    "fuso", "FUSO's recovery on top (FUSO section 3.2)",
        with_fuso;
    "priced-copies", "recovery: late segments over another path, others if the expected gain exceeds the price; at most 8 copies, and 4 % of segments or 8 % on paths that lose 5 % and more (docs/spindle.md)",
        |c| with_priced_copies(c, PricedCopies::default());
    "repeated-copies", "recovery: `priced-copies`, and repeats over the only path (docs/spindle.md)",
        |c| with_priced_copies(c, PricedCopies::with_repeats());
    "tail-parities", "recovery: as with `priced-copies`, and a parity of the last flight if its expected gain exceeds the price; a path is assumed to lose 1 % until it was observed (docs/spindle.md)",
        |c| with_priced_copies(c, PricedCopies::with_parities());
    "raced-syn", "the SYN is sent from all local addresses at once, or twice if there is only one; the first answer decides where the connection begins (docs/spindle.md)",
        |c| multipath(c, |m| m.syn_race = Some(Duration::ZERO));
    "no-race", "the SYN is sent once, from one address",
        |c| c.multipath.as_mut().is_some_and(|m| m.syn_race.take().is_some());
    "early-join", "further subflows are opened together with the third ACK; agreed on next to parities of blocks (docs/wire/parities.md)",
        early_join;
    "no-early-join", "further subflows are opened once the peer has acknowledged data (RFC 8684)",
        |c| c.multipath.as_mut().is_some_and(|m| std::mem::take(&mut m.early_joins));
    "no-recovery", "no recovery policy",
        |c| c.recovery.take().is_some();
    "no-entropy", "no flow labels: the addresses and ports of a subflow choose its path",
        |c| c.entropy.take().is_some();
    "no-budget", "recovery has no budget",
        |c| c.recovery_budget.take().is_some();
    "no-thresholds", "XLINK's re-injection is always on (Zheng et al., SIGCOMM 2021, without QoE control)",
        |c| recovery(c, |x: &mut Xlink| {
            (x.low, x.high) = (Duration::MAX, Duration::MAX);
        });
    "budget-1", "recovery sends at most 1 % of the bytes of new data, and 9000 bytes (our choice)",
        |c| budget(c, 1);
    "budget-2", "recovery sends at most 2 % of the bytes of new data, and 9000 bytes (our choice)",
        |c| budget(c, 2);
    "budget-5", "recovery sends at most 5 % of the bytes of new data, and 9000 bytes (our choice)",
        |c| budget(c, 5);
    "budget-10", "recovery sends at most 10 % of the bytes of new data, and 9000 bytes (our choice)",
        |c| budget(c, 10);
    "budget-20", "recovery sends at most 20 % of the bytes of new data, and 9000 bytes (our choice)",
        |c| budget(c, 20);
    "budget-50", "recovery sends at most 50 % of the bytes of new data, and 9000 bytes (our choice)",
        |c| budget(c, 50);
};

/// Does not round r in equation 4. Units of another size do not use the equation.
fn unrounded(s: &mut CodingConfig) {
    if s.unit == UnitSize::Optimal {
        s.unit = UnitSize::OptimalUnrounded;
    }
}

#[cfg(test)]
mod tests {
    use super::super::preset;
    use super::*;

    fn of(name: &str) -> Config {
        preset(name).expect("a preset").config
    }

    #[test]
    fn every_variant_changes_a_configuration_that_it_applies_to() {
        for v in variants() {
            let base = match v.name() {
                "tlp-floor" => of("tlp"),
                "early-probe" => of("rack"),
                "authors-proactive" => of("proactive"),
                "minrtt" => of("mptcp-linux"),
                "early" | "lia" => of("mptcp-linux"),
                "no-budget" | "no-thresholds" => of("xlink"),
                "no-entropy" => of("reps"),
                "no-race"
                | "no-bounded-back-off"
                | "no-full-windows"
                | "no-early-probe"
                | "no-early-join" => of("spindle"),
                "early-join" => of("cofuso"),
                "parities-3" => of("cofuso-xor"),
                "sack" | "scatter-acks" | "adaptive" | "dctcp-first" | "priority" | "fuso" => {
                    of("mmptcp")
                }
                n if [
                    "k-",
                    "r-",
                    "blocked-",
                    "ldpc",
                    "rs",
                    "tcp-ack-rtt",
                    "in-order",
                    "p-",
                    "rtt-known",
                    "real-r",
                ]
                .iter()
                .any(|p| n.starts_with(p)) =>
                {
                    of("caps")
                }
                n if n.starts_with("dup-") || n.starts_with("at-") => of("mmptcp"),
                n if [
                    "fixed",
                    "block-",
                    "parities",
                    "authors-block",
                    "coding-first",
                ]
                .iter()
                .any(|p| n.starts_with(p)) =>
                {
                    of("cofuso")
                }
                _ => of("fuso"),
            };
            let Some(changed) = v.apply(base.clone()) else {
                panic!("{} does not apply", v.name());
            };
            assert_ne!(format!("{base:?}"), format!("{changed:?}"), "{}", v.name());
        }
    }

    #[test]
    fn variant_does_not_apply_without_the_mechanism_it_changes() {
        for (base, name) in [
            ("tcp", "roundrobin"),
            ("tcp", "early"),
            ("mptcp", "elsewhere"),
            ("proactive", "authors"),
            ("tcp", "authors-proactive"),
            ("mptcp", "literal-worst"),
            ("tcp", "tlp-floor"),
            ("rack", "no-er"),
            ("rack", "er-delay"),
            ("fuso", "fixed-4"),
            ("fuso", "block-4"),
            ("cofuso", "elsewhere"),
            ("mptcp", "worst-1"),
            ("mptcp", "dup-5"),
            ("fuso", "at-window"),
            ("tcp", "k-10"),
            ("caps", "ordered"),
            ("mptcp", "budget-5"),
            ("fuso", "no-budget"),
            ("fuso", "no-thresholds"),
            ("fuso", "no-entropy"),
            ("fuso", "no-race"),
            ("fuso", "no-bounded-back-off"),
            ("spindle", "bounded-back-off"),
            ("fuso", "early-join"),
            ("cofuso", "no-early-join"),
            ("spindle", "early-join"),
            ("tcp", "early-probe"),
            ("rack", "no-early-probe"),
            ("spindle", "early-probe"),
            ("mptcp", "no-recovery"),
            ("mmptcp", "ordered"),
        ] {
            let v = variant(name).expect(name);
            assert!(v.apply(of(base)).is_none(), "{base}+{name}");
        }
        assert!(variant("nothing").is_none());
    }

    #[test]
    fn dctcp_variant_sets_its_ecn_mode_and_reno_clears_it() {
        let v = variant("dctcp").expect("there");
        let c = v.apply(of("mptcp")).expect("applies");
        assert_eq!((c.congestion.name(), c.tcp.ecn), ("dctcp", EcnMode::Dctcp));
        let back = variant("reno").and_then(|v| v.apply(c)).expect("applies");
        assert_eq!(back.tcp.ecn, EcnMode::Off);
    }

    #[test]
    fn unit_of_a_variant_stays_if_r_is_not_rounded() {
        let unit = |name: &str| of(name).coding.expect("codes short flows").unit;
        assert_eq!(unit("caps+real-r"), UnitSize::OptimalUnrounded);
        for (name, expected) in [("k-4", UnitSize::Fixed(4)), ("k-window", UnitSize::Window)] {
            assert_eq!(unit(&format!("caps+{name}+real-r")), expected);
        }
    }
}
