//! MPTCP keys and what is derived from them: tokens, initial data sequence numbers and message authentication
//! codes (RFC 8684, sections 3.1, 3.2 and 3.4.1).
//!
//! Keys and nonces are numbers here. On the wire, and where they are hashed, they are in network byte order.

use std::net::IpAddr;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The token that identifies a connection: the most significant 32 bits of the SHA-256 hash of the key (RFC
/// 8684, section 3.2).
pub fn token(key: u64) -> u32 {
    let hash = Sha256::digest(key.to_be_bytes());
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// The initial data sequence number: the least significant 64 bits of the SHA-256 hash of the key
/// (RFC 8684, section 3.1).
pub fn idsn(key: u64) -> u64 {
    rightmost_64(&Sha256::digest(key.to_be_bytes()).into())
}

/// The code a host sends in MP_JOIN: HMAC-SHA256 under its own key followed by the peer's, over its
/// own nonce followed by the peer's (RFC 8684, section 3.2). To check what the peer sent, swap both
/// pairs.
pub fn join_hmac(key_local: u64, key_remote: u64, nonce_local: u32, nonce_remote: u32) -> [u8; 32] {
    let mut message = [0; 8];
    message[..4].copy_from_slice(&nonce_local.to_be_bytes());
    message[4..].copy_from_slice(&nonce_remote.to_be_bytes());
    hmac_sha256(&both(key_local, key_remote), &[&message])
}

/// The part of a code that goes into the SYN/ACK of MP_JOIN (RFC 8684, section 3.2).
pub fn leftmost_64(hmac: &[u8; 32]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hmac[..8]);
    u64::from_be_bytes(bytes)
}

/// The part of a code that goes into the third ACK of MP_JOIN (RFC 8684, section 3.2).
pub fn leftmost_160(hmac: &[u8; 32]) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes.copy_from_slice(&hmac[..20]);
    bytes
}

/// The code a host sends in ADD_ADDR: the rightmost 64 bits of HMAC-SHA256 under its own key
/// followed by the peer's, over address identifier, address and port; a port that is not in the
/// option counts as two zero bytes (RFC 8684, section 3.4.1). To check what the peer sent, swap the
/// keys.
pub fn add_addr_hmac(
    key_local: u64,
    key_remote: u64,
    address_id: u8,
    addr: IpAddr,
    port: Option<u16>,
) -> u64 {
    let port = port.unwrap_or(0).to_be_bytes();
    let key = both(key_local, key_remote);
    rightmost_64(&match addr {
        IpAddr::V4(a) => hmac_sha256(&key, &[&[address_id], &a.octets(), &port]),
        IpAddr::V6(a) => hmac_sha256(&key, &[&[address_id], &a.octets(), &port]),
    })
}

/// Whether two truncated codes are equal, compared in constant time.
pub fn same_64(a: u64, b: u64) -> bool {
    a.ct_eq(&b).into()
}

/// Whether two truncated codes are equal, compared in constant time.
pub fn same_160(a: &[u8; 20], b: &[u8; 20]) -> bool {
    a.ct_eq(b).into()
}

/// HMAC-SHA256 (RFC 2104, RFC 6234) of the concatenated parts.
pub(crate) fn hmac_sha256(key: &[u8], message: &[&[u8]]) -> [u8; 32] {
    // The only possible error is a key of a length that the algorithm does not support. HMAC supports any
    // length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        unreachable!("HMAC takes keys of any length (RFC 2104, section 3)");
    };
    for part in message {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn both(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

fn rightmost_64(hash: &[u8; 32]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[24..]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// RFC 4231, sections 4.2 to 4.8 (4.6 is about truncation to 128 bits).
    #[test]
    fn hmac_sha256_matches_rfc_4231() {
        let cases: [(&[u8], &[u8], &str); 6] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 20],
                &[0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
            (
                &std::array::from_fn::<u8, 25, _>(|i| i as u8 + 1),
                &[0xcd; 50],
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
            (
                &[0xaa; 131],
                b"This is a test using a larger than block-size key and a larger than block-size \
                  data. The key needs to be hashed before being used by the HMAC algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
        ];
        for (key, message, expected) in cases {
            assert_eq!(hex(&hmac_sha256(key, &[message])), expected);
        }
    }

    /// Computed with another implementation of SHA-256 over the eight bytes of the key.
    #[test]
    fn tokens_and_idsns_match_another_implementation() {
        let known = [
            (0, 0xaf55_70f5, 0xe5b2_328d_e0e8_3dfc),
            (1, 0xcd26_6215, 0x19ec_5090_83d0_0a50),
            (0x0123_4567_89ab_cdef, 0x55c5_3f5d, 0x5707_62cd_38be_9818),
            (u64::MAX, 0x12a3_ae44, 0x57fb_595b_bbac_f0ca),
        ];
        for (key, t, d) in known {
            assert_eq!((token(key), idsn(key)), (t, d), "key {key:#x}");
        }
    }

    const KEY_A: u64 = 0x0123_4567_89ab_cdef;
    const KEY_B: u64 = 0xfedc_ba98_7654_3210;

    /// Computed with another implementation of HMAC-SHA256.
    #[test]
    fn join_hmacs_match_another_implementation() {
        let mac = join_hmac(KEY_A, KEY_B, 0x1122_3344, 0xaabb_ccdd);
        assert_eq!(
            hex(&mac),
            "f61753d6b8ac227764b9d1b17a6f5ceeec9d1a8a4351afe5408a31e58cbbe7ba"
        );
        assert_eq!(leftmost_64(&mac), 0xf617_53d6_b8ac_2277);
        assert_eq!(
            hex(&leftmost_160(&mac)),
            "f61753d6b8ac227764b9d1b17a6f5ceeec9d1a8a"
        );
        assert_ne!(
            mac,
            join_hmac(KEY_B, KEY_A, 0xaabb_ccdd, 0x1122_3344),
            "no reflection"
        );
    }

    /// Computed with another implementation of HMAC-SHA256.
    #[test]
    fn add_addr_hmacs_match_another_implementation() {
        let v4: IpAddr = "192.0.2.1".parse().unwrap();
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(
            add_addr_hmac(KEY_A, KEY_B, 5, v4, None),
            0x6559_e658_628f_91ae
        );
        assert_eq!(
            add_addr_hmac(KEY_A, KEY_B, 5, v4, Some(8080)),
            0xfd34_3c02_3d07_761b
        );
        assert_eq!(
            add_addr_hmac(KEY_A, KEY_B, 7, v6, Some(443)),
            0x6e96_8a01_292d_5ea7
        );
    }

    #[test]
    fn comparisons_detect_every_differing_bit() {
        for bit in 0..64 {
            assert!(!same_64(KEY_A, KEY_A ^ 1 << bit));
        }
        let mac = leftmost_160(&join_hmac(KEY_A, KEY_B, 1, 2));
        assert!(same_160(&mac, &mac) && same_64(KEY_A, KEY_A));
        for i in 0..20 {
            let mut other = mac;
            other[i] ^= 0x80;
            assert!(!same_160(&mac, &other));
        }
    }

    proptest! {
        #[test]
        fn both_sides_compute_the_same_join_hmac(a: u64, b: u64, ra: u32, rb: u32) {
            // What A computes as the sender is what B computes with the roles exchanged.
            let of_a = join_hmac(a, b, ra, rb);
            let expected = hmac_sha256(
                &[a.to_be_bytes(), b.to_be_bytes()].concat(),
                &[&[ra.to_be_bytes(), rb.to_be_bytes()].concat()],
            );
            prop_assert_eq!(of_a, expected);
            prop_assert!(a == b && ra == rb || of_a != join_hmac(b, a, rb, ra));
        }
    }
}
