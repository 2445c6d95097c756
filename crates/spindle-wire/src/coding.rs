//! Packets of the coding layer (CAPS section IV), which lies between TCP and IP if both ends have agreed to
//! send coded packets (`docs/wire/coding.md` has the diagrams).
//!
//! A packet starts with a header of 12 bytes, in which the ports are where TCP and UDP have theirs. The rest
//! depends on its kind: an encoded packet of a coding unit, or an acknowledgement of such a packet. Whole TCP
//! segments are coded. A [`CodedPacket`] is therefore not a [`Segment`]; a [`crate::Packet`] is one or the other.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::ip::{self, IpHeader, truncated};
use crate::{
    Checksums, Ecn, EncodeError, Endpoint, IpFields, ParseError, Payload, Segment, SeqNumber,
    flow_hash, flow_key, protocol,
};

/// The length of the header in bytes (mechanisms A4.5: 12).
pub const CODING_HEADER_LEN: usize = 12;
/// The length in bytes of the coded length, which follows the header of an encoded packet.
const LENGTH_LEN: usize = 2;
/// The length in bytes of the two counters, which follow the header of an acknowledgement. The acknowledgement
/// takes 40 bytes with its IPv4 header, like TCP's (mechanisms A4.3).
const COUNTERS_LEN: usize = 8;
/// By how many bytes an encoded packet is longer than the longest of the TCP segments that it combines, both
/// without their IP headers.
pub const CODING_OVERHEAD: usize = CODING_HEADER_LEN + LENGTH_LEN;
/// Timestamps are modulo this: 24 bits of microseconds, about 16.8 s.
pub const CODING_CLOCK: u32 = 1 << 24;

/// The header of a packet of the coding layer, without its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodingHeader {
    /// The low 16 bits of the coding unit's number. Each direction counts its own units.
    pub unit: u16,
    /// The index of the encoded packet within its unit, from 0. An acknowledgement contains the index of the
    /// packet that it acknowledges.
    pub index: u8,
    /// When the encoded packet was sent, in microseconds of its sender's clock modulo [`CODING_CLOCK`]. An
    /// acknowledgement returns it, increased by the time for which the acknowledgement was held back.
    pub timestamp: u32,
    /// The kind of packet.
    pub kind: CodedKind,
}

/// Kinds of packets of the coding layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodedKind {
    /// One of the `total` encoded packets of a unit of `sources` segments.
    Encoded {
        /// The number of segments in the unit, CAPS's k; at least 1.
        sources: u8,
        /// The number of encoded packets of the unit, CAPS's k + r; at least `sources`.
        total: u8,
        /// The combination of the segments' lengths.
        len: u16,
        /// The unit's segments themselves, if payloads are plain lengths and no symbol is computed. They are
        /// not sent, so a parsed packet has none.
        twin: Option<Arc<[Segment]>>,
    },
    /// An acknowledgement of an encoded packet.
    Ack {
        /// The number of encoded packets that have arrived on the connection, modulo 2^32.
        arrived: u32,
        /// The number of decoded units, modulo 2^32.
        decoded: u32,
    },
}

impl CodingHeader {
    /// The header's length in bytes, with the fields that depend on the kind.
    pub const fn encoded_len(&self) -> usize {
        match self.kind {
            CodedKind::Encoded { .. } => CODING_OVERHEAD,
            CodedKind::Ack { .. } => CODING_HEADER_LEN + COUNTERS_LEN,
        }
    }

    /// Appends the header with these ports.
    fn encode(&self, (src, dst): (u16, u16), out: &mut Vec<u8>) {
        out.extend_from_slice(&src.to_be_bytes());
        out.extend_from_slice(&dst.to_be_bytes());
        out.extend_from_slice(&self.unit.to_be_bytes());
        let (sources, total) = match self.kind {
            CodedKind::Encoded { sources, total, .. } => (sources, total),
            CodedKind::Ack { .. } => (0, 0),
        };
        out.extend_from_slice(&[sources, total, self.index]);
        let [_, time @ ..] = (self.timestamp % CODING_CLOCK).to_be_bytes();
        out.extend_from_slice(&time);
        match self.kind {
            CodedKind::Encoded { len, .. } => out.extend_from_slice(&len.to_be_bytes()),
            CodedKind::Ack { arrived, decoded } => {
                out.extend_from_slice(&arrived.to_be_bytes());
                out.extend_from_slice(&decoded.to_be_bytes());
            }
        }
    }
}

/// A packet of the coding layer together with the addresses, the class and the ECN field of the IP packet that
/// carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedPacket {
    /// The sender.
    pub src: Endpoint,
    /// The receiver.
    pub dst: Endpoint,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The differentiated services code point of the IP header, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// The header.
    pub header: CodingHeader,
    /// The bytes after the header: the symbol of an encoded packet. An acknowledgement is sent without any. If
    /// a received acknowledgement has some, they have no meaning.
    pub payload: Payload,
    /// The sequence number of the unit's first segment, by which an observer at the sender recognises
    /// retransmissions. It is not part of the packet. Acknowledgements and parsed packets have none.
    pub first_seq: Option<SeqNumber>,
}

impl CodedPacket {
    /// A packet with this header from `src` to `dst`, without payload.
    pub fn new(src: Endpoint, dst: Endpoint, header: CodingHeader) -> Self {
        Self {
            src,
            dst,
            ecn: Ecn::NotEct,
            dscp: 0,
            header,
            payload: Payload::EMPTY,
            first_seq: None,
        }
    }

    /// Whether it is an encoded packet of a unit, not an acknowledgement.
    pub const fn is_encoded(&self) -> bool {
        matches!(self.header.kind, CodedKind::Encoded { .. })
    }

    /// The length of the packet in bytes: IP header, header of the coding layer, payload.
    pub fn wire_len(&self) -> usize {
        ip::header_len(self.src.addr) + self.transport_len()
    }

    /// The number of bytes after the IP header.
    pub(crate) fn transport_len(&self) -> usize {
        self.header.encoded_len() + self.payload.len()
    }

    /// [`flow_hash`] of the connection's addresses and ports: the hash of the TCP segments that it codes.
    pub fn flow_hash(&self) -> u64 {
        flow_hash(self.src, self.dst, protocol::TCP)
    }

    /// A hash that identifies the subflow and is the same in both directions, and for its TCP segments.
    pub fn flow_key(&self) -> u64 {
        flow_key(self.src, self.dst, protocol::TCP)
    }

    /// Appends the packet without its IP header.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.header.encode((self.src.port, self.dst.port), out);
        self.payload.write(out);
    }

    /// Appends the whole IP packet to `out`.
    ///
    /// # Errors
    /// An [`EncodeError`] about the IP header; nothing is appended in that case.
    pub fn encode_ip(&self, fields: &IpFields, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let addresses = (self.src.addr, self.dst.addr);
        let class = (self.dscp, self.ecn);
        let len = self.transport_len();
        ip::write_header(addresses, protocol::EXPERIMENT, class, fields, len, out)?;
        self.encode(out);
        Ok(())
    }

    /// Returns the whole IP packet as bytes.
    ///
    /// # Errors
    /// Like [`Self::encode_ip`].
    pub fn to_bytes(&self, fields: &IpFields) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        self.encode_ip(fields, &mut out)?;
        Ok(out)
    }

    /// Reads a packet without its IP header, sent from `src` to `dst`. The payload shares the memory of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], and [`ParseError::CodingUnit`] if the unit has fewer packets than segments or
    /// the index is out of range.
    pub fn parse(
        (src, dst): (IpAddr, IpAddr),
        ecn: Ecn,
        bytes: &Bytes,
    ) -> Result<Self, ParseError> {
        let Some(h) = bytes.first_chunk::<CODING_HEADER_LEN>() else {
            let (needed, found) = (CODING_HEADER_LEN, bytes.len());
            return Err(truncated("coding header", 0, needed, found));
        };
        let u16_at = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        let [sources, total, index] = [h[6], h[7], h[8]];
        let kind = match sources {
            0 => ack(bytes)?,
            _ => encoded(bytes, sources, total, index)?,
        };
        let header = CodingHeader {
            unit: u16_at(4),
            index,
            timestamp: u32::from_be_bytes([0, h[9], h[10], h[11]]),
            kind,
        };
        let end = header.encoded_len();
        let ends = (Endpoint::new(src, u16_at(0)), Endpoint::new(dst, u16_at(2)));
        let mut packet = Self::new(ends.0, ends.1, header);
        packet.ecn = ecn;
        if bytes.len() > end {
            packet.payload = bytes.slice(end..).into();
        }
        Ok(packet)
    }

    /// Reads an IP packet of the coding layer. The payload shares the memory of `packet`.
    ///
    /// # Errors
    /// Any [`ParseError`] except those about TCP.
    pub fn from_ip(packet: &Bytes, checksums: Checksums) -> Result<Self, ParseError> {
        let ip = IpHeader::parse(packet, checksums)?;
        ip.expect_protocol(protocol::EXPERIMENT)?;
        let body = packet.slice(ip.header_len..ip.total_len);
        let mut coded =
            Self::parse((ip.src, ip.dst), ip.ecn, &body).map_err(|e| e.shifted(ip.header_len))?;
        coded.dscp = ip.dscp;
        Ok(coded)
    }
}

fn encoded(bytes: &Bytes, sources: u8, total: u8, index: u8) -> Result<CodedKind, ParseError> {
    if total < sources || index >= total {
        return Err(ParseError::CodingUnit {
            offset: 6,
            sources,
            total,
            index,
        });
    }
    match bytes[CODING_HEADER_LEN..].first_chunk::<LENGTH_LEN>() {
        None => {
            let (at, found) = (CODING_HEADER_LEN, bytes.len() - CODING_HEADER_LEN);
            Err(truncated("coded length", at, LENGTH_LEN, found))
        }
        Some(len) => Ok(CodedKind::Encoded {
            sources,
            total,
            len: u16::from_be_bytes(*len),
            twin: None,
        }),
    }
}

fn ack(bytes: &Bytes) -> Result<CodedKind, ParseError> {
    match bytes[CODING_HEADER_LEN..].first_chunk::<COUNTERS_LEN>() {
        None => {
            let (at, found) = (CODING_HEADER_LEN, bytes.len() - CODING_HEADER_LEN);
            Err(truncated("counters", at, COUNTERS_LEN, found))
        }
        Some(&[a, b, c, d, e, f, g, h]) => Ok(CodedKind::Ack {
            arrived: u32::from_be_bytes([a, b, c, d]),
            decoded: u32::from_be_bytes([e, f, g, h]),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = (CodedKind, u8)> {
        let encoded = (1u8.., any::<u8>(), any::<u8>(), any::<u16>()).prop_map(|(k, r, i, len)| {
            let total = k.saturating_add(r % 100);
            let kind = CodedKind::Encoded {
                sources: k,
                total,
                len,
                twin: None,
            };
            (kind, i % total)
        });
        let ack = (any::<u32>(), any::<u32>(), any::<u8>())
            .prop_map(|(arrived, decoded, i)| (CodedKind::Ack { arrived, decoded }, i));
        prop_oneof![encoded, ack]
    }

    fn packet(kind: CodedKind, index: u8, numbers: (u16, u32), payload: Vec<u8>) -> CodedPacket {
        let at = |n: u8, port| Endpoint::new(IpAddr::from([10, 0, 0, n]), port);
        let header = CodingHeader {
            unit: numbers.0,
            index,
            timestamp: numbers.1 % CODING_CLOCK,
            kind,
        };
        let mut packet = CodedPacket::new(at(1, 4000), at(2, 80), header);
        (packet.dscp, packet.ecn) = (18, Ecn::Ect0);
        if !payload.is_empty() {
            packet.payload = Payload::from(payload);
        }
        packet
    }

    proptest! {
        #[test]
        fn coded_packets_survive_encoding_and_parsing(
            (kind, index) in kinds(), unit in any::<u16>(), time in any::<u32>(),
            payload in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let sent = packet(kind, index, (unit, time), payload);
            let bytes = sent.to_bytes(&IpFields::default()).unwrap();
            prop_assert_eq!(bytes.len(), sent.wire_len());
            prop_assert!(Segment::from_ip_slice(&bytes, Checksums::Verify).is_err(), "not TCP");
            let read = CodedPacket::from_ip(&bytes.into(), Checksums::Verify).unwrap();
            prop_assert_eq!(read, sent);
        }

        #[test]
        fn parsing_any_bytes_returns_a_packet_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let at = IpAddr::from([10, 0, 0, 1]);
            if let Ok(read) = CodedPacket::parse((at, at), Ecn::NotEct, &bytes.clone().into()) {
                let mut out = Vec::new();
                read.encode(&mut out);
                // The k + r byte of an acknowledgement is ignored.
                prop_assert!(out[..7] == bytes[..7] && out[8..] == bytes[8..]);
                prop_assert!(!read.is_encoded() || out == bytes);
            }
        }
    }

    #[test]
    fn coding_ack_is_as_long_as_a_bare_tcp_ack() {
        let kind = CodedKind::Ack {
            arrived: 1,
            decoded: 0,
        };
        assert_eq!(packet(kind, 3, (1, 2), Vec::new()).wire_len(), 40);
    }

    #[test]
    fn unit_with_too_few_packets_or_a_bad_index_is_refused() {
        let at = IpAddr::from([10, 0, 0, 1]);
        let mut bytes = vec![0; 20];
        bytes[6..9].copy_from_slice(&[4, 3, 0]);
        let read = |bytes: &[u8]| {
            CodedPacket::parse((at, at), Ecn::NotEct, &Bytes::copy_from_slice(bytes))
        };
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains("packet 0 of 3"), "{error}");
        bytes[6..9].copy_from_slice(&[4, 6, 6]);
        assert!(read(&bytes).is_err());
        bytes[8] = 5;
        assert!(read(&bytes).is_ok());
        assert!(read(&bytes[..13]).is_err());
    }
}
