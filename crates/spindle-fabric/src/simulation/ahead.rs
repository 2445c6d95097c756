//! Looking ahead: what soon comes to pass is read while nothing waits for it.
//!
//! In a large network nearly every hop finds its port and its packet in no near cache, one after the
//! other. The wheel says which events have come near; reading what they need in a few passes lets the
//! memory deliver for many of them at once. Nothing that happens depends on it but the time it takes:
//! next hops that follow from the packet alone are worked out here and kept, all else is only touched.

use spindle_units::prefetch;

use super::port::STALE;
use super::{Kind, Pending, Simulation};
use crate::balance::Chooser;
use crate::event::EventQueue;
use crate::network::{NONE, NextHop};
use crate::{HostId, Packet};

/// Networks of fewer links than this stay in the caches by themselves, so that looking ahead would only
/// cost: by measurement (`docs/performance.md`) a fat-tree of 768 links gains nothing, ones of 1536 and of
/// 6144 do.
const LARGE: usize = 1024;

/// What is known ahead of time.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The network is large enough for it.
    pub(super) pays: bool,
    /// By link: where the first packet on it goes next, [`NONE`] if that was not worked out.
    pub(super) planned: Box<[u32]>,
    /// Scratch: links with an arrival soon.
    near: Vec<u32>,
    /// Scratch: where these go next.
    then: Vec<u32>,
    /// Packets that soon reach their hosts: place in the store, host.
    landing: Vec<(u32, u32)>,
}

impl Ahead {
    pub(super) fn new(links: usize) -> Self {
        Self {
            pays: links >= LARGE,
            planned: vec![NONE; links].into(),
            near: Vec::new(),
            then: Vec::new(),
            landing: Vec::new(),
        }
    }

    /// Forgets the plans: they may no longer be right.
    pub(super) fn forget(&mut self) {
        self.planned.fill(NONE);
    }
}

impl<P: Packet, Q: EventQueue<Pending>> Simulation<P, Q> {
    /// Looks at the arrivals that have come near, if some have since the last call.
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

    /// Each pass has brought near what the next one reads.
    fn look_at_near(&mut self) {
        let mut near = std::mem::take(&mut self.ahead.near);
        for &link in &near {
            let ring = &self.ports[link as usize].ring;
            ring.bring(0);
            ring.bring(1);
        }
        self.ahead.landing.clear();
        for link in near.drain(..) {
            self.plan(link);
        }
        self.ahead.near = near;
        for next in self.ahead.then.drain(..) {
            self.ports[next as usize].bring();
        }
    }

    /// Works out where the first packet on a link goes next, and has the port there brought near, or
    /// the packet for its host.
    #[inline]
    fn plan(&mut self, link: u32) {
        let port = &self.ports[link as usize];
        let Some(meta) = port.ring.front().filter(|_| port.flags & STALE == 0) else {
            return;
        };
        if port.end == NONE {
            let host = self.routes.destinations[meta.to as usize].host;
            self.ahead.landing.push((meta.index, host));
            self.store.bring(meta);
            return;
        }
        let next = match self.routes.next(port.end, meta.to) {
            // Whoever counts what passes is asked when the packet is there.
            NextHop::One(_) if self.sees_passing => return,
            NextHop::One(next) => next,
            NextHop::Any(links) => {
                let choices = links.len() as u32;
                let choice = match (meta.path(), &self.choosers[port.end as usize]) {
                    (Some(path), _) => self.routes.explicit(port.end, path, choices),
                    (None, Chooser::Ecmp(ecmp)) => ecmp.pick(meta.hash, choices),
                    // Others may choose by the state of things when the packet is there.
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

    /// Shows the packets that soon reach their hosts, so that the hosts' memory can be brought near as
    /// well: all of them in step 0, then all in step 1, and so on up to `steps`, as one thing leads to
    /// the next. Some are never shown, and some that are shown are lost on the last link.
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

    /// All that happens to 4000 packets with losses and a link that goes down and up again, as text,
    /// and how many packets were seen coming.
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
    fn looking_ahead_changes_nothing() {
        let (plain, none) = story(HeapQueue::default(), true);
        let (without, also_none) = story(crate::Wheel::default(), false);
        let (with, coming) = story(crate::Wheel::default(), true);
        assert_eq!((none, also_none), (0, 0));
        assert!(coming > 0, "{coming} seen coming");
        assert!(
            plain.iter().any(|e| e.contains("Down")) && plain.iter().any(|e| e.contains("Loss"))
        );
        assert_eq!(plain, without);
        assert_eq!(plain, with);
    }
}
