//! Addresses that this host gets and loses while a connection is open.
//!
//! A lost address is withdrawn (REMOVE_ADDR; RFC 8684, section 3.4.2) and its subflows are reset, so that the data
//! of both directions continue on other subflows at once. The peer could no longer be heard without any subflow,
//! so the last one is kept, although its address is lost. Such a subflow is *stranded*. It ends when another one is
//! established.

use std::net::IpAddr;

use spindle_units::Instant;

use super::Connection;
use crate::connection::Role;
use crate::connection::ended::SubflowEnd;
use crate::subflow::{Subflow, TcpState};
use crate::types::{LocalAddress, SubflowId};

/// Most lost addresses about which the peer is informed again once it can be reached again. This many identifiers fit
/// into one REMOVE_ADDR (our choice).
const REMOVALS: usize = 8;

impl Connection {
    /// This host no longer has the addresses `lost`, and has the addresses `present`. Only clients open subflows, so
    /// that this changes nothing at a server.
    pub(crate) fn change_local_addresses(
        &mut self,
        now: Instant,
        lost: &[IpAddr],
        present: &[LocalAddress],
    ) {
        if self.role != Role::Client || self.teardown.closed.is_some() {
            return;
        }
        for address in present {
            self.add_local_address(address.addr);
        }
        self.mark_backups(present);
        self.leave_addresses(now, lost);
        for i in 0..self.subflows.len() {
            let stranded = self.paths.stranded.contains(&self.subflows[i].id);
            if stranded && !self.subflows.has_ended(i) {
                self.subflows[i].retry_now(now);
            }
        }
        self.settle(now);
        self.subflows.remove_ended();
    }

    fn add_local_address(&mut self, addr: IpAddr) {
        let (subflows, signals) = (&self.subflows, &self.paths.signals);
        let in_use =
            |id: u8| subflows.iter().any(|s| s.address_ids.local == id) || signals.speak_of(id);
        if let Some(id) = self.paths.local.add(addr, in_use) {
            self.paths.signals.forget_removal(id);
        }
    }

    /// Sets which local addresses are backups. Subflows of addresses for which this changes are reported to the peer
    /// (MP_PRIO).
    pub(crate) fn mark_backups(&mut self, addresses: &[LocalAddress]) {
        let all = self.config.multipath.as_ref().is_some_and(|m| m.backup);
        for LocalAddress { addr, backup } in addresses {
            if !self.paths.local.set_backup(*addr, *backup) {
                continue;
            }
            let backup = all || self.is_backup_address(*addr);
            let concerned = |s: &&Subflow| s.local.addr == *addr && s.is_usable();
            let subflows = self.subflows.remaining().filter(concerned);
            let changed = subflows.filter(|s| s.backup.local != backup).map(|s| s.id);
            for id in changed.collect::<Vec<SubflowId>>() {
                self.set_backup(id, backup);
            }
        }
    }

    fn leave_addresses(&mut self, now: Instant, lost: &[IpAddr]) {
        let concerned = |s: &Subflow| lost.contains(&s.local.addr);
        let stays = |s: &Subflow| s.is_usable() && !concerned(s);
        let any_stays = self.subflows.remaining().any(stays);
        for addr in lost {
            let known = self.subflows.remaining().any(|s| s.local.addr == *addr);
            if let Some(id) = self.paths.local.id_of(*addr).filter(|_| known)
                && self.is_multipath()
            {
                self.paths.signals.remove(id);
            }
            self.paths.local.lose(*addr);
            self.paths.retries.forget_local(*addr);
            self.paths.opened.retain(|(local, _)| local != addr);
        }
        let mut keep = match any_stays {
            true => None,
            false => {
                let mut left = self.subflows.remaining();
                left.find(|s| s.state.is_synchronized() && concerned(s))
                    .map(|s| s.id)
            }
        };
        for i in 0..self.subflows.len() {
            if self.subflows.has_ended(i) || !concerned(&self.subflows[i]) {
                continue;
            }
            if keep == Some(self.subflows[i].id) {
                self.paths.stranded.extend(keep.take());
            } else {
                self.leave_subflow(now, i);
            }
        }
    }

    /// Ends subflow `i`, whose address is lost. A SYN without an answer needs no reset.
    fn leave_subflow(&mut self, now: Instant, i: usize) {
        match self.subflows[i].state {
            TcpState::SynSent => self.lose_subflow(now, i, SubflowEnd::Withdrawn),
            _ => self.reset_subflow(now, i, SubflowEnd::Withdrawn),
        }
    }

    /// Subflow `up` is established, so that stranded ones are no longer needed. What informed the peer about addresses
    /// that were lost before was perhaps sent on failed paths alone, so that it is repeated.
    pub(in crate::connection) fn leave_stranded(&mut self, now: Instant, up: SubflowId) {
        if self.paths.stranded.is_empty() {
            return;
        }
        for id in self.paths.local.lost_ids(REMOVALS) {
            self.paths.signals.remove(id);
        }
        let stranded = std::mem::take(&mut self.paths.stranded);
        for id in stranded.into_iter().filter(|id| *id != up) {
            if let Some(i) = self.index(id).filter(|i| !self.subflows.has_ended(*i)) {
                self.reset_subflow(now, i, SubflowEnd::Withdrawn);
            }
        }
    }

    /// Whether a subflow has lost its address and carries data until another one is established.
    pub(super) fn is_stranded(&self) -> bool {
        !self.paths.stranded.is_empty()
    }

    /// Sends something on every subflow at once: outstanding data again, otherwise a probe that the peer answers
    /// (RFC 9293, section 3.8.4). Lost subflows are opened again without further delay.
    pub(crate) fn probe_paths(&mut self, now: Instant) {
        if self.teardown.closed.is_some() {
            return;
        }
        for i in 0..self.subflows.len() {
            if !self.subflows.has_ended(i) {
                self.subflows[i].retry_now(now);
            }
        }
        self.paths.retries.hasten_all(now);
        self.settle(now);
    }
}
