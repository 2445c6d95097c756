//! The ledger of the 40 bytes of option space in a TCP header: how many bytes options take, how many are left,
//! and which options get them if not all of them fit.

use crate::experimental::ScatterOption;
use crate::mptcp_codec::{LEN_PRIO, LEN_TCPRST, LEN_WITH_U64};
use crate::{Dss, MpCapable, Options, RareOptions};

impl Options {
    /// The option space: 15 words of 4 bytes minus the 20 bytes of the fixed header (RFC 9293, section 3.1).
    pub const MAX_LEN: usize = 40;

    /// The length of the timestamps option in bytes with its padding (RFC 7323, appendix A).
    pub const TIMESTAMPS_LEN: usize = 12;

    /// Bytes that these options leave of the option space.
    pub fn room(&self) -> usize {
        Self::MAX_LEN.saturating_sub(self.encoded_len())
    }

    /// The length of the options with their padding in bytes, a multiple of four. Options longer than
    /// [`Options::MAX_LEN`] cannot be sent without [`Options::fit`].
    pub fn encoded_len(&self) -> usize {
        self.len_without_sack() + sack_len(self.sack.as_slice().len())
    }

    /// Whether there is no option.
    pub fn is_empty(&self) -> bool {
        self.encoded_len() == 0
    }

    fn len_without_sack(&self) -> usize {
        // NOP NOP timestamps, or SACK-permitted in place of the NOPs.
        let timestamps = match self.timestamps {
            Some(_) => Self::TIMESTAMPS_LEN,
            None => 0,
        };
        let dss = self
            .dss
            .as_ref()
            .map_or(0, |d| d.encoded_len().next_multiple_of(4));
        let rare = self
            .rare
            .as_ref()
            .map_or(0, |r| r.encoded_len(timestamps != 0));
        let token = self.token.map_or(0, |_| ScatterOption::TOKEN_LEN);
        timestamps + dss + token + rare
    }

    /// Makes the options fit the option space and returns the options that were left out. The caller sends
    /// these with a later segment. The result is empty if all options fit.
    ///
    /// The space is assigned in this order. An option that does not fit the remaining space is left out:
    ///
    /// 1. DSS with a mapping or a DATA_FIN: a segment with data must have its mapping. The option takes at most
    ///    28 bytes, so it always fits.
    /// 2. MP_CAPABLE, MP_JOIN: the handshake fails without them.
    /// 3. MSS, SACK-permitted, window scale: they are sent once, on the SYN.
    /// 4. Timestamps: they are on every segment once negotiated (RFC 7323, section 3.2).
    /// 5. The token and the experimental options, in order. Without its token a scattered segment cannot be
    ///    assigned to a connection; experimental options describe the payload.
    /// 6. MP_FASTCLOSE, MP_TCPRST, MP_FAIL: they end or break a connection.
    /// 7. REMOVE_ADDR, MP_PRIO.
    /// 8. ADD_ADDR, in order.
    /// 9. DSS with only a DATA_ACK: the next segment repeats it. An IPv6 ADD_ADDR and timestamps leave no room
    ///    for it.
    /// 10. SACK blocks, the first ones for which there is room.
    #[must_use = "what was left out is to be sent later"]
    pub fn fit(&mut self) -> Self {
        let mut left_out = Self::default();
        if self.encoded_len() <= Self::MAX_LEN {
            return left_out;
        }
        if self.len_without_sack() > Self::MAX_LEN {
            let all = std::mem::take(self);
            *self = all.place(&mut left_out);
        }
        self.fit_sack(&mut left_out);
        left_out
    }

    /// Keeps the first SACK blocks for which there is room.
    fn fit_sack(&mut self, left_out: &mut Self) {
        let room = Self::MAX_LEN.saturating_sub(self.len_without_sack());
        let fitting = room.saturating_sub(4) / 8;
        for &(left, right) in self.sack.as_slice().iter().skip(fitting) {
            left_out.sack.push(left, right);
        }
        self.sack.truncate(fitting);
    }

    /// Moves the options one by one, in the order of [`Options::fit`], into the result. An option that does not
    /// fit goes into `left_out`. The SACK blocks all go into the result.
    fn place(mut self, left_out: &mut Self) -> Self {
        let mut rare = self.rare.take().map_or_else(RareOptions::default, |r| *r);
        let mut p = Placement {
            kept: Self::default(),
            left_out,
        };
        let vital = |d: &Dss| d.mapping.is_some() || d.data_fin;
        p.put(self.dss.filter(vital), |o, d| o.dss = Some(d));
        p.put(rare.mp_capable, |o, c| o.rare_mut().mp_capable = Some(c));
        p.put(rare.mp_join, |o, j| o.rare_mut().mp_join = Some(j));
        p.put(rare.mss, |o, m| o.rare_mut().mss = Some(m));
        p.put(Some(rare.sack_permitted).filter(|s| *s), |o, s| {
            o.rare_mut().sack_permitted = s
        });
        p.put(rare.window_scale, |o, w| {
            o.rare_mut().window_scale = Some(w)
        });
        p.put(self.timestamps, |o, t| o.timestamps = Some(t));
        p.put(self.token, |o, t| o.token = Some(t));
        for e in rare.experimental.drain(..) {
            p.put(Some(e), |o, e| o.rare_mut().experimental.push(e));
        }
        p.put(rare.mp_fastclose, |o, k| {
            o.rare_mut().mp_fastclose = Some(k)
        });
        p.put(rare.mp_tcprst, |o, r| o.rare_mut().mp_tcprst = Some(r));
        p.put(rare.mp_fail, |o, f| o.rare_mut().mp_fail = Some(f));
        p.put(rare.remove_addr.take(), |o, r| {
            o.rare_mut().remove_addr = Some(r)
        });
        p.put(rare.mp_prio, |o, b| o.rare_mut().mp_prio = Some(b));
        for a in rare.add_addr.drain(..) {
            p.put(Some(a), |o, a| o.rare_mut().add_addr.push(a));
        }
        p.put(self.dss.filter(|d| !vital(d)), |o, d| o.dss = Some(d));
        let mut kept = p.kept;
        kept.sack = self.sack;
        if !rare.payload_head.is_empty() {
            kept.rare_mut().payload_head = rare.payload_head;
        }
        kept
    }
}

/// The two destinations of [`Options::place`].
struct Placement<'a> {
    kept: Options,
    left_out: &'a mut Options,
}

impl Placement<'_> {
    fn put<T: Clone>(&mut self, item: Option<T>, set: impl Fn(&mut Options, T)) {
        let Some(item) = item else { return };
        let mut trial = self.kept.clone();
        set(&mut trial, item.clone());
        if trial.encoded_len() <= Options::MAX_LEN {
            self.kept = trial;
        } else {
            set(self.left_out, item);
        }
    }
}

impl RareOptions {
    /// The length of these options with their padding in bytes. `with_timestamps` states whether SACK-permitted
    /// can replace the NOPs before the timestamps.
    fn encoded_len(&self, with_timestamps: bool) -> usize {
        let pad = |len: usize| len.next_multiple_of(4);
        let fixed = |present: bool, len: usize| if present { pad(len) } else { 0 };
        fixed(self.mss.is_some(), 4)
            + fixed(self.window_scale.is_some(), 4)
            + fixed(self.sack_permitted && !with_timestamps, 4)
            + self.mp_capable.as_ref().map_or(0, |c| pad(c.encoded_len()))
            + self.mp_join.as_ref().map_or(0, |j| pad(j.encoded_len()))
            + self
                .add_addr
                .iter()
                .map(|a| pad(a.encoded_len()))
                .sum::<usize>()
            + self
                .remove_addr
                .as_ref()
                .map_or(0, |r| pad(r.encoded_len()))
            + fixed(self.mp_prio.is_some(), LEN_PRIO)
            + fixed(self.mp_fail.is_some(), LEN_WITH_U64)
            + fixed(self.mp_fastclose.is_some(), LEN_WITH_U64)
            + fixed(self.mp_tcprst.is_some(), LEN_TCPRST)
            + self
                .experimental
                .iter()
                .map(|e| pad(e.encoded_len()))
                .sum::<usize>()
    }
}

impl Dss {
    /// The length in bytes of a DSS with a mapping and a DATA_ACK of 32 bits each, padded (RFC 8684, figure 9).
    pub const MAPPED_LEN: usize = 20;
}

impl MpCapable {
    /// The length in bytes of an MP_CAPABLE with both keys and a data length, padded (RFC 8684, section 3.1).
    pub const WITH_DATA_LEN: usize = 24;
}

/// The length of the SACK option: NOP NOP, kind, length and 8 bytes for each block.
const fn sack_len(blocks: usize) -> usize {
    if blocks == 0 { 0 } else { 4 + 8 * blocks }
}
