//! The hash with which switches and hosts distinguish flows.

use std::net::IpAddr;

use crate::Endpoint;

/// Mixes 64 bits. The function is a bijection in which every input bit affects every output bit (the finaliser
/// of SplitMix64, variant 13 of Stafford's mixers).
pub const fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A 64-bit hash of the 5-tuple: source and destination address and port, and the IP protocol number. It is not
/// symmetric: the reverse direction of a flow has an unrelated hash, as in switches.
///
/// The hash covers the addresses first, in words of 64 bits (one word for a pair of IPv4 addresses, four for
/// IPv6), then ports and protocol. Each step is `h = mix64(h ^ word)`. Because the steps are bijections, two
/// flows between the same two hosts never collide.
///
/// A switch that needs its own hash mixes its salt in and mixes again, `mix64(h ^ salt)`, before it reduces the
/// value. XOR alone would give all switches the same partition.
///
/// The hash has no secret key: an attacker that can choose addresses and ports can produce collisions.
pub fn flow_hash(src: Endpoint, dst: Endpoint, protocol: u8) -> u64 {
    // The golden ratio. Without it, all-zero addresses would start at the mixer's fixed point 0.
    const START: u64 = 0x9e37_79b9_7f4a_7c15;
    let h = match (src.addr, dst.addr) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            mix64(START ^ (u64::from(s.to_bits()) << 32 | u64::from(d.to_bits())))
        }
        (s, d) => {
            let words = [s, d].map(|a| match a {
                IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
                IpAddr::V6(a) => a.to_bits(),
            });
            words
                .iter()
                .flat_map(|w| [(w >> 64) as u64, *w as u64])
                .fold(START, |h, w| mix64(h ^ w))
        }
    };
    let ports = u64::from(src.port) << 32 | u64::from(dst.port) << 16 | u64::from(protocol);
    mix64(h ^ ports)
}

/// Mixes a flow label (RFC 6437) into a [`flow_hash`], as switches do that hash the label together with addresses
/// and ports (RFC 6438, section 3). Label 0 means that there is no label, and the hash stays as it is. Two labels
/// never give the same hash for the same flow, because the mixer is a bijection.
pub const fn mix_label(hash: u64, label: u32) -> u64 {
    match label {
        0 => hash,
        label => mix64(hash ^ (label as u64)),
    }
}

/// Like [`flow_hash`], but the same for both directions of a flow.
pub fn flow_key(src: Endpoint, dst: Endpoint, protocol: u8) -> u64 {
    flow_hash(src.min(dst), src.max(dst), protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_key_is_equal_in_both_directions_and_differs_between_flows() {
        let at = |host: u8, port| Endpoint {
            addr: IpAddr::from([10, 0, 0, host]),
            port,
        };
        let key = |a, b| flow_key(a, b, 6);
        let (a, b) = (at(1, 80), at(2, 1024));
        assert_eq!(key(a, b), key(b, a));
        assert_ne!(flow_hash(a, b, 6), flow_hash(b, a, 6));
        // Exchanging the ports gives another flow.
        assert_ne!(key(a, b), key(at(1, 1024), at(2, 80)));
        assert_ne!(key(a, b), flow_key(a, b, 17));
    }

    #[test]
    fn flow_label_changes_the_hash_unless_it_is_zero() {
        let hash = 0x0123_4567_89ab_cdef;
        assert_eq!(mix_label(hash, 0), hash);
        let mut hashes: Vec<u64> = (0..1000).map(|label| mix_label(hash, label)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 1000);
    }
}
