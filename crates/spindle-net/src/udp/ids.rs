//! The server's table of encapsulation ids: one for each subflow of the stack, whatever peers send.
//!
//! An id is *new* until the end of the turn in which its first datagram arrived. It is then kept only if the
//! stack has a subflow for it. Floods of SYNs that are answered with cookies, of segments of no connection and
//! of challenge replies therefore leave no entries here. Later, the stack is asked again every [`CHECK`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, Packet, Segment, SeqNumber};

use super::common::Route;
use super::path::Path;
use super::pmtu::BASE;
use super::pool;

/// An address that is not proven gets at most this many times the bytes that arrived from it (RFC 9000, section
/// 8.1).
pub(super) const AMPLIFICATION: usize = 3;
/// How often the stack is asked whether it still has a subflow. An id outlives its subflow by at most this
/// time.
const CHECK: Duration = Duration::from_secs(5);
/// Scattered packets use all addresses of a client. If the subflow's own address has been silent for this long,
/// the next address that is proven takes its place (a few timeouts).
const SILENCE: Duration = Duration::from_secs(1);
/// Least time between challenges to one id's addresses.
const CHALLENGE_GAP: Duration = Duration::from_millis(50);
/// Most new ids of one turn. A turn reads about as many datagrams from a socket.
const MAX_NEW: usize = 4096;

/// The origin of an outer address: an IPv4 address, or an IPv6 /64, in which one host may have any number of
/// addresses (RFC 4862, section 5.5.3; RFC 8981).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Source(IpAddr);

impl Source {
    pub(super) fn of(way: Route) -> Self {
        Self(match way.0.ip() {
            IpAddr::V4(addr) => addr.into(),
            IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64).into(),
        })
    }
}

/// Limits on the number of ids.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most ids with a proven address.
    pub(super) max: usize,
    /// Most ids without a proven address. Beyond it, the oldest one makes room.
    pub(super) unproven: usize,
    /// Most ids of one source. Beyond it, the source's oldest id without a proven address makes room.
    pub(super) per_source: usize,
    /// Most ids of one source without a proven address. Beyond it, the oldest of these makes room.
    pub(super) unproven_per_source: usize,
}

/// The entry of one id.
pub(super) struct Entry {
    pub(super) path: Path,
    /// The peer's outer address and the local one.
    pub(super) way: Route,
    pub(super) socket: usize,
    /// The peer may have forged its address: neither the handshake nor a challenge has proven it.
    pub(super) unproven: bool,
    pub(super) dirty: bool,
    /// When an address of the peer was last challenged.
    challenged: Option<Instant>,
    /// The address that the peer's subflow itself may have moved to.
    pub(super) moving: Option<SocketAddr>,
    /// When the first datagram arrived from another address, of those after the last one from the subflow's own.
    elsewhere: Option<Instant>,
    /// The subflow's packets are scattered, so it has further addresses. `pool` contains those that are proven.
    pub(super) scatters: bool,
    pub(super) pool: Vec<(Route, usize)>,
    /// Bytes that may be sent before the address is proven.
    budget: usize,
    /// The acknowledgement number that acknowledges our SYN.
    expected: Option<SeqNumber>,
    /// The id's place in the order of the ids. `None` while the id is new.
    order: Option<u64>,
    /// When the stack must be asked about the id.
    check_at: Instant,
}

impl Entry {
    pub(super) fn new(
        now: Instant,
        (id, ends): (u64, (Endpoint, Endpoint)),
        way: Route,
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
            elsewhere: None,
            scatters: false,
            pool: Vec::new(),
            budget: 0,
            expected: None,
            order: None,
            check_at: now,
        }
    }

    /// Whether the id arrived in this turn, so that the stack has not been asked about it yet.
    pub(super) fn is_new(&self) -> bool {
        self.order.is_none()
    }

    /// Whether this is the subflow's own address, or a further one that is proven.
    pub(super) fn knows(&self, from: SocketAddr) -> bool {
        self.way.0 == from || self.pool.iter().any(|(way, _)| way.0 == from)
    }

    /// Records that the subflow's packets are scattered. A probe that arrived from another address before this was
    /// known came from one of the peer's further sockets, so the subflow has not moved there.
    pub(super) fn begins_to_scatter(&mut self) {
        if !std::mem::replace(&mut self.scatters, true) {
            self.moving = None;
        }
    }

    /// Adds a further address that is proven. Returns false if the peer cannot have more sockets than are
    /// known.
    pub(super) fn widen(&mut self, way: Route, socket: usize) -> bool {
        let room = self.pool.len() < pool::SOCKETS;
        if room {
            self.pool.push((way, socket));
        }
        room
    }

    /// A datagram has arrived from the subflow's own address.
    pub(super) fn heard(&mut self) {
        self.elsewhere = None;
    }

    /// A datagram has arrived from another address. Returns whether the subflow's own address has been silent for a while,
    /// in which others were not: after a pause of all, any of them may be the first.
    pub(super) fn is_silent(&mut self, now: Instant) -> bool {
        now.since(*self.elsewhere.get_or_insert(now)) >= SILENCE
    }

    /// Whether a challenge may be sent now. If so, it counts as sent.
    pub(super) fn may_challenge(&mut self, now: Instant) -> bool {
        let may = self
            .challenged
            .is_none_or(|t| now.since(t) >= CHALLENGE_GAP);
        if may {
            self.challenged = Some(now);
        }
        may
    }

    /// Whether only a challenge can prove the address, because no SYN of ours can be acknowledged.
    pub(super) fn wants_challenge(&self) -> bool {
        self.unproven && self.expected.is_none() && !self.is_new()
    }

    /// Whether only a challenge can prove the address, because the subflow exchanges this packet although
    /// nothing has [completed](Self::completes) the handshake. The segment that did may have been lost, or it
    /// was inside a coded packet.
    pub(super) fn wants_challenge_for(&self, packet: &Packet) -> bool {
        let opens = packet.tcp().is_some_and(|s| s.flags.contains(Flags::SYN));
        self.wants_challenge() || self.unproven && !self.is_new() && !opens
    }

    /// Makes a proven address the subflow's own. Returns whether the subflow had another address before.
    fn moves(&mut self, now: Instant, way: Route, socket: usize) -> bool {
        let moved = self.way.0 != way.0;
        if moved {
            self.path.search.moved(now);
            // An event that changed one address has changed the others, too.
            self.pool.clear();
        }
        self.moving = None;
        self.heard();
        (self.way, self.socket) = (way, socket);
        moved
    }

    /// The destination of a scattered segment.
    pub(super) fn any_way(&self, draw: u64) -> (Route, usize) {
        let drawn = draw as usize % (self.pool.len() + 1);
        let further = self.pool.get(drawn).copied();
        further.unwrap_or((self.way, self.socket))
    }

    /// Records that bytes arrived from the address.
    pub(super) fn credit(&mut self, bytes: usize) {
        if self.unproven {
            self.budget = self.budget.saturating_add(AMPLIFICATION * bytes);
        }
    }

    /// Whether this many bytes may be sent to the address. If so, they count as sent.
    pub(super) fn pays(&mut self, bytes: usize) -> bool {
        if !self.unproven {
            return true;
        }
        let rest = self.budget.checked_sub(bytes);
        self.budget = rest.unwrap_or(self.budget);
        rest.is_some()
    }

    /// Whether a segment may be sent to the address. If so, it counts as sent.
    pub(super) fn pays_for(&mut self, packet: &Packet) -> bool {
        if !self.pays(self.path.bytes_of(packet)) {
            return false;
        }
        if let Packet::Tcp(s) = packet
            && s.flags.contains(Flags::SYN)
        {
            self.expected = Some(s.seq + 1);
        }
        true
    }

    /// Whether the packet is a segment that proves that the peer received our SYN, and therefore that its address is genuine.
    /// Such a segment acknowledges the SYN alone, since no data follow the SYN before the handshake is
    /// complete.
    pub(super) fn completes(&self, packet: &Packet) -> bool {
        let acks = |s: &Segment| s.flags.contains(Flags::ACK) && self.expected == Some(s.ack);
        self.unproven && packet.tcp().is_some_and(acks)
    }
}

/// Numbers of ids of one source.
#[derive(Clone, Copy, Debug, Default)]
struct IdCounts {
    all: usize,
    unproven: usize,
}

/// The table of ids.
pub(super) struct Ids {
    entries: HashMap<u64, Box<Entry>>,
    bounds: Bounds,
    new: Vec<u64>,
    /// Numbers of ids that are not new, by source.
    sources: HashMap<Source, IdCounts>,
    /// Ids that are neither new nor proven, by their order, the oldest first.
    unproven: BTreeMap<u64, u64>,
    /// The same ids by source and order.
    unproven_of: BTreeMap<(Source, u64), u64>,
    /// The times at which the stack must be asked, with the ids.
    checks: BTreeSet<(Instant, u64)>,
    /// The order of the id that was kept last.
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

    /// Adds an id that is not in the table, as a new one. Returns false if there is no room, for its source or
    /// in all.
    pub(super) fn insert(&mut self, id: u64, entry: Entry) -> bool {
        let held = self.held(Source::of(entry.way));
        let proven = self.entries.len() - self.new.len() - self.unproven.len();
        // Other ids make room only when the stack is known to have a subflow for this one.
        let room = proven < self.bounds.max
            && held.all - held.unproven < self.bounds.per_source
            && self.new.len() < MAX_NEW;
        if room {
            self.new.push(id);
            self.entries.insert(id, Box::new(entry));
        }
        room
    }

    fn held(&self, source: Source) -> IdCounts {
        self.sources.get(&source).copied().unwrap_or_default()
    }

    /// The ids that arrived in this turn. Each must be [kept](Self::keep) or [removed](Self::remove).
    pub(super) fn take_new(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.new)
    }

    /// Keeps a new id for which the stack has a subflow. If there are too many ids, an older one makes room.
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

    /// Adds an id that is not new to the counts and orders of its source, or removes it from them.
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

    /// Removes an id.
    pub(super) fn remove(&mut self, id: u64) -> Option<Box<Entry>> {
        self.count(id, false);
        let entry = self.entries.remove(&id)?;
        self.checks.remove(&(entry.check_at, id));
        Some(entry)
    }

    /// Records that the address of an id is proven.
    pub(super) fn prove(&mut self, id: u64) {
        self.change(id, |e| e.unproven = false);
    }

    /// Makes an address, which is proven, the subflow's own. Returns whether the subflow had another address
    /// before.
    pub(super) fn moves(&mut self, now: Instant, id: u64, way: Route, socket: usize) -> bool {
        let mut moved = false;
        self.change(id, |e| {
            moved = e.moves(now, way, socket);
            e.unproven = false;
        });
        moved
    }

    /// Changes a part of an entry on which the counts depend.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
        self.count(id, false);
        self.get(id).map(change);
        self.count(id, true);
    }

    /// Schedules the next time at which the stack is asked about an id.
    pub(super) fn check_later(&mut self, now: Instant, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.check_at = now + CHECK;
            self.checks.insert((entry.check_at, id));
        }
    }

    /// When the stack must be asked next.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.checks.first().map(|(at, _)| *at)
    }

    /// An id that the stack must be asked about now.
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

    fn way(host: u8, port: u16) -> Route {
        (SocketAddr::from(([192, 0, 2, host], port)), None)
    }

    fn entry(id: u64, host: u8) -> Entry {
        let end = Endpoint::new(IpAddr::from([10, 0, 0, 1]), 1);
        Entry::new(NOW, (id, (end, end)), way(host, 9), 0)
    }

    /// Adds an id for which the stack has a subflow. Returns whether there was room.
    fn add(ids: &mut Ids, id: u64, host: u8) -> bool {
        let room = ids.insert(id, entry(id, host));
        for id in ids.take_new() {
            ids.keep(NOW, id);
        }
        check(ids);
        room
    }

    /// Checks that all records about ids agree.
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
    fn ids_without_a_subflow_leave_no_entries() {
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
    fn an_unproven_id_replaces_the_oldest_one_of_its_own_source_only() {
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
    fn a_source_at_its_limit_of_proven_ids_gets_no_more_and_others_do() {
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
    fn the_oldest_unproven_ids_of_all_sources_make_room_and_proven_ids_stay() {
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
    fn all_addresses_of_an_ipv6_64_are_one_source() {
        let of = |text: &str| {
            let addr: SocketAddr = text.parse().expect("an address");
            Source::of((addr, None))
        };
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:1:2:3]:2"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_ne!(of("192.0.2.1:1"), of("192.0.2.2:1"));
    }

    #[test]
    fn the_stack_is_asked_about_an_id_at_every_check_interval() {
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
        assert!(e.pays_for(&s.clone().into()));
        s.flags = Flags::ACK;
        for (ack, proves) in [(5000, false), (5001, true), (5002, false), (6000, false)] {
            s.ack = SeqNumber(ack);
            assert_eq!(e.completes(&s.clone().into()), proves, "{ack}");
        }
    }

    #[test]
    fn one_address_more_than_a_client_has_sockets_replaces_the_others_after_silence() {
        let mut e = entry(1, 1);
        for port in 10..25 {
            assert!(e.widen(way(1, port), 0));
        }
        assert!(!e.widen(way(1, 25), 0) && !e.knows(way(1, 25).0));
        let (next, later) = (NOW + SILENCE * 3, NOW + SILENCE * 4);
        assert!(!e.is_silent(next), "all addresses were silent");
        assert!(e.is_silent(later));
        assert!(e.moves(later, way(1, 25), 0) && !e.is_silent(later));
        assert!(e.knows(way(1, 25).0) && !e.knows(way(1, 9).0) && !e.knows(way(1, 24).0));
        assert!(e.widen(way(1, 26), 0));
        assert!(!e.moves(later, way(1, 25), 0) && e.knows(way(1, 26).0));
    }

    #[test]
    fn a_probe_from_a_further_socket_before_the_first_scattered_packet_is_no_move() {
        let mut e = entry(1, 1);
        e.moving = Some(way(1, 10).0);
        e.begins_to_scatter();
        assert_eq!(e.moving, None);
        // A subflow that scatters can still move.
        e.moving = Some(way(1, 11).0);
        e.begins_to_scatter();
        assert_eq!(e.moving, Some(way(1, 11).0));
    }
}
