//! Encoding and parsing of [`Segment`]s: the TCP header (RFC 9293, section 3.1) and the packet around it.

use std::net::IpAddr;
use std::ops::Range;

use bytes::Bytes;

use crate::ip::{self, expected_checksum, pseudo_header, truncated};
use crate::{
    Checksums, Ecn, EncodeError, Endpoint, Flags, IpFields, IpHeader, Options, ParseError, Payload,
    Segment, SeqNumber, flow_hash, flow_key, mix_label, protocol,
};

/// The length of the TCP header without options.
const FIXED_LEN: usize = 20;
/// The nine control bits of the header.
const FLAG_BITS: u16 = 0x01ff;

impl Segment {
    /// The length in bytes of the TCP header with its current options. If it exceeds 60, the segment cannot be
    /// sent before [`Options::fit`].
    pub fn tcp_header_len(&self) -> usize {
        FIXED_LEN + self.options.encoded_len()
    }

    /// The length of the packet in bytes: IP header, TCP header with options, payload. It is computed without
    /// encoding the segment.
    pub fn wire_len(&self) -> usize {
        ip::header_len(self.src.addr) + self.transport_len()
    }

    /// The number of bytes after the IP header.
    pub(crate) fn transport_len(&self) -> usize {
        self.tcp_header_len() + self.payload.len()
    }

    /// [`flow_hash`] of the segment's addresses and ports, with the flow label mixed in if there is one
    /// ([`mix_label`]).
    pub fn flow_hash(&self) -> u64 {
        let hash = flow_hash(self.src, self.dst, protocol::TCP);
        mix_label(hash, self.flow_label)
    }

    /// A hash that identifies the subflow and is the same in both directions.
    pub fn flow_key(&self) -> u64 {
        flow_key(self.src, self.dst, protocol::TCP)
    }

    /// Appends TCP header and payload to `out`, with a valid checksum.
    ///
    /// # Errors
    /// Any [`EncodeError`]; nothing is appended in that case.
    pub fn encode_tcp(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.options.check()?;
        let header_len = self.tcp_header_len();
        let len = header_len + self.payload.len();
        ip::check_payload_len(self.src.addr, self.dst.addr, len)?;
        let start = out.len();
        out.reserve(len);
        out.extend_from_slice(&self.src.port.to_be_bytes());
        out.extend_from_slice(&self.dst.port.to_be_bytes());
        out.extend_from_slice(&self.seq.0.to_be_bytes());
        out.extend_from_slice(&self.ack.0.to_be_bytes());
        let words = (header_len / 4) as u16;
        out.extend_from_slice(&(words << 12 | (self.flags.0 & FLAG_BITS)).to_be_bytes());
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.urgent.to_be_bytes());
        self.options.encode(out)?;
        let mut sum = pseudo_header(self.src.addr, self.dst.addr, protocol::TCP, len);
        sum.add(&out[start..]);
        let headed = self.headed_payload();
        let payload = headed.as_ref().unwrap_or(&self.payload);
        sum.add_payload(payload);
        out[start + 16..start + 18].copy_from_slice(&sum.finish().to_be_bytes());
        payload.write(out);
        Ok(())
    }

    /// Appends the whole IP packet to `out`. The segment's flow label takes precedence over that of `fields`.
    ///
    /// # Errors
    /// Any [`EncodeError`]; nothing is appended in that case.
    pub fn encode_ip(&self, fields: &IpFields, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.options.check()?;
        let len = self.tcp_header_len() + self.payload.len();
        let addresses = (self.src.addr, self.dst.addr);
        let class = (self.dscp, self.ecn);
        let fields = IpFields {
            flow_label: match self.flow_label {
                0 => fields.flow_label,
                label => label,
            },
            ..*fields
        };
        ip::write_header(addresses, protocol::TCP, class, &fields, len, out)?;
        self.encode_tcp(out)
    }

    /// Returns the whole IP packet.
    ///
    /// # Errors
    /// Any [`EncodeError`].
    pub fn to_packet(&self, fields: &IpFields) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        self.encode_ip(fields, &mut out)?;
        Ok(out)
    }

    /// Reads an IP packet. The payload shares the memory of `packet` and is not copied.
    ///
    /// # Errors
    /// Any [`ParseError`].
    pub fn from_ip(packet: &Bytes, checksums: Checksums) -> Result<Self, ParseError> {
        let (mut segment, payload) = parse_ip(packet, checksums)?;
        if !payload.is_empty() {
            segment.payload = packet.slice(payload).into();
        }
        Ok(segment)
    }

    /// Reads an IP packet; the payload is copied.
    ///
    /// # Errors
    /// Any [`ParseError`].
    pub fn from_ip_slice(packet: &[u8], checksums: Checksums) -> Result<Self, ParseError> {
        let (mut segment, payload) = parse_ip(packet, checksums)?;
        if !payload.is_empty() {
            segment.payload = Bytes::copy_from_slice(&packet[payload]).into();
        }
        Ok(segment)
    }

    /// Reads the headers of an IP packet. Returns the segment without its payload, and the payload's position
    /// in the packet.
    ///
    /// # Errors
    /// Any [`ParseError`].
    pub fn parse_headers(
        packet: &[u8],
        checksums: Checksums,
    ) -> Result<(Self, Range<usize>), ParseError> {
        parse_ip(packet, checksums)
    }

    /// Reads a TCP header with its payload, sent from `src` to `dst` in an IP packet or in an encapsulation.
    /// The payload shares the memory of `bytes`.
    ///
    /// # Errors
    /// Any [`ParseError`] about TCP.
    pub fn from_tcp(
        (src, dst): (IpAddr, IpAddr),
        ecn: Ecn,
        bytes: &Bytes,
        checksums: Checksums,
    ) -> Result<Self, ParseError> {
        let (mut segment, header_len) = parse_tcp(src, dst, bytes, checksums)?;
        segment.ecn = ecn;
        if header_len < bytes.len() {
            segment.payload = bytes.slice(header_len..).into();
        }
        Ok(segment)
    }
}

/// The segment without its payload, and the payload's position in the packet.
fn parse_ip(packet: &[u8], checksums: Checksums) -> Result<(Segment, Range<usize>), ParseError> {
    let ip = IpHeader::parse(packet, checksums)?;
    ip.expect_protocol(protocol::TCP)?;
    let tcp = &packet[ip.header_len..ip.total_len];
    let (mut segment, header_len) =
        parse_tcp(ip.src, ip.dst, tcp, checksums).map_err(|e| e.shifted(ip.header_len))?;
    (segment.dscp, segment.ecn) = (ip.dscp, ip.ecn);
    segment.flow_label = ip.fields.flow_label;
    Ok((segment, ip.header_len + header_len..ip.total_len))
}

/// The segment without its payload and without ECN, and the length of the header.
fn parse_tcp(
    src: IpAddr,
    dst: IpAddr,
    tcp: &[u8],
    checksums: Checksums,
) -> Result<(Segment, usize), ParseError> {
    let Some(h) = tcp.first_chunk::<FIXED_LEN>() else {
        return Err(truncated("TCP header", 0, FIXED_LEN, tcp.len()));
    };
    let header_len = usize::from(h[12] >> 4) * 4;
    if header_len < FIXED_LEN {
        let (what, found) = ("TCP data offset", header_len);
        return Err(ParseError::HeaderLength {
            what,
            offset: 12,
            found,
            least: FIXED_LEN,
        });
    }
    if tcp.len() < header_len {
        return Err(truncated(
            "TCP header with options",
            0,
            header_len,
            tcp.len(),
        ));
    }
    if checksums == Checksums::Verify {
        check_tcp(src, dst, tcp)?;
    }
    let u16_at = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
    let u32_at = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    let flags = Flags(u16_at(12) & FLAG_BITS);
    let segment = Segment {
        src: Endpoint::new(src, u16_at(0)),
        dst: Endpoint::new(dst, u16_at(2)),
        seq: SeqNumber(u32_at(4)),
        ack: SeqNumber(u32_at(8)),
        flags,
        window: u16_at(14),
        urgent: u16_at(18),
        ecn: Ecn::NotEct,
        dscp: 0,
        flow_label: 0,
        options: Options::parse(&tcp[FIXED_LEN..header_len], flags)
            .map_err(|e| e.shifted(FIXED_LEN))?,
        payload: Payload::EMPTY,
        segment_size: 0,
    };
    Ok((segment, header_len))
}

fn check_tcp(src: IpAddr, dst: IpAddr, tcp: &[u8]) -> Result<(), ParseError> {
    let mut sum = pseudo_header(src, dst, protocol::TCP, tcp.len());
    sum.add(tcp);
    if sum.sum() == 0xffff {
        return Ok(());
    }
    let found = u16::from_be_bytes([tcp[16], tcp[17]]);
    let expected = expected_checksum(sum, found);
    Err(ParseError::Checksum {
        what: "TCP",
        offset: 16,
        found,
        expected,
    })
}
