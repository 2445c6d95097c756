//! Finds one recovered flow, records it in a second run and converts it to a sequence of events for its picture.

use spindle_experiment::flow_trace::{FlowEvent, FlowEventKind, FlowTrace};
use spindle_experiment::registry::Registry;
use spindle_experiment::{Experiment, Scenario, TransportName};
use spindle_mptcp::{
    Coded, DataOffset, SendKind, SubflowId, SubflowPosition, TraceEvent, TraceKind,
};
use spindle_units::Instant;
use spindle_wire::{Endpoint, SeqNumber};

use crate::driver::{self, FlowOutcome, Recording, RunOutput, RunRequest, Seen, cable_name};

/// Finds a flow that FUSO (or another transport that recovers) completed although segments were lost, with the same
/// flow under MPTCP below it. It is taken from the last point, which has the highest swept value. At most
/// `attempts` flows are recorded in search of one.
pub fn recovered_flow(
    registry: &Registry,
    experiment: &Experiment,
    attempts: usize,
) -> Option<FlowTrace> {
    let recovering = named(experiment, "fuso").or_else(|| {
        let recovers = |t: &&TransportName| {
            registry
                .find(&t.transport)
                .is_some_and(|t| t.config().recovery.is_some())
        };
        experiment.transports.iter().find(recovers)
    });
    let other = named(experiment, "mptcp").or_else(|| named(experiment, "tcp"));
    search(registry, experiment, attempts)?.find(recovering?, other, is_recovered)
}

/// Finds a flow for which CoFUSO decoded a lost packet from parities, with the same flow under FUSO or MPTCP below
/// it. It is taken from the last point. At most `attempts` flows are recorded in search of one.
pub fn decoded_flow(
    registry: &Registry,
    experiment: &Experiment,
    attempts: usize,
) -> Option<FlowTrace> {
    let coding = named(experiment, "cofuso").or_else(|| named(experiment, "cofuso-xor"));
    let other = named(experiment, "fuso").or_else(|| named(experiment, "mptcp"));
    search(registry, experiment, attempts)?.find(coding?, other, is_decoded)
}

/// The last transport listed whose name is the family's name, alone or followed by a number of subflows.
fn named<'e>(experiment: &'e Experiment, family: &str) -> Option<&'e TransportName> {
    let rest = |t: &TransportName| t.transport.strip_prefix(family).map(str::to_owned);
    let is_number = |rest: &str| {
        rest.strip_prefix('-')
            .is_some_and(|n| n.parse::<u32>().is_ok())
    };
    let is = |t: &&TransportName| rest(t).is_some_and(|r| r.is_empty() || is_number(&r));
    experiment.transports.iter().rfind(is)
}

fn search<'a>(
    registry: &'a Registry,
    experiment: &'a Experiment,
    attempts: usize,
) -> Option<Search<'a>> {
    Some(Search {
        registry,
        experiment,
        scenario: &experiment.points.last()?.scenario,
        attempts,
    })
}

/// The place to search for a flow worth drawing.
struct Search<'a> {
    registry: &'a Registry,
    experiment: &'a Experiment,
    scenario: &'a Scenario,
    /// How many candidates are recorded before the search gives up.
    attempts: usize,
}

impl<'a> Search<'a> {
    /// Finds a flow that the first transport completed without a timeout although it lost data. `qualifies`
    /// decides whether the flow recovered in the requested way. Flows that waited for a timeout under the other
    /// transport are preferred. Only the first part of the first seed is searched.
    fn find(
        &self,
        first: &'a TransportName,
        other: Option<&'a TransportName>,
        qualifies: impl Fn(&FlowTrace) -> bool,
    ) -> Option<FlowTrace> {
        let mut request = self.request(first);
        request.count_losses = true;
        let ours = driver::run(&request).ok()?.flows;
        let theirs = match other {
            Some(other) => driver::run(&self.request(other)).ok()?.flows,
            None => Vec::new(),
        };
        for flow in candidates(&ours, &theirs).into_iter().take(self.attempts) {
            let Some(trace) = self.record(first, flow) else {
                continue;
            };
            if !qualifies(&trace) {
                continue;
            }
            let compare = other.and_then(|o| self.record(o, flow)).map(Box::new);
            return Some(FlowTrace {
                compare_with: compare,
                ..trace
            });
        }
        None
    }

    fn request(&self, transport: &'a TransportName) -> RunRequest<'a> {
        let mut request = RunRequest::new(self.scenario, transport, self.registry);
        request.seed = self.experiment.seed;
        request.parts = self.experiment.parts();
        request
    }

    fn record(&self, transport: &'a TransportName, flow: u32) -> Option<FlowTrace> {
        let mut request = self.request(transport);
        request.record = Some(flow);
        driver::run(&request).ok()?.trace(&request)
    }
}

impl RunOutput {
    /// The flow that `request` recorded, as events. `None` if it did not complete.
    pub fn trace(&self, request: &RunRequest<'_>) -> Option<FlowTrace> {
        let (recording, seen) = self.recording.as_ref()?;
        let transport = request.transport.to_string();
        Some(trace(&transport, request.record?, recording, seen))
    }
}

/// A flow of this size fills a picture. Smaller flows are used only if there are no larger ones.
const WORTH_DRAWING: u64 = 20_000;

/// Flows that recovered. Those that waited longest for a timeout under the other transport come first.
fn candidates(ours: &[FlowOutcome], theirs: &[FlowOutcome]) -> Vec<u32> {
    let mut list: Vec<(bool, u64, u32)> = ours
        .iter()
        .enumerate()
        .filter(|(_, f)| f.losses > 0 && f.recoveries > 0 && f.timeouts == 0 && f.fct_ns.is_some())
        .map(|(i, f)| {
            let other = theirs
                .get(i)
                .filter(|o| o.timeouts > 0)
                .and_then(|o| o.fct_ns);
            let gain = other.unwrap_or(0).saturating_sub(f.fct_ns.unwrap_or(0));
            (f.bytes >= WORTH_DRAWING && gain > 0, gain, i as u32)
        })
        .collect();
    list.sort_by_key(|(large, gain, flow)| (!large, std::cmp::Reverse(*gain), *flow));
    list.into_iter().map(|(.., flow)| flow).collect()
}

/// Whether lost data was delivered by a recovery copy on another subflow, or decoded from parities.
fn is_recovered(trace: &FlowTrace) -> bool {
    is_brought(trace, |e| match e.kind {
        FlowEventKind::Recovery { copy_of_subflow } => copy_of_subflow != e.subflow,
        FlowEventKind::Decoded => true,
        _ => false,
    })
}

/// Whether lost data was decoded from parities.
fn is_decoded(trace: &FlowTrace) -> bool {
    is_brought(trace, |e| e.kind == FlowEventKind::Decoded)
}

/// Whether an event that `brings` data covers data that was lost.
fn is_brought(trace: &FlowTrace, brings: impl Fn(&FlowEvent) -> bool) -> bool {
    let events = || trace.events.iter();
    let mut lost = events().filter(|e| matches!(e.kind, FlowEventKind::Lost { .. }));
    lost.any(|lost| {
        let holds = |e: &FlowEvent| (e.dsn..e.dsn + u64::from(e.len)).contains(&lost.dsn);
        events().any(|e| brings(e) && holds(e))
    })
}

fn trace(transport: &str, flow: u32, recording: &Recording, seen: &[Seen]) -> FlowTrace {
    let start = first_offset(&recording.sender);
    let mut events = Vec::new();
    let mut oldest = start;
    let sent = sent(recording, seen);
    for e in &recording.sender {
        events.extend(sender_event(e, start, &mut oldest));
    }
    let receiver = recording.receiver.iter();
    events.extend(receiver.filter_map(|e| receiver_event(e, &sent, start)));
    events.extend(losses(recording, seen, &sent, start));
    events.retain(|e| e.at >= recording.issued && e.at <= recording.completed);
    events.sort_by_key(|e| e.at);
    let subflows = recording
        .subflows
        .iter()
        .map(|(id, ..)| id.0 + 1)
        .max()
        .unwrap_or(1);
    let path = |subflow: u8| {
        let at = recording
            .subflows
            .iter()
            .position(|(id, ..)| id.0 == subflow);
        at.and_then(|i| recording.paths.get(i)).cloned()
    };
    let kilobytes = recording.bytes as f64 / 1e3;
    FlowTrace {
        transport: transport.to_owned(),
        number: flow,
        title: format!(
            "flow {flow}: {kilobytes:.1} KB from host {} to host {}",
            recording.server_host + 1,
            recording.client_host + 1
        ),
        issued: recording.issued,
        completed: recording.completed,
        subflows,
        paths: (0..subflows).map(|i| path(i).unwrap_or_default()).collect(),
        events,
        compare_with: None,
    }
}

/// Data offset of the flow's first byte on its connection.
fn first_offset(events: &[TraceEvent]) -> DataOffset {
    let offsets = events.iter().filter_map(|e| match e.kind {
        TraceKind::Sent {
            kind: SendKind::New,
            offset,
            ..
        } => Some(offset),
        _ => None,
    });
    offsets.min().unwrap_or_default()
}

fn event(at: Instant, subflow: SubflowId, kind: FlowEventKind, dsn: u64, len: u32) -> FlowEvent {
    FlowEvent {
        at,
        subflow: subflow.0,
        kind,
        dsn,
        len,
        note: String::new(),
    }
}

fn sender_event(e: &TraceEvent, start: DataOffset, oldest: &mut DataOffset) -> Option<FlowEvent> {
    let (kind, offset, len) = match e.kind {
        TraceKind::Sent {
            kind,
            offset,
            len,
            copy_of,
            parity,
            ..
        } => {
            let what = match kind {
                _ if parity.is_some() => return parity_event(e, parity?, kind, offset, start),
                SendKind::New => FlowEventKind::New,
                SendKind::Retransmission => FlowEventKind::Retransmission,
                SendKind::Probe => FlowEventKind::Probe,
                _ => FlowEventKind::Recovery {
                    copy_of_subflow: copy_of.unwrap_or(e.subflow).0,
                },
            };
            (what, offset, len)
        }
        TraceKind::Acked { data, .. } => {
            *oldest = (*oldest).max(data);
            (FlowEventKind::AckedData, data, 0)
        }
        TraceKind::Timeout => (FlowEventKind::Rto, *oldest, 0),
        TraceKind::FastRetransmit => (FlowEventKind::FastRetransmit, *oldest, 0),
        TraceKind::Window { cwnd, in_flight } => {
            let kind = FlowEventKind::Window { cwnd, in_flight };
            return Some(event(e.at, e.subflow, kind, 0, 0));
        }
        TraceKind::Arrived { .. } | TraceKind::ParityArrived { .. } | TraceKind::Decoded { .. } => {
            return None;
        }
    };
    (offset >= start).then(|| event(e.at, e.subflow, kind, offset - start, len))
}

/// A parity that was sent, if it covers the flow's data.
fn parity_event(
    e: &TraceEvent,
    coded: Coded,
    kind: SendKind,
    offset: DataOffset,
    start: DataOffset,
) -> Option<FlowEvent> {
    let kind = FlowEventKind::Parity {
        of_subflow: coded.of.0,
        packets: coded.packets,
        again: matches!(kind, SendKind::Retransmission | SendKind::Probe),
    };
    let len = coded.end.saturating_since(offset) as u32;
    (offset >= start).then(|| event(e.at, e.subflow, kind, offset - start, len))
}

fn receiver_event(e: &TraceEvent, sent: &[Sent], start: DataOffset) -> Option<FlowEvent> {
    let (kind, offset, len) = match e.kind {
        TraceKind::Arrived { offset, len, .. } => (FlowEventKind::Arrived, offset, len),
        TraceKind::Decoded { offset, len, .. } => (FlowEventKind::Decoded, offset, len),
        TraceKind::ParityArrived { position } => {
            let this = |x: &&Sent| x.parity && (x.subflow, x.position) == (e.subflow, position);
            let parity = sent.iter().find(this)?;
            (FlowEventKind::ParityArrived, parity.offset, parity.len)
        }
        _ => return None,
    };
    (offset >= start).then(|| event(e.at, e.subflow, kind, offset - start, len))
}

/// A segment that the server sent: its subflow, its place, and its data. For a parity, the data that it covers.
struct Sent {
    at: Instant,
    subflow: SubflowId,
    seq: SeqNumber,
    position: SubflowPosition,
    offset: DataOffset,
    len: u32,
    parity: bool,
}

fn subflow_of(recording: &Recording, src: &Endpoint, dst: &Endpoint) -> Option<SubflowId> {
    let is = |s: &&(SubflowId, Endpoint, Endpoint)| s.1 == *src && s.2 == *dst;
    recording.subflows.iter().find(is).map(|(id, ..)| *id)
}

/// Matches the sender's record with the segments that were sent, in order on each subflow.
fn sent(recording: &Recording, seen: &[Seen]) -> Vec<Sent> {
    let mut left: Vec<(SubflowId, Instant, SeqNumber)> = seen
        .iter()
        .filter(|s| s.dropped_by.is_none() && s.at >= recording.issued)
        .filter_map(|s| Some((subflow_of(recording, &s.src, &s.dst)?, s.at, s.seq)))
        .collect();
    let mut list = Vec::new();
    for e in &recording.sender {
        let TraceKind::Sent {
            offset,
            position,
            len,
            parity,
            ..
        } = e.kind
        else {
            continue;
        };
        let next = left
            .iter()
            .position(|(id, at, _)| *id == e.subflow && *at == e.at);
        if let Some(i) = next {
            let (subflow, at, seq) = left.remove(i);
            list.push(Sent {
                at,
                subflow,
                seq,
                position,
                offset,
                len: parity.map_or(len, |c| c.end.saturating_since(offset) as u32),
                parity: parity.is_some(),
            });
        }
    }
    list
}

fn losses(
    recording: &Recording,
    seen: &[Seen],
    sent: &[Sent],
    start: DataOffset,
) -> Vec<FlowEvent> {
    let mut list = Vec::new();
    for s in seen {
        let (Some(link), Some(id)) = (&s.dropped_by, subflow_of(recording, &s.src, &s.dst)) else {
            continue;
        };
        let before = |x: &&Sent| x.subflow == id && x.seq == s.seq && x.at <= s.at;
        if let Some(x) = sent.iter().rev().find(before)
            && x.offset >= start
        {
            let link = cable_name(link).to_owned();
            let kind = match x.parity {
                true => FlowEventKind::ParityLost { link },
                false => FlowEventKind::Lost { link },
            };
            list.push(event(s.at, id, kind, x.offset - start, x.len));
        }
    }
    list
}
