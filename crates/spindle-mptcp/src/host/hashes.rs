//! Hashes of a subflow's endpoints under keys that only the host has. They are numbers that the host can
//! compute again and no other host can predict.

use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;
use spindle_units::Instant;
use spindle_wire::{Endpoint, SeqNumber};

use crate::keys::{hmac_sha256, leftmost_64};
use crate::secrets::{Label, Secrets};
use crate::subflow::InitialNumbers;

/// The keys of these hashes, each for one use. They never leave the host, and `Debug` does not show them.
#[derive(Clone)]
pub(super) struct KeyedHashes {
    sequence_numbers: [u8; 16],
    timestamps: [u8; 16],
    cookies: [u8; 16],
    cookie_keys: [u8; 32],
}

impl KeyedHashes {
    pub(super) fn new(secrets: &Secrets) -> Self {
        Self {
            sequence_numbers: secrets.sip_key(Label::InitialSequenceNumbers),
            timestamps: secrets.sip_key(Label::TimestampOffsets),
            cookies: secrets.sip_key(Label::SynCookies),
            cookie_keys: secrets.key(Label::CookieKeys),
        }
    }

    /// The initial numbers of a subflow that begins `now`.
    pub(super) fn initial_numbers(
        &self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
    ) -> InitialNumbers {
        InitialNumbers {
            sequence: self.isn(now, local, remote),
            timestamp_offset: self.timestamp_offset(local, remote),
        }
    }

    /// The initial sequence number of a subflow: a clock that ticks every 4 us plus a keyed hash of
    /// the four-tuple (RFC 6528, section 3; the hash is SipHash-2-4).
    fn isn(&self, now: Instant, local: Endpoint, remote: Endpoint) -> SeqNumber {
        let ticks = now.as_micros() / 4;
        let hash = sip(&self.sequence_numbers, local, remote);
        // Both are taken modulo 2^32, as sequence numbers are.
        SeqNumber((ticks as u32).wrapping_add(hash as u32))
    }

    /// The offset that is added to the clock in a subflow's timestamps, so that they reveal neither the host's
    /// uptime nor which subflows belong to the same host (RFC 7323, section 7.1; Linux `secure_tcp_ts_off`).
    /// The next connection of the same four-tuple has the same offset, so that timestamps keep increasing (RFC
    /// 6191).
    pub(super) fn timestamp_offset(&self, local: Endpoint, remote: Endpoint) -> u32 {
        sip(&self.timestamps, local, remote) as u32
    }

    /// A key for a connection of which nothing is stored yet: a keyed hash of the four-tuple and the peer's
    /// initial sequence number. The third ACK contains both again, so the same key can be computed then (RFC
    /// 8684, section 3.1: a listener may stay stateless by generating its key verifiably; the SYN of version 1
    /// has no key to build it from).
    pub(super) fn cookie_key(&self, local: Endpoint, remote: Endpoint, peer_isn: SeqNumber) -> u64 {
        let message: [&[u8]; 2] = [&tuple(local, remote), &peer_isn.0.to_be_bytes()];
        leftmost_64(&hmac_sha256(&self.cookie_keys, &message))
    }

    /// The key of the hash in SYN cookies.
    pub(super) fn cookie_hash(&self) -> &[u8; 16] {
        &self.cookies
    }
}

impl fmt::Debug for KeyedHashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHashes(..)")
    }
}

fn sip(key: &[u8; 16], local: Endpoint, remote: Endpoint) -> u64 {
    let mut hash = SipHasher24::new_with_key(key);
    hash.write(&tuple(local, remote));
    hash.finish()
}

/// Both endpoints as bytes of a fixed length. IPv4 addresses become IPv4-mapped IPv6 addresses.
pub(super) fn tuple(local: Endpoint, remote: Endpoint) -> [u8; 36] {
    let mut bytes = [0; 36];
    for (half, end) in bytes.chunks_exact_mut(18).zip([local, remote]) {
        let addr = match end.addr {
            IpAddr::V4(a) => a.to_ipv6_mapped(),
            IpAddr::V6(a) => a,
        };
        half[..16].copy_from_slice(&addr.octets());
        half[16..].copy_from_slice(&end.port.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_units::Duration;
    use std::collections::HashSet;

    fn end(s: &str) -> Endpoint {
        s.parse::<std::net::SocketAddr>().unwrap().into()
    }

    fn hashes(seed: u8) -> KeyedHashes {
        KeyedHashes::new(&Secrets::System([seed; 32]))
    }

    #[test]
    fn isn_clock_ticks_every_four_microseconds() {
        let (s, l, r) = (hashes(1), end("192.0.2.1:80"), end("198.51.100.7:4000"));
        let start = s.isn(Instant::ZERO, l, r);
        for (micros, ticks) in [(3, 0), (4, 1), (4_000_000, 1_000_000)] {
            let now = Instant::ZERO + Duration::from_micros(micros);
            assert_eq!(s.isn(now, l, r), start + ticks);
        }
        // The clock wraps after 2^32 ticks, about 4.77 hours.
        let wrapped = Instant::ZERO + Duration::from_micros(4 << 32);
        assert_eq!(s.isn(wrapped, l, r), start);
    }

    #[test]
    fn each_hash_depends_on_the_seed_and_all_inputs() {
        let (l, r) = (end("192.0.2.1:80"), end("198.51.100.7:4000"));
        let ends = [
            (l, r),
            (r, l),
            (l, end("198.51.100.7:4001")),
            (end("192.0.2.1:81"), r),
            (l, end("198.51.100.8:4000")),
            (end("[2001:db8::1]:80"), r),
        ];
        let numbers = |s: &KeyedHashes| {
            ends.map(|(l, r)| {
                let n = s.initial_numbers(Instant::ZERO, l, r);
                [u64::from(n.sequence.0), u64::from(n.timestamp_offset)]
            })
        };
        let keys = |s: &KeyedHashes| ends.map(|(l, r)| s.cookie_key(l, r, SeqNumber(9)));
        let mut distinct = HashSet::new();
        for seed in [1, 2] {
            distinct.extend(numbers(&hashes(seed)).into_iter().flatten());
            distinct.extend(keys(&hashes(seed)));
        }
        assert_eq!(distinct.len(), 2 * 3 * ends.len());
        assert_eq!(keys(&hashes(1)), keys(&hashes(1)));
        assert_ne!(
            hashes(1).cookie_key(l, r, SeqNumber(9)),
            hashes(1).cookie_key(l, r, SeqNumber(10))
        );
    }

    #[test]
    fn debug_output_reveals_no_keys() {
        assert_eq!(format!("{:?}", hashes(1)), "KeyedHashes(..)");
    }
}
