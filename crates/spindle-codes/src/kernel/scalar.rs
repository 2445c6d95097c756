//! The portable kernel, which is also the model for the others.

use crate::field::{self, WordSum};

/// `dst` += the sum of `c * src`; all slices have the same length.
pub(super) fn mul_add<const N: usize>(terms: [(u8, &[u8]); N], dst: &mut [u8]) {
    for (c, src) in terms {
        match c {
            0 => {}
            1 => xor(src, dst),
            _ => multiply(c, src, dst),
        }
    }
}

fn multiply(c: u8, src: &[u8], dst: &mut [u8]) {
    let products = field::products(c);
    for (d, s) in dst.iter_mut().zip(src) {
        *d ^= products[*s as usize];
    }
}

fn xor(src: &[u8], dst: &mut [u8]) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d ^= s;
    }
}

/// `sum` += the products of constants and words. The function is inlined, so that it is compiled for the
/// processor features of its caller.
#[inline(always)]
pub(super) fn add_words(terms: &[(u8, u64)], sum: &mut WordSum) {
    let mut parts = *sum;
    for (c, word) in terms {
        parts.add(*c, *word);
    }
    *sum = parts;
}
