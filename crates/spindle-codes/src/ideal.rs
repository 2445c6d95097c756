//! A code of which any k encoded packets will do.

use crate::code::{ErasureCode, Limits, Shape};
use crate::error::CodeError;
use crate::field::power_of_2;
use crate::kernel::Kernel;
use crate::matrix::eliminate;
use crate::tracker::Tracker;

/// The code that CAPS' analysis assumes: any k of a unit's n encoded packets give back its k packets,
/// none of which is sent itself (CAPS section VI, "approximated as k").
///
/// Its units have shape (k, n), all packets missing. It is *ideal* in that its overhead is 0, and a
/// simulation may count: [`tracker`](ErasureCode::tracker) does no more. It is no idealisation of
/// what can be computed: it is Reed-Solomon with coefficients 2^(i j) for packet j in encoded
/// packet i, a Vandermonde matrix, any k rows of which can be inverted. What it leaves out is time:
/// encoding costs k multiplications of a packet for each encoded packet, decoding k for each
/// packet, while [`Ldpc`](crate::Ldpc) adds a few.
///
/// Known packets are used by [`decode`](ErasureCode::decode) all the same, but fewer encoded
/// packets than k may then not suffice although with the known ones they are k; a tracker does not
/// count packets. Where packets are sent as they are, [`ReedSolomon`](crate::ReedSolomon) is what
/// counting is exact for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ideal {
    kernel: Kernel,
}

impl Ideal {
    /// The code, with the fastest kernel this processor has.
    pub fn new() -> Self {
        Self::with_kernel(Kernel::best())
    }

    /// The code, with a kernel of one's choice.
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
