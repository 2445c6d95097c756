//! The PROXY protocol, version 2 (haproxy's `proxy-protocol.txt`, section 2.2), which reports the client's
//! address to a service behind the gateway.

use std::net::SocketAddr;

/// The signature every header begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY.
const VERSION_COMMAND: u8 = 0x21;
/// TCP over IPv4 and over IPv6.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// The header that precedes a connection's data. `source` is the client, and `destination` is the address that
/// the client connected to. If only one of them is IPv4, it is given as an IPv4-mapped IPv6 address (RFC 4291,
/// section 2.5.5.2).
pub fn header(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    out.push(VERSION_COMMAND);
    let (mut addresses, family) = match (source, destination) {
        (SocketAddr::V4(s), SocketAddr::V4(d)) => {
            (octets(&s.ip().octets(), &d.ip().octets()), TCP4)
        }
        _ => {
            let v6 = |a: SocketAddr| match a {
                SocketAddr::V4(a) => a.ip().to_ipv6_mapped().octets(),
                SocketAddr::V6(a) => a.ip().octets(),
            };
            (octets(&v6(source), &v6(destination)), TCP6)
        }
    };
    addresses.extend_from_slice(&source.port().to_be_bytes());
    addresses.extend_from_slice(&destination.port().to_be_bytes());
    out.push(family);
    out.extend_from_slice(&(addresses.len() as u16).to_be_bytes());
    out.extend_from_slice(&addresses);
    out
}

fn octets(source: &[u8], destination: &[u8]) -> Vec<u8> {
    [source, destination].concat()
}

#[cfg(test)]
mod tests {
    use super::header;

    fn of(source: &str, destination: &str) -> Vec<u8> {
        header(source.parse().unwrap(), destination.parse().unwrap())
    }

    #[test]
    fn an_ipv4_header_has_28_bytes() {
        let expected = [
            &b"\r\n\r\n\0\r\nQUIT\n"[..],
            &[0x21, 0x11, 0, 12],
            &[192, 0, 2, 1, 198, 51, 100, 2],
            &[0x9c, 0x40, 0x01, 0xbb],
        ];
        assert_eq!(of("192.0.2.1:40000", "198.51.100.2:443"), expected.concat());
    }

    #[test]
    fn an_ipv6_header_has_52_bytes() {
        let h = of("[2001:db8::1]:1", "[2001:db8::2]:2");
        assert_eq!(h.len(), 52);
        assert_eq!(h[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(h[16..20], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(h[48..], [0, 1, 0, 2]);
    }

    #[test]
    fn mixed_families_become_ipv6() {
        let h = of("192.0.2.1:1", "[2001:db8::2]:2");
        assert_eq!(h[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(h[26..32], [0xff, 0xff, 192, 0, 2, 1]);
    }
}
