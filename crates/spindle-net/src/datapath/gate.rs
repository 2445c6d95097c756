//! Which peers a listener admits, by the addresses that they have outside the link.
//!
//! The stack may know peers by other addresses (over UDP). SYNs therefore wait until the link has returned from
//! reading, and are judged before the stack sees them, so that nothing is stored for a peer that is refused.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use spindle_mptcp::{ListenerId, Stack};
use spindle_units::{Duration, Instant};
use spindle_wire::Packet;

use super::Driver;
use crate::link::Link;

/// Least time between two log lines about refused peers.
const LOG_GAP: Duration = Duration::from_secs(1);

/// Decides which peers a listener admits. It is called on the data path's thread for each SYN of the listener, and
/// therefore must not wait.
pub trait Admission: fmt::Debug + Send + Sync {
    /// Whether peers with this address may connect. IPv4 addresses are not in the IPv4-mapped form of IPv6.
    fn admits(&self, peer: IpAddr) -> bool;

    /// Called for each connection that was refused, so that it can be counted.
    fn refused(&self, _peer: IpAddr) {}
}

/// The rules of the listeners, and what was refused by them.
#[derive(Default)]
pub(super) struct Gate {
    /// Listeners that are not listed admit all peers.
    rules: HashMap<ListenerId, Arc<dyn Admission>>,
    /// SYNs that wait to be judged: no more than the link returns in one call.
    waiting: Vec<Packet>,
    /// Connections that were refused since the start.
    refused: u64,
    /// Those that the log has mentioned, and when it last did.
    logged: u64,
    logged_at: Option<Instant>,
    /// The peer that was refused last.
    last: Option<IpAddr>,
}

impl Gate {
    /// The rule of this listener from now on. Without a rule it admits all peers.
    pub(super) fn set(&mut self, listener: ListenerId, rule: Option<Arc<dyn Admission>>) {
        match rule {
            Some(rule) => self.rules.insert(listener, rule),
            None => self.rules.remove(&listener),
        };
    }

    /// Whether the listener admits the peer.
    pub(super) fn admits(&self, listener: ListenerId, peer: IpAddr) -> bool {
        let rule = self.rules.get(&listener);
        rule.is_none_or(|r| r.admits(peer.to_canonical()))
    }

    /// Whether a rule may concern the packet.
    #[inline]
    pub(super) fn concerns(&self, stack: &Stack, packet: &Packet) -> bool {
        !self.rules.is_empty() && stack.listener_of(packet).is_some()
    }

    /// Keeps a packet until it is judged.
    pub(super) fn keep(&mut self, packet: Packet) {
        self.waiting.push(packet);
    }

    /// Notes that the listener has refused a connection.
    pub(super) fn note(&mut self, listener: ListenerId, peer: IpAddr) {
        self.refused += 1;
        self.last = Some(peer);
        if let Some(rule) = self.rules.get(&listener) {
            rule.refused(peer);
        }
    }

    /// Logs the connections that were refused since the last line, at most once in [`LOG_GAP`].
    fn log(&mut self, now: Instant) {
        let waits = self.logged_at.is_some_and(|at| now.since(at) < LOG_GAP);
        let Some(last) = self.last.filter(|_| self.refused != self.logged && !waits) else {
            return;
        };
        let connections = self.refused - self.logged;
        tracing::warn!(connections, %last, "refused: the clients' networks are not allowed");
        (self.logged, self.logged_at) = (self.refused, Some(now));
    }

    /// Judges the SYNs that wait, and gives those of admitted peers to the stack.
    fn judge(&mut self, now: Instant, link: &dyn Link, stack: &mut Stack) {
        for packet in std::mem::take(&mut self.waiting) {
            let peer = link.outside(packet.src()).ip();
            let listener = stack.listener_of(&packet);
            let Some(listener) = listener.filter(|l| !self.admits(*l, peer)) else {
                stack.receive(now, packet);
                continue;
            };
            if stack.turn_away(now, &packet) {
                self.note(listener, peer);
            } else {
                tracing::debug!(%peer, "join refused: the network is not allowed");
            }
        }
    }
}

impl Driver {
    /// Judges the SYNs that the link has returned, and logs what was refused.
    pub(super) fn admit(&mut self) {
        let now = self.clock.now();
        if !self.gate.waiting.is_empty() {
            self.gate.judge(now, self.link.as_ref(), &mut self.stack);
        }
        if self.gate.refused != self.gate.logged {
            self.gate.log(now);
        }
    }

    /// Changes the rule of a listener and resets the connections that it has accepted from peers that are not
    /// admitted any more. Returns their number.
    pub(super) fn set_admission(
        &mut self,
        listener: ListenerId,
        rule: Option<Arc<dyn Admission>>,
    ) -> usize {
        // A connection that was accepted in this turn must be known before its peer is judged.
        self.dispatch();
        self.gate.set(listener, rule);
        let gate = &self.gate;
        let refused = |peer| !gate.admits(listener, peer);
        self.connections.reset_refused(listener, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Only(IpAddr);

    impl Admission for Only {
        fn admits(&self, peer: IpAddr) -> bool {
            peer == self.0
        }
    }

    #[test]
    fn a_rule_sees_an_ipv4_mapped_address_as_ipv4() {
        let mut stack = Stack::deterministic(Default::default(), 1);
        let config = Arc::new(spindle_mptcp::Config::default());
        let at = "192.0.2.1:80".parse::<std::net::SocketAddr>().unwrap();
        let listener = stack.listen(at.into(), config).unwrap();
        let [one, two]: [IpAddr; 2] = ["192.0.2.7", "192.0.2.8"].map(|a| a.parse().unwrap());
        let mut gate = Gate::default();
        assert!(gate.admits(listener, two));
        gate.set(listener, Some(Arc::new(Only(one))));
        assert!(gate.admits(listener, "::ffff:192.0.2.7".parse().unwrap()));
        assert!(!gate.admits(listener, two));
        gate.set(listener, None);
        assert!(gate.admits(listener, two));
    }
}
