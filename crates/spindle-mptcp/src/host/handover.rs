//! What a stack reports to a link that shares its wire with the stack of another process: which segments belong
//! to this stack.

use spindle_units::Instant;
use spindle_wire::{Endpoint, Flags, MpJoin, Packet, Segment};

use super::Stack;

impl Stack {
    /// Whether the packet belongs to a connection of this stack: to one of its subflows, by its token or as a
    /// join to one of its connections (RFC 8684, section 3.2), or as the acknowledgement of a SYN cookie that
    /// this stack has sent. A SYN that opens a connection belongs to none.
    pub fn expects(&self, now: Instant, packet: &Packet) -> bool {
        if self.has_subflow(packet.dst(), packet.src()) {
            return true;
        }
        let Packet::Tcp(segment) = packet else {
            return false;
        };
        if let Some(token) = segment.options.token {
            return self.table.has_token(token.get());
        }
        match segment.options.rare.as_ref().and_then(|r| r.mp_join) {
            Some(MpJoin::Syn { token, .. }) => self.table.has_token(token),
            _ => self.has_sent_cookie(now, segment),
        }
    }

    /// Whether the segment acknowledges a SYN cookie of this stack.
    fn has_sent_cookie(&self, now: Instant, segment: &Segment) -> bool {
        segment.flags.contains(Flags::ACK)
            && !segment.flags.intersects(Flags::SYN | Flags::RST)
            && self.awaits_cookies(now)
            && self.check_cookie(now, segment)
    }

    /// Whether SYN cookies that were sent are still valid, so that connections may come of them.
    pub fn awaits_cookies(&self, now: Instant) -> bool {
        self.cookies_until.is_some_and(|until| until >= now)
    }

    fn check_cookie(&self, now: Instant, segment: &Segment) -> bool {
        self.hashes.check_cookie(now, segment).is_some()
    }

    /// The ends, local and remote, of the connections that peers have begun to open: the SYN has been answered,
    /// and the answer is not acknowledged. The peer may send the SYN again.
    pub fn half_open_ends(&self) -> Vec<(Endpoint, Endpoint)> {
        let slots = 0..self.table.slots();
        let half_open = slots.filter(|slot| self.table.is_half_open(*slot));
        half_open
            .filter(|slot| self.table.source(*slot).is_some())
            .filter_map(|slot| self.table.connection(slot)?.subflows.first())
            .map(|s| (s.local, s.remote))
            .collect()
    }
}
