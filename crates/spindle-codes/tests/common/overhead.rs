//! Measures how many symbols beyond k are needed until a unit can be decoded.

use spindle_codes::{ErasureCode, Shape, Tracker};

/// SplitMix64, which gives the same arrivals on every machine.
pub(crate) struct Words(pub(crate) u64);

impl Words {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// The result of a series of units.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overhead {
    /// The mean number of symbols beyond k at the time when the unit could be decoded.
    pub(crate) extra: f64,
    /// The share of units that could not be decoded from k, k + 1, k + 2, k + 3 symbols.
    pub(crate) fail: [f64; 4],
}

impl Overhead {
    fn of(extras: impl ExactSizeIterator<Item = usize>) -> Self {
        let share = 1.0 / extras.len() as f64;
        extras.fold(Self::default(), |mut sum, extra| {
            sum.extra += extra as f64 * share;
            let failed = sum.fail.iter_mut().take(extra);
            failed.for_each(|fail| *fail += share);
            sum
        })
    }
}

/// A unit of `k` packets for which `n` symbols are sent, and its code.
#[derive(Clone, Copy)]
pub(crate) struct Unit<'a> {
    pub(crate) code: &'a dyn ErasureCode,
    /// Whether the k packets are among the symbols.
    pub(crate) systematic: bool,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

impl Unit<'_> {
    fn tracker(&self) -> Tracker {
        let parities = self.n - if self.systematic { self.k } else { 0 };
        let shape = Shape::new(self.k, parities);
        self.code.tracker(shape).expect("within the limits")
    }

    fn add(&self, tracker: &mut Tracker, symbol: usize) {
        if self.systematic && symbol < self.k {
            tracker.add_source(symbol);
        } else {
            tracker.add_parity(symbol - if self.systematic { self.k } else { 0 });
        }
    }

    /// The number of symbols beyond k until the unit is complete. If it is never complete, n + 1 - k.
    fn extra(&self, arrivals: impl Iterator<Item = usize>) -> usize {
        let mut tracker = self.tracker();
        let mut count = 0;
        for symbol in arrivals {
            count += 1;
            self.add(&mut tracker, symbol);
            if tracker.is_complete() {
                return count - self.k;
            }
        }
        self.n + 1 - self.k
    }

    /// All symbols arrive, each time in a different order.
    pub(crate) fn in_any_order(&self, units: usize, seed: u64) -> Overhead {
        let mut words = Words(seed);
        let mut order: Vec<usize> = (0..self.n).collect();
        Overhead::of((0..units).map(|_| {
            for left in (1..self.n).rev() {
                order.swap(left, words.below(left + 1));
            }
            self.extra(order.iter().copied())
        }))
    }

    /// Symbols arrive in order. Each is lost with half the likelihood of the redundancy, (n - k) / 2n. Only
    /// units of which at least k symbols arrive count.
    pub(crate) fn with_losses(&self, units: usize, seed: u64) -> Overhead {
        let mut words = Words(seed);
        let mut extras = Vec::with_capacity(units);
        while extras.len() < units {
            let come: Vec<usize> = (0..self.n)
                .filter(|_| words.below(2 * self.n) >= self.n - self.k)
                .collect();
            if come.len() >= self.k {
                extras.push(self.extra(come.iter().copied()));
            }
        }
        Overhead::of(extras.into_iter())
    }
}
