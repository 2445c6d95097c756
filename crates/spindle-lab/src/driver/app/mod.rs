//! The applications of a run: they open and warm connections, issue and answer requests, and measure flows.
//! They use stacks and do not know the network.

mod ask;
mod handles;
mod observe;
mod prepare;
mod result;
mod script;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use spindle_experiment::metrics::{BackgroundFlows, BystandersOfRun, RunResult};
use spindle_experiment::registry::Application;
use spindle_experiment::rng::Streams;
use spindle_experiment::scenario::{Ask, Observe};
use spindle_experiment::traffic::{Plan, PlannedFlow, Role, Start};
use spindle_fabric::LinkId;
use spindle_mptcp::recovery::MessageHints;
use spindle_mptcp::stage::scatter::PRIORITY;
use spindle_mptcp::{CloseReason, Config, Event, Handle, Stack, SubflowId, TraceEvent};
use spindle_units::{Duration, Instant, prefetch};
use spindle_wire::Endpoint;

use handles::Handles;
use observe::Observer;
pub(crate) use script::Script;

use super::conn::{Class, Conn, Content};
use super::ids::{ConnId, FlowId, Transfer};

/// How long a run continues after its last flow, so that late timeouts are counted.
const EPILOGUE: Duration = Duration::from_millis(200);

/// How long connections may take to close after the measurement.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// An action of the application that is scheduled for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// Issue this flow.
    Issue(FlowId),
    /// Stop waiting for the subflows of this flow's connection.
    AskAnyway(FlowId),
    /// Flows count from this time on.
    Count,
    /// Stop waiting for connections to be ready.
    Prepared,
    /// Start measuring.
    Measure,
    /// The measurement ends, and connections are closed.
    End,
    /// The run ends, even if connections are still open.
    Gone,
}

/// The outcome of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowState {
    pub(crate) issued: Option<Instant>,
    pub(crate) completed: Option<Instant>,
    pub(crate) timeouts: u64,
    pub(crate) recoveries: u64,
    /// Its connection, and the second connection of a replicating transport.
    conns: [Option<ConnId>; 2],
    base_timeouts: u64,
    base_recoveries: u64,
    base_retransmits: u64,
    /// If the flow started before counting did: when counting started, and the flow's bytes that had arrived by
    /// then.
    counts: Option<(Instant, u64)>,
    /// Whether the request of a connection that had to be established first was written.
    asked: bool,
    over: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    left: u32,
    first: Option<Instant>,
    bytes: u64,
    timeouts: u64,
    aborted: bool,
    given_up: bool,
    role: Role,
    counted: bool,
}

/// A recorded flow: what both ends did between its issue and completion.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) issued: Instant,
    pub(crate) completed: Instant,
    pub(crate) bytes: u64,
    pub(crate) client_host: u32,
    pub(crate) server_host: u32,
    /// What the sending end did and observed: the server's, or with [`Plan::push`] the client's.
    pub(crate) sender: Vec<TraceEvent>,
    /// What the receiving end did and observed.
    pub(crate) receiver: Vec<TraceEvent>,
    /// The subflows' endpoints at the server: identifier, server, client.
    pub(crate) subflows: Vec<(SubflowId, Endpoint, Endpoint)>,
    /// The path of each of [`Self::subflows`], as [`paths::names`](super::paths::names) returns it.
    pub(crate) paths: Vec<String>,
}

/// How the application uses the transport.
pub(crate) struct Usage {
    pub(crate) application: Application,
    pub(crate) config: Arc<Config>,
    /// The configuration of background connections, if it differs.
    pub(crate) background: Option<Arc<Config>>,
    /// The configuration of bystanders' connections, if there are bystanders.
    pub(crate) bystander: Option<Arc<Config>>,
    /// Number of interfaces of each host.
    pub(crate) interfaces: Vec<u32>,
    pub(crate) content: Content,
    /// Flows of fewer bytes are marked as short, if this is set.
    pub(crate) short_below: Option<u64>,
    /// Returns the links between switches that ECMP uses. It is set if flows must have disjoint paths.
    pub(crate) routes: Option<Routes>,
}

/// Returns the links between switches over which ECMP sends a connection's segments from one end to the other.
pub(crate) type Routes = Box<dyn Fn(Endpoint, Endpoint) -> Vec<LinkId>>;

/// The applications of all hosts in one run.
pub(crate) struct App {
    plan: Plan,
    usage: Usage,
    streams: Streams,
    conns: Vec<Conn>,
    by_handle: Handles,
    by_endpoint: HashMap<Endpoint, ConnId>,
    flows: Vec<FlowState>,
    groups: Vec<Group>,
    wakes: BinaryHeap<Reverse<(Instant, u64, Wake)>>,
    sequence: u64,
    /// Connections still to be warmed, per client host. The next one is the last.
    to_warm: HashMap<u32, Vec<ConnId>>,
    warming: u32,
    measuring: Option<Instant>,
    ended: Option<Instant>,
    /// Whether flows count now.
    counting: bool,
    next_timed: usize,
    chains: HashMap<u32, Vec<FlowId>>,
    pending: u32,
    pub(crate) dirty: Vec<u32>,
    pub(crate) finished: bool,
    /// The result after the measurement.
    measured: Option<RunResult>,
    result: RunResult,
    record: Option<FlowId>,
    pub(crate) recording: Option<Recording>,
    pub(crate) script: Script,
    observer: Option<Observer>,
    /// Links between switches that are used by flows that must have disjoint paths.
    taken: Vec<LinkId>,
}

impl App {
    pub(crate) fn new(
        plan: Plan,
        usage: Usage,
        streams: Streams,
        script: Script,
        record: Option<FlowId>,
    ) -> Self {
        let groups = plan
            .flows
            .iter()
            .map(|f| f.group as usize + 1)
            .max()
            .unwrap_or(0);
        let mut states = vec![Group::default(); groups];
        for flow in &plan.flows {
            states[flow.group as usize].left += 1;
            states[flow.group as usize].bytes += flow.bytes;
            states[flow.group as usize].role = flow.role;
            states[flow.group as usize].counted = flow.counted;
        }
        let counted = |role| {
            let groups = states.iter().filter(|g| g.counted && g.role == role);
            groups.count() as u64
        };
        let mut result = RunResult {
            flows: counted(Role::Measured),
            background: BackgroundFlows {
                flows: counted(Role::Background),
                ..BackgroundFlows::default()
            },
            ..RunResult::default()
        };
        result.observed.bystanders = usage.bystander.as_ref().map(|_| BystandersOfRun {
            flows: counted(Role::Bystander),
            ..BystandersOfRun::default()
        });
        let flow = FlowState {
            issued: None,
            completed: None,
            timeouts: 0,
            recoveries: 0,
            conns: [None; 2],
            base_timeouts: 0,
            base_recoveries: 0,
            base_retransmits: 0,
            counts: None,
            asked: false,
            over: false,
        };
        Self {
            flows: vec![flow; plan.flows.len()],
            pending: plan.flows.iter().filter(|f| plan.awaits(f)).count() as u32,
            result,
            groups: states,
            observer: plan.observe.recovery.then(Observer::default),
            script,
            plan,
            usage,
            streams,
            conns: Vec::new(),
            by_handle: Handles::default(),
            by_endpoint: HashMap::new(),
            wakes: BinaryHeap::new(),
            sequence: 0,
            to_warm: HashMap::new(),
            warming: 0,
            measuring: None,
            ended: None,
            counting: false,
            next_timed: 0,
            chains: HashMap::new(),
            dirty: Vec::new(),
            finished: false,
            measured: None,
            record,
            recording: None,
            taken: Vec::new(),
        }
    }

    fn wake(&mut self, at: Instant, wake: Wake) {
        self.sequence += 1;
        self.wakes.push(Reverse((at, self.sequence, wake)));
    }

    /// When [`Self::due`] must be called next.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.wakes.peek().map(|Reverse((at, ..))| *at)
    }

    /// Prefetches, in two steps, the memory that an event of a host's connection needs.
    #[inline]
    pub(crate) fn prefetch(&self, host: u32, handle: Handle, step: u32) {
        if step == 0 {
            return self.by_handle.prefetch(host, handle);
        }
        let conn = self.by_handle.get(host, handle);
        conn.into_iter()
            .for_each(|c| prefetch(&self.conns[c.index()]));
    }

    /// What is recorded of the run in addition to flows' times.
    pub(crate) fn observes(&self) -> Observe {
        self.plan.observe
    }

    /// Whether flows count now.
    pub(crate) fn is_counting(&self) -> bool {
        self.counting
    }

    /// Whether the measurement has begun.
    pub(crate) fn is_measuring(&self) -> bool {
        self.measuring.is_some()
    }

    /// Executes the actions that are due.
    pub(crate) fn due(&mut self, now: Instant, stacks: &mut [Stack]) {
        while let Some(&Reverse((at, _, wake))) = self.wakes.peek() {
            if at > now {
                return;
            }
            self.wakes.pop();
            match wake {
                Wake::Issue(flow) => self.issue(now, flow, stacks),
                Wake::AskAnyway(flow) => self.ask_anyway(now, flow, stacks),
                Wake::Count => self.count_from_now(now, stacks),
                Wake::Prepared => {
                    if self.warming > 0 {
                        self.result.cold_connections = u64::from(self.warming);
                        self.warming = 0;
                        self.wake(now, Wake::Measure);
                    }
                }
                Wake::Measure => self.measure(now, stacks),
                Wake::End => self.end(now, stacks),
                Wake::Gone => self.finished = true,
            }
        }
    }

    /// Ends the measurement: keeps the result and closes connections as applications do, so that captures end
    /// with the closing segments.
    fn end(&mut self, now: Instant, stacks: &mut [Stack]) {
        self.ended = Some(now);
        self.measured = Some(self.measure_result(stacks));
        if self.plan.cuts_off() {
            // Flows in progress are left unfinished.
            self.finished = true;
            return;
        }
        for conn in &self.conns {
            stacks[conn.client_host as usize].close(now, conn.client);
            self.dirty.push(conn.client_host);
        }
        self.wake(now + CLOSE_TIMEOUT, Wake::Gone);
        self.finish_if_closed();
    }

    fn finish_if_closed(&mut self) {
        if self.measured.is_some() && self.conns.iter().all(|c| c.dead) {
            self.finished = true;
        }
    }

    /// Processes an event of a host's stack.
    pub(crate) fn event(&mut self, now: Instant, host: u32, event: Event, stacks: &mut [Stack]) {
        match event {
            Event::Accepted { handle, .. } => self.accepted(now, host, handle, stacks),
            Event::Connected { handle } => {
                if let Some(c) = self.by_handle.get(host, handle) {
                    self.conns[c.index()].connected = true;
                    self.note_endpoint(host, handle, c, stacks);
                    self.warm_next(now, host, stacks);
                    self.ask_if_ready(now, c, stacks);
                }
            }
            Event::SubflowUp { handle, .. } => {
                if let Some(c) = self.by_handle.get(host, handle) {
                    let conn = &mut self.conns[c.index()];
                    if conn.client_host == host {
                        conn.joined += 1;
                        self.warm_next(now, host, stacks);
                        self.ask_if_ready(now, c, stacks);
                    }
                }
            }
            Event::Readable { handle } | Event::Writable { handle } => {
                if let Some(c) = self.by_handle.get(host, handle) {
                    self.progress(now, host, c, stacks);
                }
            }
            Event::PeerClosed { handle } => {
                if let Some(c) = self.by_handle.get(host, handle) {
                    self.conns[c.index()].note_totals(stacks);
                    stacks[host as usize].close(now, handle);
                    self.dirty.push(host);
                }
            }
            Event::Closed { handle, reason } => {
                if let Some(c) = self.by_handle.remove(host, handle) {
                    let conn = &mut self.conns[c.index()];
                    conn.given_up |= match reason {
                        CloseReason::ConnectTimeout | CloseReason::UserTimeout => true,
                        // A server that gave up the handshake answers a late segment with a reset.
                        CloseReason::Reset => conn.server.is_none(),
                        _ => false,
                    };
                    self.closed(now, c, stacks);
                }
            }
            Event::SubflowDown { .. } | Event::JoinFailed { .. } | Event::Acknowledged { .. } => {}
        }
    }

    /// A client is connected, maybe from another endpoint than the one that its connection was opened from.
    fn note_endpoint(&mut self, host: u32, handle: Handle, c: ConnId, stacks: &[Stack]) {
        let info = stacks[host as usize].info(handle);
        if let Some(first) = info.as_ref().and_then(|i| i.subflows.first()) {
            self.by_endpoint.insert(first.local, c);
        }
    }

    fn accepted(&mut self, now: Instant, host: u32, handle: Handle, stacks: &mut [Stack]) {
        let info = stacks[host as usize].info(handle);
        let remote = info.and_then(|i| i.subflows.first().map(|s| s.remote));
        let Some(&c) = remote.and_then(|r| self.by_endpoint.get(&r)) else {
            return;
        };
        self.conns[c.index()].server = Some(handle);
        self.conns[c.index()].tag(stacks);
        if let Some(observer) = &self.observer {
            observer.accepted(c, &self.conns[c.index()], stacks);
        }
        self.by_handle.insert(host, handle, c);
        self.progress(now, host, c, stacks);
    }

    /// Moves data between the application and one end's stack.
    fn progress(&mut self, now: Instant, host: u32, c: ConnId, stacks: &mut [Stack]) {
        let conn = &mut self.conns[c.index()];
        let stack = &mut stacks[host as usize];
        let mut done = Vec::new();
        if host == conn.client_host {
            conn.push_request(now, stack);
            conn.read(now, stack, &self.usage.content, &mut done);
        } else {
            let request = self.plan.request;
            conn.serve(now, stack, request, &self.usage.content, &mut done);
        }
        self.dirty.push(host);
        for transfer in done {
            match transfer {
                Transfer::Flow(flow) => self.done(now, flow, stacks),
                Transfer::WarmUp => self.warm_up_done(now, c, stacks),
                Transfer::JoinTrigger => {}
            }
        }
    }

    /// Schedules the next flow that has its own start time.
    fn next_timed_issue(&mut self, start: Instant) {
        while let Some(flow) = self.plan.flows.get(self.next_timed) {
            self.next_timed += 1;
            if let Start::At(at) = flow.start {
                let flow = FlowId(self.next_timed as u32 - 1);
                self.wake(start + at, Wake::Issue(flow));
                return;
            }
        }
    }

    /// Schedules the client's next group.
    fn next_in_chain(&mut self, now: Instant, client: u32) {
        let Some(list) = self.chains.get_mut(&client) else {
            return;
        };
        let Some(&first) = list.last() else { return };
        let group = self.plan.flows[first.index()].group;
        let mut due = Vec::new();
        while let Some(&flow) = list.last() {
            if self.plan.flows[flow.index()].group != group {
                break;
            }
            list.pop();
            due.push(flow);
        }
        for flow in due {
            if let Start::After(gap) = self.plan.flows[flow.index()].start {
                self.wake(now + gap, Wake::Issue(flow));
            }
        }
    }

    fn issue(&mut self, now: Instant, flow: FlowId, stacks: &mut [Stack]) {
        let planned = self.plan.flows[flow.index()];
        if let (Start::At(_), Some(start)) = (planned.start, self.measuring) {
            self.next_timed_issue(start);
        }
        let group = &mut self.groups[planned.group as usize];
        group.first = Some(group.first.map_or(now, |f| f.min(now)));
        let twice = match self.usage.application {
            Application::Plain => false,
            Application::Replicated { below } => {
                planned.bytes < below && planned.role == Role::Measured
            }
        };
        let class = match planned.role {
            Role::Measured => Class::First,
            Role::Background => Class::Background,
            Role::Bystander => Class::Bystander,
        };
        let first = match planned.connection {
            Some(c) => Some(ConnId(c)),
            None => self.open_for(now, flow, class, stacks),
        };
        let second = match (twice, planned.connection) {
            (false, _) => None,
            (true, Some(c)) => Some(ConnId(c + self.plan.connections.len() as u32)),
            (true, None) => self.open_for(now, flow, Class::Replica, stacks),
        };
        let conns = [first, second].map(|c| c.filter(|c| !self.conns[c.index()].dead));
        self.flows[flow.index()].issued = Some(now);
        self.flows[flow.index()].conns = conns;
        for c in conns.into_iter().flatten() {
            self.tag(c, planned.bytes, stacks);
            if planned.connection.is_none() && self.plan.ask != Ask::Opening {
                self.ask_later(now, flow, c);
            } else {
                self.ask(now, flow, c, planned.bytes, stacks);
            }
        }
        if conns == [None, None] {
            self.give_up(now, flow, stacks);
        }
    }

    /// Marks what both ends of a connection send from now on as a short flow's, or removes the mark.
    fn tag(&mut self, c: ConnId, bytes: u64, stacks: &mut [Stack]) {
        if let Some(limit) = self.usage.short_below {
            let conn = &mut self.conns[c.index()];
            conn.dscp = if bytes < limit { PRIORITY } else { 0 };
            conn.tag(stacks);
        }
    }

    fn ask(&mut self, now: Instant, flow: FlowId, c: ConnId, bytes: u64, stacks: &mut [Stack]) {
        let bytes = self.prepare_response(flow, c, bytes, stacks);
        let is_background = self.plan.flows[flow.index()].is_background();
        let conn = &mut self.conns[c.index()];
        let totals = conn.totals(stacks);
        conn.begin(&totals);
        let state = &mut self.flows[flow.index()];
        state.base_timeouts += totals.timeouts;
        state.base_recoveries += totals.recoveries;
        state.base_retransmits += totals.fast_retransmits;
        let planned = self.plan.message.filter(|_| !is_background);
        let hints = planned.map(|m| MessageHints {
            deadline: m.deadline.map(|after| now + after),
            priority: m.priority,
            length: Some(bytes),
        });
        match self.plan.push {
            true => {
                if let Some(hints) = hints {
                    stacks[conn.client_host as usize].set_message(conn.client, hints);
                }
                conn.upload(flow, bytes);
            }
            false => conn.ask(Transfer::Flow(flow), self.plan.request, (bytes, hints)),
        }
        if self.record == Some(flow) {
            stacks[conn.client_host as usize].set_trace(conn.client, true);
            if let Some(server) = conn.server {
                stacks[conn.server_host as usize].set_trace(server, true);
            }
        }
        conn.push_request(now, &mut stacks[conn.client_host as usize]);
        self.dirty.push(conn.client_host);
    }

    /// Prepares what must be known of a flow before it is requested. Returns the flow's bytes, which may depend
    /// on the connection.
    fn prepare_response(
        &mut self,
        flow: FlowId,
        c: ConnId,
        bytes: u64,
        stacks: &mut [Stack],
    ) -> u64 {
        let conn = &self.conns[c.index()];
        let server = &stacks[conn.server_host as usize];
        let packets = self.plan.packets;
        let own = packets.and_then(|n| script::bytes_of(n, server, conn.server));
        let bytes = own.unwrap_or(bytes);
        let planned = &mut self.plan.flows[flow.index()];
        let group = &mut self.groups[planned.group as usize];
        group.bytes = group.bytes - planned.bytes + bytes;
        planned.bytes = bytes;
        if !self.script.is_empty()
            && let Some(info) = conn.server.and_then(|h| server.info(h))
        {
            self.script.begin(flow, bytes, &info, &self.streams);
        }
        if let (Some(observer), Class::First) = (&mut self.observer, conn.class) {
            observer.begin(c, conn, stacks);
        }
        bytes
    }

    /// Records that a host has sent all its segments and reported all its events.
    #[inline]
    pub(crate) fn host_is_idle(&mut self, now: Instant, host: u32, stacks: &[Stack]) {
        if let Some(observer) = &mut self.observer {
            observer.sample(now, host, &self.conns, stacks);
        }
    }

    /// Completes a flow whose last byte has arrived on one of its connections.
    fn done(&mut self, now: Instant, flow: FlowId, stacks: &mut [Stack]) {
        if self.flows[flow.index()].over {
            return;
        }
        self.finish_recording(now, flow, stacks);
        if let Some(observer) = &mut self.observer {
            let conns = self.flows[flow.index()].conns;
            for c in conns.into_iter().flatten() {
                observer.complete(c, &self.conns[c.index()], stacks);
            }
        }
        self.end_flow(now, flow, stacks);
        let state = &mut self.flows[flow.index()];
        state.completed = Some(now);
        let planned = self.plan.flows[flow.index()];
        self.result.bytes_delivered += planned.bytes;
        let group = &mut self.groups[planned.group as usize];
        group.left -= 1;
        group.timeouts += state.timeouts;
        self.group_done(now, flow);
    }

    /// Gives up a flow that has no connection left.
    fn give_up(&mut self, now: Instant, flow: FlowId, stacks: &mut [Stack]) {
        if self.flows[flow.index()].over {
            return;
        }
        self.end_flow(now, flow, stacks);
        let planned = self.plan.flows[flow.index()];
        let group = &mut self.groups[planned.group as usize];
        group.left -= 1;
        group.timeouts += self.flows[flow.index()].timeouts;
        let conns = self.flows[flow.index()].conns;
        let mut own = conns.into_iter().flatten().peekable();
        group.given_up = own.peek().is_some() && own.all(|c| self.conns[c.index()].given_up);
        group.aborted = true;
        self.group_done(now, flow);
    }

    /// Ends the flow's time on its connections and counts what happened during it.
    fn end_flow(&mut self, now: Instant, flow: FlowId, stacks: &mut [Stack]) {
        let state = &mut self.flows[flow.index()];
        state.over = true;
        let mut totals = (0, 0);
        let own = self.plan.flows[flow.index()].connection.is_none();
        for c in state.conns.into_iter().flatten() {
            let conn = &mut self.conns[c.index()];
            let t = conn.totals(stacks);
            conn.end(t.timeouts);
            totals = (totals.0 + t.timeouts, totals.1 + t.recoveries);
            if own && conn.is_idle() {
                conn.note_totals(stacks);
                stacks[conn.client_host as usize].close(now, conn.client);
                self.dirty.push(conn.client_host);
            }
        }
        state.timeouts = totals.0.saturating_sub(state.base_timeouts);
        state.recoveries = totals.1.saturating_sub(state.base_recoveries);
        self.pending -= u32::from(self.plan.awaits(&self.plan.flows[flow.index()]));
    }

    fn group_done(&mut self, now: Instant, flow: FlowId) {
        let planned = self.plan.flows[flow.index()];
        let group = self.groups[planned.group as usize];
        if group.left == 0 {
            if group.counted {
                self.count_group(now, flow, &group);
            }
            if let Start::After(_) = planned.start {
                self.next_in_chain(now, planned.client);
            }
        }
        if self.pending == 0 && self.plan.ends.is_none() && self.plan.awaits(&planned) {
            let rest = match self.plan.leaves_background {
                // Any further time would be the background's.
                true => Duration::ZERO,
                false => EPILOGUE,
            };
            self.wake(now + rest, Wake::End);
        }
    }

    /// Handles the end of a connection.
    fn closed(&mut self, now: Instant, c: ConnId, stacks: &mut [Stack]) {
        let conn = &mut self.conns[c.index()];
        if conn.dead {
            return;
        }
        conn.dead = true;
        if let Some(observer) = &mut self.observer {
            observer.end(c, &self.conns[c.index()], stacks);
        }
        if self.measured.is_some() {
            self.finish_if_closed();
            return;
        }
        for transfer in self.conns[c.index()].take_waiting() {
            match transfer {
                Transfer::Flow(flow) => {
                    let mut conns = self.flows[flow.index()].conns.iter().flatten();
                    if conns.all(|c| self.conns[c.index()].dead) {
                        self.give_up(now, flow, stacks);
                    }
                }
                Transfer::WarmUp => self.warmed(now, c, stacks),
                Transfer::JoinTrigger => {}
            }
        }
    }

    fn finish_recording(&mut self, now: Instant, flow: FlowId, stacks: &mut [Stack]) {
        if self.record != Some(flow) {
            return;
        }
        let state = self.flows[flow.index()];
        let Some(c) = state.conns[0] else { return };
        let conn = &self.conns[c.index()];
        let (Some(issued), Some(server)) = (state.issued, conn.server) else {
            return;
        };
        let info = stacks[conn.server_host as usize].info(server);
        let subflows = info.map_or(Vec::new(), |i| {
            i.subflows
                .iter()
                .map(|s| (s.id, s.local, s.remote))
                .collect()
        });
        let served = stacks[conn.server_host as usize].take_trace(server);
        let asked = stacks[conn.client_host as usize].take_trace(conn.client);
        let (sender, receiver) = match self.plan.push {
            true => (asked, served),
            false => (served, asked),
        };
        self.recording = Some(Recording {
            issued,
            completed: now,
            bytes: self.plan.flows[flow.index()].bytes,
            client_host: conn.client_host,
            server_host: conn.server_host,
            sender,
            receiver,
            subflows,
            paths: Vec::new(),
        });
        self.finished = true;
    }

    /// The outcomes and the plans of the flows, in the order of the plan.
    pub(crate) fn flows(&self) -> impl Iterator<Item = (&FlowState, &PlannedFlow)> {
        self.flows.iter().zip(&self.plan.flows)
    }
}
