//! UDP datagrams (RFC 768) with their IP header. They carry segments if TCP's own protocol number cannot be
//! used.

use bytes::Bytes;

use crate::ip::{self, expected_checksum, pseudo_header, truncated};
use crate::{
    Checksums, Ecn, EncodeError, Endpoint, IpFields, IpHeader, ParseError, Payload, flow_hash,
    protocol,
};

const HEADER_LEN: usize = 8;

/// A UDP datagram with the addresses and the ECN field of the IP packet that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpDatagram {
    /// The sender.
    pub src: Endpoint,
    /// The receiver.
    pub dst: Endpoint,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The data.
    pub payload: Payload,
}

impl UdpDatagram {
    /// The length of the packet in bytes: IP header, UDP header, payload.
    pub fn wire_len(&self) -> usize {
        ip::header_len(self.src.addr) + HEADER_LEN + self.payload.len()
    }

    /// [`flow_hash`] of the datagram's addresses and ports.
    pub fn flow_hash(&self) -> u64 {
        flow_hash(self.src, self.dst, protocol::UDP)
    }

    /// Appends the whole IP packet to `out`, with valid checksums.
    ///
    /// # Errors
    /// [`EncodeError::PacketTooLong`] and [`EncodeError::MixedFamilies`]; nothing is appended in these cases.
    pub fn encode_ip(&self, fields: &IpFields, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let len = HEADER_LEN + self.payload.len();
        let addresses = (self.src.addr, self.dst.addr);
        ip::write_header(addresses, protocol::UDP, (0, self.ecn), fields, len, out)?;
        let start = out.len();
        out.extend_from_slice(&self.src.port.to_be_bytes());
        out.extend_from_slice(&self.dst.port.to_be_bytes());
        out.extend_from_slice(&(len as u16).to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        let mut sum = pseudo_header(self.src.addr, self.dst.addr, protocol::UDP, len);
        sum.add(&out[start..]);
        sum.add_payload(&self.payload);
        // Zero means "no checksum". The other zero of one's complement replaces it (RFC 768).
        let checksum = match sum.finish() {
            0 => 0xffff,
            c => c,
        };
        out[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
        self.payload.write(out);
        Ok(())
    }

    /// Reads an IP packet. The payload shares the memory of `packet`. A checksum of zero means "no checksum"
    /// over IPv4 (RFC 768) and is an error over IPv6 (RFC 8200, section 8.1).
    ///
    /// # Errors
    /// A [`ParseError`] about IP or UDP.
    pub fn from_ip(packet: &Bytes, checksums: Checksums) -> Result<Self, ParseError> {
        let ip = IpHeader::parse(packet, checksums)?;
        ip.expect_protocol(protocol::UDP)?;
        let at = ip.header_len;
        let bytes = &packet[at..ip.total_len];
        let Some(h) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(truncated("UDP header", at, HEADER_LEN, bytes.len()));
        };
        let u16_at = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        let len = usize::from(u16_at(4));
        if len < HEADER_LEN {
            let (what, offset) = ("UDP length", at + 4);
            return Err(ParseError::HeaderLength {
                what,
                offset,
                found: len,
                least: HEADER_LEN,
            });
        }
        let Some(datagram) = bytes.get(..len) else {
            return Err(truncated("UDP datagram", at, len, bytes.len()));
        };
        if checksums == Checksums::Verify {
            check(&ip, datagram, u16_at(6)).map_err(|e| e.shifted(at))?;
        }
        let payload = packet.slice(at + HEADER_LEN..at + len);
        Ok(Self {
            src: Endpoint::new(ip.src, u16_at(0)),
            dst: Endpoint::new(ip.dst, u16_at(2)),
            ecn: ip.ecn,
            payload: if payload.is_empty() {
                Payload::EMPTY
            } else {
                payload.into()
            },
        })
    }
}

fn check(ip: &IpHeader, datagram: &[u8], found: u16) -> Result<(), ParseError> {
    if found == 0 && ip.src.is_ipv4() {
        return Ok(());
    }
    let mut sum = pseudo_header(ip.src, ip.dst, protocol::UDP, datagram.len());
    sum.add(datagram);
    if found != 0 && sum.sum() == 0xffff {
        return Ok(());
    }
    let expected = expected_checksum(sum, found);
    Err(ParseError::Checksum {
        what: "UDP",
        offset: 6,
        found,
        expected,
    })
}
