//! A path goes black in the middle of a transfer and returns: what was on it goes elsewhere soon, and
//! the path is used again soon after its return.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_mptcp::PathManager;
use spindle_mptcp::congestion::CongestionKind;
use spindle_mptcp::{Config, Event, Handle, Stack, StackConfig, SubflowInfo, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Payload, Segment};

/// Bits a second of each path, in each direction.
const RATE: u64 = 25_000_000;
/// Bytes of queue before each.
const QUEUE: u64 = 125_000;
/// The path goes black so long after the start ...
const BLACK: Duration = Duration::from_secs(1);
/// ... and stays so for this time.
const OUTAGE: Duration = Duration::from_secs(10);
/// The longest stall and the longest time until the returned path carries data again that are
/// accepted.
const STALL: Duration = Duration::from_millis(500);
const RETURN: Duration = Duration::from_secs(5);
/// Payload bytes that count as use of a path.
const USE: u64 = 125_000;

fn client(path: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, path, 1))
}

fn server() -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 9, 2)), 80)
}

/// Two stacks and two paths of limited rate, one for each address of the client.
struct Wire {
    now: Instant,
    start: Instant,
    stacks: [Stack; 2],
    /// One-way delays.
    delays: [Duration; 2],
    black: usize,
    /// When each path's transmitter is free, for each direction.
    free: [[Instant; 2]; 2],
    flying: BinaryHeap<Reverse<(Instant, u64)>>,
    segments: HashMap<u64, (usize, Segment)>,
    serial: u64,
    /// Payload bytes that arrived over the black path after its return, and when they were
    /// [`USE`].
    returned: u64,
    used_again: Option<Instant>,
    /// Segments that entered the path while it was black.
    probes: u64,
}

impl Wire {
    fn new(rtts: [u64; 2], black: usize) -> Self {
        let start = Instant::from_nanos(1_000_000_000);
        let stack = |seed, addresses| {
            let config = StackConfig {
                addresses,
                ..StackConfig::default()
            };
            Stack::deterministic(config, seed)
        };
        Self {
            now: start,
            start,
            stacks: [stack(1, vec![client(1)]), stack(2, Vec::new())],
            delays: rtts.map(|ms| Duration::from_micros(ms * 500)),
            black,
            free: [[start; 2]; 2],
            flying: BinaryHeap::new(),
            segments: HashMap::new(),
            serial: 0,
            returned: 0,
            used_again: None,
            probes: 0,
        }
    }

    fn is_black(&self, path: usize) -> bool {
        let since = self.now.since(self.start);
        path == self.black && since >= BLACK && since < BLACK + OUTAGE
    }

    fn launch(&mut self, side: usize, seg: Segment) {
        let inner = if side == 0 { &seg.src } else { &seg.dst };
        let path = usize::from(inner.addr == client(1));
        if self.is_black(path) {
            self.probes += 1;
            return;
        }
        let free = &mut self.free[side][path];
        let waits = free.since(self.now).as_nanos() as u128 * u128::from(RATE) / 8_000_000_000;
        if waits > u128::from(QUEUE) {
            return;
        }
        let takes = Duration::from_nanos(seg.wire_len() as u64 * 8_000_000_000 / RATE);
        *free = (*free).max(self.now) + takes;
        self.serial += 1;
        self.flying
            .push(Reverse((*free + self.delays[path], self.serial)));
        self.segments.insert(self.serial, (1 - side, seg));
    }

    fn arrive(&mut self, side: usize, seg: Segment) {
        let inner = if side == 0 { &seg.dst } else { &seg.src };
        let path = usize::from(inner.addr == client(1));
        if self.is_black(path) {
            return;
        }
        if path == self.black && self.now.since(self.start) >= BLACK + OUTAGE {
            self.returned += seg.payload.len() as u64;
            if self.returned >= USE {
                self.used_again.get_or_insert(self.now);
            }
        }
        self.stacks[side].receive(self.now, seg);
    }

    fn pump(&mut self) {
        for side in 0..2 {
            while let Some(seg) = self.stacks[side].transmit(self.now) {
                seg.pieces().for_each(|s| self.launch(side, s));
            }
        }
    }

    /// Runs to the next happening; false if there is none until `until`.
    fn step(&mut self, until: Instant) -> bool {
        self.pump();
        let arrival = self.flying.peek().map(|Reverse((t, _))| *t);
        let timer = self.stacks.iter().filter_map(Stack::next_timeout).min();
        let next = [arrival, timer].into_iter().flatten().min();
        let Some(next) = next.filter(|t| *t <= until) else {
            return false;
        };
        self.now = self.now.max(next);
        if arrival == Some(next)
            && let Some(Reverse((_, serial))) = self.flying.pop()
        {
            if let Some((side, seg)) = self.segments.remove(&serial) {
                self.arrive(side, seg);
            }
        } else {
            self.stacks.iter_mut().for_each(|s| s.timeout(self.now));
        }
        true
    }
}

/// A case: who it is, its transport, the round-trip times in ms, the path that fails.
#[derive(Clone, Copy, Debug)]
struct Case {
    preset: &'static str,
    congestion: Option<CongestionKind>,
    autotune: bool,
    rtts: [u64; 2],
    black: usize,
    total: u64,
    /// The application writes what fits, and no write is ever cut short.
    fitting: bool,
    dead_after: u32,
}

#[derive(Debug)]
struct Outcome {
    delivered: u64,
    /// The longest time in which nothing was delivered in order, and when it ended.
    gap: (Duration, Duration),
    /// From the path's return to its use, if it was used.
    again: Option<Duration>,
    /// Segments sent into the black path.
    probes: u64,
    ended: Duration,
    /// In the middle of the outage: whether the connection's state showed the dead subflow.
    reported: Option<bool>,
}

fn config(case: &Case) -> Config {
    let mut c = preset(case.preset).expect("a preset").config;
    if let Some(m) = &mut c.multipath {
        m.path_manager = PathManager::FullMesh;
        m.dead_after_timeouts = case.dead_after;
        // It too takes data elsewhere.
        m.opportunistic_retransmission &= case.dead_after < u32::MAX;
    }
    if let Some(k) = case.congestion {
        c.congestion = k;
    }
    c.tcp.autotune = case.autotune;
    if case.fitting {
        // Full before the first timeout.
        c.tcp.send_buffer = 1 << 18;
    }
    if case.autotune {
        c.tcp.send_buffer = 32 << 20;
        c.tcp.receive_buffer = 32 << 20;
    }
    c
}

/// The server sends the client `case.total` bytes.
fn run(case: &Case) -> Outcome {
    let mut wire = Wire::new(case.rtts, case.black);
    let config = Arc::new(config(case));
    wire.stacks[1]
        .listen(server(), config.clone())
        .expect("free");
    let h = wire.stacks[0]
        .connect(wire.now, Endpoint::new(client(0), 0), server(), config)
        .expect("connects");
    let until = wire.start + Duration::from_secs(60);
    let mut accepted: Option<Handle> = None;
    let (mut written, mut last) = (0, wire.start);
    let mut outcome = Outcome {
        delivered: 0,
        gap: (Duration::ZERO, Duration::ZERO),
        again: None,
        probes: 0,
        ended: Duration::ZERO,
        reported: None,
    };
    let middle = wire.start + BLACK + OUTAGE / 2;
    while outcome.delivered < case.total && wire.step(until) {
        while let Some(event) = wire.stacks[1].poll_event() {
            if let Event::Accepted { handle, .. } = event {
                accepted = Some(handle);
            }
        }
        while wire.stacks[0].poll_event().is_some() {}
        let before = outcome.delivered;
        while let Ok(Some(p)) = wire.stacks[0].recv(wire.now, h, 1 << 20) {
            outcome.delivered += p.len() as u64;
        }
        if outcome.delivered > before {
            let gap = wire.now.since(last);
            outcome.gap = outcome.gap.max((gap, wire.now.since(wire.start)));
            last = wire.now;
        }
        if let Some(s) = accepted.filter(|_| wire.now >= middle && outcome.reported.is_none()) {
            outcome.reported = Some(reported(&wire, s, client(case.black as u8)));
        }
        if let Some(s) = accepted {
            let mut n = (1 << 20).min(case.total - written) as u32;
            if case.fitting {
                n = n.min(wire.stacks[1].writable(s) as u32);
            }
            if n > 0 {
                let took = wire.stacks[1].send(wire.now, s, Payload::Length(n));
                written += took.expect("open") as u64;
            }
        }
    }
    outcome.ended = wire.now.since(wire.start);
    outcome.probes = wire.probes;
    let back = wire.start + BLACK + OUTAGE;
    outcome.again = wire.used_again.map(|t| t.since(back));
    outcome
}

/// Whether the state of the server's connection says that the subflow to this address alone is dead,
/// and that nothing has come there since soon after the path went black.
fn reported(wire: &Wire, server: Handle, black: IpAddr) -> bool {
    let info = wire.stacks[1].info(server).expect("a connection");
    let since = wire.start + BLACK + Duration::from_millis(500);
    let right = |s: &SubflowInfo| match s.remote.addr == black {
        true => s.dead && s.last_heard < since,
        false => !s.dead && s.last_heard > since,
    };
    info.subflows.len() == 2 && info.subflows.iter().all(right)
}

fn holds(case: &Case) {
    let o = run(case);
    eprintln!("{case:?}: {o:?}");
    assert_eq!(o.delivered, case.total, "{case:?}: {o:?}");
    assert_eq!(o.reported, Some(true), "not reported: {case:?}: {o:?}");
    assert!(o.gap.0 <= STALL, "stall: {case:?}: {o:?}");
    assert!(
        o.again.is_some_and(|d| d <= RETURN),
        "unused: {case:?}: {o:?}"
    );
}

const CASE: Case = Case {
    preset: "mptcp-2",
    congestion: None,
    autotune: false,
    rtts: [10, 50],
    black: 0,
    // At 100 Mbit/s over one path and 200 over both: 1, 10 and 2 s and more.
    total: 50_000_000,
    fitting: false,
    // The default.
    dead_after: 3,
};

#[test]
fn a_subflow_that_is_never_judged_keeps_what_it_has_until_its_path_returns() {
    let case = Case {
        dead_after: u32::MAX,
        ..CASE
    };
    let o = run(&case);
    assert_eq!(o.delivered, case.total, "{o:?}");
    assert!(o.gap.0 >= OUTAGE, "{o:?}");
}

macro_rules! cases {
    ($($name:ident: $case:expr;)*) => {$(
        #[test]
        fn $name() {
            holds(&$case);
        }
    )*};
}

cases! {
    mptcp_loses_its_short_path: CASE;
    mptcp_loses_its_long_path: Case { black: 1, ..CASE };
    mptcp_with_equal_paths_and_cubic: Case {
        rtts: [50, 50],
        congestion: Some(CongestionKind::Cubic),
        ..CASE
    };
    mptcp_autotuned: Case { autotune: true, congestion: Some(CongestionKind::Cubic), ..CASE };
    mptcp_autotuned_loses_its_long_path: Case { autotune: true, black: 1, ..CASE };
    fuso_loses_its_short_path: Case { preset: "fuso-2", ..CASE };
    fuso_autotuned_loses_its_long_path: Case { preset: "fuso-2", autotune: true, black: 1, ..CASE };
    mptcp_with_a_writer_that_never_overfills: Case { fitting: true, ..CASE };
    fuso_with_a_writer_that_never_overfills: Case { preset: "fuso-2", black: 1, fitting: true, ..CASE };
    fuso_towards_unmodified_receivers: Case { preset: "fuso-unmodified-2", ..CASE };
}
