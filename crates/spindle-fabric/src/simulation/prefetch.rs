//! Look-ahead: the memory that near events will need is prefetched.
//!
//! In a large network nearly every hop misses the near caches for its port and its packet, one after the other.
//! The wheel reports which events have become near. Reading what they need in a few passes lets the memory
//! serve many of them at once. Look-ahead affects only the running time, not the results. Next hops that depend
//! only on the packet are computed here and kept; all other data is only prefetched.

use spindle_units::prefetch;

use super::{Kind, Pending, Simulation};
use crate::balance::Chooser;
use crate::event::EventQueue;
use crate::network::{NONE, NextHop};
use crate::port::STALE;
use crate::{HostId, Packet};

/// Networks with fewer links than this stay in the caches anyway, so that look-ahead would only cost time. By
/// measurement (`docs/performance.md`) a fat-tree of 768 links gains nothing, and fat-trees of 1536 and of 6144
/// links do gain.
const LARGE: usize = 1024;

/// The state of look-ahead.
#[derive(Debug)]
pub(super) struct LookAhead {
    /// Whether the network is large enough for it.
    pub(super) pays: bool,
    /// For each link, the next hop of the first packet on it, or [`NONE`] if it was not computed.
    pub(super) planned: Box<[u32]>,
    /// Scratch: links with an arrival soon.
    near: Vec<u32>,
    /// Scratch: the next hops of these arrivals.
    then: Vec<u32>,
    /// Packets that will soon reach their hosts: position in the store, host.
    landing: Vec<(u32, u32)>,
}

impl LookAhead {
    pub(super) fn new(links: usize) -> Self {
        Self {
            pays: links >= LARGE,
            planned: vec![NONE; links].into(),
            near: Vec::new(),
            then: Vec::new(),
            landing: Vec::new(),
        }
    }

    /// Forgets the plans, because they may no longer be valid.
    pub(super) fn forget(&mut self) {
        self.planned.fill(NONE);
    }
}

impl<P: Packet, Q: EventQueue<Pending>> Simulation<P, Q> {
    /// Processes the arrivals that became near, if there are any since the last call.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if !self.ahead.pays {
            return;
        }
        let (ports, near) = (&self.ports, &mut self.ahead.near);
        self.queue.approaching(|Pending(kind)| {
            if let Kind::Arrival(link) = kind {
                prefetch(&ports[link as usize]);
                near.push(link);
            }
        });
        if !self.ahead.near.is_empty() {
            self.look_at_near();
        }
    }

    /// Each pass has prefetched the data that the next pass reads.
    fn look_at_near(&mut self) {
        let mut near = std::mem::take(&mut self.ahead.near);
        for &link in &near {
            let ring = &self.ports[link as usize].ring;
            ring.prefetch(0);
            ring.prefetch(1);
        }
        self.ahead.landing.clear();
        for link in near.drain(..) {
            self.plan(link);
        }
        self.ahead.near = near;
        for next in self.ahead.then.drain(..) {
            self.ports[next as usize].prefetch();
        }
    }

    /// Computes the next hop of the first packet on a link and prefetches the port there. For a packet that
    /// reaches its host, it prefetches the packet.
    #[inline]
    fn plan(&mut self, link: u32) {
        let port = &self.ports[link as usize];
        let Some(meta) = port.ring.front().filter(|_| port.flags & STALE == 0) else {
            return;
        };
        if port.end == NONE {
            let host = self.routes.destinations[meta.to as usize].host;
            self.ahead.landing.push((meta.index, host));
            self.store.prefetch(meta);
            return;
        }
        let next = match self.routes.next(port.end, meta.to) {
            // A balancer that counts passing packets must be called when the packet is there.
            NextHop::One(_) if self.sees_passing => return,
            NextHop::One(next) => next,
            NextHop::Any(links) => {
                let choices = links.len() as u32;
                let choice = match (meta.path(), &self.choosers[port.end as usize]) {
                    (Some(path), _) => self.routes.explicit(port.end, path, choices),
                    (None, Chooser::Ecmp(ecmp)) => ecmp.pick(meta.hash, choices),
                    // Other balancers may depend on the state when the packet is there.
                    (None, _) => return,
                };
                links[choice as usize]
            }
            NextHop::Nowhere => return,
        };
        self.ahead.planned[link as usize] = next;
        self.ahead.then.push(next);
        prefetch(&self.ports[next as usize]);
    }

    /// Shows the packets that will soon reach their hosts, so that the hosts' memory can be prefetched, too. It
    /// calls `see` for all of them with step 0, then for all with step 1, and so on up to `steps`, because one
    /// pointer leads to the next. Some packets are never shown, and some that are shown are lost on the last
    /// link.
    #[inline]
    pub fn approaching(&mut self, steps: u32, mut see: impl FnMut(u32, HostId, &P)) {
        if self.ahead.landing.is_empty() {
            return;
        }
        for step in 0..steps {
            for &(index, host) in &self.ahead.landing {
                if let Some(packet) = self.store.packet(index) {
                    see(step, HostId(host), packet);
                }
            }
        }
        self.ahead.landing.clear();
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::Instant;

    use crate::topology::FatTree;
    use crate::{Address, Class, HeapQueue, LinkId, Loss, Packet, Pending, Simulation};

    #[derive(Debug, PartialEq)]
    struct Numbered(u64);

    impl Packet for Numbered {
        fn wire_len(&self) -> u32 {
            40 + (self.0 % 1461) as u32
        }
        fn flow_hash(&self) -> u64 {
            self.0 % 50
        }
        fn flow_key(&self) -> u64 {
            self.0 % 50
        }
        fn class(&self) -> Class {
            Class::Low
        }
        fn is_data(&self) -> bool {
            true
        }
        fn ecn_capable(&self) -> bool {
            false
        }
        fn mark_ce(&mut self) {}
    }

    /// Runs 4000 packets with losses and a link that goes down and up again. Returns all events as text, and
    /// how many packets were shown before their arrival.
    fn story<Q: crate::EventQueue<Pending>>(queue: Q, pays: bool) -> (Vec<String>, usize) {
        let network = FatTree::reference(4).build().unwrap();
        let links = network.links().len() as u32;
        let mut simulation = Simulation::with_queue(network, 1, queue);
        simulation.ahead.pays = pays;
        simulation.queue.watch();
        simulation.observe_drops(true);
        for link in (0..links).step_by(7) {
            simulation.set_loss(LinkId(link), &Loss::nth([3, 4, 30]).unwrap());
        }
        let (mut events, mut coming) = (Vec::new(), 0);
        for number in 0..4000u64 {
            let (from, to) = ((number % 16) as u32, (number * 7 % 16) as u32);
            if from != to && number % 3 == 0 {
                simulation.inject_on_path(
                    Address(from),
                    Address(to),
                    Numbered(number),
                    number as u32,
                );
            } else if from != to {
                simulation.inject(Address(from), Address(to), Numbered(number));
            }
            simulation.set_up(LinkId(40), number % 100 > 10);
            let limit = Instant::from_nanos(number * 30);
            while let Some(event) = simulation.next_event_until(limit) {
                simulation.approaching(2, |_, _, _| coming += 1);
                events.push(format!("{event:?}"));
            }
        }
        (events, coming)
    }

    #[test]
    fn look_ahead_does_not_change_the_results() {
        let (plain, none) = story(HeapQueue::default(), true);
        let (without, also_none) = story(crate::Wheel::default(), false);
        let (with, coming) = story(crate::Wheel::default(), true);
        assert_eq!((none, also_none), (0, 0));
        assert!(coming > 0, "{coming} shown before their arrival");
        assert!(
            plain.iter().any(|e| e.contains("Down")) && plain.iter().any(|e| e.contains("Loss"))
        );
        assert_eq!(plain, without);
        assert_eq!(plain, with);
    }
}
