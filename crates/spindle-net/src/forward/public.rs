//! Which addresses are public: those that any host of the Internet may be assumed to reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is public. Addresses of the host itself, of its link and of private networks are not, nor are
/// addresses that no single host can have. An IPv6 address that leads to an IPv4 address is judged by the latter.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(a) => is_public_v4(a),
        IpAddr::V6(a) => is_public_v6(a),
    }
}

fn is_public_v4(a: Ipv4Addr) -> bool {
    let octets = a.octets();
    let special = match octets {
        // "This network", with 0.0.0.0, at which Linux reaches the host itself (RFC 1122, section 3.2.1.3).
        [0, ..] => true,
        // Shared address space (RFC 6598).
        [100, second, ..] => second & 0xc0 == 64,
        // IETF protocol assignments (RFC 6890).
        [192, 0, 0, _] => true,
        // Benchmarking (RFC 2544); Spindle's own addresses with `--dnat` are among them.
        [198, second, ..] => second & 0xfe == 18,
        // Class E with the limited broadcast address (RFC 1112, section 4).
        [first, ..] => first >= 240,
    };
    !(special || a.is_loopback() || a.is_private() || a.is_link_local() || a.is_multicast())
}

fn is_public_v6(a: Ipv6Addr) -> bool {
    if let Some(inner) = embedded(a) {
        return is_public_v4(inner);
    }
    let special = match a.segments() {
        // Unspecified, loopback and IPv4-compatible addresses (RFC 4291, sections 2.5.2, 2.5.3 and 2.5.5.1).
        [0, 0, 0, 0, 0, 0, ..] => true,
        // Translators within a single operator (RFC 8215, section 5).
        [0x64, 0xff9b, 1, ..] => true,
        // Teredo (RFC 4380), whose relays send to an IPv4 address that is in the rest.
        [0x2001, 0, ..] => true,
        // Site-local addresses (RFC 3879).
        [first, ..] => first & 0xffc0 == 0xfec0,
    };
    !(special || a.is_unicast_link_local() || a.is_unique_local() || a.is_multicast())
}

/// The IPv4 address to which packets for an IPv6 address are finally sent, by a translator (RFC 6052, section 2.1)
/// or through a 6to4 tunnel (RFC 3056, section 2).
fn embedded(a: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = a.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_host_its_link_and_private_networks_are_not_public() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2001::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "fc00::1",
            "fd53:7069:6e64:6c66::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert!(!is_public(address), "{text}");
        }
    }

    #[test]
    fn other_addresses_are_public() {
        for text in [
            "1.1.1.1",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.32.0.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2606:4700:4700::1111",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert!(is_public(address), "{text}");
        }
    }
}
