//! Turns datagrams back into packets. Consecutive segments are joined, as with TUN's GRO.

use std::net::IpAddr;

use bytes::Bytes;
use spindle_wire::{
    ENCAPSULATION_HEADER_LEN, Ecn, EncapsulationError, EncapsulationHeader, EncapsulationKind,
    Endpoint, Flags, Packet, Payload, Segment, SeqNumber,
};

/// Most payload bytes of a joined segment.
const MOST: usize = 65_535;

/// Reads the packet of a datagram. A segment is returned without its payload, and with the position at which the
/// payload begins. A packet of the coding layer is returned as a whole, and with the end of the datagram.
pub(super) fn read(
    addresses: (IpAddr, IpAddr),
    ecn: Ecn,
    datagram: &[u8],
) -> Result<(Packet, usize), EncapsulationError> {
    if let Ok(EncapsulationKind::Coded(_)) = EncapsulationHeader::parse(datagram).map(|h| h.kind) {
        let all = Bytes::copy_from_slice(datagram);
        let packet = Packet::decapsulate(addresses, ecn, &all)?;
        return Ok((packet, datagram.len()));
    }
    let words = datagram.get(ENCAPSULATION_HEADER_LEN + 12).copied();
    let header = ENCAPSULATION_HEADER_LEN + usize::from(words.unwrap_or(0) >> 4) * 4;
    let end = header.clamp(ENCAPSULATION_HEADER_LEN, datagram.len().max(12));
    let head = Bytes::copy_from_slice(datagram.get(..end).unwrap_or(datagram));
    let packet = Packet::decapsulate(addresses, ecn, &head)?;
    Ok((packet, end))
}

/// An unfinished segment.
#[derive(Default)]
pub(super) struct Merge {
    first: Option<Segment>,
    data: Vec<u8>,
    next: SeqNumber,
    size: usize,
    /// Bytes to reserve at once for the payload of the next segment.
    pub(super) expect: usize,
}

impl Merge {
    /// Adds a packet from [`read`]. A segment is joined to the previous one, or that one is passed to `sink`. A
    /// packet of the coding layer is passed to `sink` after the previous segment. `payload` is a segment's
    /// payload.
    pub(super) fn push(&mut self, packet: Packet, payload: &[u8], sink: &mut dyn FnMut(Packet)) {
        let s = match packet {
            Packet::Tcp(segment) => segment,
            Packet::Coded(_) => {
                self.flush(sink);
                sink(packet);
                return;
            }
        };
        if let Some(f) = &mut self.first
            && self.next == s.seq
            && !payload.is_empty()
            && payload.len() <= self.size
            && self.data.len().is_multiple_of(self.size.max(1))
            && self.data.len() + payload.len() <= MOST
            && joins(f, &s)
        {
            f.flags |= s.flags;
            self.data.extend_from_slice(payload);
            self.next = self.next + payload.len() as u32;
            return;
        }
        self.flush(sink);
        self.data = Vec::with_capacity(self.expect.clamp(payload.len(), MOST));
        self.data.extend_from_slice(payload);
        self.next = s.seq + payload.len() as u32;
        self.size = payload.len();
        self.first = Some(s);
    }

    /// Passes the remaining segment to `sink`.
    pub(super) fn flush(&mut self, sink: &mut dyn FnMut(Packet)) {
        let Some(mut s) = self.first.take() else {
            return;
        };
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            // A payload that is kept for long must not pin much more memory than it needs.
            s.payload = if data.capacity() > 4 * data.len() {
                Payload::Bytes(Bytes::copy_from_slice(&data))
            } else {
                Payload::from(data)
            };
        }
        sink(Packet::Tcp(s));
    }
}

fn joins(f: &Segment, s: &Segment) -> bool {
    let special = Flags::FIN | Flags::SYN | Flags::RST | Flags::URG | Flags::CWR;
    !f.flags.intersects(special)
        && !s.flags.intersects(Flags(special.0 & !Flags::FIN.0))
        && f.flags.0 & !Flags::PSH.0 == s.flags.0 & !(Flags::PSH.0 | Flags::FIN.0)
        && ends(f) == ends(s)
        && f.ack == s.ack
        && f.window == s.window
        && f.ecn == s.ecn
        && f.options == s.options
}

fn ends(s: &Segment) -> (Endpoint, Endpoint) {
    (s.src, s.dst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(list: &[(u32, usize, Flags)]) -> Vec<(u32, usize)> {
        let here = Endpoint::new(IpAddr::from([10, 0, 0, 1]), 1);
        let (mut merge, mut out) = (Merge::default(), Vec::new());
        let mut sink = |p: Packet| {
            let s = p.into_tcp().expect("a segment");
            out.push((s.seq.0, s.payload.len()));
        };
        for (seq, len, flags) in list {
            let mut s = Segment::new(here, here);
            (s.seq, s.flags) = (SeqNumber(*seq), *flags);
            merge.push(s.into(), &vec![7; *len], &mut sink);
        }
        merge.flush(&mut sink);
        out
    }

    #[test]
    fn consecutive_segments_are_joined_and_others_are_not() {
        let a = Flags::ACK;
        assert_eq!(all(&[(0, 10, a), (10, 10, a), (20, 4, a)]), [(0, 24)]);
        assert_eq!(
            all(&[(0, 10, a), (10, 4, a), (14, 4, a)]),
            [(0, 14), (14, 4)]
        );
        assert_eq!(all(&[(0, 10, a), (11, 10, a)]), [(0, 10), (11, 10)]);
        assert_eq!(all(&[(0, 0, a), (0, 0, a)]), [(0, 0), (0, 0)]);
        let fin = Flags(a.0 | Flags::FIN.0);
        assert_eq!(
            all(&[(0, 9, a), (9, 9, fin), (18, 9, a)]),
            [(0, 18), (18, 9)]
        );
    }
}
