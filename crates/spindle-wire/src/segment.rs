//! [`Segment`]: a TCP segment with its addresses.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use crate::{Ecn, Endpoint, Options, Payload, SeqNumber};

/// The control bits of the TCP header (RFC 9293, section 3.1), with AE of RFC 9768 as ninth.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Accurate ECN (RFC 9768, section 3.1), formerly the nonce sum bit.
    pub const AE: Self = Self(0x100);

    /// Whether every bit of `other` is set in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set in `self`.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, o: Self) -> Self {
        Self(self.0 | o.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, o: Self) {
        self.0 |= o.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 9] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE"];
        let mut first = true;
        for (i, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << i) != 0 {
                if !first {
                    f.write_str("|")?;
                }
                f.write_str(name)?;
                first = false;
            }
        }
        if first { f.write_str("-") } else { Ok(()) }
    }
}

/// A TCP segment together with the addresses and the ECN field of the IP packet that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Who sends it.
    pub src: Endpoint,
    /// Who is to receive it.
    pub dst: Endpoint,
    /// Sequence number of the first payload byte (of the SYN, if SYN is set).
    pub seq: SeqNumber,
    /// Next sequence number expected from the peer; meaningful with [`Flags::ACK`].
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: Flags,
    /// The window field as it stands in the header, not scaled.
    pub window: u16,
    /// The urgent pointer; meaningful with [`Flags::URG`].
    pub urgent: u16,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The TCP options.
    pub options: Options,
    /// The data.
    pub payload: Payload,
}

impl Segment {
    /// An empty segment without options from `src` to `dst`.
    pub fn new(src: Endpoint, dst: Endpoint) -> Self {
        Self {
            src,
            dst,
            seq: SeqNumber(0),
            ack: SeqNumber(0),
            flags: Flags::NONE,
            window: 0,
            urgent: 0,
            ecn: Ecn::NotEct,
            options: Options::default(),
            payload: Payload::EMPTY,
        }
    }

    /// The space the segment takes in sequence numbers: payload bytes, one for SYN, one for FIN
    /// (RFC 9293, SEG.LEN).
    pub fn seq_len(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags.contains(Flags::SYN))
            + u32::from(self.flags.contains(Flags::FIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_stays_small() {
        let size = size_of::<Segment>();
        assert!(size <= 208, "{size} bytes");
    }

    #[test]
    fn flags_are_named() {
        assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "SYN|ACK");
        assert_eq!(format!("{:?}", Flags::AE | Flags::CWR), "CWR|AE");
        assert_eq!(format!("{:?}", Flags::NONE), "-");
    }
}
