//! The packets that the tests carry, and the loop that runs them.

use spindle_fabric::{Address, Class, Event, Packet, Pending, Simulation};
use spindle_fabric::{DropCause, EventQueue, LinkId};

/// A packet whose properties can all be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) id: u64,
    pub(crate) hash: u64,
    pub(crate) len: u32,
    pub(crate) data: bool,
    pub(crate) class: Class,
    pub(crate) ect: bool,
    pub(crate) ce: bool,
    /// The packet may not be lost.
    pub(crate) exempt: bool,
    pub(crate) important: bool,
}

impl Parcel {
    /// A data packet of 1500 B, of low priority, not ECN-capable. Each packet is its own flow.
    pub(crate) fn new(id: u64) -> Self {
        Self {
            id,
            hash: id,
            len: 1500,
            data: true,
            class: Class::Low,
            ect: false,
            ce: false,
            exempt: false,
            important: false,
        }
    }

    pub(crate) fn len(self, len: u32) -> Self {
        Self { len, ..self }
    }

    pub(crate) fn high(self) -> Self {
        Self {
            class: Class::High,
            ..self
        }
    }

    pub(crate) fn exempt(self) -> Self {
        Self {
            exempt: true,
            ..self
        }
    }

    pub(crate) fn ect(self) -> Self {
        Self { ect: true, ..self }
    }

    pub(crate) fn control(self) -> Self {
        Self {
            data: false,
            len: 40,
            ..self
        }
    }
}

impl Packet for Parcel {
    fn wire_len(&self) -> u32 {
        self.len
    }
    fn flow_hash(&self) -> u64 {
        self.hash
    }
    fn flow_key(&self) -> u64 {
        self.hash
    }
    fn class(&self) -> Class {
        self.class
    }
    fn is_data(&self) -> bool {
        self.data
    }
    fn may_be_lost(&self) -> bool {
        !self.exempt
    }
    fn is_important(&self) -> bool {
        self.important
    }
    fn ecn_capable(&self) -> bool {
        self.ect
    }
    fn mark_ce(&mut self) {
        assert!(self.ect && !self.ce, "marked twice or not ECN-capable");
        self.ce = true;
    }
}

/// The result of a run: arrivals as (ns, address, packet) and drops as (ns, link, cause, id).
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) arrivals: Vec<(u64, Address, Parcel)>,
    pub(crate) drops: Vec<(u64, LinkId, DropCause, u64)>,
}

impl Outcome {
    /// Ids in the order of arrival.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.arrivals.iter().map(|(_, _, p)| p.id).collect()
    }

    /// Arrival times in the order of arrival.
    pub(crate) fn times(&self) -> Vec<u64> {
        self.arrivals.iter().map(|(at, _, _)| *at).collect()
    }

    /// Ids of dropped packets in the order of dropping.
    pub(crate) fn dropped(&self) -> Vec<u64> {
        self.drops.iter().map(|(_, _, _, id)| *id).collect()
    }

    /// Adds an event.
    pub(crate) fn note(&mut self, at: u64, event: Event<Parcel>) {
        match event {
            Event::Arrive {
                address, packet, ..
            } => self.arrivals.push((at, address, packet)),
            Event::Dropped(drop) => {
                self.drops.push((at, drop.link, drop.cause, drop.packet.id));
            }
            Event::Timer(_) => {}
        }
    }
}

/// Runs the simulation until no event is left.
pub(crate) fn drain<Q: EventQueue<Pending>>(simulation: &mut Simulation<Parcel, Q>) -> Outcome {
    let mut outcome = Outcome::default();
    while let Some((at, event)) = simulation.next_event() {
        outcome.note(at.as_nanos(), event);
    }
    outcome
}
