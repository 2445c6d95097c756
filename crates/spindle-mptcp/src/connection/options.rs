//! Options of transmitted segments: mappings and DATA_ACKs (RFC 8684, section 3.3), and the options of the
//! handshakes and of path management if they are due.

use spindle_units::Instant;
use spindle_wire::{DataNumber, Dss, Mapping, MpCapable, Options};

use super::{Connection, MpState, Role};
use crate::subflow::Origin;
use crate::subflow::output::dss_len;
use crate::subflow::scoreboard::SentMap;

/// Bytes of MP_CAPABLE with both keys (RFC 8684, figure 4).
const CAPABLE_LEN: usize = 20;
/// Bytes of MP_CAPABLE with both keys, data length and perhaps checksum, padded.
pub(super) const CAPABLE_DATA_LEN: usize = 24;
/// Bytes of MP_JOIN on the third ACK (RFC 8684, figure 7).
const JOIN_ACK_LEN: usize = 24;
/// Bytes of MP_FAIL (RFC 8684, figure 16).
const MP_FAIL_LEN: usize = 12;

impl Connection {
    /// The options of a data segment whose first byte is at `position`, and the bytes that they take without
    /// timestamps and SACK.
    pub(super) fn data_options(
        &self,
        i: usize,
        position: u64,
        map: Option<SentMap>,
    ) -> (Options, usize) {
        let mut options = Options::default();
        let used = self.put_data_options(&mut options, i, position, map);
        (options, used)
    }

    /// Like [`Self::data_options`], but writes into `options`. Returns the bytes that they take.
    #[inline]
    pub(super) fn put_data_options(
        &self,
        options: &mut Options,
        i: usize,
        position: u64,
        map: Option<SentMap>,
    ) -> usize {
        if let Some(mp) = self.multipath() {
            let used;
            (*options, used) = self.mptcp_data_options(mp, i, position, map);
            return used;
        }
        options.clear();
        match self.infinite_mapping(i) {
            Some(dss) => dss_len(options.dss.insert(dss)),
            None => 0,
        }
    }

    #[inline(never)]
    fn mptcp_data_options(
        &self,
        mp: &MpState,
        i: usize,
        position: u64,
        map: Option<SentMap>,
    ) -> (Options, usize) {
        let mut options = Options::default();
        let Some(map) = map else {
            options.dss = self.ack_dss();
            let len = options.dss.as_ref().map_or(0, dss_len);
            return (options, len);
        };
        if let Some(keys) = self.first_data_keys(i, position) {
            let option = MpCapable {
                data_len: Some(map.len),
                checksum: map.checksum,
                ..keys
            };
            options.rare_mut().mp_capable = Some(option);
            return (options, CAPABLE_DATA_LEN);
        }
        let before = u64::from(map.before);
        let mapping = Mapping {
            dsn: self
                .numbers
                .sent
                .number(mp.dsn(map.offset.wrapping_sub(before))),
            ssn: position.wrapping_sub(before) as u32,
            len: map.len,
            checksum: map.checksum,
        };
        let dss = Dss {
            data_ack: Some(self.data_ack()),
            mapping: Some(mapping),
            data_fin: false,
        };
        options.dss = Some(dss);
        (options, dss_len(&dss))
    }

    /// The client's first data carry the keys instead of a DSS (RFC 8684, section 3.1).
    pub(super) fn first_data_keys(&self, i: usize, position: u64) -> Option<MpCapable> {
        let first = position == 1 && self.subflows[i].origin == Origin::Initial;
        if first { self.owed_keys() } else { None }
    }

    /// The data-level acknowledgement.
    fn data_ack(&self) -> DataNumber {
        let Some(mp) = &self.mp else {
            return DataNumber::Low(0);
        };
        let fin = u64::from(mp.fin_remote == Some(self.recv.next()));
        let dsn = mp
            .idsn_remote
            .wrapping_add(1)
            .wrapping_add(self.recv.next() + fin);
        self.numbers.acknowledged.number(dsn)
    }

    pub(super) fn ack_dss(&self) -> Option<Dss> {
        self.multipath()?;
        Some(Dss {
            data_ack: Some(self.data_ack()),
            mapping: None,
            data_fin: false,
        })
    }

    /// Removes the DATA_ACK from a segment that had the maximum length before numbers became wide. A separate
    /// acknowledgement follows. Returns whether the DATA_ACK was removed.
    pub(super) fn leaves_out_data_ack(
        &self,
        i: usize,
        len: usize,
        options: &mut (Options, usize),
    ) -> bool {
        let (options, used) = options;
        let dss = options.dss.as_mut().filter(|d| d.mapping.is_some());
        let Some(dss) = dss.filter(|_| self.numbers.is_any_wide()) else {
            return false;
        };
        if self.subflows[i].has_room_for(len, *used) {
            return false;
        }
        *used -= dss_len(dss);
        dss.data_ack = None;
        *used += dss_len(dss);
        true
    }

    /// Writes the options of a bare acknowledgement on subflow `i` into `options`. Returns the bytes that they
    /// take.
    #[inline]
    pub(super) fn put_ack_options(
        &mut self,
        options: &mut Options,
        now: Instant,
        i: usize,
    ) -> usize {
        if self.is_multipath() {
            let used;
            (*options, used) = self.mptcp_ack_options(now, i);
            return used;
        }
        options.clear();
        let mut used = self.add_echo(options);
        if let Some(dsn) = self.fallback_signals.fail.take() {
            options.rare_mut().mp_fail = Some(dsn);
            used += MP_FAIL_LEN;
        }
        used
    }

    #[inline(never)]
    fn mptcp_ack_options(&mut self, now: Instant, i: usize) -> (Options, usize) {
        let mut options = Options::default();
        if let Some(join) = self.join_ack(i) {
            options.rare_mut().mp_join = Some(join);
            return (options, JOIN_ACK_LEN);
        }
        if let Some(echo) = self.early_echo() {
            return echo;
        }
        let nothing_received = self.recv.next() == 0 && self.subflows[i].rx.nxt == 1;
        if let Some(keys) = self.owed_keys()
            && self.role == Role::Client
            && nothing_received
            && self.subflows[i].origin == Origin::Initial
            && !self.teardown.data_fin_due
        {
            options.rare_mut().mp_capable = Some(keys);
            return (options, CAPABLE_LEN);
        }
        let mut dss = self.ack_dss().unwrap_or_default();
        if self.teardown.data_fin_due && self.data_fin_subflow() == Some(i) {
            self.add_data_fin(now, &mut dss);
        }
        let mut used = dss_len(&dss);
        options.dss = Some(dss);
        // MP_FAIL does not fit together with timestamps and a DATA_FIN with checksum.
        if !dss.data_fin
            && let Some(dsn) = self.mp.as_mut().and_then(|m| m.fail_due.take())
        {
            options.rare_mut().mp_fail = Some(dsn);
            used += MP_FAIL_LEN;
        }
        // A DATA_FIN or MP_FAIL leaves no room, so the signal is sent on the next acknowledgement.
        if self.paths.has_signals() && !dss.data_fin && options.rare.is_none() {
            let len = self.add_signal(now, i, options.rare_mut());
            if len == 0 {
                options.rare = None;
            }
            used += len;
            // An ADD_ADDR with an IPv6 address leaves no room for a DSS, so the DSS is sent on the next ACK.
            if used > 28 {
                used -= dss_len(&dss);
                options.dss = None;
            }
        }
        (options, used)
    }
}
