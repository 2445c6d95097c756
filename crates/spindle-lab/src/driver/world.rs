//! Stacks connected by a simulated network: passes packets from one stack to another, and arms timers lazily.

use std::net::IpAddr;

use spindle_experiment::rng::{Purpose, Streams};
use spindle_fabric::{Address, Event as NetEvent, HostId, LinkId, Network, Simulation};
use spindle_mptcp::{Expected, Handle, Stack, StackConfig};
use spindle_units::{Instant, prefetch};
use spindle_wire::Packet;

use super::packet::{BoxedPacket, PacketPool, SimPacket};
use super::ports::Ports;
use spindle_experiment::hosts::place_of;

/// The token of the application's alarm. The tokens of hosts are their numbers.
const APPLICATION: u64 = u64::MAX;

/// How packets enter the network.
pub(crate) trait Wire {
    /// Determines the wire length of a packet from `from` to `to`, and injects the packet.
    fn send(
        &mut self,
        simulation: &mut Simulation<BoxedPacket>,
        from: Address,
        to: Address,
        boxed: BoxedPacket,
    );
}

/// Sends packets unchanged, on the paths that the balancers choose.
pub(crate) struct Balanced;

impl Wire for Balanced {
    fn send(
        &mut self,
        simulation: &mut Simulation<BoxedPacket>,
        from: Address,
        to: Address,
        mut packet: BoxedPacket,
    ) {
        packet.0.update_wire_len();
        simulation.inject(from, to, packet);
    }
}

/// What happened in the simulation.
pub(crate) enum WorldEvent {
    /// A host received a packet or processed its timers. It must be polled for packets and events.
    Host(u32),
    /// The application's alarm expired.
    Alarm,
    /// A packet was dropped.
    Dropped(LinkId, BoxedPacket),
}

/// The hosts' interfaces.
struct Places {
    addresses: Vec<Address>,
    /// For each host, the index of its first address, and one more entry for the end.
    first: Vec<u32>,
}

impl Places {
    fn new(network: &Network) -> Self {
        let (mut addresses, mut first) = (Vec::new(), vec![0]);
        for host in 0..network.hosts() {
            addresses.extend(network.addresses_of(HostId(host)));
            first.push(addresses.len() as u32);
        }
        Self { addresses, first }
    }

    /// The fabric address of an IP address.
    #[inline]
    fn of(&self, addr: IpAddr) -> Option<Address> {
        let (host, interface) = place_of(addr)?;
        let host = host as usize;
        let own = *self.first.get(host)?..*self.first.get(host + 1)?;
        let place = own.start.checked_add(interface)?;
        own.contains(&place).then(|| self.addresses[place as usize])
    }
}

/// All hosts and the network between them.
pub(crate) struct World<W> {
    pub(crate) simulation: Simulation<BoxedPacket>,
    spare: PacketPool,
    pub(crate) stacks: Vec<Stack>,
    wire: W,
    places: Places,
    armed: Vec<Option<Instant>>,
    alarm: Option<Instant>,
    /// The hosts' own ports, if senders hold back data that would have to queue there.
    ports: Option<Ports>,
    /// Scratch: hosts that packets will reach soon, and where their stacks expect them.
    expected: Vec<(u32, Expected)>,
}

impl<W: Wire> World<W> {
    /// Creates a stack with this configuration on every host of the network.
    pub(crate) fn new(network: Network, streams: &Streams, wire: W, config: &StackConfig) -> Self {
        let hosts = network.hosts();
        let places = Places::new(&network);
        let stack = |h: u32| {
            let seed = streams.value(Purpose::Hosts, u64::from(h));
            Stack::deterministic(config.clone(), seed)
        };
        Self {
            stacks: (0..hosts).map(stack).collect(),
            simulation: Simulation::new(network, streams.value(Purpose::Salts, 0)),
            spare: PacketPool::default(),
            wire,
            armed: vec![None; hosts as usize],
            places,
            alarm: None,
            ports: None,
            expected: Vec::new(),
        }
    }

    /// From now on, stacks are notified when what they send will have left their host's port
    /// ([`Stack::handed_over`]).
    pub(crate) fn notify_departures(&mut self) {
        self.ports = Some(Ports::new(self.simulation.network()));
    }

    /// Advances time until something happens. `None` if nothing will happen any more. `coming` receives the
    /// connections that packets are about to reach, in step 0 and then in step 1, so that the application can
    /// prefetch its own memory as well. `arriving` receives packets that reach a host before the host does.
    pub(crate) fn next(
        &mut self,
        mut coming: impl FnMut(u32, Handle, u32),
        mut arriving: impl FnMut(Instant, &Packet),
    ) -> Option<(Instant, WorldEvent)> {
        loop {
            let (now, event) = self.simulation.next_event()?;
            self.prefetch(&mut coming);
            match event {
                NetEvent::Arrive {
                    host,
                    packet: mut boxed,
                    ..
                } => {
                    let packet = &mut boxed.0.packet;
                    arriving(now, packet);
                    self.stacks[host.0 as usize].receive_in_place(now, packet);
                    self.spare.take_back(boxed);
                    return Some((now, WorldEvent::Host(host.0)));
                }
                NetEvent::Timer(APPLICATION) if self.alarm == Some(now) => {
                    self.alarm = None;
                    return Some((now, WorldEvent::Alarm));
                }
                NetEvent::Timer(APPLICATION) => {}
                NetEvent::Timer(host) => {
                    let host = host as u32;
                    if self.armed[host as usize] == Some(now) {
                        self.armed[host as usize] = None;
                        self.stacks[host as usize].timeout(now);
                        return Some((now, WorldEvent::Host(host)));
                    }
                }
                NetEvent::Dropped(d) => {
                    return Some((now, WorldEvent::Dropped(d.link, d.packet)));
                }
            }
        }
    }

    /// Prefetches what the packets need that will reach their hosts soon, pass by pass for all of them, so that
    /// the waits for memory overlap. The last two steps include the application.
    #[inline]
    fn prefetch(&mut self, coming: &mut impl FnMut(u32, Handle, u32)) {
        let (stacks, expected) = (&mut self.stacks, &mut self.expected);
        self.simulation
            .approaching(2, |step, host, BoxedPacket(carried)| {
                let stack = &mut stacks[host.0 as usize];
                match step {
                    0 => prefetch(stack),
                    _ => expected.extend(stack.expect(&carried.packet).map(|e| (host.0, e))),
                }
            });
        if expected.is_empty() {
            return;
        }
        for step in 0..Stack::PREFETCH_STEPS {
            for (host, expected) in expected.iter().copied() {
                let stack = &stacks[host as usize];
                stack.prefetch(expected, step);
                if let Some(step) = (step + 2).checked_sub(Stack::PREFETCH_STEPS)
                    && let Some(handle) = stack.expected_at(expected)
                {
                    coming(host, handle, step);
                }
            }
        }
        expected.clear();
    }

    /// Notifies the sender of a dropped packet. If the sender's recovery is notified of drops, it repairs the
    /// loss, and the repair is now in flight. Returns the repair with its host, which may have more to send.
    pub(crate) fn notify_drop(
        &mut self,
        now: Instant,
        dropped: &SimPacket,
    ) -> Option<(u32, Packet)> {
        if dropped.is_exempt() {
            return None;
        }
        let (src, dst) = (dropped.packet.src().addr, dropped.packet.dst().addr);
        let (host, _) = place_of(src)?;
        let from = self.places.of(src)?;
        let to = self.places.of(dst)?;
        let repair = self.stacks[host as usize].dropped(now, &dropped.packet)?;
        let boxed = BoxedPacket(Box::new(SimPacket::exempt(repair.clone())));
        self.simulation.inject(from, to, boxed);
        Some((host, repair))
    }

    /// Transmits all that a host has to send. `see` receives each packet and returns whether to forward it.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        host: u32,
        mut see: impl FnMut(&Packet) -> bool,
    ) {
        loop {
            let mut boxed = self.spare.packet();
            let packet = &mut boxed.0.packet;
            if !self.stacks[host as usize].transmit_in_place(now, packet) {
                self.spare.take_back(boxed);
                return;
            }
            let goes_on = see(packet);
            let from = self.places.of(packet.src().addr);
            let to = self.places.of(packet.dst().addr);
            if let (Some(from), Some(to)) = (from, to) {
                if let Some(ports) = &mut self.ports {
                    let leaves = ports.send(now, from, packet.wire_len() as u64);
                    self.stacks[host as usize].handed_over(packet, leaves);
                }
                if goes_on {
                    self.wire.send(&mut self.simulation, from, to, boxed);
                }
            }
        }
    }

    /// Sets the host's alarm if its next timer expires before the current alarm.
    pub(crate) fn arm(&mut self, now: Instant, host: u32) {
        let Some(due) = self.stacks[host as usize].next_timeout() else {
            return;
        };
        let due = due.max(now);
        let armed = &mut self.armed[host as usize];
        if armed.is_none_or(|a| due < a) {
            *armed = Some(due);
            self.simulation.schedule(due, u64::from(host));
        }
    }

    /// Sets the application's alarm in the same way.
    pub(crate) fn arm_alarm(&mut self, now: Instant, due: Option<Instant>) {
        let Some(due) = due.map(|d| d.max(now)) else {
            return;
        };
        if self.alarm.is_none_or(|a| due < a) {
            self.alarm = Some(due);
            self.simulation.schedule(due, APPLICATION);
        }
    }
}
