//! One run in real time: hosts and fabric are made, a part of a seed's flows is carried out, and all
//! is taken down again.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use spindle_fabric::{HostId, Network, Simulation};
use spindle_lab::driver::{address, configure, network, over_interfaces};
use spindle_lab::experiment::TransportName;
use spindle_lab::experiment::scenario::{Scenario, Window};
use spindle_lab::metrics::RunResult;
use spindle_lab::registry::{Application, Registry};
use spindle_lab::rng::{Purpose, Streams};
use spindle_lab::traffic::{Plan, plan};
use spindle_mptcp::congestion::CongestionKind;
use spindle_mptcp::{SendCounters, StackConfig};
use spindle_net::{NetworkConfig, memory};

use crate::error::TestbedError;
use crate::fabric::{Attachment, Fabric, FabricReport};
use crate::host::Host;
use crate::kernel;
use crate::namespace::{KernelHost, Namespace};
use crate::workload::{Count, LocalFuture, Work, Worked, work};

/// Segments that may wait between a Spindle host and the fabric's thread.
const PORT_CAPACITY: usize = 16_384;
/// Length of an IPv4 and a TCP header.
const HEADERS: u32 = 40;

/// One part of a row.
#[derive(Debug)]
pub struct PartOutput {
    /// The measurements, as the lab has them.
    pub result: RunResult,
    /// What only real time has.
    pub real: RealTime,
}

/// What only real time has.
#[derive(Clone, Debug, Default)]
pub struct RealTime {
    /// What the fabric did.
    pub fabric: FabricReport,
}

/// What is to be run.
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
    /// Makes hosts and fabric.
    pub(crate) fn build(&self) -> Result<World, TestbedError> {
        let network = network(self.scenario, self.registry)?;
        let count = |h| network.addresses_of(HostId(h)).count() as u32;
        let interfaces: Vec<u32> = (0..network.hosts()).map(count).collect();
        let streams = Streams::new(self.seed, self.part);
        let plan = plan(
            self.scenario,
            &names(&network),
            &streams,
            self.part,
            self.parts,
        )?;
        let (mut hosts, mut attachments) = (Vec::new(), Vec::new());
        for host in 0..network.hosts() {
            let serves = plan.flows.iter().any(|f| f.server == host);
            let (server, client) = self.transport.ends();
            let name = if serves { server } else { client };
            let (host, attachment) = self.host(name, host, &interfaces, &plan, &streams)?;
            hosts.push(host);
            attachments.push(attachment);
        }
        let mut simulation = Simulation::new(network, streams.value(Purpose::Salts, 0));
        let balancer = self.transport.balancer.as_deref();
        let balancer = balancer.unwrap_or(&self.scenario.balancer);
        if let Some(make) = self.registry.find_balancer(balancer) {
            simulation.balance(&make());
        }
        Ok(World {
            fabric: Fabric::start(simulation, attachments)?,
            hosts,
            interfaces,
            plan,
            streams,
        })
    }

    fn host(
        &self,
        name: &str,
        host: u32,
        interfaces: &[u32],
        plan: &Plan,
        streams: &Streams,
    ) -> Result<(Host, Attachment), TestbedError> {
        let own = interfaces[host as usize];
        if name.starts_with("kernel-") {
            let multipath = name == "kernel-mptcp";
            let (namespace, devices) = Namespace::new(&self.kernel_host(host, own, multipath))?;
            let host = Host::Kernel {
                namespace,
                multipath,
                interfaces: own,
            };
            return Ok((host, Attachment::Kernel(devices)));
        }
        let no = || TestbedError::Transport(self.registry.no_such_transport(name));
        let transport = self.registry.find(name).ok_or_else(no)?;
        if transport.application != Application::Plain {
            let text = format!("{name}: replicated requests are not made in real time");
            return Err(TestbedError::Transport(text));
        }
        let config = configure(transport, &self.scenario.host);
        // A server's windows are split as if it were its first client's end.
        let client = plan.flows.first().map_or(host, |f| f.client);
        let of = if own > 1 { host } else { client };
        let n = interfaces[of as usize];
        let configs = (0..n).map(|first| Arc::new(over_interfaces(&config, of, n, first)));
        let (link, port) = memory::port(PORT_CAPACITY);
        let stack = StackConfig {
            seed: streams.value(Purpose::Hosts, u64::from(host)),
            addresses: (0..own).map(|i| address(host, i)).collect(),
            ..StackConfig::default()
        };
        let config = NetworkConfig {
            stack,
            name: format!("host-{host}"),
        };
        let network =
            spindle_net::Network::start(config, Box::new(link.with_mss(self.scenario.host.mss)))?;
        let host = Host::Spindle {
            network,
            configs: configs.collect(),
        };
        Ok((host, Attachment::Spindle(port)))
    }

    /// A kernel host's settings: the scenario's, as far as the kernel has them.
    pub(crate) fn kernel_host(&self, host: u32, interfaces: u32, multipath: bool) -> KernelHost {
        let s = &self.scenario.host;
        KernelHost {
            host,
            interfaces,
            mtu: (s.mss + HEADERS).min(65_535) as u16,
            congestion: match s.congestion {
                Some(CongestionKind::Reno) => "reno",
                _ => "cubic",
            },
            ecn: s.ecn,
            timestamps: s.timestamps,
            min_rto_ms: s.min_rto.as_micros().div_ceil(1000).max(1),
            initial_window: match s.initial_window {
                Window::PerSubflow(n) => Some(n),
                Window::Total(_) => None,
            },
            multipath,
        }
    }

    /// Carries the part out.
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
        let worked = work(todo, timeouts, async move |hosts: &[Host]| {
            noted.set(totals(hosts).await);
        })
        .await
        .map_err(TestbedError::system("carry out the traffic"))?;
        let after = totals(&worked.hosts).await;
        for host in &worked.hosts {
            if let Host::Spindle { network, .. } = host {
                network.shutdown().await;
            }
        }
        let fabric = fabric.finish();
        let result = result(&worked, &after, &base.get(), &fabric);
        Ok(PartOutput {
            result,
            real: RealTime { fabric },
        })
    }
}

/// The hosts' names in the order of their numbers.
pub(crate) fn names(network: &Network) -> Vec<String> {
    let name = |h| network.node(network.host_node(HostId(h))).name.clone();
    (0..network.hosts()).map(name).collect()
}

/// Counters over all hosts.
#[derive(Clone, Copy, Default)]
struct Totals {
    spindle: SendCounters,
    kernel: kernel::Counters,
}

async fn totals(hosts: &[Host]) -> Totals {
    let mut t = Totals::default();
    for host in hosts {
        match host {
            Host::Kernel { namespace, .. } => {
                let c = kernel::counters(namespace);
                t.kernel.timeouts += c.timeouts;
                t.kernel.fast_retransmits += c.fast_retransmits;
                t.kernel.spurious += c.spurious;
            }
            Host::Spindle { network, .. } => {
                let Ok(c) = network.counters().await else {
                    continue;
                };
                t.spindle.bytes += c.sent.bytes;
                t.spindle.bytes_recovery += c.sent.bytes_recovery;
                t.spindle.bytes_reinjected += c.sent.bytes_reinjected;
                t.spindle.timeouts += c.sent.timeouts;
                t.spindle.fast_retransmits += c.sent.fast_retransmits;
                t.spindle.spurious_retransmits += c.sent.spurious_retransmits;
            }
        }
    }
    t
}

/// Timeouts of all hosts so far.
fn timeouts(hosts: &[Host]) -> LocalFuture<u64> {
    let mut kernel = 0;
    let mut networks = Vec::new();
    for host in hosts {
        match host {
            Host::Kernel { namespace, .. } => kernel += kernel::counters(namespace).timeouts,
            Host::Spindle { network, .. } => networks.push(network.clone()),
        }
    }
    Box::pin(async move {
        let mut sum = kernel;
        for network in networks {
            sum += network.counters().await.map_or(0, |c| c.sent.timeouts);
        }
        sum
    })
}

fn result(worked: &Worked, after: &Totals, base: &Totals, fabric: &FabricReport) -> RunResult {
    let groups = worked
        .plan
        .flows
        .iter()
        .map(|f| f.group as usize + 1)
        .max()
        .unwrap_or(0);
    let (s, s0, k, k0) = (&after.spindle, &base.spindle, &after.kernel, &base.kernel);
    let mut r = RunResult {
        flows: groups as u64,
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
    for group in 0..groups as u32 {
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
    r.timeouts = r.timeouts.min(all);
    r.late_timeouts = all - r.timeouts;
    r
}
