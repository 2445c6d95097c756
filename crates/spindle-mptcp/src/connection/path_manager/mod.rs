//! Addresses and further subflows (RFC 8684, sections 3.3.8 and 3.4).

mod addresses;
mod host_addresses;
mod race;
mod remote;
mod retries;
mod signals;

use std::net::IpAddr;
use std::sync::Arc;

use spindle_units::{Duration, Instant};
use spindle_wire::Endpoint;

use super::ended::SubflowEnd;
use super::extensions::packet_scatter::Phases;
use super::{Connection, Role};
use crate::config::AnnouncedAddresses;
use crate::path_manager::PathView;
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
    /// The local endpoint of the first subflow.
    first_local: Endpoint,
    remote: Remotes,
    signals: Signals,
    /// Pairs for which a subflow was already requested.
    opened: Vec<(IpAddr, Endpoint)>,
    retries: Retries,
    /// Subflows whose address is lost, and which are kept until another one is established.
    stranded: Vec<SubflowId>,
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
            first_local: first,
            remote: Remotes::default(),
            signals: Signals::default(),
            opened: vec![(first.addr, first_remote)],
            retries: Retries::default(),
            stranded: Vec::new(),
            not_before: None,
        }
    }

    /// The address by which peers know a local address.
    pub(super) fn outside(&self, inside: IpAddr) -> IpAddr {
        self.local.outside(inside)
    }

    /// Whether the subflows of a local address of this host are backups.
    pub(super) fn is_backup(&self, inside: IpAddr) -> bool {
        self.local.is_backup(inside)
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

    /// The identifier of the peer's address: 0 for that of the first subflow, if the peer accepts joins there,
    /// otherwise the announced one. `None` if it may not be joined, whatever the path manager wants.
    fn remote_id(&self, remote: Endpoint, accepts_at_first: bool) -> Option<u8> {
        if remote == self.first_remote && accepts_at_first {
            return Some(0);
        }
        let mut usable = self.remote.usable();
        usable.find(|r| r.1 == remote).map(|r| r.0)
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

    /// The endpoints from which the connection was planned to start, if another SYN was answered first and no subflow
    /// between them was opened since. The path manager takes them for open.
    fn displaced(&self) -> Option<(IpAddr, Endpoint)> {
        let planned = (self.local.first(), self.first_remote);
        let missing = self.first_local.addr != planned.0
            && !self.opened.contains(&planned)
            && self.local.usable().any(|a| a == planned.0);
        missing.then_some(planned)
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

/// What the path manager sees.
struct View<'a> {
    paths: &'a Paths,
    scatter: &'a Phases,
    accepts_at_first: bool,
}

impl PathView for View<'_> {
    fn first(&self) -> (IpAddr, Endpoint) {
        (self.paths.local.first(), self.paths.first_remote)
    }

    fn accepts_at_first(&self) -> bool {
        self.accepts_at_first
    }

    fn opened(&self) -> &[(IpAddr, Endpoint)] {
        &self.paths.opened
    }

    fn local_addresses(&self) -> Box<dyn Iterator<Item = IpAddr> + '_> {
        Box::new(self.paths.local.usable())
    }

    fn announced(&self) -> Box<dyn Iterator<Item = Endpoint> + '_> {
        Box::new(self.paths.remote.usable().map(|(_, end)| end))
    }

    fn subflows(&self, planned: usize) -> usize {
        self.scatter.subflows(planned)
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
        if self.role != Role::Client || !self.may_join() {
            return None;
        }
        // A client that has sent everything may still receive, for which it needs one subflow.
        let replaces = self.is_stranded() && self.outlives_its_subflows();
        if self.closing_soon() && !replaces {
            return None;
        }
        // RFC 8684, section 3.1, flag C: no further subflow to the address and port of the first.
        let accepts_at_first = !mp.no_more_to_remote;
        let config = self.config.multipath.as_ref()?;
        if self.subflows.len() >= config.max_subflows || !self.identifiers.is_any_free() {
            return None;
        }
        let view = View {
            paths: &self.paths,
            scatter: &self.extensions.scatter,
            accepts_at_first,
        };
        let wanted = config.path_manager.next(&view);
        let displaced = || self.paths.displaced().filter(|_| accepts_at_first);
        let (local, remote) = wanted.or_else(displaced)?;
        let remote_id = self.paths.remote_id(remote, accepts_at_first)?;
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
        at == p.first_local || p.signals.is_announced(at, p.first_local.port)
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
