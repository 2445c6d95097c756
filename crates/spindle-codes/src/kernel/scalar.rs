//! The kernel that needs nothing of the processor, and the model for the others.

use crate::field;

/// `dst += c * src`; both are equally long.
pub(super) fn mul_add(c: u8, src: &[u8], dst: &mut [u8]) {
    match c {
        0 => {}
        1 => xor(src, dst),
        _ => {
            let products = field::products(c);
            for (d, s) in dst.iter_mut().zip(src) {
                *d ^= products[*s as usize];
            }
        }
    }
}

/// `dst += src`; both are equally long.
fn xor(src: &[u8], dst: &mut [u8]) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d ^= s;
    }
}
