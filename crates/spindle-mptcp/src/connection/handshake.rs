//! MPTCP's handshakes: MP_CAPABLE and MP_JOIN (RFC 8684, sections 3.1 and 3.2).

use std::net::IpAddr;

use spindle_units::Instant;
use spindle_wire::{Endpoint, Flags, MpCapable, MpJoin, Options, RareOptions, Segment};

use super::close::CloseReason;
use super::ended::SubflowEnd;
use super::{Connection, MpState, Role};
use crate::keys;
use crate::subflow::{InitialNumbers, JoinState, NewSubflow, Origin, Subflow, TcpState};
use crate::types::SubflowId;

/// The protocol version of RFC 8684.
const VERSION: u8 = 1;

/// SYNs with MP_CAPABLE before plain TCP is tried (RFC 8684, section 3.1: "after a sufficient number").
const CAPABLE_SYNS: u32 = 3;

fn capable(checksum: bool) -> MpCapable {
    MpCapable {
        version: VERSION,
        checksum_required: checksum,
        hmac_sha256: true,
        ..MpCapable::default()
    }
}

impl Connection {
    fn wants_checksum(&self) -> bool {
        self.config.multipath.as_ref().is_some_and(|m| m.checksum)
    }

    /// The MPTCP options of a SYN or SYN/ACK of subflow `i`.
    pub(super) fn syn_options(&self, i: usize) -> Options {
        let mut options = Options::default();
        if let Some(mp) = self.mp {
            self.add_mptcp_syn(i, &mp, options.rare_mut());
        }
        self.offer_extensions(i, &mut options);
        options
    }

    fn add_mptcp_syn(&self, i: usize, mp: &MpState, rare: &mut RareOptions) {
        let sf = &self.subflows[i];
        match sf.origin {
            Origin::Initial if self.role == Role::Client => {
                if sf.syn.tries < CAPABLE_SYNS {
                    rare.mp_capable = Some(capable(self.wants_checksum()));
                }
            }
            Origin::Initial => {
                rare.mp_capable = Some(MpCapable {
                    sender_key: Some(mp.key_local),
                    ..capable(mp.checksum)
                });
            }
            Origin::Join(j) if sf.state == crate::subflow::TcpState::SynReceived => {
                let remote = mp.key_remote.unwrap_or_default();
                let hmac = keys::join_hmac(mp.key_local, remote, j.nonce_local, j.nonce_remote);
                rare.mp_join = Some(MpJoin::SynAck {
                    backup: sf.backup.local,
                    address_id: sf.address_ids.local,
                    hmac: keys::leftmost_64(&hmac),
                    nonce: j.nonce_local,
                });
            }
            Origin::Join(j) => {
                rare.mp_join = Some(MpJoin::Syn {
                    backup: sf.backup.local,
                    address_id: sf.address_ids.local,
                    token: mp.token_remote,
                    nonce: j.nonce_local,
                });
            }
        }
    }

    /// Server: decides from the client's SYN whether MPTCP is used.
    pub(super) fn answer_capable(&mut self, syn: &Segment) {
        let asked = syn.options.rare.as_ref().and_then(|r| r.mp_capable);
        let acceptable = asked.is_some_and(|c| c.is_acceptable_offer() && c.sender_key.is_none());
        if !acceptable {
            self.mp = None;
            return;
        }
        let checksum = self.wants_checksum() || asked.is_some_and(|c| c.checksum_required);
        if let Some(mp) = &mut self.mp {
            mp.checksum = checksum;
        }
    }

    /// Client: processes the SYN/ACK of the initial subflow. Without an acceptable MP_CAPABLE the connection
    /// uses plain TCP.
    pub(super) fn on_capable_syn_ack(&mut self, seg: &Segment) {
        let answer = seg.options.rare.as_ref().and_then(|r| r.mp_capable);
        let wants = self.wants_checksum();
        let Some(mp) = &mut self.mp else { return };
        match answer.filter(MpCapable::is_acceptable) {
            Some(MpCapable {
                sender_key: Some(key),
                checksum_required,
                no_more_to_source,
                ..
            }) if key != mp.key_local => {
                mp.set_remote_key(key);
                mp.checksum = checksum_required || wants;
                mp.no_more_to_remote = no_more_to_source;
                self.begin_multipath(0);
            }
            _ => self.mp = None,
        }
    }

    /// Server: whether the segment may complete the initial handshake. Falls back to TCP if the segment shows
    /// that MPTCP options do not pass (RFC 8684, section 3.7).
    pub(super) fn check_third_ack(&mut self, seg: &Segment) -> bool {
        let Some(mp) = &mut self.mp else { return true };
        if mp.negotiated || !seg.flags.contains(Flags::ACK) || seg.flags.contains(Flags::RST) {
            return true;
        }
        let keys = seg.options.rare.as_ref().and_then(|r| r.mp_capable);
        // An MP_CAPABLE with other flags or of another version must be ignored. The segment is then plain TCP's
        // third ACK.
        let ignored = keys.is_some_and(|c| !c.is_acceptable());
        match keys.filter(MpCapable::is_acceptable) {
            Some(MpCapable {
                sender_key: Some(theirs),
                receiver_key: Some(ours),
                ..
            }) if ours == mp.key_local => {
                mp.set_remote_key(theirs);
                self.begin_multipath(0);
                true
            }
            // Later segments may overtake the one with the keys.
            _ if seg.options.has_mptcp() && !ignored => false,
            _ => {
                self.mp = None;
                self.end_scatter();
                true
            }
        }
    }

    /// MPTCP was negotiated, so data-level windows and segment sizes apply to subflow `i`.
    fn begin_multipath(&mut self, i: usize) {
        self.subflows[i].reserve_options(self.numbers.dss_len());
        if i == 0 && self.role == Role::Server {
            self.begin_to_scatter();
        }
    }

    /// The MP_CAPABLE of the third ACK and of its repetitions, until the peer has shown that it has our key.
    pub(super) fn owed_keys(&self) -> Option<MpCapable> {
        let mp = self.multipath()?;
        let owed = self.role == Role::Client && !mp.confirmed;
        owed.then(|| MpCapable {
            sender_key: Some(mp.key_local),
            receiver_key: mp.key_remote,
            ..capable(mp.checksum)
        })
    }

    /// Client: opens a further subflow. Returns false if MPTCP or the limits forbid it.
    pub(crate) fn join(
        &mut self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        address_ids: (u8, u8),
        initial: InitialNumbers,
    ) -> bool {
        let max = self.config.multipath.as_ref().map_or(1, |m| m.max_subflows);
        if !self.may_join() || self.subflows.len() >= max {
            return false;
        }
        let Some(id) = self.identifiers.take() else {
            return false;
        };
        let nonce = self.rng.next_u32();
        let mut sf = self.new_join(now, (id, local, remote), (nonce, 0), initial, None);
        sf.address_ids.local = address_ids.0;
        sf.address_ids.remote = address_ids.1;
        let all = self.config.multipath.as_ref().is_some_and(|m| m.backup);
        sf.backup.local = all || self.is_backup_address(local.addr);
        self.subflows.push(sf);
        true
    }

    /// Whether subflows of this local address are backups.
    pub(crate) fn is_backup_address(&self, inside: IpAddr) -> bool {
        let multipath = self.config.multipath.as_ref();
        let outside = self.paths.outside(inside);
        multipath.is_some_and(|m| m.backup_addresses.contains(&outside))
            || self.paths.is_backup(inside)
    }

    /// MP_CAPABLE cannot mark the first subflow as a backup, so MP_PRIO does this (RFC 8684, section 3.3.8).
    #[cold] // once a subflow
    pub(super) fn tell_backup(&mut self) {
        let first = self.subflows.iter().find(|s| s.origin == Origin::Initial);
        let Some((id, local)) = first.map(|s| (s.id, s.local.addr)) else {
            return;
        };
        if self.is_backup_address(local) {
            self.set_backup(id, true);
        }
    }

    fn new_join(
        &mut self,
        now: Instant,
        (id, local, remote): (SubflowId, Endpoint, Endpoint),
        nonces: (u32, u32),
        initial: InitialNumbers,
        peer_isn: Option<spindle_wire::SeqNumber>,
    ) -> Subflow {
        let origin = Origin::Join(JoinState {
            nonce_local: nonces.0,
            nonce_remote: nonces.1,
            awaits_key: !self.is_multipath(),
            awaits_fourth: false,
            repeat_at: None,
            repeats: 0,
        });
        let planned = self.config.planned_subflows().max(id.number() + 1);
        let n = NewSubflow {
            id,
            local,
            remote,
            origin,
            initial,
            planned,
        };
        Subflow::new(now, &self.config, n, peer_isn)
    }

    /// Server: accepts a SYN with MP_JOIN for this connection. If it arrives before the third ACK, it is answered once that
    /// has brought the peer's key ([`crate::config::MultipathConfig::early_joins`]). Returns false if the join is refused.
    pub(crate) fn accept_join(
        &mut self,
        now: Instant,
        syn: &Segment,
        initial: InitialNumbers,
    ) -> bool {
        let Some(MpJoin::Syn {
            backup,
            address_id,
            nonce,
            ..
        }) = syn.options.rare.as_ref().and_then(|r| r.mp_join)
        else {
            return false;
        };
        let max = self.config.multipath.as_ref().map_or(1, |m| m.max_subflows);
        let is_early = self.is_half_open() && self.mp.is_some_and(|m| m.early_joins);
        if !(self.is_multipath() || is_early)
            || self.teardown.closed.is_some()
            || self.subflows.len() >= max
            || !self.identifiers.is_any_free()
        {
            return false;
        }
        let (Some(local_id), Some(id)) = (self.local_id(syn.dst.addr), self.identifiers.take())
        else {
            return false;
        };
        let ours = self.rng.next_u32();
        let ends = (id, syn.dst, syn.src);
        let mut sf = self.new_join(now, ends, (ours, nonce), initial, Some(syn.seq));
        sf.negotiate(syn, now);
        sf.address_ids.remote = address_id;
        sf.address_ids.local = local_id;
        sf.backup.local = self.is_backup_address(syn.dst.addr);
        sf.backup.remote = backup;
        self.subflows.push(sf);
        self.note_name(id, syn);
        true
    }

    /// Server: the third ACK has arrived. Joins that came before it are answered, or reset if the connection uses plain TCP.
    pub(super) fn settle_early_joins(&mut self, now: Instant) {
        let has_key = self.is_multipath();
        for i in 0..self.subflows.len() {
            let Origin::Join(j) = self.subflows[i].origin else {
                continue;
            };
            if self.subflows.has_ended(i) {
                continue;
            }
            match has_key {
                true => {
                    let awaits_key = false;
                    self.subflows[i].origin = Origin::Join(JoinState { awaits_key, ..j });
                }
                false => self.reset_subflow(now, i, SubflowEnd::Middlebox),
            }
        }
    }

    /// Server: the handshake has failed. Joins that came before its end were never answered, and end with it.
    #[cold] // a failed handshake
    pub(super) fn forget_early_joins(&mut self, now: Instant, reason: CloseReason) {
        for i in 0..self.subflows.len() {
            let joins = matches!(self.subflows[i].origin, Origin::Join(_));
            if joins && !self.subflows.has_ended(i) {
                self.record_end(now, i, SubflowEnd::ConnectionEnded(reason));
            }
        }
    }

    /// Client: checks the SYN/ACK of a join (RFC 8684, section 3.2). Returns false if the subflow
    /// must be reset.
    pub(super) fn check_join_syn_ack(&mut self, i: usize, seg: &Segment) -> bool {
        let Origin::Join(j) = self.subflows[i].origin else {
            return true;
        };
        let Some(mp) = self.multipath().copied() else {
            return false;
        };
        let Some(MpJoin::SynAck {
            backup,
            address_id,
            hmac,
            nonce,
        }) = seg.options.rare.as_ref().and_then(|r| r.mp_join)
        else {
            return false;
        };
        let expected = keys::join_hmac(
            mp.key_remote.unwrap_or_default(),
            mp.key_local,
            nonce,
            j.nonce_local,
        );
        if !keys::same_64(keys::leftmost_64(&expected), hmac) {
            self.counters.join_hmac_failures += 1;
            return false;
        }
        let sf = &mut self.subflows[i];
        sf.origin = Origin::Join(JoinState {
            nonce_remote: nonce,
            awaits_fourth: true,
            ..j
        });
        sf.backup.remote = backup;
        sf.address_ids.remote = address_id;
        sf.reserve_options(self.numbers.dss_len());
        true
    }

    /// The MP_JOIN of the client's third ACK on subflow `i`, while the fourth segment is missing.
    pub(super) fn join_ack(&self, i: usize) -> Option<MpJoin> {
        let Origin::Join(j) = self.subflows[i].origin else {
            return None;
        };
        if !j.awaits_fourth {
            return None;
        }
        let mp = self.multipath()?;
        let hmac = keys::join_hmac(mp.key_local, mp.key_remote?, j.nonce_local, j.nonce_remote);
        Some(MpJoin::Ack {
            hmac: keys::leftmost_160(&hmac),
        })
    }

    /// Server: whether the segment that would complete a join carries the right HMAC. Returns `None` if the
    /// segment carries no HMAC, and the server must wait for one that does.
    pub(super) fn check_join_ack(&mut self, i: usize, seg: &Segment) -> Option<bool> {
        let Origin::Join(j) = self.subflows[i].origin else {
            return Some(true);
        };
        let mp = self.multipath()?;
        let Some(MpJoin::Ack { hmac }) = seg.options.rare.as_ref().and_then(|r| r.mp_join) else {
            return None;
        };
        let expected = keys::join_hmac(mp.key_remote?, mp.key_local, j.nonce_remote, j.nonce_local);
        let right = keys::same_160(&keys::leftmost_160(&expected), &hmac);
        self.counters.join_hmac_failures += u64::from(!right);
        Some(right)
    }

    /// Server: a join is complete, so the subflow reserves option space for a DSS.
    pub(super) fn join_established(&mut self, i: usize) {
        if matches!(self.subflows[i].origin, Origin::Join(_)) {
            self.subflows[i].reserve_options(self.numbers.dss_len());
        }
    }

    /// Whether new data are held back because a join's SYN is unanswered. This must be configured.
    #[inline]
    pub(super) fn waits_for_a_join(&self) -> bool {
        let waits = self.config.multipath.as_ref();
        waits.is_some_and(|m| m.wait_for_joins) && self.has_unanswered_join()
    }

    /// Whether only the first subflow may carry data, because the peer has not announced a data-level window
    /// yet. See [`MultipathConfig::joins_wait_for_data_ack`](crate::config::MultipathConfig).
    #[inline]
    pub(super) fn joins_wait(&self) -> bool {
        let unannounced = self.multipath().is_some_and(|m| !m.window_announced);
        unannounced && self.first_subflow_works()
    }

    #[inline(never)] // only under MPTCP
    fn first_subflow_works(&self) -> bool {
        let config = self.config.multipath.as_ref();
        let works = |s: &Subflow| matches!(s.origin, Origin::Initial) && s.is_usable() && !s.dead;
        config.is_some_and(|m| m.joins_wait_for_data_ack) && self.subflows.iter().any(works)
    }

    #[inline(never)] // only while a join is under way
    fn has_unanswered_join(&self) -> bool {
        let joining =
            |s: &Subflow| s.state == TcpState::SynSent && matches!(s.origin, Origin::Join(_));
        self.subflows.iter().any(joining)
    }
}
