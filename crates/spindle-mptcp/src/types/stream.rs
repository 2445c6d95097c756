//! The two kinds of byte numbers of a Multipath TCP stack, and the difference between them.
//!
//! [`DataOffset`] counts the bytes of the connection's data stream, [`SubflowPosition`] the sequence space of one
//! subflow. Both are 64 bits wide. The conversions to and from the numbers of the wire are in this file.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use spindle_wire::SeqNumber;

/// Defines a number that counts bytes from the beginning of a stream. Numbers of different streams cannot be
/// mixed. A length is a `u64`.
macro_rules! stream_number {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The largest number.
            pub const MAX: Self = Self(u64::MAX);

            /// Bytes from `earlier` to this number. 0 if `earlier` is not before it.
            #[inline]
            pub const fn saturating_since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }

            /// The number `bytes` before this one. `None` if there are fewer bytes before it.
            #[inline]
            pub fn checked_sub(self, bytes: u64) -> Option<Self> {
                self.0.checked_sub(bytes).map(Self)
            }

            /// The number `bytes` before this one, or 0 if there are fewer bytes before it.
            #[inline]
            pub const fn saturating_sub(self, bytes: u64) -> Self {
                Self(self.0.saturating_sub(bytes))
            }
        }

        impl Add<u64> for $name {
            type Output = Self;
            #[inline]
            fn add(self, bytes: u64) -> Self {
                Self(self.0 + bytes)
            }
        }

        impl AddAssign<u64> for $name {
            #[inline]
            fn add_assign(&mut self, bytes: u64) {
                self.0 += bytes;
            }
        }

        impl Sub<u64> for $name {
            type Output = Self;
            #[inline]
            fn sub(self, bytes: u64) -> Self {
                Self(self.0 - bytes)
            }
        }

        /// Bytes from the right-hand number to the left-hand one.
        impl Sub for $name {
            type Output = u64;
            #[inline]
            fn sub(self, earlier: Self) -> u64 {
                self.0 - earlier.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        /// Only the number. The debug form of a configuration is part of the identity of results.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

stream_number! {
    /// A data offset: bytes from the beginning of the data stream of a connection, in one direction. The first
    /// byte of the application has offset 0, and the DATA_FIN follows the last byte. It becomes a data sequence
    /// number (RFC 8684, section 3.3) only on the wire.
    DataOffset
}

stream_number! {
    /// A position: bytes from the initial sequence number of a subflow, in one direction. The SYN has position 0
    /// and the first byte position 1. It becomes a sequence number (RFC 9293, section 3.4) only on the wire.
    SubflowPosition
}

impl DataOffset {
    /// The beginning of the stream.
    pub const START: Self = Self(0);

    /// Bytes of the stream before this offset.
    #[inline]
    pub const fn since_start(self) -> u64 {
        self.0
    }

    /// The data sequence number of this offset. The first byte of the stream has the number `first`.
    #[inline]
    pub(crate) const fn sequence_number(self, first: u64) -> u64 {
        first.wrapping_add(self.0)
    }

    /// The offset of a data sequence number. The first byte of the stream has the number `first`. A number
    /// before `first` wraps.
    #[inline]
    pub(crate) const fn of_sequence_number(number: u64, first: u64) -> Self {
        Self(number.wrapping_sub(first))
    }

    /// The offset `bytes` later. `None` if it exceeds 64 bits.
    #[inline]
    pub(crate) fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }

    /// The signed number of bytes from `other` to this offset, modulo 2^64.
    #[inline]
    pub(crate) const fn distance(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }
}

impl SubflowPosition {
    /// The position of the SYN.
    pub const SYN: Self = Self(0);

    /// The position of the first byte of payload.
    pub const FIRST_BYTE: Self = Self(1);

    /// The sequence number of this position relative to the ISN, as in a DSS option (RFC 8684, section 3.3.1).
    #[inline]
    pub(crate) const fn relative_number(self) -> u32 {
        self.0 as u32
    }

    /// The position nearest to this one that has the relative sequence number `number`. It is negative if it
    /// lies before the SYN.
    #[inline]
    pub(crate) const fn nearest(self, number: u32) -> i64 {
        self.0 as i64 + number.wrapping_sub(self.0 as u32) as i32 as i64
    }

    /// The position nearest to this one that has the relative sequence number `number`. `None` if it lies before
    /// the first byte of payload.
    #[inline]
    pub(crate) fn nearest_byte(self, number: u32) -> Option<Self> {
        let nearest = Self::from_signed(self.nearest(number));
        nearest.filter(|p| *p >= Self::FIRST_BYTE)
    }

    /// The sequence number of this position. The SYN has the number `isn`.
    #[inline]
    pub(crate) fn sequence_number(self, isn: SeqNumber) -> SeqNumber {
        isn + self.relative_number()
    }

    /// The position nearest to this one that has the sequence number `seq`. The SYN has the number `isn`. The
    /// position is negative if it lies before the SYN.
    #[inline]
    pub(crate) const fn nearest_of(self, seq: SeqNumber, isn: SeqNumber) -> i64 {
        self.nearest(seq.distance(isn) as u32)
    }

    /// The position as a signed number, for comparisons with positions that may lie before the SYN.
    #[inline]
    pub(crate) const fn signed(self) -> i64 {
        self.0 as i64
    }

    /// The position with a signed number. `None` if the number lies before the SYN.
    #[inline]
    pub(crate) fn from_signed(position: i64) -> Option<Self> {
        u64::try_from(position).ok().map(Self)
    }

    /// Like [`Self::from_signed`], but a number before the SYN wraps.
    #[inline]
    pub(crate) const fn wrapping_from_signed(position: i64) -> Self {
        Self(position as u64)
    }
}

/// The data offset of a byte minus its position, modulo 2^64. It is the same for all bytes of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappingDelta(u64);

impl MappingDelta {
    /// Of a subflow that carries the data stream from its first byte on, as in plain TCP.
    pub(crate) const WHOLE_STREAM: Self =
        Self::between(DataOffset::START, SubflowPosition::FIRST_BYTE);

    /// Of a byte that has this offset and this position.
    #[inline]
    pub(crate) const fn between(offset: DataOffset, position: SubflowPosition) -> Self {
        Self(offset.0.wrapping_sub(position.0))
    }

    /// The data offset of the byte at `position`.
    #[inline]
    pub(crate) const fn offset_of(self, position: SubflowPosition) -> DataOffset {
        DataOffset(position.0.wrapping_add(self.0))
    }

    /// The position of the byte with this data offset.
    #[inline]
    pub(crate) const fn position_of(self, offset: DataOffset) -> SubflowPosition {
        SubflowPosition(offset.0.wrapping_sub(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_without_their_type() {
        let (offset, position) = (DataOffset(7), SubflowPosition(8));
        assert_eq!(
            (
                format!("{offset} {offset:?}"),
                format!("{position} {position:?}")
            ),
            ("7 7".into(), "8 8".into())
        );
    }

    #[test]
    fn difference_of_two_numbers_is_a_length() {
        let from = DataOffset(10);
        let to = from + 5;
        assert_eq!((to - from, to - 5), (5, from));
        assert_eq!(
            (to.saturating_since(from), from.saturating_since(to)),
            (5, 0)
        );
        assert_eq!(from.saturating_sub(11), DataOffset::START);
        assert_eq!((to.distance(from), from.distance(to)), (5, -5));
    }

    #[test]
    fn data_sequence_numbers_wrap() {
        let first = u64::MAX - 1;
        assert_eq!(DataOffset(3).sequence_number(first), 1);
        assert_eq!(DataOffset::of_sequence_number(1, first), DataOffset(3));
    }

    #[test]
    fn sequence_number_is_expanded_to_the_nearest_position() {
        let (isn, at) = (SeqNumber(u32::MAX - 9), SubflowPosition((1 << 32) + 30));
        assert_eq!(at.sequence_number(isn), SeqNumber(20));
        assert_eq!(at.nearest_of(SeqNumber(19), isn), (at - 1).signed());
        assert_eq!(at.nearest_of(SeqNumber(21), isn), (at + 1).signed());
        assert_eq!(SubflowPosition::SYN.nearest_of(isn - 1, isn), -1);
    }

    #[test]
    fn relative_number_is_expanded_to_the_nearest_position() {
        let at = SubflowPosition((3 << 32) + 5);
        assert_eq!(at.relative_number(), 5);
        assert_eq!(at.nearest(4), (at - 1).signed());
        assert_eq!(at.nearest(u32::MAX), (at - 6).signed());
        assert_eq!(at.nearest(1 << 30), (at + (1 << 30) - 5).signed());
        let first = SubflowPosition::FIRST_BYTE;
        assert_eq!(first.nearest(u32::MAX), -1);
        assert_eq!([u32::MAX, 0].map(|n| first.nearest_byte(n)), [None; 2]);
        assert_eq!(first.nearest_byte(7), Some(SubflowPosition(7)));
    }

    #[test]
    fn delta_converts_in_both_directions_and_wraps() {
        let (offset, position) = (DataOffset(1000), SubflowPosition(50));
        for delta in [
            MappingDelta::between(offset, position),
            MappingDelta::between(DataOffset(50), SubflowPosition(1000)),
        ] {
            assert_eq!(delta.position_of(delta.offset_of(position)), position);
        }
        let whole = MappingDelta::WHOLE_STREAM;
        assert_eq!(whole.offset_of(SubflowPosition(1)), DataOffset::START);
        assert_eq!(whole.position_of(DataOffset(99)), SubflowPosition(100));
    }
}
