//! [`Segment`]: a TCP segment with its addresses.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::{BitOr, BitOrAssign};

use crate::{Ecn, Endpoint, Options, Payload, SeqNumber};

/// The control bits of the TCP header (RFC 9293, section 3.1), with AE of RFC 9768 as the ninth.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// The sender has no more data.
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
    /// The sender.
    pub src: Endpoint,
    /// The receiver.
    pub dst: Endpoint,
    /// Sequence number of the first payload byte, or of the SYN if SYN is set.
    pub seq: SeqNumber,
    /// Next sequence number expected from the peer; meaningful with [`Flags::ACK`].
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: Flags,
    /// The window field of the header, not scaled.
    pub window: u16,
    /// The urgent pointer; meaningful with [`Flags::URG`].
    pub urgent: u16,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The differentiated services code point of the IP header, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// The flow label of the IPv6 header, 20 bits (RFC 6437). 0 means that the packet has no label. Switches hash
    /// it together with the addresses and ports, so that a host changes the path of its packets by another label.
    ///
    /// A packet of IPv4 has no such field, and the label is not sent. [`Segment::flow_hash`] includes it all the
    /// same: in the lab it stands for the label of an IPv6 packet, or for the UDP source port of an encapsulation
    /// (RFC 6438, RFC 7510 section 3).
    pub flow_label: u32,
    /// The TCP options.
    pub options: Options,
    /// The data.
    pub payload: Payload,
    /// The payload size in bytes of each segment into which the sending driver must cut this one (segmentation
    /// offload; [`Segment::pieces`] does it in software). 0 means that it must not be cut. The field is not
    /// part of a packet; parsed segments have 0.
    pub segment_size: u16,
}

impl Segment {
    /// A placeholder with unspecified addresses and port 0, which a real segment will replace.
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
            flow_label: 0,
            options: Options::default(),
            payload: Payload::EMPTY,
            segment_size: 0,
        }
    }

    /// Whether the segment must be cut into several segments.
    pub fn is_burst(&self) -> bool {
        self.segment_size > 0 && self.payload.len() > usize::from(self.segment_size)
    }

    /// The number of segments into which it must be cut, at least one.
    #[inline]
    pub fn piece_count(&self) -> u32 {
        if self.is_burst() {
            self.payload.len().div_ceil(usize::from(self.segment_size)) as u32
        } else {
            1
        }
    }

    /// The segments into which it must be cut. They are consecutive in sequence space, and each has every
    /// option. FIN and PSH are on the last segment only, CWR on the first only (as in segmentation offload).
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

    /// The first `N` bytes of the payload, if they are known: real bytes, or the first bytes stored with a
    /// plain length ([`crate::RareOptions::payload_head`]).
    pub fn payload_head<const N: usize>(&self) -> Option<[u8; N]> {
        match &self.payload {
            Payload::Bytes(b) => b.first_chunk().copied(),
            Payload::Length(n) => {
                let head = &self.options.rare.as_ref()?.payload_head;
                head.first_chunk().copied().filter(|_| *n as usize >= N)
            }
        }
    }

    /// The payload in real bytes, if it is a plain length with a stored head.
    pub(crate) fn headed_payload(&self) -> Option<Payload> {
        let head = &self.options.rare.as_ref()?.payload_head;
        let Payload::Length(len) = self.payload else {
            return None;
        };
        let mut bytes = head.clone();
        bytes.resize(len as usize, 0);
        (!head.is_empty()).then(|| Payload::from(bytes))
    }

    /// The sequence space that the segment occupies: payload bytes, one for SYN, one for FIN (RFC 9293,
    /// SEG.LEN).
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
    fn segment_takes_at_most_216_bytes() {
        let size = size_of::<Segment>();
        assert!(size <= 216, "{size} bytes");
    }

    #[test]
    fn burst_is_cut_into_consecutive_segments() {
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
    fn length_payload_may_start_with_real_bytes() {
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
    fn flags_are_printed_by_name() {
        assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "SYN|ACK");
        assert_eq!(format!("{:?}", Flags::AE | Flags::CWR), "CWR|AE");
        assert_eq!(format!("{:?}", Flags::NONE), "-");
    }
}
