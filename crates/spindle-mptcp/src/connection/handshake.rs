//! MPTCP's handshakes: MP_CAPABLE and MP_JOIN (RFC 8684, sections 3.1 and 3.2).

use spindle_units::Instant;
use spindle_wire::{Endpoint, Flags, MpCapable, MpJoin, Options, RareOptions, Segment};

use super::{Connection, MpState, Role};
use crate::host::keys;
use crate::subflow::{JoinState, NewSubflow, Origin, Subflow, TcpState};

/// The protocol version of RFC 8684.
const VERSION: u8 = 1;

/// SYNs with MP_CAPABLE before plain TCP is tried (RFC 8684, section 3.1: "after a sufficient number").
const CAPABLE_SYNS: u32 = 3;

/// Bytes of a DSS with 4-byte numbers, mapping included (RFC 8684, figure 9, padded).
const DSS_DATA_LEN: u64 = 20;

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
        self.offer_parities(i, &mut options);
        self.offer_scatter(i, &mut options);
        self.offer_coding(&mut options);
        options
    }

    fn add_mptcp_syn(&self, i: usize, mp: &MpState, rare: &mut RareOptions) {
        let sf = &self.subflows[i];
        match sf.origin {
            Origin::Initial if self.role == Role::Client => {
                if sf.syn_tries < CAPABLE_SYNS {
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
                    backup: sf.backup_local,
                    address_id: sf.address_id_local,
                    hmac: keys::leftmost_64(&hmac),
                    nonce: j.nonce_local,
                });
            }
            Origin::Join(j) => {
                rare.mp_join = Some(MpJoin::Syn {
                    backup: sf.backup_local,
                    address_id: sf.address_id_local,
                    token: mp.token_remote,
                    nonce: j.nonce_local,
                });
            }
        }
    }

    /// Server: the SYN asked for MPTCP, or not.
    pub(super) fn answer_capable(&mut self, syn: &Segment) {
        let asked = syn.options.rare.as_ref().and_then(|r| r.mp_capable);
        let acceptable =
            asked.is_some_and(|c| c.version == VERSION && c.hmac_sha256 && c.sender_key.is_none());
        if !acceptable {
            self.mp = None;
            return;
        }
        let checksum = self.wants_checksum() || asked.is_some_and(|c| c.checksum_required);
        if let Some(mp) = &mut self.mp {
            mp.checksum = checksum;
        }
    }

    /// Client: the SYN/ACK has come on the initial subflow. Returns false if it must be refused.
    pub(super) fn on_capable_syn_ack(&mut self, seg: &Segment) {
        let answer = seg.options.rare.as_ref().and_then(|r| r.mp_capable);
        let wants = self.wants_checksum();
        let Some(mp) = &mut self.mp else { return };
        match answer {
            Some(MpCapable {
                version: VERSION,
                sender_key: Some(key),
                hmac_sha256: true,
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

    /// Server: whether the segment that would complete the initial handshake may; falls back to TCP
    /// where it shows that MPTCP did not get through (RFC 8684, section 3.7).
    pub(super) fn check_third_ack(&mut self, seg: &Segment) -> bool {
        let Some(mp) = &mut self.mp else { return true };
        if mp.negotiated || !seg.flags.contains(Flags::ACK) || seg.flags.contains(Flags::RST) {
            return true;
        }
        let keys = seg.options.rare.as_ref().and_then(|r| r.mp_capable);
        match keys {
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
            _ if seg.options.has_mptcp() => false,
            _ => {
                self.mp = None;
                self.end_scatter();
                true
            }
        }
    }

    /// MPTCP is agreed: the data level's windows and segment sizes apply to subflow `i`.
    fn begin_multipath(&mut self, i: usize) {
        self.subflows[i].reserve_options(DSS_DATA_LEN);
        self.send.right_edge = self
            .send
            .right_edge
            .max(u64::from(u16::MAX).min(self.send.right_edge));
        if i == 0 && self.role == Role::Server {
            self.begin_to_scatter();
        }
    }

    /// The MP_CAPABLE of the third ACK (and of what repeats it) while the peer has not shown that it
    /// has our key.
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
        iss: spindle_wire::SeqNumber,
    ) -> bool {
        let max = self.config.multipath.as_ref().map_or(1, |m| m.max_subflows);
        let ready = self.multipath().is_some_and(|m| m.confirmed);
        if !ready || self.subflows.len() >= max || self.next_id > u16::from(u8::MAX) {
            return false;
        }
        let nonce = rand_core::RngCore::next_u32(&mut self.rng);
        let mut sf = self.new_join(now, local, remote, (nonce, 0), iss, None);
        sf.address_id_local = address_ids.0;
        sf.address_id_remote = address_ids.1;
        sf.backup_local = self.config.multipath.as_ref().is_some_and(|m| m.backup);
        self.subflows.push(sf);
        true
    }

    fn new_join(
        &mut self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        nonces: (u32, u32),
        iss: spindle_wire::SeqNumber,
        peer_isn: Option<spindle_wire::SeqNumber>,
    ) -> Subflow {
        let id = self.spare_ids.pop().unwrap_or_else(|| {
            self.next_id += 1;
            (self.next_id - 1) as u8
        });
        let origin = Origin::Join(JoinState {
            nonce_local: nonces.0,
            nonce_remote: nonces.1,
            awaits_fourth: false,
            repeat_at: None,
            repeats: 0,
        });
        let planned = self.config.planned_subflows().max(usize::from(id) + 1);
        let n = NewSubflow {
            id,
            local,
            remote,
            origin,
            iss,
            planned,
        };
        Subflow::new(now, &self.config, n, peer_isn)
    }

    /// Server: a SYN with MP_JOIN for this connection. Returns false if it is refused.
    pub(crate) fn accept_join(
        &mut self,
        now: Instant,
        syn: &Segment,
        iss: spindle_wire::SeqNumber,
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
        if !self.is_multipath()
            || self.closed.is_some()
            || self.subflows.len() >= max
            || self.spare_ids.is_empty() && self.next_id > u16::from(u8::MAX)
        {
            return false;
        }
        let ours = rand_core::RngCore::next_u32(&mut self.rng);
        let mut sf = self.new_join(now, syn.dst, syn.src, (ours, nonce), iss, Some(syn.seq));
        sf.negotiate(syn, now);
        sf.address_id_remote = address_id;
        sf.address_id_local = self.paths.local_id(syn.dst.addr);
        sf.backup_remote = backup;
        let id = sf.id;
        self.subflows.push(sf);
        self.note_name(id, syn);
        true
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
        sf.backup_remote = backup;
        sf.address_id_remote = address_id;
        sf.reserve_options(DSS_DATA_LEN);
        true
    }

    /// The MP_JOIN of the client's third ACK on subflow `i`, while the fourth is missing.
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

    /// Server: whether the segment that would complete a join carries the right HMAC. `None`: wait
    /// for one that does.
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

    /// A join completed at the server: reserve room for DSS.
    pub(super) fn join_established(&mut self, i: usize) {
        if matches!(self.subflows[i].origin, Origin::Join(_)) {
            self.subflows[i].reserve_options(DSS_DATA_LEN);
        }
    }

    /// New data are held back while a join's SYN is unanswered, if so configured.
    #[inline]
    pub(super) fn waits_for_a_join(&self) -> bool {
        let waits = self.config.multipath.as_ref();
        waits.is_some_and(|m| m.wait_for_joins) && self.has_unanswered_join()
    }

    #[inline(never)]
    fn has_unanswered_join(&self) -> bool {
        let joining =
            |s: &Subflow| s.state == TcpState::SynSent && matches!(s.origin, Origin::Join(_));
        self.subflows.iter().any(joining)
    }
}
