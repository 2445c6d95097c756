//! Which packets are in which parity: drawn from a seed, the same on every machine.
//!
//! **What is drawn.** Behind both forms stands one matrix P of r rows and k columns, and a code
//! whose n = k + r symbols are k packets and the r sums of them that P's rows name. Which losses of
//! such a code can be repaired depends on its column vectors alone: that of packet j is column j of
//! P, that of parity i has a one at i only, and losses can be repaired if the vectors of the lost
//! symbols are independent. So the k columns are drawn as vectors of `length` r that, with the r
//! unit vectors, have few small dependent sets. Where r > k, it is the r rows that are drawn so, of
//! `length` k: as many symbols as are needed to decode are then fewer than those that may be lost.
//!
//! **Random words** are SplitMix64's: `next()` adds 0x9e3779b97f4a7c15 to the state (wrapping) and
//! mixes the new state (XORed with itself shifted right by 30, times 0xbf58476d1ce4e5b9; by 27, times
//! 0x94d049bb133111eb; by 31). The state starts as the first word of the generator whose state is
//! `seed ^ (k << 16 | r)`. `below(m)` is the high 64 of the 128 bits of `next() * m`.
//!
//! **Vectors of length up to 16** are chosen one after the other, each the best of some candidates:
//! up to length 8 all vectors but 0, from `below(2^length - 1) + 1` on in their order and around;
//! else `2^17 / (n * count)` random ones, 2 to 16, each the low bits of `next()`, drawn again if 0.
//! If all are to be odd (2^(length - 1) is at least n and below 2 n, or n^2 < 2^length), an even
//! candidate of the first kind is passed over, in one of the second kind bit `below(length)` is
//! flipped. The best is the first with the least cost: 20 (n - 2) (n - 3) for each vector so far
//! (units included) that is the same, 15 (length - 2) (n - 3) for each two with this sum, and
//! 12 (length - 2) (length - 3) for each three; a negative factor counts as 0. No more are looked at
//! after one that costs nothing.
//!
//! This is in proportion to what such a set adds to the mean number of symbols needed: with r the
//! length, a dependent set of w is among e random losses with probability C(e, w) / C(n, w), which
//! summed over e = w..=r is C(r + 1, w + 1) / C(n, w); the factors are the ratios of these for
//! w = 2, 3 and 4.
//!
//! **Longer columns** have the low 16 bits of `next()` first; of the other elements a third
//! (rounded up) are 1, each at `16 + below(length - 16)`, drawn again where there is a 1 already.
//! **Longer rows** have a third anywhere. Dependent sets as small as above are rare there. Fewer
//! ones would do if parities arrived in any order; but they arrive about in their order, and the
//! first few must tell packets apart.
//!
//! Last, a row of P without ones becomes all ones.

use crate::bits::{bit, ones};

/// The length from which on vectors are sparse and not compared: tables of sums have `2^length`
/// entries, and dependent sets of up to 4 random vectors no longer matter.
const MAX_COMPARED: usize = 16;
/// The length up to which all vectors are candidates: more would take longer than they gain.
const MAX_LISTED: usize = 8;
/// The most candidates for a longer vector; more gain nothing that can be measured.
const MAX_CANDIDATES: usize = 16;
/// Candidates times vectors times symbols, which bounds what the draw for a unit takes: mostly below
/// 0.1 ms, 0.35 ms where 8 packets have 247 parities.
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

/// The rows of a code of which no symbol is a packet: k sums that tell all packets, then for each row
/// of P the XOR of the sums it names.
///
/// The k sums are x0+x1, x1+x2, ..., and last x0+x1+x2: without a loss all but one peel. Row i of P
/// names the sums instead of the packets, so that the code has the same vectors, and repairs the
/// same losses. A row may by chance leave a packet alone; then the sums are numbered from another
/// one on, the first number for which no row does so, if there is one.
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

/// The k sums of a unit that lost nothing. Two packets have one sum only: there it is x0+x1, and x1.
fn base_sums(k: usize) -> Vec<u128> {
    let mut rows: Vec<u128> = (1..k).map(|j| bit(j - 1) | bit(j)).collect();
    rows.push(match k {
        1 => 0b1,
        2 => 0b10,
        _ => 0b111,
    });
    rows
}

/// The set of `k` packets.
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

/// `count` vectors, which with the unit vectors have few small dependent sets. Of long ones the first
/// `dense` elements (at most 16) are dense.
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

/// A vector whose first `dense` elements are as likely 1 as 0; of the others a third are 1.
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

/// Whether all `symbols` vectors, units included, are to be odd. Three odd vectors are never dependent, which pays
/// where odd vectors are just enough for all to differ, or so many that all sums of two can differ.
fn is_odd(length: usize, symbols: usize) -> bool {
    let odd = 1usize << (length - 1);
    (symbols..2 * symbols).contains(&odd) || symbols * symbols < 2 * odd
}

/// The vectors chosen so far.
struct Chosen {
    length: usize,
    odd: bool,
    /// What a dependent set of 2, 3 and 4 vectors costs.
    weights: [u64; 3],
    so_far: Vec<u16>,
    /// How many are this one.
    is: Vec<u16>,
    /// How many pairs have this sum.
    pairs: Vec<u16>,
    /// How many sets of three have this sum; empty where not all vectors are candidates.
    triples: Vec<u32>,
}

impl Chosen {
    /// The unit vectors, of `symbols` in all.
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

    /// The next of `count` vectors.
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
        // There is always one: among all vectors some are odd, and drawn ones are made so.
        let vector = best.map_or(1, |(_, vector)| vector);
        self.add(vector);
        u128::from(vector)
    }

    /// A random vector, odd if it is to be.
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

    /// What the dependent sets that `vector` would make cost.
    fn cost(&self, vector: u16) -> u64 {
        let [two, three, four] = self.weights;
        let at = usize::from(vector);
        let mut cost = two * u64::from(self.is[at]) + three * u64::from(self.pairs[at]);
        if let Some(triples) = self.triples.get(at) {
            cost += four * u64::from(*triples);
        } else {
            // Each set of three is met by each of its three.
            let with = |other: &u16| u64::from(self.pairs[usize::from(other ^ vector)]);
            cost += four * (self.so_far.iter().map(with).sum::<u64>() / 3);
        }
        cost
    }
}
