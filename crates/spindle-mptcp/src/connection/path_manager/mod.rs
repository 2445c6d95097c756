//! Addresses and further subflows (RFC 8684, sections 3.3.8 and 3.4).

mod addresses;
mod remote;
mod retries;
mod signals;

use std::net::IpAddr;
use std::sync::Arc;

use spindle_units::{Duration, Instant};
use spindle_wire::Endpoint;

use super::ended::SubflowEnd;
use super::{Connection, Role};
use crate::config::{AnnouncedAddresses, PathManager};
use crate::random::reduce;
use crate::types::SubflowId;
use addresses::LocalAddresses;
use remote::Remotes;
use retries::Retries;
use signals::Signals;

/// A subflow that the path manager requests. The stack supplies port and ISN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) local: IpAddr,
    pub(crate) remote: Endpoint,
    pub(crate) address_ids: (u8, u8),
}

/// The path manager's state.
#[derive(Debug)]
pub(crate) struct Paths {
    local: LocalAddresses,
    first_remote: Endpoint,
    /// The local port of the first subflow.
    first_port: u16,
    remote: Remotes,
    signals: Signals,
    /// Pairs for which a subflow was already requested.
    opened: Vec<(IpAddr, Endpoint)>,
    retries: Retries,
    /// When the next subflow may be opened.
    not_before: Option<Instant>,
}

impl Paths {
    pub(super) fn new(
        first: Endpoint,
        first_remote: Endpoint,
        addresses: Vec<IpAddr>,
        outside: Arc<[(IpAddr, IpAddr)]>,
    ) -> Self {
        Self {
            local: LocalAddresses::new(first.addr, addresses, outside),
            first_remote,
            first_port: first.port,
            remote: Remotes::default(),
            signals: Signals::default(),
            opened: vec![(first.addr, first_remote)],
            retries: Retries::default(),
            not_before: None,
        }
    }

    /// The address by which peers know a local address.
    pub(super) fn outside(&self, inside: IpAddr) -> IpAddr {
        self.local.outside(inside)
    }

    /// When the next timer of the path manager is due. Without MPTCP no such timer is set.
    #[inline(never)] // only while an address or a probe waits
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.signals.is_idle() && self.retries.is_empty() {
            return self.not_before;
        }
        let signals = self.signals.deadline();
        let dates = [signals, self.retries.deadline(), self.not_before];
        dates.into_iter().flatten().min()
    }

    /// A subflow between these endpoints is established.
    pub(super) fn up(&mut self, now: Instant, local: Endpoint, remote: Endpoint) {
        self.retries.up(now, local.addr, remote);
        self.remote.prove(remote);
        self.signals.up(now, local);
    }

    /// The first of these local addresses from which fewer subflows were opened than the list requires.
    fn next_endpoint(&self, list: &[IpAddr]) -> Option<IpAddr> {
        let (first, remote) = (self.local.first(), self.first_remote);
        let missing = |(k, l): (usize, &IpAddr)| {
            let before = list[..=k].iter().filter(|a| *a == l).count();
            let wanted = before + usize::from(*l == first);
            let opened = self.opened.iter();
            let have = opened.filter(|(a, b)| a == l && *b == remote).count();
            let fits = l.is_ipv4() == remote.addr.is_ipv4();
            (fits && have < wanted).then_some(*l)
        };
        list.iter().enumerate().find_map(missing)
    }

    /// The first pair of a local address and an address of the peer for which no subflow was requested. With
    /// `to_first`, the peer's first address may be joined.
    fn next_pair(&self, to_first: bool) -> Option<(IpAddr, u8, Endpoint)> {
        let first = to_first.then_some((0, self.first_remote));
        let remotes: Vec<_> = first.into_iter().chain(self.remote.usable()).collect();
        let pairs = self
            .local
            .usable()
            .flat_map(|l| remotes.iter().map(move |(id, r)| (l, *id, *r)));
        pairs
            .into_iter()
            .find(|(l, _, r)| l.is_ipv4() == r.addr.is_ipv4() && !self.opened.contains(&(*l, *r)))
    }

    /// Whether a lost subflow will be opened again.
    pub(super) fn will_retry(&self) -> bool {
        self.retries.deadline().is_some() || self.not_before.is_some()
    }

    /// The endpoints of the first subflow, unless a subflow between them was opened and not given up.
    pub(super) fn reopen_first(&mut self) -> Option<Wanted> {
        let (local, remote) = (self.local.first(), self.first_remote);
        if self.opened.contains(&(local, remote)) {
            return None;
        }
        self.opened.push((local, remote));
        Some(Wanted {
            local,
            remote,
            address_ids: (0, 0),
        })
    }

    fn forget_opened(&mut self, local: IpAddr, remote: Endpoint) {
        let same = |pair: &(IpAddr, Endpoint)| *pair == (local, remote);
        if let Some(at) = self.opened.iter().position(same) {
            self.opened.remove(at);
        }
    }

    /// Forgets `remote`. No subflow to it is opened unless it is announced again. It then counts as new.
    fn forget_remote(&mut self, remote: Endpoint) {
        self.opened.retain(|(_, r)| *r != remote);
        self.retries.forget_remote(remote);
    }

    /// Serves the timers. `in_use` reports whether a subflow at a local address is open or being opened.
    pub(super) fn on_timer(&mut self, now: Instant, in_use: impl Fn(IpAddr) -> bool) {
        self.not_before = self.not_before.filter(|t| now < *t);
        self.signals.on_timer(now, &self.local, in_use);
        while let Some((local, remote)) = self.retries.take_due(now) {
            self.forget_opened(local, remote);
        }
    }
}

impl Connection {
    /// The next subflow that the path manager requests. The stack opens it by [`Connection::join`].
    pub(crate) fn next_wanted(&mut self, now: Instant) -> Option<Wanted> {
        self.end_first_phase_if_due();
        if self.extensions.scatter.holds_back() || self.paths.not_before.is_some_and(|t| now < t) {
            return None;
        }
        let Some(wanted) = self.next_pair().or_else(|| self.first_pair_again()) else {
            if self.subflows.len() == 1 {
                self.on_late_subflow();
            }
            self.give_up_without_paths();
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

    /// The endpoints of the next subflow, whenever it may be opened.
    fn next_pair(&mut self) -> Option<Wanted> {
        let mp = self.multipath()?;
        if self.role != Role::Client || !mp.confirmed || self.closing_soon() {
            return None;
        }
        // RFC 8684, section 3.1, flag C: no further subflow to the address and port of the first.
        let to_first = !mp.no_more_to_remote;
        let config = self.config.multipath.as_ref()?;
        if self.subflows.len() >= config.max_subflows || !self.identifiers.is_any_free() {
            return None;
        }
        let first = self.paths.first_remote;
        let (local, remote_id, remote) = match &config.path_manager {
            PathManager::Passive => return None,
            PathManager::Ports(n) => {
                let wanted = self.extensions.scatter.subflows(*n);
                let missing = to_first && self.paths.opened.len() < wanted;
                missing.then(|| (self.paths.local.first(), 0, first))?
            }
            PathManager::Endpoints(list) => {
                let local = to_first.then(|| self.paths.next_endpoint(list))??;
                (local, 0, first)
            }
            PathManager::FullMesh => self.paths.next_pair(to_first)?,
        };
        let local_id = self.local_id(local)?;
        self.paths.opened.push((local, remote));
        Some(Wanted {
            local,
            remote,
            address_ids: (local_id, remote_id),
        })
    }

    /// The address identifier of a local address, if there is one left for it.
    pub(super) fn local_id(&mut self, addr: IpAddr) -> Option<u8> {
        let (subflows, signals) = (&self.subflows, &self.paths.signals);
        let in_use =
            |id: u8| subflows.iter().any(|s| s.address_ids.local == id) || signals.speak_of(id);
        let id = self.paths.local.assign(addr, in_use)?;
        self.paths.signals.forget_removal(id);
        Some(id)
    }

    /// Subflow `i` is about to be lost, because of the network or a temporary error. The path manager that
    /// opened it must try again. An announced address at which no subflow was ever established is not tried
    /// again unless it is announced again (RFC 8684, section 3.4.1).
    pub(super) fn retry_later(&mut self, now: Instant, i: usize) {
        let last = self.subflows.remaining_count() == 1;
        if self.role == Role::Client && self.is_multipath() && (!self.teardown.closing || last) {
            let sf = &self.subflows[i];
            let (local, remote) = (sf.local.addr, sf.remote);
            if self.paths.remote.is_worth_another_try(remote) {
                self.paths.retries.lost(now, local, remote);
            }
        }
    }

    /// Subflow `i` is about to be removed for the reason `end`. If the peer joined a local address, the address
    /// is announced to the peer again, which requests another attempt (RFC 8684, section 3.4.1). Unless another
    /// subflow is at that address, the address is removed before that, so that the peer closes its end of the
    /// lost subflow (section 3.4.2).
    pub(super) fn announce_lost(&mut self, now: Instant, i: usize, end: SubflowEnd) {
        let multipath = self.config.multipath.as_ref();
        let wanted = multipath.is_some_and(|m| m.announce_again) && self.role == Role::Server;
        let given_up = match end {
            // If the peer gives a reason that is not transient, it does not want another attempt.
            SubflowEnd::PeerReset(why) => why.is_none_or(|w| w.transient),
            SubflowEnd::KeepaliveTimeout | SubflowEnd::Dead => true,
            _ => false,
        };
        let s = &self.subflows[i];
        let established = super::ended::is_known(s);
        if wanted && given_up && established && self.is_multipath() && !self.closing_soon() {
            let at = s.local;
            self.paths.signals.lost(now, at);
        }
    }

    /// Whether a peer may join at this local endpoint: that of the first subflow, or one that was announced.
    pub(crate) fn takes_joins_at(&self, at: Endpoint) -> bool {
        let p = &self.paths;
        let first = Endpoint::new(p.local.first(), p.first_port);
        at == first || p.signals.is_announced(at, p.first_port)
    }

    /// Resets the subflows for which `which` is true, except the last subflow of the connection.
    fn drop_subflows(
        &mut self,
        now: Instant,
        end: SubflowEnd,
        which: impl Fn(&crate::subflow::Subflow) -> bool,
    ) {
        for i in 0..self.subflows.len() {
            let concerned = !self.subflows.has_ended(i) && which(&self.subflows[i]);
            if concerned && self.subflows.remaining_count() > 1 {
                self.reset_subflow(now, i, end);
            }
        }
    }

    /// Subflow `id` no longer exists, so signals about it are dropped.
    pub(super) fn forget_signals_of(&mut self, id: SubflowId) {
        self.paths.signals.forget_subflow(id);
    }

    /// Which announced addresses are joined, if any.
    fn announced_policy(&self) -> AnnouncedAddresses {
        let multipath = self.config.multipath.as_ref();
        multipath.map_or(AnnouncedAddresses::Ignore, |m| m.announced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn each_endpoint_is_opened_as_often_as_listed_in_addition_to_the_first_subflow() {
        let addr = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
        let remote = Endpoint::new(addr(9), 80);
        let first = Endpoint::new(addr(1), 4000);
        let mut paths = Paths::new(first, remote, Vec::new(), Arc::new([]));
        let list = [addr(2), addr(1), addr(2)];
        let mut opened = Vec::new();
        while let Some(next) = paths.next_endpoint(&list) {
            paths.opened.push((next, remote));
            opened.push(next);
        }
        assert_eq!(opened, [addr(2), addr(1), addr(2)]);
        // One of the subflows is lost, and later opened again.
        paths.forget_opened(addr(1), remote);
        assert_eq!(paths.next_endpoint(&list), Some(addr(1)));
    }
}
