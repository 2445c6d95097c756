//! Segments on the way to the device. Consecutive segments of a flow that differ only in their position are
//! sent as one packet, which the kernel splits again if necessary (TSO).

use std::io::IoSlice;
use std::net::IpAddr;

use bytes::Bytes;
use spindle_wire::{Checksum, EncodeError, Flags, IpFields, Payload, Segment, SeqNumber, protocol};

use super::vnet;

/// Flows that may have an unfinished packet at the same time.
const FLOWS: usize = 16;
/// The longest IP packet.
const MAX_PACKET: usize = 65_535;
/// Most pieces of payload in a packet. With two slices for headers, this is far below the system's limit
/// (IOV_MAX, 1024), and it is more than 64 KB give at an MSS of 536.
const MAX_PIECES: usize = 128;
/// Position of the payload length in an IPv6 header, and of the total length in an IPv4 header.
const V6_LENGTH_AT: usize = 4;
const V4_LENGTH_AT: usize = 2;

/// An unfinished packet.
struct Pending {
    /// The first segment without its payload.
    first: Segment,
    pieces: Vec<Bytes>,
    bytes: usize,
    /// Payload bytes of each segment, except perhaps the last.
    size: usize,
    next: SeqNumber,
    /// The last segment was shorter, or has a special flag. No segment may follow.
    complete: bool,
    header_len: usize,
}

/// Accepts finished packets: the header and payload slices of one packet.
pub(super) trait Device {
    /// Writes one packet of `segments` segments.
    fn write(&mut self, slices: &[IoSlice<'_>], segments: u64);
}

/// The unfinished packets.
#[derive(Default)]
pub(super) struct Batch {
    pending: Vec<Pending>,
    /// Emptied lists of pieces, for reuse.
    spare: Vec<Vec<Bytes>>,
    header: Vec<u8>,
}

impl Batch {
    /// Adds a segment. May write an unfinished packet that the segment cannot join.
    pub(super) fn push(
        &mut self,
        mut segment: Segment,
        device: &mut dyn Device,
    ) -> Result<(), EncodeError> {
        let at = self
            .pending
            .iter()
            .position(|p| p.first.src == segment.src && p.first.dst == segment.dst);
        if let Some(at) = at {
            if self.pending[at].takes(&segment) {
                self.pending[at].add(segment);
                return Ok(());
            }
            self.write(at, device)?;
        } else if self.pending.len() == FLOWS {
            self.write(0, device)?;
        }
        let payload = std::mem::take(&mut segment.payload);
        let mut pieces = self.spare.pop().unwrap_or_default();
        let bytes = payload.len();
        let size = size_of_segments(&segment, bytes);
        segment.segment_size = 0;
        if bytes > 0 {
            pieces.push(payload.to_bytes());
        }
        self.pending.push(Pending {
            header_len: segment.wire_len(),
            next: segment.seq + bytes as u32,
            pieces,
            bytes,
            size,
            complete: bytes == 0 || !bytes.is_multiple_of(size) || !plain(&segment),
            first: segment,
        });
        Ok(())
    }

    /// Writes all packets that are left.
    pub(super) fn flush(&mut self, device: &mut dyn Device) -> Result<(), EncodeError> {
        let mut result = Ok(());
        while !self.pending.is_empty() {
            result = self.write(0, device).and(result);
        }
        result
    }

    fn write(&mut self, at: usize, device: &mut dyn Device) -> Result<(), EncodeError> {
        // The order between flows does not matter. The order within a flow is kept, since a flow has at most
        // one unfinished packet.
        let mut p = self.pending.swap_remove(at);
        let result = encode(&p, &mut self.header);
        if result.is_ok() {
            let mut slices = [IoSlice::new(&[]); MAX_PIECES + 1];
            slices[0] = IoSlice::new(&self.header);
            for (slice, piece) in slices[1..].iter_mut().zip(&p.pieces) {
                *slice = IoSlice::new(piece);
            }
            device.write(&slices[..=p.pieces.len()], p.segments().max(1) as u64);
        }
        p.pieces.clear();
        self.spare.push(p.pieces);
        result
    }
}

/// Whether another segment may follow in the same packet. This segment must contain only data, without special
/// flags and rare options.
fn plain(s: &Segment) -> bool {
    !s.flags
        .intersects(Flags::FIN | Flags::SYN | Flags::RST | Flags::URG | Flags::CWR)
        && s.options.rare.is_none()
}

/// Payload bytes of each segment on the wire, if `s` may be a burst.
fn size_of_segments(s: &Segment, len: usize) -> usize {
    match usize::from(s.segment_size) {
        0 => len.max(1),
        size => size.min(len.max(1)),
    }
}

impl Pending {
    /// Number of segments on the wire.
    fn segments(&self) -> usize {
        self.bytes.div_ceil(self.size)
    }

    fn takes(&self, s: &Segment) -> bool {
        let len = s.payload.len();
        let f = &self.first;
        !self.complete
            && len > 0
            && (len <= self.size || usize::from(s.segment_size) == self.size)
            && (s.segment_size == 0 || usize::from(s.segment_size) >= len.min(self.size))
            && s.seq == self.next
            && s.ack == f.ack
            && s.window == f.window
            && (s.dscp, s.ecn, s.flow_label) == (f.dscp, f.ecn, f.flow_label)
            && s.flags.0 & !Flags::PSH.0 == f.flags.0 & !Flags::PSH.0
            && s.options == f.options
            && self.pieces.len() < MAX_PIECES
            && self.header_len + self.bytes + len <= MAX_PACKET
    }

    fn add(&mut self, s: Segment) {
        let len = s.payload.len();
        self.first.flags |= s.flags;
        self.bytes += len;
        self.next = self.next + len as u32;
        self.complete = !len.is_multiple_of(self.size);
        self.pieces.push(match s.payload {
            Payload::Bytes(b) => b,
            p => p.to_bytes(),
        });
    }
}

/// Encodes the device's header and the IP and TCP headers of a packet. Lengths are those of the whole packet.
/// TCP's checksum field has the sum of the pseudo-header only, from which the kernel continues.
fn encode(p: &Pending, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    out.clear();
    let tcp_len = p.first.tcp_header_len();
    let ip_len = p.header_len - tcp_len;
    let v4 = p.first.src.addr.is_ipv4();
    let size = (p.segments() > 1).then_some(p.size as u16);
    out.extend_from_slice(&vnet::header(v4, ip_len, tcp_len, size));
    p.first.encode_ip(&IpFields::default(), out)?;
    let ip = vnet::LEN;
    if v4 {
        let total = (p.header_len + p.bytes) as u16;
        set(out, ip + V4_LENGTH_AT, total);
        set(out, ip + 10, 0);
        let mut sum = Checksum::new();
        sum.add(&out[ip..ip + ip_len]);
        set(out, ip + 10, sum.finish());
    } else {
        set(out, ip + V6_LENGTH_AT, (tcp_len + p.bytes) as u16);
    }
    let mut sum = Checksum::new();
    for addr in [p.first.src.addr, p.first.dst.addr] {
        match addr {
            IpAddr::V4(a) => sum.add(&a.octets()),
            IpAddr::V6(a) => sum.add(&a.octets()),
        }
    }
    sum.add_u32((tcp_len + p.bytes) as u32);
    sum.add_u16(u16::from(protocol::TCP));
    set(out, ip + ip_len + 16, sum.sum());
    Ok(())
}

fn set(out: &mut [u8], at: usize, value: u16) {
    out[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_wire::{Checksums, Endpoint, Timestamps};

    #[derive(Default)]
    struct Tape(Vec<(Vec<u8>, u64)>);

    impl Device for Tape {
        fn write(&mut self, slices: &[IoSlice<'_>], segments: u64) {
            let bytes = slices.iter().flat_map(|s| s.iter().copied()).collect();
            self.0.push((bytes, segments));
        }
    }

    fn data(flow: u16, seq: u32, len: usize) -> Segment {
        let addr = |host| IpAddr::from([10, 0, 0, host]);
        let mut s = Segment::new(Endpoint::new(addr(1), flow), Endpoint::new(addr(2), 80));
        s.flags = Flags::ACK | Flags::PSH;
        s.seq = SeqNumber(seq);
        s.options.timestamps = Some(Timestamps { value: 5, echo: 6 });
        s.payload = Payload::from(
            (0..len)
                .map(|i| (seq as usize + i) as u8)
                .collect::<Vec<_>>(),
        );
        s
    }

    fn packets(segments: Vec<Segment>) -> Vec<(Segment, u64)> {
        let (mut batch, mut tape) = (Batch::default(), Tape::default());
        for s in segments {
            batch.push(s, &mut tape).expect("it can be encoded");
        }
        batch.flush(&mut tape).expect("it can be encoded");
        let read = |(bytes, n): (Vec<u8>, u64)| {
            let s = Segment::from_ip_slice(&bytes[vnet::LEN..], Checksums::Trust);
            (s.expect("a packet"), n)
        };
        tape.0.into_iter().map(read).collect()
    }

    #[test]
    fn consecutive_segments_of_each_interleaved_flow_are_sent_as_one_packet() {
        let out = packets(vec![
            data(1, 0, 1000),
            data(2, 7, 1000),
            data(1, 1000, 1000),
            data(2, 1007, 1000),
            data(1, 2000, 500),
            data(1, 2500, 1000),
        ]);
        let mut seen: Vec<_> = out
            .iter()
            .map(|(s, n)| (s.src.port, s.seq.0, s.payload.len(), *n))
            .collect();
        // The sort is stable, so that the order within a flow is kept.
        seen.sort_by_key(|s| s.0);
        assert_eq!(seen, [(1, 0, 2500, 3), (1, 2500, 1000, 1), (2, 7, 2000, 2)]);
        let whole = data(1, 0, 2500);
        assert_eq!(out[0].0, whole);
    }

    #[test]
    fn segments_that_differ_or_are_not_consecutive_are_not_joined() {
        let changed = |f: fn(&mut Segment)| {
            let mut s = data(1, 1000, 1000);
            f(&mut s);
            packets(vec![data(1, 0, 1000), s]).len()
        };
        assert_eq!(changed(|_| ()), 1);
        assert_eq!(changed(|s| s.seq = SeqNumber(1001)), 2);
        assert_eq!(changed(|s| s.ack = SeqNumber(1)), 2);
        assert_eq!(changed(|s| s.window = 9), 2);
        assert_eq!(changed(|s| s.flags |= Flags::FIN), 2);
        assert_eq!(changed(|s| s.options.timestamps = None), 2);
        assert_eq!(changed(|s| s.payload = Payload::Length(1001)), 2);
        assert_eq!(changed(|s| s.ecn = spindle_wire::Ecn::Ect0), 2);
        assert_eq!(changed(|s| s.dscp = 18), 2);
        assert_eq!(changed(|s| s.flow_label = 1), 2);
    }

    #[test]
    fn bursts_are_sent_whole_and_join_segments_of_the_same_size() {
        let burst = |seq, len| {
            let mut s = data(1, seq, len);
            s.segment_size = 1000;
            s
        };
        let count = |list| packets(list).iter().map(|(_, n)| *n).collect::<Vec<_>>();
        assert_eq!(count(vec![burst(0, 4500)]), [5]);
        assert_eq!(count(vec![burst(0, 4000), burst(4000, 2500)]), [7]);
        assert_eq!(count(vec![burst(0, 4500), burst(4500, 2000)]), [5, 2]);
        assert_eq!(count(vec![burst(0, 900), data(1, 900, 900)]), [2]);
        assert_eq!(count(vec![data(1, 0, 900), burst(900, 2000)]), [1, 2]);
    }

    #[test]
    fn no_packet_is_longer_than_ip_allows() {
        let out = packets((0..100).map(|i| data(1, i * 1448, 1448)).collect());
        assert_eq!(out.iter().map(|(_, n)| n).sum::<u64>(), 100);
        assert!(out.iter().all(|(s, _)| s.wire_len() <= MAX_PACKET));
        assert_eq!(out.len(), 3);
    }

    #[test]
    fn the_checksum_field_holds_the_sum_of_the_pseudo_header() {
        let (mut batch, mut tape) = (Batch::default(), Tape::default());
        batch.push(data(1, 0, 100), &mut tape).expect("fits");
        batch.flush(&mut tape).expect("fits");
        let mut packet = tape.0[0].0[vnet::LEN..].to_vec();
        // Like the kernel: sum up from the TCP header on, including the value in the checksum field.
        let mut sum = Checksum::new();
        sum.add(&packet[20..]);
        set(&mut packet, 36, sum.finish());
        Segment::from_ip_slice(&packet, Checksums::Verify).expect("a valid checksum");
    }
}
