//! The Multipath TCP options (RFC 8684, section 3 and figures 3 to 16) as values.

use std::net::IpAddr;

/// A data sequence number or DATA_ACK as encoded in a DSS option: all 64 bits or the low 32 (RFC 8684,
/// section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataNumber {
    /// The low 32 bits; the receiver infers the upper 32.
    Low(u32),
    /// All 64 bits.
    Full(u64),
}

/// Data Sequence Signal (RFC 8684, section 3.3, figure 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dss {
    /// DATA_ACK, if the `A` flag is set.
    pub data_ack: Option<DataNumber>,
    /// The mapping, if the `M` flag is set.
    pub mapping: Option<Mapping>,
    /// The `F` flag: DATA_FIN.
    pub data_fin: bool,
}

/// A mapping of subflow sequence space to data sequence space (RFC 8684, section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Data sequence number of the first byte.
    pub dsn: DataNumber,
    /// Subflow sequence number of the first byte, relative to the subflow's ISN. The first data byte has 1. A
    /// DATA_FIN without data has 0.
    pub ssn: u32,
    /// Number of bytes covered, including a DATA_FIN. Zero means an infinite mapping (fallback).
    pub len: u16,
    /// The DSS checksum, if checksums are in use (RFC 8684, section 3.3.1).
    pub checksum: Option<u16>,
}

/// MP_CAPABLE, version 1 (RFC 8684, section 3.1, figure 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpCapable {
    /// Protocol version; 1 for RFC 8684.
    pub version: u8,
    /// Flag `A`: checksums required.
    pub checksum_required: bool,
    /// Flag `C`: no further subflows to the source address and port.
    pub no_more_to_source: bool,
    /// Flag `H`: HMAC-SHA256.
    pub hmac_sha256: bool,
    /// The other flag bits (`B`, `D` to `G`) at their positions in the flags byte.
    pub other_flags: u8,
    /// The sender's key; absent on the initial SYN.
    pub sender_key: Option<u64>,
    /// The receiver's key; present on the third ACK and on the first data.
    pub receiver_key: Option<u64>,
    /// Data-level length of the first data, on the MP_CAPABLE that carries data.
    pub data_len: Option<u16>,
    /// The checksum that accompanies `data_len`, if checksums are in use.
    pub checksum: Option<u16>,
}

/// MP_JOIN (RFC 8684, section 3.2, figures 5 to 7). The segment's SYN and ACK bits determine its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpJoin {
    /// On the SYN.
    Syn {
        /// Flag `B`: use this subflow as backup only.
        backup: bool,
        /// Address identifier of the source.
        address_id: u8,
        /// The receiver's token.
        token: u32,
        /// The sender's random number.
        nonce: u32,
    },
    /// On the SYN/ACK.
    SynAck {
        /// Flag `B`: use this subflow as backup only.
        backup: bool,
        /// Address identifier of the source.
        address_id: u8,
        /// The leftmost 64 bits of the sender's HMAC.
        hmac: u64,
        /// The sender's random number.
        nonce: u32,
    },
    /// On the third ACK.
    Ack {
        /// The leftmost 160 bits of the sender's HMAC.
        hmac: [u8; 20],
    },
}

/// ADD_ADDR (RFC 8684, section 3.4.1, figure 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddAddr {
    /// Flag `E`: this echoes the peer's ADD_ADDR.
    pub echo: bool,
    /// Address identifier.
    pub address_id: u8,
    /// The address.
    pub addr: IpAddr,
    /// The port, if it differs from the connection's.
    pub port: Option<u16>,
    /// The rightmost 64 bits of the HMAC; absent on an echo.
    pub hmac: Option<u64>,
}

/// REMOVE_ADDR (RFC 8684, section 3.4.2, figure 13): address identifiers, at most 37 if there is no other
/// option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveAddr {
    /// The identifiers, in order; at least one.
    pub address_ids: Vec<u8>,
}

/// MP_PRIO (RFC 8684, section 3.3.8, figure 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpPrio {
    /// Flag `B`: use this subflow as backup only.
    pub backup: bool,
}

/// MP_TCPRST (RFC 8684, section 3.6, figure 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpTcpRst {
    /// Flag `T`: the condition is transient.
    pub transient: bool,
    /// Flags `U`, `V`, `W` as the upper three bits of the option's flag nibble, kept unchanged.
    pub other_flags: u8,
    /// The reason for the reset.
    pub reason: ResetReason,
}

/// The reason codes of MP_TCPRST (RFC 8684, section 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// 0x00: unspecified.
    Unspecified,
    /// 0x01: MPTCP-specific error.
    MptcpSpecific,
    /// 0x02: lack of resources.
    LackOfResources,
    /// 0x03: administratively prohibited.
    Prohibited,
    /// 0x04: too much outstanding data.
    TooMuchOutstanding,
    /// 0x05: unacceptable performance.
    UnacceptablePerformance,
    /// 0x06: middlebox interference.
    Middlebox,
    /// Any other code.
    Other(u8),
}
