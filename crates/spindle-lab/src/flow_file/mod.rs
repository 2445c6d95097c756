//! Reference flow files: one-way transfers over a fat tree on prescribed paths. Other simulators ran them too,
//! so speed and completion times can be compared.

mod parse;

pub use parse::{BulkFlow, FlowsError, check_fat_tree, parse};

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant as WallInstant;

use serde::Serialize;
use spindle_experiment::hosts::endpoint;
use spindle_experiment::metrics::show_us;
use spindle_experiment::results::peak_rss_bytes;
use spindle_experiment::rng::Streams;
use spindle_experiment::stats::nearest_rank;
use spindle_fabric::topology::FatTree;
use spindle_fabric::{Address, Simulation};
use spindle_mptcp::{Config, EcnMode, Event, Handle, InitialWindow, StackConfig, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::Payload;

use crate::driver::RunError;
use crate::driver::packet::BoxedPacket;
use crate::driver::world::{Wire, World, WorldEvent};

/// Payload bytes of a full packet: 1500 B with bare headers.
const MSS: u32 = 1460;
/// Port of the first flow's receiver. The ports of other flows follow.
const FIRST_PORT: u16 = 1024;
/// A flow that takes this long lost its SYN and waited 3 s for the next (README of the reference flows).
const LOST_SYN_US: f64 = 900_000.0;

/// Completion times and speed of a flow file.
#[derive(Clone, Debug, Serialize)]
pub struct FlowsReport {
    /// Ports of a switch.
    pub k: u32,
    /// Whether selective acknowledgements were used.
    pub sack: bool,
    /// Flows in the file.
    pub flows: u64,
    /// Flows whose last byte arrived.
    pub completed: u64,
    /// Completion times of all completed flows.
    pub fct_us: FctQuantiles,
    /// Completion times of flows below 900 ms. Flows that lost their SYN are left out.
    pub fct_us_without_lost_syn: FctQuantiles,
    /// Speed.
    pub engine: EngineSpeed,
    /// Runs with shifted starts, if any were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// Mean and nearest-rank percentiles, microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FctQuantiles {
    /// The number of flows.
    pub flows: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

/// The speed of the simulation.
#[derive(Clone, Debug, Serialize)]
pub struct EngineSpeed {
    /// Events executed.
    pub events: u64,
    /// Packets that finished a link.
    pub packet_hops: u64,
    /// Real time of the run without set-up, seconds.
    pub wall_s: f64,
    /// Real time of the set-up, seconds.
    pub setup_s: f64,
    /// Processor time of the run without set-up, seconds. 0 if the system does not report it. Unlike real time,
    /// it does not include the time of other programs.
    pub cpu_s: f64,
    /// Packet-hops per second of real time.
    pub packet_hops_per_s: f64,
    /// Real time of the calibration loop on this machine in this run, seconds. Figures of other machines can be
    /// scaled with it.
    pub calibration_s: f64,
    /// Virtual time, seconds.
    pub sim_s: f64,
    /// Largest resident memory, bytes.
    pub peak_rss_bytes: u64,
}

/// Sends segments on their flow's path. Acknowledgements are 40 B long.
struct Prescribed {
    /// Forward and reverse path of each flow, by its number in the list.
    paths: Vec<(u32, u32)>,
}

impl Wire for Prescribed {
    fn send(
        &mut self,
        simulation: &mut Simulation<BoxedPacket>,
        from: Address,
        to: Address,
        mut boxed: BoxedPacket,
    ) {
        let packet = &boxed.0.packet;
        let (source, destination) = (packet.src().port, packet.dst().port);
        let forward = source < FIRST_PORT;
        let high = if forward { source } else { destination };
        let low = if forward { destination } else { source };
        let flow = flow_of(high, low);
        let (ahead, back) = self.paths.get(flow as usize).copied().unwrap_or_default();
        let path = if forward { ahead } else { back };
        boxed.0.weigh_without_options();
        simulation.inject_on_path(from, to, boxed, path);
    }
}

/// Flows per sender port. The receiver's port numbers these flows, and the sender's port numbers the groups.
const PER_PORT: u32 = 60_000;

/// The flow that a pair of sender's and receiver's ports identifies.
fn flow_of(sender: u16, receiver: u16) -> u32 {
    u32::from(sender - 1) * PER_PORT + u32::from(receiver - FIRST_PORT)
}

/// A flow's sender and receiver ports.
fn ports_of(flow: u32) -> (u16, u16) {
    (
        (flow / PER_PORT) as u16 + 1,
        (flow % PER_PORT) as u16 + FIRST_PORT,
    )
}

/// The largest number of flows in a file: as many as the ports can distinguish.
const MAX_FLOWS: usize = PER_PORT as usize * (FIRST_PORT as usize - 2);

#[derive(Clone, Copy, Default)]
struct Transfer {
    left: u64,
    expected: u64,
    received: u64,
    done: Option<Instant>,
}

struct Run<'a> {
    world: World<Prescribed>,
    list: &'a [BulkFlow],
    /// Flows by start time, with the next one at the end.
    waiting: Vec<u32>,
    transfers: Vec<Transfer>,
    /// The flow of each of a host's connections, by handle index.
    sending: Vec<Vec<Option<u32>>>,
    receiving: Vec<Vec<Option<u32>>>,
    config: Arc<Config>,
    open: usize,
}

/// The reference flows' window cap in segments.
const WINDOW_CAP: u32 = 256;

/// TCP as the reference flows prescribe it: initial window 10, window cap 256 packets, one acknowledgement per
/// packet, minimum RTO 10 ms, initial RTO 3 s, and no newer mechanism.
fn config(sack: bool) -> Config {
    let mut config = preset("newreno").map(|p| p.config).unwrap_or_default();
    let tcp = &mut config.tcp;
    tcp.mss = MSS;
    tcp.sack = sack;
    tcp.initial_window = InitialWindow::PerSubflow(10);
    tcp.max_window.congestion = Some(WINDOW_CAP);
    // The receiver's window has the same cap, so that SACK recovery does not exceed it.
    tcp.receive_buffer = (WINDOW_CAP * MSS) as usize;
    tcp.min_rto = Duration::from_millis(10);
    tcp.initial_rto = Duration::from_secs(3);
    tcp.timestamps = false;
    tcp.ecn = EcnMode::Off;
    tcp.delayed_ack = None;
    config.loss.limited_transmit = false;
    config.loss.early_retransmit = false;
    config.loss.rack = false;
    config.loss.tail_loss_probe = None;
    config.loss.frto = false;
    config.loss.dsack_undo = false;
    config.loss.prr = false;
    config
}

/// The effect of chance on a flow list. A single run is chaotic once queues overflow.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spread {
    /// The number of runs.
    pub runs: u64,
    /// Mean of the runs' medians without flows that lost a SYN, microseconds.
    pub p50: f64,
    /// Smallest and largest of the runs' medians.
    pub p50_range: (f64, f64),
    /// Mean of the runs' means.
    pub mean: f64,
    /// Smallest and largest of the runs' means.
    pub mean_range: (f64, f64),
    /// Mean of the runs' 99th percentiles.
    pub p99: f64,
    /// Smallest and largest of the runs' 99th percentiles.
    pub p99_range: (f64, f64),
}

/// Runs the list `shifts` times, each flow's start shifted by less than a microsecond.
///
/// # Errors
/// Like [`run`].
pub fn spread(list: &[BulkFlow], k: u32, sack: bool, shifts: u64) -> Result<Spread, RunError> {
    let (mut p50, mut mean, mut p99) = (Vec::new(), Vec::new(), Vec::new());
    for shift in 1..=shifts {
        let mut shifted = list.to_vec();
        for f in &mut shifted {
            f.start += Duration::from_nanos(spindle_fabric::mix(f.id << 20 | shift) % 1000);
        }
        let q = run(&shifted, k, sack)?.fct_us_without_lost_syn;
        p50.push(q.p50);
        mean.push(q.mean);
        p99.push(q.p99);
    }
    let average = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
    let range = |v: &[f64]| {
        let low = v.iter().copied().fold(f64::INFINITY, f64::min);
        (low, v.iter().copied().fold(0.0, f64::max))
    };
    Ok(Spread {
        runs: shifts,
        p50: average(&p50),
        p50_range: range(&p50),
        mean: average(&mean),
        mean_range: range(&mean),
        p99: average(&p99),
        p99_range: range(&p99),
    })
}

/// Describes the spread in words.
pub fn spread_table(s: &Spread) -> String {
    let show = |name: &str, mean: f64, (low, high): (f64, f64)| {
        let (low, high) = (show_us(low), show_us(high));
        format!("{name} {} ({low} to {high})", show_us(mean))
    };
    format!(
        "over {} runs with shifted starts: {}, {}, {}\n",
        s.runs,
        show("mean", s.mean, s.mean_range),
        show("p50", s.p50, s.p50_range),
        show("p99", s.p99, s.p99_range)
    )
}

/// Runs a flow list over the reference fat tree.
///
/// # Errors
/// If the network cannot be built or the list is too long.
pub fn run(list: &[BulkFlow], k: u32, sack: bool) -> Result<FlowsReport, RunError> {
    let set_up = WallInstant::now();
    if list.len() > MAX_FLOWS {
        let text = format!("found {} flows, want {MAX_FLOWS} or fewer", list.len());
        return Err(RunError::Scenario(text));
    }
    let network = FatTree::reference(k).build()?;
    let hosts = network.hosts() as usize;
    let paths = list
        .iter()
        .map(|f| (f.forward_path, f.reverse_path))
        .collect();
    let mut waiting: Vec<u32> = (0..list.len() as u32).collect();
    waiting.sort_by_key(|f| std::cmp::Reverse((list[*f as usize].start, *f)));
    let transfers = list.iter().map(|f| {
        let bytes = f.packets * u64::from(MSS);
        Transfer {
            left: bytes,
            expected: bytes,
            ..Transfer::default()
        }
    });
    let mut run = Run {
        world: World::new(
            network,
            &Streams::new(1, 0),
            Prescribed { paths },
            &StackConfig::default(),
        ),
        list,
        waiting,
        transfers: transfers.collect(),
        sending: vec![Vec::new(); hosts],
        receiving: vec![Vec::new(); hosts],
        config: Arc::new(config(sack)),
        open: list.len(),
    };
    let setup_s = set_up.elapsed().as_secs_f64();
    let (started, before) = (WallInstant::now(), processor_seconds());
    run.go();
    let taken = Taken {
        setup_s,
        wall_s: started.elapsed().as_secs_f64(),
        cpu_s: processor_seconds() - before,
    };
    Ok(run.report(k, sack, taken))
}

/// The times that a run took, seconds.
struct Taken {
    setup_s: f64,
    wall_s: f64,
    cpu_s: f64,
}

/// Processor time of this thread so far. 0 if the system does not report it.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    nanos.unwrap_or(0.0) / 1e9
}

/// Records the flow of a connection, by the handle's index.
fn note(table: &mut Vec<Option<u32>>, handle: Handle, flow: u32) {
    if table.len() <= handle.index() {
        table.resize(handle.index() + 1, None);
    }
    table[handle.index()] = Some(flow);
}

impl Run<'_> {
    fn go(&mut self) {
        self.arm_next(Instant::ZERO);
        while self.open > 0 {
            let Some((now, happened)) = self.world.next(|_, _, _| {}, |_, _| {}) else {
                return;
            };
            match happened {
                WorldEvent::Host(host) => self.pump(now, host),
                WorldEvent::Alarm => self.start_due(now),
                WorldEvent::Dropped(..) => {}
            }
        }
    }

    fn arm_next(&mut self, now: Instant) {
        let next = self
            .waiting
            .last()
            .map(|f| Instant::ZERO + self.list[*f as usize].start);
        self.world.arm_alarm(now, next);
    }

    fn start_due(&mut self, now: Instant) {
        while let Some(&flow) = self.waiting.last() {
            let bulk = self.list[flow as usize];
            if Instant::ZERO + bulk.start > now {
                break;
            }
            self.waiting.pop();
            self.start(now, flow, bulk);
        }
        self.arm_next(now);
    }

    fn start(&mut self, now: Instant, flow: u32, bulk: BulkFlow) {
        let (sender, receiver) = ports_of(flow);
        let (local, remote) = (endpoint(bulk.src, sender), endpoint(bulk.dst, receiver));
        let config = self.config.clone();
        // No other flow uses these ports, so neither call can be refused.
        let _ = self.world.stacks[bulk.dst as usize].listen(remote, config.clone());
        let stack = &mut self.world.stacks[bulk.src as usize];
        if let Ok(handle) = stack.connect(now, local, remote, config) {
            note(&mut self.sending[bulk.src as usize], handle, flow);
            self.push(now, bulk.src, handle);
            self.pump(now, bulk.src);
        }
    }

    /// Gives the sender's stack as much data as it accepts.
    fn push(&mut self, now: Instant, host: u32, handle: Handle) {
        let Some(flow) = flow_at(&self.sending, host, handle) else {
            return;
        };
        let transfer = &mut self.transfers[flow as usize];
        while transfer.left > 0 {
            let piece = Payload::Length(transfer.left.min(1 << 20) as u32);
            match self.world.stacks[host as usize].send(now, handle, piece) {
                Ok(0) | Err(_) => return,
                Ok(n) => transfer.left -= n as u64,
            }
        }
    }

    fn pump(&mut self, now: Instant, host: u32) {
        loop {
            self.world.transmit(now, host, |_| true);
            let Some(event) = self.world.stacks[host as usize].poll_event() else {
                break;
            };
            match event {
                Event::Accepted { handle, .. } => self.accepted(host, handle),
                Event::Readable { handle } => self.read(now, host, handle),
                Event::Writable { handle } => self.push(now, host, handle),
                _ => {}
            }
        }
        self.world.arm(now, host);
    }

    fn accepted(&mut self, host: u32, handle: Handle) {
        let info = self.world.stacks[host as usize].info(handle);
        if let Some(s) = info.and_then(|i| i.subflows.first().cloned()) {
            let flow = flow_of(s.remote.port, s.local.port);
            note(&mut self.receiving[host as usize], handle, flow);
        }
    }

    fn read(&mut self, now: Instant, host: u32, handle: Handle) {
        let Some(flow) = flow_at(&self.receiving, host, handle) else {
            return;
        };
        let transfer = &mut self.transfers[flow as usize];
        let stack = &mut self.world.stacks[host as usize];
        while let Ok(Some(piece)) = stack.recv(now, handle, usize::MAX) {
            transfer.received += piece.len() as u64;
        }
        if transfer.done.is_none() && transfer.received >= transfer.expected {
            transfer.done = Some(now);
            self.open -= 1;
        }
    }

    fn report(&self, k: u32, sack: bool, taken: Taken) -> FlowsReport {
        let mut fct: Vec<f64> = self
            .transfers
            .iter()
            .zip(self.list)
            .filter_map(|(t, f)| {
                Some(t.done?.since(Instant::ZERO + f.start).as_nanos() as f64 / 1e3)
            })
            .collect();
        fct.sort_by(f64::total_cmp);
        let heard = &fct[..fct.partition_point(|t| *t < LOST_SYN_US)];
        let simulation = &self.world.simulation;
        FlowsReport {
            k,
            sack,
            flows: self.list.len() as u64,
            completed: fct.len() as u64,
            fct_us: quantiles(&fct),
            fct_us_without_lost_syn: quantiles(heard),
            engine: EngineSpeed {
                events: simulation.events(),
                packet_hops: simulation.packet_hops(),
                wall_s: taken.wall_s,
                setup_s: taken.setup_s,
                cpu_s: taken.cpu_s,
                packet_hops_per_s: simulation.packet_hops() as f64 / taken.wall_s.max(1e-9),
                calibration_s: calibrate(),
                sim_s: simulation.now().as_secs_f64(),
                peak_rss_bytes: peak_rss_bytes(),
            },
            spread: None,
        }
    }
}

/// Steps of the calibration loop.
const CALIBRATION_STEPS: u64 = 1 << 26;

/// Measures the time of a fixed loop of dependent 64-bit multiplications and shifts. It depends only on the
/// processor.
fn calibrate() -> f64 {
    let start = WallInstant::now();
    let mut x = 1u64;
    for k in 0..CALIBRATION_STEPS {
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ k;
    }
    std::hint::black_box(x);
    start.elapsed().as_secs_f64()
}

fn flow_at(table: &[Vec<Option<u32>>], host: u32, handle: Handle) -> Option<u32> {
    *table[host as usize].get(handle.index())?
}

fn quantiles(sorted: &[f64]) -> FctQuantiles {
    if sorted.is_empty() {
        return FctQuantiles::default();
    }
    FctQuantiles {
        flows: sorted.len() as u64,
        mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        p50: nearest_rank(sorted, 0.5),
        p90: nearest_rank(sorted, 0.9),
        p99: nearest_rank(sorted, 0.99),
        max: nearest_rank(sorted, 1.0),
    }
}

/// Formats the report for people.
pub fn table(report: &FlowsReport) -> String {
    let mut text = String::new();
    let mut line = |name: &str, q: &FctQuantiles| {
        let _ = writeln!(
            text,
            "{name:22} {:>6} flows  mean {:>10}  p50 {:>10}  p90 {:>10}  p99 {:>10}",
            q.flows,
            show_us(q.mean),
            show_us(q.p50),
            show_us(q.p90),
            show_us(q.p99)
        );
    };
    line("all", &report.fct_us);
    if report.fct_us_without_lost_syn.flows < report.fct_us.flows {
        line("without lost SYN", &report.fct_us_without_lost_syn);
    }
    let e = &report.engine;
    let _ = writeln!(
        text,
        "{:.2} M packet-hops in {:.2} s ({:.2} M/s), set-up {:.3} s, {:.0} MB",
        e.packet_hops as f64 / 1e6,
        e.wall_s,
        e.packet_hops_per_s / 1e6,
        e.setup_s,
        e.peak_rss_bytes as f64 / 1e6
    );
    let _ = writeln!(
        text,
        "calibration: {CALIBRATION_STEPS} steps in {:.3} s",
        e.calibration_s
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_identify_flows() {
        for flow in [0, 1, PER_PORT - 1, PER_PORT, MAX_FLOWS as u32 - 1] {
            let (sender, receiver) = ports_of(flow);
            assert!(sender < FIRST_PORT && receiver >= FIRST_PORT);
            assert_eq!(flow_of(sender, receiver), flow);
        }
    }
}
