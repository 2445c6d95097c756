//! The basic operation of all codes: `dst += c * src` over GF(256), byte by byte.

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;

use crate::field::WordSum;

/// The number of packets that one pass over the sum adds. With their tables they just fit in the sixteen vector
/// registers of AVX2.
pub(crate) const BATCH: usize = 4;

/// An implementation of multiplying and adding packets. All kernels give the same bytes for every input.
///
/// Values exist only for kernels that this processor supports.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Gfni,
}

impl Kernel {
    /// Table look-ups in plain Rust, available on every processor.
    pub const SCALAR: Self = Self(Kind::Scalar);

    /// Look-ups of nibbles, 32 bytes at a time. `None` without AVX2.
    pub fn avx2() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Some(Self(Kind::Avx2));
        }
        None
    }

    /// The processor's own bit matrices, 32 bytes at a time. `None` without GFNI and AVX2.
    pub fn gfni() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("gfni")
        {
            return Some(Self(Kind::Gfni));
        }
        None
    }

    /// The fastest kernel that this processor supports.
    pub fn best() -> Self {
        Self::gfni().or_else(Self::avx2).unwrap_or(Self::SCALAR)
    }

    /// All kernels that this processor supports, the slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [Some(Self::SCALAR), Self::avx2(), Self::gfni()]
            .into_iter()
            .flatten()
    }

    /// The kernel's name: `scalar`, `avx2` or `gfni`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Gfni => "gfni",
        }
    }

    /// Adds `c * src` to `dst` in GF(256), over the length of the shorter slice. The rest of `dst` does not
    /// change.
    pub fn mul_add(self, c: u8, src: &[u8], dst: &mut [u8]) {
        let len = src.len().min(dst.len());
        self.same_len([(c, &src[..len])], &mut dst[..len]);
    }

    /// Like [`mul_add`](Self::mul_add), but for several packets in one pass over `dst`.
    pub(crate) fn mul_add_batch<const N: usize>(self, terms: [(u8, &[u8]); N], dst: &mut [u8]) {
        let common = terms.iter().map(|(_, src)| src.len()).min().unwrap_or(0);
        let common = common.min(dst.len());
        let heads = terms.map(|(c, src)| (c, &src[..common]));
        self.same_len(heads, &mut dst[..common]);
        for (c, src) in terms {
            if src.len() > common {
                self.mul_add(c, &src[common..], &mut dst[common..]);
            }
        }
    }

    /// Adds the products of constants and words to `sum`.
    pub(crate) fn add_words(self, terms: &[(u8, u64)], sum: &mut WordSum) {
        match self.0 {
            Kind::Scalar => scalar::add_words(terms, sum),
            // SAFETY: kernels of these kinds are created only if AVX2 was detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 | Kind::Gfni => unsafe { x86::add_words(terms, sum) },
        }
    }

    /// `dst` += the sum of `c * src`; all slices have the same length.
    fn same_len<const N: usize>(self, terms: [(u8, &[u8]); N], dst: &mut [u8]) {
        match self.0 {
            Kind::Scalar => scalar::mul_add(terms, dst),
            // SAFETY: a kernel of this kind is created only if AVX2 was detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { x86::mul_add_avx2(terms, dst) },
            // SAFETY: a kernel of this kind is created only if AVX2 and GFNI were detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Gfni => unsafe { x86::mul_add_gfni(terms, dst) },
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::gf_mul;
    use proptest::prelude::*;

    /// The definition of `mul_add`, one byte at a time.
    fn model(c: u8, src: &[u8], dst: &mut [u8]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d ^= gf_mul(c, *s);
        }
    }

    /// Bytes without a pattern that could hide a shift or an off-by-one error.
    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn mul_add_matches_the_model_for_every_coefficient_and_byte() {
        let src: Vec<u8> = (0..=255).collect();
        for kernel in Kernel::available() {
            for c in 0..=255 {
                let (mut expected, mut found) = (bytes(1, 256), bytes(1, 256));
                model(c, &src, &mut expected);
                kernel.mul_add(c, &src, &mut found);
                assert_eq!(found, expected, "{kernel:?}, {c}");
            }
        }
    }

    #[test]
    fn mul_add_matches_the_model_for_every_length_to_2000() {
        for kernel in Kernel::available() {
            for len in 0..=2000 {
                let c = [0, 1, 2, 0x8e, 0xff][len % 5];
                let src = bytes(len as u64, len);
                let (mut expected, mut found) = (bytes(9, len), bytes(9, len));
                model(c, &src, &mut expected);
                kernel.mul_add(c, &src, &mut found);
                assert_eq!(found, expected, "{kernel:?}, {c} on {len} bytes");
            }
        }
    }

    #[test]
    fn mul_add_matches_the_model_at_every_alignment() {
        // Lengths around multiples of a vector's 32 bytes, with every misalignment of source and destination.
        let (src, dst) = (bytes(3, 300), bytes(4, 300));
        for kernel in Kernel::available() {
            for from in 0..32 {
                for to in 0..32 {
                    for len in [0, 1, 7, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 130] {
                        let c = [1, 0, 0x53][(from + to + len) % 3];
                        let (mut expected, mut found) = (dst.clone(), dst.clone());
                        model(c, &src[from..][..len], &mut expected[to..][..len]);
                        kernel.mul_add(c, &src[from..][..len], &mut found[to..][..len]);
                        assert_eq!(found, expected, "{kernel:?}, {len} from {from} to {to}");
                    }
                }
            }
        }
    }

    #[test]
    fn add_words_matches_the_model_for_every_kernel() {
        let words: Vec<u64> = bytes(5, 8 * 256)
            .chunks_exact(8)
            .map(|b| b.iter().fold(0, |word, b| word << 8 | u64::from(*b)))
            .collect();
        for n in 0..=words.len() {
            let terms: Vec<_> = words[..n]
                .iter()
                .enumerate()
                .map(|(i, w)| (i as u8, *w))
                .collect();
            let sums = Kernel::available().map(|kernel| {
                let mut sum = WordSum::default();
                kernel.add_words(&terms, &mut sum);
                sum.total()
            });
            let expected = terms.iter().fold(0, |sum, (c, word)| {
                sum ^ u64::from_be_bytes(word.to_be_bytes().map(|b| gf_mul(*c, b)))
            });
            assert!(sums.into_iter().all(|sum| sum == expected), "{n} words");
        }
    }

    proptest! {
        #[test]
        fn mul_add_batch_matches_the_model_for_unequal_packets(
            cs in prop::array::uniform4(prop_oneof![Just(0), Just(1), any::<u8>()]),
            lens in prop::array::uniform4(prop_oneof![0usize..100, 0usize..2000]),
            width in 0usize..2000, skip in 0usize..40,
        ) {
            let packets = [0, 1, 2, 3].map(|i| bytes(i as u64, lens[i] + skip));
            let terms = [0, 1, 2, 3].map(|i| (cs[i], &packets[i][skip..]));
            let mut expected = bytes(7, width);
            for (c, src) in terms {
                model(c, src, &mut expected);
            }
            for kernel in Kernel::available() {
                let mut found = bytes(7, width);
                kernel.mul_add_batch(terms, &mut found);
                prop_assert_eq!(&found, &expected, "{:?}", kernel);
                let mut found = bytes(7, width);
                let [a, b, c, d] = terms;
                kernel.mul_add_batch([a, b, c], &mut found);
                kernel.mul_add_batch([d], &mut found);
                prop_assert_eq!(&found, &expected, "{:?} in threes", kernel);
                let mut found = bytes(7, width);
                for (c, src) in terms {
                    kernel.mul_add(c, src, &mut found);
                }
                prop_assert_eq!(&found, &expected, "{:?} one by one", kernel);
            }
        }
    }
}
