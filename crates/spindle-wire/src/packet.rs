//! [`Packet`]: a packet of one of the protocols between two stacks.

use bytes::Bytes;

use crate::{
    Checksums, CodedPacket, Ecn, EncodeError, Endpoint, IpFields, IpHeader, ParseError, Payload,
    Segment, SeqNumber, protocol,
};

/// A packet of one of the protocols that Spindle sends. It is the form in which stacks exchange packets.
///
/// A packet takes no more memory than a [`Segment`]: the compiler marks the second variant by a value that a field
/// of a segment never has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A TCP segment.
    Tcp(Segment),
    /// A packet of the coding layer.
    Coded(CodedPacket),
}

impl From<Segment> for Packet {
    fn from(segment: Segment) -> Self {
        Self::Tcp(segment)
    }
}

impl From<CodedPacket> for Packet {
    fn from(packet: CodedPacket) -> Self {
        Self::Coded(packet)
    }
}

impl Packet {
    /// A placeholder for a packet: [`Segment::blank`].
    pub fn blank() -> Self {
        Self::Tcp(Segment::blank())
    }

    /// The TCP segment. `None` if the packet belongs to the coding layer.
    #[inline]
    pub fn tcp(&self) -> Option<&Segment> {
        match self {
            Self::Tcp(segment) => Some(segment),
            Self::Coded(_) => None,
        }
    }

    /// Like [`Self::tcp`], but mutable.
    #[inline]
    pub fn tcp_mut(&mut self) -> Option<&mut Segment> {
        match self {
            Self::Tcp(segment) => Some(segment),
            Self::Coded(_) => None,
        }
    }

    /// Like [`Self::tcp`], by value.
    #[inline]
    pub fn into_tcp(self) -> Option<Segment> {
        match self {
            Self::Tcp(segment) => Some(segment),
            Self::Coded(_) => None,
        }
    }

    /// A TCP segment in the place of this packet, for a caller that writes the next segment there. A segment keeps
    /// its contents. A packet of the coding layer is replaced by a [blank](Segment::blank) segment.
    #[inline]
    pub fn reuse_as_tcp(&mut self) -> &mut Segment {
        if let Self::Coded(_) = self {
            *self = Self::blank();
        }
        match self {
            Self::Tcp(segment) => segment,
            Self::Coded(_) => unreachable!("replaced by a blank segment above"),
        }
    }

    /// The packet of the coding layer. `None` if the packet is a TCP segment.
    #[inline]
    pub fn coded(&self) -> Option<&CodedPacket> {
        match self {
            Self::Tcp(_) => None,
            Self::Coded(packet) => Some(packet),
        }
    }

    /// Like [`Self::coded`], but mutable.
    #[inline]
    pub fn coded_mut(&mut self) -> Option<&mut CodedPacket> {
        match self {
            Self::Tcp(_) => None,
            Self::Coded(packet) => Some(packet),
        }
    }

    /// The sender.
    #[inline]
    pub fn src(&self) -> Endpoint {
        match self {
            Self::Tcp(segment) => segment.src,
            Self::Coded(packet) => packet.src,
        }
    }

    /// The receiver.
    #[inline]
    pub fn dst(&self) -> Endpoint {
        match self {
            Self::Tcp(segment) => segment.dst,
            Self::Coded(packet) => packet.dst,
        }
    }

    /// The ECN field of the IP header.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        match self {
            Self::Tcp(segment) => segment.ecn,
            Self::Coded(packet) => packet.ecn,
        }
    }

    /// Sets the ECN field of the IP header.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        match self {
            Self::Tcp(segment) => segment.ecn = ecn,
            Self::Coded(packet) => packet.ecn = ecn,
        }
    }

    /// The differentiated services code point of the IP header, 0 to 63 (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        match self {
            Self::Tcp(segment) => segment.dscp,
            Self::Coded(packet) => packet.dscp,
        }
    }

    /// Sets the differentiated services code point of the IP header, 0 to 63 (RFC 2474).
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        match self {
            Self::Tcp(segment) => segment.dscp = dscp,
            Self::Coded(packet) => packet.dscp = dscp,
        }
    }

    /// The data of a segment, or the symbol of an encoded packet.
    #[inline]
    pub fn payload(&self) -> &Payload {
        match self {
            Self::Tcp(segment) => &segment.payload,
            Self::Coded(packet) => &packet.payload,
        }
    }

    /// The sequence number of a segment, or that of the first segment of an encoded packet's unit. `None` if
    /// that is unknown ([`CodedPacket::first_seq`]).
    #[inline]
    pub fn first_seq(&self) -> Option<SeqNumber> {
        match self {
            Self::Tcp(segment) => Some(segment.seq),
            Self::Coded(packet) => packet.first_seq,
        }
    }

    /// The length of the packet in bytes, including its IP header.
    #[inline]
    pub fn wire_len(&self) -> usize {
        match self {
            Self::Tcp(segment) => segment.wire_len(),
            Self::Coded(packet) => packet.wire_len(),
        }
    }

    /// The hash of the connection's addresses and ports ([`Segment::flow_hash`]).
    #[inline]
    pub fn flow_hash(&self) -> u64 {
        match self {
            Self::Tcp(segment) => segment.flow_hash(),
            Self::Coded(packet) => packet.flow_hash(),
        }
    }

    /// A hash that identifies the subflow and is the same in both directions.
    #[inline]
    pub fn flow_key(&self) -> u64 {
        match self {
            Self::Tcp(segment) => segment.flow_key(),
            Self::Coded(packet) => packet.flow_key(),
        }
    }

    /// The number of packets into which the packet must be cut, at least one ([`Segment::piece_count`]). A packet
    /// of the coding layer is never cut.
    #[inline]
    pub fn piece_count(&self) -> u32 {
        match self {
            Self::Tcp(segment) => segment.piece_count(),
            Self::Coded(_) => 1,
        }
    }

    /// Passes the packets into which the packet must be cut to `sink` ([`Segment::pieces`]).
    pub fn for_each_piece(self, mut sink: impl FnMut(Self)) {
        match self {
            Self::Tcp(segment) => segment.pieces().for_each(|piece| sink(Self::Tcp(piece))),
            Self::Coded(_) => sink(self),
        }
    }

    /// Appends the whole IP packet to `out`, in the format of its protocol.
    ///
    /// # Errors
    /// Any [`EncodeError`]; nothing is appended in that case.
    pub fn encode_ip(&self, fields: &IpFields, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Tcp(segment) => segment.encode_ip(fields, out),
            Self::Coded(packet) => packet.encode_ip(fields, out),
        }
    }

    /// Returns the whole IP packet as bytes.
    ///
    /// # Errors
    /// Any [`EncodeError`].
    pub fn to_bytes(&self, fields: &IpFields) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        self.encode_ip(fields, &mut out)?;
        Ok(out)
    }

    /// Reads an IP packet of either protocol. The payload shares the memory of `packet`.
    ///
    /// # Errors
    /// Any [`ParseError`]. Other protocols are refused as not TCP.
    pub fn from_ip(packet: &Bytes, checksums: Checksums) -> Result<Self, ParseError> {
        match IpHeader::parse(packet, checksums)?.protocol {
            protocol::EXPERIMENT => CodedPacket::from_ip(packet, checksums).map(Self::Coded),
            _ => Segment::from_ip(packet, checksums).map(Self::Tcp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodedKind, CodingHeader};

    fn coded() -> CodedPacket {
        let at = |n: u8, port| Endpoint::new([10, 0, 0, n].into(), port);
        let header = CodingHeader {
            unit: 7,
            index: 2,
            timestamp: 99,
            kind: CodedKind::Encoded {
                sources: 3,
                total: 4,
                len: 120,
                twin: None,
            },
        };
        let mut packet = CodedPacket::new(at(1, 4000), at(2, 80), header);
        packet.payload = Payload::from(vec![1; 120]);
        packet
    }

    #[test]
    fn packet_takes_no_more_memory_than_a_segment() {
        assert_eq!(size_of::<Packet>(), size_of::<Segment>());
    }

    #[test]
    fn packets_of_either_protocol_survive_encoding_and_parsing() {
        let coded = coded();
        let mut segment = Segment::new(coded.src, coded.dst);
        segment.payload = coded.payload.clone();
        for mut sent in [Packet::from(segment), Packet::from(coded)] {
            sent.set_dscp(18);
            sent.set_ecn(Ecn::Ect1);
            let bytes = sent.to_bytes(&IpFields::default()).unwrap();
            assert_eq!(bytes.len(), sent.wire_len());
            let read = Packet::from_ip(&bytes.into(), Checksums::Verify);
            assert_eq!(read.as_ref(), Ok(&sent));
            let mut datagram = Vec::new();
            sent.encapsulate(5, &mut datagram).unwrap();
            assert_eq!(datagram.len(), sent.encapsulated_len());
            let ends = (sent.src().addr, sent.dst().addr);
            sent.set_dscp(0);
            let read = Packet::decapsulate(ends, Ecn::Ect1, &datagram.into());
            assert_eq!(read, Ok(sent));
        }
    }

    #[test]
    fn packet_of_a_segment_keeps_its_contents_and_a_coded_packet_becomes_blank() {
        let mut segment = Segment::blank();
        segment.window = 9;
        let mut packet = Packet::from(segment.clone());
        assert_eq!(*packet.reuse_as_tcp(), segment);
        packet = Packet::from(coded());
        assert_eq!(*packet.reuse_as_tcp(), Segment::blank());
        assert_eq!(packet, Packet::blank());
    }
}
