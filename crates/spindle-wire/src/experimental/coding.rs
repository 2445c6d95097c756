//! The options of packet coding (CAPS section IV; `docs/wire/coding.md`).

use super::{ExperimentId, padded_len};
use crate::{Experimental, Options};

/// What an option of packet coding carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodingOption {
    /// The number of a code, on a SYN, a SYN/ACK and the segments that confirm the agreement.
    Code(u8),
    /// On acknowledgements: when an encoded packet was sent, in microseconds of its sender's clock modulo
    /// [`CODING_CLOCK`](crate::CODING_CLOCK).
    Echo(u32),
}

impl CodingOption {
    /// The most bytes that such an option takes, padded.
    pub const MAX_LEN: usize = padded_len(3);

    /// The option as it is sent.
    pub fn to_option(self) -> Experimental {
        let data = match self {
            Self::Code(number) => vec![number],
            Self::Echo(time) => time.to_be_bytes()[1..].to_vec(),
        };
        Experimental::of(ExperimentId::Coding, data)
    }

    /// Reads the data of an option. `None` if it has another length.
    pub fn parse(data: &[u8]) -> Option<Self> {
        match *data {
            [number] => Some(Self::Code(number)),
            [a, b, c] => Some(Self::Echo(u32::from_be_bytes([0, a, b, c]))),
            _ => None,
        }
    }

    /// The first such option of a segment.
    pub fn of(options: &Options) -> Option<Self> {
        Self::parse(options.experiment(ExperimentId::Coding)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coding_option_is_read_as_it_was_written() {
        for option in [CodingOption::Code(4), CodingOption::Echo(0x00ab_cdef)] {
            let mut options = Options::default();
            options.add_experiment(option.to_option());
            assert_eq!(CodingOption::of(&options), Some(option));
            assert!(options.encoded_len() <= CodingOption::MAX_LEN);
        }
        assert_eq!(CodingOption::parse(&[1, 2]), None);
    }
}
