//! The virtual-time driver: one protocol stack per host over the simulated fabric.

mod app;
mod builder;
mod conn;
mod draw;
mod ids;
mod observing;
pub(crate) mod packet;
mod paths;
mod ports;
mod units;
pub(crate) mod world;

pub(crate) use app::Recording;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use spindle_experiment::hosts::host_of;
use spindle_experiment::metrics::RunResult;
use spindle_experiment::registry::Registry;
use spindle_experiment::traffic::{PlanError, PlannedFlow};
use spindle_experiment::{Scenario, TransportName};
use spindle_fabric::NetworkError;
use spindle_units::Instant;
use spindle_wire::{Endpoint, Packet, SeqNumber};

use crate::pcap::{PcapError, PcapWriter};
use app::{App, FlowState};
use builder::RunBuilder;
use draw::Drawn;
use observing::Observing;
use packet::SimPacket;
use world::{Balanced, World, WorldEvent};

/// Why a run is not possible.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The transport does not exist.
    #[error("{0}")]
    Transport(String),
    /// The point is a formula.
    #[error("traffic: found a formula, where nothing is sent; want requests, incast or transfers")]
    Formula,
    /// The balancer does not exist.
    #[error("found balancer \"{found}\", want one of {accepted}")]
    Balancer {
        /// The name.
        found: String,
        /// The names that exist.
        accepted: String,
    },
    /// The network is impossible.
    #[error("topology: {0}")]
    Network(#[from] NetworkError),
    /// The traffic does not fit the network.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The scenario contains an invalid setting.
    #[error("{0}")]
    Scenario(String),
    /// The capture cannot be written.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// The caller no longer needs the run.
    #[error("stopped")]
    Stopped,
}

/// One run: a scenario, a transport and a seed.
#[derive(Clone, Debug)]
pub struct RunRequest<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The transport.
    pub transport: &'a TransportName,
    /// The registry in which its names are looked up.
    pub registry: &'a Registry,
    /// The seed.
    pub seed: u64,
    /// The part of the seed's flows, from 0.
    pub part: u64,
    /// Number of parts of the seed's flows.
    pub parts: u64,
    /// Content of the responses. If `None`, responses have lengths only.
    pub payload: Option<Bytes>,
    /// Path of the capture, if one is requested.
    pub pcap: Option<PathBuf>,
    /// The flow to record, by its number within the part. The run stops when the flow is complete.
    pub record: Option<u32>,
    /// Whether to count lost data segments per flow, [`FlowOutcome::losses`].
    pub count_losses: bool,
    /// When this becomes true, the run ends early with [`RunError::Stopped`].
    pub stop: Option<Arc<AtomicBool>>,
}

impl<'a> RunRequest<'a> {
    /// All flows of seed 1 in one part, lengths only.
    pub fn new(
        scenario: &'a Scenario,
        transport: &'a TransportName,
        registry: &'a Registry,
    ) -> Self {
        Self {
            scenario,
            transport,
            registry,
            seed: 1,
            part: 0,
            parts: 1,
            payload: None,
            pcap: None,
            record: None,
            count_losses: false,
            stop: None,
        }
    }
}

/// The outcome of one flow of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowOutcome {
    /// Bytes of the response or of the transfer.
    pub bytes: u64,
    /// Whether it is background traffic.
    pub background: bool,
    /// Data segments dropped on the path to the client while the flow was in progress, if they are counted.
    /// Segments of the client's other flows at that time are included.
    pub losses: u64,
    /// Completion time in nanoseconds. `None` if the flow did not complete.
    pub fct_ns: Option<u64>,
    /// Timeouts while the flow was in progress.
    pub timeouts: u64,
    /// Proactive recovery segments while the flow was in progress.
    pub recoveries: u64,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutput {
    /// The measurements.
    pub result: RunResult,
    /// Each flow in the order of the plan.
    pub flows: Vec<FlowOutcome>,
    /// The recorded flow, if a flow was to be recorded and it completed.
    pub(crate) recording: Option<(Recording, Vec<Seen>)>,
}

impl RunOutput {
    /// The numbers of the flows that are not background. Flows that did not complete come first, then the
    /// slowest.
    pub fn slowest(&self) -> Vec<usize> {
        let flows = &self.flows;
        let mut order: Vec<usize> = (0..flows.len()).filter(|i| !flows[*i].background).collect();
        let time = |i: usize| flows[i].fct_ns.unwrap_or(u64::MAX);
        order.sort_by_key(|i| (Reverse(time(*i)), *i));
        order
    }
}

/// A data packet that was sent, or dropped by the network, while a flow was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// The link that dropped it. `None` if this is its transmission.
    pub(crate) dropped_by: Option<String>,
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
    /// The sequence number of the segment, or that of the first segment of an encoded packet's unit.
    pub(crate) seq: SeqNumber,
    /// The hash by which switches choose a link.
    pub(crate) flow_hash: u64,
}

impl Seen {
    /// `None` if the packet has no data with a known sequence number.
    fn new(at: Instant, dropped_by: Option<String>, packet: &Packet) -> Option<Self> {
        let seq = packet
            .first_seq()
            .filter(|_| !packet.payload().is_empty())?;
        Some(Self {
            at,
            dropped_by,
            src: packet.src(),
            dst: packet.dst(),
            seq,
            flow_hash: packet.flow_hash(),
        })
    }
}

/// Virtual time after which a run ends in any case. It is far beyond any traffic, so only flows that hang reach
/// it.
const TIME_LIMIT: Instant = Instant::from_nanos(48 * 3600 * 1_000_000_000);

/// Executes one run.
///
/// # Errors
/// See [`RunError`].
pub fn run(request: &RunRequest<'_>) -> Result<RunOutput, RunError> {
    let mut run = RunBuilder::new(request)?.build()?;
    match run.go(request.stop.as_deref()) {
        true => run.finish(),
        false => Err(RunError::Stopped),
    }
}

/// The link name of a packet that a script has lost.
const SCRIPTED: &str = "script";

struct Run {
    world: World<Balanced>,
    app: App,
    /// Losses that begin with the measurement.
    drawn: Drawn,
    capture: Option<PcapWriter<std::io::BufWriter<std::fs::File>>>,
    failed: Option<PcapError>,
    recording: bool,
    /// Whether a balancer other than ECMP chooses the links.
    per_packet: bool,
    seen: Vec<Seen>,
    observing: Observing,
}

impl Run {
    /// Executes the run to its end. Returns `false` if it was stopped before.
    fn go(&mut self, stop: Option<&AtomicBool>) -> bool {
        self.app.start(Instant::ZERO, &mut self.world.stacks);
        self.run_hosts(Instant::ZERO);
        while !self.app.finished && self.failed.is_none() {
            let app = &self.app;
            let coming = |host, handle, step| app.prefetch(host, handle, step);
            let observing = &mut self.observing;
            let arriving = |now, packet: &Packet| observing.arrives(now, packet);
            let Some((now, happened)) = self.world.next(coming, arriving) else {
                return true;
            };
            match happened {
                WorldEvent::Host(host) => self.app.dirty.push(host),
                WorldEvent::Alarm => {
                    self.app.due(now, &mut self.world.stacks);
                    if self.app.is_measuring() {
                        // The losses begin before the first request is sent.
                        for (link, loss) in self.drawn.links.drain(..) {
                            self.world.simulation.set_loss(link, &loss);
                        }
                    }
                    if self.app.is_counting() {
                        self.observing.begin(now, &self.app, &mut self.world);
                    }
                }
                WorldEvent::Dropped(link, packet) => {
                    let link = || self.world.simulation.network().link_name(link);
                    let link = self.recording.then(link);
                    self.dropped(now, link, &packet.0);
                }
            }
            self.run_hosts(now);
            if now >= TIME_LIMIT {
                return true;
            }
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return false;
            }
        }
        true
    }

    /// Handles a dropped packet, and reports the drop to its sender. The link's name is for the recording.
    fn dropped(&mut self, now: Instant, link: Option<String>, packet: &SimPacket) {
        self.observing.dropped(&packet.packet);
        if link.is_some() {
            self.seen.extend(Seen::new(now, link, &packet.packet));
        }
        let Some((host, repair)) = self.world.notify_drop(now, packet) else {
            return;
        };
        if self.recording {
            self.seen.extend(Seen::new(now, None, &repair));
        }
        if let Some(writer) = &mut self.capture
            && let Err(e) = writer.write(now, &repair)
        {
            self.failed = Some(e);
        }
        self.app.dirty.push(host);
    }

    /// Runs the hosts until no host has a packet to send or an event to report.
    fn run_hosts(&mut self, now: Instant) {
        while let Some(host) = self.app.dirty.pop() {
            let (capture, failed) = (&mut self.capture, &mut self.failed);
            let (recording, seen) = (self.recording, &mut self.seen);
            let observing = &mut self.observing;
            let script = &mut self.app.script;
            let mut lost = Vec::new();
            self.world.transmit(now, host, |packet| {
                if recording {
                    seen.extend(Seen::new(now, None, packet));
                }
                if let Some(writer) = capture
                    && let Err(e) = writer.write(now, packet)
                {
                    *failed = Some(e);
                }
                observing.sent(now, packet);
                let is_lost = script.loses(packet);
                if is_lost {
                    lost.push(SimPacket::new(packet.clone()));
                }
                !is_lost
            });
            observing.has_sent(&self.world.stacks[host as usize]);
            for packet in lost {
                let link = self.recording.then(|| SCRIPTED.to_owned());
                self.dropped(now, link, &packet);
            }
            while let Some(event) = self.world.stacks[host as usize].poll_event() {
                self.app.event(now, host, event, &mut self.world.stacks);
            }
            if !self.app.dirty.contains(&host) {
                self.world.arm(now, host);
                self.app.host_is_idle(now, host, &self.world.stacks);
            }
        }
        self.world.arm_alarm(now, self.app.next_wake());
    }

    fn finish(self) -> Result<RunOutput, RunError> {
        if let Some(e) = self.failed {
            return Err(e.into());
        }
        if let Some(writer) = self.capture {
            writer.finish()?;
        }
        let mut result = self.app.result(&self.world.stacks);
        let simulation = &self.world.simulation;
        result.events = simulation.events();
        result.packet_hops = simulation.packet_hops();
        result.sim_ns = simulation.now().as_nanos();
        result.lossy = self.drawn.cables;
        self.observing.finish(&self.app, &self.world, &mut result);
        let lost: Vec<(Instant, Option<u32>)> = self
            .seen
            .iter()
            .filter(|s| s.dropped_by.is_some())
            .map(|s| (s.at, host_of(&s.dst)))
            .collect();
        let flows = self
            .app
            .flows()
            .map(|(f, planned)| outcome(f, planned, &lost))
            .collect();
        let mut recording = self.app.recording.map(|r| (r, self.seen));
        if let Some((recording, seen)) = &mut recording {
            let sent = recording.sent(seen);
            recording.paths = paths::names(&self.world.simulation, &sent, self.per_packet);
        }
        Ok(RunOutput {
            result,
            flows,
            recording,
        })
    }
}

impl Recording {
    /// What each subflow sent in the direction of the data.
    fn sent(&self, seen: &[Seen]) -> Vec<paths::Sent> {
        let of = |from: Endpoint, to: Endpoint| {
            let own = move |s: &&Seen| s.src == from && s.dst == to && s.at >= self.issued;
            seen.iter().filter(own)
        };
        let sent = |server: Endpoint, client: Endpoint| {
            let pushed = of(server, client).count() < of(client, server).count();
            let (from, to) = if pushed {
                (client, server)
            } else {
                (server, client)
            };
            let first = of(from, to).next().map(|s| s.flow_hash);
            let hash = first.filter(|hash| of(from, to).all(|s| s.flow_hash == *hash));
            paths::Sent { from, to, hash }
        };
        let subflows = self.subflows.iter();
        subflows
            .map(|(_, server, client)| sent(*server, *client))
            .collect()
    }
}

/// The outcome of a flow. `lost` are the dropped data segments in order of time, with their destinations.
fn outcome(f: &FlowState, planned: &PlannedFlow, lost: &[(Instant, Option<u32>)]) -> FlowOutcome {
    let span = f.issued.zip(f.completed);
    let losses = span.map_or(0, |(from, to)| {
        let start = lost.partition_point(|(at, _)| *at < from);
        let during = lost[start..].iter().take_while(|(at, _)| *at <= to);
        during
            .filter(|(_, host)| *host == Some(planned.client))
            .count()
    });
    FlowOutcome {
        bytes: planned.bytes,
        background: planned.is_background(),
        losses: losses as u64,
        fct_ns: span.map(|(from, to)| to.since(from).as_nanos()),
        timeouts: f.timeouts,
        recoveries: f.recoveries,
    }
}

/// The name of a link in a traced drop, without the direction.
pub(crate) fn cable_name(link: &str) -> &str {
    link.strip_suffix(".up")
        .or_else(|| link.strip_suffix(".down"))
        .unwrap_or(link)
}
