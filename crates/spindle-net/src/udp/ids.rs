//! The server's table of encapsulation ids: one for each subflow that the stack has, whatever comes.
//!
//! An id is *new* until the end of the turn in which its first datagram came, and is then kept only if the
//! stack has a subflow for it. So floods of SYNs that are answered with cookies, of segments of no connection
//! and of challenge replies leave nothing here. Later the stack is asked again every [`CHECK`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, Segment, SeqNumber};

use super::common::Way;
use super::path::Path;
use super::pmtu::BASE;
use super::pool;

/// An address that is not proven gets at most this many times the bytes that came from it (RFC 9000,
/// section 8.1).
pub(super) const AMPLIFICATION: usize = 3;
/// How often the stack is asked whether it still has a subflow; an id outlives its subflow by so much at most.
const CHECK: Duration = Duration::from_secs(5);
/// Where packets are scattered, all of a client's addresses carry them: when its subflow's own has been
/// silent for so long, one that is proven then takes its place (a few timeouts).
const SILENCE: Duration = Duration::from_secs(1);
/// Least time between challenges to one id's addresses.
const CHALLENGE_GAP: Duration = Duration::from_millis(50);
/// New ids of one turn at most: a turn reads about as many datagrams from a socket.
const MAX_NEW: usize = 4096;

/// Whoever is behind an outer address: an IPv4 address, or an IPv6 /64, in which one host may have as many
/// addresses as it likes (RFC 4862, section 5.5.3; RFC 8981).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Source(IpAddr);

impl Source {
    pub(super) fn of(way: Way) -> Self {
        Self(match way.0.ip() {
            IpAddr::V4(addr) => addr.into(),
            IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64).into(),
        })
    }
}

/// How many ids there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// With a proven address.
    pub(super) max: usize,
    /// Without one; the oldest makes room.
    pub(super) unproven: usize,
    /// Of one source, all of them; its oldest without a proven address makes room.
    pub(super) per_source: usize,
    /// Of one source, without a proven address; its oldest one makes room.
    pub(super) unproven_per_source: usize,
}

/// One id.
pub(super) struct Entry {
    pub(super) path: Path,
    /// The peer's outer address, and ours.
    pub(super) way: Way,
    pub(super) socket: usize,
    /// The peer may have forged its address: neither the handshake nor a challenge has shown otherwise.
    pub(super) unproven: bool,
    pub(super) dirty: bool,
    /// When an address of the peer was challenged last.
    challenged: Option<Instant>,
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
    /// Its place in the order of the ids; none while it is new.
    order: Option<u64>,
    /// When the stack is to be asked about it.
    check_at: Instant,
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
            unproven: true,
            dirty: false,
            challenged: None,
            moving: None,
            heard: now,
            scatters: false,
            pool: Vec::new(),
            budget: 0,
            expected: None,
            order: None,
            check_at: now,
        }
    }

    /// Whether it came in this turn, so that the stack has not been asked about it yet.
    pub(super) fn is_new(&self) -> bool {
        self.order.is_none()
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

    /// Whether a challenge may be sent now; it is then taken for sent.
    pub(super) fn may_challenge(&mut self, now: Instant) -> bool {
        let may = self
            .challenged
            .is_none_or(|t| now.since(t) >= CHALLENGE_GAP);
        if may {
            self.challenged = Some(now);
        }
        may
    }

    /// Whether only a challenge can prove the address: no SYN of ours is there to be acknowledged.
    pub(super) fn wants_challenge(&self) -> bool {
        self.unproven && self.expected.is_none() && !self.is_new()
    }

    /// A proven address is the subflow's own from now on; returns whether it was another.
    fn moves(&mut self, now: Instant, way: Way, socket: usize) -> bool {
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
        if self.unproven {
            self.budget = self.budget.saturating_add(AMPLIFICATION * bytes);
        }
    }

    /// Whether that many bytes may go to the address; they are then taken for sent.
    pub(super) fn pays(&mut self, bytes: usize) -> bool {
        if !self.unproven {
            return true;
        }
        let rest = self.budget.checked_sub(bytes);
        self.budget = rest.unwrap_or(self.budget);
        rest.is_some()
    }

    /// Whether a segment may go to the address; it is then taken for sent.
    pub(super) fn pays_for(&mut self, s: &Segment) -> bool {
        if !self.pays(self.path.bytes_of(s)) {
            return false;
        }
        if s.flags.contains(Flags::SYN) {
            self.expected = Some(s.seq + 1);
        }
        true
    }

    /// Whether the segment proves that the peer got our SYN, and so is where it says. It acknowledges the SYN
    /// alone: nothing follows that before the handshake is complete.
    pub(super) fn completes(&self, s: &Segment) -> bool {
        self.unproven && s.flags.contains(Flags::ACK) && self.expected == Some(s.ack)
    }
}

/// Ids of one source.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    all: usize,
    unproven: usize,
}

/// The table.
pub(super) struct Ids {
    entries: HashMap<u64, Box<Entry>>,
    bounds: Bounds,
    new: Vec<u64>,
    /// Those that are not new, by source.
    sources: HashMap<Source, Held>,
    /// Those that are not new and not proven, the oldest first, by their order.
    unproven: BTreeMap<u64, u64>,
    /// The same by source.
    unproven_of: BTreeMap<(Source, u64), u64>,
    /// When the stack is to be asked about which.
    checks: BTreeSet<(Instant, u64)>,
    /// The order of the last one.
    last: u64,
    evicted: u64,
}

impl Ids {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            entries: HashMap::new(),
            bounds,
            new: Vec::new(),
            sources: HashMap::new(),
            unproven: BTreeMap::new(),
            unproven_of: BTreeMap::new(),
            checks: BTreeSet::new(),
            last: 0,
            evicted: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn half_open(&self) -> usize {
        self.unproven.len()
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) fn get(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&id).map(Box::as_mut)
    }

    pub(super) fn peek(&self, id: u64) -> Option<&Entry> {
        self.entries.get(&id).map(Box::as_ref)
    }

    /// Adds an id that is not there, as a new one; false: there is no room, for its source or at all.
    pub(super) fn insert(&mut self, id: u64, entry: Entry) -> bool {
        let held = self.held(Source::of(entry.way));
        let proven = self.entries.len() - self.new.len() - self.unproven.len();
        // Others make room when the stack is known to have a subflow for it.
        let room = proven < self.bounds.max
            && held.all - held.unproven < self.bounds.per_source
            && self.new.len() < MAX_NEW;
        if room {
            self.new.push(id);
            self.entries.insert(id, Box::new(entry));
        }
        room
    }

    fn held(&self, source: Source) -> Held {
        self.sources.get(&source).copied().unwrap_or_default()
    }

    /// The ids that came in this turn: each is to be [kept](Self::keep) or [removed](Self::remove).
    pub(super) fn take_new(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.new)
    }

    /// The stack has a subflow for a new id. Where there are too many, older ones make room.
    pub(super) fn keep(&mut self, now: Instant, id: u64) {
        let Some(entry) = self.entries.get_mut(&id).filter(|e| e.is_new()) else {
            return;
        };
        self.last += 1;
        entry.order = Some(self.last);
        self.count(id, true);
        self.check_later(now, id);
        let Some(source) = self.peek(id).map(|e| Source::of(e.way)) else {
            return;
        };
        let held = self.held(source);
        if held.unproven > self.bounds.unproven_per_source || held.all > self.bounds.per_source {
            let mut own = self
                .unproven_of
                .range((source, 0)..=(source, u64::MAX))
                .map(|(_, id)| *id);
            if let Some(oldest) = own.next() {
                self.evict(oldest);
            }
        } else if self.unproven.len() > self.bounds.unproven
            && let Some(oldest) = self.unproven.values().next().copied()
        {
            self.evict(oldest);
        }
    }

    fn evict(&mut self, id: u64) {
        self.remove(id);
        self.evicted += 1;
    }

    /// Adds an id that is not new to the counts and orders of its source, or takes it out of them.
    fn count(&mut self, id: u64, add: bool) {
        let Some((entry, order)) = self.peek(id).and_then(|e| Some((e, e.order?))) else {
            return;
        };
        let (source, unproven) = (Source::of(entry.way), entry.unproven);
        let held = self.sources.entry(source).or_default();
        let change = |n: usize, by: usize| if add { n + by } else { n - by };
        held.all = change(held.all, 1);
        held.unproven = change(held.unproven, usize::from(unproven));
        if held.all == 0 {
            self.sources.remove(&source);
        }
        if unproven && add {
            self.unproven.insert(order, id);
            self.unproven_of.insert((source, order), id);
        } else {
            self.unproven.remove(&order);
            self.unproven_of.remove(&(source, order));
        }
    }

    /// Forgets an id.
    pub(super) fn remove(&mut self, id: u64) -> Option<Box<Entry>> {
        self.count(id, false);
        let entry = self.entries.remove(&id)?;
        self.checks.remove(&(entry.check_at, id));
        Some(entry)
    }

    /// The address of an id is proven.
    pub(super) fn prove(&mut self, id: u64) {
        self.change(id, |e| e.unproven = false);
    }

    /// The subflow's own address is this one, which is proven; returns whether it was another.
    pub(super) fn moves(&mut self, now: Instant, id: u64, way: Way, socket: usize) -> bool {
        let mut moved = false;
        self.change(id, |e| {
            moved = e.moves(now, way, socket);
            e.unproven = false;
        });
        moved
    }

    /// Changes what the counts depend on.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
        self.count(id, false);
        self.get(id).map(change);
        self.count(id, true);
    }

    /// The stack is to be asked about an id some time later.
    pub(super) fn check_later(&mut self, now: Instant, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.check_at = now + CHECK;
            self.checks.insert((entry.check_at, id));
        }
    }

    /// When the stack is next to be asked.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.checks.first().map(|(at, _)| *at)
    }

    /// An id that the stack is to be asked about now.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        let (at, _) = self.checks.first()?;
        if *at > now {
            return None;
        }
        self.checks.pop_first().map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn bounds() -> Bounds {
        Bounds {
            max: 20,
            unproven: 10,
            per_source: 8,
            unproven_per_source: 4,
        }
    }

    fn way(host: u8, port: u16) -> Way {
        (SocketAddr::from(([192, 0, 2, host], port)), None)
    }

    fn entry(id: u64, host: u8) -> Entry {
        let end = Endpoint::new(IpAddr::from([10, 0, 0, 1]), 1);
        Entry::new(NOW, (id, (end, end)), way(host, 9), 0)
    }

    /// Takes an id that the stack has a subflow for.
    fn add(ids: &mut Ids, id: u64, host: u8) -> bool {
        let room = ids.insert(id, entry(id, host));
        for id in ids.take_new() {
            ids.keep(NOW, id);
        }
        check(ids);
        room
    }

    /// Whether everything that is kept about ids agrees.
    fn check(ids: &Ids) {
        let kept = || ids.entries.values().filter(|e| !e.is_new());
        assert_eq!(kept().count(), ids.checks.len());
        let all: usize = ids.sources.values().map(|h| h.all).sum();
        assert_eq!(all, kept().count());
        let unproven: usize = ids.sources.values().map(|h| h.unproven).sum();
        assert_eq!(unproven, kept().filter(|e| e.unproven).count());
        assert_eq!(
            (unproven, unproven),
            (ids.unproven.len(), ids.unproven_of.len())
        );
        assert!(ids.sources.values().all(|h| h.all > 0));
    }

    #[test]
    fn ids_without_a_subflow_leave_nothing() {
        let mut ids = Ids::new(bounds());
        for id in 1..100_000 {
            assert!(ids.insert(id, entry(id, id as u8)));
            for id in ids.take_new() {
                assert!(ids.remove(id).is_some());
            }
        }
        check(&ids);
        assert_eq!((ids.len(), ids.sources.len(), ids.evicted()), (0, 0, 0));
        assert_eq!(ids.next_check(), None);
    }

    #[test]
    fn new_ids_of_one_turn_are_bounded() {
        let mut ids = Ids::new(bounds());
        let room = (1..10_000).filter(|id| ids.insert(*id, entry(*id, 1)));
        assert_eq!(room.count(), MAX_NEW);
    }

    #[test]
    fn the_oldest_unproven_id_of_a_source_makes_room_and_no_other_source_s_does() {
        let mut ids = Ids::new(bounds());
        assert!(add(&mut ids, 1, 1) && add(&mut ids, 2, 2));
        for id in 10..1000 {
            assert!(add(&mut ids, id, 1));
        }
        assert!(ids.peek(1).is_none() && ids.peek(2).is_some());
        assert_eq!((ids.half_open(), ids.evicted()), (5, 991 - 4));
        assert!((996..1000).all(|id| ids.peek(id).is_some()));
    }

    #[test]
    fn a_source_with_as_many_proven_ids_as_it_may_have_gets_no_more_and_others_do() {
        let mut ids = Ids::new(bounds());
        for id in 1..=8 {
            assert!(add(&mut ids, id, 1));
            ids.prove(id);
        }
        assert!(!add(&mut ids, 9, 1));
        assert!(add(&mut ids, 10, 2));
        ids.remove(3);
        assert!(add(&mut ids, 11, 1));
        assert_eq!((ids.len(), ids.evicted()), (9, 0));
    }

    #[test]
    fn unproven_ids_of_many_sources_make_room_in_their_order_and_proven_ones_stay() {
        let mut ids = Ids::new(bounds());
        for id in 1..=3 {
            add(&mut ids, id, id as u8);
            ids.prove(id);
        }
        for id in 10..250 {
            assert!(add(&mut ids, id, id as u8));
            assert!(ids.len() <= 13);
        }
        assert!((1..=3).all(|id| ids.peek(id).is_some()));
        assert!((240..250).all(|id| ids.peek(id).is_some()));
    }

    #[test]
    fn an_id_counts_for_the_source_that_it_moved_to() {
        let mut ids = Ids::new(bounds());
        add(&mut ids, 1, 1);
        assert!(ids.moves(NOW, 1, way(2, 9), 0));
        check(&ids);
        assert_eq!(ids.held(Source::of(way(1, 9))).all, 0);
        let held = ids.held(Source::of(way(2, 9)));
        assert_eq!((held.all, held.unproven), (1, 0));
    }

    #[test]
    fn all_of_an_ipv6_subnet_is_one_source() {
        let of = |text: &str| {
            let addr: SocketAddr = text.parse().expect("an address");
            Source::of((addr, None))
        };
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:1:2:3]:2"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_ne!(of("192.0.2.1:1"), of("192.0.2.2:1"));
    }

    #[test]
    fn the_stack_is_asked_about_an_id_again_and_again() {
        let mut ids = Ids::new(bounds());
        add(&mut ids, 1, 1);
        for round in 1..4 {
            let at = NOW + CHECK * round;
            assert_eq!(ids.next_check(), Some(at));
            assert_eq!(ids.due(at - Duration::from_nanos(1)), None);
            assert_eq!((ids.due(at), ids.due(at)), (Some(1), None));
            ids.check_later(at, 1);
        }
        ids.remove(1);
        assert_eq!(ids.next_check(), None);
    }

    #[test]
    fn an_unproven_address_gets_three_times_what_it_sent() {
        let mut e = entry(1, 1);
        e.credit(60);
        assert!(!e.pays(181) && e.pays(100));
        assert!(!e.pays(81) && e.pays(80) && !e.pays(1));
        e.unproven = false;
        assert!(e.pays(100_000));
    }

    #[test]
    fn only_the_exact_acknowledgement_of_our_syn_proves_an_address() {
        let mut e = entry(1, 1);
        let mut s = Segment::new(e.path.local, e.path.remote);
        (s.flags, s.seq) = (Flags::SYN | Flags::ACK, SeqNumber(5000));
        e.credit(100);
        assert!(e.pays_for(&s));
        s.flags = Flags::ACK;
        for (ack, proves) in [(5000, false), (5001, true), (5002, false), (6000, false)] {
            s.ack = SeqNumber(ack);
            assert_eq!(e.completes(&s), proves, "{ack}");
        }
    }

    #[test]
    fn one_address_more_than_there_are_sockets_shows_that_they_moved() {
        let mut e = entry(1, 1);
        for port in 10..25 {
            assert!(e.widen(way(1, port), 0));
        }
        assert!(!e.widen(way(1, 25), 0) && !e.knows(way(1, 25).0));
        let later = NOW + SILENCE;
        assert!(e.is_silent(later));
        assert!(e.moves(later, way(1, 25), 0) && !e.is_silent(later));
        assert!(e.knows(way(1, 25).0) && !e.knows(way(1, 9).0) && !e.knows(way(1, 24).0));
        assert!(e.widen(way(1, 26), 0));
        assert!(!e.moves(later, way(1, 25), 0) && e.knows(way(1, 26).0));
    }
}
