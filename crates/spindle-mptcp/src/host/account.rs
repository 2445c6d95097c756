//! The account of the stack's memory: what is counted, for which source, and what happens when memory is short.
//!
//! The account counts what connections store ([`Stack::buffered`]), a fixed cost for each connection and
//! subflow, and what the driver reports to hold outside the stack ([`Stack::set_outside`]).
//!
//! Memory is short from seven eighths of [`StackConfig::max_memory`](super::StackConfig::max_memory) on.
//! Windows are then not opened further, send buffers do not grow further, and memory is freed until a quarter
//! of it is free again. The oldest connections in TIME_WAIT are forgotten first. Then connections that hold
//! data without progress are ended, those that hold most for longest first. Above the limit, connections that
//! store data accept no more data, and new connections are refused. As a last resort, idle connections of
//! sources beyond their share are ended. (Linux: `tcp_mem`, with its marks for pressure and the limit.)
//!
//! No event makes the stack look at all connections. A connection learns how short memory is when something
//! happens to it. The other connections learn it in a walk over all connections, which happens at most once in
//! [`ROUND`].

use std::collections::VecDeque;

use spindle_units::{Duration, Instant};

use super::sources::Sources;
use super::{Handle, Stack};
use crate::connection::Connection;
use crate::connection::memory::Pressure;
use crate::types::earliest;

/// Bytes of a connection with its first subflow, without what it stores. `tests/memory.rs` measures 6 to 9 KB
/// for the existing transports.
pub(super) const CONNECTION_COST: u64 = 8 << 10;
/// Bytes of a connection in TIME_WAIT. The same test measures 4 to 6 KB.
const RESTING_COST: u64 = 6 << 10;
/// Bytes that a connection may hold soon after its beginning: its first buffers, and the driver's queues.
const FIRST_DATA: u64 = 80 << 10;
/// How long [`FIRST_DATA`] counts for a new connection that may not hold these bytes yet.
const YOUTH: Duration = Duration::from_millis(500);
/// Bytes of a further subflow. The same test measures 3 to 4 KB.
const SUBFLOW_COST: u64 = 4 << 10;

/// How long a connection must be without progress before it may be ended: a few retransmission timeouts of a
/// path that is slow or changes (RFC 6298: 1 s at first).
const PATIENCE: Duration = Duration::from_secs(2);
/// Least time between two rounds over all connections while memory is short.
const ROUND: Duration = Duration::from_millis(100);

/// The memory in use, and the limit.
#[derive(Debug)]
pub(super) struct Account {
    limit: u64,
    /// Bytes that connections store.
    pub(super) stored: u64,
    /// Bytes that the driver holds outside the stack.
    outside: u64,
    pressure: Pressure,
    /// Whether half of the limit is in use, so that the shares of sources apply.
    contended: bool,
    /// When the stack next looks for connections without progress, while memory is short.
    next_round: Option<Instant>,
    /// The earliest time of that round.
    round_from: Instant,
    /// The next walk, which notifies connections to which nothing has happened since the pressure changed.
    next_walk: Option<Instant>,
    /// The earliest time of that walk.
    walk_from: Instant,
    /// When recently accepted connections were established.
    young: VecDeque<Instant>,
    pub(super) sources: Sources,
}

impl Account {
    pub(super) fn new(limit: u64, sources: Sources) -> Self {
        Self {
            limit,
            stored: 0,
            outside: 0,
            pressure: Pressure::None,
            contended: false,
            next_round: None,
            round_from: Instant::ZERO,
            next_walk: None,
            walk_from: Instant::ZERO,
            young: VecDeque::new(),
            sources,
        }
    }

    /// Whether there is a limit at all.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.limit < u64::MAX
    }

    /// The pressure with `total` bytes in use. The pressure drops only some way below each mark, so that it
    /// does not change back and forth with each segment.
    fn pressure_at(&self, total: u64) -> Pressure {
        let part = |eighths: u64| self.limit / 8 * eighths;
        let exhausted = match self.pressure {
            Pressure::Exhausted => self.limit - self.limit / 16,
            _ => self.limit,
        };
        let short = match self.pressure {
            Pressure::None => part(7),
            _ => part(6),
        };
        match total {
            t if t >= exhausted => Pressure::Exhausted,
            t if t >= short => Pressure::Short,
            _ => Pressure::None,
        }
    }
}

impl Stack {
    /// Bytes that connections store: unacknowledged and unsent data in send buffers, data that were received
    /// but not read, whether in order or not, 64 bytes for each piece of data and each mapping, and some 80
    /// bytes for each outstanding segment.
    pub fn buffered(&self) -> u64 {
        self.account.stored
    }

    /// Bytes in use in total, as [`StackConfig::max_memory`](super::StackConfig::max_memory) counts them.
    pub fn memory(&self) -> u64 {
        let (live, resting) = (self.table.live(), self.table.resting());
        let further = self.table.tuples().saturating_sub(live + resting);
        self.account.stored
            + self.account.outside
            + CONNECTION_COST * live as u64
            + RESTING_COST * resting as u64
            + SUBFLOW_COST * further as u64
    }

    /// The limit of [`Self::memory`] in bytes, which is
    /// [`StackConfig::max_memory`](super::StackConfig::max_memory).
    pub fn memory_limit(&self) -> u64 {
        self.account.limit
    }

    /// Reports how many bytes the driver holds outside the stack: queues between the stack and applications,
    /// packets, tasks. They count like the stack's own.
    pub fn set_outside(&mut self, total: u64) {
        self.account.outside = total;
        self.judge_memory();
    }

    /// Reports how many of the bytes of [`Self::set_outside`] are held for this connection. The stack uses this
    /// to choose which connections are ended when memory is short, and to know how much each source holds. It
    /// is enough to report it when memory is short ([`Self::relief_due`]), and when the caller handles the
    /// connection anyway.
    pub fn set_outside_of(&mut self, now: Instant, h: Handle, bytes: u64) {
        let Some(c) = self.table.get_mut(h) else {
            return;
        };
        let before = c.outside();
        c.set_outside(now, bytes);
        if before != bytes && self.account.is_limited() {
            let source = self.table.source(h.slot);
            self.account.sources.hold(source, before, bytes);
            self.judge_source(h.slot);
        }
    }

    /// Reports how many of the bytes of [`Self::set_outside`] are held for this connection as long as it
    /// exists, whether it moves data or not: its task, a TLS session. They count for its source. A connection
    /// that holds nothing else is idle.
    pub fn set_overhead_of(&mut self, h: Handle, bytes: u64) {
        let Some(c) = self.table.get_mut(h) else {
            return;
        };
        let before = c.set_overhead(bytes);
        if before != bytes && self.account.is_limited() {
            let source = self.table.source(h.slot);
            self.account.sources.hold(source, before, bytes);
            self.judge_source(h.slot);
        }
    }

    /// Whether the next [`Self::timeout`] looks for connections without progress that hold memory.
    pub fn relief_due(&self, now: Instant) -> bool {
        self.account.next_round.is_some_and(|t| t <= now)
    }

    /// Whether the driver should queue as little as possible for this connection outside the stack, because
    /// memory is short or the peer's window is closed.
    pub fn is_held_back(&self, h: Handle) -> bool {
        let c = self.table.get(h);
        c.is_some_and(|c| self.pressure_on(h.slot) > Pressure::None || c.window_is_shut())
    }

    /// When [`Self::relieve`] is due.
    pub(super) fn next_relief(&self) -> Option<Instant> {
        earliest(self.account.next_round, self.account.next_walk)
    }

    /// Whether there is memory for a new connection, in addition to what recently accepted connections may soon
    /// take.
    fn has_memory(&self) -> bool {
        let promised = FIRST_DATA * self.account.young.len() as u64;
        self.memory().saturating_add(promised) < self.account.limit
    }

    /// An accepted connection is established. [`FIRST_DATA`] is set aside for it.
    pub(super) fn promise(&mut self, now: Instant) {
        if self.account.is_limited() {
            self.account.young.push_back(now);
        }
    }

    /// Makes room for a new connection, by forgetting connections in TIME_WAIT if necessary. Returns whether
    /// there is room.
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
        let young = &mut self.account.young;
        while young.front().is_some_and(|t| now.since(*t) >= YOUTH) {
            young.pop_front();
        }
        while !self.has_memory() {
            if !self.forget_oldest_resting() {
                return false;
            }
        }
        true
    }

    /// Whether memory is short.
    pub(super) fn is_short(&self) -> bool {
        self.account.pressure > Pressure::None
    }

    /// Updates the totals after a connection has changed, and what connections know about the limit.
    #[inline]
    pub(super) fn account_for(&mut self, slot: u32, before: (usize, u64), holds: (usize, u64)) {
        self.half_open_joins = self.half_open_joins + holds.0 - before.0;
        self.account.stored = self.account.stored + holds.1 - before.1;
        if self.account.is_limited() {
            self.book_within_limit(slot, before.1, holds.1);
        }
    }

    /// A connection stores `holds` bytes, and stored `before` bytes until now.
    #[inline(never)] // only with a limit on memory
    fn book_within_limit(&mut self, slot: u32, before: u64, holds: u64) {
        let source = self.table.source(slot);
        self.account.sources.hold(source, before, holds);
        self.judge_memory();
        self.judge_source(slot);
    }

    /// Determines how short memory is. If this has changed, the connections are notified.
    fn judge_memory(&mut self) {
        if !self.account.is_limited() {
            return;
        }
        let total = self.memory();
        let account = &mut self.account;
        let pressure = account.pressure_at(total);
        let half = account.limit / 2;
        let contended = total
            >= if account.contended {
                half / 8 * 7
            } else {
                half
            };
        if (pressure, contended) == (account.pressure, account.contended) {
            return;
        }
        if pressure == Pressure::None {
            account.next_round = None;
        } else {
            let at = account.round_from;
            account.next_round.get_or_insert(at);
        }
        (account.pressure, account.contended) = (pressure, contended);
        self.walk_later();
    }

    /// Plans a walk, in which all connections learn how short memory is.
    fn walk_later(&mut self) {
        let at = self.account.walk_from;
        self.account.next_walk.get_or_insert(at);
    }

    /// Checks whether the source of this connection holds more than its share.
    pub(super) fn judge_source(&mut self, slot: u32) {
        let source = self.table.source(slot);
        if self.account.sources.judge(source, self.account.limit) && self.account.contended {
            self.walk_later();
        }
        if self.account.pressure > Pressure::None || self.account.contended {
            self.press(slot);
        }
    }

    /// Counts an accepted connection, and notifies it of how short memory is.
    pub(super) fn press_new(&mut self, slot: u32) {
        self.judge_memory();
        if self.account.is_limited() {
            self.press(slot);
        }
    }

    /// How short memory is for a connection, which also depends on its source.
    #[inline]
    fn pressure_on(&self, slot: u32) -> Pressure {
        let account = &self.account;
        match account.contended && account.sources.is_over(self.table.source(slot)) {
            true => account.pressure.max(Pressure::Short),
            false => account.pressure,
        }
    }

    /// Called before something happens to a connection. Notifies it of how short memory is, unless it knows.
    #[inline]
    pub(super) fn press_if_stale(&mut self, slot: u32) {
        if self.account.next_walk.is_none() {
            return;
        }
        let knows = self.table.connection(slot).map(Connection::pressure);
        if knows.is_some_and(|p| p != self.pressure_on(slot)) {
            self.press(slot);
        }
    }

    /// Notifies a connection of how short memory is for it.
    fn press(&mut self, slot: u32) {
        let pressure = self.pressure_on(slot);
        let Some(c) = self.table.connection_mut(slot) else {
            return;
        };
        if c.pressure() == Pressure::None && pressure == Pressure::None {
            return;
        }
        let changes = c.pressure() != pressure;
        // Even if the pressure has not changed: this frees what arrived since then and may never be needed.
        c.set_pressure(pressure);
        if changes && !std::mem::replace(&mut c.stack.queued, true) {
            self.ready.push(slot);
        }
    }

    /// Notifies all connections of how short memory is, if that has changed and [`ROUND`] has passed since the
    /// last walk.
    fn walk(&mut self, now: Instant) {
        if self.account.next_walk.is_none_or(|t| t > now) {
            return;
        }
        self.account.next_walk = None;
        self.account.walk_from = now + ROUND;
        let slots = self.table.slots();
        self.counters.steps += u64::from(slots);
        (0..slots).for_each(|slot| self.press(slot));
    }

    /// While memory is short: makes room until a quarter of the memory is free. The oldest connections in
    /// TIME_WAIT are forgotten first. Then connections are ended that hold data and made no progress: those of
    /// sources that hold more than their share first, then those that hold most for longest. If the limit is
    /// reached, idle connections of such sources follow, those that were idle for longest first.
    pub(super) fn relieve(&mut self, now: Instant) {
        self.walk(now);
        if !self.relief_due(now) {
            return;
        }
        self.account.round_from = now + ROUND;
        self.account.next_round = Some(now + ROUND);
        let enough = self.account.limit / 8 * 6;
        while self.memory() > enough && self.forget_oldest_resting() {}
        let mut excess = self.memory().saturating_sub(enough);
        if excess == 0 {
            return;
        }
        let mut stalled = self.stalled(now);
        stalled.sort_unstable_by(|a, b| b.cmp(a));
        for Stalled { frees, slot, .. } in stalled {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(frees);
            if let Some(c) = self.table.connection_mut(slot) {
                self.counters.evicted += 1;
                self.counters.bytes_evicted += c.buffered() + c.outside();
                c.evict(now);
            }
            self.touch(now, slot);
        }
    }

    /// Connections that may be ended to make room.
    fn stalled(&mut self, now: Instant) -> Vec<Stalled> {
        let exhausted = self.account.pressure == Pressure::Exhausted;
        let slots = self.table.slots();
        self.counters.steps += u64::from(slots);
        let look = |slot: u32| {
            let over = self.account.sources.is_over(self.table.source(slot));
            let rests = self.table.rests(slot) || self.table.is_half_open(slot);
            let c = self.table.connection_mut(slot)?;
            let held = c.buffered() + c.outside();
            let idle = held == 0;
            if c.teardown.closed.is_some() || (idle && (rests || !over || !exhausted)) {
                return None;
            }
            let time = c.stalled_for(now, held);
            let frees = if idle {
                CONNECTION_COST + c.overhead()
            } else {
                held
            };
            let score = u128::from(frees) * u128::from(time.as_millis());
            (time >= PATIENCE).then_some(Stalled {
                holds_data: !idle,
                over,
                score,
                frees,
                slot,
            })
        };
        (0..slots).filter_map(look).collect()
    }
}

/// A connection that made no progress. The greatest values are ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stalled {
    holds_data: bool,
    /// Its source holds more than its share.
    over: bool,
    /// Bytes times milliseconds.
    score: u128,
    /// Bytes that are freed when it ends.
    frees: u64,
    slot: u32,
}
