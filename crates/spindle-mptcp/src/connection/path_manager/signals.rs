//! The options of path management in both directions: ADD_ADDR, REMOVE_ADDR and MP_PRIO (RFC 8684, sections
//! 3.3.8, 3.4.1 and 3.4.2).

use std::net::IpAddr;

use spindle_units::{Duration, Instant};
use spindle_wire::{AddAddr, Endpoint, MpPrio, RareOptions, RemoveAddr};

use super::addresses::{LocalAddresses, admits, exchanged};
use super::remote::Learnt;
use super::retries::{RETRY_FIRST, RETRY_MOST, wait};
use crate::connection::Connection;
use crate::connection::ended::SubflowEnd;
use crate::keys;
use crate::types::SubflowId;

/// How often an ADD_ADDR is sent (RFC 8684, section 3.4.1, leaves it open).
const ADD_ADDR_TRIES: u32 = 3;
/// The interval at which it is repeated. Current kernels use this default because the RTT of the new path is
/// unknown.
const ADD_ADDR_INTERVAL: Duration = Duration::from_secs(1);

/// How often a REMOVE_ADDR is sent, at the interval of ADD_ADDR. Its arrival is never confirmed, because RFC
/// 8684 has no echo for it. RFC 8684 says that a receiver ignores a REMOVE_ADDR of an address it does not know,
/// so repeating it does no harm.
const REMOVE_ADDR_TRIES: u32 = 3;
/// Maximum number of identifiers in one REMOVE_ADDR. This many fit together with timestamps and a DATA_ACK of
/// 64 bits (RFC 8684, figure 13).
const REMOVE_ADDR_IDS: usize = 8;

/// Maximum number of echoes that wait to be sent.
const MAX_ECHOES: usize = 8;

/// Maximum number of local addresses that are announced again after their subflow was lost.
const MAX_LOST: usize = 8;
/// How often in a row each of these addresses is announced again. This is our choice: if the peer does not join
/// within about two minutes, it is assumed to have no path.
const ANNOUNCE_AGAIN: u32 = 8;
/// How long before its next announcement an address is removed. This is our choice: peers need not process the
/// two options in the order of their arrival, and Linux does not.
const REMOVED_FOR: Duration = RETRY_FIRST;

/// Number of keepalive probes on a path whose address the peer has removed. RFC 8684, section 3.4.2, leaves
/// their number open. The first probe is sent at once. The wait after it is a retransmission timeout, and the
/// wait doubles after each further probe.
const REMOVAL_PROBES: u32 = 3;

/// A local address that was announced or will be announced.
#[derive(Debug)]
struct Announcement {
    id: u8,
    /// The address as this end has it, and the address as peers know it.
    inside: IpAddr,
    outside: IpAddr,
    port: Option<u16>,
    tries: u32,
    repeat_at: Option<Instant>,
    due: bool,
}

/// A withdrawn address.
#[derive(Debug)]
struct Removal {
    id: u8,
    tries: u32,
    repeat_at: Option<Instant>,
    due: bool,
}

/// A local address that the peer had joined, and whose subflow was lost.
#[derive(Debug)]
struct Lost {
    at: Endpoint,
    /// How often in a row it was announced again.
    tries: u32,
    /// What will be signalled next about it, and when.
    next: Option<(Instant, Step)>,
    /// Since when a subflow to it is established again.
    up_since: Option<Instant>,
}

/// How a lost address is offered to the peer again, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// REMOVE_ADDR, unless a subflow at the address is left. The RST that closed the lost subflow at this end
    /// may not have reached the peer. A peer whose end of the subflow still exists has no reason to join the
    /// address again.
    Remove,
    Announce,
}

impl Lost {
    /// Plans the next announcement after a wait that doubles, and the removal before it.
    fn plan(&mut self, now: Instant) {
        let next = (now + (wait(self.tries) - REMOVED_FOR), Step::Remove);
        self.next = (self.tries < ANNOUNCE_AGAIN).then_some(next);
    }
}

/// A subflow whose address the peer has removed. It is closed if the path does not answer.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    subflow: SubflowId,
    since: Instant,
    probes: u32,
    next_at: Instant,
}

/// Signals that are due, and the state of those that were sent.
#[derive(Debug, Default)]
pub(super) struct Signals {
    announcements: Vec<Announcement>,
    echoes: Vec<AddAddr>,
    removals: Vec<Removal>,
    /// MP_PRIOs that are due. Each is sent on the subflow that it is about.
    priorities: Vec<(SubflowId, bool)>,
    lost: Vec<Lost>,
    leaving: Vec<Leaving>,
}

impl Signals {
    /// Whether no timer of path-management signals is running.
    pub(super) fn is_idle(&self) -> bool {
        self.announcements.is_empty()
            && self.removals.is_empty()
            && self.lost.is_empty()
            && self.leaving.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let repeats = self.announcements.iter().filter_map(|a| a.repeat_at);
        let removals = self.removals.iter().filter_map(|r| r.repeat_at);
        let again = self.lost.iter().filter_map(|l| Some(l.next?.0));
        let leaving = self.leaving.iter().map(|l| l.next_at);
        repeats.chain(removals).chain(again).chain(leaving).min()
    }

    /// Whether an announcement or a removal with this identifier may still be in transit.
    pub(super) fn speak_of(&self, id: u8) -> bool {
        self.announcements.iter().any(|a| a.id == id) || self.removals.iter().any(|r| r.id == id)
    }

    /// The addresses with the identifiers `a` and `b` have exchanged them. Nothing was sent yet.
    pub(super) fn exchange_ids(&mut self, a: u8, b: u8) {
        for announcement in &mut self.announcements {
            announcement.id = exchanged(announcement.id, a, b);
        }
    }

    /// The address with this identifier is in use again, so its removal is not repeated.
    pub(super) fn forget_removal(&mut self, id: u8) {
        self.removals.retain(|r| r.id != id);
    }

    pub(super) fn forget_subflow(&mut self, id: SubflowId) {
        self.priorities.retain(|p| p.0 != id);
        self.leaving.retain(|l| l.subflow != id);
    }

    /// Whether this local endpoint was announced. An address that was announced without a port stands for
    /// `first_port`.
    pub(super) fn is_announced(&self, at: Endpoint, first_port: u16) -> bool {
        self.announcements
            .iter()
            .any(|a| a.inside == at.addr && a.port.unwrap_or(first_port) == at.port)
    }

    /// A subflow to this local endpoint was lost.
    pub(super) fn lost(&mut self, now: Instant, at: Endpoint) {
        let i = self
            .lost
            .iter()
            .position(|l| l.at == at)
            .unwrap_or_else(|| {
                if self.lost.len() == MAX_LOST {
                    self.lost.remove(0);
                }
                self.lost.push(Lost {
                    at,
                    tries: 0,
                    next: None,
                    up_since: None,
                });
                self.lost.len() - 1
            });
        let l = &mut self.lost[i];
        if l.up_since
            .take()
            .is_some_and(|t| now.since(t) >= RETRY_MOST)
        {
            l.tries = 0;
        }
        if l.next.is_none() {
            l.plan(now);
        }
    }

    /// A subflow to this local endpoint is established.
    pub(super) fn up(&mut self, now: Instant, at: Endpoint) {
        for l in self.lost.iter_mut().filter(|l| l.at == at) {
            l.next = None;
            l.up_since.get_or_insert(now);
        }
    }

    /// Serves the timers. `in_use` reports whether a subflow at a local address is open or being opened.
    pub(super) fn on_timer(
        &mut self,
        now: Instant,
        local: &LocalAddresses,
        in_use: impl Fn(IpAddr) -> bool,
    ) {
        for a in &mut self.announcements {
            if a.repeat_at.is_some_and(|t| t <= now) {
                a.repeat_at = None;
                a.due = a.tries < ADD_ADDR_TRIES;
            }
        }
        for r in &mut self.removals {
            if r.repeat_at.take_if(|t| *t <= now).is_some() {
                r.due = true;
            }
        }
        for i in 0..self.lost.len() {
            let l = &mut self.lost[i];
            let at = l.at;
            match l.next.take_if(|(t, _)| *t <= now) {
                None => {}
                Some((_, Step::Remove)) => {
                    l.next = Some((now + REMOVED_FOR, Step::Announce));
                    if !in_use(at.addr) {
                        self.remove_before_announcing(at.addr, local);
                    }
                }
                Some((_, Step::Announce)) => {
                    l.tries += 1;
                    l.plan(now);
                    self.announce_again(at, local);
                }
            }
        }
    }

    /// Makes one REMOVE_ADDR due for an address that will be announced again soon. It is not repeated, because
    /// a repetition would close the subflow that results from the announcement.
    fn remove_before_announcing(&mut self, addr: IpAddr, local: &LocalAddresses) {
        let Some(id) = local.id_of(addr) else {
            return;
        };
        for a in self.announcements.iter_mut().filter(|a| a.id == id) {
            (a.due, a.repeat_at) = (false, None);
        }
        self.push_removal(id, REMOVE_ADDR_TRIES - 1);
    }

    fn announce_again(&mut self, at: Endpoint, local: &LocalAddresses) {
        let same = |a: &&mut Announcement| {
            a.inside == at.addr && a.port.is_none_or(|port| port == at.port)
        };
        if let Some(a) = self.announcements.iter_mut().find(same) {
            (a.tries, a.repeat_at, a.due) = (0, None, true);
        } else if let Some(id) = local.id_of(at.addr) {
            self.announce(id, at.addr, local.outside(at.addr), None);
        }
    }

    fn announce(&mut self, id: u8, inside: IpAddr, outside: IpAddr, port: Option<u16>) {
        self.announcements.retain(|a| a.id != id);
        self.announcements.push(Announcement {
            id,
            inside,
            outside,
            port,
            tries: 0,
            repeat_at: None,
            due: true,
        });
    }

    /// Makes a REMOVE_ADDR due for a local address.
    pub(super) fn remove(&mut self, id: u8) {
        self.announcements.retain(|a| a.id != id);
        self.push_removal(id, 0);
    }

    /// Makes a REMOVE_ADDR due. It counts as sent `tries` times.
    fn push_removal(&mut self, id: u8, tries: u32) {
        self.forget_removal(id);
        self.removals.push(Removal {
            id,
            tries,
            repeat_at: None,
            due: true,
        });
    }

    /// Whether a signal is due that may be sent on any subflow.
    fn waits_for_any(&self) -> bool {
        !self.echoes.is_empty()
            || self.removals.iter().any(|r| r.due)
            || self.announcements.iter().any(|a| a.due)
    }

    /// How often the next removal that is due was sent before.
    fn removal_tries(&self) -> usize {
        let due = self.removals.iter().find(|r| r.due);
        due.map_or(0, |r| r.tries as usize)
    }

    /// Takes the identifiers of a REMOVE_ADDR that is due.
    fn take_removals(&mut self, now: Instant) -> Vec<u8> {
        let due = self.removals.iter_mut().filter(|r| r.due);
        let mut ids = Vec::new();
        for r in due.take(REMOVE_ADDR_IDS) {
            ids.push(r.id);
            r.due = false;
            r.tries += 1;
            r.repeat_at = (r.tries < REMOVE_ADDR_TRIES).then(|| now + ADD_ADDR_INTERVAL);
        }
        self.removals.retain(|r| r.due || r.repeat_at.is_some());
        ids
    }
}

impl super::Paths {
    /// Whether a signal is due.
    pub(in crate::connection) fn has_signals(&self) -> bool {
        !self.signals.priorities.is_empty() || self.signals.waits_for_any()
    }
}

impl Connection {
    /// Announces a further local address to the peer (ADD_ADDR), as the peer knows it. `port` is set if this
    /// end listens on another port there. Returns false if there is no identifier left for the address, or no
    /// MPTCP.
    pub(crate) fn announce(&mut self, addr: IpAddr, port: Option<u16>) -> bool {
        if self.mp.is_none() {
            return false;
        }
        let inside = self.paths.local.inside(addr);
        let Some(id) = self.local_id(inside) else {
            return false;
        };
        self.paths.signals.announce(id, inside, addr, port);
        true
    }

    /// Withdraws a local address (REMOVE_ADDR), as the peer knows it. Its subflows are closed.
    pub(crate) fn withdraw(&mut self, now: Instant, addr: IpAddr) {
        let inside = self.paths.local.inside(addr);
        if let Some(id) = self.paths.local.id_of(inside)
            && self.is_multipath()
        {
            self.paths.signals.remove(id);
        }
        self.paths.signals.lost.retain(|l| l.at.addr != inside);
        self.paths.local.withdraw(inside);
        self.paths.retries.forget_local(inside);
        self.paths.opened.retain(|(local, _)| *local != inside);
        self.drop_subflows(now, SubflowEnd::Withdrawn, |s| s.local.addr == inside);
        self.subflows.remove_ended();
    }

    /// Requests the peer to treat a subflow as a backup, or no longer as a backup (MP_PRIO).
    pub(crate) fn set_backup(&mut self, subflow: SubflowId, backup: bool) {
        if let Some(i) = self.index(subflow)
            && self.is_multipath()
        {
            self.subflows[i].backup.local = backup;
            let priorities = &mut self.paths.signals.priorities;
            priorities.retain(|p| p.0 != subflow);
            priorities.push((subflow, backup));
        }
    }

    /// Processes the path-management options of a segment that arrived on subflow `i`.
    pub(in crate::connection) fn on_addresses(
        &mut self,
        now: Instant,
        i: usize,
        rare: &RareOptions,
    ) {
        for a in &rare.add_addr {
            self.on_add_addr(a);
        }
        if let Some(MpPrio { backup }) = rare.mp_prio {
            self.subflows[i].backup.remote = backup;
        }
        if let Some(RemoveAddr { address_ids }) = &rare.remove_addr {
            for gone in address_ids.iter().copied() {
                self.on_remove_addr(now, gone);
            }
        }
    }

    fn on_add_addr(&mut self, a: &AddAddr) {
        let Some(mp) = self.multipath().copied() else {
            return;
        };
        if a.echo {
            let mine = |m: &&mut Announcement| m.id == a.address_id && m.outside == a.addr;
            if let Some(m) = self.paths.signals.announcements.iter_mut().find(mine) {
                (m.due, m.repeat_at) = (false, None);
            }
            return;
        }
        let expected = keys::add_addr_hmac(
            mp.key_remote.unwrap_or_default(),
            mp.key_local,
            a.address_id,
            a.addr,
            a.port,
        );
        if !a.hmac.is_some_and(|h| keys::same_64(h, expected)) {
            self.counters.add_addr_hmac_failures += 1;
            return;
        }
        let echoes = &mut self.paths.signals.echoes;
        if echoes.len() < MAX_ECHOES {
            echoes.push(AddAddr {
                echo: true,
                hmac: None,
                ..*a
            });
        }
        let first = self.paths.first_remote;
        let end = Endpoint::new(a.addr, a.port.unwrap_or(first.port));
        if end == first {
            self.paths.retries.hasten(end);
        } else if end.port == 0 || !admits(self.announced_policy(), first.addr, a.addr) {
            self.counters.add_addr_refused += 1;
        } else {
            self.learn(a.address_id, end);
        }
    }

    fn learn(&mut self, id: u8, end: Endpoint) {
        match self.paths.remote.learn(id, end) {
            Learnt::Nothing => {}
            Learnt::New(before) => before
                .into_iter()
                .for_each(|end| self.paths.forget_remote(end)),
            Learnt::Again => self.paths.retries.hasten(end),
        }
    }

    /// The peer has removed an address. Its subflows are closed if their paths no longer answer a keepalive
    /// probe (RFC 8684, section 3.4.2). Until then other subflows carry the data.
    fn on_remove_addr(&mut self, now: Instant, gone: u8) {
        if let Some(end) = self.paths.remote.remove(gone) {
            self.paths.forget_remote(end);
        }
        for i in 0..self.subflows.len() {
            let s = &self.subflows[i];
            let leaving = &self.paths.signals.leaving;
            let known = leaving.iter().any(|l| l.subflow == s.id);
            if s.address_ids.remote != gone || known || !s.state.is_synchronized() {
                continue;
            }
            self.probe_removed(now, i);
        }
    }

    fn probe_removed(&mut self, now: Instant, i: usize) {
        let (subflow, rto) = (self.subflows[i].id, self.subflows[i].tx.rtt.rto());
        let other = |s: &crate::subflow::Subflow| s.id != subflow && s.is_usable() && !s.dead;
        if self.subflows.iter().any(other) {
            self.subflows[i].dead = true;
            self.settle_draining();
            self.reinject_from(i, true);
        }
        self.subflows[i].due.probe = true;
        self.paths.signals.leaving.push(Leaving {
            subflow,
            since: now,
            probes: 1,
            next_at: now + rto,
        });
    }

    /// Serves the timers of paths whose address the peer has removed.
    pub(in crate::connection) fn removal_timers(&mut self, now: Instant) {
        let due = |l: &Leaving| l.next_at <= now;
        while let Some(k) = self.paths.signals.leaving.iter().position(due) {
            let l = self.paths.signals.leaving[k];
            let Some(i) = self.index(l.subflow) else {
                self.paths.signals.leaving.remove(k);
                continue;
            };
            let s = &mut self.subflows[i];
            // An answer takes a round trip. A segment that arrived sooner was sent before the probe arrived.
            let answered =
                s.activity.last_heard >= l.since + s.tx.rtt.minimum().unwrap_or_default();
            let (heard, rto) = (answered && s.activity.last_heard > l.since, s.tx.rtt.rto());
            if heard {
                s.dead = false;
                self.settle_draining();
                self.paths.signals.leaving.remove(k);
            } else if l.probes < REMOVAL_PROBES {
                s.due.probe = true;
                let l = &mut self.paths.signals.leaving[k];
                l.next_at = now + rto * (1 << l.probes);
                l.probes += 1;
            } else {
                self.paths.signals.leaving.remove(k);
                // The last subflow is kept, because without it the peer could not be heard any more.
                if self.subflows.remaining_count() > 1 {
                    self.reset_subflow(now, i, SubflowEnd::PeerRemovedAddress);
                }
            }
        }
    }

    /// Returns the echo of an ADD_ADDR that is sent alone on an acknowledgement, before the peer has sent a DSS.
    /// The acknowledgement has no keys, because the HMAC of the ADD_ADDR has shown that the peer has our key (RFC
    /// 8684, section 3.4.1).
    pub(in crate::connection) fn early_echo(&mut self) -> Option<AddAddr> {
        self.owed_keys()?;
        self.paths.signals.echoes.pop()
    }

    /// Adds one pending signal to an acknowledgement of subflow `i`. Returns whether there was one.
    pub(in crate::connection) fn add_signal(
        &mut self,
        now: Instant,
        i: usize,
        rare: &mut RareOptions,
    ) -> bool {
        if let Some(echo) = self.paths.signals.echoes.pop() {
            rare.add_addr.push(echo);
            return true;
        }
        let address_ids = self.paths.signals.take_removals(now);
        if !address_ids.is_empty() {
            rare.remove_addr = Some(RemoveAddr { address_ids });
            return true;
        }
        let id = self.subflows[i].id;
        let priorities = &mut self.paths.signals.priorities;
        if let Some(at) = priorities.iter().position(|p| p.0 == id) {
            let (_, backup) = priorities.remove(at);
            rare.mp_prio = Some(MpPrio { backup });
            return true;
        }
        self.add_announcement(now, rare)
    }

    fn add_announcement(&mut self, now: Instant, rare: &mut RareOptions) -> bool {
        let Some(mp) = self.multipath().copied() else {
            return false;
        };
        let announcements = &mut self.paths.signals.announcements;
        let Some(a) = announcements.iter_mut().find(|a| a.due) else {
            return false;
        };
        a.due = false;
        a.tries += 1;
        a.repeat_at = Some(now + ADD_ADDR_INTERVAL);
        let remote = mp.key_remote.unwrap_or_default();
        let hmac = keys::add_addr_hmac(mp.key_local, remote, a.id, a.outside, a.port);
        rare.add_addr.push(AddAddr {
            echo: false,
            address_id: a.id,
            addr: a.outside,
            port: a.port,
            hmac: Some(hmac),
        });
        true
    }

    /// The subflow on which the next signal will be sent, if one is pending and can be sent. Each repetition of
    /// a removal uses another subflow.
    pub(in crate::connection) fn signal_subflow(&self) -> Option<usize> {
        self.multipath()?;
        if !self.paths.has_signals() {
            return None;
        }
        let signals = &self.paths.signals;
        // Until the peer has the keys, they are sent first. Only an echo may be sent before them.
        if self.owed_keys().is_some() && signals.echoes.is_empty() {
            return None;
        }
        let anywhere = signals.waits_for_any();
        let about = |id: SubflowId| signals.priorities.iter().any(|p| p.0 == id);
        let fits = |s: &crate::subflow::Subflow| s.is_usable() && (anywhere || about(s.id));
        let fitting = || (0..self.subflows.len()).filter(|i| fits(&self.subflows[*i]));
        let n = fitting().count().max(1);
        fitting().nth(signals.removal_tries() % n)
    }
}
