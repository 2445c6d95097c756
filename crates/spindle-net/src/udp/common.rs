//! Common parts of both ends: keyed numbers, timers, and sending the datagrams of a path.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher24;
use spindle_mptcp::PathError;
use spindle_units::Instant;
use spindle_wire::Packet;

use super::path::Path;
use super::socket::Socket;
use crate::error::NetError;
use crate::link::{Arrival, LinkCounters};
use crate::randomness::random_bytes;

/// A key of this process, for ids, challenges and probe numbers that cannot be guessed.
pub(super) struct Secret {
    hasher: SipHasher24,
    drawn: u64,
}

impl Secret {
    pub(super) fn new() -> Result<Self, NetError> {
        Ok(Self {
            hasher: SipHasher24::new_with_key(&random_bytes()?),
            drawn: 0,
        })
    }

    /// A key that is the same in each run of a test.
    #[cfg(test)]
    pub(super) fn fixed() -> Self {
        Self {
            hasher: SipHasher24::new_with_key(&[7; 16]),
            drawn: 0,
        }
    }

    /// The hash of `parts` for the use `label`; never 0.
    pub(super) fn hash(&self, label: u8, parts: &impl std::hash::Hash) -> u64 {
        let mut hasher = self.hasher;
        hasher.write_u8(label);
        parts.hash(&mut hasher);
        hasher.finish().max(1)
    }

    /// A new number.
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.hash(b'n', &self.drawn)
    }
}

/// Timers of many paths, at most one for each.
#[derive(Default)]
pub(super) struct Timers(BTreeSet<(Instant, u64)>);

impl Timers {
    /// Arms a path's timer for the time at which the path needs it.
    pub(super) fn arm(&mut self, path: &mut Path, key: u64) {
        let wanted = path.next_timeout();
        if path.armed != wanted {
            self.disarm(path, key);
            path.armed = wanted;
            self.0.extend(wanted.map(|at| (at, key)));
        }
    }

    /// Disarms a path's timer, because the path no longer exists or does not need it.
    pub(super) fn disarm(&mut self, path: &mut Path, key: u64) {
        if let Some(at) = path.armed.take() {
            self.0.remove(&(at, key));
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes a timer that is due and returns its key. The path is then no longer armed.
    pub(super) fn pop(&mut self, now: Instant) -> Option<u64> {
        let (at, _) = self.0.first()?;
        if *at > now {
            return None;
        }
        self.0.pop_first().map(|(_, key)| key)
    }
}

/// Where a path's datagrams are sent to, and the local address that they are sent from.
pub(super) type Route = (SocketAddr, Option<IpAddr>);

/// State of the sending side.
#[derive(Default)]
pub(super) struct Output {
    pub(super) counters: LinkCounters,
    spare: Vec<Vec<u8>>,
    pub(super) scratch: Vec<u8>,
    /// Reports for the data path from calls that have no sink.
    pub(super) reports: Vec<Arrival>,
}

impl Output {
    /// Passes the reports that were made while sending to `sink`. This is done before any later report, so that
    /// reports about a path keep their order and the last one is true.
    pub(super) fn deliver_reports(&mut self, sink: &mut dyn FnMut(Arrival)) {
        self.reports.drain(..).for_each(sink);
    }

    /// Adds a packet to the path's train. A train that is full is sent before.
    pub(super) fn packet(
        &mut self,
        now: Instant,
        (path, socket, route): (&mut Path, &Socket, Route),
        mut packet: Packet,
    ) {
        let verdict = path.on_send(now, &mut packet);
        if verdict.report {
            self.reports.push(path.report());
        }
        if verdict.drop {
            self.counters.dropped_out += 1;
            return;
        }
        packet.for_each_piece(|piece| {
            let mut pushed = path.push(&piece, socket.most());
            if pushed == Some(false) {
                self.train(now, path, socket, route);
                pushed = path.push(&piece, socket.most());
            }
            if pushed != Some(true) {
                self.counters.dropped_out += 1;
            }
        });
    }

    /// Sends the path's train.
    pub(super) fn train(&mut self, now: Instant, path: &mut Path, socket: &Socket, route: Route) {
        let next = self.spare.pop().unwrap_or_default();
        let train = std::mem::take(&mut path.train);
        path.train.bytes = next;
        if train.count > 0 {
            let sent = socket.send(&train.bytes, train.size, train.ecn(), route);
            self.counters.packets_out += (train.count - sent.dropped.min(train.count)) as u64;
            self.counters.dropped_out += sent.dropped as u64;
            self.counters.bytes_out += train.bytes.len() as u64;
            if sent.too_big && self.refused(now, path, train.size) {
                self.reports.push(path.report());
            }
            path.no_route = sent.no_route;
            if sent.no_route {
                self.reports.push(path.unreachable(PathError::NoRoute));
            }
        }
        let mut bytes = train.bytes;
        bytes.clear();
        if self.spare.len() < 64 {
            self.spare.push(bytes);
        }
    }

    /// Takes the path's buffer back after a flush.
    pub(super) fn reclaim(&mut self, path: &mut Path) {
        if path.train.count == 0 {
            let bytes = std::mem::take(&mut path.train.bytes);
            if bytes.capacity() > 0 && self.spare.len() < 64 {
                self.spare.push(bytes);
            }
        }
    }

    /// Sends a datagram that carries no packet of the stack. Returns false if the interface does not accept its size.
    pub(super) fn message(&mut self, socket: &Socket, route: Route) -> bool {
        let sent = socket.send(&self.scratch, self.scratch.len(), None, route);
        if sent.dropped == 0 {
            self.counters.packets_out += 1;
            self.counters.bytes_out += self.scratch.len() as u64;
        } else {
            self.counters.dropped_out += 1;
        }
        !sent.too_big
    }

    /// Sends the probe that is due. If the interface refuses its size, the limit is lowered at once.
    pub(super) fn probe(
        &mut self,
        now: Instant,
        (path, socket, route): (&mut Path, &Socket, Route),
        secret: &mut Secret,
    ) {
        let Some(size) = path.probe(now, secret.draw(), &mut self.scratch) else {
            return;
        };
        if !self.message(socket, route) {
            self.refused(now, path, usize::from(size));
        }
    }

    /// Records that the interface does not accept `size` bytes. Returns whether less passes than was assumed.
    fn refused(&mut self, now: Instant, path: &mut Path, size: usize) -> bool {
        path.search.too_big(now, size.saturating_sub(1) as u16)
    }
}
