//! The one operation everything rests on: `dst += c * src` over GF(256), byte by byte.

mod scalar;

/// A way to multiply and add packets. All give the same bytes on every input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Table look-ups in plain Rust; runs everywhere.
    Scalar,
}

impl Kernel {
    /// The fastest of those this processor has.
    pub fn best() -> Self {
        Self::Scalar
    }

    /// All that this processor has, the slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Scalar].into_iter()
    }

    /// Adds `c * src` to the first `src.len()` bytes of `dst`, in GF(256). What either slice has
    /// beyond the other's end is left alone.
    pub fn mul_add(self, c: u8, src: &[u8], dst: &mut [u8]) {
        let len = src.len().min(dst.len());
        let (src, dst) = (&src[..len], &mut dst[..len]);
        match self {
            Self::Scalar => scalar::mul_add(c, src, dst),
        }
    }
}
