//! Random numbers with one independent stream per purpose, so that schemes that are compared see the same
//! arrivals, sizes, ports and losses (common random numbers).

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// The purpose of a stream of random numbers. No stream depends on the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Times between arrivals.
    Arrivals,
    /// Sizes of flows.
    Sizes,
    /// The pair of hosts that a flow runs between.
    Pairs,
    /// Source ports. The index is the connection's.
    Ports,
    /// Salts of ECMP. The index is the switch's.
    Salts,
    /// Losses. The index is the link's.
    Loss,
    /// Which links are lossy.
    LossyLinks,
    /// Seeds of host stacks (keys, initial sequence numbers). The index is the host's.
    Hosts,
    /// Choices of the network's balancers.
    Balancer,
    /// The interface that a connection starts from. The index is the connection's.
    FirstPath,
    /// The packet of a response that is lost. The index is the flow's.
    ResponseLoss,
    /// Which switches have short queues.
    Hotspots,
    /// Which flows are bystanders.
    Bystanders,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Arrivals => "arrivals",
            Self::Sizes => "sizes",
            Self::Pairs => "pairs",
            Self::Ports => "ports",
            Self::Salts => "salts",
            Self::Loss => "loss",
            Self::LossyLinks => "lossy-links",
            Self::Hosts => "hosts",
            Self::Balancer => "balancer",
            Self::FirstPath => "first-path",
            Self::ResponseLoss => "response-loss",
            Self::Hotspots => "hotspots",
            Self::Bystanders => "bystanders",
        }
    }
}

/// The streams of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    key: u64,
}

impl Streams {
    /// The streams of part `run` of the workload of `seed`.
    pub fn new(seed: u64, run: u64) -> Self {
        Self {
            key: hash64(&[&seed.to_le_bytes(), &run.to_le_bytes()]),
        }
    }

    /// A 64-bit value for `purpose` and `index`.
    pub fn value(&self, purpose: Purpose, index: u64) -> u64 {
        let words: [&[u8]; 3] = [
            &self.key.to_le_bytes(),
            purpose.name().as_bytes(),
            &index.to_le_bytes(),
        ];
        SplitMix64::seed_from_u64(hash64(&words)).next_u64()
    }

    /// The stream with number `index` for `purpose`.
    pub fn stream(&self, purpose: Purpose, index: u64) -> Stream {
        Stream(Xoshiro256PlusPlus::seed_from_u64(
            self.value(purpose, index),
        ))
    }
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream that starts from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), on a grid of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..`n`, without bias beyond 2^-64 (multiply and shift). 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Normal with mean 0 and variance 1 (Box and Muller's transform of two uniform numbers).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// FNV-1a over the parts, each followed by its length, then mixed.
pub fn hash64(parts: &[&[u8]]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325; // FNV-1a, 64-bit offset basis
    const PRIME: u64 = 0x0000_0100_0000_01b3; // FNV-1a, 64-bit prime
    let mut h = OFFSET;
    for part in parts {
        for byte in part.iter().chain(&(part.len() as u64).to_le_bytes()) {
            h = (h ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }
    SplitMix64::seed_from_u64(h).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_run_purpose_and_index() {
        let s = Streams::new(1, 0);
        let base = s.value(Purpose::Sizes, 0);
        assert_eq!(base, Streams::new(1, 0).value(Purpose::Sizes, 0));
        assert_ne!(base, s.value(Purpose::Arrivals, 0));
        assert_ne!(base, s.value(Purpose::Sizes, 1));
        assert_ne!(base, Streams::new(2, 0).value(Purpose::Sizes, 0));
        assert_ne!(base, Streams::new(1, 1).value(Purpose::Sizes, 0));
    }

    #[test]
    fn uniform_and_exponential_have_their_means() {
        let mut s = Streams::new(7, 0).stream(Purpose::Arrivals, 0);
        let n = 200_000;
        let unit: f64 = (0..n).map(|_| s.unit()).sum::<f64>() / f64::from(n);
        let exp: f64 = (0..n).map(|_| s.exponential(3.0)).sum::<f64>() / f64::from(n);
        let below: f64 = (0..n).map(|_| s.below(11) as f64).sum::<f64>() / f64::from(n);
        assert!(
            (unit - 0.5).abs() < 0.005 && (exp - 3.0).abs() < 0.05 && (below - 5.0).abs() < 0.05
        );
    }

    #[test]
    fn the_hash_depends_on_the_boundaries_of_its_parts() {
        assert_ne!(hash64(&[b"ab", b"c"]), hash64(&[b"a", b"bc"]));
    }
}
