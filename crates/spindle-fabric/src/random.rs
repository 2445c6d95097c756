//! Random streams and hashing: every random value is derived from the seed, a purpose and a number.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The purpose of a random stream. Streams of different purposes are unrelated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A link's loss process.
    Loss,
    /// The salt of a switch's ECMP hash.
    Salt,
    /// A switch's own balancer, if it is random.
    Balance,
    /// A link's jitter.
    Jitter,
    /// Which packets of a link are held back.
    Reorder,
    /// The queue discipline of a port.
    Queue,
    /// The changing rate and delay of a link.
    Trace,
}

/// Spreads every input bit over every output bit (full avalanche). This is the finaliser of SplitMix64 (Steele,
/// Lea and Flood 2014, section 3, with Stafford's constants "Mix13").
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Maps a well mixed `hash` evenly to `0..choices` by multiply and shift of its upper 32 bits. Unlike a modulo,
/// it uses the bits that a power-of-two modulo would ignore.
pub const fn reduce(hash: u64, choices: u32) -> u32 {
    (((hash >> 32) * choices as u64) >> 32) as u32
}

/// The number derived from (`seed`, `purpose`, `index`).
pub(crate) const fn derive(seed: u64, purpose: Purpose, index: u64) -> u64 {
    // Each step is a bijection of the next input, so two different triples collide only by chance.
    let tagged = mix(seed ^ 0x9e37_79b9_7f4a_7c15) ^ (purpose as u64 + 1);
    mix(mix(tagged) ^ index)
}

/// The random stream of (`seed`, `purpose`, `index`). The index is that of the link or switch.
pub fn stream(seed: u64, purpose: Purpose, index: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(derive(seed, purpose, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    #[test]
    fn one_flipped_bit_flips_half_the_output() {
        for bit in 0..64 {
            let flipped: u32 = (0..256u64)
                .map(|i| (mix(i * 0x1234_5677) ^ mix((i * 0x1234_5677) ^ (1 << bit))).count_ones())
                .sum();
            let mean = f64::from(flipped) / 256.0;
            assert!((30.0..34.0).contains(&mean), "bit {bit}: {mean}");
        }
    }

    #[test]
    fn reduce_covers_exactly_the_given_choices() {
        for choices in 1..70 {
            assert_eq!(reduce(0, choices), 0);
            assert_eq!(reduce(u64::MAX, choices), choices - 1);
        }
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_index() {
        let first = |s, p, i| stream(s, p, i).next_u64();
        let base = first(1, Purpose::Loss, 1);
        assert_eq!(base, first(1, Purpose::Loss, 1));
        assert_ne!(base, first(2, Purpose::Loss, 1));
        assert_ne!(base, first(1, Purpose::Balance, 1));
        assert_ne!(base, first(1, Purpose::Loss, 2));
    }
}
