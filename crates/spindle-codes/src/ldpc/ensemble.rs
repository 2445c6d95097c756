//! Which packets are in which parity. The rows are drawn from a seed and are the same on every machine.
//!
//! **What is drawn.** Both forms of the code are based on one matrix P of r rows and k columns. P defines a
//! code whose n = k + r symbols are the k packets and r sums of packets, one sum for each row of P. Which
//! losses of this code can be repaired depends only on its column vectors: the vector of packet j is column j
//! of P, and the vector of parity i has a single one, at i. Losses can be repaired if the vectors of the lost
//! symbols are independent. The k columns are therefore drawn as vectors of `length` r that have few small
//! dependent sets, the r unit vectors included. If r > k, the r rows are drawn in this way instead, with
//! `length` k. The symbols needed to decode are then fewer than the symbols that may be lost.
//!
//! **Random words** are those of SplitMix64: `next()` adds 0x9e3779b97f4a7c15 to the state (wrapping) and mixes
//! the new state. To mix, it XORs the value with itself shifted right by 30 and multiplies by
//! 0xbf58476d1ce4e5b9, XORs it with itself shifted right by 27 and multiplies by 0x94d049bb133111eb, and XORs
//! it with itself shifted right by 31. The initial state is the first word of a generator whose state is
//! `seed ^ (k << 16 | r)`. `below(m)` is the high 64 of the 128 bits of `next() * m`.
//!
//! **Vectors of length up to 16** are chosen one after the other, each as the best of some candidates:
//!
//! - Up to length 8, the candidates are all vectors except 0, in ascending order from `below(2^length - 1) + 1`
//!   on, wrapping around at the end.
//! - For greater lengths, they are `2^17 / (n * count)` random vectors, at least 2 and at most 16. Each
//!   consists of the low bits of `next()` and is drawn again if it is 0.
//!
//! All vectors must be odd if 2^(length - 1) is at least n and below 2 n, or if n^2 < 2^length. An even
//! candidate of the first kind is then skipped. In an even candidate of the second kind, bit `below(length)` is
//! flipped. The best candidate is the first with the lowest cost. The cost has three parts: 20 (n - 2) (n - 3)
//! for each earlier vector (unit vectors included) that equals the candidate, 15 (length - 2) (n - 3) for each
//! pair of earlier vectors whose sum is the candidate, and 12 (length - 2) (length - 3) for each set of three
//! with that sum. A negative factor counts as 0. No further candidate is examined after one with cost 0.
//!
//! The cost is proportional to what such a set adds to the mean number of symbols needed. With r as the length,
//! a dependent set of w vectors is among e random losses with probability C(e, w) / C(n, w). Summed over
//! e = w..=r this is C(r + 1, w + 1) / C(n, w). The factors are the ratios of these sums for w = 2, 3 and 4.
//!
//! **Longer columns** start with the low 16 bits of `next()`. A third (rounded up) of the other elements are 1,
//! each at `16 + below(length - 16)`, which is drawn again if there is a 1 already. **Longer rows** have a
//! third of ones anywhere. Dependent sets as small as those above are rare there. Fewer ones would be enough if
//! parities arrived in random order. But parities arrive approximately in order, and the first few must
//! distinguish packets.
//!
//! Finally, a row of P without ones becomes all ones.

use crate::bits::{bit, ones};

/// The largest length of vectors that are compared. Longer vectors are sparse and not compared: tables of sums
/// have `2^length` entries, and dependent sets of up to 4 random vectors no longer matter.
const MAX_COMPARED: usize = 16;
/// The largest length for which all vectors are candidates. Above it they would take more time than they are
/// worth.
const MAX_LISTED: usize = 8;
/// The largest number of candidates for a longer vector. More candidates give no measurable improvement.
const MAX_CANDIDATES: usize = 16;
/// Candidates times vectors times symbols. This bounds the time to draw a unit: mostly below 0.1 ms, and
/// 0.35 ms for 8 packets with 247 parities.
const EFFORT: usize = 1 << 17;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// The rows of P for `k` packets (1 to 128) and `r` parities (up to 255).
pub(super) fn parity_rows(seed: u64, k: usize, r: usize) -> Vec<u128> {
    let first = Words(seed ^ ((k as u64) << 16 | r as u64)).next();
    let mut words = Words(first);
    let mut rows = if r > k {
        vectors(&mut words, k, r, 0)
    } else {
        let columns = vectors(&mut words, r, k, MAX_COMPARED);
        transposed(&columns, r)
    };
    for row in rows.iter_mut().filter(|row| **row == 0) {
        *row = all(k);
    }
    rows
}

/// The rows of a code none of whose symbols is a packet: k sums that determine all packets, then for each row
/// of P the XOR of the sums that it selects.
///
/// The k sums are x0+x1, x1+x2, ..., and finally x0+x1+x2. Without a loss, peeling solves all packets but one.
/// Row i of P selects sums instead of packets, so the code has the same vectors and repairs the same losses. By
/// chance the XOR of a row may be a single packet. The numbering of the sums then starts at another sum: the
/// first for which no row gives a single packet, if there is one.
pub(super) fn sums(seed: u64, k: usize, n: usize) -> Vec<u128> {
    let base = base_sums(k);
    let named = parity_rows(seed, k, n.saturating_sub(k));
    let made = |from: usize| -> Vec<u128> {
        let sum = |row: &u128| ones(*row).fold(0, |sum, j| sum ^ base[(j + from) % k]);
        named.iter().map(sum).collect()
    };
    let good = |rows: &Vec<u128>| rows.iter().all(|row| row.count_ones() > 1);
    let parities = (0..k).map(made).find(good).unwrap_or_else(|| made(0));
    let mut rows = base;
    rows.extend(parities);
    rows.truncate(n);
    rows
}

/// The k sums of a unit without losses. Two packets have only one sum, so they get x0+x1 and x1.
fn base_sums(k: usize) -> Vec<u128> {
    let mut rows: Vec<u128> = (1..k).map(|j| bit(j - 1) | bit(j)).collect();
    rows.push(match k {
        1 => 0b1,
        2 => 0b10,
        _ => 0b111,
    });
    rows
}

/// The set of all `k` packets.
fn all(k: usize) -> u128 {
    u128::MAX >> (128 - k)
}

fn transposed(columns: &[u128], rows: usize) -> Vec<u128> {
    let mut out = vec![0; rows];
    for (j, column) in columns.iter().enumerate() {
        for i in ones(*column) {
            out[i] |= bit(j);
        }
    }
    out
}

/// `count` vectors that, together with the unit vectors, have few small dependent sets. The first `dense`
/// elements (at most 16) of long vectors are dense.
fn vectors(words: &mut Words, length: usize, count: usize, dense: usize) -> Vec<u128> {
    if length == 0 {
        return vec![0; count];
    }
    if length > MAX_COMPARED {
        return (0..count).map(|_| sparse(words, length, dense)).collect();
    }
    let mut chosen = Chosen::new(length, length + count);
    (0..count).map(|_| chosen.choose(words, count)).collect()
}

/// A vector whose first `dense` elements are 1 with probability 1/2. A third of the other elements are 1.
fn sparse(words: &mut Words, length: usize, dense: usize) -> u128 {
    let mut vector = match dense {
        0 => 0,
        _ => u128::from(words.next()) & (bit(dense) - 1),
    };
    let mut wanted = (length - dense).div_ceil(3);
    while wanted > 0 {
        let one = bit(dense + words.below(length - dense));
        wanted -= usize::from(vector & one == 0);
        vector |= one;
    }
    vector
}

/// Whether all `symbols` vectors, including the unit vectors, must be odd. Three odd vectors are never
/// dependent. This helps if there are just enough odd vectors for all to differ, or enough for all sums of two
/// to differ.
fn is_odd(length: usize, symbols: usize) -> bool {
    let odd = 1usize << (length - 1);
    (symbols..2 * symbols).contains(&odd) || symbols * symbols < 2 * odd
}

/// The vectors chosen so far.
struct Chosen {
    length: usize,
    odd: bool,
    /// The costs of a dependent set of 2, 3 and 4 vectors.
    weights: [u64; 3],
    so_far: Vec<u16>,
    /// For each vector, how many of the chosen vectors equal it.
    is: Vec<u16>,
    /// For each vector, how many pairs have it as their sum.
    pairs: Vec<u16>,
    /// For each vector, how many sets of three have it as their sum. Empty unless all vectors are candidates.
    triples: Vec<u32>,
}

impl Chosen {
    /// The unit vectors; `symbols` is the final number of vectors.
    fn new(length: usize, symbols: usize) -> Self {
        let (n, r) = (symbols as u64, length as u64);
        let less = |a: u64, b: u64| a.saturating_sub(b);
        let mut new = Self {
            length,
            odd: is_odd(length, symbols),
            weights: [
                20 * less(n, 2) * less(n, 3),
                15 * less(r, 2) * less(n, 3),
                12 * less(r, 2) * less(r, 3),
            ],
            so_far: Vec::with_capacity(symbols),
            is: vec![0; 1 << length],
            pairs: vec![0; 1 << length],
            triples: vec![0; if length > MAX_LISTED { 0 } else { 1 << length }],
        };
        (0..length).for_each(|i| new.add(1 << i));
        new
    }

    fn add(&mut self, vector: u16) {
        for (sum, triples) in self.triples.iter_mut().enumerate() {
            *triples += u32::from(self.pairs[sum ^ usize::from(vector)]);
        }
        for other in &self.so_far {
            self.pairs[usize::from(other ^ vector)] += 1;
        }
        self.is[usize::from(vector)] += 1;
        self.so_far.push(vector);
    }

    /// Chooses the next of `count` vectors.
    fn choose(&mut self, words: &mut Words, count: usize) -> u128 {
        let others = (1usize << self.length) - 1;
        let listed = self.length <= MAX_LISTED;
        let drawn = EFFORT / ((self.length + count) * count);
        let drawn = drawn.clamp(2, MAX_CANDIDATES);
        let start = if listed { words.below(others) } else { 0 };
        let mut best: Option<(u64, u16)> = None;
        for turn in 0..if listed { others } else { drawn } {
            let vector = if listed {
                ((start + turn) % others + 1) as u16
            } else {
                self.draw(words)
            };
            if self.odd && vector.count_ones().is_multiple_of(2) {
                continue;
            }
            let cost = self.cost(vector);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, vector));
            }
            if cost == 0 {
                break;
            }
        }
        // There is always one: the list of all vectors contains odd ones, and drawn vectors are made odd.
        let vector = best.map_or(1, |(_, vector)| vector);
        self.add(vector);
        u128::from(vector)
    }

    /// A random vector, which is odd if required.
    fn draw(&self, words: &mut Words) -> u16 {
        loop {
            let vector = (words.next() & ((1 << self.length) - 1)) as u16;
            if self.odd && vector.count_ones().is_multiple_of(2) {
                return vector ^ 1 << words.below(self.length);
            }
            if vector != 0 {
                return vector;
            }
        }
    }

    /// The cost of the dependent sets that `vector` would create.
    fn cost(&self, vector: u16) -> u64 {
        let [two, three, four] = self.weights;
        let at = usize::from(vector);
        let mut cost = two * u64::from(self.is[at]) + three * u64::from(self.pairs[at]);
        if let Some(triples) = self.triples.get(at) {
            cost += four * u64::from(*triples);
        } else {
            // Each set of three is counted once by each of its members.
            let with = |other: &u16| u64::from(self.pairs[usize::from(other ^ vector)]);
            cost += four * (self.so_far.iter().map(with).sum::<u64>() / 3);
        }
        cost
    }
}
