//! The hot path: processing of a packet at a port and at the end of a link.

use spindle_units::Instant;

use super::{Dropped, Event, Kind, Pending, Simulation};
use crate::balance::{Balancer, Chooser, Hop, Ports};
use crate::event::EventQueue;
use crate::late::LATE;
use crate::network::{NONE, NextHop, Routes};
use crate::port::store::{Meta, Store};
use crate::port::{DOWN, LOSSY, SERVED, STALE, TRACED, WATCHED};
use crate::{Address, DropCause, HostId, LinkId, Packet};

impl<P: Packet, Q: EventQueue<Pending>> Simulation<P, Q> {
    /// Advances time, up to `limit`, until there is an event to report.
    #[inline]
    pub(super) fn step(&mut self, limit: Instant) -> Option<(Instant, Event<P>)> {
        loop {
            if let Some(dropped) = self.dropped.pop_front() {
                return Some((self.now(), Event::Dropped(dropped)));
            }
            let (at, Pending(kind)) = self.queue.pop_until(limit)?;
            self.look_ahead();
            self.now = at.as_nanos();
            self.events += 1;
            match kind {
                Kind::Arrival(link) => {
                    if let Some(event) = self.arrival(link) {
                        return Some((at, event));
                    }
                }
                Kind::Late(link) => {
                    if let Some(event) = self.leave_late(link) {
                        return Some((at, event));
                    }
                }
                Kind::Free(link) => self.free(link),
                Kind::Change(link) => self.scripted_change(link),
                Kind::Timer(timer) => {
                    return Some((at, Event::Timer(self.timers.remove(timer))));
                }
            }
        }
    }

    /// Offers a packet to a link's port.
    #[inline]
    pub(super) fn offer(&mut self, link: u32, meta: Meta) {
        let port = &mut self.ports[link as usize];
        port.offered += 1;
        if port.flags & (DOWN | SERVED | WATCHED) != 0 {
            return self.offer_special(link, meta);
        }
        self.offer_fifo(link, meta);
    }

    /// Offers a packet to a port that is up and has a FIFO queue.
    #[inline]
    fn offer_fifo(&mut self, link: u32, mut meta: Meta) {
        let port = &mut self.ports[link as usize];
        port.settle(self.now);
        let len = meta.len;
        if !port.has_room(len) && !meta.is_exempt() {
            return self.discard(link, &meta, DropCause::Queue);
        }
        if port.unsent_bytes > port.mark_above {
            match meta.mark() {
                true => self.sides[link as usize].marked += 1,
                false if port.drops(&meta) => return self.discard(link, &meta, DropCause::Queue),
                false => {}
            }
        }
        port.admit(len);
        let time = self.times.time(port.rate, len);
        let end = port.end;
        if let Some(arrive) = port.send(self.now, meta, time) {
            if end == NONE && !self.ahead.pays {
                self.store.prefetch(&meta);
            }
            self.wait(arrive, Kind::Arrival(link));
        }
    }

    #[inline]
    pub(super) fn wait(&mut self, at: u64, kind: Kind) {
        self.queue.push(Instant::from_nanos(at), Pending(kind));
    }

    /// The first packet on a link reaches the link's end.
    #[inline]
    fn arrival(&mut self, link: u32) -> Option<Event<P>> {
        let port = &mut self.ports[link as usize];
        if port.flags & STALE != 0 && port.ring.front().is_none_or(|m| m.arrive != self.now) {
            return None;
        }
        let meta = *port.ring.front()?;
        port.remove_first(meta.len);
        let end = port.end;
        // The plan was made for this packet, so it is used up even if the packet is lost.
        let planned = match self.ahead.pays {
            true => std::mem::replace(&mut self.ahead.planned[link as usize], NONE),
            false => NONE,
        };
        let special = port.flags & (LOSSY | WATCHED | LATE) != 0;
        if let Some(next) = port.ring.front() {
            let at = Instant::from_nanos(next.arrive);
            self.queue.push(at, Pending(Kind::Arrival(link)));
            // With look-ahead these data would be evicted again before they are needed.
            if !self.ahead.pays {
                port.ring.prefetch(1);
                if end == NONE {
                    self.store.prefetch(next);
                }
            }
        }
        if special && !self.passes_end(link, &meta) {
            return None;
        }
        self.leave(link, &meta, planned)
    }

    /// Moves a packet on from the end of a link. `planned` is its next link, or [`NONE`] if it is not known.
    #[inline(always)] // once for each packet and hop
    pub(super) fn leave(&mut self, link: u32, meta: &Meta, planned: u32) -> Option<Event<P>> {
        let meta = *meta;
        let end = self.ports[link as usize].end;
        self.ports[link as usize].bytes += u64::from(meta.len);
        self.packet_hops += 1;
        if end == NONE {
            return self.deliver(link, &meta);
        }
        if planned != NONE {
            self.offer(planned, meta);
            return None;
        }
        match self.choose_next_link(end, &meta) {
            Some(next) => self.offer(next, meta),
            None => self.discard(link, &meta, DropCause::NoRoute),
        }
        None
    }

    /// Whether a packet at the end of a link that is lossy, watched or late leaves the link now. If not, it is
    /// lost or held there.
    #[inline(never)] // most links lose nothing
    fn passes_end(&mut self, link: u32, meta: &Meta) -> bool {
        if self.ports[link as usize].flags & LATE != 0 {
            return self.leaves_now(link, meta);
        }
        if self.loses(link, meta) {
            self.discard(link, meta, DropCause::Loss);
            return false;
        }
        self.note_if_watched(link, meta);
        true
    }

    /// Whether a link's loss process loses a packet now.
    #[inline]
    pub(super) fn loses(&mut self, link: u32, meta: &Meta) -> bool {
        let loss = &mut self.sides[link as usize].loss;
        let loses = loss
            .as_mut()
            .is_some_and(|l| l.loses(self.now, meta.is_data()));
        loses && !meta.is_exempt()
    }

    /// Reports a packet at the end of a link to the watch, if there is one.
    #[inline]
    pub(super) fn note_if_watched(&mut self, link: u32, meta: &Meta) {
        if self.ports[link as usize].flags & WATCHED != 0 {
            self.note_arrival(link, meta);
        }
    }

    /// Reports a packet at the end of a link to the watch.
    #[cold] // only while arrivals are watched
    fn note_arrival(&mut self, link: u32, meta: &Meta) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let port = &self.ports[link as usize];
        let moving = match port.flags & TRACED {
            0 => Some(self.times.time(port.rate, meta.len) + port.delay),
            _ => None,
        };
        watch.passed(self.now, link, meta, moving);
        if self.routes.destinations[meta.to as usize].downlink == link {
            watch.arrived(self.now, meta);
        }
    }

    /// The next link at a switch, if there is one. The switch's balancer chooses among several.
    #[inline(always)] // once for each packet and hop
    fn choose_next_link(&mut self, switch: u32, meta: &Meta) -> Option<u32> {
        let links = match self.routes.next(switch, meta.to) {
            NextHop::One(next) => {
                if self.sees_passing {
                    self.pass(switch, next, meta);
                }
                return Some(next);
            }
            NextHop::Any(links) => links,
            NextHop::Nowhere => return None,
        };
        let choices = links.len() as u32;
        let choice = match (meta.path(), &mut self.choosers[switch as usize]) {
            (Some(path), _) => self.routes.explicit(switch, path, choices),
            (None, Chooser::Ecmp(ecmp)) => ecmp.pick(meta.hash, choices),
            (None, Chooser::RandomSpray(spray)) => spray.pick(choices),
            (None, Chooser::Custom(balancer)) => {
                let ports = Ports {
                    links,
                    ports: &self.ports,
                    times: &self.times,
                    now: self.now,
                };
                balanced(balancer.as_mut(), meta, (&self.store, &self.routes), ports)
            }
        };
        Some(links[choice as usize])
    }

    /// Shows a switch's balancer a packet that has one next hop.
    #[cold] // only with balancers that see every packet
    fn pass(&mut self, switch: u32, next: u32, meta: &Meta) {
        if let (None, Chooser::Custom(balancer)) =
            (meta.path(), &mut self.choosers[switch as usize])
        {
            let ports = Ports {
                links: &[next],
                ports: &self.ports,
                times: &self.times,
                now: self.now,
            };
            balancer.passes(&hop(meta, (&self.store, &self.routes), ports));
        }
    }

    /// Delivers a packet at the end of a link to a host.
    #[inline]
    fn deliver(&mut self, link: u32, meta: &Meta) -> Option<Event<P>> {
        let destination = &self.routes.destinations[meta.to as usize];
        if destination.downlink != link {
            self.discard(link, meta, DropCause::NoRoute);
            return None;
        }
        let host = HostId(destination.host);
        let packet = self.store.remove(meta)?;
        Some(Event::Arrive {
            host,
            address: Address(meta.to),
            packet,
        })
    }

    #[cold] // a packet is dropped
    pub(super) fn discard(&mut self, link: u32, meta: &Meta, cause: DropCause) {
        self.sides[link as usize].drops.count(cause);
        let Some(packet) = self.store.remove(meta) else {
            return;
        };
        if self.observing {
            let link = LinkId(link);
            self.dropped.push_back(Dropped {
                link,
                cause,
                packet,
            });
        }
    }

    /// Offers a packet to a port that is down, served packet by packet or watched.
    #[cold] // links with a queue discipline, a trace or an up/down script
    fn offer_special(&mut self, link: u32, meta: Meta) {
        if let Some(watch) = &mut self.watch {
            let flow = self.store.flow_key(&meta);
            watch.offered(self.now, link, &meta, flow);
        }
        let flags = self.ports[link as usize].flags;
        if flags & DOWN != 0 {
            return self.discard(link, &meta, DropCause::Down);
        }
        match flags & SERVED {
            0 => self.offer_fifo(link, meta),
            _ => self.offer_served(link, meta),
        }
    }

    /// Executes the next step of a link's up/down script.
    fn scripted_change(&mut self, link: u32) {
        let side = &mut self.sides[link as usize];
        let script = &self.network.links()[link as usize].spec.up_down;
        let Some(&(_, up)) = script.get(side.script_at) else {
            return;
        };
        side.script_at += 1;
        if let Some(&(at, _)) = script.get(side.script_at) {
            self.queue.push(at, Pending(Kind::Change(link)));
        }
        self.change(link, up);
    }

    /// Takes a link up or down.
    pub(super) fn change(&mut self, link: u32, up: bool) {
        let port = &mut self.ports[link as usize];
        if up {
            port.flags &= !DOWN;
            return;
        }
        port.flags |= DOWN | STALE;
        self.ahead.planned[link as usize] = NONE;
        let mut lost = port.clear(self.now);
        while let Some(meta) = lost.pop() {
            self.discard(link, &meta, DropCause::Down);
        }
        self.discard_late(link);
        self.clear_served(link);
    }
}

/// The choice that a switch's own balancer makes among several next hops.
#[inline(never)] // switches with one next hop need no balancer
fn balanced<P: Packet>(
    balancer: &mut dyn Balancer,
    meta: &Meta,
    (store, routes): (&Store<P>, &Routes),
    ports: Ports<'_>,
) -> u32 {
    let choices = ports.links.len();
    (balancer.choose(&hop(meta, (store, routes), ports)) % choices) as u32
}

/// The view of a packet that balancers get.
fn hop<'a, P: Packet>(
    meta: &Meta,
    (store, routes): (&Store<P>, &'a Routes),
    ports: Ports<'a>,
) -> Hop<'a> {
    Hop {
        now: Instant::from_nanos(ports.now),
        flow_hash: meta.hash,
        flow_key: store.flow_key(meta),
        class: meta.class(),
        is_data: meta.is_data(),
        wire_len: meta.len,
        packet: meta.index,
        to: meta.to,
        destinations: &routes.destinations,
        ports,
    }
}
