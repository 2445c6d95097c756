//! The source of a stack's unpredictable numbers: a seed, from which each use derives its own key.
//!
//! No two uses share a key or a generator. A number that leaves the host, such as an MPTCP key or a nonce,
//! therefore reveals nothing about a number that must stay secret, such as the key of the hash for initial
//! sequence numbers.

use std::fmt;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::keys::hmac_sha256;
use crate::random::mix;

/// A use of unpredictable numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    /// Numbers that connections draw: nonces of joins, random waits, and seeds of components with their own
    /// generator.
    Connections,
    /// MPTCP keys (RFC 8684, section 3.1).
    MptcpKeys,
    /// The hash in initial sequence numbers (RFC 6528, section 3).
    InitialSequenceNumbers,
    /// The offset of a connection's timestamps (RFC 7323, section 7.1).
    TimestampOffsets,
    /// The hash in SYN cookies (RFC 4987, section 3.6).
    SynCookies,
    /// MPTCP keys of connections for which only a SYN cookie exists yet.
    CookieKeys,
    /// The hash function of the hash tables.
    Table,
    /// The hash that chooses local ports (RFC 6056, section 3.3.4).
    Ports,
    /// The random increment of the counter for local ports (RFC 6056, section 3.3.5).
    PortIncrements,
    /// The random cost of each reset for a segment of no connection (`host/resets.rs`).
    ResetCosts,
}

impl Label {
    #[cfg(test)]
    const ALL: [Self; 10] = [
        Self::Connections,
        Self::MptcpKeys,
        Self::InitialSequenceNumbers,
        Self::TimestampOffsets,
        Self::SynCookies,
        Self::CookieKeys,
        Self::Table,
        Self::Ports,
        Self::PortIncrements,
        Self::ResetCosts,
    ];

    /// The bytes that are hashed to derive the key of this label.
    fn name(self) -> &'static [u8] {
        match self {
            Self::Connections => b"connections",
            Self::MptcpKeys => b"MPTCP keys",
            Self::InitialSequenceNumbers => b"initial sequence numbers",
            Self::TimestampOffsets => b"timestamp offsets",
            Self::SynCookies => b"SYN cookies",
            Self::CookieKeys => b"MPTCP keys of SYN cookies",
            Self::Table => b"hash tables",
            Self::Ports => b"ports",
            Self::PortIncrements => b"port increments",
            Self::ResetCosts => b"reset costs",
        }
    }
}

/// The seed of a stack.
#[derive(Clone)]
pub(crate) enum Secrets {
    /// 256 bits from the operating system.
    System([u8; 32]),
    /// The seed of a simulated host: fast, repeatable and not secret.
    Simulation(u64),
}

impl Secrets {
    /// The key for `label`: HMAC-SHA256 under the system's seed, like HKDF's expansion of a uniformly random
    /// key (RFC 5869, section 2.3).
    pub(crate) fn key(&self, label: Label) -> [u8; 32] {
        match self {
            Self::System(seed) => hmac_sha256(seed, &[b"spindle ", label.name(), &[1]]),
            Self::Simulation(_) => {
                let mut key = [0; 32];
                self.generators(label).generator(0).fill(&mut key);
                key
            }
        }
    }

    /// The first half of [`Self::key`], which has the size of a SipHash key.
    pub(crate) fn sip_key(&self, label: Label) -> [u8; 16] {
        let mut half = [0; 16];
        half.copy_from_slice(&self.key(label)[..16]);
        half
    }

    /// The generators for `label`.
    pub(crate) fn generators(&self, label: Label) -> Generators {
        match (self, label) {
            (Self::System(_), _) => Generators::ChaCha(self.key(label)),
            // The lab's results depend on the numbers that connections draw, so no label is mixed into their
            // seed.
            (Self::Simulation(seed), Label::Connections) => Generators::Xoshiro(*seed),
            (Self::Simulation(seed), _) => Generators::Xoshiro(mix(*seed, !(label as u64))),
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// Numbered generators under one key, independent of each other.
#[derive(Clone)]
pub(crate) enum Generators {
    ChaCha([u8; 32]),
    Xoshiro(u64),
}

impl Generators {
    pub(crate) fn generator(&self, number: u64) -> Generator {
        match self {
            Self::ChaCha(key) => {
                let mut rng = ChaCha20Rng::from_seed(*key);
                rng.set_stream(number);
                Generator::ChaCha(Box::new(rng))
            }
            Self::Xoshiro(seed) => {
                Generator::Xoshiro(Xoshiro256PlusPlus::seed_from_u64(mix(*seed, number)))
            }
        }
    }
}

impl fmt::Debug for Generators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Generators(..)")
    }
}

/// A generator: ChaCha20 (RFC 8439) under a secret key, or Xoshiro256++ in a simulation.
pub(crate) enum Generator {
    ChaCha(Box<ChaCha20Rng>),
    Xoshiro(Xoshiro256PlusPlus),
}

impl Generator {
    pub(crate) fn next_u32(&mut self) -> u32 {
        match self {
            Self::ChaCha(rng) => rng.next_u32(),
            Self::Xoshiro(rng) => rng.next_u32(),
        }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        match self {
            Self::ChaCha(rng) => rng.next_u64(),
            Self::Xoshiro(rng) => rng.next_u64(),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        match self {
            Self::ChaCha(rng) => rng.fill_bytes(bytes),
            Self::Xoshiro(rng) => rng.fill_bytes(bytes),
        }
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Generator(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of bits in which two strings of equal length differ.
    fn distance(a: &[u8], b: &[u8]) -> u32 {
        a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
    }

    /// Asserts that about half of the 256 bits differ, within six standard deviations.
    fn assert_unrelated(a: &[u8; 32], b: &[u8; 32], what: impl fmt::Debug) {
        let d = distance(a, b);
        assert!((80..=176).contains(&d), "{what:?}: {d} of 256 bits differ");
    }

    fn drawn(mut generator: Generator) -> [u8; 32] {
        let mut bytes = [0; 32];
        generator.fill(&mut bytes);
        bytes
    }

    fn seeds() -> [Secrets; 2] {
        [Secrets::System([0x5a; 32]), Secrets::Simulation(7)]
    }

    #[test]
    fn keys_and_generators_of_different_labels_are_unrelated() {
        for secrets in seeds() {
            for (i, a) in Label::ALL.into_iter().enumerate() {
                for b in Label::ALL.into_iter().skip(i + 1) {
                    assert_unrelated(&secrets.key(a), &secrets.key(b), (a, b));
                    let first = |l| drawn(secrets.generators(l).generator(0));
                    assert_unrelated(&first(a), &first(b), (a, b));
                }
            }
        }
    }

    #[test]
    fn numbered_generators_are_unrelated_and_repeatable() {
        for secrets in seeds() {
            let generators = secrets.generators(Label::Connections);
            let one = |n| drawn(generators.generator(n));
            for n in 0..50 {
                assert_unrelated(&one(n), &one(n + 1), n);
                assert_eq!(one(n), one(n));
            }
        }
    }

    #[test]
    fn every_bit_of_the_systems_seed_changes_every_key() {
        let seed = [0x5a; 32];
        for bit in 0..256 {
            let mut other = seed;
            other[bit / 8] ^= 1 << (bit % 8);
            for label in Label::ALL {
                let (a, b) = (Secrets::System(seed), Secrets::System(other));
                assert_unrelated(&a.key(label), &b.key(label), (bit, label));
            }
        }
    }

    /// Computed with Python's `hmac`.
    #[test]
    fn a_key_is_hmac_sha256_of_its_label_under_the_seed() {
        let key = Secrets::System([0x5a; 32]).key(Label::MptcpKeys);
        assert_eq!(&key[..8], [0x64, 0x05, 0x93, 0x7c, 0x50, 0x5b, 0xe5, 0x83]);
    }

    #[test]
    fn simulated_connection_draws_are_stable_across_versions() {
        let mut g = Secrets::Simulation(1)
            .generators(Label::Connections)
            .generator(1);
        assert_eq!(g.next_u64(), 0x1468_c9ab_219f_b32c);
    }

    #[test]
    fn debug_output_reveals_no_secrets() {
        let secrets = Secrets::System([0x5a; 32]);
        let generators = secrets.generators(Label::Connections);
        let shown = format!("{secrets:?} {generators:?} {:?}", generators.generator(1));
        assert_eq!(shown, "Secrets(..) Generators(..) Generator(..)");
    }
}
