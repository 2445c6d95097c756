//! The errors of encoding and decoding a block.

use thiserror::Error;

/// Why a block cannot be encoded or decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodeError {
    /// The code has no blocks of this shape.
    #[error(
        "a block of {sources} packets and {parities} parities; expected 1..={max_sources} packets, \
         1..={max_parities} parities and at most {max_total} together"
    )]
    Shape {
        /// The number of packets in the requested block.
        sources: usize,
        /// The number of its parities.
        parities: usize,
        /// The largest number of packets in a block.
        max_sources: usize,
        /// The largest number of parities in a block.
        max_parities: usize,
        /// The largest number of packets and parities together.
        max_total: usize,
    },
    /// The number of packets in the call differs from that of the block.
    #[error("{found} packets given for a block of {expected}")]
    SourceCount {
        /// The number of packets in the call.
        found: usize,
        /// The number of packets in the block.
        expected: usize,
    },
    /// The block has no parity with this index.
    #[error("parity index {found} in a block whose parities are 0..{parities}")]
    ParityIndex {
        /// The index that was found.
        found: usize,
        /// The number of parities in the block.
        parities: usize,
    },
    /// The call contains the same parity twice.
    #[error("parity {index} given twice; expected each at most once")]
    DuplicateParity {
        /// Its index.
        index: usize,
    },
    /// A packet or parity is longer than [`MAX_SYMBOL_LEN`](crate::MAX_SYMBOL_LEN).
    #[error("a symbol of {found} bytes; expected at most {max}")]
    TooLong {
        /// Its length in bytes.
        found: usize,
        /// The largest length in bytes.
        max: usize,
    },
    /// More packets are missing than the available parities can restore. This is not a fault, because more
    /// parities or packets may still arrive.
    #[error("{missing} packets missing of which {parities} parities cannot tell all")]
    Undecodable {
        /// The number of missing packets.
        missing: usize,
        /// The number of available parities.
        parities: usize,
    },
    /// Packets and parities contradict each other, so they cannot belong to one block.
    #[error("packets and parities contradict each other: {0}")]
    Contradiction(Contradiction),
}

/// How packets and parities of a block disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// Two parities have different lengths. All parities of a block are as long as its longest packet.
    #[error("parity {index} has {found} bytes, another {expected}")]
    ParityLength {
        /// The index of the parity that differs.
        index: usize,
        /// Its length in bytes.
        found: usize,
        /// The length of the first parity in bytes.
        expected: usize,
    },
    /// A packet that arrived is longer than the parities.
    #[error("packet {index} has {found} bytes, more than the {width} of a parity")]
    SourceLength {
        /// The packet's index in the block.
        index: usize,
        /// Its length in bytes.
        found: usize,
        /// The length of the parities in bytes.
        width: usize,
    },
    /// The label of a decoded packet states a length above that of the parities.
    #[error("decoded packet {index} would have {found} bytes, more than the {width} of a parity")]
    DecodedLength {
        /// The packet's index in the block.
        index: usize,
        /// The length decoded, in bytes.
        found: usize,
        /// The length of the parities in bytes.
        width: usize,
    },
    /// A decoded packet is followed by bytes other than the zeros of padding.
    #[error("decoded packet {index} of {len} bytes is followed by something else than zeros")]
    Padding {
        /// The packet's index in the block.
        index: usize,
        /// The length decoded, in bytes.
        len: usize,
    },
    /// No packet of the block is as long as its parities.
    #[error("the longest packet of the block has {longest} bytes, the parities have {width}")]
    Width {
        /// The length of the longest packet in bytes.
        longest: usize,
        /// The length of the parities in bytes.
        width: usize,
    },
}

impl CodeError {
    /// Whether packets and parities contradict each other. Then a peer has erred or lied, or a path has
    /// corrupted data.
    pub fn is_contradiction(&self) -> bool {
        matches!(self, Self::Contradiction(_))
    }
}

impl From<Contradiction> for CodeError {
    fn from(contradiction: Contradiction) -> Self {
        Self::Contradiction(contradiction)
    }
}
