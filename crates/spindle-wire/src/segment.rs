//! [`Segment`]: a TCP segment with its addresses.

use std::fmt;
use std::net::Ipv4Addr;
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

/// A TCP segment together with the addresses, the class and the ECN field of the IP packet that carries it.
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
    /// The differentiated services code point of the IP header, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// The TCP options.
    pub options: Options,
    /// The data.
    pub payload: Payload,
    /// Payload bytes of each segment into which whoever puts this one on the wire is to cut it
    /// (segmentation offload; [`Segment::pieces`] does it in software); 0: it is not to be cut. Not
    /// a field of the wire: what is read has 0 here.
    pub segment_size: u16,
}

impl Segment {
    /// A segment from nowhere to nowhere, for a place that a segment will be put in.
    pub fn blank() -> Self {
        let nowhere = Endpoint::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        Self::new(nowhere, nowhere)
    }

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
            dscp: 0,
            options: Options::default(),
            payload: Payload::EMPTY,
            segment_size: 0,
        }
    }

    /// Whether it is to be cut into several segments.
    pub fn is_burst(&self) -> bool {
        self.segment_size > 0 && self.payload.len() > usize::from(self.segment_size)
    }

    /// How many segments it is to be cut into: one at least.
    #[inline]
    pub fn piece_count(&self) -> u32 {
        if self.is_burst() {
            self.payload.len().div_ceil(usize::from(self.segment_size)) as u32
        } else {
            1
        }
    }

    /// The segments it is to be cut into: one after the other in sequence space, every option on
    /// each, FIN and PSH on the last only, CWR on the first only (as segmentation offload does).
    pub fn pieces(self) -> impl Iterator<Item = Self> {
        let len = self.payload.len();
        let size = if self.is_burst() {
            usize::from(self.segment_size)
        } else {
            len.max(1)
        };
        let count = self.piece_count() as usize;
        (0..count).map(move |k| {
            let at = k * size;
            let mut piece = self.clone();
            piece.segment_size = 0;
            if count > 1 {
                piece.seq = self.seq + at as u32;
                piece.payload = self.payload.slice(at, size.min(len - at));
            }
            if k + 1 < count {
                piece.flags.0 &= !(Flags::FIN.0 | Flags::PSH.0);
            }
            if k > 0 {
                piece.flags.0 &= !Flags::CWR.0;
            }
            piece
        })
    }

    /// The first `N` bytes of the payload, where they are known: real ones, or those that a mere length
    /// has in front ([`crate::RareOptions::payload_head`]).
    pub fn payload_head<const N: usize>(&self) -> Option<[u8; N]> {
        match &self.payload {
            Payload::Bytes(b) => b.first_chunk().copied(),
            Payload::Length(n) => {
                let head = &self.options.rare.as_ref()?.payload_head;
                head.first_chunk().copied().filter(|_| *n as usize >= N)
            }
        }
    }

    /// The payload with its head in real bytes, if it is a mere length that has one.
    pub(crate) fn headed_payload(&self) -> Option<Payload> {
        let head = &self.options.rare.as_ref()?.payload_head;
        let Payload::Length(len) = self.payload else {
            return None;
        };
        let mut bytes = head.clone();
        bytes.resize(len as usize, 0);
        (!head.is_empty()).then(|| Payload::from(bytes))
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
        assert!(size <= 216, "{size} bytes");
    }

    #[test]
    fn a_burst_is_cut_into_segments_that_follow_each_other() {
        let here = Endpoint::new(std::net::IpAddr::from([10, 0, 0, 1]), 1);
        let mut burst = Segment::new(here, here);
        burst.seq = SeqNumber(u32::MAX - 500);
        burst.flags = Flags::ACK | Flags::PSH | Flags::FIN | Flags::CWR;
        burst.payload = Payload::from((0..250u8).cycle().take(2500).collect::<Vec<_>>());
        burst.segment_size = 1000;
        let pieces: Vec<_> = burst.clone().pieces().collect();
        let outline: Vec<_> = pieces
            .iter()
            .map(|p| (p.seq, p.flags, p.payload.len()))
            .collect();
        assert_eq!(
            outline,
            [
                (burst.seq, Flags::ACK | Flags::CWR, 1000),
                (burst.seq + 1000, Flags::ACK, 1000),
                (burst.seq + 2000, Flags::ACK | Flags::PSH | Flags::FIN, 500)
            ]
        );
        let whole: Vec<u8> = pieces.iter().flat_map(|p| p.payload.to_bytes()).collect();
        assert_eq!(whole, burst.payload.to_bytes());
        burst.segment_size = 0;
        assert_eq!(burst.clone().pieces().collect::<Vec<_>>(), [burst]);
    }

    #[test]
    fn a_length_may_have_real_bytes_in_front() {
        let here = Endpoint::new(std::net::IpAddr::from([10, 0, 0, 1]), 1);
        let mut seg = Segment::new(here, here);
        seg.payload = Payload::Length(100);
        assert_eq!(seg.payload_head::<3>(), None);
        seg.options.rare_mut().payload_head = vec![1, 2, 3];
        assert_eq!(seg.payload_head(), Some([1, 2, 3]));
        assert_eq!(seg.payload_head::<4>(), None);
        let packet = seg.to_packet(&crate::IpFields::default()).unwrap();
        let read = Segment::from_ip(&packet.into(), crate::Checksums::Verify).unwrap();
        assert_eq!(read.payload_head(), Some([1, 2, 3, 0]));
        assert_eq!(read.payload.len(), 100);
        assert_eq!(read.options.rare, None);
        seg.payload = Payload::Length(2);
        assert_eq!(seg.payload_head::<3>(), None);
    }

    #[test]
    fn flags_are_named() {
        assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "SYN|ACK");
        assert_eq!(format!("{:?}", Flags::AE | Flags::CWR), "CWR|AE");
        assert_eq!(format!("{:?}", Flags::NONE), "-");
    }
}
