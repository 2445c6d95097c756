//! Flow sizes: the published distributions, fixed and uniform sizes, and tables from files.
//!
//! Each published distribution is one file of this folder, which registers itself in [`built_in`]. Other crates
//! add theirs with [`Registry::sizes`](crate::registry::Registry::sizes).

mod cdf;
mod data_mining;
mod lossy;
mod mixed;
mod web_search;

pub use cdf::{Cdf, CdfError};
pub use lossy::{LossRates, LossyLink, LossyLinks};

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::rng::Stream;

/// Payload bytes of a full packet in the published tables (mechanisms C1).
pub const TABLE_PACKET: u64 = 1460;

/// The distributions that come with Spindle, by name.
pub fn built_in() -> Catalog<Sizes> {
    let mut catalog = Catalog::new("size distribution");
    for register in [web_search::register, data_mining::register, mixed::register] {
        // The tables are checked by tests. A table that is not a distribution would have no name.
        let _ = register(&mut catalog);
    }
    catalog
}

/// The distribution of a table of sizes in packets of [`TABLE_PACKET`] bytes and their cumulative probability.
///
/// # Errors
/// A table that is not a distribution.
pub fn of_packets(table: &[(u64, f64)]) -> Result<Cdf, CdfError> {
    let points = table.iter();
    Cdf::new(
        points
            .map(|(n, p)| ((n * TABLE_PACKET) as f64, *p))
            .collect(),
    )
}

/// The distribution of flow sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Drawn from a table.
    Table(Arc<Cdf>),
    /// The same size for all flows, in bytes.
    Fixed(u64),
    /// Uniform between two sizes in bytes, both included.
    Uniform(u64, u64),
    /// Lognormal, clipped.
    LogNormal(LogNormal),
    /// This many full packets of the transport, whatever their size. For sizes in bytes, full packets have
    /// [`TABLE_PACKET`] bytes.
    Packets(u32),
}

/// A lognormal size. Sizes outside the limits become the nearer limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// Median in bytes, above 0.
    pub median: u64,
    /// Standard deviation of the natural logarithm, above 0.
    pub sigma: f64,
    /// Smallest size in bytes, 1 or more.
    pub min: u64,
    /// Largest size in bytes.
    pub max: u64,
}

impl LogNormal {
    fn sample(&self, rng: &mut Stream) -> u64 {
        let size = self.median as f64 * (self.sigma * rng.normal()).exp();
        (size.round() as u64).clamp(self.min, self.max)
    }

    /// The mean, by the midpoint rule over the standard normal density (relative error below 1e-6).
    fn mean(&self) -> f64 {
        const STEPS: u32 = 16_000;
        const REACH: f64 = 8.0;
        let width = 2.0 * REACH / f64::from(STEPS);
        let (mut sum, mut weight) = (0.0, 0.0);
        for step in 0..STEPS {
            let z = -REACH + (f64::from(step) + 0.5) * width;
            let density = (-z * z / 2.0).exp();
            let size = self.median as f64 * (self.sigma * z).exp();
            sum += density * size.clamp(self.min as f64, self.max as f64);
            weight += density;
        }
        sum / weight
    }
}

impl Sizes {
    /// The distribution of [`built_in`] with this name.
    pub fn named(name: &str) -> Option<Self> {
        built_in().find(name).map(|e| (*e.item).clone())
    }
}

fn packets_bytes(n: u32) -> u64 {
    u64::from(n) * TABLE_PACKET
}

/// Sizes, possibly limited to those below a value.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeSampler {
    sizes: Sizes,
    below: Option<u64>,
}

impl SizeSampler {
    /// Draws from `sizes` and rejects sizes of `below` bytes and more (mechanisms C1: query-only runs sample by
    /// rejection below 100 KB). Returns `None` if no size would be left.
    pub fn new(sizes: Sizes, below: Option<u64>) -> Option<Self> {
        let smallest = match &sizes {
            Sizes::Table(cdf) => cdf.smallest().max(1.0),
            Sizes::Fixed(n) => *n as f64,
            Sizes::Uniform(a, _) => *a as f64,
            Sizes::LogNormal(l) => l.min as f64,
            Sizes::Packets(n) => packets_bytes(*n) as f64,
        };
        // The margin is an eighth of a byte, because a size right at the limit would almost never be sampled.
        below
            .is_none_or(|limit| smallest + 0.125 < limit as f64)
            .then_some(Self { sizes, below })
    }

    /// The next size in bytes, at least 1.
    pub fn sample(&self, rng: &mut Stream) -> u64 {
        loop {
            let size = match &self.sizes {
                Sizes::Table(cdf) => (cdf.quantile(rng.unit()).round() as u64).max(1),
                Sizes::Fixed(n) => *n,
                Sizes::Uniform(a, b) => a + rng.below(b - a + 1),
                Sizes::LogNormal(l) => l.sample(rng),
                Sizes::Packets(n) => packets_bytes(*n),
            };
            if self.below.is_none_or(|limit| size < limit) {
                return size;
            }
        }
    }

    /// The number of packets of each flow, if sizes are given in packets.
    pub fn packets(&self) -> Option<u32> {
        match self.sizes {
            Sizes::Packets(n) => Some(n),
            _ => None,
        }
    }

    /// An upper bound of the size in bytes, which is the largest size unless sizes are limited.
    pub fn largest(&self) -> u64 {
        let largest = match &self.sizes {
            Sizes::Table(cdf) => cdf.quantile(1.0).ceil() as u64,
            Sizes::Fixed(n) => *n,
            Sizes::Uniform(_, b) => *b,
            Sizes::LogNormal(l) => l.max,
            Sizes::Packets(n) => packets_bytes(*n),
        };
        self.below.map_or(largest, |limit| largest.min(limit - 1))
    }

    /// The mean size in bytes, exact up to rounding to whole bytes.
    pub fn mean(&self) -> f64 {
        match (&self.sizes, self.below) {
            (Sizes::Table(cdf), None) => cdf.mean(),
            (Sizes::Table(cdf), Some(limit)) => cdf.mean_below(limit as f64),
            (Sizes::Fixed(n), _) => *n as f64,
            // Rejection changes the mean, but the reader of files refuses a limit for lognormal sizes.
            (Sizes::LogNormal(l), _) => l.mean(),
            (Sizes::Packets(n), _) => packets_bytes(*n) as f64,
            (Sizes::Uniform(a, b), limit) => {
                let top = limit.map_or(*b, |l| (l - 1).min(*b));
                (*a as f64 + top as f64) / 2.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Arc<Cdf> {
        match Sizes::named(name) {
            Some(Sizes::Table(cdf)) => cdf,
            _ => panic!("{name}"),
        }
    }

    #[test]
    fn every_published_table_is_a_distribution() {
        assert!(
            built_in()
                .names()
                .eq(["web-search", "data-mining", "mixed"])
        );
    }

    /// The figures that mechanisms C1 gives for each table.
    #[test]
    fn web_search_has_the_documented_shares() {
        let ws = table("web-search");
        assert!((ws.mean() / 1e6 - 1.67).abs() < 0.005, "{}", ws.mean());
        assert!(
            (ws.flows_above(1e6) - 0.297).abs() < 0.0005,
            "{}",
            ws.flows_above(1e6)
        );
        assert!(
            (ws.bytes_above(1e6) - 0.948).abs() < 0.0005,
            "{}",
            ws.bytes_above(1e6)
        );
        assert!(
            (ws.flows_above(1e5) - 0.456).abs() < 0.0005,
            "{}",
            ws.flows_above(1e5)
        );
    }

    #[test]
    fn data_mining_has_the_documented_shares() {
        let dm = table("data-mining");
        assert!((dm.mean() / 1e6 - 7.47).abs() < 0.005, "{}", dm.mean());
        assert!(
            (dm.flows_above(35e6) - 0.0365).abs() < 0.00005,
            "{}",
            dm.flows_above(35e6)
        );
        assert!(
            (dm.bytes_above(35e6) - 0.951).abs() < 0.0005,
            "{}",
            dm.bytes_above(35e6)
        );
        assert!((1.0 - dm.flows_above(1e5) - 0.824).abs() < 0.0005);
    }

    /// At every size, the mixture's share of larger flows is the average of the two distributions' shares.
    #[test]
    fn mixed_sizes_are_half_web_search_and_half_data_mining() {
        let [ws, dm, both] = ["web-search", "data-mining", "mixed"].map(table);
        assert!((both.mean() - (ws.mean() + dm.mean()) / 2.0).abs() < 1.0);
        for size in [1e3, 1460.5, 8e3, 9e3, 1e5, 1.5e6, 3e7, 9e8] {
            let half = (ws.flows_above(size) + dm.flows_above(size)) / 2.0;
            assert!((both.flows_above(size) - half).abs() < 1e-9, "{size}");
        }
        let mut rng = Stream::from_seed(3);
        let sampler = SizeSampler::new(Sizes::named("mixed").unwrap(), None).unwrap();
        let ones = (0..100_000).filter(|_| sampler.sample(&mut rng) == 1460);
        let share = ones.count() as f64 / 1e5;
        assert!((share - 0.25).abs() < 0.005, "{share}");
    }

    #[test]
    fn samples_agree_with_the_table() {
        let mut rng = Stream::from_seed(1);
        let sampler = SizeSampler::new(Sizes::named("web-search").unwrap(), Some(100_000)).unwrap();
        let n = 100_000;
        let drawn: Vec<u64> = (0..n).map(|_| sampler.sample(&mut rng)).collect();
        assert!(drawn.iter().all(|s| (8760..100_000).contains(s)));
        let mean = drawn.iter().sum::<u64>() as f64 / n as f64;
        assert!(
            (mean / sampler.mean() - 1.0).abs() < 0.01,
            "{mean} {}",
            sampler.mean()
        );
        // 15 % of all flows, thus 27.6 % of those below 100 KB, are exactly six packets.
        let six = drawn.iter().filter(|s| **s == 8760).count() as f64 / n as f64;
        assert!((six - 0.15 / 0.5436).abs() < 0.01, "{six}");
    }

    #[test]
    fn lognormal_sizes_have_their_median_mean_and_limits() {
        let l = LogNormal {
            median: 48 << 10,
            sigma: 0.9,
            min: 1 << 10,
            max: 1 << 20,
        };
        let sampler = SizeSampler::new(Sizes::LogNormal(l), None).unwrap();
        let mut rng = Stream::from_seed(5);
        let mut drawn: Vec<u64> = (0..100_000).map(|_| sampler.sample(&mut rng)).collect();
        drawn.sort_unstable();
        assert!(drawn[0] >= l.min && drawn[99_999] <= l.max);
        let median = drawn[50_000] as f64 / l.median as f64;
        let mean = drawn.iter().sum::<u64>() as f64 / 1e5 / sampler.mean();
        assert!((median - 1.0).abs() < 0.015, "{median}");
        assert!((mean - 1.0).abs() < 0.015, "{mean}");
    }

    #[test]
    fn limit_at_or_below_the_smallest_size_is_refused() {
        assert!(SizeSampler::new(Sizes::named("web-search").unwrap(), Some(8000)).is_none());
        assert!(SizeSampler::new(Sizes::Fixed(1000), Some(1000)).is_none());
        let uniform = SizeSampler::new(Sizes::Uniform(10, 20), Some(15)).unwrap();
        assert_eq!(uniform.mean(), 12.0);
    }
}
