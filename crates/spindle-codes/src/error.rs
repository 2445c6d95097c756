//! What can be wrong with a block and with what is said to belong to it.

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
        /// The packets of the block asked for.
        sources: usize,
        /// Its parities.
        parities: usize,
        /// The most packets of a block.
        max_sources: usize,
        /// The most parities of a block.
        max_parities: usize,
        /// The most of both together.
        max_total: usize,
    },
    /// The number of packets given is not the block's.
    #[error("{found} packets given for a block of {expected}")]
    SourceCount {
        /// How many were given.
        found: usize,
        /// How many the block has.
        expected: usize,
    },
    /// There is no parity of this index in the block.
    #[error("parity index {found} in a block whose parities are 0..{parities}")]
    ParityIndex {
        /// The index found.
        found: usize,
        /// How many parities the block has.
        parities: usize,
    },
    /// The same parity is given twice.
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
        /// The greatest length in bytes.
        max: usize,
    },
    /// More packets are missing than the parities at hand can give back. Not a fault: more
    /// parities or packets may still come.
    #[error("{missing} packets missing of which {parities} parities cannot tell all")]
    Undecodable {
        /// How many packets are missing.
        missing: usize,
        /// How many parities are there.
        parities: usize,
    },
    /// Packets and parities cannot be of one block: what they say disagrees.
    #[error("packets and parities contradict each other: {0}")]
    Contradiction(Contradiction),
}

/// How packets and parities of a block disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// Two parities have different lengths, though each is as long as the block's longest packet.
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
    /// A decoded packet says it is longer than the parities.
    #[error("decoded packet {index} would have {found} bytes, more than the {width} of a parity")]
    DecodedLength {
        /// The packet's index in the block.
        index: usize,
        /// The length decoded, in bytes.
        found: usize,
        /// The length of the parities in bytes.
        width: usize,
    },
    /// A decoded packet is followed by bytes that are not zero, as padding would be.
    #[error("decoded packet {index} of {len} bytes is followed by something else than zeros")]
    Padding {
        /// The packet's index in the block.
        index: usize,
        /// The length decoded, in bytes.
        len: usize,
    },
    /// No packet of the block is as long as the parities are.
    #[error("the longest packet of the block has {longest} bytes, the parities have {width}")]
    Width {
        /// The longest packet's length in bytes.
        longest: usize,
        /// The length of the parities in bytes.
        width: usize,
    },
}

impl CodeError {
    /// Whether packets and parities disagree, so that a peer errs or lies (or a path corrupts).
    pub fn is_contradiction(&self) -> bool {
        matches!(self, Self::Contradiction(_))
    }
}

impl From<Contradiction> for CodeError {
    fn from(contradiction: Contradiction) -> Self {
        Self::Contradiction(contradiction)
    }
}
