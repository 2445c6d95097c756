//! The option of packet scatter (MMPTCP section 2; `docs/wire/scatter.md`).

use super::{ExperimentId, padded_len};
use crate::{Experimental, Options};

/// Offers scatter on a SYN and accepts it on a SYN/ACK. The option has no data there. On other segments an
/// option of this experiment carries the four bytes of [`Options::token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterOption;

impl ScatterOption {
    /// Bytes of the option that carries a token, padded.
    pub const TOKEN_LEN: usize = padded_len(4);

    /// The option as it is sent.
    pub const fn to_option(self) -> Experimental {
        Experimental::of(ExperimentId::Scatter, Vec::new())
    }

    /// Whether `options` contain it.
    pub fn is_in(options: &Options) -> bool {
        let offer = |e: &Experimental| e.id() == Some(ExperimentId::Scatter) && e.data.is_empty();
        let rare = options.rare.as_ref();
        rare.is_some_and(|r| r.experimental.iter().any(offer))
    }
}
