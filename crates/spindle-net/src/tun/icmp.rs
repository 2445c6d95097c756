//! ICMP errors about segments of this host (RFC 792, RFC 4443), as far as TCP processes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use spindle_mptcp::PathError;
use spindle_wire::{Endpoint, IpHeader, SeqNumber, protocol};

use crate::link::{IcmpError, IcmpReport};

/// Protocol number of ICMP.
const ICMP: u8 = 1;
/// Protocol number of ICMPv6.
const ICMP_V6: u8 = 58;
/// Bytes of an ICMP header before the packet that it quotes.
const HEADER: usize = 8;
/// No IPv4 path needs to carry less (RFC 791). Smaller values are forged or useless.
const LEAST_V4_MTU: u32 = 552;
/// No IPv6 link carries less than this (RFC 8200, section 5).
const LEAST_V6_MTU: u32 = 1280;

/// The report in the packet, if it is an ICMP error about a TCP segment. Its checksum is not verified: an
/// attacker that can forge the rest can forge the checksum, too.
pub(super) fn read(packet: &[u8], ip: &IpHeader) -> Option<IcmpReport> {
    let body = packet.get(ip.header_len..ip.total_len)?;
    let head = body.first_chunk::<HEADER>()?;
    let (kind, code) = (head[0], head[1]);
    let error = match (ip.protocol, kind, code) {
        // Fragmentation needed, with the next hop's MTU (RFC 1191, section 4).
        (ICMP, 3, 4) => {
            let mtu = u32::from(u16::from_be_bytes([head[6], head[7]]));
            IcmpError::TooBig(mtu.max(LEAST_V4_MTU))
        }
        // Protocol or port unreachable (RFC 792; RFC 4443, section 3.1).
        (ICMP, 3, 2 | 3) | (ICMP_V6, 1, 4) => IcmpError::Unreachable(PathError::Refused),
        (ICMP, 3, 0..=1 | 5..=13) | (ICMP_V6, 1, _) => IcmpError::Unreachable(PathError::NoRoute),
        (ICMP_V6, 2, _) => {
            let mtu = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            IcmpError::TooBig(mtu.max(LEAST_V6_MTU))
        }
        _ => return None,
    };
    let (src, dst, tcp) = if ip.protocol == ICMP {
        cause_v4(&body[HEADER..])?
    } else {
        cause_v6(&body[HEADER..])?
    };
    // The error must be addressed to the sender of the segment.
    if src != ip.dst {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    Some(IcmpReport {
        error,
        local: Endpoint::new(src, port(0)),
        remote: Endpoint::new(dst, port(2)),
        seq: SeqNumber(u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]])),
    })
}

type Cause = (IpAddr, IpAddr, [u8; 8]);

/// Addresses and the first eight bytes of TCP of a quoted packet, which may be cut off after these bytes.
fn cause_v4(p: &[u8]) -> Option<Cause> {
    let h = p.first_chunk::<20>()?;
    let len = usize::from(h[0] & 0x0f) * 4;
    if h[0] >> 4 != 4 || h[9] != protocol::TCP || len < 20 {
        return None;
    }
    let tcp = *p.get(len..)?.first_chunk()?;
    let src = Ipv4Addr::new(h[12], h[13], h[14], h[15]);
    let dst = Ipv4Addr::new(h[16], h[17], h[18], h[19]);
    Some((src.into(), dst.into(), tcp))
}

/// Like [`cause_v4`], but for IPv6. Spindle's packets have no extension headers.
fn cause_v6(p: &[u8]) -> Option<Cause> {
    let h = p.first_chunk::<40>()?;
    if h[0] >> 4 != 6 || h[6] != protocol::TCP {
        return None;
    }
    let tcp = *p.get(40..)?.first_chunk()?;
    let address = |at: usize| {
        let mut a = [0; 16];
        a.copy_from_slice(&h[at..at + 16]);
        IpAddr::from(Ipv6Addr::from(a))
    };
    Some((address(8), address(24), tcp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_wire::{Checksums, Flags, IpFields, Segment};

    fn segment(src: &str, dst: &str) -> Segment {
        let end = |s: &str| -> Endpoint {
            let a: std::net::SocketAddr = s.parse().expect("an address");
            a.into()
        };
        let mut s = Segment::new(end(src), end(dst));
        s.flags = Flags::ACK;
        s.seq = SeqNumber(0x0102_0304);
        s
    }

    fn v4(kind: u8, code: u8, mtu: u16, cause: &Segment, to: [u8; 4]) -> Vec<u8> {
        let cause = cause.to_packet(&IpFields::default()).expect("fits");
        let len = (20 + 8 + 28) as u16;
        let mut p = vec![0x45, 0];
        p.extend(len.to_be_bytes());
        p.extend([0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1]);
        p.extend(to);
        p.extend([kind, code, 0, 0, 0, 0]);
        p.extend(mtu.to_be_bytes());
        p.extend(&cause[..28]);
        p
    }

    fn parsed(packet: &[u8]) -> Option<IcmpReport> {
        let ip = IpHeader::parse(packet, Checksums::Trust).expect("a header");
        read(packet, &ip)
    }

    #[test]
    fn too_big_and_unreachable_errors_identify_the_segment() {
        let cause = segment("10.0.0.2:80", "10.9.0.1:4000");
        let report = parsed(&v4(3, 4, 1400, &cause, [10, 0, 0, 2])).expect("an error");
        assert_eq!(report.error, IcmpError::TooBig(1400));
        assert_eq!((report.local, report.remote), (cause.src, cause.dst));
        assert_eq!(report.seq, cause.seq);
        let report = parsed(&v4(3, 1, 0, &cause, [10, 0, 0, 2])).expect("an error");
        assert_eq!(report.error, IcmpError::Unreachable(PathError::NoRoute));
        let report = parsed(&v4(3, 3, 0, &cause, [10, 0, 0, 2])).expect("an error");
        assert_eq!(report.error, IcmpError::Unreachable(PathError::Refused));
        let tiny = parsed(&v4(3, 4, 68, &cause, [10, 0, 0, 2])).expect("an error");
        assert_eq!(tiny.error, IcmpError::TooBig(LEAST_V4_MTU));
    }

    #[test]
    fn other_messages_and_errors_about_other_senders_are_ignored() {
        let cause = segment("10.0.0.2:80", "10.9.0.1:4000");
        assert_eq!(parsed(&v4(3, 4, 1400, &cause, [10, 0, 0, 3])), None);
        assert_eq!(parsed(&v4(8, 0, 0, &cause, [10, 0, 0, 2])), None);
        let whole = v4(3, 4, 1400, &cause, [10, 0, 0, 2]);
        for len in 28..whole.len() {
            let mut cut = whole[..len].to_vec();
            cut[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            assert_eq!(parsed(&cut), None, "{len} bytes");
        }
    }
}
