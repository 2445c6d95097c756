//! 32-bit sequence numbers that wrap.

use std::ops::{Add, Sub};

/// A TCP sequence number (RFC 9293, section 3.4): 32 bits, compared modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// The signed distance from `other` to `self`, correct while the two are less than 2^31 apart.
    pub const fn distance(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether `self` comes strictly before `other`.
    pub const fn before(self, other: Self) -> bool {
        self.distance(other) < 0
    }
}

impl Add<u32> for SeqNumber {
    type Output = Self;
    fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

impl Sub<u32> for SeqNumber {
    type Output = Self;
    fn sub(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}
