//! A whole run as one value that proptest can generate and shrink.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proptest::prelude::*;
use spindle_mptcp::congestion;
use spindle_mptcp::path_manager::{Endpoints, FullMesh, Passive, Ports};
use spindle_mptcp::scheduler;
use spindle_mptcp::{Config, EcnMode, IdleRestart, InitialWindow, Keepalive, SubflowId, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::Endpoint;

use super::apps::{App, End, PathOp, Run};
use super::{Net, Path, judge};

/// The user timeout of both ends.
const USER_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time that a run may take.
const LIMIT: Duration = Duration::from_secs(4000);

/// The presets for which networks are drawn.
pub(crate) const NAMES: &[&str] = &[
    "tcp",
    "newreno",
    "dctcp",
    "tlp",
    "rack",
    "proactive",
    "mptcp",
    "mptcp-linux",
    "fuso",
    "fuso-1",
    "fuso-8",
    "mptcp-2",
    "fuso-unmodified",
    "tcp-ir",
    "deadline-reinjection",
    "oracle",
    "cofuso",
    "cofuso-xor",
    "caps-dark",
    "xlink",
    "autorec",
    "hairpin",
    "cloudburst",
    "spindle",
];

/// A path, with probabilities per mille and times in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathSpec {
    pub(crate) delay: u64,
    pub(crate) jitter: u64,
    pub(crate) loss: [u32; 2],
    pub(crate) duplicate: u32,
    pub(crate) mark: u32,
    /// Milliseconds until the path goes down or up again, in turn.
    pub(crate) flips: Vec<u64>,
}

/// The settings in which one end's configuration differs from its preset.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndSpec {
    pub(crate) options: [bool; 4],
    pub(crate) nagle: bool,
    pub(crate) delayed_ack: bool,
    pub(crate) ecn: u8,
    pub(crate) mss: u32,
    pub(crate) receive_segments: u32,
    pub(crate) send_segments: u32,
    pub(crate) initial_window: u32,
    pub(crate) loss_bits: u8,
    pub(crate) keepalive: bool,
}

/// An application, with times in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AppSpec {
    pub(crate) writes: Vec<(u64, u32)>,
    pub(crate) read_size: u32,
    pub(crate) read_delay: u64,
    /// `None` closes after all writes. `true` aborts.
    pub(crate) end: Option<(u64, bool)>,
}

/// The multipath settings of both ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MultiSpec {
    pub(crate) manager: u8,
    pub(crate) scheduler: u8,
    pub(crate) checksum: bool,
    pub(crate) early: Option<bool>,
    pub(crate) opportunistic: Option<bool>,
    pub(crate) backup: bool,
    pub(crate) subflows: usize,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) preset: usize,
    pub(crate) congestion: Option<usize>,
    pub(crate) multi: MultiSpec,
    pub(crate) v6: bool,
    pub(crate) paths: Vec<PathSpec>,
    pub(crate) ends: [EndSpec; 2],
    pub(crate) apps: [AppSpec; 2],
    pub(crate) more_addresses: [usize; 2],
    pub(crate) ops: Vec<(u64, usize, u8, u8)>,
    pub(crate) corrupt: u32,
}

fn path() -> impl Strategy<Value = PathSpec> {
    let loss = prop_oneof![4 => Just(0u32), 3 => 0u32..100, 2 => 0u32..=400];
    let flips = prop_oneof![
        6 => Just(Vec::new()),
        1 => prop::collection::vec(1u64..400, 1..4),
        1 => prop::collection::vec(100u64..30_000, 2..=2)
    ];
    (
        10u64..5000,
        prop_oneof![2 => Just(0u64), 1 => 1u64..100, 1 => 1u64..5000],
        [loss.clone(), loss],
        prop_oneof![3 => Just(0u32), 1 => 0u32..200],
        prop_oneof![3 => Just(0u32), 1 => 0u32..300],
        flips,
    )
        .prop_map(|(delay, jitter, loss, duplicate, mark, flips)| PathSpec {
            delay,
            jitter,
            loss,
            duplicate,
            mark,
            flips,
        })
}

fn end() -> impl Strategy<Value = EndSpec> {
    let usually = || prop::bool::weighted(0.75);
    let segments = || prop_oneof![1 => 2u32..8, 1 => 8u32..64, 2 => 64u32..1000];
    (
        [usually(), usually(), usually(), usually()],
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
        0u8..3,
        prop_oneof![2 => Just(1460u32), 1 => 536u32..1460, 1 => Just(8960u32)],
        segments(),
        segments(),
        1u32..20,
        any::<u8>(),
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(options, nagle, delayed_ack, ecn, mss, receive, send, initial, bits, keepalive)| {
                EndSpec {
                    options,
                    nagle,
                    delayed_ack,
                    ecn,
                    mss,
                    receive_segments: receive,
                    send_segments: send,
                    initial_window: initial,
                    loss_bits: bits,
                    keepalive,
                }
            },
        )
}

fn app() -> impl Strategy<Value = AppSpec> {
    let size = prop_oneof![3 => 1u32..200, 3 => 200u32..20_000, 1 => 20_000u32..150_000];
    let gap = prop_oneof![3 => Just(0u64), 2 => 0u64..2000, 1 => 0u64..2_000_000];
    let end = prop_oneof![
        6 => Just(None),
        2 => (0u64..200_000, Just(false)).prop_map(Some),
        1 => (0u64..200_000, Just(true)).prop_map(Some)
    ];
    (
        prop::collection::vec((gap, size), 0..12),
        prop_oneof![1 => 1u32..2000, 3 => 2000u32..1_000_000],
        prop_oneof![3 => Just(0u64), 1 => 1u64..2000, 1 => 1u64..200_000],
        end,
    )
        .prop_map(|(writes, read_size, read_delay, end)| AppSpec {
            writes,
            // Slow readers of few bytes at a time would take days.
            read_size: if read_delay > 2000 {
                read_size.max(20_000)
            } else {
                read_size
            },
            read_delay,
            end,
        })
}

fn multi() -> impl Strategy<Value = MultiSpec> {
    let option = || prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(Some)];
    (
        prop_oneof![4 => Just(0u8), 1 => 1u8..4],
        prop_oneof![3 => Just(0u8), 1 => 1u8..4],
        prop::bool::weighted(0.2),
        option(),
        option(),
        prop::bool::weighted(0.1),
        1usize..=8,
    )
        .prop_map(
            |(manager, scheduler, checksum, early, opportunistic, backup, subflows)| MultiSpec {
                manager,
                scheduler,
                checksum,
                early,
                opportunistic,
                backup,
                subflows,
            },
        )
}

/// Any run. With `corrupt`, payload is changed in transit and checksums are on.
pub(crate) fn scenario(corrupt: bool) -> impl Strategy<Value = Scenario> {
    let rate = if corrupt { 1u32..50 } else { 0u32..1 };
    (
        any::<u32>(),
        0..NAMES.len(),
        prop_oneof![2 => Just(None), 1 => (0..congestion::built_in().len()).prop_map(Some)],
        multi(),
        any::<bool>(),
        prop::collection::vec(path(), 1..5),
        [end(), end()],
        [app(), app()],
        [0usize..3, 0usize..3],
        prop::collection::vec((0u64..300_000, 0usize..2, 0u8..4, 0u8..8), 0..4),
        rate,
    )
        .prop_map(
            |(seed, preset, congestion, multi, v6, paths, ends, apps, more, mut ops, corrupt)| {
                ops.sort();
                Scenario {
                    seed: u64::from(seed),
                    preset,
                    congestion,
                    multi,
                    v6,
                    paths,
                    ends,
                    apps,
                    more_addresses: more,
                    ops,
                    corrupt,
                }
            },
        )
}

fn address(v6: bool, side: usize, n: usize) -> IpAddr {
    let (side, n) = (side as u8, n as u8);
    if v6 {
        IpAddr::V6(Ipv6Addr::new(
            0xfd00,
            0,
            0,
            0,
            0,
            0,
            u16::from(side),
            1 + u16::from(n),
        ))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, side, n, 1))
    }
}

impl Scenario {
    /// Further addresses of a side. The second further address has the other IP version.
    fn addresses(&self, side: usize) -> Vec<IpAddr> {
        (1..=self.more_addresses[side])
            .map(|n| address(self.v6 ^ (n == 2), side, n))
            .collect()
    }

    fn config(&self, side: usize) -> Config {
        let mut c = preset(NAMES[self.preset]).expect("a preset").config;
        let e = &self.ends[side];
        if let Some(k) = self.congestion {
            c.congestion = congestion::built_in()[k].clone();
        }
        let t = &mut c.tcp;
        t.timestamps = e.options[0];
        t.sack &= e.options[1];
        t.window_scaling = e.options[2];
        t.idle_restart = match e.options[3] {
            true => IdleRestart::InitialWindow,
            false => IdleRestart::Keep,
        };
        t.nagle = e.nagle;
        t.delayed_ack = e.delayed_ack.then(|| Duration::from_millis(40));
        if t.ecn == EcnMode::Off {
            t.ecn = [EcnMode::Off, EcnMode::Classic, EcnMode::Off][usize::from(e.ecn)];
        }
        t.mss = e.mss;
        t.receive_buffer = (e.receive_segments * e.mss) as usize;
        t.send_buffer = (e.send_segments * e.mss) as usize;
        t.initial_window = InitialWindow::PerSubflow(e.initial_window);
        t.min_rto = Duration::from_millis(5);
        t.max_rto = Duration::from_secs(1);
        t.initial_rto = Duration::from_millis(50);
        t.syn_retries = 40;
        t.user_timeout = USER_TIMEOUT;
        t.msl = Duration::from_secs(20);
        if e.keepalive {
            t.keepalive = Some(Keepalive {
                idle: Duration::from_millis(500),
                interval: Duration::from_secs(1),
                probes: 60,
            });
        }
        let bit = |k: u8| e.loss_bits & (1 << k) != 0;
        c.loss.limited_transmit = bit(0);
        c.loss.early_retransmit ^= bit(1) && bit(2);
        c.loss.frto ^= bit(3) && bit(4);
        c.loss.prr ^= bit(5) && bit(6);
        c.loss.rescue = !bit(7);
        self.multipath(&mut c);
        c
    }

    fn multipath(&self, c: &mut Config) {
        let spec = &self.multi;
        let locals: Vec<IpAddr> = self.addresses(0);
        if let Some(m) = &mut c.multipath {
            m.path_manager = match spec.manager {
                0 => Arc::new(Ports(spec.subflows)),
                1 => Arc::new(FullMesh),
                2 => Arc::new(Endpoints(locals)),
                _ => Arc::new(Passive),
            };
            m.scheduler = scheduler::built_in()[usize::from(spec.scheduler)].clone();
            m.checksum = spec.checksum || self.corrupt > 0;
            m.early_dsn_delivery = spec.early.unwrap_or(m.early_dsn_delivery);
            m.opportunistic_retransmission =
                spec.opportunistic.unwrap_or(m.opportunistic_retransmission);
            m.backup = spec.backup;
        }
    }

    fn network(&self, start: Instant) -> Vec<Path> {
        let us = Duration::from_micros;
        let rate = |r: u32| f64::from(r) / 1000.0;
        let one = |p: &PathSpec| {
            let mut at = start;
            let flips = p.flips.iter().map(|gap| {
                at += Duration::from_millis(*gap);
                at
            });
            Path {
                delay: us(p.delay),
                jitter: us(p.jitter),
                loss: p.loss.map(rate),
                duplicate: rate(p.duplicate),
                mark: rate(p.mark),
                corrupt: rate(self.corrupt),
                flips: flips.collect(),
                mtu: Vec::new(),
            }
        };
        self.paths.iter().map(one).collect()
    }

    /// Prepares the run.
    pub(crate) fn prepare(&self, real: bool) -> Run {
        self.prepare_with(real, |_, _| {})
    }

    /// Like [`Self::prepare`], with the configurations of both ends changed by `change`.
    pub(crate) fn prepare_with(&self, real: bool, change: impl Fn(usize, &mut Config)) -> Run {
        let more = [self.addresses(0), self.addresses(1)];
        let net = Net::with_addresses(self.seed, Vec::new(), more.clone());
        let paths = self.network(net.now);
        let net = Net { paths, ..net };
        let ends = (
            Endpoint::new(address(self.v6, 0, 0), 0),
            Endpoint::new(address(self.v6, 1, 0), 80),
        );
        let apps = self.apps.clone().map(|a| App {
            writes: a
                .writes
                .iter()
                .map(|(g, n)| (Duration::from_micros(*g), *n))
                .collect(),
            read_size: a.read_size as usize,
            read_delay: Duration::from_micros(a.read_delay),
            end: match a.end {
                None => End::AfterWrites,
                Some((t, false)) => End::CloseAt(Duration::from_micros(t)),
                Some((t, true)) => End::AbortAt(Duration::from_micros(t)),
            },
        });
        let configs = [0, 1].map(|side| {
            let mut config = self.config(side);
            change(side, &mut config);
            config
        });
        let mut run = Run::new(net, apps, configs, ends, real);
        run.addresses = more;
        // xquic's controller and `spindle` copy late segments before they send new data. TCP-IR sends a coded packet when its time has
        // come.
        run.new_data_first =
            !["deadline-reinjection", "tcp-ir", "spindle"].contains(&NAMES[self.preset]);
        let op = |(at, side, what, n): &(u64, usize, u8, u8)| {
            let op = match what {
                0 => PathOp::Announce(usize::from(*n % 2)),
                1 => PathOp::Withdraw(usize::from(*n % 2)),
                _ => PathOp::Backup(SubflowId(*n), *what == 2),
            };
            (Duration::from_micros(*at), *side, op)
        };
        run.ops = self.ops.iter().map(op).collect();
        run
    }

    /// Runs the scenario to its end and checks it.
    pub(crate) fn run(&self, real: bool) -> Run {
        let mut run = self.prepare(real);
        self.finish(&mut run);
        run
    }

    /// Runs a prepared run to its end and checks it.
    pub(crate) fn finish(&self, run: &mut Run) {
        run.finish(LIMIT);
        judge::at_the_end(run, USER_TIMEOUT);
        let once = ["fuso", "cofuso", "deadline", "xlink", "spindle"];
        if once.iter().any(|n| NAMES[self.preset].starts_with(n)) {
            judge::copied_once(run, super::CLIENT);
            judge::copied_once(run, super::SERVER);
        }
    }
}
