//! The header before each packet of a TUN device with offloads (virtio 1.2, section 5.1.6): ten
//! bytes in the host's byte order.

/// Bytes of the header.
pub(super) const LEN: usize = 10;

/// The checksum must still be filled in.
const NEEDS_CSUM: u8 = 1;
/// The checksum was verified.
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Position of TCP's checksum in its header.
const TCP_CHECKSUM_AT: u16 = 16;

/// Whether the checksum of a received packet need not be verified, because the packet never left the machine or
/// the network card has verified it.
pub(super) fn checksum_trusted(header: &[u8; LEN]) -> bool {
    header[0] & (NEEDS_CSUM | DATA_VALID) != 0
}

/// The header for a TCP packet whose IP and TCP headers have `ip_len` and `tcp_len` bytes. With `segment`, the
/// kernel splits its payload into pieces of that size.
pub(super) fn header(v4: bool, ip_len: usize, tcp_len: usize, segment: Option<u16>) -> [u8; LEN] {
    let kind = match segment {
        None => GSO_NONE,
        Some(_) if v4 => GSO_TCPV4,
        Some(_) => GSO_TCPV6,
    };
    let mut h = [0; LEN];
    h[0] = NEEDS_CSUM;
    h[1] = kind;
    let whole = (ip_len + tcp_len) as u16;
    h[2..4].copy_from_slice(&whole.to_ne_bytes());
    h[4..6].copy_from_slice(&segment.unwrap_or(0).to_ne_bytes());
    h[6..8].copy_from_slice(&(ip_len as u16).to_ne_bytes());
    h[8..10].copy_from_slice(&TCP_CHECKSUM_AT.to_ne_bytes());
    h
}
