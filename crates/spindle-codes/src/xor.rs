//! The XOR of packets: one parity, which repairs one loss.

use crate::code::{ErasureCode, Limits, Shape};
use crate::error::CodeError;
use crate::kernel::Kernel;
use crate::tracker::Tracker;

/// One parity, the XOR of all packets. The authors of CoFUSO built this code into the kernel (CoFUSO
/// section 5.2), and it is the coded packet of TCP-IR. It equals parity 0 of
/// [`ReedSolomon`](crate::ReedSolomon), but blocks may have more packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Xor {
    kernel: Kernel,
}

impl Xor {
    /// The largest number of packets in a block, so that counts and indices fit in 16 bits.
    pub const MAX_SOURCES: usize = u16::MAX as usize;

    /// The code with the fastest kernel of this processor.
    pub fn new() -> Self {
        Self::with_kernel(Kernel::best())
    }

    /// The code with the given kernel.
    pub const fn with_kernel(kernel: Kernel) -> Self {
        Self { kernel }
    }
}

impl Default for Xor {
    fn default() -> Self {
        Self::new()
    }
}

impl ErasureCode for Xor {
    fn name(&self) -> &'static str {
        "xor"
    }

    fn limits(&self) -> Limits {
        Limits {
            max_sources: Self::MAX_SOURCES,
            max_parities: 1,
            max_total: Self::MAX_SOURCES + 1,
        }
    }

    fn kernel(&self) -> Kernel {
        self.kernel
    }

    fn coefficient(&self, _: Shape, _: usize, _: usize) -> u8 {
        1
    }

    fn tracker(&self, shape: Shape) -> Result<Tracker, CodeError> {
        self.limits().check(shape)?;
        Ok(Tracker::counting(shape))
    }
}
