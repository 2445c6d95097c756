//! Two live stacks with an adversary between them that delays, drops, repeats, changes and forges segments.
//! Meanwhile both applications write, read and close, and time passes. These invariants must always hold:
//!
//! - There is no panic.
//! - Sending ends, and timers make progress.
//! - The data that a stack stores stay within its limits, and its work stays within its budget.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

use arbitrary::Arbitrary;
use spindle_mptcp::path_manager::{FullMesh, Passive, Ports};
use spindle_mptcp::stage::scatter::PhaseSwitch;
use spindle_mptcp::{Config, Handle, MultipathConfig, Stack, StackConfig, SubflowId, keys, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    AddAddr, DataNumber, Dss, Ecn, Endpoint, Flags, Mapping, MpCapable, MpJoin, MpPrio, MpTcpRst,
    Payload, RemoveAddr, ResetReason, Segment, SeqNumber, Timestamps,
};

use crate::budget::Budget;
use crate::steps::steps;

/// The script of one run.
#[derive(Arbitrary, Clone, Debug)]
pub struct Script {
    kind: Kind,
    /// Number of segments delivered unchanged before the adversary begins.
    peace: u8,
    #[arbitrary(with = steps)]
    steps: Vec<Step>,
}

#[derive(Arbitrary, Clone, Debug)]
struct Kind {
    preset: u8,
    plain: bool,
    checksum: bool,
    timestamps: bool,
    scaling: bool,
    delayed_ack: bool,
    manager: u8,
    buffer: u8,
    bytes: bool,
    burst: bool,
    half_open: u8,
    /// Whether packet scatter ends early, if the preset uses it.
    short_scatter: bool,
}

#[derive(Arbitrary, Clone, Debug)]
enum Step {
    /// The next segments in transit arrive.
    Deliver(u8),
    Drop,
    Repeat,
    /// The `n`-th segment in transit overtakes the others.
    Overtake(u8),
    /// The next segment arrives changed.
    Change(Change),
    /// A changed copy of the last observed segment arrives.
    Inject(Change),
    Forge(Forged),
    /// Waits this many milliseconds and serves timers when they expire.
    Wait(u16),
    Write(bool, u16),
    Read(bool, u16),
    Close(bool),
    Abort(bool),
    Connect,
    Backup(bool, u8, bool),
    Announce(bool, u8),
    Withdraw(bool, u8),
    Flood(u8),
}

#[derive(Arbitrary, Clone, Debug)]
enum Change {
    Seq(i16),
    SeqFar(u32),
    Ack(i16),
    AckFar(u32),
    Window(u16),
    Flags(u16),
    Len(u16),
    Cut(u16),
    Ce,
    NoOptions,
    NoMptcp,
    Times(i8, u32),
    Sack(i16, i16),
    Signal(Signal),
    Rare(Rare),
    Payload(u8),
    /// Another source port, as after a NAT or from a scattering sender, or another address as well.
    Source(u16, Option<u8>),
    /// Another scatter token, or none.
    Token(i8, Option<u32>),
}

#[derive(Arbitrary, Clone, Debug)]
struct Signal {
    ack: Option<i16>,
    ack_far: Option<u64>,
    dsn: i16,
    far: Option<u64>,
    ssn: i16,
    len: u16,
    checksum: Option<u16>,
    mapping: bool,
    fin: bool,
}

#[derive(Arbitrary, Clone, Debug)]
enum Rare {
    Capable(bool, bool, bool, u8),
    JoinSyn(u8, bool, u32),
    JoinSynAck(u8, u64, u32),
    JoinAck(u8),
    Add(u8, u8, Option<u16>, u8),
    Remove(u8, u8),
    Prio(bool),
    Fail(u64),
    FastClose(bool),
    Reset(u8),
    Mss(u16),
    Scale(u8),
    NoSack,
}

#[derive(Arbitrary, Clone, Debug)]
struct Forged {
    to_server: bool,
    from: u8,
    to: u8,
    ports: bool,
    seq: u32,
    ack: u32,
    flags: u8,
    len: u16,
    rare: Option<Rare>,
    signal: Option<Signal>,
}

/// Limit of segments in one drain: more than both buffers in the smallest pieces.
const MOST_SENT: usize = 60_000;
/// Limit of segments in transit. Further segments are lost.
const MOST_ON_THE_WAY: usize = 2_000;
const MOST_CONNECTIONS: usize = 12;
/// Limit of connections in TIME_WAIT, in addition to [`MOST_CONNECTIONS`].
const MOST_RESTING: usize = 6;

struct World {
    stacks: [Stack; 2],
    handles: [Vec<Handle>; 2],
    now: Instant,
    way: VecDeque<Segment>,
    last: Option<Segment>,
    keys: [u64; 2],
    config: Arc<Config>,
    bytes: bool,
    budgets: [Budget; 2],
}

fn address(side: usize, n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, side as u8, 1 + n % 3).into()
}

fn service() -> Endpoint {
    Endpoint::new(address(1, 0), 80)
}

fn config(k: &Kind) -> Config {
    const NAMES: [&str; 8] = [
        "mptcp",
        "mptcp-linux",
        "fuso",
        "cofuso",
        "fuso-8",
        "mptcp-2",
        "mmptcp",
        "ps",
    ];
    let name = NAMES[usize::from(k.preset) % NAMES.len()];
    let mut c = preset(name).map(|p| p.config).unwrap_or_default();
    let m = c.multipath.get_or_insert_with(MultipathConfig::default);
    m.checksum = k.checksum;
    m.path_manager = match k.manager % 3 {
        0 => Arc::new(Passive),
        1 => Arc::new(Ports(2 + usize::from(k.manager) % 3)),
        _ => Arc::new(FullMesh),
    };
    if let Some(s) = m.scatter.as_mut().filter(|_| k.short_scatter) {
        Arc::make_mut(s).switch = PhaseSwitch::Bytes(4_000);
    }
    if k.plain {
        c.multipath = None;
    }
    c.tcp.timestamps = k.timestamps;
    c.tcp.window_scaling = k.scaling;
    c.tcp.delayed_ack = k.delayed_ack.then_some(Duration::from_millis(40));
    c.tcp.receive_buffer = [3_000, 30_000, 200_000][usize::from(k.buffer) % 3];
    c.tcp.send_buffer = [5_000, 50_000, 200_000][usize::from(k.buffer / 3) % 3];
    if k.burst {
        c.tcp.burst = 20_000;
    }
    c
}

impl World {
    fn new(k: &Kind) -> Self {
        let config = Arc::new(config(k));
        let stack = |side: usize| {
            let config = StackConfig {
                max_connections: MOST_CONNECTIONS,
                max_time_wait: MOST_RESTING,
                max_half_open: usize::from(k.half_open % 4),
                addresses: vec![address(side, 1), address(side, 2)],
                ..StackConfig::default()
            };
            Stack::deterministic(config, side as u64)
        };
        let mut w = Self {
            stacks: [stack(0), stack(1)],
            handles: [Vec::new(), Vec::new()],
            now: Instant::ZERO + Duration::from_secs(1),
            way: VecDeque::new(),
            last: None,
            keys: [0; 2],
            config,
            bytes: k.bytes,
            budgets: [Budget::default(); 2],
        };
        // There is no listener yet, so the endpoint is free.
        let _ = w.stacks[1].listen(service(), w.config.clone());
        w.connect();
        w
    }

    fn connect(&mut self) {
        let from = Endpoint::new(address(0, 0), 0);
        if let Ok(h) = self.stacks[0].connect(self.now, from, service(), self.config.clone()) {
            self.handles[0].push(h);
        }
        self.drain();
    }

    fn drain(&mut self) {
        for side in 0..2 {
            let mut sent = 0;
            while let Some(packet) = self.stacks[side].transmit(self.now) {
                let seg = packet.into_tcp().expect("no coding");
                sent += 1;
                assert!(sent < MOST_SENT, "sending never ends");
                self.budgets[side].on_sent(seg.piece_count());
                self.learn(side, &seg);
                if self.way.len() < MOST_ON_THE_WAY {
                    self.way.push_back(seg);
                }
            }
            while self.stacks[side].poll_event().is_some() {}
            self.budgets[side].on_event();
            self.budgets[side].check(&self.stacks[side]);
        }
        self.handles[1] = self.stacks[1].handles().collect();
        self.check();
    }

    fn learn(&mut self, side: usize, seg: &Segment) {
        let c = seg.options.rare.as_ref().and_then(|r| r.mp_capable);
        if let Some(key) = c.and_then(|c| c.sender_key) {
            self.keys[side] = key;
        }
    }

    fn arrive(&mut self, seg: Segment) {
        self.now += Duration::from_micros(100);
        self.last = Some(seg.clone());
        let side = self.side_of(&seg);
        self.stacks[side].receive(self.now, seg);
        self.drain();
    }

    fn side_of(&self, seg: &Segment) -> usize {
        match seg.dst.addr {
            IpAddr::V4(a) => usize::from(a.octets()[2] == 1),
            IpAddr::V6(_) => 1,
        }
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let mut served = 0;
        loop {
            let due = self.stacks.iter().filter_map(Stack::next_timeout).min();
            let Some(due) = due.filter(|t| *t <= until) else {
                break;
            };
            self.now = self.now.max(due);
            for side in 0..2 {
                self.stacks[side].timeout(self.now);
            }
            self.drain();
            served += 1;
            assert!(served < 200_000, "timers never move on");
        }
        self.now = until;
    }

    fn check(&self) {
        let buffer = self.config.tcp.receive_buffer;
        // Both buffers twice, at subflow and data level, and the maximal overhead of the pieces that a receiver
        // stores.
        let multipath = self.config.multipath.as_ref();
        let most_subflows = multipath.map_or(1, |m| m.max_subflows);
        let each = (2 * (buffer + self.config.tcp.send_buffer) + (4 << 20)) as u64;
        for s in &self.stacks {
            assert!(s.buffered() <= each * MOST_CONNECTIONS as u64);
            assert!(s.handles().count() <= MOST_CONNECTIONS + MOST_RESTING);
            for h in s.handles() {
                let Some(i) = s.info(h) else { continue };
                assert!(i.subflows.len() <= most_subflows);
                assert!(i.acknowledged <= i.sent && i.sent <= i.written);
                assert!(s.readable(h) as usize <= buffer);
            }
        }
    }

    fn payload(&self, n: usize) -> Payload {
        if self.bytes {
            Payload::Bytes(vec![7; n].into())
        } else {
            Payload::Length(n as u32)
        }
    }

    fn pick(&self, side: usize) -> Option<Handle> {
        self.handles[side].last().copied()
    }
}

fn shift(n: u32, by: i16) -> u32 {
    n.wrapping_add(i32::from(by) as u32)
}

impl Signal {
    fn put(&self, w: &World, seg: &mut Segment) {
        let side = w.side_of(seg);
        let (theirs, ours) = (keys::idsn(w.keys[1 - side]), keys::idsn(w.keys[side]));
        let old = seg.options.dss.unwrap_or_default();
        let near = |d: Option<DataNumber>, base: u64, by: i16| match d {
            Some(DataNumber::Low(n)) => DataNumber::Low(shift(n, by)),
            Some(DataNumber::Full(n)) => DataNumber::Full(n.wrapping_add(i64::from(by) as u64)),
            None => DataNumber::Full(base.wrapping_add(1).wrapping_add(i64::from(by) as u64)),
        };
        let data_ack = match (self.ack_far, self.ack) {
            (Some(n), _) => Some(DataNumber::Full(n)),
            (None, Some(by)) => Some(near(old.data_ack, ours, by)),
            (None, None) => old.data_ack,
        };
        let map = old.mapping.unwrap_or(Mapping {
            dsn: DataNumber::Full(theirs.wrapping_add(1)),
            ssn: 1,
            len: seg.payload.len() as u16,
            checksum: None,
        });
        let mapping = self.mapping.then(|| Mapping {
            dsn: match self.far {
                Some(n) => DataNumber::Full(n),
                None => near(Some(map.dsn), theirs, self.dsn),
            },
            ssn: shift(map.ssn, self.ssn),
            len: if self.len & 1 == 0 { map.len } else { self.len },
            checksum: self.checksum.or(map.checksum),
        });
        seg.options.dss = Some(Dss {
            data_ack,
            mapping,
            data_fin: self.fin && mapping.is_some_and(|m| m.len > 0),
        });
    }
}

impl Rare {
    fn put(&self, w: &World, seg: &mut Segment) {
        let side = w.side_of(seg);
        let (theirs, ours) = (w.keys[1 - side], w.keys[side]);
        let rare = seg.options.rare_mut();
        match *self {
            Self::Capable(sender, receiver, data, other) => {
                rare.mp_capable = Some(MpCapable {
                    version: 1,
                    hmac_sha256: other & 1 == 0,
                    checksum_required: other & 2 != 0,
                    sender_key: sender.then_some(theirs),
                    receiver_key: receiver.then_some(ours),
                    data_len: data.then_some(u16::from(other) * 7),
                    ..MpCapable::default()
                });
            }
            Self::JoinSyn(id, right, token) => {
                rare.mp_join = Some(MpJoin::Syn {
                    backup: id & 1 == 0,
                    address_id: id,
                    token: if right { keys::token(ours) } else { token },
                    nonce: token,
                });
            }
            Self::JoinSynAck(address_id, hmac, nonce) => {
                rare.mp_join = Some(MpJoin::SynAck {
                    backup: false,
                    address_id,
                    hmac,
                    nonce,
                });
            }
            Self::JoinAck(byte) => rare.mp_join = Some(MpJoin::Ack { hmac: [byte; 20] }),
            Self::Add(id, n, port, hmac) => {
                let addr = address(1 - side, n);
                let right = keys::add_addr_hmac(theirs, ours, id, addr, port);
                rare.add_addr.push(AddAddr {
                    echo: hmac & 2 != 0,
                    address_id: id,
                    addr,
                    port,
                    hmac: (hmac & 2 == 0).then_some(right ^ u64::from(hmac & 1)),
                });
            }
            Self::Remove(a, b) => {
                rare.remove_addr = Some(RemoveAddr {
                    address_ids: vec![a, b],
                })
            }
            Self::Prio(backup) => rare.mp_prio = Some(MpPrio { backup }),
            Self::Fail(n) => rare.mp_fail = Some(n),
            Self::FastClose(right) => rare.mp_fastclose = Some(if right { ours } else { !ours }),
            Self::Reset(code) => {
                rare.mp_tcprst = Some(MpTcpRst {
                    transient: code & 1 == 0,
                    other_flags: 0,
                    reason: ResetReason::from_code(code),
                });
            }
            Self::Mss(n) => rare.mss = Some(n),
            Self::Scale(n) => rare.window_scale = Some(n),
            Self::NoSack => rare.sack_permitted = false,
        }
    }
}

impl Change {
    fn put(&self, w: &World, seg: &mut Segment) {
        match self {
            Self::Seq(by) => seg.seq = SeqNumber(shift(seg.seq.0, *by)),
            Self::SeqFar(n) => seg.seq = SeqNumber(*n),
            Self::Ack(by) => seg.ack = SeqNumber(shift(seg.ack.0, *by)),
            Self::AckFar(n) => seg.ack = SeqNumber(*n),
            Self::Window(n) => seg.window = *n,
            Self::Flags(n) => seg.flags = Flags(seg.flags.0 ^ (n & 0x1ff)),
            Self::Len(n) => seg.payload = w.payload(usize::from(*n) % 9_000),
            Self::Cut(n) => {
                let len = seg.payload.len();
                let skip = if len == 0 { 0 } else { usize::from(*n) % len };
                seg.payload = seg.payload.slice(skip, len - skip);
                seg.seq = seg.seq + skip as u32;
            }
            Self::Ce => seg.ecn = Ecn::Ce,
            Self::NoOptions => seg.options = Default::default(),
            Self::NoMptcp => {
                seg.options.dss = None;
                if let Some(r) = &mut seg.options.rare {
                    (r.mp_capable, r.mp_join) = (None, None);
                }
            }
            Self::Times(by, echo) => {
                let old = seg.options.timestamps.map_or(0, |t| t.value);
                let value = old.wrapping_add(i32::from(*by) as u32);
                seg.options.timestamps = Some(Timestamps { value, echo: *echo });
            }
            Self::Sack(a, b) => {
                let (a, b) = (shift(seg.ack.0, *a), shift(seg.ack.0, *b));
                seg.options.sack.push(SeqNumber(a), SeqNumber(b));
            }
            Self::Signal(s) => s.put(w, seg),
            Self::Rare(r) => r.put(w, seg),
            Self::Payload(byte) => {
                if self_has_bytes(seg) {
                    seg.payload = Payload::Bytes(vec![*byte; seg.payload.len()].into());
                }
            }
            Self::Source(port, host) => {
                seg.src.port = *port;
                if let Some(n) = host {
                    seg.src.addr = address(1 - w.side_of(seg), *n);
                }
            }
            Self::Token(by, far) => {
                let right = keys::token(w.keys[w.side_of(seg)]);
                let near = right.wrapping_add(i32::from(*by) as u32);
                seg.options.token = NonZeroU32::new(far.unwrap_or(near));
            }
        }
    }
}

fn self_has_bytes(seg: &Segment) -> bool {
    matches!(seg.payload, Payload::Bytes(_))
}

impl Forged {
    fn segment(&self, w: &World) -> Segment {
        let side = usize::from(self.to_server);
        let port = |side: usize| match (side, &w.last) {
            (1, _) => 80,
            (_, Some(l)) if self.ports => l.src.port.max(l.dst.port),
            _ => 4000 + u16::from(self.from),
        };
        let from = Endpoint::new(address(1 - side, self.from), port(1 - side));
        let to = Endpoint::new(address(side, self.to), port(side));
        let mut seg = Segment::new(from, to);
        seg.seq = SeqNumber(self.seq);
        seg.ack = SeqNumber(self.ack);
        seg.flags = Flags(u16::from(self.flags));
        seg.window = 20_000;
        seg.payload = w.payload(usize::from(self.len) % 1_500);
        if let Some(r) = &self.rare {
            r.put(w, &mut seg);
        }
        if let Some(s) = &self.signal {
            s.put(w, &mut seg);
        }
        seg
    }
}

fn flood(w: &mut World, n: u8) {
    for k in 0..u16::from(n) {
        let from = Endpoint::new(Ipv4Addr::new(10, 9, 0, k as u8).into(), 2000 + k);
        let mut seg = Segment::new(from, service());
        seg.flags = Flags::SYN;
        w.budgets[1].on_event();
        w.stacks[1].receive(w.now, seg);
    }
    w.drain();
}

fn step(w: &mut World, step: &Step) {
    match step {
        Step::Deliver(n) => {
            for _ in 0..=*n % 32 {
                let Some(seg) = w.way.pop_front() else { break };
                w.arrive(seg);
            }
        }
        Step::Drop => w.last = w.way.pop_front().or(w.last.take()),
        Step::Repeat => {
            if let Some(seg) = w.last.clone() {
                w.arrive(seg);
            }
        }
        Step::Overtake(n) => {
            let len = w.way.len().max(1);
            if let Some(seg) = w.way.remove(usize::from(*n) % len) {
                w.arrive(seg);
            }
        }
        Step::Change(c) => {
            if let Some(mut seg) = w.way.pop_front() {
                c.put(w, &mut seg);
                w.arrive(seg);
            }
        }
        Step::Inject(c) => {
            if let Some(mut seg) = w.last.clone() {
                c.put(w, &mut seg);
                w.arrive(seg);
            }
        }
        Step::Forge(f) => {
            let seg = f.segment(w);
            w.arrive(seg);
        }
        Step::Wait(ms) => w.wait(Duration::from_millis(u64::from(*ms) % 5_000)),
        Step::Connect => w.connect(),
        Step::Flood(n) => flood(w, *n),
        other => call(w, other),
    }
}

fn call(w: &mut World, step: &Step) {
    let side = match step {
        Step::Write(s, _) | Step::Read(s, _) | Step::Close(s) | Step::Abort(s) => usize::from(*s),
        Step::Backup(s, ..) | Step::Announce(s, _) | Step::Withdraw(s, _) => usize::from(*s),
        _ => return,
    };
    let Some(h) = w.pick(side) else { return };
    let now = w.now;
    let data = match step {
        Step::Write(_, n) => w.payload(usize::from(*n)),
        _ => Payload::EMPTY,
    };
    let s = &mut w.stacks[side];
    match step {
        Step::Write(..) => {
            let _ = s.send(now, h, data);
        }
        Step::Read(_, n) => while let Ok(Some(_)) = s.recv(now, h, 1 + usize::from(*n)) {},
        Step::Close(_) => s.close(now, h),
        Step::Abort(_) => s.abort(now, h),
        Step::Backup(_, id, on) => s.set_backup(now, h, SubflowId(id % 4), *on),
        Step::Announce(_, n) => {
            let _ = s.announce_address(now, h, address(side, *n), None);
        }
        Step::Withdraw(_, n) => s.withdraw_address(now, h, address(side, *n)),
        _ => {}
    }
    w.drain();
}

/// Plays a script and checks the invariants.
///
/// # Panics
/// If a stack violates an invariant.
pub fn play(script: &Script) {
    let mut w = World::new(&script.kind);
    for _ in 0..script.peace % 64 {
        let Some(seg) = w.way.pop_front() else { break };
        w.arrive(seg);
    }
    for s in &script.steps {
        step(&mut w, s);
    }
    // Only time passes from here on.
    w.way.clear();
    w.wait(Duration::from_secs(1_000));
}
