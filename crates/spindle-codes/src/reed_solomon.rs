//! Reed-Solomon over GF(256): any K of the K + M symbols of a block give back its K packets.

use crate::code::{ErasureCode, Limits, Shape};
use crate::error::CodeError;
use crate::field::gf_inv;
use crate::kernel::Kernel;
use crate::tracker::Tracker;

/// A systematic Reed-Solomon code whose parity 0 is the XOR of the packets.
///
/// Parity 0 has coefficients 1, parity `i > 0` has `1 / (x_i + y_j)` for packet `j`, with `y_j = j`
/// and `x_i = 256 - i`, which differ as long as `K + M <= 257`. These are the rows of a Cauchy matrix
/// and, on top, that of `x = infinity`; every square part of such a matrix can be inverted (its
/// determinant is a Cauchy determinant times `x`, as `x` grows), so any K symbols suffice.
///
/// A coefficient depends on neither K nor M: a window may grow, and more parities be made of it than
/// was thought at first.
///
/// It also makes units whose packets are not sent, of shape (k, n) with k + n at most 257: 85 packets
/// with as much redundancy again, or 128 with one parity. [`Ideal`](crate::Ideal) goes further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReedSolomon {
    kernel: Kernel,
    max_sources: usize,
    max_parities: usize,
}

impl ReedSolomon {
    /// The most packets and parities of a block together: as many as there are different
    /// coordinates in GF(256) with infinity.
    pub const MAX_TOTAL: usize = 257;

    /// The code, with the fastest kernel this processor has.
    pub fn new() -> Self {
        Self::with_kernel(Kernel::best())
    }

    /// The code, with a kernel of one's choice.
    pub const fn with_kernel(kernel: Kernel) -> Self {
        Self {
            kernel,
            max_sources: Self::MAX_TOTAL - 1,
            max_parities: Self::MAX_TOTAL - 1,
        }
    }

    /// The same code for blocks of at most this many packets (1 to 256) and parities (1 to 256)
    /// only, which bounds what a peer can ask for. What is out of range is brought into it.
    #[must_use]
    pub fn limited(self, max_sources: usize, max_parities: usize) -> Self {
        Self {
            kernel: self.kernel,
            max_sources: max_sources.clamp(1, Self::MAX_TOTAL - 1),
            max_parities: max_parities.clamp(1, Self::MAX_TOTAL - 1),
        }
    }
}

impl Default for ReedSolomon {
    fn default() -> Self {
        Self::new()
    }
}

impl ErasureCode for ReedSolomon {
    fn name(&self) -> &'static str {
        "reed-solomon"
    }

    fn limits(&self) -> Limits {
        Limits {
            max_sources: self.max_sources,
            max_parities: self.max_parities,
            max_total: Self::MAX_TOTAL.min(self.max_sources + self.max_parities),
        }
    }

    fn kernel(&self) -> Kernel {
        self.kernel
    }

    fn coefficient(&self, _: Shape, parity: usize, source: usize) -> u8 {
        if parity == 0 {
            return 1;
        }
        // The sum is 0 only outside of any block within the limits.
        let x = (Self::MAX_TOTAL - 1).wrapping_sub(parity) as u8;
        gf_inv(x ^ source as u8).unwrap_or(0)
    }

    fn decodable(&self, shape: Shape, missing: &[usize], parities: &[usize]) -> bool {
        missing.is_empty()
            || (missing.len() <= parities.len()
                && self.limits().check(shape).is_ok()
                && missing.iter().all(|m| *m < shape.sources)
                && parities.iter().all(|p| *p < shape.parities))
    }

    fn tracker(&self, shape: Shape) -> Result<Tracker, CodeError> {
        self.limits().check(shape)?;
        Ok(Tracker::counting(shape))
    }
}
