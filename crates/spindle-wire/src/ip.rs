//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, as far as a transport protocol needs them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Checksum, Ecn, EncodeError, ParseError, update_checksum};

/// Protocol numbers in the IP header.
pub mod protocol {
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// The protocol number for experiments (RFC 3692; RFC 4727, section 2), used for packets of the coding
    /// layer.
    pub const EXPERIMENT: u8 = 253;
}

/// The length of the IPv4 header without options.
const V4_LEN: usize = 20;
/// The length of the IPv6 header without extension headers.
const V6_LEN: usize = 40;
/// The largest value of a 16-bit length field.
const MAX_LEN: usize = 0xffff;

// IPv6 extension headers that a parser may skip to find the payload (RFC 8200, section 4).
const HOP_BY_HOP: u8 = 0;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Whether checksums are verified when a packet is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksums {
    /// A wrong checksum is an error.
    #[default]
    Verify,
    /// Checksums are not verified, because a lower layer has verified them or they will be filled in later
    /// (offload).
    Trust,
}

/// The fields of the IP header that a sender can choose, apart from addresses, class and ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFields {
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Identification; IPv4 only. Any value is allowed with `dont_fragment` (RFC 6864, section 4.1).
    pub identification: u16,
    /// The DF bit; IPv4 only.
    pub dont_fragment: bool,
    /// Flow label, 20 bits; IPv6 only.
    pub flow_label: u32,
}

impl Default for IpFields {
    /// TTL 64 (RFC 1700), DF set, the other fields zero.
    fn default() -> Self {
        Self {
            ttl: 64,
            identification: 0,
            dont_fragment: true,
            flow_label: 0,
        }
    }
}

/// The contents of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// The protocol of the payload, after any IPv6 extension headers.
    pub protocol: u8,
    /// The differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// The ECN field.
    pub ecn: Ecn,
    /// Where the payload starts, in bytes from the header's start.
    pub header_len: usize,
    /// Where the payload ends. Bytes after this offset are link-layer padding.
    pub total_len: usize,
    /// The other fields.
    pub fields: IpFields,
    /// The offset of the protocol number.
    pub(crate) protocol_at: usize,
}

impl IpHeader {
    /// Reads the header of `packet`. IPv4 options and IPv6 hop-by-hop and destination options are skipped.
    ///
    /// # Errors
    /// A [`ParseError`] about IP. [`ParseError::Fragment`] is returned for every packet that is not whole.
    pub fn parse(packet: &[u8], checksums: Checksums) -> Result<Self, ParseError> {
        match packet.first().map(|b| b >> 4) {
            None => Err(truncated("IP header", 0, V4_LEN, 0)),
            Some(4) => Self::parse_v4(packet, checksums),
            Some(6) => Self::parse_v6(packet),
            Some(found) => Err(ParseError::Version { found }),
        }
    }

    /// The number of payload bytes.
    pub const fn payload_len(&self) -> usize {
        self.total_len - self.header_len
    }

    /// Returns an error unless the payload has this protocol.
    pub(crate) fn expect_protocol(&self, expected: u8) -> Result<(), ParseError> {
        if self.protocol == expected {
            return Ok(());
        }
        Err(ParseError::Protocol {
            offset: self.protocol_at,
            found: self.protocol,
            expected,
        })
    }

    fn parse_v4(p: &[u8], checksums: Checksums) -> Result<Self, ParseError> {
        let Some(h) = p.first_chunk::<V4_LEN>() else {
            return Err(truncated("IPv4 header", 0, V4_LEN, p.len()));
        };
        let header_len = usize::from(h[0] & 0x0f) * 4;
        let total_len = usize::from(u16::from_be_bytes([h[2], h[3]]));
        if header_len < V4_LEN {
            let what = "IPv4 header length";
            return Err(ParseError::HeaderLength {
                what,
                offset: 0,
                found: header_len,
                least: V4_LEN,
            });
        }
        if total_len < header_len {
            let (what, found) = ("IPv4 total length", total_len);
            return Err(ParseError::HeaderLength {
                what,
                offset: 2,
                found,
                least: header_len,
            });
        }
        if p.len() < total_len {
            return Err(truncated("IPv4 packet", 0, total_len, p.len()));
        }
        if checksums == Checksums::Verify {
            check_v4_header(&p[..header_len])?;
        }
        let fragmentation = u16::from_be_bytes([h[6], h[7]]);
        // More fragments follow, or the fragment offset is not 0.
        if fragmentation & 0x3fff != 0 {
            return Err(ParseError::Fragment { offset: 6 });
        }
        Ok(Self {
            src: Ipv4Addr::new(h[12], h[13], h[14], h[15]).into(),
            dst: Ipv4Addr::new(h[16], h[17], h[18], h[19]).into(),
            protocol: h[9],
            dscp: h[1] >> 2,
            ecn: Ecn::from_bits(h[1]),
            header_len,
            total_len,
            fields: IpFields {
                ttl: h[8],
                identification: u16::from_be_bytes([h[4], h[5]]),
                dont_fragment: fragmentation & 0x4000 != 0,
                flow_label: 0,
            },
            protocol_at: 9,
        })
    }

    fn parse_v6(p: &[u8]) -> Result<Self, ParseError> {
        let Some(h) = p.first_chunk::<V6_LEN>() else {
            return Err(truncated("IPv6 header", 0, V6_LEN, p.len()));
        };
        let total_len = V6_LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
        if p.len() < total_len {
            return Err(truncated("IPv6 packet", 0, total_len, p.len()));
        }
        let first = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
        let traffic_class = (first >> 20) as u8;
        let address = |at: usize| {
            let mut a = [0; 16];
            a.copy_from_slice(&h[at..at + 16]);
            IpAddr::from(Ipv6Addr::from(a))
        };
        let (protocol_at, header_len) = skip_extensions(&p[..total_len])?;
        Ok(Self {
            src: address(8),
            dst: address(24),
            protocol: p[protocol_at],
            dscp: traffic_class >> 2,
            ecn: Ecn::from_bits(traffic_class),
            header_len,
            total_len,
            fields: IpFields {
                ttl: h[7],
                flow_label: first & 0x000f_ffff,
                ..IpFields::default()
            },
            protocol_at,
        })
    }
}

/// The offsets of the last next-header field and of the payload.
fn skip_extensions(packet: &[u8]) -> Result<(usize, usize), ParseError> {
    let (mut protocol_at, mut at) = (6, V6_LEN);
    loop {
        let kind = packet[protocol_at];
        if !matches!(kind, HOP_BY_HOP | FRAGMENT | DESTINATION_OPTIONS) {
            return Ok((protocol_at, at));
        }
        let Some(h) = packet[at..].first_chunk::<8>() else {
            return Err(truncated("IPv6 extension header", at, 8, packet.len() - at));
        };
        // A fragment header with offset 0 and no further fragments is a whole packet (RFC 6946).
        if kind == FRAGMENT && u16::from_be_bytes([h[2], h[3]]) & 0xfff9 != 0 {
            return Err(ParseError::Fragment { offset: at + 2 });
        }
        let len = if kind == FRAGMENT {
            8
        } else {
            8 + 8 * usize::from(h[1])
        };
        if packet.len() - at < len {
            return Err(truncated(
                "IPv6 extension header",
                at,
                len,
                packet.len() - at,
            ));
        }
        protocol_at = at;
        at += len;
    }
}

fn check_v4_header(header: &[u8]) -> Result<(), ParseError> {
    let mut sum = Checksum::new();
    sum.add(header);
    if sum.sum() == 0xffff {
        return Ok(());
    }
    let found = u16::from_be_bytes([header[10], header[11]]);
    Err(ParseError::Checksum {
        what: "IPv4 header",
        offset: 10,
        found,
        expected: expected_checksum(sum, found),
    })
}

/// The correct checksum, computed from the sum over data that contains the wrong one.
pub(crate) fn expected_checksum(mut sum: Checksum, found: u16) -> u16 {
    sum.pad();
    sum.add_u16(!found);
    sum.finish()
}

pub(crate) const fn truncated(
    what: &'static str,
    offset: usize,
    needed: usize,
    found: usize,
) -> ParseError {
    ParseError::Truncated {
        what,
        offset,
        needed,
        found,
    }
}

/// Appends an IP header for `payload_len` bytes of `protocol`.
pub(crate) fn write_header(
    (src, dst): (IpAddr, IpAddr),
    protocol: u8,
    (dscp, ecn): (u8, Ecn),
    fields: &IpFields,
    payload_len: usize,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    check_payload_len(src, dst, payload_len)?;
    let traffic_class = (dscp << 2) | ecn.bits();
    match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            let start = out.len();
            let total = (V4_LEN + payload_len) as u16;
            out.extend_from_slice(&[0x45, traffic_class]);
            out.extend_from_slice(&total.to_be_bytes());
            out.extend_from_slice(&fields.identification.to_be_bytes());
            out.extend_from_slice(&[if fields.dont_fragment { 0x40 } else { 0 }, 0]);
            out.extend_from_slice(&[fields.ttl, protocol, 0, 0]);
            out.extend_from_slice(&s.octets());
            out.extend_from_slice(&d.octets());
            let mut sum = Checksum::new();
            sum.add(&out[start..]);
            out[start + 10..start + 12].copy_from_slice(&sum.finish().to_be_bytes());
        }
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            let first =
                6 << 28 | u32::from(traffic_class) << 20 | (fields.flow_label & 0x000f_ffff);
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(&(payload_len as u16).to_be_bytes());
            out.extend_from_slice(&[protocol, fields.ttl]);
            out.extend_from_slice(&s.octets());
            out.extend_from_slice(&d.octets());
        }
        _ => return Err(EncodeError::MixedFamilies),
    }
    Ok(())
}

/// Returns an error if the IP header cannot express `payload_len` bytes between these addresses.
pub(crate) fn check_payload_len(
    src: IpAddr,
    dst: IpAddr,
    payload_len: usize,
) -> Result<(), EncodeError> {
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(EncodeError::MixedFamilies);
    }
    // IPv4's total length counts the header, IPv6's payload length does not.
    let len = payload_len + if src.is_ipv4() { V4_LEN } else { 0 };
    if len > MAX_LEN {
        Err(EncodeError::PacketTooLong { len, max: MAX_LEN })
    } else {
        Ok(())
    }
}

/// The length in bytes of the IP header for an address of this family: 20 or 40.
pub(crate) const fn header_len(addr: IpAddr) -> usize {
    match addr {
        IpAddr::V4(_) => V4_LEN,
        IpAddr::V6(_) => V6_LEN,
    }
}

/// The sum over the pseudo-header of TCP and UDP (RFC 9293, section 3.1; RFC 8200, section 8.1).
pub(crate) fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> Checksum {
    let mut sum = Checksum::new();
    for addr in [src, dst] {
        match addr {
            IpAddr::V4(a) => sum.add(&a.octets()),
            IpAddr::V6(a) => sum.add(&a.octets()),
        }
    }
    sum.add_u32(len as u32);
    sum.add_u16(u16::from(protocol));
    sum
}

/// Sets the ECN field of an ECN-capable packet to "congestion experienced" and updates the IPv4 header checksum
/// (RFC 3168, section 5). Returns whether the packet is now marked. Bytes too short for an IP packet stay
/// unchanged.
pub fn mark_ce(packet: &mut [u8]) -> bool {
    match packet.first().map(|b| b >> 4) {
        Some(4) if packet.len() >= V4_LEN => {
            if Ecn::from_bits(packet[1]) == Ecn::NotEct {
                return false;
            }
            let from = u16::from_be_bytes([packet[0], packet[1]]);
            let to = from | u16::from(Ecn::Ce.bits());
            let old = u16::from_be_bytes([packet[10], packet[11]]);
            packet[1] = to as u8;
            packet[10..12].copy_from_slice(&update_checksum(old, from, to).to_be_bytes());
            true
        }
        Some(6) if packet.len() >= V6_LEN => {
            // The traffic class spans the first two bytes. Its ECN bits are bits 5 and 4 of the second byte.
            if Ecn::from_bits(packet[1] >> 4) == Ecn::NotEct {
                return false;
            }
            packet[1] |= Ecn::Ce.bits() << 4;
            true
        }
        _ => false,
    }
}
