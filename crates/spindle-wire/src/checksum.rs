//! The Internet checksum (RFC 1071), summed piece by piece, and the DSS checksum of RFC 8684.

use crate::Payload;

/// The one's-complement sum of 16-bit words, added in slices of any length. After a slice of odd length the
/// next slice continues in the middle of a word, as if all slices were one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum {
    /// The sum; its carries are not yet folded in.
    sum: u64,
    /// Whether an odd number of bytes has been added.
    odd: bool,
}

impl Checksum {
    /// The sum of no bytes.
    pub const fn new() -> Self {
        Self { sum: 0, odd: false }
    }

    /// Adds bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        if self.odd
            && let Some((&first, rest)) = bytes.split_first()
        {
            self.accumulate(u64::from(first));
            self.odd = false;
            bytes = rest;
        }
        // 2^16 = 1 modulo 2^16 - 1, so 32-bit words may be added unchanged and folded later.
        let (words, tail) = bytes.as_chunks::<4>();
        let mut sum = 0u64;
        // 2^32 words of 32 bits fit in 64 bits; no packet is that long.
        for word in words {
            sum += u64::from(u32::from_be_bytes(*word));
        }
        self.accumulate(sum);
        let (pairs, last) = tail.as_chunks::<2>();
        for pair in pairs {
            self.accumulate(u64::from(u16::from_be_bytes(*pair)));
        }
        if let [last] = last {
            self.accumulate(u64::from(*last) << 8);
            self.odd = true;
        }
    }

    /// Adds `n` zero bytes without reading any.
    pub fn add_zeros(&mut self, n: usize) {
        self.odd ^= n % 2 == 1;
    }

    /// Completes a half-full word with a zero, so that the next byte starts a new word.
    pub fn pad(&mut self) {
        self.odd = false;
    }

    /// Adds a 16-bit word, most significant byte first.
    pub fn add_u16(&mut self, word: u16) {
        self.add(&word.to_be_bytes());
    }

    /// Adds a 32-bit word, most significant byte first.
    pub fn add_u32(&mut self, word: u32) {
        self.add(&word.to_be_bytes());
    }

    /// Adds a 64-bit word, most significant byte first.
    pub fn add_u64(&mut self, word: u64) {
        self.add(&word.to_be_bytes());
    }

    /// Adds the bytes of a payload; a [`Payload::Length`] adds zeros.
    pub fn add_payload(&mut self, payload: &Payload) {
        match payload {
            Payload::Bytes(b) => self.add(b),
            Payload::Length(n) => self.add_zeros(*n as usize),
        }
    }

    /// The folded sum, not complemented. Over data that contains its own valid checksum it is 0xffff.
    pub const fn sum(self) -> u16 {
        let mut s = self.sum;
        while s > 0xffff {
            s = (s & 0xffff) + (s >> 16);
        }
        s as u16
    }

    /// The checksum: the complement of the sum. A half-full last word is padded with a zero.
    pub const fn finish(self) -> u16 {
        !self.sum()
    }

    fn accumulate(&mut self, value: u64) {
        let (sum, carry) = self.sum.overflowing_add(value);
        self.sum = sum + u64::from(carry);
    }
}

/// Whether two checksums are equal. 0x0000 and 0xffff are the two zeros of one's complement.
pub const fn same_checksum(a: u16, b: u16) -> bool {
    a == b || (a == 0 && b == 0xffff) || (a == 0xffff && b == 0)
}

/// The checksum `old` after a 16-bit word of the summed data changed from `from` to `to`
/// (RFC 1624, equation 3).
pub const fn update_checksum(old: u16, from: u16, to: u16) -> u16 {
    let mut s = (!old) as u32 + (!from) as u32 + to as u32;
    while s > 0xffff {
        s = (s & 0xffff) + (s >> 16);
    }
    !(s as u16)
}

/// The DSS checksum (RFC 8684, section 3.3.1, figure 10). It covers a pseudo-header of the 64-bit DSN, the
/// relative subflow sequence number, the data-level length and two zero bytes, and then the mapped data. `len`
/// counts a DATA_FIN, which `payload` does not contain.
///
/// Compare with [`same_checksum`].
pub fn dss_checksum<'a>(
    dsn: u64,
    ssn: u32,
    len: u16,
    payload: impl IntoIterator<Item = &'a [u8]>,
) -> u16 {
    let mut sum = dss_pseudo_header(dsn, ssn, len);
    for piece in payload {
        sum.add(piece);
    }
    sum.finish()
}

/// Like [`dss_checksum`], but over [`Payload`]s. A [`Payload::Length`] counts as that many zero bytes.
pub fn dss_checksum_of<'a>(
    dsn: u64,
    ssn: u32,
    len: u16,
    payload: impl IntoIterator<Item = &'a Payload>,
) -> u16 {
    let mut sum = dss_pseudo_header(dsn, ssn, len);
    for piece in payload {
        sum.add_payload(piece);
    }
    sum.finish()
}

/// The initial sum of a DSS checksum, for data that is added piece by piece.
pub fn dss_pseudo_header(dsn: u64, ssn: u32, len: u16) -> Checksum {
    let mut sum = Checksum::new();
    sum.add_u64(dsn);
    sum.add_u32(ssn);
    sum.add_u16(len);
    sum
}
