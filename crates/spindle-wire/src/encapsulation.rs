//! TCP segments in UDP: the header in front of a segment, and the short messages that maintain a path
//! (`docs/wire/encapsulation.md` has the diagrams).
//!
//! A datagram consists of a header of 12 bytes and a body that depends on its type. The body is a whole TCP
//! segment with its ports and a checksum field of zero (UDP's own checksum covers it), a packet of the coding
//! layer, or a message about the path.

use std::net::IpAddr;

use bytes::Bytes;
use thiserror::Error;

use crate::{Checksums, CodedPacket, Ecn, EncodeError, Packet, ParseError, Segment};

/// The version byte, the first byte of a datagram. RFC 9443 (section 2) assigns the values 4 to 15 to no
/// protocol. The byte therefore distinguishes a datagram from STUN (0-3), ZRTP (16-19), DTLS (20-63), TURN
/// (64-79), QUIC and RTP (64-255).
pub const ENCAPSULATION_VERSION: u8 = 8;
/// The length of the header in bytes.
pub const ENCAPSULATION_HEADER_LEN: usize = 12;
/// The two bytes before the id. They reject foreign datagrams that happen to begin with the version byte.
const MAGIC: u16 = 0x5370;
/// The length in bytes of the number in a challenge, in its reply and in a probe.
const NUMBER_LEN: usize = 8;

const DATA: u8 = 0;
const CHALLENGE: u8 = 1;
const CHALLENGE_REPLY: u8 = 2;
const PROBE: u8 = 3;
const PROBE_ACK: u8 = 4;
const CODED: u8 = 5;

/// The type of a datagram and the message in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncapsulationKind {
    /// A TCP segment, with the ECN field that its packet would have without the encapsulation (the inner
    /// header's field of RFC 6040).
    Data(Ecn),
    /// A packet of the coding layer with its ports, and the ECN field as for [`EncapsulationKind::Data`].
    Coded(Ecn),
    /// A challenge. Its receiver returns the number if it has the address to which the challenge was sent.
    Challenge(u64),
    /// The reply to a challenge: the challenge's number.
    ChallengeReply(u64),
    /// A path MTU probe, padded to the size under test (RFC 8899, section 4.1). The number identifies the
    /// probe.
    Probe(u64),
    /// The probe with this number arrived with this many bytes of UDP payload.
    ProbeAck {
        /// The probe's number.
        number: u64,
        /// The length of the UDP payload in bytes, 20 to 65 507.
        size: u16,
    },
}

/// The header of a datagram. If the datagram does not carry a segment, this includes the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncapsulationHeader {
    /// The encapsulation id. The client chooses one for each subflow; it is never 0.
    pub id: u64,
    /// The type of the datagram and its message.
    pub kind: EncapsulationKind,
}

/// Why a datagram is not a valid datagram of Spindle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncapsulationError {
    /// The datagram is shorter than its header or its message.
    #[error("{what} needs {needed} bytes, but the datagram has {found}")]
    Truncated {
        /// The part that does not fit.
        what: &'static str,
        /// The bytes needed, including the header.
        needed: usize,
        /// The length of the datagram in bytes.
        found: usize,
    },
    /// The datagram belongs to another protocol or has another version.
    #[error("version byte {found}; expected {ENCAPSULATION_VERSION}")]
    Version {
        /// The byte.
        found: u8,
    },
    /// The bytes before the id are not the magic number.
    #[error("bytes 2 and 3 are {found:#06x}; expected {MAGIC:#06x}")]
    Magic {
        /// The bytes.
        found: u16,
    },
    /// The type is unknown.
    #[error(
        "type {found} at byte 1; expected 0 to {CODED}, with ECN bits on types 0 and {CODED} only"
    )]
    Type {
        /// The whole byte.
        found: u8,
    },
    /// The id is 0.
    #[error("encapsulation id 0, which no subflow has")]
    ZeroId,
    /// The datagram is longer than its type allows.
    #[error("a message of {expected} bytes in a datagram of {found}")]
    Trailing {
        /// The length of the message in bytes, including the header.
        expected: usize,
        /// The length of the datagram in bytes.
        found: usize,
    },
    /// The segment, or the packet of the coding layer, in the datagram is malformed. Offsets count from the
    /// start of its header.
    #[error("the segment in it: {0}")]
    Segment(#[from] ParseError),
}

impl EncapsulationHeader {
    /// The header of a segment.
    pub const fn data(id: u64, ecn: Ecn) -> Self {
        Self {
            id,
            kind: EncapsulationKind::Data(ecn),
        }
    }

    /// Appends the header and, if the datagram does not carry a segment, the message. The caller must pad a
    /// probe with zeros.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, number) = match self.kind {
            EncapsulationKind::Data(ecn) => (DATA | ecn.bits() << 6, None),
            EncapsulationKind::Coded(ecn) => (CODED | ecn.bits() << 6, None),
            EncapsulationKind::Challenge(n) => (CHALLENGE, Some(n)),
            EncapsulationKind::ChallengeReply(n) => (CHALLENGE_REPLY, Some(n)),
            EncapsulationKind::Probe(n) => (PROBE, Some(n)),
            EncapsulationKind::ProbeAck { number, .. } => (PROBE_ACK, Some(number)),
        };
        out.extend_from_slice(&[ENCAPSULATION_VERSION, kind]);
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        if let Some(n) = number {
            out.extend_from_slice(&n.to_be_bytes());
        }
        if let EncapsulationKind::ProbeAck { size, .. } = self.kind {
            out.extend_from_slice(&size.to_be_bytes());
        }
    }

    /// Reads the header of a datagram and, if the datagram does not carry a segment, the message. A segment
    /// begins at byte [`ENCAPSULATION_HEADER_LEN`] and ends with the datagram.
    ///
    /// # Errors
    /// Any [`EncapsulationError`] except [`EncapsulationError::Segment`].
    pub fn parse(datagram: &[u8]) -> Result<Self, EncapsulationError> {
        let found = datagram.len();
        let Some(h) = datagram.first_chunk::<ENCAPSULATION_HEADER_LEN>() else {
            let (what, needed) = ("the header", ENCAPSULATION_HEADER_LEN);
            return Err(EncapsulationError::Truncated {
                what,
                needed,
                found,
            });
        };
        if h[0] != ENCAPSULATION_VERSION {
            return Err(EncapsulationError::Version { found: h[0] });
        }
        let magic = u16::from_be_bytes([h[2], h[3]]);
        if magic != MAGIC {
            return Err(EncapsulationError::Magic { found: magic });
        }
        let [_, _, _, _, id @ ..] = *h;
        let id = u64::from_be_bytes(id);
        if id == 0 {
            return Err(EncapsulationError::ZeroId);
        }
        let kind = match h[1] {
            t if t & 0x3f == DATA => EncapsulationKind::Data(Ecn::from_bits(t >> 6)),
            t if t & 0x3f == CODED => EncapsulationKind::Coded(Ecn::from_bits(t >> 6)),
            CHALLENGE => {
                exactly(datagram, NUMBER_LEN)?;
                EncapsulationKind::Challenge(number(datagram)?)
            }
            CHALLENGE_REPLY => {
                exactly(datagram, NUMBER_LEN)?;
                EncapsulationKind::ChallengeReply(number(datagram)?)
            }
            PROBE => EncapsulationKind::Probe(number(datagram)?),
            PROBE_ACK => {
                let at = exactly(datagram, NUMBER_LEN + 2)? - 2;
                EncapsulationKind::ProbeAck {
                    number: number(datagram)?,
                    size: u16::from_be_bytes([datagram[at], datagram[at + 1]]),
                }
            }
            found => return Err(EncapsulationError::Type { found }),
        };
        Ok(Self { id, kind })
    }
}

/// The number after the header.
fn number(datagram: &[u8]) -> Result<u64, EncapsulationError> {
    match datagram[ENCAPSULATION_HEADER_LEN..].first_chunk::<NUMBER_LEN>() {
        Some(n) => Ok(u64::from_be_bytes(*n)),
        None => Err(EncapsulationError::Truncated {
            what: "the message",
            needed: ENCAPSULATION_HEADER_LEN + NUMBER_LEN,
            found: datagram.len(),
        }),
    }
}

/// Returns an error unless the datagram has a message of `len` bytes after the header. Returns the whole
/// length.
fn exactly(datagram: &[u8], len: usize) -> Result<usize, EncapsulationError> {
    let (expected, found) = (ENCAPSULATION_HEADER_LEN + len, datagram.len());
    if found < expected {
        let (what, needed) = ("the message", expected);
        return Err(EncapsulationError::Truncated {
            what,
            needed,
            found,
        });
    }
    if found > expected {
        return Err(EncapsulationError::Trailing { expected, found });
    }
    Ok(expected)
}

impl Segment {
    /// The length in bytes of the datagram (UDP payload) that carries the segment.
    pub fn encapsulated_len(&self) -> usize {
        ENCAPSULATION_HEADER_LEN + self.transport_len()
    }

    /// Appends the datagram that carries the segment: header, TCP header with a checksum of zero, and payload.
    /// The addresses are not sent.
    ///
    /// # Errors
    /// An [`EncodeError`] about the options; nothing is appended in that case.
    pub fn encapsulate(&self, id: u64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        out.reserve(self.encapsulated_len());
        EncapsulationHeader::data(id, self.ecn).encode(out);
        let words = (self.tcp_header_len() / 4) as u16;
        out.extend_from_slice(&self.src.port.to_be_bytes());
        out.extend_from_slice(&self.dst.port.to_be_bytes());
        out.extend_from_slice(&self.seq.0.to_be_bytes());
        out.extend_from_slice(&self.ack.0.to_be_bytes());
        out.extend_from_slice(&(words << 12 | (self.flags.0 & 0x01ff)).to_be_bytes());
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.urgent.to_be_bytes());
        if let Err(e) = self.options.encode(out) {
            out.truncate(start);
            return Err(e);
        }
        self.payload.write(out);
        Ok(())
    }
}

impl CodedPacket {
    /// The length in bytes of the datagram (UDP payload) that carries the packet.
    pub fn encapsulated_len(&self) -> usize {
        ENCAPSULATION_HEADER_LEN + self.transport_len()
    }

    /// Appends the datagram that carries the packet. The addresses are not sent.
    pub fn encapsulate(&self, id: u64, out: &mut Vec<u8>) {
        out.reserve(self.encapsulated_len());
        let kind = EncapsulationKind::Coded(self.ecn);
        EncapsulationHeader { id, kind }.encode(out);
        self.encode(out);
    }
}

impl Packet {
    /// The length in bytes of the datagram (UDP payload) that carries the packet.
    pub fn encapsulated_len(&self) -> usize {
        match self {
            Self::Tcp(segment) => segment.encapsulated_len(),
            Self::Coded(packet) => packet.encapsulated_len(),
        }
    }

    /// Appends the datagram that carries the packet. The addresses are not sent.
    ///
    /// # Errors
    /// Like [`Segment::encapsulate`].
    pub fn encapsulate(&self, id: u64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Tcp(segment) => segment.encapsulate(id, out)?,
            Self::Coded(packet) => packet.encapsulate(id, out),
        }
        Ok(())
    }

    /// Reads the packet of a datagram whose header has already been parsed. The packet shares the datagram's
    /// memory. `ecn` is the combined field ([`Ecn::decapsulated`]). The TCP checksum is not verified.
    ///
    /// # Errors
    /// [`EncapsulationError::Truncated`] and [`EncapsulationError::Segment`].
    pub fn decapsulate(
        addresses: (IpAddr, IpAddr),
        ecn: Ecn,
        datagram: &Bytes,
    ) -> Result<Self, EncapsulationError> {
        if datagram.len() < ENCAPSULATION_HEADER_LEN {
            return Err(EncapsulationError::Truncated {
                what: "the header",
                needed: ENCAPSULATION_HEADER_LEN,
                found: datagram.len(),
            });
        }
        let inner = datagram.slice(ENCAPSULATION_HEADER_LEN..);
        if datagram[1] & 0x3f == CODED {
            return Ok(Self::Coded(CodedPacket::parse(addresses, ecn, &inner)?));
        }
        let segment = Segment::from_tcp(addresses, ecn, &inner, Checksums::Trust)?;
        Ok(Self::Tcp(segment))
    }
}

impl Ecn {
    /// The ECN field of a packet that leaves a tunnel, from the fields of its inner and its outer header
    /// (RFC 6040, figure 4). `None` means that the packet must be dropped, because the mark would be lost
    /// otherwise.
    pub const fn decapsulated(inner: Self, outer: Self) -> Option<Self> {
        match (inner, outer) {
            (Self::NotEct, Self::Ce) => None,
            (Self::NotEct, _) => Some(Self::NotEct),
            (Self::Ce, _) | (_, Self::Ce) => Some(Self::Ce),
            (Self::Ect0, Self::Ect1) => Some(Self::Ect1),
            (inner, _) => Some(inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, Flags, Payload, SeqNumber, Timestamps};
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = EncapsulationKind> {
        prop_oneof![
            (0u8..4).prop_map(|b| EncapsulationKind::Data(Ecn::from_bits(b))),
            (0u8..4).prop_map(|b| EncapsulationKind::Coded(Ecn::from_bits(b))),
            any::<u64>().prop_map(EncapsulationKind::Challenge),
            any::<u64>().prop_map(EncapsulationKind::ChallengeReply),
            any::<u64>().prop_map(EncapsulationKind::Probe),
            (any::<u64>(), any::<u16>())
                .prop_map(|(number, size)| EncapsulationKind::ProbeAck { number, size }),
        ]
    }

    fn segment(ports: (u16, u16), numbers: (u32, u32), flags: u16, payload: Vec<u8>) -> Segment {
        let at = |port| Endpoint::new(IpAddr::from([10, 0, 0, 1]), port);
        let mut s = Segment::new(at(ports.0), at(ports.1));
        (s.seq, s.ack) = (SeqNumber(numbers.0), SeqNumber(numbers.1));
        s.flags = Flags(flags);
        s.window = 77;
        s.options.timestamps = Some(Timestamps { value: 1, echo: 2 });
        if !payload.is_empty() {
            s.payload = Payload::from(payload);
        }
        s
    }

    proptest! {
        #[test]
        fn headers_survive_encoding_and_parsing(id in 1u64.., kind in kinds(), padding in 0usize..50) {
            let header = EncapsulationHeader { id, kind };
            let mut out = Vec::new();
            header.encode(&mut out);
            if matches!(
                kind,
                EncapsulationKind::Data(_) | EncapsulationKind::Coded(_) | EncapsulationKind::Probe(_)
            ) {
                out.resize(out.len() + padding, 0);
            }
            prop_assert_eq!(EncapsulationHeader::parse(&out), Ok(header));
        }

        #[test]
        fn parsing_any_datagram_returns_a_value_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80),
            ours in any::<bool>(),
        ) {
            if ours && bytes.len() > 3 {
                (bytes[0], bytes[1]) = (ENCAPSULATION_VERSION, bytes[1] % 8);
                bytes[2..4].copy_from_slice(&MAGIC.to_be_bytes());
            }
            if let Ok(header) = EncapsulationHeader::parse(&bytes) {
                let mut out = Vec::new();
                header.encode(&mut out);
                prop_assert_eq!(&out[..], &bytes[..out.len()]);
            }
            let here = IpAddr::from([10, 0, 0, 1]);
            let _ = Packet::decapsulate((here, here), Ecn::NotEct, &bytes.into());
        }

        #[test]
        fn segments_survive_encapsulation(
            ports in any::<(u16, u16)>(), numbers in any::<(u32, u32)>(), flags in 0u16..512,
            payload in prop::collection::vec(any::<u8>(), 0..100), ecn in 0u8..4, id in 1u64..,
        ) {
            let mut s = segment(ports, numbers, flags & !Flags::SYN.0, payload);
            s.ecn = Ecn::from_bits(ecn);
            let mut out = Vec::new();
            s.encapsulate(id, &mut out).expect("it can be written");
            prop_assert_eq!(out.len(), s.encapsulated_len());
            prop_assert_eq!(&out[28..30], &[0, 0]);
            let header = EncapsulationHeader::parse(&out).expect("a header");
            prop_assert_eq!(header, EncapsulationHeader::data(id, s.ecn));
            let read = Packet::decapsulate((s.src.addr, s.dst.addr), s.ecn, &out.into());
            prop_assert_eq!(read, Ok(Packet::Tcp(s)));
        }
    }

    #[test]
    fn foreign_and_malformed_datagrams_are_refused_with_the_error_that_fits() {
        let mut ours = Vec::new();
        let kind = EncapsulationKind::Challenge(5);
        EncapsulationHeader { id: 9, kind }.encode(&mut ours);
        let broken = |change: fn(&mut Vec<u8>)| {
            let mut bytes = ours.clone();
            change(&mut bytes);
            EncapsulationHeader::parse(&bytes).expect_err("the datagram is invalid")
        };
        use EncapsulationError as E;
        assert_eq!(broken(|b| b[0] = 22), E::Version { found: 22 });
        assert_eq!(broken(|b| b[1] = 6), E::Type { found: 6 });
        assert_eq!(broken(|b| b[1] = 0x41), E::Type { found: 0x41 });
        assert_eq!(broken(|b| b[2] = 0), E::Magic { found: 0x70 });
        assert_eq!(broken(|b| b[4..12].fill(0)), E::ZeroId);
        let trailing = E::Trailing {
            expected: 20,
            found: 21,
        };
        assert_eq!(broken(|b| b.push(0)), trailing);
        assert!(matches!(
            broken(|b| b.truncate(19)),
            E::Truncated {
                needed: 20,
                found: 19,
                ..
            }
        ));
        assert!(matches!(
            broken(|b| b.truncate(11)),
            E::Truncated { needed: 12, .. }
        ));
    }

    #[test]
    fn decapsulated_ecn_follows_rfc_6040_figure_4() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let row = |inner| [NotEct, Ect0, Ect1, Ce].map(|outer| Ecn::decapsulated(inner, outer));
        // RFC 6040, figure 4, line by line.
        assert_eq!(
            row(NotEct),
            [Some(NotEct), Some(NotEct), Some(NotEct), None]
        );
        assert_eq!(row(Ect0), [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]);
        assert_eq!(row(Ect1), [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]);
        assert_eq!(row(Ce), [Some(Ce); 4]);
    }
}
