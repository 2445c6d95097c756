//! GF(256), the field of all codes in this crate.
//!
//! An element is a byte; addition is XOR. The field polynomial is x^8 + x^4 + x^3 + x^2 + 1, that of
//! Reed-Solomon erasure coding over GF(2^8) (RFC 5510, section 8.1). Its root 2 generates the multiplicative
//! group.

/// The field polynomial without its x^8 (RFC 5510, section 8.1).
const POLYNOMIAL: u8 = 0x1d;

/// `a * b`, computed bit by bit. The tables are built with it.
const fn slow_mul(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = (a << 1) ^ if a & 0x80 != 0 { POLYNOMIAL } else { 0 };
        b >>= 1;
    }
    product
}

/// The powers of 2: `EXP[i] = 2^i`. The table contains them twice, so that a sum of two logarithms needs no
/// reduction.
static EXP: [u8; 512] = {
    let mut table = [0; 512];
    let mut power = 1;
    let mut i = 0;
    while i < 512 {
        table[i] = power;
        power = slow_mul(power, 2);
        i += 1;
    }
    table
};

/// `EXP[LOG[a]] = a` for every `a` except 0, which has no logarithm.
static LOG: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// `INVERSES[a] * a = 1` for every `a` except 0.
static INVERSES: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = EXP[255 - i];
        i += 1;
    }
    table
};

/// Every product: `PRODUCTS[a][b] = a * b`. One row is the table for multiplying a packet by a constant.
static PRODUCTS: [[u8; 256]; 256] = {
    let mut table = [[0; 256]; 256];
    let mut a = 1;
    while a < 256 {
        let mut b = 1;
        while b < 256 {
            table[a][b] = EXP[LOG[a] as usize + LOG[b] as usize];
            b += 1;
        }
        a += 1;
    }
    table
};

/// The products of `a` with every element, indexed by that element.
pub(crate) fn products(a: u8) -> &'static [u8; 256] {
    &PRODUCTS[a as usize]
}

/// For every `a`, its products with the 16 low nibbles and with the 16 high ones. Each table is stored twice to
/// fill a vector of 32 bytes.
#[cfg(target_arch = "x86_64")]
static NIBBLES: [([u8; 32], [u8; 32]); 256] = {
    let mut tables = [([0; 32], [0; 32]); 256];
    let mut a = 0;
    while a < 256 {
        let mut nibble = 0;
        while nibble < 32 {
            let b = nibble as u8 & 0x0f;
            tables[a].0[nibble] = slow_mul(a as u8, b);
            tables[a].1[nibble] = slow_mul(a as u8, b << 4);
            nibble += 1;
        }
        a += 1;
    }
    tables
};

/// For every `a`, the bit matrix of `b -> a * b`. Byte `7 - i` selects the bits of `b` whose sum is bit `i` of
/// the product (Intel SDM, GF2P8AFFINEQB).
#[cfg(target_arch = "x86_64")]
static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut a = 0;
    while a < 256 {
        let mut column = 0;
        while column < 8 {
            let product = slow_mul(a as u8, 1 << column);
            let mut i = 0;
            while i < 8 {
                let bit = (product >> i & 1) as u64;
                matrices[a] |= bit << (8 * (7 - i) + column);
                i += 1;
            }
            column += 1;
        }
        a += 1;
    }
    matrices
};

/// The products of `a` with `0..16` and with `0..16` times 16, each table twice.
#[cfg(target_arch = "x86_64")]
pub(crate) fn nibble_products(a: u8) -> (&'static [u8; 32], &'static [u8; 32]) {
    let (low, high) = &NIBBLES[a as usize];
    (low, high)
}

/// The bit matrix of the multiplication by `a`, in the form that GFNI uses.
#[cfg(target_arch = "x86_64")]
pub(crate) fn bit_matrix(a: u8) -> u64 {
    MATRICES[a as usize]
}

/// `a * b` in GF(256).
///
/// ```
/// assert_eq!(spindle_codes::gf_mul(2, 0x80), 0x1d);
/// ```
#[inline]
pub fn gf_mul(a: u8, b: u8) -> u8 {
    // Uses logarithms: their tables stay in the cache next to the packets, while the table of all products does
    // not.
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// 2 to the power of `exponent`; the powers repeat after 255.
pub(crate) fn power_of_2(exponent: usize) -> u8 {
    EXP[exponent % 255]
}

/// The element with `a * gf_inv(a) = 1`, or `None` for 0, which has no inverse.
#[inline]
pub fn gf_inv(a: u8) -> Option<u8> {
    (a != 0).then(|| INVERSES[a as usize])
}

/// A sum of products of a constant with the eight bytes of a word, stored in eight parts. Part `i` is the sum
/// of the words whose constant has bit `i` set, and it counts `2^i` times.
///
/// No word is therefore multiplied before the end, and adding a term is eight independent masked additions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WordSum([u64; 8]);

impl WordSum {
    /// Adds `a * word`.
    #[inline(always)]
    pub(crate) fn add(&mut self, a: u8, word: u64) {
        for (bit, part) in self.0.iter_mut().enumerate() {
            *part ^= word & (u64::from(a) >> bit & 1).wrapping_neg();
        }
    }

    /// Returns the sum.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().rev().fold(0, |sum, part| double(sum) ^ part)
    }
}

/// Each of the eight bytes of `word` times 2.
fn double(word: u64) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    ((word & !HIGH) << 1) ^ ((word & HIGH) / 0x80 * u64::from(POLYNOMIAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplication_and_inverse_satisfy_the_field_axioms() {
        for a in 0..=255u8 {
            assert_eq!(gf_mul(a, 1), a);
            assert_eq!(gf_mul(a, 0), 0);
            assert_eq!(gf_inv(a).map(|i| gf_mul(a, i)), (a != 0).then_some(1));
            for b in 0..=255 {
                assert_eq!(gf_mul(a, b), slow_mul(a, b));
                assert_eq!(gf_mul(a, b), gf_mul(b, a));
                assert_eq!(gf_mul(a, b ^ 0x53), gf_mul(a, b) ^ gf_mul(a, 0x53));
            }
        }
    }

    #[test]
    fn two_generates_every_element_but_zero() {
        let mut seen = [false; 256];
        for power in &EXP[..255] {
            assert!(!std::mem::replace(&mut seen[*power as usize], true));
        }
        assert!(!seen[0]);
    }

    #[test]
    fn words_are_multiplied_byte_by_byte() {
        let words = [0x0102_0408_1020_4080u64, 0xffee_8081_7f01_00c3];
        for a in 0..=255 {
            let mut sum = WordSum::default();
            sum.add(a, words[0]);
            sum.add(a ^ 0x5a, words[1]);
            let [x, y] = words.map(u64::to_be_bytes);
            let expected: Vec<u8> = x
                .iter()
                .zip(y)
                .map(|(x, y)| slow_mul(a, *x) ^ slow_mul(a ^ 0x5a, y))
                .collect();
            assert_eq!(sum.total().to_be_bytes()[..], expected);
        }
    }
}
