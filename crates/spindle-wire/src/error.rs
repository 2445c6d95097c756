//! The errors of parsing packets and of writing segments.

use thiserror::Error;

/// Why bytes are not a valid packet, segment or option list. Offsets count from the first byte that was given
/// to the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before `what` does.
    #[error("{what} at byte {offset} needs {needed} bytes, but only {found} are there")]
    Truncated {
        /// The header or field that does not fit.
        what: &'static str,
        /// The offset at which it starts.
        offset: usize,
        /// The number of bytes it takes.
        needed: usize,
        /// The number of bytes that are left.
        found: usize,
    },
    /// The IP version is neither 4 nor 6.
    #[error("IP version {found} at byte 0; expected 4 or 6")]
    Version {
        /// The version found.
        found: u8,
    },
    /// A length field states less than the length of its header.
    #[error("{what} at byte {offset} is {found}; expected at least {least}")]
    HeaderLength {
        /// The field.
        what: &'static str,
        /// The offset of the field.
        offset: usize,
        /// Its value in bytes.
        found: usize,
        /// The smallest allowed value.
        least: usize,
    },
    /// The packet contains another protocol, or an IPv6 extension header that cannot be skipped.
    #[error("protocol {found} at byte {offset}; expected {expected}")]
    Protocol {
        /// The offset of the protocol number.
        offset: usize,
        /// The number found.
        found: u8,
        /// The number expected.
        expected: u8,
    },
    /// The packet is a fragment. This crate does not reassemble fragments.
    #[error("a fragment (fields at byte {offset}); expected a whole packet")]
    Fragment {
        /// The offset of the fragmentation fields.
        offset: usize,
    },
    /// A checksum is wrong.
    #[error("{what} checksum at byte {offset} is {found:#06x}; expected {expected:#06x}")]
    Checksum {
        /// The header whose checksum is wrong.
        what: &'static str,
        /// The offset of the checksum.
        offset: usize,
        /// The value in the packet.
        found: u16,
        /// The value computed from the bytes.
        expected: u16,
    },
    /// An encoded packet whose unit has fewer packets than segments, or whose index is not below the number of
    /// packets.
    #[error(
        "encoded packet {index} of {total} for {sources} segments, at byte {offset}; expected at least as many packets as segments, and an index below that"
    )]
    CodingUnit {
        /// The offset of the three numbers.
        offset: usize,
        /// The number of segments in the unit.
        sources: u8,
        /// The number of encoded packets in the unit.
        total: u8,
        /// The index of this packet.
        index: u8,
    },
    /// The length of a TCP option is below 2 or exceeds the rest of the header.
    #[error(
        "TCP option {kind} at byte {offset} has length {length}; expected 2 to {room} (the header's end)"
    )]
    OptionLength {
        /// The offset at which the option starts.
        offset: usize,
        /// The option's kind.
        kind: u8,
        /// The option's length byte, or 0 if the header ends before it.
        length: u8,
        /// The number of bytes from the option's start to the header's end.
        room: usize,
    },
}

impl ParseError {
    /// The same error with offsets that count from a point `base` bytes earlier.
    pub(crate) fn shifted(mut self, base: usize) -> Self {
        match &mut self {
            Self::Version { .. } => {}
            Self::Truncated { offset, .. }
            | Self::HeaderLength { offset, .. }
            | Self::Protocol { offset, .. }
            | Self::Fragment { offset }
            | Self::Checksum { offset, .. }
            | Self::CodingUnit { offset, .. }
            | Self::OptionLength { offset, .. } => *offset += base,
        }
        self
    }
}

/// Why a segment or datagram cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The options are longer than the option space. [`crate::Options::fit`] makes them fit.
    #[error("the options take {len} bytes; the TCP header has room for {max}")]
    OptionsTooLong {
        /// The length of the options in bytes.
        len: usize,
        /// The option space in bytes: 40 (RFC 9293, section 3.1).
        max: usize,
    },
    /// Header and payload are longer than the length field of the IP header can express.
    #[error("the packet would be {len} bytes; its length field holds at most {max}")]
    PacketTooLong {
        /// The length in bytes.
        len: usize,
        /// The largest possible length in bytes.
        max: usize,
    },
    /// One address is IPv4, the other IPv6.
    #[error("source and destination are of different address families")]
    MixedFamilies,
    /// An experimental option has a kind other than 253 or 254 (RFC 4727).
    #[error("experimental option of kind {kind}; expected 253 or 254")]
    ExperimentalKind {
        /// The kind.
        kind: u8,
    },
}
