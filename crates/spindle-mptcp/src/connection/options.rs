//! Options of transmitted segments: mappings and DATA_ACKs (RFC 8684, section 3.3), and the options of the
//! handshakes and of path management if they are due.

use spindle_units::Instant;
use spindle_wire::{DataNumber, Dss, Mapping, MpCapable, Options};

use super::{Connection, MpState, Role};
use crate::subflow::Origin;
use crate::subflow::scoreboard::SentMap;
use crate::types::{DataOffset, SubflowPosition};

impl Connection {
    /// The options of a data segment whose first byte is at `position`, without timestamps and SACK.
    pub(super) fn data_options(
        &self,
        i: usize,
        position: SubflowPosition,
        map: Option<SentMap>,
    ) -> Options {
        let mut options = Options::default();
        self.put_data_options(&mut options, i, position, map);
        options
    }

    /// Like [`Self::data_options`], but writes into `options`.
    #[inline]
    pub(super) fn put_data_options(
        &self,
        options: &mut Options,
        i: usize,
        position: SubflowPosition,
        map: Option<SentMap>,
    ) {
        if let Some(mp) = self.multipath() {
            *options = self.mptcp_data_options(mp, i, position, map);
            return;
        }
        options.clear();
        options.dss = self.infinite_mapping(i);
    }

    #[inline(never)] // not for plain TCP
    fn mptcp_data_options(
        &self,
        mp: &MpState,
        i: usize,
        position: SubflowPosition,
        map: Option<SentMap>,
    ) -> Options {
        let mut options = Options::default();
        let Some(map) = map else {
            options.dss = self.ack_dss();
            return options;
        };
        if let Some(keys) = self.first_data_keys(i, position) {
            let option = MpCapable {
                data_len: Some(map.len),
                checksum: map.checksum,
                ..keys
            };
            options.rare_mut().mp_capable = Some(option);
            return options;
        }
        let dsn = mp.dsn(map.offset).wrapping_sub(u64::from(map.before));
        let ssn = position.relative_number();
        let mapping = Mapping {
            dsn: self.numbers.sent.number(dsn),
            ssn: ssn.wrapping_sub(u32::from(map.before)),
            len: map.len,
            checksum: map.checksum,
        };
        options.dss = Some(Dss {
            data_ack: Some(self.data_ack()),
            mapping: Some(mapping),
            data_fin: false,
        });
        options
    }

    /// The client's first data carry the keys instead of a DSS (RFC 8684, section 3.1).
    pub(super) fn first_data_keys(&self, i: usize, position: SubflowPosition) -> Option<MpCapable> {
        let first =
            position == SubflowPosition::FIRST_BYTE && self.subflows[i].origin == Origin::Initial;
        if first { self.owed_keys() } else { None }
    }

    /// The data-level acknowledgement.
    fn data_ack(&self) -> DataNumber {
        let Some(mp) = &self.mp else {
            return DataNumber::Low(0);
        };
        let fin = u64::from(mp.fin_remote == Some(self.recv.next()));
        let dsn = mp.remote_dsn(self.recv.next() + fin);
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
    pub(super) fn leaves_out_data_ack(&self, i: usize, len: usize, options: &mut Options) -> bool {
        let mapped = options.dss.is_some_and(|d| d.mapping.is_some());
        if !mapped || !self.numbers.is_any_wide() || self.subflows[i].has_room_for(len, options) {
            return false;
        }
        if let Some(dss) = &mut options.dss {
            dss.data_ack = None;
        }
        true
    }

    /// Writes the options of a bare acknowledgement on subflow `i` into `options`.
    #[inline]
    pub(super) fn put_ack_options(&mut self, options: &mut Options, now: Instant, i: usize) {
        if self.is_multipath() {
            *options = self.mptcp_ack_options(now, i);
            return;
        }
        options.clear();
        self.add_echo(options);
        if let Some(dsn) = self.fallback_signals.fail.take() {
            options.rare_mut().mp_fail = Some(dsn);
        }
    }

    #[inline(never)] // not for plain TCP
    fn mptcp_ack_options(&mut self, now: Instant, i: usize) -> Options {
        let mut options = Options::default();
        if let Some(join) = self.join_ack(i) {
            options.rare_mut().mp_join = Some(join);
            return options;
        }
        if let Some(echo) = self.early_echo() {
            options.rare_mut().add_addr.push(echo);
            return options;
        }
        let nothing_received = self.recv.next() == DataOffset::START
            && self.subflows[i].rx.nxt == SubflowPosition::FIRST_BYTE;
        if let Some(keys) = self.owed_keys()
            && self.role == Role::Client
            && nothing_received
            && self.subflows[i].origin == Origin::Initial
            && !self.teardown.data_fin_due
        {
            options.rare_mut().mp_capable = Some(keys);
            return options;
        }
        let mut dss = self.ack_dss().unwrap_or_default();
        if self.teardown.data_fin_due && self.data_fin_subflow() == Some(i) {
            self.add_data_fin(now, &mut dss);
        }
        options.dss = Some(dss);
        // MP_FAIL does not fit together with timestamps and a DATA_FIN with checksum.
        if !dss.data_fin
            && let Some(dsn) = self.mp.as_mut().and_then(|m| m.fail_due.take())
        {
            options.rare_mut().mp_fail = Some(dsn);
        }
        // A DATA_FIN or MP_FAIL leaves no room, so the signal is sent on the next acknowledgement.
        if self.paths.has_signals() && !dss.data_fin && options.rare.is_none() {
            if !self.add_signal(now, i, options.rare_mut()) {
                options.rare = None;
            }
            // An ADD_ADDR with an IPv6 address leaves no room for a DSS next to timestamps, so the DSS is sent on
            // the next ACK.
            if options.room() < Options::TIMESTAMPS_LEN {
                options.dss = None;
            }
        }
        options
    }
}
