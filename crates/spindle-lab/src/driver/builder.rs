//! Builds a run from its request: the network, the plan of its flows, the use of the transport, and the hosts.

use std::sync::Arc;

use spindle_experiment::hosts::{configure, over_interfaces};
use spindle_experiment::informed::informed;
use spindle_experiment::network::network as build_network;
use spindle_experiment::registry::{ECMP, Transport};
use spindle_experiment::rng::{Purpose, Streams};
use spindle_experiment::traffic::Plan;
use spindle_fabric::{HostId, Network, Simulation};
use spindle_mptcp::{Config, StackConfig};
use spindle_wire::{Endpoint, Segment};

use super::app::{App, Routes, Script, Usage};
use super::conn::Content;
use super::draw::{Drawn, draw_hotspots, draw_lossy_links};
use super::ids::FlowId;
use super::observing::Observing;
use super::packet::BoxedPacket;
use super::paths;
use super::world::{Balanced, World};
use super::{Run, RunError, RunRequest};
use crate::pcap::PcapWriter;

/// Builds a run. Each step needs the results of the steps before it: the network, the plan, the usage, and the
/// world.
pub(super) struct RunBuilder<'a> {
    request: &'a RunRequest<'a>,
    transport: &'a Transport,
    streams: Streams,
}

impl<'a> RunBuilder<'a> {
    /// Looks up the transport.
    ///
    /// # Errors
    /// If the point is a formula, or if the transport does not exist.
    pub(super) fn new(request: &'a RunRequest<'a>) -> Result<Self, RunError> {
        if request.scenario.traffic.formula().is_some() {
            return Err(RunError::Formula);
        }
        Ok(Self {
            request,
            transport: find(request, &request.transport.transport)?,
            streams: Streams::new(request.seed, request.part),
        })
    }

    /// Executes all steps.
    ///
    /// # Errors
    /// See [`RunError`].
    pub(super) fn build(self) -> Result<Run, RunError> {
        let (network, drawn) = self.network()?;
        let plan = self.plan(&network)?;
        let config = self.config(&network);
        let needs_drops = config
            .recovery
            .as_ref()
            .is_some_and(|r| r.capabilities().drops);
        let usage = self.usage(&network, &plan, &config)?;
        let mut world = self.world(network)?;
        let request = self.request;
        let app = App::new(
            plan,
            usage,
            self.streams,
            script(request),
            request.record.map(FlowId),
        );
        let recording = request.record.is_some() || request.count_losses;
        let observing = Observing::new(app.observes());
        world
            .simulation
            .observe_drops(recording || needs_drops || observing.needs_drops());
        Ok(Run {
            world,
            app,
            drawn,
            capture: capture(request)?,
            failed: None,
            seen: Vec::new(),
            recording,
            per_packet: self.balancer() != ECMP,
            observing,
        })
    }

    /// The network with the hotspots of this run, and its lossy links.
    fn network(&self) -> Result<(Network, Drawn), RunError> {
        let scenario = self.request.scenario;
        let mut network = build_network(scenario)?;
        if let Some(hotspots) = &scenario.hotspots {
            draw_hotspots(&mut network, hotspots, &self.streams)?;
        }
        let drawn = draw_lossy_links(&network, &scenario.loss, &self.streams)?;
        Ok((network, drawn))
    }

    /// The flows of the requested part of the traffic.
    fn plan(&self, network: &Network) -> Result<Plan, RunError> {
        let request = self.request;
        let name = |h| network.node(network.host_node(HostId(h))).name.clone();
        let hosts: Vec<String> = (0..network.hosts()).map(name).collect();
        let (part, parts) = (request.part, request.parts);
        Ok(request.scenario.plan(&hosts, &self.streams, part, parts)?)
    }

    /// The configuration of the transport under test, with what its hosts know of the network.
    fn config(&self, network: &Network) -> Config {
        let scenario = self.request.scenario;
        let config = configure(self.transport, &scenario.host);
        informed(config, network, scenario)
    }

    /// How the applications use the transport.
    fn usage(&self, network: &Network, plan: &Plan, config: &Config) -> Result<Usage, RunError> {
        let request = self.request;
        let interfaces = interfaces(network);
        let client = plan.flows.first().map_or(0, |f| f.client);
        let own = interfaces[client as usize];
        let config = over_interfaces(config, client, own, 0, &plan.subflows);
        let informed = |c| Arc::new(informed(c, network, request.scenario));
        let content = request.payload.clone();
        Ok(Usage {
            application: self.transport.application,
            background: self.background(plan)?.map(informed),
            bystander: self.bystander(plan)?.map(informed),
            config: Arc::new(config),
            interfaces,
            content: content.map_or(Content::Length, Content::Bytes),
            short_below: request.scenario.host.short_below,
            routes: routes(plan, network, &self.streams),
        })
    }

    /// The configuration of background connections. `None` if there is no background, or if it uses the
    /// transport under test.
    fn background(&self, plan: &Plan) -> Result<Option<Config>, RunError> {
        let request = self.request;
        let given = plan.background_transport.as_ref();
        let Some(name) = given.or(self.transport.background.as_ref()) else {
            return Ok(None);
        };
        let found = find(request, name)?;
        Ok(Some(configure(found, &request.scenario.host)))
    }

    /// The configuration of bystanders' connections, if there are bystanders.
    fn bystander(&self, plan: &Plan) -> Result<Option<Config>, RunError> {
        let request = self.request;
        let Some(name) = &plan.bystander_transport else {
            return Ok(None);
        };
        let found = find(request, name)?;
        Ok(Some(configure(found, &request.scenario.host)))
    }

    /// The name of the balancer: the transport's or the scenario's.
    fn balancer(&self) -> &str {
        let of_transport = self.request.transport.balancer.as_deref();
        of_transport.unwrap_or(&self.request.scenario.balancer)
    }

    /// The hosts' stacks, and the simulation of the network with its balancers.
    fn world(&self, mut network: Network) -> Result<World<Balanced>, RunError> {
        let request = self.request;
        let balancer = self.balancer();
        let balancing = request.registry.equip(balancer, &mut network)?;
        let balancing = balancing.ok_or_else(|| RunError::Balancer {
            found: balancer.to_owned(),
            accepted: format!("ecmp, {}", request.registry.balancer_names().join(", ")),
        })?;
        let stacks = StackConfig {
            remembered_paths: request.scenario.host.remembered_paths as usize,
            ..StackConfig::default()
        };
        let mut world = World::new(network, &self.streams, Balanced, &stacks);
        if request.scenario.host.output_limit.is_some() {
            world.notify_departures();
        }
        world.simulation.balance(&balancing);
        Ok(world)
    }
}

/// The transport with this name.
fn find<'a>(request: &RunRequest<'a>, name: &str) -> Result<&'a Transport, RunError> {
    let found = request.registry.find(name);
    found.ok_or_else(|| RunError::Transport(request.registry.no_such_transport(name)))
}

/// The scripted losses of the scenario.
fn script(request: &RunRequest<'_>) -> Script {
    let losses = request.scenario.loss.iter();
    let scripted = losses.filter_map(|l| l.model.response());
    Script::new(scripted.collect())
}

/// Creates the capture file, if one is requested.
fn capture(
    request: &RunRequest<'_>,
) -> Result<Option<PcapWriter<std::io::BufWriter<std::fs::File>>>, RunError> {
    let Some(path) = &request.pcap else {
        return Ok(None);
    };
    let transport = request.transport.to_string();
    Ok(Some(PcapWriter::create(path, &transport, "hosts")?))
}

/// The paths of ECMP between switches, if some flow must share no link with others. They are computed in a separate
/// simulation that never runs, because the run's own simulation owns the network.
fn routes(plan: &Plan, network: &Network, streams: &Streams) -> Option<Routes> {
    if !plan.flows.iter().any(|f| f.disjoint) {
        return None;
    }
    let seed = streams.value(Purpose::Salts, 0);
    let still: Simulation<BoxedPacket> = Simulation::new(network.clone(), seed);
    Some(Box::new(move |from: Endpoint, to: Endpoint| {
        let route = paths::route(&still, from, to, Segment::new(from, to).flow_hash());
        let between = route.len().saturating_sub(1).max(1);
        route[1.min(between)..between].to_vec()
    }))
}

/// Number of interfaces of each host.
fn interfaces(network: &Network) -> Vec<u32> {
    let count = |h| network.addresses_of(HostId(h)).count() as u32;
    (0..network.hosts()).map(count).collect()
}
