//! The options of parities (TCP Instant Recovery, FUSO section 5.1; CoFUSO section 5.1; `docs/wire/parities.md`).
//!
//! The first byte of an option's data is the type of the message.

use super::{ExperimentId, padded_len};
use crate::{Experimental, Options};

const OFFER: u8 = 0;
const PARITY: u8 = 1;
const ECHO: u8 = 2;
const OFFER_BLOCKS: u8 = 3;
const NAME: u8 = 4;
const BLOCK: u8 = 5;

/// The flag of [`ParityOption::OfferBlocks`] for early joins.
const EARLY_JOINS: u8 = 1;

/// What an option of parities carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityOption {
    /// Offers parities outside sequence space on a SYN of plain TCP, and accepts them on the SYN/ACK.
    Offer,
    /// Marks a segment as the parity of a run of segments. Its payload is their XOR.
    Parity {
        /// The number of segments.
        count: u8,
        /// Low 32 bits of the position of the run's first byte.
        first: u32,
        /// Bytes of the run.
        span: u32,
        /// The XOR of the segments' lengths.
        lengths: u16,
    },
    /// Answers such a parity on an acknowledgement.
    Echo {
        /// What became of the run.
        outcome: ParityOutcome,
        /// Low 32 bits of the position behind the run.
        end: u32,
    },
    /// Offers parities of blocks next to MP_CAPABLE, and accepts them on the SYN/ACK.
    OfferBlocks {
        /// Offers, and on the SYN/ACK accepts, joins that may arrive before the third ACK and its keys.
        early_joins: bool,
    },
    /// On a joining SYN: the identifier by which parities refer to the subflow.
    Name(u8),
    /// Marks a segment's payload as that of a block's parity.
    Block {
        /// Low 32 bits of the position of the parity's first byte on the subflow that carries it.
        start: u32,
        /// Payload bytes of the parity.
        len: u16,
    },
}

/// What became of a run of segments at the receiver of its parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityOutcome {
    /// No packet was missing.
    Complete,
    /// One packet was missing and has been decoded.
    Repaired,
    /// More packets were missing, or the missing packet could not be decoded.
    Failed,
}

impl ParityOutcome {
    const ALL: [Self; 3] = [Self::Complete, Self::Repaired, Self::Failed];

    const fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Repaired => 1,
            Self::Failed => 2,
        }
    }
}

impl ParityOption {
    /// Bytes of [`Self::Parity`], padded.
    pub const PARITY_LEN: usize = padded_len(12);

    /// The option as it is sent.
    pub fn to_option(self) -> Experimental {
        let data = match self {
            Self::Offer => vec![OFFER],
            Self::OfferBlocks { early_joins: false } => vec![OFFER_BLOCKS],
            Self::OfferBlocks { early_joins: true } => vec![OFFER_BLOCKS, EARLY_JOINS],
            Self::Name(name) => vec![NAME, name],
            Self::Parity {
                count,
                first,
                span,
                lengths,
            } => [
                &[PARITY, count][..],
                &first.to_be_bytes(),
                &span.to_be_bytes(),
                &lengths.to_be_bytes(),
            ]
            .concat(),
            Self::Echo { outcome, end } => {
                [&[ECHO, outcome.code()][..], &end.to_be_bytes()].concat()
            }
            Self::Block { start, len } => {
                [&[BLOCK][..], &start.to_be_bytes(), &len.to_be_bytes()].concat()
            }
        };
        Experimental::of(ExperimentId::Parity, data)
    }

    /// Reads the data of an option. `None` if the type is unknown or the length is wrong.
    pub fn parse(data: &[u8]) -> Option<Self> {
        Some(match *data {
            [OFFER] => Self::Offer,
            [OFFER_BLOCKS] => Self::OfferBlocks { early_joins: false },
            [OFFER_BLOCKS, EARLY_JOINS] => Self::OfferBlocks { early_joins: true },
            [NAME, name] => Self::Name(name),
            [PARITY, count, a, b, c, d, e, f, g, h, i, j] => Self::Parity {
                count,
                first: u32::from_be_bytes([a, b, c, d]),
                span: u32::from_be_bytes([e, f, g, h]),
                lengths: u16::from_be_bytes([i, j]),
            },
            [ECHO, outcome, a, b, c, d] => Self::Echo {
                outcome: ParityOutcome::ALL
                    .into_iter()
                    .find(|o| o.code() == outcome)?,
                end: u32::from_be_bytes([a, b, c, d]),
            },
            [BLOCK, a, b, c, d, e, f] => Self::Block {
                start: u32::from_be_bytes([a, b, c, d]),
                len: u16::from_be_bytes([e, f]),
            },
            _ => return None,
        })
    }

    /// The first such option of a segment.
    pub fn of(options: &Options) -> Option<Self> {
        Self::parse(options.experiment(ExperimentId::Parity)?)
    }
}

/// The coding header in front of a block's parity (CoFUSO section 5.1, figure 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityHeader {
    /// SF_ID: the protected subflow, by the identifier that both ends know.
    pub name: u8,
    /// S_SN: low 32 bits of the position of the block's first byte.
    pub first: u32,
    /// E_SN: low 32 bits of the position of the first byte after the block.
    pub end: u32,
    /// K, the segments of the block.
    pub sources: u8,
    /// M, its parities.
    pub parities: u8,
    /// P_Index, the parity's number within the block.
    pub index: u8,
    /// L_CODED, the combination of the segments' lengths.
    pub coded_len: u32,
    /// D_SN, the combination of the segments' data sequence numbers.
    pub coded_dsn: u32,
}

impl ParityHeader {
    /// Bytes of the header.
    pub const LEN: usize = 20;

    /// The header as it is sent.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0] = self.name;
        out[1..5].copy_from_slice(&self.first.to_be_bytes());
        out[5..9].copy_from_slice(&self.end.to_be_bytes());
        out[9..12].copy_from_slice(&[self.sources, self.parities, self.index]);
        out[12..16].copy_from_slice(&self.coded_len.to_be_bytes());
        out[16..20].copy_from_slice(&self.coded_dsn.to_be_bytes());
        out
    }

    /// Reads a header. Every value of the bytes is one.
    pub fn from_bytes(b: [u8; Self::LEN]) -> Self {
        let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        Self {
            name: b[0],
            first: word(1),
            end: word(5),
            sources: b[9],
            parities: b[10],
            index: b[11],
            coded_len: word(12),
            coded_dsn: word(16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn option() -> impl Strategy<Value = ParityOption> {
        let outcome = (0..3usize).prop_map(|i| ParityOutcome::ALL[i]);
        prop_oneof![
            Just(ParityOption::Offer),
            any::<bool>().prop_map(|early_joins| ParityOption::OfferBlocks { early_joins }),
            any::<u8>().prop_map(ParityOption::Name),
            any::<(u8, u32, u32, u16)>().prop_map(|(count, first, span, lengths)| {
                ParityOption::Parity {
                    count,
                    first,
                    span,
                    lengths,
                }
            }),
            (outcome, any::<u32>()).prop_map(|(outcome, end)| ParityOption::Echo { outcome, end }),
            any::<(u32, u16)>().prop_map(|(start, len)| ParityOption::Block { start, len }),
        ]
    }

    proptest! {
        #[test]
        fn parity_option_is_read_as_it_was_written(option in option()) {
            let mut options = Options::default();
            options.add_experiment(option.to_option());
            prop_assert_eq!(ParityOption::of(&options), Some(option));
            prop_assert!(options.encoded_len() <= ParityOption::PARITY_LEN);
        }

        #[test]
        fn arbitrary_option_data_are_refused_or_written_as_they_were_read(data in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(option) = ParityOption::parse(&data) {
                prop_assert_eq!(option.to_option().data, data);
            }
        }

        #[test]
        fn parity_header_is_read_as_it_was_written(bytes in any::<[u8; ParityHeader::LEN]>()) {
            prop_assert_eq!(ParityHeader::from_bytes(bytes).to_bytes(), bytes);
        }
    }

    #[test]
    fn parity_header_has_the_layout_of_figure_7() {
        let header = ParityHeader {
            name: 1,
            first: 0x0203_0405,
            end: 0x0607_0809,
            sources: 10,
            parities: 11,
            index: 12,
            coded_len: 0x0d0e_0f10,
            coded_dsn: 0x1112_1314,
        };
        let bytes: Vec<u8> = (1..=20).collect();
        assert_eq!(header.to_bytes(), bytes[..]);
    }
}
