//! Reed-Solomon over GF(256): any K of the K + M symbols of a block restore its K packets.

use crate::code::{ErasureCode, Limits, Shape};
use crate::error::CodeError;
use crate::field::gf_inv;
use crate::kernel::Kernel;
use crate::tracker::Tracker;

/// A systematic Reed-Solomon code whose parity 0 is the XOR of the packets.
///
/// The coefficients of parity 0 are 1. Parity `i > 0` has the coefficient `1 / (x_i + y_j)` for packet `j`,
/// with `y_j = j` and `x_i = 256 - i`, which are all different as long as `K + M <= 257`. These are the rows of
/// a Cauchy matrix, preceded by the row of `x = infinity`. Every square part of such a matrix can be inverted
/// (its determinant is a Cauchy determinant times `x`, as `x` grows), so any K symbols suffice.
///
/// A coefficient depends on neither K nor M. A window may therefore grow, and more parities can be made of it
/// than originally planned.
///
/// The code also makes units whose packets are not sent, of shape (k, n) with k + n at most 257: for example 85
/// packets with as many redundant ones, or 128 packets with one. [`Ideal`](crate::Ideal) allows larger units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReedSolomon {
    kernel: Kernel,
    max_sources: usize,
    max_parities: usize,
}

impl ReedSolomon {
    /// The largest number of packets and parities of a block together: the number of different coordinates in
    /// GF(256) with infinity.
    pub const MAX_TOTAL: usize = 257;

    /// The code with the fastest kernel of this processor.
    pub fn new() -> Self {
        Self::with_kernel(Kernel::best())
    }

    /// The code with the given kernel.
    pub const fn with_kernel(kernel: Kernel) -> Self {
        Self {
            kernel,
            max_sources: Self::MAX_TOTAL - 1,
            max_parities: Self::MAX_TOTAL - 1,
        }
    }

    /// The same code for blocks of at most this many packets (1 to 256) and parities (1 to 256). The limits
    /// bound what a peer can request. Values out of range become the nearest end of the range.
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
        // The sum is 0 only outside of every block within the limits.
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
