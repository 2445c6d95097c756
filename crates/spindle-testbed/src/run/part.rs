//! One run in real time: it creates the hosts and the fabric, carries out a part of a seed's flows, and removes
//! everything again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration as StdDuration;

use serde::{Deserialize, Serialize};
use spindle_experiment::metrics::{BackgroundFlows, RunResult};
use spindle_experiment::network::network_in_real_time;
use spindle_experiment::registry::Registry;
use spindle_experiment::rng::{Purpose, Streams};
use spindle_experiment::traffic::Plan;
use spindle_experiment::{Scenario, TransportName};
use spindle_fabric::{HostId, Network, Simulation};
use spindle_mptcp::SendCounters;
use spindle_mptcp::stage::coding::CodingCounters;

use crate::error::TestbedError;
use crate::hosts::build::{HostBuilder, HostRequest};
use crate::hosts::host::Host;
use crate::hosts::kernel;
use crate::model::fabric::{Fabric, FabricReport};
use crate::model::lateness::Lateness;
use crate::model::wakeup_monitor::WakeupMonitor;
use crate::workload::{Count, LocalFuture, Work, WorkOutcome, work};

/// One part of a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartOutput {
    /// The measurements that the lab has as well.
    pub result: RunResult,
    /// The results that only real time has.
    pub real: RealTime,
}

/// The results that only real time has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RealTime {
    /// What the fabric did.
    pub fabric: FabricReport,
    /// How late a thread without real-time priority woke up. The hosts' threads have no real-time priority
    /// either.
    #[serde(default)]
    pub hosts: Lateness,
    /// What Spindle's hosts coded.
    #[serde(default)]
    pub coded: Coded,
}

/// What Spindle's hosts coded, both ends together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coded {
    /// Coding units sent.
    pub units: u64,
    /// Segments in the units sent.
    pub segments: u64,
    /// Encoded packets sent.
    pub packets: u64,
    /// Units decoded.
    pub decoded: u64,
    /// Packets and units that belong to no connection.
    pub refused: u64,
}

impl Coded {
    pub(crate) fn add(&mut self, o: &Self) {
        self.units += o.units;
        self.segments += o.segments;
        self.packets += o.packets;
        self.decoded += o.decoded;
        self.refused += o.refused;
    }
}

impl From<CodingCounters> for Coded {
    fn from(c: CodingCounters) -> Self {
        Self {
            units: c.units_sent,
            segments: c.packets_coded,
            packets: c.packets_encoded,
            decoded: c.units_decoded,
            refused: c.packets_refused + c.units_refused,
        }
    }
}

/// The part that will be run.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) transport: &'a TransportName,
    pub(crate) registry: &'a Registry,
    pub(crate) seed: u64,
    pub(crate) part: u64,
    pub(crate) parts: u64,
}

/// Hosts and the fabric between them.
pub(crate) struct World {
    pub(crate) fabric: Fabric,
    pub(crate) hosts: Vec<Host>,
    pub(crate) interfaces: Vec<u32>,
    pub(crate) plan: Plan,
    pub(crate) streams: Streams,
}

impl Part<'_> {
    /// Creates the hosts and the fabric.
    pub(crate) fn build(&self) -> Result<World, TestbedError> {
        let mut network = network_in_real_time(self.scenario)?;
        let count = |h| network.addresses_of(HostId(h)).count() as u32;
        let interfaces: Vec<u32> = (0..network.hosts()).map(count).collect();
        let streams = Streams::new(self.seed, self.part);
        let plan = self
            .scenario
            .plan(&names(&network), &streams, self.part, self.parts)?;
        let ends = self.transport.ends();
        let (server, client) = ends.map_err(|e| TestbedError::Transport(e.to_string()))?;
        let builder = HostBuilder {
            scenario: self.scenario,
            registry: self.registry,
        };
        let (mut hosts, mut attachments) = (Vec::new(), Vec::new());
        for host in 0..network.hosts() {
            let serves = plan.flows.iter().any(|f| f.server == host);
            let (end, peer) = if serves {
                (server, client)
            } else {
                (client, server)
            };
            let (host, attachment) = builder.build(&HostRequest {
                host,
                end,
                peer,
                network: &network,
                interfaces: &interfaces,
                plan: &plan,
            })?;
            hosts.push(host);
            attachments.push(attachment);
        }
        let balancer = self.transport.balancer.as_deref();
        let balancer = balancer.unwrap_or(&self.scenario.balancer);
        let balancing = self.registry.equip(balancer, &mut network)?;
        let mut simulation = Simulation::new(network, streams.value(Purpose::Salts, 0));
        if let Some(balancing) = balancing {
            simulation.balance(&balancing);
        }
        Ok(World {
            fabric: Fabric::start(simulation, attachments)?,
            hosts,
            interfaces,
            plan,
            streams,
        })
    }

    /// Carries out the part.
    pub(crate) fn run(&self) -> Result<PartOutput, TestbedError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(TestbedError::system("start the hosts' runtime"))?;
        let local = tokio::task::LocalSet::new();
        let guard = runtime.enter();
        let world = self.build()?;
        let carried_out = local.block_on(&runtime, self.carry_out(world));
        drop(guard);
        carried_out
    }

    async fn carry_out(&self, world: World) -> Result<PartOutput, TestbedError> {
        let World {
            fabric,
            hosts,
            interfaces,
            plan,
            streams,
        } = world;
        let patience = StdDuration::from_nanos(self.scenario.host.user_timeout.as_nanos());
        let todo = Work {
            plan,
            streams,
            hosts,
            interfaces,
            patience,
        };
        let base = Rc::new(Cell::new(Totals::default()));
        let noted = base.clone();
        let timeouts: Count = Box::new(timeouts);
        let wakeup_monitor = WakeupMonitor::start();
        let worked = work(todo, timeouts, async move |hosts: &[Host]| {
            noted.set(totals(hosts).await);
        })
        .await
        .map_err(TestbedError::system("carry out the traffic"))?;
        let hosts = wakeup_monitor.finish();
        let after = totals(&worked.hosts).await;
        for network in worked.hosts.iter().filter_map(Host::network) {
            network.shutdown().await;
        }
        let fabric = fabric.finish();
        let result = result(&worked, &after, &base.get(), &fabric);
        Ok(PartOutput {
            result,
            real: RealTime {
                fabric,
                hosts,
                coded: after.coded,
            },
        })
    }
}

/// The hosts' names, ordered by host number.
pub(crate) fn names(network: &Network) -> Vec<String> {
    let name = |h| network.node(network.host_node(HostId(h))).name.clone();
    (0..network.hosts()).map(name).collect()
}

/// Counters over all hosts.
#[derive(Clone, Copy, Default)]
struct Totals {
    spindle: SendCounters,
    kernel: kernel::Counters,
    coded: Coded,
}

async fn totals(hosts: &[Host]) -> Totals {
    let mut t = Totals::default();
    for c in hosts.iter().filter_map(Host::kernel_counters) {
        t.kernel.timeouts += c.timeouts;
        t.kernel.fast_retransmits += c.fast_retransmits;
        t.kernel.spurious += c.spurious;
    }
    for network in hosts.iter().filter_map(Host::network) {
        let Ok(c) = network.counters().await else {
            continue;
        };
        t.coded.add(&c.stack.coding.into());
        t.spindle.bytes += c.sent.bytes;
        t.spindle.bytes_recovery += c.sent.bytes_recovery;
        t.spindle.bytes_reinjected += c.sent.bytes_reinjected;
        t.spindle.timeouts += c.sent.timeouts;
        t.spindle.fast_retransmits += c.sent.fast_retransmits;
        t.spindle.spurious_retransmits += c.sent.spurious_retransmits;
    }
    t
}

/// The timeouts of all hosts so far.
fn timeouts(hosts: &[Host]) -> LocalFuture<u64> {
    let counters = hosts.iter().filter_map(Host::kernel_counters);
    let kernel: u64 = counters.map(|c| c.timeouts).sum();
    let networks: Vec<_> = hosts.iter().filter_map(Host::network).cloned().collect();
    Box::pin(async move {
        let mut sum = kernel;
        for network in networks {
            sum += network.counters().await.map_or(0, |c| c.sent.timeouts);
        }
        sum
    })
}

fn result(worked: &WorkOutcome, after: &Totals, base: &Totals, fabric: &FabricReport) -> RunResult {
    let groups = worked
        .plan
        .flows
        .iter()
        .map(|f| f.group as usize + 1)
        .max()
        .unwrap_or(0);
    let counted = |background| {
        let flows = worked.plan.flows.iter();
        flows.filter(move |f| f.counted && f.is_background() == background)
    };
    let (s, s0, k, k0) = (&after.spindle, &base.spindle, &after.kernel, &base.kernel);
    let mut r = RunResult {
        flows: match worked.plan.push {
            true => counted(false).count() as u64,
            false => groups as u64,
        },
        background: BackgroundFlows {
            flows: counted(true).count() as u64,
            ..BackgroundFlows::default()
        },
        fast_retransmits: s.fast_retransmits - s0.fast_retransmits
            + (k.fast_retransmits - k0.fast_retransmits),
        spurious_retransmits: s.spurious_retransmits - s0.spurious_retransmits
            + (k.spurious - k0.spurious),
        payload_bytes: s.bytes - s0.bytes,
        extra_bytes: s.bytes_recovery + s.bytes_reinjected
            - s0.bytes_recovery
            - s0.bytes_reinjected,
        events: fabric.events,
        packet_hops: fabric.packet_hops,
        sim_ns: (fabric.wall_s * 1e9) as u64,
        ..RunResult::default()
    };
    if worked.plan.push {
        pushed(worked, &mut r);
    }
    let of_requests = if worked.plan.push { 0 } else { groups };
    for group in 0..of_requests as u32 {
        let members = worked.plan.flows.iter().zip(&worked.done);
        let members: Vec<_> = members.filter(|(f, _)| f.group == group).collect();
        let first = members.iter().filter_map(|(_, d)| d.issued).min();
        let last = members
            .iter()
            .map(|(_, d)| d.completed)
            .collect::<Option<Vec<_>>>();
        let bytes: u64 = members.iter().map(|(f, _)| f.bytes).sum();
        r.bytes_corrupted += members.iter().map(|(_, d)| d.corrupted).sum::<u64>();
        let timeouts: u64 = members.iter().map(|(_, d)| d.timeouts).sum();
        r.flows_with_timeout += u64::from(timeouts > 0);
        r.timeouts += timeouts;
        let last = last.and_then(|l| l.into_iter().max());
        match (first, last) {
            (Some(first), Some(last)) => {
                let fct = last.duration_since(first);
                r.completed += 1;
                r.bytes_delivered += bytes;
                r.fct_ns.push(fct.as_nanos() as u64);
                r.goodput_sum_bps += bytes as f64 * 8.0 / fct.as_secs_f64().max(1e-9);
            }
            _ => r.aborted += 1,
        }
    }
    let all = (s.timeouts - s0.timeouts) + (k.timeouts - k0.timeouts);
    // A timeout counts for every flow in progress, of which only one had it.
    r.timeouts = r.timeouts.min(all);
    r.flows_with_timeout = r.flows_with_timeout.min(all);
    r.late_timeouts = all - r.timeouts;
    r
}

/// Adds the results of pushed flows, each separately.
fn pushed(worked: &WorkOutcome, r: &mut RunResult) {
    for (planned, done) in worked.plan.flows.iter().zip(&worked.done) {
        let received = &done.received;
        r.bytes_corrupted += received.corrupted;
        if !planned.counted {
            continue;
        }
        // The flow's start time had come, but the run ended before it started.
        let issued = done.issued.unwrap_or(worked.ended);
        let end = received.completed.unwrap_or(worked.ended);
        let (from, before) = received.from.unwrap_or((issued, 0));
        let seconds = end.saturating_duration_since(from).as_secs_f64().max(1e-9);
        let goodput = received.bytes.saturating_sub(before) as f64 * 8.0 / seconds;
        let cut_off = received.completed.is_none() && worked.plan.cuts_off();
        match (planned.is_background(), received.completed.is_some()) {
            (true, false) if !cut_off => r.background.aborted += 1,
            (true, _) => {
                r.background.completed += 1;
                r.background.goodput_sum_bps += goodput;
                r.background.goodput_squares += goodput * goodput;
            }
            (false, true) => {
                let fct = end.saturating_duration_since(issued);
                r.completed += 1;
                r.bytes_delivered += planned.bytes;
                r.fct_ns.push(fct.as_nanos() as u64);
                r.goodput_sum_bps += goodput;
            }
            (false, false) if worked.plan.ends.is_some() => r.cut_off += 1,
            (false, false) => r.aborted += 1,
        }
        if !planned.is_background() {
            r.flows_with_timeout += u64::from(done.timeouts > 0);
            r.timeouts += done.timeouts;
        }
    }
}
