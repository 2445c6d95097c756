//! Segments of no connection: SYNs, joins and cookies. All other segments are refused.

use std::net::IpAddr;

use spindle_units::Instant;
use spindle_wire::{
    Endpoint, Flags, MpCapable, MpJoin, MpTcpRst, Packet, ResetReason, Segment, SeqNumber,
    Timestamps,
};

use super::{ListenerId, MAX_STATELESS, Stack, cookie};
use crate::config::JoinPolicy;
use crate::connection::{Connection, NewConnection, Role};
use crate::keys;
use crate::subflow::InitialNumbers;
use crate::subflow::output::reset_for;
use crate::types::SubflowId;

/// How many joins of one connection may lack their third ACK at a time. If the connection's configuration plans
/// more subflows, that number applies, because a peer with the same configuration opens them all at once.
const HALF_OPEN_JOINS: usize = 4;

/// Whether an address is that of one host. TCP does not communicate with other addresses (RFC 9293, sections
/// 3.9.1.1 and 3.9.2.3). The broadcast address of a subnet cannot be recognised here.
pub(super) fn is_one_host(addr: IpAddr) -> bool {
    match addr.to_canonical() {
        IpAddr::V4(a) => !(a.is_multicast() || a.is_broadcast() || a.is_unspecified()),
        IpAddr::V6(a) => !(a.is_multicast() || a.is_unspecified()),
    }
}

impl Stack {
    /// Handles a segment that belongs to no connection.
    pub(super) fn on_stray(&mut self, now: Instant, segment: &Segment) {
        if ![segment.src, segment.dst]
            .iter()
            .all(|e| is_one_host(e.addr))
        {
            self.counters.unknown_segments += 1;
            return;
        }
        let syn = segment.flags.contains(Flags::SYN)
            && !segment.flags.intersects(Flags::ACK | Flags::RST);
        if !syn {
            if !self.take_cookie(now, segment) {
                self.counters.unknown_segments += 1;
                // In LISTEN, a segment with neither ACK nor RST is dropped (RFC 9293, section 3.10.7.2,
                // "fourth").
                let counts = segment.flags.intersects(Flags::ACK | Flags::RST);
                if counts || self.listener_for(segment.dst).is_none() {
                    self.refuse(now, segment);
                }
            }
        } else {
            self.on_syn(now, segment, None);
        }
    }

    /// A SYN opens a connection or a subflow. If `unused` is given, its initial sequence number is not before
    /// that number.
    pub(super) fn on_syn(&mut self, now: Instant, syn: &Segment, unused: Option<SeqNumber>) {
        let mut initial = self.hashes.initial_numbers(now, syn.dst, syn.src);
        initial.sequence = unused
            .filter(|unused| initial.sequence.before(*unused))
            .unwrap_or(initial.sequence);
        match syn.options.rare.as_ref().and_then(|r| r.mp_join) {
            Some(MpJoin::Syn { token, .. }) => self.join(now, token, syn, initial),
            _ => self.accept(now, syn, initial),
        }
    }

    pub(super) fn refuse(&mut self, now: Instant, segment: &Segment) {
        if let Some(rst) = reset_for(segment) {
            self.send_reset(now, rst);
        }
    }

    /// Sends a reset that belongs to no connection, unless too many have been sent.
    fn send_reset(&mut self, now: Instant, rst: Segment) {
        if self.stateless.len() < MAX_STATELESS && self.resets.admits(now) {
            self.stateless.push_back(Packet::Tcp(rst));
        } else {
            self.counters.resets_withheld += 1;
        }
    }

    /// Refuses a join with its reason (RFC 8684, sections 3.2 and 3.6).
    pub(super) fn refuse_join(&mut self, now: Instant, syn: &Segment, reason: ResetReason) {
        let Some(mut rst) = reset_for(syn) else {
            return;
        };
        rst.options.rare_mut().mp_tcprst = Some(MpTcpRst {
            transient: reason == ResetReason::LackOfResources,
            other_flags: 0,
            reason,
        });
        self.send_reset(now, rst);
    }

    /// A join always needs state. Therefore there are limits: on half-open joins of the connection and of the
    /// stack, and on subflows.
    fn join(&mut self, now: Instant, token: u32, syn: &Segment, initial: InitialNumbers) {
        let Some(slot) = self.table.by_token(token) else {
            self.counters.joins.unknown += 1;
            self.refuse_join(now, syn, ResetReason::MptcpSpecific);
            return;
        };
        let listening = self.listener_for(syn.dst).is_some();
        let crowded = self.half_open_joins >= self.config.max_half_open_joins;
        let Some(c) = self.table.connection_mut(slot) else {
            return;
        };
        let most = HALF_OPEN_JOINS.max(c.planned_subflows());
        let crowded = crowded || c.half_open_joins() >= most;
        let multipath = c.config.multipath.as_ref();
        let anywhere = multipath.is_some_and(|m| m.joins == JoinPolicy::Anywhere);
        if !(anywhere || listening || c.takes_joins_at(syn.dst)) {
            self.counters.joins.prohibited += 1;
            self.refuse_join(now, syn, ResetReason::Prohibited);
            return;
        }
        if crowded || !c.accept_join(now, syn, initial) {
            self.counters.joins.limit += 1;
            self.refuse_join(now, syn, ResetReason::LackOfResources);
            return;
        }
        let id = c.subflows.last().map_or(SubflowId::FIRST, |s| s.id);
        self.path_memory.prepare(now, c, id);
        self.table.bind((syn.dst, syn.src), slot, id);
        self.touch(now, slot);
    }

    pub(super) fn listener_for(&self, to: Endpoint) -> Option<usize> {
        self.listeners.iter().position(|l| {
            l.open
                && l.local.port == to.port
                && (l.local.addr == to.addr || l.local.addr.is_unspecified())
        })
    }

    /// Whether another connection may be opened. If not, the refusal is counted and answered.
    fn admits(&mut self, now: Instant, segment: &Segment) -> bool {
        let (live, most) = (self.table.live(), self.config.max_connections);
        let sources = &self.account.sources;
        let peer = segment.src.addr;
        if live >= most {
            self.counters.refused.limit += 1;
        } else if sources.has_its_connections(peer, live, most)
            || (self.is_short() && sources.holds_its_memory(peer))
        {
            self.counters.refused.source += 1;
        } else if self.make_room(now) {
            return true;
        } else {
            self.counters.refused.memory += 1;
        }
        self.refuse(now, segment);
        false
    }

    /// Whether this segment would complete the handshake of an accepted connection, but other connections have
    /// used up the memory, or its source's share of the connections, in the meantime. The segment is then
    /// refused, and the connection forgotten.
    pub(super) fn comes_too_late(&mut self, now: Instant, slot: u32, segment: &Segment) -> bool {
        let third = segment.flags.contains(Flags::ACK)
            && !segment.flags.intersects(Flags::SYN | Flags::RST);
        // Without this connection.
        let used = self.table.live().saturating_sub(1);
        let (peer, most) = (segment.src.addr, self.config.max_connections);
        if !third {
            return false;
        }
        if self.account.sources.has_its_connections(peer, used, most) {
            self.counters.refused.source += 1;
        } else if !self.make_room(now) {
            self.counters.refused.memory += 1;
        } else {
            return false;
        }
        self.refuse(now, segment);
        self.forget(slot);
        true
    }

    /// Opens a connection for a SYN, if there is a listener for it.
    fn accept(&mut self, now: Instant, syn: &Segment, initial: InitialNumbers) {
        let Some(at) = self.listener_for(syn.dst) else {
            self.counters.refused.no_listener += 1;
            self.refuse(now, syn);
            return;
        };
        if !self.admits(now, syn) {
            return;
        }
        let (half_open, most) = (self.half_open, self.config.max_half_open);
        let sources = &self.account.sources;
        if half_open >= most || sources.has_its_half_open(syn.src.addr, half_open, most) {
            self.send_cookie(now, at, syn);
            return;
        }
        self.opened += 1;
        let key = self.listeners[at].config.multipath.is_some();
        let key = key.then(|| self.fresh_key());
        let c = self.server(now, at, syn, initial, key);
        self.adopt(now, at, c);
    }

    fn server(
        &mut self,
        now: Instant,
        listener: usize,
        syn: &Segment,
        initial: InitialNumbers,
        key: Option<u64>,
    ) -> Connection {
        let config = self.listeners[listener].config.clone();
        let new = NewConnection {
            path_estimates: self.path_estimates.clone(),
            config,
            role: Role::Server,
            local: syn.dst,
            remote: syn.src,
            initial,
            key,
            rng: self.generators.generator(self.opened),
            addresses: self.addresses(),
            outside: self.outside.clone(),
        };
        let mut c = Connection::new(now, new, Some(syn));
        self.path_memory.prepare(now, &mut c, SubflowId::FIRST);
        c
    }

    /// Adds a connection to the table, and returns its slot.
    fn adopt(&mut self, now: Instant, listener: usize, c: Connection) -> u32 {
        let tuple = (c.subflows[0].local, c.subflows[0].remote);
        let id = ListenerId(listener as u32);
        let source = self.account.sources.open(tuple.1.addr);
        let handle = self.table.insert(c, self.opened, Some(id), Some(source));
        self.table.bind(tuple, handle.slot, SubflowId::FIRST);
        self.half_open += 1;
        self.press_new(handle.slot);
        self.touch(now, handle.slot);
        handle.slot
    }

    /// Answers a SYN and forgets it (RFC 4987, section 3.6). A connection is made for the answer and then
    /// dropped, so that the answer agrees to the same as the connection that [`Self::take_cookie`] will make.
    fn send_cookie(&mut self, now: Instant, listener: usize, syn: &Segment) {
        if self.stateless.len() >= MAX_STATELESS {
            return;
        }
        let syn = cookie::grantable(syn);
        let initial = InitialNumbers {
            sequence: self.hashes.cookie(now, &syn),
            ..self.hashes.initial_numbers(now, syn.dst, syn.src)
        };
        let multipath = self.listeners[listener].config.multipath.is_some();
        let key = multipath.then(|| self.hashes.cookie_key(syn.dst, syn.src, syn.seq));
        let mut c = self.server(now, listener, &syn, initial, key);
        let Some(mut answer) = c.transmit(now).and_then(Packet::into_tcp) else {
            return;
        };
        if let Some(times) = &mut answer.options.timestamps {
            *times = Timestamps {
                value: cookie::mark(times.value, &syn),
                ..*times
            };
        }
        self.counters.cookies.sent += 1;
        self.cookies_until = Some(now + cookie::SLOT * 2);
        self.stateless.push_back(Packet::Tcp(answer));
    }

    /// Makes a connection from a third ACK that carries one of our cookies. Returns false if the segment must
    /// be refused.
    fn take_cookie(&mut self, now: Instant, ack: &Segment) -> bool {
        let stray = ack.flags.intersects(Flags::SYN | Flags::RST);
        if stray || !ack.flags.contains(Flags::ACK) || self.cookies_until.is_none_or(|t| t < now) {
            return false;
        }
        let Some(at) = self.listener_for(ack.dst) else {
            return false;
        };
        let Some(mss) = self.hashes.check_cookie(now, ack) else {
            self.counters.cookies.refused += 1;
            return false;
        };
        let mut syn = cookie::recall(ack, mss);
        let Ok(key) = self.cookie_key_of(ack, &mut syn) else {
            self.counters.cookies.refused += 1;
            return false;
        };
        if key.is_none() && ack.options.has_mptcp() {
            // It overtook the segment with the keys, which will be retransmitted.
            return true;
        }
        if !self.admits(now, ack) {
            return true;
        }
        self.opened += 1;
        let initial = InitialNumbers {
            sequence: ack.ack - 1,
            ..self.hashes.initial_numbers(now, ack.dst, ack.src)
        };
        let mut c = self.server(now, at, &syn, initial, key);
        // The SYN/ACK was sent long ago.
        let _ = c.transmit(now);
        c.subflows[0].answered_by_cookie();
        c.receive(now, 0, ack);
        if c.is_half_open() {
            return true;
        }
        self.counters.cookies.accepted += 1;
        if c.subflows.is_empty() {
            // The segment ended the connection. Only its answer is left.
            while self.stateless.len() < MAX_STATELESS
                && let Some(answer) = c.transmit(now)
            {
                self.stateless.push_back(answer);
            }
            return true;
        }
        self.adopt(now, at, c);
        self.promise(now);
        true
    }

    /// Returns our key if the third ACK carries it, and restores MP_CAPABLE on the SYN (RFC 8684, section 3.1).
    /// Returns an error if the ACK carries another key, or if the key's token is in use.
    fn cookie_key_of(&self, ack: &Segment, syn: &mut Segment) -> Result<Option<u64>, ()> {
        let Some(c) = ack.options.rare.as_ref().and_then(|r| r.mp_capable) else {
            return Ok(None);
        };
        let ours = self.hashes.cookie_key(ack.dst, ack.src, syn.seq);
        let right = c.sender_key.is_some() && c.receiver_key == Some(ours);
        if !right || self.table.has_token(keys::token(ours)) {
            return Err(());
        }
        syn.options.rare_mut().mp_capable = Some(MpCapable {
            sender_key: None,
            receiver_key: None,
            data_len: None,
            checksum: None,
            ..c
        });
        Ok(Some(ours))
    }
}
