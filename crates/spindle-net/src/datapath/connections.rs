//! The data path's side of connections: commands, events, and moving bytes between stack and pipes.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

use spindle_mptcp::{
    CloseReason, Config, ConnectionInfo, DataOffset, Event, Handle, ListenerId, LocalAddress,
    Stack, StackCounters, SubflowId,
};
use spindle_units::Instant;
use spindle_wire::{Endpoint, Payload};
use tokio::sync::mpsc::error::TrySendError;

use super::Driver;
use super::pipe::{Identity, OwnedPipe, Phase, Pipe, Room};
use super::queue::{AcceptQueue, Command};
use super::status::{ConnectionStatus, ListenOptions, NetworkCounters};
use crate::error::NetError;
use crate::link::LocalPath;

/// Bytes that a peer may still send to a connection after its owner has released it. Beyond them, the
/// connection is reset.
const DISCARD_LIMIT: u64 = 1 << 20;
/// Most connections served in one turn because they requested attention.
const ATTENTION_BATCH: usize = 512;
/// First port for listeners that name no port (RFC 6335, section 6: dynamic ports).
const FIRST_DYNAMIC_PORT: u16 = 49_152;

/// A listener of the stack, and the queue of its accepted connections.
pub(super) struct Listening {
    local: SocketAddr,
    accepted: AcceptQueue,
    announce: Vec<(IpAddr, Option<u16>)>,
    room: Room,
}

struct Live {
    handle: Handle,
    pipe: Arc<Pipe>,
    id: u64,
    listener: Option<(ListenerId, SocketAddr)>,
    opened: Instant,
    closed: Option<CloseReason>,
    /// Established subflows.
    up: u64,
    /// The stack has been notified that no more data will be sent.
    closing: bool,
    /// The owner has released the connection, and `Stack::close` was called for it.
    orphaned: bool,
    discarded: u64,
}

/// All connections of the data path.
#[derive(Default)]
pub(super) struct Connections {
    /// Indexed by the stack's connection index.
    slots: Vec<Option<Live>>,
    by_id: HashMap<u64, usize>,
    next_id: u64,
    pub(super) totals: Totals,
}

/// Counters over all connections.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    accepted: u64,
    connected: u64,
    refused: u64,
    closed: u64,
    /// Connections that were ended because memory was short.
    pub(super) evicted: u64,
    /// Established subflows of the live connections.
    subflows: u64,
}

impl Connections {
    fn at(&mut self, handle: Handle) -> Option<&mut Live> {
        self.slots
            .get_mut(handle.index())?
            .as_mut()
            .filter(|l| l.handle == handle)
    }

    fn insert(
        &mut self,
        now: Instant,
        handle: Handle,
        pipe: Arc<Pipe>,
        listener: Option<(ListenerId, SocketAddr)>,
    ) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let live = Live {
            handle,
            pipe,
            id,
            listener,
            opened: now,
            closed: None,
            up: 0,
            closing: false,
            orphaned: false,
            discarded: 0,
        };
        let slot = handle.index();
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(live);
        self.by_id.insert(id, slot);
        id
    }

    fn remove(&mut self, slot: usize) {
        if let Some(live) = self.slots.get_mut(slot).and_then(Option::take) {
            self.by_id.remove(&live.id);
        }
    }

    /// Updates a connection's number of established subflows.
    fn set_up(&mut self, handle: Handle, up: impl FnOnce(u64) -> u64) {
        if let Some(live) = self.at(handle) {
            let before = live.up;
            let after = up(before);
            live.up = after;
            self.totals.subflows = self.totals.subflows - before + after;
        }
    }

    /// Number of slots, empty ones included.
    pub(super) fn places(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn nothing_left(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Number of live connections.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Reports to the stack how much the pipe of each connection holds.
    pub(super) fn report(&self, now: Instant, stack: &mut Stack) {
        for live in self.slots.iter().flatten() {
            let s = live.pipe.lock();
            stack.set_outside_of(now, live.handle, s.held());
            stack.set_overhead_of(live.handle, s.overhead());
        }
    }

    /// Resets the listener's connections that were opened from refused addresses. Returns their number.
    pub(super) fn reset_refused(
        &self,
        listener: ListenerId,
        refused: impl Fn(IpAddr) -> bool,
    ) -> usize {
        let live = self.slots.iter().flatten();
        let mut reset = 0;
        for l in live.filter(|l| l.listener.is_some_and(|(id, _)| id == listener)) {
            let Some(identity) = l.pipe.identity.get() else {
                continue;
            };
            let (connection, outside) = (l.id, identity.outside);
            if l.closed.is_none() && refused(outside.ip()) {
                tracing::warn!(connection, %outside, "reset: the client's network is no longer allowed");
                l.pipe.abort();
                reset += 1;
            }
        }
        reset
    }

    fn handle_in(&self, slot: usize) -> Option<Handle> {
        self.slots.get(slot)?.as_ref().map(|l| l.handle)
    }

    /// Stops all pipes when the data path ends, so that no owner waits indefinitely.
    pub(super) fn stop_all(&mut self) {
        for live in self.slots.drain(..).flatten() {
            set_phase(&live.pipe, Phase::Stopped);
        }
        self.by_id.clear();
    }
}

fn set_phase(pipe: &Pipe, phase: Phase) {
    let mut s = pipe.lock();
    if matches!(s.phase, Phase::Closed(_) | Phase::Stopped) {
        return;
    }
    s.phase = phase;
    if phase != Phase::Open {
        s.discard_outbound();
        s.up = 0;
    }
    s.recount();
    let wakers = [s.take_reader(), s.take_writer()];
    drop(s);
    wakers.into_iter().flatten().for_each(|w| w.wake());
    pipe.changed.notify_waiters();
}

impl Driver {
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Listen {
                local,
                options,
                accepted,
                answer,
            } => {
                let result = self.listen(local, options, accepted);
                if let Err(Ok((id, _))) = answer.send(result) {
                    self.stop_listening(id);
                }
            }
            Command::StopListening(id) => self.stop_listening(id),
            Command::SetAdmission(id, rule, answer) => {
                let _ = answer.send(self.set_admission(id, rule));
            }
            Command::Connect {
                local,
                remote,
                config,
                pipe,
                answer,
            } => {
                let _ = answer.send(self.connect(local, remote, config, pipe));
            }
            Command::LocalPaths(paths) => self.set_local_paths(&paths),
            Command::ProbePaths => self.stack.probe_paths(self.clock.now()),
            Command::Info(id, answer) => {
                let _ = answer.send(self.info(id));
            }
            Command::Connections(answer) => self.surveys.request_statuses(answer),
            Command::Counters(answer) => self.surveys.request_counters(answer),
            Command::Turn(answer) => {
                let _ = answer.send(());
            }
            Command::HandOver(step, answer) => {
                let _ = answer.send(self.hand_over(step));
            }
            Command::Release => self.released = true,
            Command::Shutdown(answer) => {
                self.abort_all();
                self.ended = true;
                let _ = answer.send(());
            }
        }
    }

    fn listen(
        &mut self,
        local: SocketAddr,
        options: ListenOptions,
        accepted: AcceptQueue,
    ) -> Result<(ListenerId, SocketAddr), NetError> {
        let mut local = local;
        if local.port() == 0 {
            let taken = |port| self.listeners.values().any(|l| l.local.port() == port);
            let free = (FIRST_DYNAMIC_PORT..=u16::MAX).find(|p| !taken(*p));
            local.set_port(free.ok_or(NetError::NoListeningPort(local.ip()))?);
        }
        let config = self.fitted(options.config);
        let room = Room::of(&config);
        let id = self.stack.listen(local.into(), config)?;
        let listening = Listening {
            local,
            accepted,
            announce: options.announce,
            room,
        };
        self.listeners.insert(id, listening);
        self.gate.set(id, options.admission);
        Ok((id, local))
    }

    /// The configuration, reduced to what the link can carry.
    fn fitted(&self, config: Arc<Config>) -> Arc<Config> {
        let (mss, burst) = (self.link.mss(), self.link.burst());
        let scatter = config.multipath.as_ref().and_then(|m| m.scatter.as_ref());
        let ports = self.link.keeps_ports() && scatter.is_some_and(|s| s.ports.is_some());
        if config.tcp.mss <= mss && config.tcp.burst <= burst && !ports {
            return config;
        }
        let mut fitted = (*config).clone();
        let multipath = fitted.multipath.as_mut().filter(|_| ports);
        if let Some(scatter) = multipath.and_then(|m| m.scatter.as_mut()) {
            Arc::make_mut(scatter).ports = None;
        }
        fitted.tcp.mss = fitted.tcp.mss.min(mss);
        fitted.tcp.burst = fitted.tcp.burst.min(burst);
        Arc::new(fitted)
    }

    fn stop_listening(&mut self, id: ListenerId) {
        self.stack.stop_listening(id);
        self.listeners.remove(&id);
        self.gate.set(id, None);
    }

    fn connect(
        &mut self,
        local: IpAddr,
        remote: SocketAddr,
        config: Arc<Config>,
        pipe: Arc<Pipe>,
    ) -> Result<(), NetError> {
        // Handle pending events first: the stack may give this connection the slot of one that has ended.
        self.dispatch();
        let now = self.clock.now();
        let local = Endpoint::new(local, 0);
        let config = self.fitted(config);
        let handle = self.stack.connect(now, local, remote.into(), config)?;
        self.open_pipe(now, handle, pipe, None);
        self.serve(handle);
        Ok(())
    }

    fn set_local_paths(&mut self, paths: &[LocalPath]) {
        let now = self.clock.now();
        self.link.set_local_paths(now, paths);
        let address = |p: &LocalPath| LocalAddress {
            addr: p.addr,
            backup: p.backup,
        };
        let addresses: Vec<LocalAddress> = paths.iter().map(address).collect();
        self.stack.set_local_addresses(now, &addresses);
    }

    fn open_pipe(
        &mut self,
        now: Instant,
        handle: Handle,
        pipe: Arc<Pipe>,
        listener: Option<(ListenerId, SocketAddr)>,
    ) {
        let id = self.connections.insert(now, handle, pipe.clone(), listener);
        if let Some(first) = self
            .stack
            .info(handle)
            .and_then(|i| i.subflows.into_iter().next())
        {
            let identity = Identity {
                id,
                local: first.local.into(),
                peer: first.remote.into(),
                outside: self.link.outside(first.remote),
            };
            // The identity is set only here, once.
            let _ = pipe.identity.set(identity);
        }
    }

    fn info(&self, id: u64) -> Option<ConnectionInfo> {
        let slot = *self.connections.by_id.get(&id)?;
        self.stack.info(self.connections.handle_in(slot)?)
    }

    /// The status of the connections in these slots.
    pub(super) fn statuses(&self, places: Range<usize>) -> Vec<ConnectionStatus> {
        let now = self.clock.now();
        let live = self.connections.slots[places].iter().flatten();
        live.filter_map(|l| {
            let identity = l.pipe.identity.get()?;
            Some(ConnectionStatus {
                id: l.id,
                listener: l.listener.map(|(_, local)| local),
                local: identity.local,
                remote: identity.peer,
                outside: self.link.outside(identity.peer.into()),
                age: std::time::Duration::from_nanos(now.since(l.opened).as_nanos()),
                info: self.stack.info(l.handle)?,
                now,
            })
        })
        .collect()
    }

    pub(super) fn counters(&self, stack: StackCounters) -> NetworkCounters {
        let t = &self.connections.totals;
        NetworkCounters {
            link: self.link.counters(),
            udp: self.link.udp(),
            accepted: t.accepted,
            connected: t.connected,
            refused: t.refused,
            closed: t.closed,
            live: self.connections.by_id.len() as u64,
            subflows: t.subflows,
            half_open: self.stack.half_open() as u64,
            sent: stack.send,
            bytes_received: stack.bytes_received,
            stack,
            path_signals: self.path_signals,
            memory: self.stack.memory(),
            memory_limit: self.memory_limit,
            turn_times: self.turn_times,
        }
    }

    fn abort_all(&mut self) {
        let now = self.clock.now();
        for live in self.connections.slots.iter().flatten() {
            self.stack.abort(now, live.handle);
        }
    }

    /// Handles the events of the stack.
    pub(super) fn dispatch(&mut self) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Accepted { listener, handle } => self.on_accepted(listener, handle),
                Event::Connected { handle } => self.on_connected(handle),
                Event::SubflowUp { handle, .. } => self.on_subflow(handle, true),
                Event::SubflowDown { handle, subflow } => {
                    self.on_subflow(handle, false);
                    self.log_ended(handle, subflow);
                }
                Event::JoinFailed { handle, subflow } => self.log_ended(handle, subflow),
                Event::Readable { handle }
                | Event::Writable { handle }
                | Event::PeerClosed { handle } => self.serve(handle),
                Event::Acknowledged { handle, offset } => self.on_acknowledged(handle, offset),
                Event::Closed { handle, reason } => self.on_closed(handle, reason),
            }
        }
    }

    fn on_accepted(&mut self, listener: ListenerId, handle: Handle) {
        let now = self.clock.now();
        let Some(listening) = self.listeners.get(&listener) else {
            self.stack.abort(now, handle);
            return;
        };
        let (local, announce) = (listening.local, listening.announce.clone());
        let accepted = listening.accepted.clone();
        let pipe = Pipe::new(self.queue.clone(), listening.room);
        self.open_pipe(now, handle, pipe.clone(), Some((listener, local)));
        self.connections.set_up(handle, |_| 1);
        set_up(&pipe);
        let Some(peer) = pipe.identity.get().map(|i| i.outside.ip()) else {
            self.stack.abort(now, handle);
            return;
        };
        let owned = OwnedPipe::new(pipe);
        if !self.gate.admits(listener, peer) {
            // The rule has changed since the SYN. The pipe has no owner, so that what the peer has sent is dropped.
            drop(owned);
            self.gate.note(listener, peer);
            self.stack.abort(now, handle);
            return;
        }
        match accepted.try_send(owned) {
            Ok(()) => self.connections.totals.accepted += 1,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {
                self.connections.totals.refused += 1;
                self.stack.abort(now, handle);
                return;
            }
        }
        // A client opens further subflows only after a sign that its key has arrived, and its request may wait
        // for them.
        if self.stack.info(handle).is_some_and(|i| i.multipath) {
            self.stack.acknowledge(now, handle);
        }
        for (addr, port) in announce {
            self.stack.announce_address(now, handle, addr, port);
        }
        self.serve(handle);
    }

    fn on_connected(&mut self, handle: Handle) {
        self.connections.totals.connected += 1;
        self.connections.set_up(handle, |_| 1);
        if let Some(live) = self.connections.at(handle) {
            set_up(&live.pipe);
        }
        self.serve(handle);
    }

    fn on_subflow(&mut self, handle: Handle, up: bool) {
        self.connections.set_up(handle, |n| match up {
            true => n + 1,
            false => n.saturating_sub(1),
        });
        if let Some(live) = self.connections.at(handle) {
            let mut s = live.pipe.lock();
            s.up = if up { s.up + 1 } else { s.up.saturating_sub(1) };
            drop(s);
            live.pipe.changed.notify_waiters();
        }
    }

    /// Logs why a subflow ended while its connection lives.
    fn log_ended(&mut self, handle: Handle, id: SubflowId) {
        let Some(info) = self.stack.info(handle).filter(|i| i.closed.is_none()) else {
            return;
        };
        let Some(ended) = info.ended.iter().rfind(|e| e.id == id) else {
            return;
        };
        let Some(connection) = self.connections.at(handle).map(|l| l.id) else {
            return;
        };
        let (local, remote, left) = (ended.local, ended.remote, info.subflows.len());
        let (reason, established) = (ended.end, ended.established);
        if reason.is_orderly() {
            tracing::info!(connection, subflow = id.0, %local, %remote, %reason, left, "subflow ended");
        } else {
            tracing::warn!(connection, subflow = id.0, %local, %remote, %reason, established, left, "subflow lost");
        }
    }

    fn on_acknowledged(&mut self, handle: Handle, offset: DataOffset) {
        let observer = self.connections.at(handle);
        if let Some(observer) = observer.and_then(|l| l.pipe.observer.get()) {
            observer.acknowledged(offset.since_start(), std::time::Instant::now());
            // The observer may now wait for another offset.
            self.serve(handle);
        }
    }

    fn on_closed(&mut self, handle: Handle, reason: CloseReason) {
        let info = self.stack.info(handle);
        self.connections.totals.closed += 1;
        let evicted = reason == CloseReason::MemoryPressure;
        self.connections.totals.evicted += u64::from(evicted);
        self.connections.set_up(handle, |_| 0);
        if let Some(live) = self.connections.at(handle) {
            live.closed = Some(reason);
            let mut s = live.pipe.lock();
            s.last = info.map(Box::new);
            if evicted {
                s.discard_inbound();
            }
        }
        self.serve(handle);
    }

    /// Serves the connections that requested attention, in the order of their requests. Returns whether more
    /// are left.
    pub(super) fn attend(&mut self) -> bool {
        let mut list = std::mem::take(&mut self.attention);
        if list.is_empty() {
            self.queue.take_attention(&mut list);
        }
        let batch = list.len().min(ATTENTION_BATCH);
        for pipe in list.drain(..batch) {
            pipe.attended();
            let slot = pipe
                .identity
                .get()
                .and_then(|i| self.connections.by_id.get(&i.id));
            if let Some(handle) = slot.and_then(|s| self.connections.handle_in(*s)) {
                self.serve(handle);
            }
        }
        let more = !list.is_empty();
        self.attention = list;
        more
    }

    /// Moves as much data as possible between a connection and its pipe, and carries out its owner's requests.
    fn serve(&mut self, handle: Handle) {
        let now = self.clock.now();
        let Some(live) = self.connections.at(handle) else {
            return;
        };
        let pipe = live.pipe.clone();
        let mut s = pipe.lock();
        s.little = self.stack.is_held_back(handle);
        if s.abort && live.closed.is_none() {
            drop(s);
            self.stack.abort(now, handle);
            return;
        }
        if let Some(message) = s.message.take() {
            let hints = message.hints(std::time::Instant::now(), now);
            self.stack.set_message(handle, hints);
        }
        give(&mut self.stack, now, handle, &mut s);
        if s.expects_more != s.told_more {
            s.told_more = s.expects_more;
            self.stack.expect_more(now, handle, s.expects_more);
        }
        watch(&mut self.stack, now, handle, &pipe, &mut s);
        if s.write_closed && s.all_given() && !live.closing {
            live.closing = true;
            self.stack.shutdown(now, handle);
        }
        live.discarded += take(&mut self.stack, now, handle, &mut s);
        let drained = !s.more;
        s.eof |= drained && live.closed.is_none() && self.stack.at_end(handle);
        let released = s.released;
        s.recount();
        self.stack.set_outside_of(now, handle, s.held());
        self.stack.set_overhead_of(handle, s.overhead());
        let wakers = [s.take_reader(), s.take_writer()];
        drop(s);
        wakers.into_iter().flatten().for_each(|w| w.wake());
        if let Some(reason) = live.closed {
            if drained {
                set_phase(&pipe, Phase::Closed(reason));
                self.stack.close(now, handle);
                self.connections.remove(handle.index());
            }
            return;
        }
        if released {
            if live.discarded > DISCARD_LIMIT {
                self.stack.abort(now, handle);
            } else if live.closing && !live.orphaned {
                live.orphaned = true;
                self.stack.close(now, handle);
            }
        }
    }
}

/// Marks a connection as established with one subflow, so that its owner may go on.
fn set_up(pipe: &Pipe) {
    pipe.lock().up = 1;
    set_phase(pipe, Phase::Open);
}

/// Gives the stack the data that were written. The last piece is offered even to a full buffer, since the rest
/// that is left over counts as new data to come (FUSO section 4.1).
fn give(stack: &mut Stack, now: Instant, handle: Handle, s: &mut super::pipe::State) {
    while let Some(piece) = s.next_outbound() {
        let len = piece.len();
        let n = match stack.send(now, handle, Payload::Bytes(piece.clone())) {
            Ok(n) => n.min(len),
            Err(_) => {
                s.discard_outbound();
                return;
            }
        };
        s.sent(n, piece.slice(n..));
        if n < len {
            return;
        }
    }
}

/// Asks the stack to report the acknowledgement that the connection's observer waits for.
fn watch(stack: &mut Stack, now: Instant, handle: Handle, pipe: &Pipe, s: &mut super::pipe::State) {
    if let Some(observer) = pipe.observer.get() {
        let offset = observer.next_offset(s.written);
        if offset != s.watched {
            s.watched = offset;
            stack.watch_acknowledged(now, handle, DataOffset::START + offset);
        }
    }
}

/// Takes as many bytes from the stack as the pipe has room for. Returns how many were discarded because the
/// owner has released the connection.
fn take(stack: &mut Stack, now: Instant, handle: Handle, s: &mut super::pipe::State) -> u64 {
    let mut discarded = 0;
    loop {
        let room = s.inbound_room();
        if room == 0 {
            s.more = true;
            return discarded;
        }
        match stack.recv(now, handle, room) {
            Ok(Some(piece)) => {
                if s.released {
                    discarded += piece.len() as u64;
                }
                s.deliver(piece.to_bytes());
            }
            Ok(None) | Err(_) => {
                s.more = false;
                return discarded;
            }
        }
    }
}
