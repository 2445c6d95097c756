//! IP packets in the form in which the fabric carries them.

use bytes::Bytes;
use spindle_experiment::hosts::{class, place_of};
use spindle_experiment::rng::hash64;
use spindle_fabric::Class;
use spindle_mptcp::stage::important::is_important;
use spindle_wire::{
    Checksums, ENCAPSULATION_HEADER_LEN, Ecn, EncapsulationHeader, EncapsulationKind, IpFields,
    IpHeader, Packet, Segment, mark_ce, protocol,
};

/// Length of a UDP header (RFC 768).
const UDP_HEADER: usize = 8;

/// A packet in transit, as a kernel or a Spindle host handed it over.
#[derive(Clone, Debug)]
pub struct SimPacket {
    form: Form,
    wire_len: u32,
    hash: u64,
    key: u64,
    is_data: bool,
    ecn: Ecn,
    dscp: u8,
}

#[derive(Clone, Debug)]
enum Form {
    /// A whole IPv4 or IPv6 packet.
    Bytes(Vec<u8>),
    /// A packet that was never encoded as bytes. If both ends are Spindle, no bytes are needed.
    Value(Box<Packet>),
}

impl SimPacket {
    /// A whole IP packet, with the host and interface that it is addressed to. `None` if it is not addressed to
    /// a host of the experiment (neighbour discovery and the like).
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, (u32, u32))> {
        let (dst, (dscp, ecn), (hash, key), is_data) =
            match Segment::parse_headers(bytes, Checksums::Trust) {
                Ok((s, payload)) => (
                    s.dst.addr,
                    (s.dscp, s.ecn),
                    (s.flow_hash(), s.flow_key()),
                    !payload.is_empty(),
                ),
                Err(_) => {
                    let ip = IpHeader::parse(bytes, Checksums::Trust).ok()?;
                    let hashes = hashes(bytes, &ip);
                    (ip.dst, (ip.dscp, ip.ecn), hashes, carries_data(bytes, &ip))
                }
            };
        let place = place_of(dst)?;
        let carried = Self {
            form: Form::Bytes(bytes.to_vec()),
            wire_len: bytes.len() as u32,
            hash,
            key,
            is_data,
            ecn,
            dscp,
        };
        Some((carried, place))
    }

    /// A packet of a Spindle host, with the host and interface that it is addressed to. `None` if it is not
    /// addressed to a host of the experiment.
    pub fn from_packet(packet: Packet) -> Option<(Self, (u32, u32))> {
        let place = place_of(packet.dst().addr)?;
        let carried = Self {
            wire_len: packet.wire_len() as u32,
            hash: packet.flow_hash(),
            key: packet.flow_key(),
            is_data: !packet.payload().is_empty(),
            ecn: packet.ecn(),
            dscp: packet.dscp(),
            form: Form::Value(Box::new(packet)),
        };
        Some((carried, place))
    }

    /// The packet for a Spindle host. `None` if a kernel sent it and it is not a TCP segment, or malformed.
    pub fn into_packet(self) -> Option<Packet> {
        match self.form {
            Form::Value(packet) => Some(*packet),
            Form::Bytes(bytes) => {
                let segment = Segment::from_ip(&Bytes::from(bytes), Checksums::Verify);
                segment.ok().map(Packet::Tcp)
            }
        }
    }

    /// Writes the packet as bytes for a kernel to `out`. Returns false if the packet cannot be encoded.
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        out.clear();
        match &self.form {
            Form::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                true
            }
            Form::Value(packet) => packet.encode_ip(&IpFields::default(), out).is_ok(),
        }
    }
}

/// Two hashes of the flow of a packet that is not a TCP segment. The second is the same in both directions.
fn hashes(bytes: &[u8], ip: &IpHeader) -> (u64, u64) {
    let addresses = format!("{}{}{}", ip.src, ip.dst, ip.protocol);
    // The two ports of UDP. For other protocols, the first bytes of the payload, which are the same for all
    // packets of a flow.
    let ports = bytes.get(ip.header_len..ip.header_len + 4).unwrap_or(&[]);
    let hash = hash64(&[addresses.as_bytes(), ports]);
    let (from, to) = ports.split_at(ports.len() / 2);
    let (a, b) = ((ip.src, from), (ip.dst, to));
    let (first, last) = (a.min(b), a.max(b));
    let addresses = format!("{}{}{}", first.0, last.0, ip.protocol);
    (hash, hash64(&[addresses.as_bytes(), first.1, last.1]))
}

/// Whether losses of data apply to a packet that is not a TCP segment. They apply to all packets except
/// datagrams of Spindle's encapsulation that carry no segment, or a segment without payload.
fn carries_data(bytes: &[u8], ip: &IpHeader) -> bool {
    let datagram = bytes.get(ip.header_len + UDP_HEADER..).unwrap_or(&[]);
    let header = EncapsulationHeader::parse(datagram);
    match header.map(|h| h.kind) {
        Ok(EncapsulationKind::Data(_)) if ip.protocol == protocol::UDP => {
            let segment = &datagram[ENCAPSULATION_HEADER_LEN..];
            // The data offset, in words of 4 bytes (RFC 9293, section 3.1).
            let header = segment.get(12).map_or(0, |b| usize::from(b >> 4) * 4);
            segment.len() > header
        }
        Ok(EncapsulationKind::Coded(_)) if ip.protocol == protocol::UDP => {
            // Encoded packets state the number of their segments. Acknowledgements have 0 there.
            let sources = datagram.get(ENCAPSULATION_HEADER_LEN + 6);
            sources.is_some_and(|k| *k > 0)
        }
        Ok(_) if ip.protocol == protocol::UDP => false,
        _ => true,
    }
}

impl spindle_fabric::Packet for SimPacket {
    fn wire_len(&self) -> u32 {
        self.wire_len
    }

    fn flow_hash(&self) -> u64 {
        self.hash
    }

    fn flow_key(&self) -> u64 {
        self.key
    }

    fn class(&self) -> Class {
        class(self.dscp)
    }

    fn is_data(&self) -> bool {
        self.is_data
    }

    fn is_important(&self) -> bool {
        is_important(self.dscp)
    }

    fn ecn_capable(&self) -> bool {
        matches!(self.ecn, Ecn::Ect0 | Ecn::Ect1)
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
        match &mut self.form {
            Form::Bytes(bytes) => {
                mark_ce(bytes);
            }
            Form::Value(packet) => packet.set_ecn(Ecn::Ce),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_experiment::hosts::address;
    use spindle_fabric::Packet as _;
    use spindle_wire::Endpoint;

    fn segment(payload: &'static [u8]) -> Segment {
        let (src, dst) = (address(1, 0), address(0, 1));
        let mut s = Segment::new(Endpoint::new(src, 80), Endpoint::new(dst, 4000));
        s.payload = Bytes::from_static(payload).into();
        s.ecn = Ecn::Ect0;
        s
    }

    #[test]
    fn bytes_and_segments_have_the_same_properties() {
        let s = segment(b"hello");
        let bytes = s.to_packet(&IpFields::default()).unwrap();
        let (a, to_a) = SimPacket::from_bytes(&bytes).unwrap();
        let (b, to_b) = SimPacket::from_packet(s.into()).unwrap();
        assert_eq!((to_a, to_b), ((0, 1), (0, 1)));
        assert_eq!(a.wire_len(), b.wire_len());
        assert_eq!(a.flow_hash(), b.flow_hash());
        assert_eq!((a.is_data(), b.is_data()), (true, true));
        assert!(
            !SimPacket::from_packet(segment(b"").into())
                .unwrap()
                .0
                .is_data()
        );
        for mut carried in [a, b] {
            assert!(carried.ecn_capable());
            carried.mark_ce();
            let mut out = Vec::new();
            assert!(carried.write(&mut out));
            let back = carried.into_packet().unwrap();
            assert_eq!((back.ecn(), back.payload().len()), (Ecn::Ce, 5));
            assert_eq!(out.len(), bytes.len());
        }
    }

    /// A UDP packet of Spindle's encapsulation.
    fn in_udp(datagram: &[u8]) -> SimPacket {
        let mut bytes = segment(b"").to_packet(&IpFields::default()).unwrap();
        bytes.truncate(20);
        bytes.extend_from_slice(&[0, 80, 0, 90, 0, 0, 0, 0]);
        bytes.extend_from_slice(datagram);
        bytes[9] = protocol::UDP;
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[10..12].fill(0);
        SimPacket::from_bytes(&bytes).unwrap().0
    }

    #[test]
    fn data_in_udp_is_distinguished_from_acknowledgements_and_probes() {
        for payload in [&b""[..], b"x"] {
            let mut s = segment(b"");
            s.payload = Bytes::from_static(payload).into();
            let mut datagram = Vec::new();
            s.encapsulate(7, &mut datagram).unwrap();
            assert_eq!(in_udp(&datagram).is_data(), !payload.is_empty());
        }
        let mut probe = Vec::new();
        let kind = EncapsulationKind::Probe(1);
        EncapsulationHeader { id: 7, kind }.encode(&mut probe);
        probe.resize(1400, 0);
        assert!(!in_udp(&probe).is_data());
        assert!(in_udp(b"anything else").is_data());
        assert!(in_udp(b"").is_data());
    }

    #[test]
    fn other_protocols_are_carried_and_foreign_packets_are_not() {
        let mut bytes = segment(b"x").to_packet(&IpFields::default()).unwrap();
        bytes[9] = 17;
        let (udp, to) = SimPacket::from_bytes(&bytes).unwrap();
        assert!(udp.is_data() && to == (0, 1) && udp.clone().into_packet().is_none());
        assert!(SimPacket::from_bytes(&[]).is_none());
        assert!(SimPacket::from_bytes(&[0x60; 60]).is_none());
    }
}
