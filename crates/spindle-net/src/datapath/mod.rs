//! The data path: one thread that owns the stack, the link and a poller.
//!
//! A turn reads a batch from the link, takes commands, serves timers, serves the connections that requested
//! attention, hands events to the sockets, and sends a batch. Then the thread sleeps until a packet, a timer or
//! a command arrives.
//!
//! A turn takes a limited number of commands, packets, segments to send, and connections that requested
//! attention. The rest waits for the next turn. All timers that are due and all events are handled in the same
//! turn: there is one timer for each connection, and events result from what the turn has taken.

mod connections;
pub(crate) mod gate;
mod handover;
pub(crate) mod held;
pub(crate) mod message;
pub(crate) mod pipe;
pub(crate) mod queue;
pub(crate) mod status;
mod survey;
pub(crate) mod turns;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use polling::{Events, Poller};
use spindle_mptcp::{ListenerId, Stack};
use spindle_units::Instant;

use crate::link::{Arrival, FIRST_KEY, IcmpError, IcmpReport, Link};
use connections::{Connections, Listening};
use gate::Gate;
use held::{BUFFERS_PER_UNUSED, RELAY_COST};
use pipe::Pipe;
use queue::Queue;
use survey::Surveys;
use turns::TurnTimes;

/// Segments on the wire that are sent in one turn: eleven or twelve bursts of 64 KB. A turn may exceed this by
/// at most one burst.
const SEND_BATCH: u32 = 512;
/// Most commands taken in one turn.
const COMMAND_BATCH: usize = 256;

/// The monotonic clock in the form that the core needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}

/// Least time between two log lines about connections that were ended because memory was short.
const LOG_GAP: spindle_units::Duration = spindle_units::Duration::from_secs(1);

/// What has been logged about connections that were ended because memory was short.
#[derive(Default)]
struct Evictions {
    logged: u64,
    at: Option<Instant>,
}

impl Evictions {
    /// Logs the connections that have been ended since the last line. `total` is their number since the start.
    fn log(&mut self, now: Instant, total: u64) {
        let waits = self.at.is_some_and(|at| now.since(at) < LOG_GAP);
        if total == self.logged || waits {
            return;
        }
        let connections = total - self.logged;
        tracing::warn!(
            connections,
            "memory is short: ended connections that held data without progress"
        );
        (self.logged, self.at) = (total, Some(now));
    }
}

/// The thread's state.
pub(crate) struct Driver {
    clock: Clock,
    stack: Stack,
    link: Box<dyn Link>,
    poller: Arc<Poller>,
    queue: Arc<Queue>,
    connections: Connections,
    listeners: HashMap<ListenerId, Listening>,
    gate: Gate,
    attention: Vec<Arc<Pipe>>,
    /// No handle is left. The thread ends when all connections have ended.
    released: bool,
    ended: bool,
    /// ICMP errors and learnt MTUs that were reported to the stack.
    path_signals: u64,
    /// The stack's memory limit.
    memory_limit: u64,
    evictions: Evictions,
    turn_times: TurnTimes,
    surveys: Surveys,
    /// Why the thread ended, unless it ended on request.
    failure: Option<String>,
}

impl Driver {
    pub(crate) fn new(
        stack: Stack,
        mut link: Box<dyn Link>,
        poller: Arc<Poller>,
        queue: Arc<Queue>,
    ) -> io::Result<Self> {
        link.register(&poller)?;
        let memory_limit = stack.memory_limit();
        Ok(Self {
            clock: Clock::start(),
            stack,
            link,
            poller,
            queue,
            connections: Connections::default(),
            listeners: HashMap::new(),
            gate: Gate::default(),
            attention: Vec::new(),
            released: false,
            ended: false,
            path_signals: 0,
            memory_limit,
            evictions: Evictions::default(),
            turn_times: TurnTimes::default(),
            surveys: Surveys::default(),
            failure: None,
        })
    }

    /// Runs until a shutdown, until no handle and no connection is left, or until the link breaks.
    pub(crate) fn run(mut self) {
        if let Err(e) = self.turns() {
            tracing::error!(error = %e, "the data path's link failed");
            self.failure = Some(e.to_string());
        }
    }

    fn turns(&mut self) -> io::Result<()> {
        let mut events = Events::new();
        let mut busy = false;
        while !self.ended {
            self.wait(&mut events, busy)?;
            let begin = std::time::Instant::now();
            busy = self.receive(&events)?;
            self.settle();
            self.commands();
            self.account();
            busy |= self.survey();
            self.timers();
            self.admit();
            busy |= self.attend();
            self.dispatch();
            busy |= self.send()?;
            self.dispatch();
            if self.released && self.connections.nothing_left() {
                self.ended = true;
            }
            self.turn_times.add(begin.elapsed().into());
        }
        let now = self.clock.now();
        while let Some(packet) = self.stack.transmit(now) {
            self.link.send(now, packet);
        }
        self.link.flush(now)
    }

    /// Sleeps until something arrives. If there is work left, it only checks for packets and does not sleep.
    fn wait(&mut self, events: &mut Events, busy: bool) -> io::Result<()> {
        events.clear();
        let may_sleep = !busy && self.queue.may_sleep();
        let timeout = if may_sleep {
            let due = [self.stack.next_timeout(), self.link.next_timeout()];
            let now = self.clock.now();
            due.into_iter()
                .flatten()
                .min()
                .map(|at| std::time::Duration::from_nanos(at.since(now).as_nanos()))
        } else {
            Some(std::time::Duration::ZERO)
        };
        let result = self.poller.wait(events, timeout);
        self.queue.awake();
        match result {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            r => r.map(|_| ()),
        }
    }

    fn receive(&mut self, events: &Events) -> io::Result<bool> {
        let now = self.clock.now();
        let mut taker = Taker {
            stack: &mut self.stack,
            gate: &mut self.gate,
            signals: &mut self.path_signals,
            clock: self.clock,
        };
        let mut sink = |arrival| taker.take(arrival);
        let mut more = false;
        if self.link.unpolled() {
            more |= self.link.receive(now, FIRST_KEY, &mut sink)?;
        }
        for event in events.iter().filter(|e| e.key >= FIRST_KEY) {
            more |= self.link.receive(now, event.key, &mut sink)?;
        }
        Ok(more)
    }

    fn timers(&mut self) {
        let now = self.clock.now();
        if self.stack.next_timeout().is_some_and(|at| at <= now) {
            if self.stack.relief_due(now) {
                self.connections.report(now, &mut self.stack);
            }
            self.stack.timeout(now);
        }
        if self.link.next_timeout().is_some_and(|at| at <= now) {
            let mut taker = Taker {
                stack: &mut self.stack,
                gate: &mut self.gate,
                signals: &mut self.path_signals,
                clock: self.clock,
            };
            self.link.timeout(now, &mut |arrival| taker.take(arrival));
        }
    }

    /// Reports to the stack how much is held for its connections elsewhere, and sets how much the queues may
    /// hold.
    fn account(&mut self) {
        let relays = RELAY_COST * self.connections.len() as u64;
        let queues = self.queue.held().total();
        let unused = (self.stack.buffered() + queues) / BUFFERS_PER_UNUSED;
        self.stack
            .set_outside(relays + queues + unused + self.link.held());
        let free = self.memory_limit.saturating_sub(self.stack.memory());
        self.queue.held().bound(free.saturating_add(queues));
        self.evictions
            .log(self.clock.now(), self.connections.totals.evicted);
    }

    /// Sends a batch; returns whether more is left.
    fn send(&mut self) -> io::Result<bool> {
        let now = self.clock.now();
        let (mut more, mut sent) = (true, 0);
        while more && sent < SEND_BATCH {
            match self.stack.transmit(now) {
                Some(packet) => {
                    sent += packet.piece_count();
                    self.link.send(now, packet);
                }
                None => more = false,
            }
        }
        self.link.flush(now)?;
        let stack = &self.stack;
        self.link
            .reconcile(now, &|local, remote| stack.has_subflow(local, remote));
        Ok(more)
    }

    fn commands(&mut self) {
        for _ in 0..COMMAND_BATCH {
            let Some(command) = self.queue.next_command() else {
                return;
            };
            self.command(command);
        }
    }
}

impl Drop for Driver {
    /// Leaves no caller waiting, however the thread ends.
    fn drop(&mut self) {
        let why = if std::thread::panicking() {
            Some("a defect of the data path; its thread panicked".to_owned())
        } else {
            self.failure.take()
        };
        self.listeners.clear();
        self.queue.stop(why);
        self.connections.stop_all();
    }
}

/// The parts of the data path that take what arrives from the link.
struct Taker<'a> {
    stack: &'a mut Stack,
    gate: &'a mut Gate,
    signals: &'a mut u64,
    clock: Clock,
}

impl Taker<'_> {
    /// Reports to the stack what has arrived from the link. SYNs that must be judged first wait for
    /// [`Driver::admit`].
    ///
    /// Each arrival has its own time, read after the arrival. With the time at which a turn began, the round-trip time of a
    /// packet that arrives during the turn would be shorter than that of the path, and controllers use the shortest one.
    fn take(&mut self, arrival: Arrival) {
        let (stack, now) = (&mut *self.stack, self.clock.now());
        *self.signals += u64::from(!matches!(arrival, Arrival::Packet(_)));
        match arrival {
            Arrival::Packet(packet) if self.gate.concerns(stack, &packet) => self.gate.keep(packet),
            Arrival::Packet(packet) => stack.receive(now, packet),
            Arrival::PathMtu(p) => stack.link_mtu(now, p.local, p.remote, p.mtu),
            Arrival::Icmp(report) => on_icmp(stack, now, &report),
            Arrival::Unreachable { local, remote, why } => {
                tracing::debug!(%local, %remote, ?why, "a peer cannot be reached");
                stack.unreachable(now, local, remote, why);
            }
        }
    }
}

/// An ICMP error counts only if it quotes a segment in flight (RFC 5927, section 4.1).
fn on_icmp(stack: &mut Stack, now: Instant, report: &IcmpReport) {
    let (local, remote) = (report.local, report.remote);
    let genuine = stack.is_outstanding(local, remote, report.seq);
    tracing::debug!(?report, genuine, "an ICMP error");
    match report.error {
        IcmpError::TooBig(mtu) if genuine => stack.path_mtu(now, local, remote, mtu),
        IcmpError::Unreachable(why) if genuine => stack.unreachable(now, local, remote, why),
        IcmpError::TooBig(_) | IcmpError::Unreachable(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_mptcp::{StackConfig, preset};

    /// It had the time at which the turn began, so that round-trip times were shorter than the path on busy machines.
    #[test]
    fn packet_that_arrives_late_in_a_turn_is_not_early() {
        const DELAY: std::time::Duration = std::time::Duration::from_millis(20);
        let config = Arc::new(preset("rack").expect("a preset").config);
        let [client, server] = ["192.0.2.1:4711", "192.0.2.2:80"].map(|text| {
            let end: std::net::SocketAddr = text.parse().expect("an endpoint");
            spindle_wire::Endpoint::from(end)
        });
        let clock = Clock::start();
        let mut far = Stack::deterministic(StackConfig::default(), 1);
        far.listen(server, config.clone()).expect("a free port");
        let mut stack = Stack::deterministic(StackConfig::default(), 2);
        let handle = stack.connect(clock.now(), client, server, config);
        let handle = handle.expect("a free port");
        let syn = stack.transmit(clock.now()).expect("a SYN");
        far.receive(clock.now(), syn);
        let answer = far.transmit(clock.now()).expect("a SYN/ACK");

        let (mut gate, mut signals) = (Gate::default(), 0);
        let mut turn = Taker {
            stack: &mut stack,
            gate: &mut gate,
            signals: &mut signals,
            clock,
        };
        std::thread::sleep(DELAY);
        turn.take(Arrival::Packet(answer));
        let srtt = stack.info(handle).and_then(|i| i.subflows[0].srtt);
        assert!(srtt.is_some_and(|rtt| rtt >= DELAY.into()), "{srtt:?}");
    }
}
