//! MPTCP options (kind 30) as bytes: RFC 8684, section 3, figures 3 to 16.
//!
//! A malformed MPTCP option is ignored as if it were absent. It is malformed if no form of the option has its
//! length, or if its form does not belong on a segment with these SYN and ACK bits. RFC 8684, section 3.1
//! requires this for an MP_CAPABLE that the receiver does not understand, and TCP requires it for options that
//! it does not understand (RFC 9293, section 3.2, MUST-6). Unknown subtypes are ignored as well. Reserved bits
//! are written as zero and ignored when read. An MP_CAPABLE of a version other than 1 is kept, whatever its
//! length, because the answer to it states the version that the receiver supports (RFC 8684, section 3.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    AddAddr, DataNumber, Dss, Flags, Mapping, MpCapable, MpJoin, MpPrio, MpTcpRst, Options,
    RemoveAddr, ResetReason,
};

/// The option kind of MPTCP (RFC 8684, section 8.1).
pub(crate) const KIND: u8 = 30;

// Subtypes: RFC 8684, section 8.2, table 3.
const MP_CAPABLE: u8 = 0x0;
const MP_JOIN: u8 = 0x1;
const DSS: u8 = 0x2;
const ADD_ADDR: u8 = 0x3;
const REMOVE_ADDR: u8 = 0x4;
const MP_PRIO: u8 = 0x5;
const MP_FAIL: u8 = 0x6;
const MP_FASTCLOSE: u8 = 0x7;
const MP_TCPRST: u8 = 0x8;

// Flags of the DSS option (figure 9).
const DSS_ACK: u8 = 0x01;
const DSS_ACK_8: u8 = 0x02;
const DSS_MAPPING: u8 = 0x04;
const DSS_DSN_8: u8 = 0x08;
const DSS_FIN: u8 = 0x10;

// Flags of the MP_CAPABLE option (figure 4).
const CAPABLE_A: u8 = 0x80;
const CAPABLE_C: u8 = 0x20;
const CAPABLE_H: u8 = 0x01;

/// Flag `B` of MP_JOIN and MP_PRIO, flag `E` of ADD_ADDR, flag `T` of MP_TCPRST: the lowest bit of
/// the byte that holds the subtype.
const LOW_FLAG: u8 = 0x01;

/// The length of MP_FAIL and MP_FASTCLOSE: subtype, reserved bits, 64 bits (figures 14 and 16).
pub(crate) const LEN_WITH_U64: usize = 12;
/// The length of MP_TCPRST (figure 15).
pub(crate) const LEN_TCPRST: usize = 4;
/// The length of MP_PRIO (figure 11).
pub(crate) const LEN_PRIO: usize = 3;

impl DataNumber {
    /// The length in bytes: 4 or 8.
    pub const fn encoded_len(self) -> usize {
        match self {
            Self::Low(_) => 4,
            Self::Full(_) => 8,
        }
    }

    /// Returns all 64 bits. A [`DataNumber::Low`] becomes the number nearest to `near` (RFC 8684,
    /// section 3.3.1).
    pub const fn expand(self, near: u64) -> u64 {
        match self {
            Self::Full(n) => n,
            Self::Low(low) => {
                let ahead = low.wrapping_sub(near as u32) as i32;
                near.wrapping_add(ahead as i64 as u64)
            }
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Low(n) => out.extend_from_slice(&n.to_be_bytes()),
            Self::Full(n) => out.extend_from_slice(&n.to_be_bytes()),
        }
    }
}

impl Dss {
    /// The option's length field: 4 to 28.
    pub fn encoded_len(&self) -> usize {
        let ack = self.data_ack.map_or(0, DataNumber::encoded_len);
        let mapping = self.mapping.map_or(0, |m| {
            m.dsn.encoded_len() + 4 + 2 + if m.checksum.is_some() { 2 } else { 0 }
        });
        4 + ack + mapping
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut flags = if self.data_fin { DSS_FIN } else { 0 };
        if let Some(ack) = self.data_ack {
            flags |= DSS_ACK
                | if matches!(ack, DataNumber::Full(_)) {
                    DSS_ACK_8
                } else {
                    0
                };
        }
        if let Some(m) = self.mapping {
            flags |= DSS_MAPPING
                | if matches!(m.dsn, DataNumber::Full(_)) {
                    DSS_DSN_8
                } else {
                    0
                };
        }
        head(out, self.encoded_len(), DSS, 0);
        out.push(flags);
        if let Some(ack) = self.data_ack {
            ack.write(out);
        }
        if let Some(m) = self.mapping {
            m.dsn.write(out);
            out.extend_from_slice(&m.ssn.to_be_bytes());
            out.extend_from_slice(&m.len.to_be_bytes());
            if let Some(c) = m.checksum {
                out.extend_from_slice(&c.to_be_bytes());
            }
        }
    }

    fn read(o: &[u8]) -> Option<Self> {
        let mut r = Reader(o.get(3..)?);
        let flags = r.u8()?;
        let mut dss = Self {
            data_fin: flags & DSS_FIN != 0,
            ..Self::default()
        };
        if flags & DSS_ACK != 0 {
            dss.data_ack = Some(r.data_number(flags & DSS_ACK_8 != 0)?);
        }
        if flags & DSS_MAPPING != 0 {
            dss.mapping = Some(Mapping {
                dsn: r.data_number(flags & DSS_DSN_8 != 0)?,
                ssn: r.u32()?,
                len: r.u16()?,
                checksum: r.u16(),
            });
        }
        r.end()?;
        Some(dss)
    }
}

impl MpCapable {
    /// The option's length field: 4 without keys, 12 with the sender's key, 20 with both keys, 22 with the
    /// data-level length, 24 with the checksum. A field is written only if all fields before it in this order
    /// are present.
    pub const fn encoded_len(&self) -> usize {
        match (
            self.sender_key,
            self.receiver_key,
            self.data_len,
            self.checksum,
        ) {
            (None, _, _, _) => 4,
            (_, None, _, _) => 12,
            (_, _, None, _) => 20,
            (_, _, _, None) => 22,
            _ => 24,
        }
    }

    /// Whether the option may be answered with MPTCP: version 1, HMAC-SHA256 offered and bit `B` clear
    /// (RFC 8684, section 3.1: an option with `B` set "MUST be silently ignored"; one without `H` is invalid).
    pub const fn is_acceptable(&self) -> bool {
        self.version == 1 && self.hmac_sha256 && self.other_flags & 0x40 == 0
    }

    /// Whether a SYN with this option may be answered with version 1. Like [`Self::is_acceptable`], but it
    /// accepts later versions too, because the answer's version may be lower (RFC 8684, section 3.1; Linux
    /// `mptcp_parse_option`).
    pub const fn is_acceptable_offer(&self) -> bool {
        let of_version_1 = Self {
            version: 1,
            ..*self
        };
        self.version >= 1 && of_version_1.is_acceptable()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let flags = (self.other_flags & !(CAPABLE_A | CAPABLE_C | CAPABLE_H))
            | if self.checksum_required { CAPABLE_A } else { 0 }
            | if self.no_more_to_source { CAPABLE_C } else { 0 }
            | if self.hmac_sha256 { CAPABLE_H } else { 0 };
        head(out, self.encoded_len(), MP_CAPABLE, self.version);
        out.push(flags);
        let Some(sender) = self.sender_key else {
            return;
        };
        out.extend_from_slice(&sender.to_be_bytes());
        let Some(receiver) = self.receiver_key else {
            return;
        };
        out.extend_from_slice(&receiver.to_be_bytes());
        let Some(data_len) = self.data_len else {
            return;
        };
        out.extend_from_slice(&data_len.to_be_bytes());
        if let Some(checksum) = self.checksum {
            out.extend_from_slice(&checksum.to_be_bytes());
        }
    }

    fn read(o: &[u8], on: Flags) -> Option<Self> {
        let (version, flags) = (o.get(2)? & 0x0f, *o.get(3)?);
        let well_formed = match (on.contains(Flags::SYN), on.contains(Flags::ACK)) {
            (true, false) => o.len() == 4,
            (true, true) => o.len() == 12,
            (false, _) => matches!(o.len(), 20 | 22 | 24),
        };
        if version == 1 && !well_formed {
            return None;
        }
        let known = matches!(o.len(), 4 | 12 | 20 | 22 | 24);
        let mut r = Reader(if known { &o[4..] } else { &[] });
        Some(Self {
            version,
            checksum_required: flags & CAPABLE_A != 0,
            no_more_to_source: flags & CAPABLE_C != 0,
            hmac_sha256: flags & CAPABLE_H != 0,
            other_flags: flags & !(CAPABLE_A | CAPABLE_C | CAPABLE_H),
            sender_key: r.u64(),
            receiver_key: r.u64(),
            data_len: r.u16(),
            checksum: r.u16(),
        })
    }
}

impl MpJoin {
    /// The option's length field: 12 on the SYN, 16 on the SYN/ACK, 24 on the third ACK.
    pub const fn encoded_len(&self) -> usize {
        match self {
            Self::Syn { .. } => 12,
            Self::SynAck { .. } => 16,
            Self::Ack { .. } => 24,
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let len = self.encoded_len();
        match *self {
            Self::Syn {
                backup,
                address_id,
                token,
                nonce,
            } => {
                head(out, len, MP_JOIN, u8::from(backup));
                out.push(address_id);
                out.extend_from_slice(&token.to_be_bytes());
                out.extend_from_slice(&nonce.to_be_bytes());
            }
            Self::SynAck {
                backup,
                address_id,
                hmac,
                nonce,
            } => {
                head(out, len, MP_JOIN, u8::from(backup));
                out.push(address_id);
                out.extend_from_slice(&hmac.to_be_bytes());
                out.extend_from_slice(&nonce.to_be_bytes());
            }
            Self::Ack { hmac } => {
                head(out, len, MP_JOIN, 0);
                out.push(0);
                out.extend_from_slice(&hmac);
            }
        }
    }

    fn read(o: &[u8], on: Flags) -> Option<Self> {
        let backup = o.get(2)? & LOW_FLAG != 0;
        let mut r = Reader(&o[3..]);
        let address_id = r.u8()?;
        let join = match (on.contains(Flags::SYN), on.contains(Flags::ACK)) {
            (true, false) => Self::Syn {
                backup,
                address_id,
                token: r.u32()?,
                nonce: r.u32()?,
            },
            (true, true) => Self::SynAck {
                backup,
                address_id,
                hmac: r.u64()?,
                nonce: r.u32()?,
            },
            (false, _) => Self::Ack { hmac: r.array()? },
        };
        r.end()?;
        Some(join)
    }
}

impl AddAddr {
    /// The option's length field: 8 or 20 for the address family, 2 for the port, 8 for the HMAC.
    pub const fn encoded_len(&self) -> usize {
        let base = if self.addr.is_ipv4() { 8 } else { 20 };
        base + if self.port.is_some() { 2 } else { 0 } + if self.hmac.is_some() { 8 } else { 0 }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        head(out, self.encoded_len(), ADD_ADDR, u8::from(self.echo));
        out.push(self.address_id);
        match self.addr {
            IpAddr::V4(a) => out.extend_from_slice(&a.octets()),
            IpAddr::V6(a) => out.extend_from_slice(&a.octets()),
        }
        if let Some(port) = self.port {
            out.extend_from_slice(&port.to_be_bytes());
        }
        if let Some(hmac) = self.hmac {
            out.extend_from_slice(&hmac.to_be_bytes());
        }
    }

    /// Each form has a different length, so the length alone determines which fields are present. The receiver
    /// must check that an ADD_ADDR that is not an echo has an HMAC.
    fn read(o: &[u8]) -> Option<Self> {
        let (echo, address_id) = (o.get(2)? & LOW_FLAG != 0, *o.get(3)?);
        let mut r = Reader(&o[4..]);
        let addr = match o.len() {
            8 | 10 | 16 | 18 => IpAddr::V4(Ipv4Addr::from(r.array::<4>()?)),
            20 | 22 | 28 | 30 => IpAddr::V6(Ipv6Addr::from(r.array::<16>()?)),
            _ => return None,
        };
        let port = if matches!(r.0.len(), 2 | 10) {
            r.u16()
        } else {
            None
        };
        Some(Self {
            echo,
            address_id,
            addr,
            port,
            hmac: r.u64(),
        })
    }
}

impl RemoveAddr {
    /// The option's length field: 3 plus the number of identifiers. Without identifiers no option is written
    /// and the length is 0.
    pub fn encoded_len(&self) -> usize {
        if self.address_ids.is_empty() {
            0
        } else {
            3 + self.address_ids.len()
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if !self.address_ids.is_empty() {
            head(out, self.encoded_len(), REMOVE_ADDR, 0);
            out.extend_from_slice(&self.address_ids);
        }
    }
}

impl MpPrio {
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        head(out, LEN_PRIO, MP_PRIO, u8::from(self.backup));
    }
}

impl MpTcpRst {
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        head(
            out,
            LEN_TCPRST,
            MP_TCPRST,
            (self.other_flags & 0x0e) | u8::from(self.transient),
        );
        out.push(self.reason.code());
    }
}

impl ResetReason {
    /// The reason's code (RFC 8684, section 3.6).
    pub const fn code(self) -> u8 {
        match self {
            Self::Unspecified => 0,
            Self::MptcpSpecific => 1,
            Self::LackOfResources => 2,
            Self::Prohibited => 3,
            Self::TooMuchOutstanding => 4,
            Self::UnacceptablePerformance => 5,
            Self::Middlebox => 6,
            Self::Other(code) => code,
        }
    }

    /// The reason with this code; [`ResetReason::Other`] only for codes without a name.
    pub const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Unspecified,
            1 => Self::MptcpSpecific,
            2 => Self::LackOfResources,
            3 => Self::Prohibited,
            4 => Self::TooMuchOutstanding,
            5 => Self::UnacceptablePerformance,
            6 => Self::Middlebox,
            other => Self::Other(other),
        }
    }
}

/// Writes MP_FAIL with the data sequence number.
pub(crate) fn write_fail(dsn: u64, out: &mut Vec<u8>) {
    write_u64(MP_FAIL, dsn, out);
}

/// Writes MP_FASTCLOSE with the receiver's key.
pub(crate) fn write_fastclose(key: u64, out: &mut Vec<u8>) {
    write_u64(MP_FASTCLOSE, key, out);
}

fn write_u64(subtype: u8, value: u64, out: &mut Vec<u8>) {
    head(out, LEN_WITH_U64, subtype, 0);
    out.push(0);
    out.extend_from_slice(&value.to_be_bytes());
}

fn head(out: &mut Vec<u8>, len: usize, subtype: u8, low: u8) {
    // Lengths are at most 40 here, because the option space was checked before the first byte was written.
    out.extend_from_slice(&[KIND, len as u8, (subtype << 4) | (low & 0x0f)]);
}

/// Reads one MPTCP option, including its kind and length bytes, into `options`. A malformed or unknown option
/// changes nothing.
pub(crate) fn read(o: &[u8], on: Flags, options: &mut Options) {
    let Some(&third) = o.get(2) else { return };
    match third >> 4 {
        DSS => options.dss = Dss::read(o).or(options.dss),
        MP_CAPABLE => {
            if let Some(c) = MpCapable::read(o, on) {
                options.rare_mut().mp_capable = Some(c);
            }
        }
        MP_JOIN => {
            if let Some(j) = MpJoin::read(o, on) {
                options.rare_mut().mp_join = Some(j);
            }
        }
        ADD_ADDR => {
            if let Some(a) = AddAddr::read(o) {
                options.rare_mut().add_addr.push(a);
            }
        }
        REMOVE_ADDR if o.len() > 3 => {
            options.rare_mut().remove_addr = Some(RemoveAddr {
                address_ids: o[3..].to_vec(),
            });
        }
        MP_PRIO if o.len() == LEN_PRIO => {
            options.rare_mut().mp_prio = Some(MpPrio {
                backup: third & LOW_FLAG != 0,
            });
        }
        MP_FAIL if o.len() == LEN_WITH_U64 => options.rare_mut().mp_fail = Reader(&o[4..]).u64(),
        MP_FASTCLOSE if o.len() == LEN_WITH_U64 => {
            options.rare_mut().mp_fastclose = Reader(&o[4..]).u64();
        }
        MP_TCPRST if o.len() == LEN_TCPRST => {
            options.rare_mut().mp_tcprst = Some(MpTcpRst {
                transient: third & LOW_FLAG != 0,
                other_flags: third & 0x0e,
                reason: ResetReason::from_code(o[3]),
            });
        }
        _ => {}
    }
}

/// Reads numbers from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn data_number(&mut self, full: bool) -> Option<DataNumber> {
        if full {
            self.u64().map(DataNumber::Full)
        } else {
            self.u32().map(DataNumber::Low)
        }
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
