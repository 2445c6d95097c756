//! Addresses and further subflows (RFC 8684, sections 3.3.8 and 3.4).

use std::net::IpAddr;

use rand_core::RngCore;
use spindle_units::{Duration, Instant};
use spindle_wire::{AddAddr, Endpoint, MpPrio, RareOptions, RemoveAddr};

use super::{Connection, Role};
use crate::config::PathManager;
use crate::host::keys;
use crate::random::reduce;

/// Addresses learnt from a peer are kept up to this many.
const MAX_REMOTE: usize = 8;

/// An ADD_ADDR is repeated this often (RFC 8684, section 3.4.1, leaves it open) ...
const ADD_ADDR_TRIES: u32 = 3;
/// ... and at this interval, as today's kernels do by default for lack of an RTT of the new path.
const ADD_ADDR_INTERVAL: Duration = Duration::from_secs(1);

/// A subflow lost to the network or to a transient error is opened again after this long ...
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// ... doubled each time it fails, up to this (the initial and the largest retransmission timeout of
/// RFC 6298: a path that stays away costs a SYN a minute).
const RETRY_MOST: Duration = Duration::from_secs(60);

/// Addresses of a peer that are joined without delay; further ones at one in [`RETRY_MOST`]. Who
/// announces and withdraws in turn does not make this end send SYNs all over the world.
const ANNOUNCED_AT_ONCE: u32 = 32;

/// An address to be announced, or being withdrawn.
#[derive(Debug)]
struct Announcement {
    id: u8,
    addr: IpAddr,
    port: Option<u16>,
    tries: u32,
    repeat_at: Option<Instant>,
    due: bool,
}

/// A subflow wanted by the path manager; the stack supplies port and ISN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) local: IpAddr,
    pub(crate) remote: Endpoint,
    pub(crate) address_ids: (u8, u8),
}

/// The path manager's state.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Local addresses; the identifier is the position. 0 is the first subflow's.
    local: Vec<IpAddr>,
    first_remote: Endpoint,
    /// Remote addresses learnt: (identifier, endpoint).
    remote: Vec<(u8, Endpoint)>,
    announcements: Vec<Announcement>,
    echoes: Vec<AddAddr>,
    removals: Vec<u8>,
    /// MP_PRIOs to be sent, each on the subflow it is about.
    priorities: Vec<(u8, bool)>,
    /// Pairs for which a subflow was already asked for.
    opened: Vec<(IpAddr, Endpoint, u8)>,
    /// Pairs whose subflow was lost.
    retries: Vec<Retry>,
    /// How many more announced addresses are taken, and since when that is so.
    allowance: (u32, Option<Instant>),
    /// When the next subflow may be opened.
    not_before: Option<Instant>,
}

/// A pair of ends whose subflow was lost.
#[derive(Debug)]
struct Retry {
    local: IpAddr,
    remote: Endpoint,
    /// How often in a row.
    tries: u32,
    /// When it is to be opened again; none once it was.
    at: Option<Instant>,
}

impl Paths {
    pub(super) fn new(first: IpAddr, first_remote: Endpoint, addresses: Vec<IpAddr>) -> Self {
        let mut local = vec![first];
        local.extend(addresses.into_iter().filter(|a| *a != first));
        Self {
            local,
            first_remote,
            remote: Vec::new(),
            announcements: Vec::new(),
            echoes: Vec::new(),
            removals: Vec::new(),
            priorities: Vec::new(),
            opened: vec![(first, first_remote, 0)],
            retries: Vec::new(),
            allowance: (ANNOUNCED_AT_ONCE, None),
            not_before: None,
        }
    }

    /// Whether another announced address may be taken now.
    fn admit(&mut self, now: Instant) -> bool {
        let (left, since) = &mut self.allowance;
        let since = since.get_or_insert(now);
        while *left < ANNOUNCED_AT_ONCE && now.since(*since) >= RETRY_MOST {
            *left += 1;
            *since += RETRY_MOST;
        }
        if *left == ANNOUNCED_AT_ONCE {
            *since = now;
        }
        let admitted = *left > 0;
        *left -= u32::from(admitted);
        admitted
    }

    /// Takes an address the peer has announced.
    fn learn(&mut self, now: Instant, entry: (u8, Endpoint)) {
        let known = self.remote.iter().position(|(id, _)| *id == entry.0);
        let new = known.map_or(self.remote.len() < MAX_REMOTE, |k| self.remote[k] != entry);
        if !new || !self.admit(now) {
            return;
        }
        if let Some(k) = known {
            let (_, before) = self.remote.swap_remove(k);
            self.forget_remote(before);
        }
        self.remote.push(entry);
    }

    /// Announced anew, it is joined anew.
    fn forget_remote(&mut self, end: Endpoint) {
        self.opened.retain(|(_, remote, _)| *remote != end);
        self.retries.retain(|r| r.remote != end);
    }

    /// The address identifier of a local address. There are 255 at most, and peers choose which of
    /// ours they join: further ones share the last.
    pub(super) fn local_id(&mut self, addr: IpAddr) -> u8 {
        if let Some(at) = self.local.iter().position(|a| *a == addr) {
            return at.min(255) as u8;
        }
        if self.local.len() < 255 {
            self.local.push(addr);
            return (self.local.len() - 1) as u8;
        }
        255
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.announcements.is_empty() && self.retries.is_empty() {
            return self.not_before;
        }
        let repeats = self.announcements.iter().filter_map(|a| a.repeat_at);
        repeats
            .chain(self.retries.iter().filter_map(|r| r.at))
            .chain(self.not_before)
            .min()
    }

    /// A subflow between these ends was lost although nobody closed it.
    fn lost(&mut self, now: Instant, local: IpAddr, remote: Endpoint) {
        let known = |r: &Retry| r.local == local && r.remote == remote && r.at.is_none();
        let i = self.retries.iter().position(known).unwrap_or_else(|| {
            let (tries, at) = (0, None);
            self.retries.push(Retry {
                local,
                remote,
                tries,
                at,
            });
            self.retries.len() - 1
        });
        let retry = &mut self.retries[i];
        retry.at = Some(now + (RETRY_FIRST * (1 << retry.tries.min(16))).min(RETRY_MOST));
        retry.tries += 1;
    }

    /// A subflow between these ends is up.
    pub(super) fn up(&mut self, local: IpAddr, remote: Endpoint) {
        self.retries
            .retain(|r| r.at.is_some() || (r.local, r.remote) != (local, remote));
    }

    /// The first of these local addresses that has not as many subflows yet as are to be opened from it.
    fn next_endpoint(&self, list: &[IpAddr]) -> Option<IpAddr> {
        let (first, remote) = (self.local[0], self.first_remote);
        let missing = |(k, l): (usize, &IpAddr)| {
            let before = list[..=k].iter().filter(|a| *a == l).count();
            let wanted = before + usize::from(*l == first);
            let opened = self.opened.iter();
            let have = opened.filter(|(a, b, _)| a == l && *b == remote).count();
            let fits = l.is_ipv4() == remote.addr.is_ipv4();
            (fits && have < wanted).then_some(*l)
        };
        list.iter().enumerate().find_map(missing)
    }

    fn forget_opened(&mut self, local: IpAddr, remote: Endpoint) {
        let same = |(a, b, _): &(IpAddr, Endpoint, u8)| (*a, *b) == (local, remote);
        if let Some(at) = self.opened.iter().position(same) {
            self.opened.remove(at);
        }
    }

    pub(super) fn on_timer(&mut self, now: Instant) {
        self.not_before = self.not_before.filter(|t| now < *t);
        for a in &mut self.announcements {
            if a.repeat_at.is_some_and(|t| t <= now) {
                a.repeat_at = None;
                a.due = a.tries < ADD_ADDR_TRIES;
            }
        }
        for i in 0..self.retries.len() {
            let r = &mut self.retries[i];
            if r.at.is_some_and(|t| t <= now) {
                r.at = None;
                let (local, remote) = (r.local, r.remote);
                self.forget_opened(local, remote);
            }
        }
    }

    /// Whether something waits to be signalled.
    pub(super) fn has_signals(&self) -> bool {
        !self.echoes.is_empty()
            || !self.removals.is_empty()
            || !self.priorities.is_empty()
            || self.announcements.iter().any(|a| a.due)
    }
}

impl Connection {
    /// The next subflow the path manager wants opened; the stack opens it by [`Connection::join`].
    pub(crate) fn next_wanted(&mut self, now: Instant) -> Option<Wanted> {
        self.end_first_phase_if_due();
        if self.scatter.holds_back() || self.paths.not_before.is_some_and(|t| now < t) {
            return None;
        }
        let Some(wanted) = self.next_pair() else {
            if self.subflows.len() == 1 {
                self.on_late_subflow();
            }
            return None;
        };
        let most = self
            .config
            .multipath
            .as_ref()
            .map_or(Duration::ZERO, |m| m.join_spacing);
        if most > Duration::ZERO {
            let wait = reduce(self.rng.next_u64(), most.as_nanos() + 1);
            self.paths.not_before = Some(now + Duration::from_nanos(wait));
        }
        Some(wanted)
    }

    /// The ends of the next subflow, whenever it may be opened.
    fn next_pair(&mut self) -> Option<Wanted> {
        let mp = self.multipath()?;
        if self.role != Role::Client || !mp.confirmed || self.closing_soon() {
            return None;
        }
        let to_first = !mp.no_more_to_remote;
        let config = self.config.multipath.as_ref()?;
        if self.subflows.len() >= config.max_subflows
            || usize::from(self.next_id) >= 4 * config.max_subflows
        {
            return None;
        }
        match &config.path_manager {
            PathManager::Passive => None,
            PathManager::Ports(n) => {
                let wanted = self.scatter.subflows(*n);
                let have = self.paths.opened.len();
                let (local, remote) = (self.paths.local[0], self.paths.first_remote);
                if !to_first || have >= wanted {
                    return None;
                }
                self.paths.opened.push((local, remote, have as u8));
                Some(Wanted {
                    local,
                    remote,
                    address_ids: (0, 0),
                })
            }
            PathManager::Endpoints(list) => {
                let remote = self.paths.first_remote;
                let next = self.paths.next_endpoint(list)?;
                self.open_pair(next, 0, remote)
            }
            PathManager::FullMesh => {
                let mut remotes = Vec::new();
                if to_first {
                    remotes.push((0, self.paths.first_remote));
                }
                remotes.extend(self.paths.remote.iter().copied());
                let local = self.paths.local.clone();
                let pairs = local
                    .iter()
                    .flat_map(|l| remotes.iter().map(move |(id, r)| (*l, *id, *r)))
                    .collect();
                self.first_unopened(pairs)
            }
        }
    }

    /// Subflow `i` is about to be lost, to the network or to an error that may pass: the path manager
    /// that opened it is to try again.
    pub(super) fn retry_later(&mut self, now: Instant, i: usize) {
        if self.role == Role::Client && self.is_multipath() && !self.closing {
            let sf = &self.subflows[i];
            self.paths.lost(now, sf.local.addr, sf.remote);
        }
    }

    fn first_unopened(&mut self, pairs: Vec<(IpAddr, u8, Endpoint)>) -> Option<Wanted> {
        let fresh = pairs.into_iter().find(|(l, _, r)| {
            l.is_ipv4() == r.addr.is_ipv4()
                && !self.paths.opened.iter().any(|(a, b, _)| a == l && b == r)
        });
        let (local, remote_id, remote) = fresh?;
        self.open_pair(local, remote_id, remote)
    }

    fn open_pair(&mut self, local: IpAddr, remote_id: u8, remote: Endpoint) -> Option<Wanted> {
        self.paths.opened.push((local, remote, 0));
        let local_id = self.paths.local_id(local);
        Some(Wanted {
            local,
            remote,
            address_ids: (local_id, remote_id),
        })
    }

    /// Announces a further local address to the peer (ADD_ADDR), `port` if it listens on another.
    pub(crate) fn announce(&mut self, addr: IpAddr, port: Option<u16>) {
        if self.mp.is_none() {
            return;
        }
        let id = self.paths.local_id(addr);
        self.paths.announcements.retain(|a| a.id != id);
        self.paths.announcements.push(Announcement {
            id,
            addr,
            port,
            tries: 0,
            repeat_at: None,
            due: true,
        });
    }

    /// Withdraws a local address (REMOVE_ADDR); its subflows are closed.
    pub(crate) fn withdraw(&mut self, now: Instant, addr: IpAddr) {
        let id = self.paths.local_id(addr);
        self.paths.announcements.retain(|a| a.id != id);
        if self.is_multipath() {
            self.paths.removals.push(id);
        }
        self.drop_subflows(now, |s| s.local.addr == addr);
    }

    /// Asks the peer to treat a subflow as backup, or no longer (MP_PRIO).
    pub(crate) fn set_backup(&mut self, subflow: u8, backup: bool) {
        if let Some(i) = self.index(subflow)
            && self.is_multipath()
        {
            self.subflows[i].backup_local = backup;
            self.paths.priorities.retain(|p| p.0 != subflow);
            self.paths.priorities.push((subflow, backup));
        }
    }

    /// Takes the path-management options of a segment that arrived on subflow `i`. Returns false if
    /// the subflow is gone.
    pub(super) fn on_addresses(&mut self, now: Instant, i: usize, rare: &RareOptions) -> bool {
        let id = self.subflows[i].id;
        for a in &rare.add_addr {
            self.on_add_addr(now, a);
        }
        if let Some(MpPrio { backup }) = rare.mp_prio {
            self.subflows[i].backup_remote = backup;
        }
        if let Some(RemoveAddr { address_ids }) = &rare.remove_addr {
            for gone in address_ids.iter().copied() {
                let left = |(id, _): &(u8, Endpoint)| *id == gone;
                while let Some(at) = self.paths.remote.iter().position(left) {
                    let (_, end) = self.paths.remote.swap_remove(at);
                    self.paths.forget_remote(end);
                }
                // The subflow that brought the news is spared if it is the last.
                self.drop_subflows(now, |s| s.address_id_remote == gone);
            }
        }
        self.index(id).is_some()
    }

    fn on_add_addr(&mut self, now: Instant, a: &AddAddr) {
        let Some(mp) = self.multipath().copied() else {
            return;
        };
        if a.echo {
            self.paths
                .announcements
                .retain(|mine| !(mine.id == a.address_id && mine.addr == a.addr));
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
        if self.paths.echoes.len() < MAX_REMOTE {
            self.paths.echoes.push(AddAddr {
                echo: true,
                hmac: None,
                ..*a
            });
        }
        let port = a.port.unwrap_or(self.paths.first_remote.port);
        self.paths
            .learn(now, (a.address_id, Endpoint::new(a.addr, port)));
    }

    /// Puts one pending signal on an acknowledgement of subflow `i`; returns the option bytes it
    /// takes.
    pub(super) fn add_signal(&mut self, now: Instant, i: usize, rare: &mut RareOptions) -> usize {
        if let Some(echo) = self.paths.echoes.pop() {
            let len = add_addr_len(&echo);
            rare.add_addr.push(echo);
            return len;
        }
        if !self.paths.removals.is_empty() {
            let ids = std::mem::take(&mut self.paths.removals);
            let len = (3 + ids.len()).next_multiple_of(4);
            rare.remove_addr = Some(RemoveAddr { address_ids: ids });
            return len;
        }
        let id = self.subflows[i].id;
        if let Some(at) = self.paths.priorities.iter().position(|p| p.0 == id) {
            let (_, backup) = self.paths.priorities.remove(at);
            rare.mp_prio = Some(MpPrio { backup });
            return 4;
        }
        self.add_announcement(now, rare)
    }

    fn add_announcement(&mut self, now: Instant, rare: &mut RareOptions) -> usize {
        let Some(mp) = self.multipath().copied() else {
            return 0;
        };
        let Some(a) = self.paths.announcements.iter_mut().find(|a| a.due) else {
            return 0;
        };
        a.due = false;
        a.tries += 1;
        a.repeat_at = Some(now + ADD_ADDR_INTERVAL);
        let hmac = keys::add_addr_hmac(
            mp.key_local,
            mp.key_remote.unwrap_or_default(),
            a.id,
            a.addr,
            a.port,
        );
        let option = AddAddr {
            echo: false,
            address_id: a.id,
            addr: a.addr,
            port: a.port,
            hmac: Some(hmac),
        };
        let len = add_addr_len(&option);
        rare.add_addr.push(option);
        len
    }

    /// Which subflow the next signal is to leave on, if one is pending and can.
    pub(super) fn signal_subflow(&self) -> Option<usize> {
        self.multipath()?;
        // The handshake's keys come first; nothing else may ride beside them.
        if !self.paths.has_signals() || self.owed_keys().is_some() {
            return None;
        }
        let anywhere = !self.paths.echoes.is_empty()
            || !self.paths.removals.is_empty()
            || self.paths.announcements.iter().any(|a| a.due);
        let about = |id: u8| self.paths.priorities.iter().any(|p| p.0 == id);
        self.subflows
            .iter()
            .position(|s| s.is_usable() && (anywhere || about(s.id)))
    }

    fn drop_subflows(&mut self, now: Instant, which: impl Fn(&crate::subflow::Subflow) -> bool) {
        while self.subflows.len() > 1 {
            let Some(i) = self.subflows.iter().position(&which) else {
                break;
            };
            self.reset_subflow(now, i, spindle_wire::ResetReason::Prohibited);
        }
    }
}

/// RFC 8684, figure 12, padded to a multiple of four.
fn add_addr_len(a: &AddAddr) -> usize {
    let addr = if a.addr.is_ipv4() { 4 } else { 16 };
    let port = if a.port.is_some() { 2 } else { 0 };
    let hmac = if a.hmac.is_some() { 8 } else { 0 };
    (4usize + addr + port + hmac).next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn no_more_local_addresses_are_kept_than_have_identifiers() {
        let at = |k: u32| IpAddr::from(k.to_be_bytes());
        let mut p = Paths::new(at(0), Endpoint::new(at(1 << 24), 80), Vec::new());
        for k in 0..10_000 {
            assert_eq!(u32::from(p.local_id(at(k))), k.min(255));
        }
        assert_eq!(p.local.len(), 255);
        assert_eq!(p.local_id(at(7)), 7);
    }

    #[test]
    fn endpoints_are_opened_as_often_as_they_stand_there_beside_the_first() {
        let addr = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
        let remote = Endpoint::new(addr(9), 80);
        let mut paths = Paths::new(addr(1), remote, Vec::new());
        let list = [addr(2), addr(1), addr(2)];
        let mut opened = Vec::new();
        while let Some(next) = paths.next_endpoint(&list) {
            paths.opened.push((next, remote, 0));
            opened.push(next);
        }
        assert_eq!(opened, [addr(2), addr(1), addr(2)]);
        // One of them is lost, and later opened again.
        paths.forget_opened(addr(1), remote);
        assert_eq!(paths.next_endpoint(&list), Some(addr(1)));
    }
}
