//! The kernels for AVX2 and GFNI: 32 bytes at a time.
//!
//! Multiplication by a constant is linear over GF(2). AVX2 looks up the products of a byte's two nibbles in two
//! tables of 16 entries (`vpshufb`). GFNI multiplies each byte by the constant's 8 x 8 bit matrix
//! (`vgf2p8affineqb`). Unlike GFNI's own product, this works for any field polynomial.

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi8,
    _mm256_set1_epi64x, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256,
};

use super::scalar;
use crate::field::{WordSum, bit_matrix, nibble_products};

/// The number of bytes in a vector.
const LANES: usize = 32;

/// 32 zeros, then 32 ones. The 32 bytes from `n` on are a mask that keeps a vector's last `n` bytes.
static KEEP_LAST: [u8; 2 * LANES] = {
    let mut mask = [0; 2 * LANES];
    let mut i = LANES;
    while i < 2 * LANES {
        mask[i] = 0xff;
        i += 1;
    }
    mask
};

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; LANES]) -> __m256i {
    // SAFETY: the array has the 32 bytes that are read; the instruction requires no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; LANES], vector: __m256i) {
    // SAFETY: the array has the 32 bytes that are written; the instruction requires no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

/// A pass over `dst` that adds `N` products at a time. `$table` converts a constant into the table with which
/// `$multiply` multiplies a vector.
macro_rules! pass {
    ($name:ident, $features:literal, $table:ident, $multiply:ident) => {
        /// `dst` += the sum of `c * src`; all slices have the same length, at least 32 bytes.
        #[target_feature(enable = $features)]
        fn $name<const N: usize>(terms: [(u8, &[u8]); N], dst: &mut [u8]) {
            let tables = terms.map(|(c, _)| $table(c));
            let ends = terms.map(|(_, src)| src.last_chunk::<LANES>());
            let (whole, rest) = dst.as_chunks_mut::<LANES>();
            let tail = rest.len();
            let sources = terms.map(|(_, src)| &src.as_chunks::<LANES>().0[..whole.len()]);
            for (block, out) in whole.iter_mut().enumerate() {
                let mut sum = load(out);
                for i in 0..N {
                    sum = _mm256_xor_si256(sum, $multiply(load(&sources[i][block]), tables[i]));
                }
                store(out, sum);
            }
            // The remainder: the last 32 bytes, of which the bytes that are already done count as zeros.
            let Some(out) = dst.last_chunk_mut::<LANES>().filter(|_| tail > 0) else {
                return;
            };
            let Some(keep) = KEEP_LAST[tail..].first_chunk::<LANES>() else {
                return;
            };
            let keep = load(keep);
            let mut sum = load(out);
            for i in 0..N {
                let Some(end) = ends[i] else { continue };
                let last = _mm256_and_si256(load(end), keep);
                sum = _mm256_xor_si256(sum, $multiply(last, tables[i]));
            }
            store(out, sum);
        }
    };
}

pass!(xor, "avx2", no_table, identity);
pass!(multiply_avx2, "avx2", nibble_tables, shuffle);
pass!(multiply_gfni, "avx2,gfni", affine_table, affine);

#[inline]
#[target_feature(enable = "avx2")]
fn no_table(_: u8) {}

#[inline]
#[target_feature(enable = "avx2")]
fn identity(x: __m256i, (): ()) -> __m256i {
    x
}

#[inline]
#[target_feature(enable = "avx2")]
fn nibble_tables(c: u8) -> (__m256i, __m256i) {
    let (low, high) = nibble_products(c);
    (load(low), load(high))
}

#[inline]
#[target_feature(enable = "avx2")]
fn shuffle(x: __m256i, (low, high): (__m256i, __m256i)) -> __m256i {
    let nibble = _mm256_set1_epi8(0x0f);
    let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(x, nibble));
    let x = _mm256_srli_epi64::<4>(x);
    let of_high = _mm256_shuffle_epi8(high, _mm256_and_si256(x, nibble));
    _mm256_xor_si256(of_low, of_high)
}

#[inline]
#[target_feature(enable = "avx2,gfni")]
fn affine_table(c: u8) -> __m256i {
    _mm256_set1_epi64x(bit_matrix(c).cast_signed())
}

#[inline]
#[target_feature(enable = "avx2,gfni")]
fn affine(x: __m256i, matrix: __m256i) -> __m256i {
    _mm256_gf2p8affine_epi64_epi8::<0>(x, matrix)
}

/// `dst` += the sum of `c * src`; all slices have the same length.
#[target_feature(enable = "avx2")]
pub(super) fn mul_add_avx2<const N: usize>(terms: [(u8, &[u8]); N], dst: &mut [u8]) {
    if dst.len() < LANES {
        scalar::mul_add(terms, dst);
    } else if terms.iter().all(|(c, _)| *c == 1) {
        xor(terms, dst);
    } else {
        multiply_avx2(terms, dst);
    }
}

/// `dst` += the sum of `c * src`; all slices have the same length.
#[target_feature(enable = "avx2,gfni")]
pub(super) fn mul_add_gfni<const N: usize>(terms: [(u8, &[u8]); N], dst: &mut [u8]) {
    if dst.len() < LANES {
        scalar::mul_add(terms, dst);
    } else if terms.iter().all(|(c, _)| *c == 1) {
        xor(terms, dst);
    } else {
        multiply_gfni(terms, dst);
    }
}

/// `sum` += the products of constants and words, with its eight parts in two vectors.
#[target_feature(enable = "avx2")]
pub(super) fn add_words(terms: &[(u8, u64)], sum: &mut WordSum) {
    scalar::add_words(terms, sum);
}
