//! Raced SYNs: a client that has several paths sends its first SYN over more than one of them, and the first SYN/ACK
//! decides where the connection begins.
//!
//! A lost SYN costs its retransmission timeout, one second if nothing is known about the path (RFC 6298, section 2.1).
//! A dead path costs the whole connection. RFC 8305 ("Happy Eyeballs") races whole connections over the addresses of a
//! host. Under MPTCP no second connection is needed: the SYN with MP_CAPABLE carries neither key nor token (RFC 8684,
//! section 3.1), so that several of them are the same offer. The client takes the peer's key from the SYN/ACK that
//! arrives first. It knows nothing about the other ports any more, and answers what arrives there with RST (RFC 9293,
//! section 3.10.7.1). The peer's application does not see these attempts, because none of them is completed.
//!
//! A client with one path sends its SYN twice instead. Switches send the copy over another path if it has another flow
//! label. Both are one SYN to the peer, which answers each of them (RFC 9293, section 3.10.7.4).

use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Segment};

use super::{View, Wanted};
use crate::connection::ended::SubflowEnd;
use crate::connection::extensions::packet_scatter;
use crate::connection::{Connection, Role};
use crate::subflow::{InitialNumbers, NewSubflow, Origin, Subflow};
use crate::types::SubflowId;

impl Connection {
    /// The endpoints of the next rival of the first SYN, if there is another one. The stack opens it by
    /// [`Connection::add_rival`].
    pub(crate) fn next_rival(&mut self) -> Option<Wanted> {
        let shared = self.config.clone();
        let config = shared.multipath.as_ref()?;
        if !self.may_race() {
            return None;
        }
        while self.subflows.len() < config.max_subflows && self.identifiers.is_any_free() {
            let view = View {
                paths: &self.paths,
                scatter: &self.extensions.scatter,
                accepts_at_first: true,
            };
            let (local, remote) = config.path_manager.next(&view)?;
            self.paths.opened.push((local, remote));
            if remote == self.paths.first_remote {
                return Some(Wanted {
                    local,
                    remote,
                    address_ids: (0, 0),
                });
            }
        }
        None
    }

    /// Whether the first SYN may be sent more than once before its timeout.
    fn may_race(&self) -> bool {
        let multipath = self.config.multipath.as_ref();
        let races = multipath.is_some_and(|m| m.syn_race.is_some() && !m.backup);
        let begins = self.role == Role::Client && self.mp.is_some() && self.is_half_open();
        races && begins && self.config.stage.is_none() && !self.extensions.scatter.is_on()
    }

    /// The first SYN has no rival. If rivals would have been sent at once, it is sent twice at once instead. The copy has
    /// another flow label if labels change, and with it another path.
    pub(crate) fn race_alone(&mut self) {
        if self.may_race()
            && self.race_interval().is_zero()
            && let Some(i) = self.index(SubflowId::FIRST)
        {
            self.subflows[i].double_syn();
        }
    }

    /// Adds a rival of the first SYN. Returns false if there is no identifier left for it.
    pub(crate) fn add_rival(
        &mut self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        initial: InitialNumbers,
    ) -> bool {
        let Some(id) = self.identifiers.take() else {
            return false;
        };
        let rival = NewSubflow {
            id,
            local,
            remote,
            origin: Origin::Initial,
            initial,
            planned: self.config.planned_subflows().max(id.number() + 1),
        };
        let config = packet_scatter::opening(&self.config);
        self.subflows.push(Subflow::new(now, &config, rival, None));
        true
    }

    /// All SYNs are ready. That of `first` is sent at once, and `after` is the time between two of them. Those of backups
    /// come last, when the first SYN's timeout has passed.
    pub(crate) fn start_race(&mut self, now: Instant, first: SubflowId, after: Duration) {
        let timeout = self.index(first).map(|i| self.subflows[i].tx.rtt.rto());
        let is_backup = |c: &Self, i: usize| c.is_backup_address(c.subflows[i].local.addr);
        let mut at = now;
        for backup in [false, true] {
            if backup {
                at = at.max(now + timeout.unwrap_or_default());
            }
            for i in 0..self.subflows.len() {
                if self.subflows[i].id != first && is_backup(self, i) == backup {
                    at += after;
                    self.subflows[i].hold_syn(now, at);
                }
            }
        }
    }

    /// The time between two SYNs if the stack remembers nothing: see
    /// [`MultipathConfig::syn_race`](crate::config::MultipathConfig).
    pub(crate) fn race_interval(&self) -> Duration {
        let config = self.config.multipath.as_ref();
        config.and_then(|m| m.syn_race).unwrap_or(Duration::ZERO)
    }

    /// Segment `seg` has arrived on subflow `i` of a connection that is not established. If it answers a rival's SYN,
    /// the rival becomes the first subflow. Returns the index of the subflow from then on.
    #[cold] // the handshake
    pub(in crate::connection) fn promote_if_answered(&mut self, i: usize, seg: &Segment) -> usize {
        let (id, local) = (self.subflows[i].id, self.subflows[i].local);
        if id == SubflowId::FIRST || !self.subflows[i].is_answered_by(seg) {
            return i;
        }
        if self.index(SubflowId::FIRST).is_some() {
            self.subflows.promote(i);
        } else {
            // The first SYN was refused, or was given up.
            self.subflows.make_first(i);
            self.identifiers.give_back(id, false);
        }
        self.paths.first_local = local;
        if let Some(former) = self.paths.local.start_from(local.addr) {
            self.paths.signals.exchange_ids(0, former);
        }
        self.subflows.position_of(SubflowId::FIRST).unwrap_or(i)
    }

    /// Subflow `i` is about to be established as the first one. The other SYNs are given up, and their paths may be
    /// joined.
    pub(in crate::connection) fn end_race(&mut self, now: Instant, i: usize) {
        for k in 0..self.subflows.len() {
            let is_rival = self.subflows[k].origin == Origin::Initial;
            if k != i && is_rival && !self.subflows.has_ended(k) {
                self.record_end(now, k, SubflowEnd::Outrun);
            }
        }
        let first = &self.subflows[i];
        self.paths.opened = vec![(first.local.addr, first.remote)];
    }
}
