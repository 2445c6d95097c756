//! The connection table: slots with generations, and indexes to find a slot.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use siphasher::sip::SipHasher13;
use spindle_units::prefetch;
use spindle_wire::Endpoint;

use super::ListenerId;
use super::sources::SourceId;
use crate::connection::Connection;
use crate::types::SubflowId;

/// Local and remote endpoint of a subflow.
pub(super) type FourTuple = (Endpoint, Endpoint);

/// Identifies a connection of one stack. The handle of a connection that no longer exists stays invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    pub(super) slot: u32,
    generation: u32,
}

impl Handle {
    /// A small number, unique among live connections, which is suitable as an index.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    generation: u32,
    pub(super) connection: Option<Box<Connection>>,
    ordinal: u64,
    pub(super) listener: Option<ListenerId>,
    /// The source of an accepted connection.
    source: Option<SourceId>,
    half_open: bool,
    /// Only TIME_WAIT is left of the connection.
    resting: bool,
    pub(super) token: Option<u32>,
    pub(super) tuples: Vec<FourTuple>,
    /// The connection's part of the stack's totals: half-open joins and bytes stored.
    pub(super) booked: (usize, u64),
}

impl Slot {
    /// The handle of the slot's connection; `slot` is the slot's own number.
    pub(super) fn handle(&self, slot: u32) -> Handle {
        Handle {
            slot,
            generation: self.generation,
        }
    }
}

/// Keyed hashing, so that a peer cannot aim at one bucket. The key comes from the stack, so that runs can be
/// repeated.
#[derive(Clone, Copy)]
pub(super) struct Keyed([u8; 16]);

impl Keyed {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self(key)
    }
}

impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keyed(..)")
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_tuple: HashMap<Ends, (u32, SubflowId), Keyed>,
    by_token: HashMap<u32, u32, Keyed>,
    /// Tuples of recently received segments, each at its [`near`] index.
    recent: [Option<(FourTuple, u32, SubflowId)>; RECENT],
    count: usize,
    resting: usize,
}

/// Number of tuples that are found without hashing. A peer that aims at one of these entries only makes other
/// connections pay for the keyed hash.
const RECENT: usize = 8;

/// A tuple's index among the recent tuples.
#[inline]
fn near(t: &FourTuple) -> usize {
    let low = match t.1.addr {
        std::net::IpAddr::V4(a) => a.to_bits(),
        std::net::IpAddr::V6(a) => a.to_bits() as u32,
    };
    let mixed = low ^ u32::from(t.0.port) ^ u32::from(t.1.port).rotate_left(1);
    (mixed ^ (mixed >> 8)) as usize % RECENT
}

/// A four-tuple as key: only its addresses and ports are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends(FourTuple);

impl Hash for Ends {
    #[inline]
    fn hash<H: Hasher>(&self, h: &mut H) {
        let (local, remote) = &self.0;
        for e in [local, remote] {
            match e.addr {
                std::net::IpAddr::V4(a) => h.write_u32(a.to_bits()),
                std::net::IpAddr::V6(a) => h.write_u128(a.to_bits()),
            }
        }
        h.write_u32(u32::from(local.port) << 16 | u32::from(remote.port));
    }
}

impl Table {
    /// The number of slots, used or not. They are numbered from 0.
    pub(super) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(super) fn new(keyed: Keyed) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_tuple: HashMap::with_hasher(keyed),
            by_token: HashMap::with_hasher(keyed),
            recent: [None; RECENT],
            count: 0,
            resting: 0,
        }
    }

    /// The number of connections, without those of which only TIME_WAIT is left.
    pub(super) fn live(&self) -> usize {
        self.count - self.resting
    }

    pub(super) fn resting(&self) -> usize {
        self.resting
    }

    /// Marks that only TIME_WAIT is left of the connection. Returns its handle if this is new.
    pub(super) fn rest(&mut self, slot: u32) -> Option<Handle> {
        let handle = self.handle(slot)?;
        if std::mem::replace(&mut self.slots[slot as usize].resting, true) {
            return None;
        }
        self.resting += 1;
        Some(handle)
    }

    pub(super) fn lookup(&self, t: &FourTuple) -> Option<(u32, SubflowId)> {
        self.by_tuple.get(&Ends(*t)).copied()
    }

    /// Like [`lookup`](Self::lookup), but remembers the tuple, because more segments of it will follow.
    #[inline]
    pub(super) fn find(&mut self, t: &FourTuple) -> Option<(u32, SubflowId)> {
        if let Some(known) = self.find_recent(t) {
            return Some(known);
        }
        let (slot, subflow) = self.lookup(t)?;
        self.recent[near(t)] = Some((*t, slot, subflow));
        Some((slot, subflow))
    }

    #[inline]
    fn find_recent(&self, t: &FourTuple) -> Option<(u32, SubflowId)> {
        let (known, slot, subflow) = self.recent[near(t)].as_ref()?;
        (known == t).then_some((*slot, *subflow))
    }

    /// Prefetches a slot.
    #[inline]
    pub(super) fn prefetch(&self, slot: u32) {
        self.slots.get(slot as usize).into_iter().for_each(prefetch);
    }

    pub(super) fn bind(&mut self, t: FourTuple, slot: u32, subflow: SubflowId) {
        self.unbind(&t);
        self.by_tuple.insert(Ends(t), (slot, subflow));
        self.slots[slot as usize].tuples.push(t);
    }

    /// Finds the subflows of a slot under the identifiers that they have now. Those of a connection whose SYNs were raced
    /// change when the first SYN is answered.
    #[cold] // the handshake
    pub(super) fn rebind(&mut self, slot: u32) {
        let slots = &self.slots;
        let Some(c) = slots.get(slot as usize).and_then(|s| s.connection.as_ref()) else {
            return;
        };
        for s in c.subflows.iter() {
            let tuple = (s.local, s.remote);
            self.by_tuple.insert(Ends(tuple), (slot, s.id));
            self.recent[near(&tuple)] = None;
        }
    }

    pub(super) fn unbind(&mut self, t: &FourTuple) {
        self.recent[near(t)] = None;
        self.by_tuple.remove(&Ends(*t));
    }

    pub(super) fn insert(
        &mut self,
        c: Connection,
        ordinal: u64,
        listener: Option<ListenerId>,
        source: Option<SourceId>,
    ) -> Handle {
        self.count += 1;
        let token = c.mp.as_ref().map(|m| m.token_local);
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        let generation = self.slots.get(slot as usize).map_or(0, |s| s.generation);
        let entry = Slot {
            generation,
            connection: Some(Box::new(c)),
            ordinal,
            listener,
            source,
            half_open: true,
            resting: false,
            token,
            tuples: Vec::new(),
            booked: (0, 0),
        };
        if slot as usize == self.slots.len() {
            self.slots.push(entry);
        } else {
            self.slots[slot as usize] = entry;
        }
        if let Some(t) = token {
            self.by_token.insert(t, slot);
        }
        Handle { slot, generation }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let s = &mut self.slots[slot as usize];
        if s.connection.take().is_none() {
            return;
        }
        s.generation = s.generation.wrapping_add(1);
        let token = s.token.take();
        for t in std::mem::take(&mut s.tuples) {
            if self.lookup(&t).is_some_and(|(owner, _)| owner == slot) {
                self.unbind(&t);
            }
        }
        if let Some(t) = token {
            self.by_token.remove(&t);
        }
        self.count -= 1;
        self.resting -= usize::from(std::mem::take(&mut self.slots[slot as usize].resting));
        self.free.push(slot);
    }

    /// Notes that the handshake of a slot's connection is over, successful or not, unless it is still
    /// `half_open`. Returns whether this is new.
    pub(super) fn settle(&mut self, slot: u32, half_open: bool, count: &mut usize) -> bool {
        let s = &mut self.slots[slot as usize];
        let settles = s.half_open && !half_open;
        if settles {
            s.half_open = false;
            *count = count.saturating_sub(1);
        }
        settles
    }

    /// Whether the handshake of a slot's connection is going on.
    #[inline]
    pub(super) fn is_half_open(&self, slot: u32) -> bool {
        let s = self.slots.get(slot as usize);
        s.is_some_and(|s| s.half_open && s.connection.is_some())
    }

    /// The source of a slot's connection.
    #[inline]
    pub(super) fn source(&self, slot: u32) -> Option<SourceId> {
        self.slots.get(slot as usize)?.source
    }

    /// The listener that accepted a slot's connection.
    pub(super) fn listener(&self, slot: u32) -> Option<ListenerId> {
        self.slots.get(slot as usize)?.listener
    }

    /// Whether only TIME_WAIT is left of a slot's connection.
    pub(super) fn rests(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|s| s.resting)
    }

    /// The number of subflows, over all connections.
    #[inline]
    pub(super) fn tuples(&self) -> usize {
        self.by_tuple.len()
    }

    /// Clears what is booked of a connection, and returns it.
    pub(super) fn unbook(&mut self, slot: u32) -> (usize, u64) {
        std::mem::take(&mut self.slots[slot as usize].booked)
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize)
    }

    /// Forgets the tuples of subflows that have ended.
    pub(super) fn prune(&mut self, slot: u32) {
        let s = &mut self.slots[slot as usize];
        let Some(c) = &s.connection else { return };
        if s.tuples.len() <= c.subflows.len() {
            return;
        }
        let live = |t: &FourTuple| c.subflows.iter().any(|s| (s.local, s.remote) == *t);
        let (keep, gone) = s.tuples.drain(..).partition(live);
        s.tuples = keep;
        let gone: Vec<FourTuple> = gone;
        for t in gone {
            if self.lookup(&t).is_some_and(|(owner, _)| owner == slot) {
                self.unbind(&t);
            }
        }
    }

    /// Updates the token index. A connection that fell back has no token.
    pub(super) fn set_token(&mut self, slot: u32, token: Option<u32>) {
        let s = &mut self.slots[slot as usize];
        if s.token != token {
            if let Some(old) = s.token {
                self.by_token.remove(&old);
            }
            s.token = token;
            if let Some(new) = token {
                self.by_token.insert(new, slot);
            }
        }
    }

    pub(super) fn has_token(&self, token: u32) -> bool {
        self.by_token.contains_key(&token)
    }

    pub(super) fn by_token(&self, token: u32) -> Option<u32> {
        self.by_token.get(&token).copied()
    }

    pub(super) fn connection(&self, slot: u32) -> Option<&Connection> {
        self.slots.get(slot as usize)?.connection.as_deref()
    }

    pub(super) fn connection_mut(&mut self, slot: u32) -> Option<&mut Connection> {
        self.slots.get_mut(slot as usize)?.connection.as_deref_mut()
    }

    pub(super) fn get(&self, h: Handle) -> Option<&Connection> {
        let s = self.slots.get(h.slot as usize)?;
        if s.generation == h.generation {
            s.connection.as_deref()
        } else {
            None
        }
    }

    pub(super) fn get_mut(&mut self, h: Handle) -> Option<&mut Connection> {
        let s = self.slots.get_mut(h.slot as usize)?;
        if s.generation == h.generation {
            s.connection.as_deref_mut()
        } else {
            None
        }
    }

    pub(super) fn handle(&self, slot: u32) -> Option<Handle> {
        let s = self.slots.get(slot as usize)?;
        s.connection.as_ref().map(|_| s.handle(slot))
    }

    pub(super) fn ordinal(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(0, |s| s.ordinal)
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = Handle> {
        (0..self.slots.len() as u32).filter_map(|s| self.handle(s))
    }
}
