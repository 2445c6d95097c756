//! The server's table of encapsulation ids: bounded, whatever comes.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, Segment, SeqNumber};

use super::common::Way;
use super::path::Path;
use super::pmtu::BASE;
use super::pool;

/// Answer at most this many times what came, until the peer's address is proven (RFC 9000, section
/// 8.1 has the same bound).
const AMPLIFICATION: usize = 3;
/// How long an id whose subflow ended is kept, for what may still be on the way.
const LINGER: Duration = Duration::from_secs(60);
/// Where packets are scattered, all of a client's addresses carry them: when its subflow's own has been
/// silent for so long, one that is proven then takes its place (a few timeouts).
const SILENCE: Duration = Duration::from_secs(1);
/// A handshake that is not complete by then is forgotten.
const HALF_OPEN: Duration = Duration::from_secs(75);
/// How far beyond our SYN the acknowledgement that completes a handshake may be.
const NEAR: i32 = 1 << 20;

/// One id.
pub(super) struct Entry {
    pub(super) path: Path,
    /// The peer's outer address, and ours.
    pub(super) way: Way,
    pub(super) socket: usize,
    pub(super) half_open: bool,
    pub(super) dirty: bool,
    /// When a new address of the peer was challenged last.
    pub(super) challenged: Option<Instant>,
    /// The address that the peer's subflow itself may have moved to.
    pub(super) moving: Option<SocketAddr>,
    /// When something came from its address last.
    pub(super) heard: Instant,
    /// The subflow's packets are scattered: it has further addresses, and these are proven.
    pub(super) scatters: bool,
    pub(super) pool: Vec<(Way, usize)>,
    /// Bytes that may be sent before the address is proven.
    budget: usize,
    /// What acknowledges our SYN.
    expected: Option<SeqNumber>,
}

impl Entry {
    pub(super) fn new(
        now: Instant,
        (id, ends): (u64, (Endpoint, Endpoint)),
        way: Way,
        socket: usize,
    ) -> Self {
        Self {
            path: Path::new(now, id, ends, BASE),
            way,
            socket,
            half_open: false,
            dirty: false,
            challenged: None,
            moving: None,
            heard: now,
            scatters: false,
            pool: Vec::new(),
            budget: 0,
            expected: None,
        }
    }

    /// Whether it is an address of the subflow's, proven.
    pub(super) fn knows(&self, from: SocketAddr) -> bool {
        self.way.0 == from || self.pool.iter().any(|(way, _)| way.0 == from)
    }

    /// A further address is proven; false: the peer has no more sockets than are known.
    pub(super) fn widen(&mut self, way: Way, socket: usize) -> bool {
        let room = self.pool.len() < pool::SOCKETS;
        if room {
            self.pool.push((way, socket));
        }
        room
    }

    /// Nothing has come from the subflow's own address for a while.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        now.since(self.heard) >= SILENCE
    }

    /// A proven address is the subflow's own from now on; returns whether it was another.
    pub(super) fn moves(&mut self, now: Instant, way: Way, socket: usize) -> bool {
        let moved = self.way.0 != way.0;
        if moved {
            self.path.search.moved(now);
            // What moved one has moved the others.
            self.pool.clear();
        }
        self.moving = None;
        (self.way, self.socket, self.heard) = (way, socket, now);
        moved
    }

    /// Where a scattered segment goes.
    pub(super) fn any_way(&self, draw: u64) -> (Way, usize) {
        let drawn = draw as usize % (self.pool.len() + 1);
        let further = self.pool.get(drawn).copied();
        further.unwrap_or((self.way, self.socket))
    }

    /// Bytes came from the address.
    pub(super) fn credit(&mut self, bytes: usize) {
        if self.half_open {
            self.budget = self.budget.saturating_add(AMPLIFICATION * bytes);
        }
    }

    /// Whether that many bytes may go to the address.
    pub(super) fn may_send(&self, bytes: usize) -> bool {
        !self.half_open || self.budget >= bytes
    }

    /// Bytes go to the address.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.budget = self.budget.saturating_sub(bytes);
    }

    /// A segment goes out.
    pub(super) fn sends(&mut self, s: &Segment) {
        self.spend(s.encapsulated_len());
        if s.flags.contains(Flags::SYN) {
            self.expected = Some(s.seq + 1);
        }
    }

    /// Whether the segment proves that the peer got our SYN, and so is where it says.
    pub(super) fn completes(&self, s: &Segment) -> bool {
        self.half_open
            && s.flags.contains(Flags::ACK)
            && self
                .expected
                .is_some_and(|e| (0..NEAR).contains(&s.ack.distance(e)))
    }
}

/// The table.
pub(super) struct Ids {
    entries: HashMap<u64, Entry>,
    /// Half-open ids, oldest first; some may have become complete since.
    order: VecDeque<u64>,
    half_open: usize,
    max: usize,
    max_half_open: usize,
    evicted: u64,
}

impl Ids {
    pub(super) fn new(max: usize, max_half_open: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            half_open: 0,
            max,
            max_half_open: max_half_open.max(1),
            evicted: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn half_open(&self) -> usize {
        self.half_open
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) fn get(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    pub(super) fn peek(&self, id: u64) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// Adds an id that is not there; false: there is no room.
    pub(super) fn insert(&mut self, id: u64, mut entry: Entry, half_open: bool) -> bool {
        if self.entries.len() - self.half_open >= self.max {
            return false;
        }
        entry.half_open = half_open;
        if half_open {
            while self.half_open >= self.max_half_open {
                self.evict();
            }
            if self.order.len() > 2 * self.max_half_open {
                let entries = &self.entries;
                self.order
                    .retain(|id| entries.get(id).is_some_and(|e| e.half_open));
            }
            self.order.push_back(id);
            self.half_open += 1;
        }
        self.entries.insert(id, entry);
        true
    }

    /// Forgets the oldest half-open id.
    fn evict(&mut self) {
        match self.order.pop_front() {
            Some(id) if self.entries.get(&id).is_some_and(|e| e.half_open) => {
                self.entries.remove(&id);
                self.half_open -= 1;
                self.evicted += 1;
            }
            Some(_) => {}
            // Cannot be: every half-open id is in the queue.
            None => self.half_open = 0,
        }
    }

    /// The handshake of an id is complete.
    pub(super) fn complete(&mut self, id: u64) {
        if let Some(e) = self.entries.get_mut(&id).filter(|e| e.half_open) {
            e.half_open = false;
            self.half_open -= 1;
        }
    }

    /// Forgets what is idle, ended or never completed.
    pub(super) fn sweep(&mut self, now: Instant, idle: Duration) {
        let gone = &mut self.half_open;
        self.entries.retain(|_, e| {
            let quiet = now.since(e.path.used);
            let keep = quiet < idle
                && !(e.path.ended() && quiet >= LINGER)
                && !(e.half_open && quiet >= HALF_OPEN);
            *gone -= usize::from(!keep && e.half_open);
            keep
        });
        let entries = &self.entries;
        self.order
            .retain(|id| entries.get(id).is_some_and(|e| e.half_open));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, SocketAddr};

    fn entry(id: u64) -> Entry {
        let end = Endpoint::new(IpAddr::from([10, 0, 0, 1]), 1);
        let way: SocketAddr = "192.0.2.1:9".parse().expect("an address");
        Entry::new(Instant::ZERO, (id, (end, end)), (way, None), 0)
    }

    #[test]
    fn half_open_ids_make_room_and_complete_ones_stay() {
        let mut ids = Ids::new(3, 10);
        ids.insert(1, entry(1), true);
        ids.complete(1);
        for id in 2..100_000 {
            assert!(ids.insert(id, entry(id), true));
            assert!(ids.len() <= 11 && ids.order.len() <= 21);
        }
        assert!(ids.peek(1).is_some());
        assert_eq!((ids.half_open(), ids.evicted()), (10, 99_998 - 10));
        for id in 99_990..99_993 {
            ids.complete(id);
        }
        assert!(!ids.insert(7, entry(7), true), "full");
        let later = Instant::ZERO + Duration::from_secs(80);
        ids.sweep(later, Duration::from_secs(900));
        assert_eq!((ids.len(), ids.half_open(), ids.order.len()), (4, 0, 0));
    }

    #[test]
    fn an_unproven_address_gets_three_times_what_it_sent() {
        let mut e = entry(1);
        e.half_open = true;
        e.credit(60);
        assert!(e.may_send(180) && !e.may_send(181));
        e.spend(100);
        assert!(e.may_send(80) && !e.may_send(81));
    }

    #[test]
    fn one_address_more_than_there_are_sockets_shows_that_they_moved() {
        let way = |port| (SocketAddr::from(([192, 0, 2, 1], port)), None);
        let mut e = entry(1);
        for port in 10..25 {
            assert!(e.widen(way(port), 0));
        }
        assert!(!e.widen(way(25), 0) && !e.knows(way(25).0));
        let later = Instant::ZERO + SILENCE;
        assert!(e.is_silent(later));
        assert!(e.moves(later, way(25), 0) && !e.is_silent(later));
        assert!(e.knows(way(25).0) && !e.knows(way(9).0) && !e.knows(way(24).0));
        assert!(e.widen(way(26), 0));
        assert!(!e.moves(later, way(25), 0) && e.knows(way(26).0));
    }
}
