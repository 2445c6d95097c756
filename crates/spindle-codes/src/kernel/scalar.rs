//! The kernel that needs nothing of the processor, and the model for the others.

use crate::field::{self, WordSum};

/// `dst` += the sum of `c * src`; all are equally long.
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

/// `sum` += the products of constants and words. Inlined, so that it becomes what the caller's
/// processor features allow.
#[inline(always)]
pub(super) fn add_words(terms: &[(u8, u64)], sum: &mut WordSum) {
    let mut parts = *sum;
    for (c, word) in terms {
        parts.add(*c, *word);
    }
    *sum = parts;
}
