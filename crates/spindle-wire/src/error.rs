//! What can be wrong with bytes that should be a packet, and with a segment that should be bytes.

use thiserror::Error;

/// Why bytes are no packet, segment or option list. Offsets count from the first byte of what was
/// handed to the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before `what` does.
    #[error("{what} at byte {offset} needs {needed} bytes, but only {found} are there")]
    Truncated {
        /// The header or field that does not fit.
        what: &'static str,
        /// Where it starts.
        offset: usize,
        /// How many bytes it takes.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// The IP version is neither 4 nor 6.
    #[error("IP version {found} at byte 0; expected 4 or 6")]
    Version {
        /// The version found.
        found: u8,
    },
    /// A length field says less than the header it belongs to.
    #[error("{what} at byte {offset} is {found}; expected at least {least}")]
    HeaderLength {
        /// The field.
        what: &'static str,
        /// Where it stands.
        offset: usize,
        /// Its value in bytes.
        found: usize,
        /// The least it may be.
        least: usize,
    },
    /// The packet carries another protocol, or an IPv6 extension header that cannot be skipped.
    #[error("protocol {found} at byte {offset}; expected {expected}")]
    Protocol {
        /// Where the protocol number stands.
        offset: usize,
        /// The number found.
        found: u8,
        /// The number expected.
        expected: u8,
    },
    /// The packet is a fragment; fragments are not put together here.
    #[error("a fragment (fields at byte {offset}); expected a whole packet")]
    Fragment {
        /// Where the fragmentation fields stand.
        offset: usize,
    },
    /// A checksum is wrong.
    #[error("{what} checksum at byte {offset} is {found:#06x}; expected {expected:#06x}")]
    Checksum {
        /// Whose checksum.
        what: &'static str,
        /// Where it stands.
        offset: usize,
        /// Its value.
        found: u16,
        /// What the bytes give.
        expected: u16,
    },
    /// An encoded packet of a unit that has fewer packets than segments, or not so many.
    #[error(
        "encoded packet {index} of {total} for {sources} segments, at byte {offset}; expected at least as many packets as segments, and an index below that"
    )]
    CodingUnit {
        /// Where the three numbers stand.
        offset: usize,
        /// Segments in the unit.
        sources: u8,
        /// Encoded packets.
        total: u8,
        /// Which of them it is.
        index: u8,
    },
    /// A TCP option whose length is below 2, or which runs past the header.
    #[error(
        "TCP option {kind} at byte {offset} has length {length}; expected 2 to {room} (the header's end)"
    )]
    OptionLength {
        /// Where the option starts.
        offset: usize,
        /// Its kind.
        kind: u8,
        /// Its length byte; 0 if the header ends before it.
        length: u8,
        /// The bytes from the option's start to the header's end.
        room: usize,
    },
}

impl ParseError {
    /// The same error with offsets counted from `base` bytes further ahead.
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
    /// The options exceed the option space; [`crate::Options::fit`] makes them fit.
    #[error("the options take {len} bytes; the TCP header has room for {max}")]
    OptionsTooLong {
        /// What they take.
        len: usize,
        /// What there is: 40 (RFC 9293, section 3.1).
        max: usize,
    },
    /// Header and payload exceed what the length field of the IP header holds.
    #[error("the packet would be {len} bytes; its length field holds at most {max}")]
    PacketTooLong {
        /// The length.
        len: usize,
        /// The most there may be.
        max: usize,
    },
    /// One address is IPv4, the other IPv6.
    #[error("source and destination are of different address families")]
    MixedFamilies,
    /// An experimental option of another kind than 253 or 254 (RFC 4727).
    #[error("experimental option of kind {kind}; expected 253 or 254")]
    ExperimentalKind {
        /// The kind.
        kind: u8,
    },
}
