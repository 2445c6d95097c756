//! What is recorded of a run in addition to its flows' times, from packets, links and hosts' totals.

use std::collections::BTreeMap;

use spindle_experiment::metrics::{
    CodingOfFlows, GoodputOfGroup, LinksOfGroup, PacketsOfClass, PacketsOfFlows, PathsOfFlows,
    RunResult, UnitsOfFlows, WaitsOfClass, WindowsOfFlows,
};
use spindle_experiment::scenario::Observe;
use spindle_fabric::{Class, HostId, LinkId, Network, Simulation, WatchConfig, WatchedClass};
use spindle_mptcp::Stack;
use spindle_mptcp::stage::coding::estimator::Periods;
use spindle_units::Instant;
use spindle_wire::{Endpoint, Packet};

use super::app::App;
use super::packet::BoxedPacket;
use super::units::Units;
use super::world::World;
use spindle_experiment::hosts::class;

/// Bytes that arrived, by sender and receiver.
pub(super) type Arrived = BTreeMap<(u32, u32), u64>;

/// What is being recorded.
pub(super) struct Observing {
    what: Observe,
    /// When flows started to count, if they count already.
    since: Option<Instant>,
    packets: PacketsOfFlows,
    windows: WindowsOfFlows,
    /// Data packets that a host has just sent. The windows of their subflows will be recorded.
    burst: Vec<(Endpoint, Endpoint, Class)>,
    units: Units,
    /// Totals at the time when flows started to count.
    coding: CodingOfFlows,
    /// See [`decoded`].
    decoded: (u64, u64),
    units_before: UnitsOfFlows,
    arrived: Arrived,
}

impl Observing {
    pub(super) fn new(what: Observe) -> Self {
        Self {
            what,
            since: None,
            packets: PacketsOfFlows::default(),
            windows: WindowsOfFlows::default(),
            burst: Vec::new(),
            units: Units::default(),
            coding: CodingOfFlows::default(),
            decoded: (0, 0),
            units_before: UnitsOfFlows::default(),
            arrived: Arrived::new(),
        }
    }

    /// Whether it must be notified of dropped packets.
    pub(super) fn needs_drops(&self) -> bool {
        self.what.packets
    }

    /// Starts to count what happens, unless it was started before.
    pub(super) fn begin<W>(&mut self, now: Instant, app: &App, world: &mut World<W>) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(now);
        if self.what.paths {
            world.simulation.watch(&WatchConfig::default());
            self.decoded = decoded(&world.stacks);
        }
        if self.what.coding {
            self.coding = coding(app, &world.stacks);
            self.units_before = self.units.so_far;
        }
        if self.what.goodput {
            self.arrived = app.arrived(&world.stacks);
        }
    }

    /// Records that a host sends a packet.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, packet: &Packet) {
        if self.what.coding {
            self.units.sent(now, packet);
        }
        if self.since.is_none() || packet.payload().is_empty() {
            return;
        }
        if self.what.packets {
            self.of_class(packet).sent += 1;
        }
        if self.what.windows {
            let class = class(packet.dscp());
            self.burst.push((packet.src(), packet.dst(), class));
        }
    }

    /// Records that a host receives a packet.
    #[inline]
    pub(super) fn arrives(&mut self, now: Instant, packet: &Packet) {
        if self.what.coding {
            self.units.arrives(now, packet);
        }
    }

    /// Records the windows after a host has sent all that it had to send.
    #[inline]
    pub(super) fn has_sent(&mut self, host: &Stack) {
        for (from, to, class) in self.burst.drain(..) {
            let Some((window, full)) = host.window(from, to) else {
                continue;
            };
            let of = match class {
                Class::High => &mut self.windows.short,
                Class::Low => &mut self.windows.long,
            };
            of.packets += 1;
            of.segments += window as f64 / full.max(1) as f64;
        }
    }

    /// Records that a packet was dropped.
    pub(super) fn dropped(&mut self, packet: &Packet) {
        if self.what.packets && self.since.is_some() && !packet.payload().is_empty() {
            self.of_class(packet).dropped += 1;
        }
    }

    fn of_class(&mut self, packet: &Packet) -> &mut PacketsOfClass {
        match class(packet.dscp()) {
            Class::High => &mut self.packets.short,
            Class::Low => &mut self.packets.others,
        }
    }

    /// Adds the recorded values to the result at the end of the run.
    pub(super) fn finish<W>(&self, app: &App, world: &World<W>, result: &mut RunResult) {
        let simulation = &world.simulation;
        if self.what.links {
            result.observed.links = links_by_group(simulation);
        }
        if self.what.packets {
            result.observed.packets = Some(self.packets);
        }
        if self.what.paths {
            let mut paths = paths(simulation);
            let (all, disordered) = decoded(&world.stacks);
            // Only short flows are coded.
            paths.short.decoded = all - self.decoded.0;
            paths.short.decoded_disordered = disordered - self.decoded.1;
            result.observed.paths = Some(paths);
        }
        if self.what.goodput {
            let arrived = app.arrived(&world.stacks);
            let before = |ends| self.arrived.get(ends).copied().unwrap_or(0);
            let during = arrived
                .iter()
                .map(|(ends, n)| (*ends, n.saturating_sub(before(ends))));
            let since = self.since.unwrap_or_else(|| simulation.now());
            result.observed.goodput = goodput_by_group(simulation, during, since);
        }
        if self.what.coding {
            result.observed.coding = Some(coding(app, &world.stacks).since(&self.coding));
            result.observed.units = Some(self.units.so_far.since(&self.units_before));
        }
        if self.what.windows {
            result.observed.windows = Some(self.windows);
        }
    }
}

/// The activity of each group's links so far. The groups are in the order of the network's cables.
fn links_by_group(simulation: &Simulation<BoxedPacket>) -> Vec<LinksOfGroup> {
    let network = simulation.network();
    let time_s = simulation.now().since(Instant::ZERO).as_secs_f64();
    let new = |name: &str| LinksOfGroup {
        group: name.to_owned(),
        ..LinksOfGroup::default()
    };
    by_group(network, new, |group, id| {
        let stats = simulation.stats(id);
        group.busy_s += stats.busy.as_secs_f64();
        group.time_s += time_s;
        group.offered += stats.offered;
        group.dropped += stats.drops.queue;
    })
}

/// How much the links of each group could have sent since `since`, and the bytes of flows that were sent over
/// them. All paths between two hosts have the same number of links of each group, so any path can be used.
fn goodput_by_group(
    simulation: &Simulation<BoxedPacket>,
    arrived: impl Iterator<Item = ((u32, u32), u64)>,
    since: Instant,
) -> Vec<GoodputOfGroup> {
    let network = simulation.network();
    let time_s = simulation.now().since(since).as_secs_f64();
    let new = |name: &str| GoodputOfGroup {
        group: name.to_owned(),
        ..GoodputOfGroup::default()
    };
    let mut groups = by_group(network, new, |group, id| {
        group.room += network.link(id).spec.rate.0 as f64 / 8.0 * time_s;
    });
    for ((from, to), bytes) in arrived {
        let place = |host| network.address(HostId(host), 0);
        let (Some(from), Some(to)) = (place(from), place(to)) else {
            continue;
        };
        for link in simulation.ecmp_route(from, to, 0) {
            let name = &network.cable(link.cable()).group;
            let group = groups.iter_mut().find(|g| g.group == *name);
            group.into_iter().for_each(|g| g.bytes += bytes);
        }
    }
    groups
}

/// A value for each group of links. The groups are in the order of the network's cables.
fn by_group<T>(
    network: &Network,
    new: impl Fn(&str) -> T,
    mut add: impl FnMut(&mut T, LinkId),
) -> Vec<T> {
    let (mut names, mut groups): (Vec<&str>, Vec<T>) = (Vec::new(), Vec::new());
    for id in (0..network.links().len() as u32).map(LinkId) {
        let name = network.cable(id.cable()).group.as_str();
        let at = names.iter().position(|n| *n == name);
        let at = at.unwrap_or_else(|| {
            names.push(name);
            groups.push(new(name));
            names.len() - 1
        });
        add(&mut groups[at], id);
    }
    groups
}

/// What the network observed about packets since it started to watch them.
fn paths(simulation: &Simulation<BoxedPacket>) -> PathsOfFlows {
    let seen = simulation.watched().unwrap_or_default();
    let of = |class: WatchedClass| WaitsOfClass {
        packets: class.packets,
        queueing_ns: class.queueing.as_nanos(),
        overtaken: class.disordered,
        ..WaitsOfClass::default()
    };
    let leaves = seen.leaves.iter();
    PathsOfFlows {
        short: of(seen.short),
        long: of(seen.long),
        available: leaves.clone().map(|l| l.slots * u64::from(l.uplinks)).sum(),
        used: leaves.map(|l| l.used).sum(),
    }
}

/// Segments that the decoders of all hosts have passed up so far, and those of them that were out of order.
fn decoded(stacks: &[Stack]) -> (u64, u64) {
    stacks.iter().fold((0, 0), |(all, disordered), stack| {
        let coding = stack.counters().coding;
        (
            all + coding.segments_decoded,
            disordered + coding.segments_disordered,
        )
    })
}

/// What all hosts have coded and estimated so far.
fn coding(app: &App, stacks: &[Stack]) -> CodingOfFlows {
    let mut all = CodingOfFlows::default();
    for stack in stacks {
        let total = stack.counters();
        let c = &total.coding;
        all.units += c.units_sent;
        all.decoded += c.units_decoded;
        all.segments += c.packets_coded;
        all.encoded += c.packets_encoded;
        all.extra += c.extra_packets;
        all.extra_bytes += c.extra_bytes;
        all.payload_bytes += total.send.bytes;
        all.received += c.packets_received;
        all.late += c.packets_late;
    }
    let periods = stacks.iter().map(Stack::coding_periods);
    let periods = periods.fold(app.shared_coding_periods(), Periods::plus);
    all.periods = periods.count;
    all.rtt_distance = periods.apart;
    all.blocking = periods.blocking;
    all
}
