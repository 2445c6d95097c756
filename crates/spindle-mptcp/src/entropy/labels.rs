//! Random flow labels.

use crate::random::{mix, reduce};

/// The number of values of a flow label, which has 20 bits (RFC 6437, section 2).
pub const LABELS: u32 = 1 << 20;

/// A stream of random flow labels. None of them is 0, which means that there is no label.
#[derive(Clone, Debug)]
pub struct LabelStream {
    seed: u64,
    drawn: u64,
}

impl LabelStream {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A label, each of 1 to 2^20 - 1 with the same probability.
    pub fn draw(&mut self) -> u32 {
        1 + self.below(u64::from(LABELS) - 1) as u32
    }

    /// A random number below `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.drawn += 1;
        reduce(mix(self.seed, self.drawn), n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_spread_over_their_range_and_differ_by_seed() {
        let labels = |seed| {
            let mut stream = LabelStream::new(seed);
            (0..4000).map(|_| stream.draw()).collect::<Vec<_>>()
        };
        let drawn = labels(1);
        assert!(drawn.iter().all(|l| (1..LABELS).contains(l)));
        let upper = drawn.iter().filter(|l| **l >= LABELS / 2).count();
        assert!((1800..2200).contains(&upper), "{upper}");
        assert_ne!(drawn, labels(2));
        assert_eq!(drawn, labels(1));
    }
}
