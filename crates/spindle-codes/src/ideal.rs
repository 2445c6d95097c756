//! A code with which any k encoded packets are enough.

use crate::code::{ErasureCode, Limits, Shape};
use crate::error::CodeError;
use crate::field::power_of_2;
use crate::kernel::Kernel;
use crate::matrix::eliminate;
use crate::tracker::Tracker;

/// The code that CAPS's analysis assumes: any k of a unit's n encoded packets restore its k packets, none of
/// which is sent itself (CAPS section VI, "approximated as k").
///
/// Its units have shape (k, n), with all packets missing. The code is *ideal* because its overhead is 0. A
/// simulation can therefore simply count encoded packets, and [`tracker`](ErasureCode::tracker) does only that.
/// The code can also be computed: it is Reed-Solomon with coefficients 2^(i j) for packet j in encoded packet
/// i, a Vandermonde matrix of which any k rows can be inverted. A simulation that counts leaves out the
/// computing time: encoding costs k multiplications of a packet for each encoded packet, and decoding k for
/// each packet, while [`Ldpc`](crate::Ldpc) adds a few packets.
///
/// [`decode`](ErasureCode::decode) also uses known packets. However, k known and encoded packets together are
/// not always enough, so a tracker does not count known packets. If packets are sent unchanged, use
/// [`ReedSolomon`](crate::ReedSolomon), for which counting is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ideal {
    kernel: Kernel,
}

impl Ideal {
    /// The code with the fastest kernel of this processor.
    pub fn new() -> Self {
        Self::with_kernel(Kernel::best())
    }

    /// The code with the given kernel.
    pub const fn with_kernel(kernel: Kernel) -> Self {
        Self { kernel }
    }
}

impl Default for Ideal {
    fn default() -> Self {
        Self::new()
    }
}

impl ErasureCode for Ideal {
    fn name(&self) -> &'static str {
        "ideal"
    }

    fn limits(&self) -> Limits {
        Limits::UNIT
    }

    fn kernel(&self) -> Kernel {
        self.kernel
    }

    fn coefficient(&self, _: Shape, parity: usize, source: usize) -> u8 {
        power_of_2(parity * source)
    }

    fn decodable(&self, shape: Shape, missing: &[usize], parities: &[usize]) -> bool {
        if missing.is_empty() {
            return true;
        }
        let within = missing.len() <= parities.len()
            && self.limits().check(shape).is_ok()
            && missing.iter().all(|m| *m < shape.sources)
            && parities.iter().all(|p| *p < shape.parities);
        let tells_all = || {
            eliminate(parities.len(), missing.len(), |row, column| {
                self.coefficient(shape, parities[row], missing[column])
            })
        };
        within && (missing.len() == shape.sources || tells_all().is_some())
    }

    fn tracker(&self, shape: Shape) -> Result<Tracker, CodeError> {
        self.limits().check(shape)?;
        Ok(Tracker::counting_parities(shape))
    }
}
