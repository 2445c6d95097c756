//! Applications at both ends that write, read and close according to a script.

use std::sync::Arc;

use spindle_mptcp::recovery::RecoveryBudget;
use spindle_mptcp::{
    CloseReason, Config, ConnectionInfo, DataOffset, Event, Handle, SendKind, SubflowId,
    TraceEvent, TraceKind,
};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Payload};

use super::{CLIENT, Net, SERVER, judge};

/// How an application ends its side. Times are relative to the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Closes after all writes.
    AfterWrites,
    /// Closes at this time, even if writes are left.
    CloseAt(Duration),
    /// Aborts at this time.
    AbortAt(Duration),
}

/// What one application does.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// Waits before each write, and sizes of the writes in bytes. Each write follows the previous one.
    pub(crate) writes: Vec<(Duration, u32)>,
    /// Reads at most this many bytes at a time.
    pub(crate) read_size: usize,
    /// Delay from readability to the read.
    pub(crate) read_delay: Duration,
    pub(crate) end: End,
}

/// A change of addresses or priorities during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathOp {
    /// The side announces its n-th further address.
    Announce(usize),
    /// The side withdraws its n-th further address.
    Withdraw(usize),
    /// The side requests that a subflow is treated as a backup, or not.
    Backup(SubflowId, bool),
}

/// The byte at `offset` in the data that `side` sends.
pub(crate) fn byte_at(side: usize, offset: u64) -> u8 {
    ((offset * 31 + offset / 251 + side as u64 * 7) % 251) as u8
}

fn content(side: usize, from: u64, len: usize) -> Payload {
    let bytes: Vec<u8> = (from..from + len as u64)
        .map(|k| byte_at(side, k))
        .collect();
    Payload::from(bytes)
}

/// The state and results of one side.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) handle: Option<Handle>,
    /// Bytes that its stack accepted from the application.
    pub(crate) accepted: u64,
    /// Bytes that its application read.
    pub(crate) got: u64,
    /// First offset at which the data read differ from the data sent.
    pub(crate) wrong_at: Option<u64>,
    pub(crate) closed: Option<(Instant, CloseReason)>,
    pub(crate) ended_at: Option<Instant>,
    /// The last observed state of the connection.
    pub(crate) last: Option<ConnectionInfo>,
    pub(crate) trace: Vec<TraceEvent>,
    /// Whether its peer gave up and this side could not learn of it.
    pub(crate) stranded: bool,
    next_write: usize,
    rest: u32,
    write_at: Option<Instant>,
    read_at: Option<Instant>,
    blocked: bool,
    connected: bool,
    /// Bytes accepted when the connection was last observed.
    accepted_before: u64,
}

/// Both applications and the network between them.
pub(crate) struct Run {
    pub(crate) net: Net,
    pub(crate) apps: [App; 2],
    pub(crate) sides: [Side; 2],
    pub(crate) real: bool,
    pub(crate) start: Instant,
    pub(crate) addresses: [Vec<std::net::IpAddr>; 2],
    pub(crate) ops: Vec<(Duration, usize, PathOp)>,
    pub(crate) steps: u64,
    /// Sizes of the send and receive buffer of each side.
    pub(crate) buffers: [(usize, usize); 2],
    /// Whether to check that new data are sent before proactive recovery.
    pub(crate) new_data_first: bool,
    /// The recovery budget of each side.
    budgets: [Option<RecoveryBudget>; 2],
    seen: usize,
}

/// Limit of steps, more than any network of the tests needs.
const MOST_STEPS: u64 = 3_000_000;

impl Run {
    /// Starts to listen at the server and connects the client.
    pub(crate) fn new(
        mut net: Net,
        apps: [App; 2],
        configs: [Config; 2],
        ends: (Endpoint, Endpoint),
        real: bool,
    ) -> Self {
        let buffers = [0, 1].map(|k: usize| {
            let t = &configs[k].tcp;
            (t.send_buffer, t.receive_buffer)
        });
        let budgets = [0, 1].map(|k: usize| configs[k].recovery_budget);
        let [client, server] = configs.map(Arc::new);
        net.stacks[SERVER].listen(ends.1, server).expect("free");
        let h = net.stacks[CLIENT]
            .connect(net.now, ends.0, ends.1, client)
            .expect("connects");
        let start = net.now;
        let mut run = Self {
            net,
            apps,
            sides: Default::default(),
            real,
            start,
            addresses: Default::default(),
            ops: Vec::new(),
            steps: 0,
            buffers,
            new_data_first: true,
            budgets,
            seen: 0,
        };
        run.begin(CLIENT, h);
        run
    }

    fn begin(&mut self, side: usize, h: Handle) {
        self.sides[side].handle = Some(h);
        self.net.stacks[side].set_trace(h, true);
        self.schedule_write(side);
    }

    fn schedule_write(&mut self, side: usize) {
        let s = &mut self.sides[side];
        s.write_at = self.apps[side]
            .writes
            .get(s.next_write)
            .map(|(gap, _)| self.net.now + *gap);
        if let Some((_, size)) = self.apps[side].writes.get(s.next_write) {
            s.rest = *size;
            s.next_write += 1;
        } else if self.apps[side].end == End::AfterWrites && s.connected {
            self.end(side, false);
        }
    }

    fn connected(&mut self, side: usize) {
        let s = &mut self.sides[side];
        s.connected = true;
        if s.write_at.is_none() && !s.blocked {
            self.schedule_write(side);
        }
    }

    /// Closes or aborts the side's connection.
    fn end(&mut self, side: usize, abort: bool) {
        let now = self.net.now;
        let s = &mut self.sides[side];
        let Some(h) = s.handle else { return };
        s.write_at = None;
        s.blocked = false;
        s.ended_at.get_or_insert(now);
        if abort {
            self.net.stacks[side].abort(now, h);
        } else {
            self.net.stacks[side].close(now, h);
        }
    }

    fn write(&mut self, side: usize) {
        let now = self.net.now;
        let s = &mut self.sides[side];
        let Some(h) = s.handle.filter(|_| s.ended_at.is_none()) else {
            return;
        };
        s.write_at = None;
        s.blocked = false;
        let data = if self.real {
            content(side, s.accepted, s.rest as usize)
        } else {
            Payload::Length(s.rest)
        };
        let taken = match self.net.stacks[side].send(now, h, data) {
            Ok(n) => n as u32,
            Err(_) => return,
        };
        s.accepted += u64::from(taken);
        s.rest -= taken;
        if s.rest > 0 {
            s.blocked = true;
        } else {
            self.schedule_write(side);
        }
    }

    fn read(&mut self, side: usize, everything: bool) {
        let now = self.net.now;
        self.sides[side].read_at = None;
        let Some(h) = self.sides[side].handle else {
            return;
        };
        let app = &self.apps[side];
        let (most, once) = (app.read_size, !app.read_delay.is_zero() && !everything);
        while let Ok(Some(p)) = self.net.stacks[side].recv(now, h, most) {
            assert!(p.len() <= most && !p.is_empty());
            let s = &mut self.sides[side];
            if let Payload::Bytes(b) = &p {
                let wrong = (0..b.len()).find(|k| b[*k] != byte_at(1 - side, s.got + *k as u64));
                s.wrong_at = s.wrong_at.or(wrong.map(|k| s.got + k as u64));
            }
            assert_eq!(self.real, matches!(p, Payload::Bytes(_)));
            s.got += p.len() as u64;
            if once {
                break;
            }
        }
        if self.net.stacks[side].readable(h) > 0 {
            self.sides[side].read_at = Some(now + app.read_delay);
        }
    }

    /// Runs until no event is pending. Panics after `limit`.
    pub(crate) fn finish(&mut self, limit: Duration) {
        let limit = self.start + limit;
        self.rest(limit);
        // A side with nothing to send does not learn that its peer gave up if the peer's reset was lost (RFC
        // 9293 leaves that to keepalives). Its application must end the connection.
        for side in [CLIENT, SERVER] {
            let s = &self.sides[side];
            let peer = self.sides[1 - side].closed.map(|c| c.1);
            if s.handle.is_some()
                && s.closed.is_none()
                && peer.is_some_and(|r| r != CloseReason::Finished)
            {
                self.sides[side].stranded = true;
                self.end(side, true);
                self.net.pump();
                self.take_events();
                self.rest(limit);
            }
        }
        // The timer of FIN_WAIT_2 (`fin_timeout`, 60 s) stays in the timer list if the connection ends before
        // it.
        self.rest(limit + Duration::from_secs(61));
        let pending = self.net.next();
        assert!(
            pending.is_none(),
            "still waiting for {pending:?} at {limit:?}: {:#?}",
            self.sides
        );
    }

    fn rest(&mut self, limit: Instant) {
        loop {
            self.net.pump();
            self.observe();
            let app = self.next_action();
            if self.net.step(app.unwrap_or(limit).min(limit)) {
                self.steps += 1;
                assert!(self.steps < MOST_STEPS, "no end: {:#?}", self.sides);
                self.take_events();
                continue;
            }
            self.observe();
            let Some(at) = app.filter(|t| *t <= limit) else {
                break;
            };
            self.net.now = self.net.now.max(at);
            self.act();
            self.net.pump();
            self.take_events();
        }
    }

    /// Runs until `at`.
    pub(crate) fn until(&mut self, at: Instant) {
        while self.net.step(at) {
            self.take_events();
            self.observe();
        }
        self.net.now = at;
    }

    fn end_at(&self, side: usize) -> Option<Instant> {
        let s = &self.sides[side];
        if s.handle.is_none() || s.ended_at.is_some() || s.closed.is_some() {
            return None;
        }
        match self.apps[side].end {
            End::AfterWrites => None,
            End::CloseAt(t) | End::AbortAt(t) => Some((self.start + t).max(self.net.now)),
        }
    }

    fn next_action(&self) -> Option<Instant> {
        let sides = (0..2).flat_map(|k| {
            let s = &self.sides[k];
            [s.write_at, s.read_at, self.end_at(k)]
        });
        let op = self.ops.first().map(|(t, ..)| self.start + *t);
        sides.chain([op]).flatten().min()
    }

    fn act(&mut self) {
        let now = self.net.now;
        if self
            .ops
            .first()
            .is_some_and(|(t, ..)| self.start + *t <= now)
        {
            let (_, side, op) = self.ops.remove(0);
            self.path_op(side, op);
        }
        for side in [CLIENT, SERVER] {
            if self.sides[side].write_at.is_some_and(|t| t <= now) {
                self.write(side);
            }
            if self.sides[side].read_at.is_some_and(|t| t <= now) {
                self.read(side, false);
            }
            if self.end_at(side).is_some_and(|t| t <= now) {
                self.end(side, matches!(self.apps[side].end, End::AbortAt(_)));
            }
        }
    }

    fn path_op(&mut self, side: usize, op: PathOp) {
        let now = self.net.now;
        let Some(h) = self.sides[side].handle else {
            return;
        };
        let stack = &mut self.net.stacks[side];
        match op {
            PathOp::Announce(k) => {
                if let Some(a) = self.addresses[side].get(k) {
                    stack.announce_address(now, h, *a, None);
                }
            }
            PathOp::Withdraw(k) => {
                if let Some(a) = self.addresses[side].get(k) {
                    stack.withdraw_address(now, h, *a);
                }
            }
            PathOp::Backup(subflow, backup) => stack.set_backup(now, h, subflow, backup),
        }
    }

    fn take_events(&mut self) {
        while let Some((at, side, event)) = self.net.events.get(self.seen).copied() {
            self.seen += 1;
            let same = |h: Handle| self.sides[side].handle.is_none_or(|mine| mine == h);
            match event {
                Event::Accepted { handle, .. } => {
                    assert!(side == SERVER && same(handle), "one connection");
                    self.sides[side].connected = true;
                    self.begin(side, handle);
                }
                Event::Connected { .. } => self.connected(side),
                Event::Readable { .. } => {
                    let delay = self.apps[side].read_delay;
                    if delay.is_zero() {
                        self.read(side, false);
                    } else {
                        let at = self.net.now + delay;
                        self.sides[side].read_at.get_or_insert(at);
                    }
                }
                Event::Writable { .. } if self.sides[side].blocked => self.write(side),
                Event::Closed { reason, .. } => {
                    let s = &mut self.sides[side];
                    assert!(s.closed.is_none(), "closed twice");
                    s.closed = Some((at, reason));
                    s.write_at = None;
                    self.read(side, true);
                    self.end(side, false);
                }
                _ => {}
            }
        }
    }

    /// Observes both connections and checks what must hold at every moment.
    fn observe(&mut self) {
        for side in [CLIENT, SERVER] {
            let Some(h) = self.sides[side].handle else {
                continue;
            };
            let events = self.net.stacks[side].take_trace(h);
            let Some(info) = self.net.stacks[side].info(h) else {
                continue;
            };
            let readable = self.net.stacks[side].readable(h);
            judge::at_any_moment(&info, readable, self.buffers[side]);
            judge::inside_budget(&info, self.budgets[side]);
            let (segments, bytes) = self.net.data_sent[side];
            let coding = &info.coding;
            let seen = (segments + coding.packets_coded, self.net.coded_sent[side]);
            let counted = (info.total.segments, coding.packets_encoded);
            assert_eq!(counted, seen, "counters and wire");
            let uncoded = info.total.bytes - coding.extra_bytes;
            assert!(uncoded >= bytes, "counters and wire: {uncoded} of {bytes}");
            if coding.packets_coded == 0 {
                assert_eq!(uncoded, bytes, "counters and wire");
            }
            let s = &mut self.sides[side];
            if self.new_data_first {
                judge::new_data_first(&events, s.accepted_before);
            }
            s.accepted_before = s.accepted;
            s.trace.extend(events);
            s.last = Some(info);
        }
    }
}

impl Side {
    /// The segments it sent, as (kind, data offset, length).
    pub(crate) fn sent(&self) -> impl Iterator<Item = (SendKind, DataOffset, u32)> + '_ {
        self.trace.iter().filter_map(|e| match e.kind {
            TraceKind::Sent {
                kind, offset, len, ..
            } => Some((kind, offset, len)),
            _ => None,
        })
    }
}
