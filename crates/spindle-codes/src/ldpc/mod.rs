//! A binary code: parities are XORs of some packets, drawn from a seed.

mod ensemble;
mod peel;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::bits::{Span, bit, ones};
use crate::code::{ErasureCode, Limits, Shape, check_block, check_received, packets_of};
use crate::error::CodeError;
use crate::kernel::Kernel;
use crate::symbol::{Parity, Recovered, Source, Symbol, Term, combine_within, is_real};
use crate::tracker::Tracker;
use peel::Peeling;

/// An LDPC-like code for units of up to 128 packets. CAPS section IV chooses LDPC because units are far above
/// the 1000 bits up to which it considers Reed-Solomon suitable.
///
/// - [`systematic`](Self::systematic): shape (k, r). The packets are sent unchanged, and r parities follow.
/// - [`non_systematic`](Self::non_systematic): shape (k, n) with all packets missing. n = k + r encoded packets
///   are sent. Without a loss the first k of them are enough, by construction. With at least 5 packets and
///   r <= k, no encoded packet equals a packet (checked for [`SEED`](Self::SEED)). Fewer packets have too few
///   sums for that. All encoded packets of a single packet are copies.
///
/// Both repair the same losses: any single loss, and any two losses if k + r <= 2^(r - 1) and r <= k (checked
/// up to k = 64). Parities are drawn from seed and shape and are the same on every machine;
/// `src/ldpc/ensemble.rs` describes the method. Up to 16 parities are dense and chosen with care, because
/// sparse ones repair fewer losses and save little. If there are more, those after the 16th have about a third
/// of the packets. Decoding peels, and uses Gaussian elimination if peeling stops. Bytes are only XORed.
///
/// **Overhead**, measured by `cargo run --release -p spindle-codes --example overhead`, 20000 units for each
/// line. If all symbols arrive in random order, *mean* is the mean number of symbols beyond k until a unit can
/// be decoded, and the *fail* columns are the shares of units for which k, k + 1, k + 2 and k + 3 symbols are
/// not enough. The last column is the mean if symbols arrive in order and a share r / 2n of them is lost. It
/// covers the units of which at least k symbols arrive; a unit that is never decoded counts as r + 1.
/// Reed-Solomon has 0 in all columns. Dense random rows need 1.6 symbols beyond k, however large k and r are.
///
/// | k | r | mean | fail +0 | +1 | +2 | +3 | mean with losses |
/// |---|---|---|---|---|---|---|---|
/// | 4 | 1 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 |
/// | 4 | 2 | 0.20 | 0.20 | 0.00 | 0.00 | 0.00 | 0.19 |
/// | 4 | 4 | 0.20 | 0.20 | 0.00 | 0.00 | 0.00 | 0.21 |
/// | 8 | 1 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 |
/// | 8 | 2 | 0.27 | 0.27 | 0.00 | 0.00 | 0.00 | 0.25 |
/// | 8 | 4 | 0.43 | 0.36 | 0.07 | 0.00 | 0.00 | 0.52 |
/// | 8 | 8 | 0.72 | 0.49 | 0.18 | 0.05 | 0.01 | 0.88 |
/// | 12 | 1 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 |
/// | 12 | 3 | 0.49 | 0.41 | 0.09 | 0.00 | 0.00 | 0.55 |
/// | 12 | 6 | 0.69 | 0.50 | 0.17 | 0.03 | 0.00 | 0.87 |
/// | 12 | 12 | 1.11 | 0.61 | 0.30 | 0.13 | 0.05 | 1.35 |
/// | 16 | 2 | 0.29 | 0.29 | 0.00 | 0.00 | 0.00 | 0.29 |
/// | 16 | 4 | 0.64 | 0.47 | 0.14 | 0.03 | 0.00 | 0.79 |
/// | 16 | 8 | 0.86 | 0.55 | 0.22 | 0.07 | 0.02 | 0.95 |
/// | 16 | 16 | 1.49 | 0.70 | 0.40 | 0.21 | 0.10 | 1.54 |
/// | 24 | 3 | 0.56 | 0.45 | 0.11 | 0.00 | 0.00 | 0.64 |
/// | 24 | 6 | 0.72 | 0.51 | 0.17 | 0.04 | 0.00 | 0.92 |
/// | 24 | 12 | 1.19 | 0.64 | 0.32 | 0.14 | 0.06 | 1.35 |
/// | 24 | 24 | 1.59 | 0.71 | 0.42 | 0.23 | 0.12 | 1.53 |
/// | 32 | 4 | 0.77 | 0.53 | 0.20 | 0.04 | 0.00 | 0.85 |
/// | 32 | 8 | 1.01 | 0.60 | 0.27 | 0.10 | 0.03 | 1.19 |
/// | 32 | 16 | 1.46 | 0.69 | 0.39 | 0.20 | 0.10 | 1.59 |
/// | 32 | 32 | 1.58 | 0.71 | 0.42 | 0.22 | 0.12 | 1.63 |
/// | 48 | 6 | 0.94 | 0.59 | 0.26 | 0.08 | 0.01 | 1.19 |
/// | 48 | 12 | 1.36 | 0.68 | 0.37 | 0.18 | 0.08 | 1.55 |
/// | 48 | 24 | 1.63 | 0.71 | 0.42 | 0.24 | 0.12 | 1.69 |
/// | 48 | 48 | 1.59 | 0.71 | 0.42 | 0.23 | 0.12 | 1.66 |
/// | 64 | 8 | 1.12 | 0.64 | 0.31 | 0.12 | 0.04 | 1.43 |
/// | 64 | 16 | 1.47 | 0.69 | 0.40 | 0.20 | 0.10 | 1.69 |
/// | 64 | 32 | 1.59 | 0.70 | 0.42 | 0.23 | 0.12 | 1.66 |
/// | 64 | 64 | 1.61 | 0.71 | 0.42 | 0.23 | 0.12 | 1.60 |
///
/// The rows of the most recently used shapes are cached, at most 128. Clones share the cache. Results do not
/// depend on it.
#[derive(Clone)]
pub struct Ldpc {
    kernel: Kernel,
    seed: u64,
    systematic: bool,
    drawn: Arc<Drawn>,
}

impl Ldpc {
    /// The seed of the measured tables, for callers that have no other. Both ends must use the same seed.
    pub const SEED: u64 = 1;

    /// The form in which packets are sent unchanged, followed by parities.
    pub fn systematic(seed: u64) -> Self {
        Self::new(seed, true)
    }

    /// The form in which only sums of packets are sent.
    pub fn non_systematic(seed: u64) -> Self {
        Self::new(seed, false)
    }

    fn new(seed: u64, systematic: bool) -> Self {
        Self {
            kernel: Kernel::best(),
            seed,
            systematic,
            drawn: Arc::default(),
        }
    }

    /// The same code with the given kernel.
    #[must_use]
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether packets are sent unchanged.
    pub fn is_systematic(&self) -> bool {
        self.systematic
    }

    /// The parities of a unit within the limits. Each is the set of packets whose XOR it is.
    fn rows(&self, shape: Shape) -> Arc<[u128]> {
        self.drawn.find(shape).unwrap_or_else(|| {
            let Shape { sources, parities } = shape;
            let rows = if self.systematic {
                ensemble::parity_rows(self.seed, sources, parities)
            } else {
                ensemble::sums(self.seed, sources, parities)
            };
            self.drawn.keep(shape, rows.into())
        })
    }

    /// The XOR of the packets in `row`, as long as the longest of all packets.
    fn sum(&self, row: u128, sources: &[Source<'_>], padding: Padding) -> Symbol {
        let terms: Vec<_> = ones(row).map(|i| term(&sources[i])).collect();
        combine_within(self.kernel, &terms, padding.width, padding.real)
    }
}

impl fmt::Debug for Ldpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ldpc")
            .field("seed", &self.seed)
            .field("systematic", &self.systematic)
            .field("kernel", &self.kernel)
            .finish()
    }
}

impl ErasureCode for Ldpc {
    fn name(&self) -> &'static str {
        if self.systematic {
            "ldpc-systematic"
        } else {
            "ldpc"
        }
    }

    fn limits(&self) -> Limits {
        if !self.systematic {
            return Limits::UNIT;
        }
        // The same number of symbols is sent, but here it includes the packets.
        Limits {
            max_parities: Limits::UNIT.max_parities - 1,
            max_total: Limits::UNIT.max_parities,
            ..Limits::UNIT
        }
    }

    fn kernel(&self) -> Kernel {
        self.kernel
    }

    fn coefficient(&self, shape: Shape, parity: usize, source: usize) -> u8 {
        u8::from(self.rows(shape)[parity] & bit(source) != 0)
    }

    fn decodable(&self, shape: Shape, missing: &[usize], parities: &[usize]) -> bool {
        if missing.is_empty() {
            return true;
        }
        let within = missing.len() <= parities.len()
            && self.limits().check(shape).is_ok()
            && missing.iter().all(|m| *m < shape.sources)
            && parities.iter().all(|p| *p < shape.parities);
        if !within {
            return false;
        }
        let unknowns = missing.iter().fold(0, |set, m| set | bit(*m));
        let rows = self.rows(shape);
        let mut span = Span::new(shape.sources);
        parities.iter().any(|p| {
            span.add(rows[*p] & unknowns);
            span.rank() == missing.len()
        })
    }

    fn encode(
        &self,
        shape: Shape,
        parity: usize,
        sources: &[Source<'_>],
    ) -> Result<Symbol, CodeError> {
        check_block(self.limits(), shape, parity, sources)?;
        Ok(self.sum(self.rows(shape)[parity], sources, Padding::of(sources)))
    }

    fn encode_unit(&self, shape: Shape, sources: &[Source<'_>]) -> Result<Vec<Symbol>, CodeError> {
        check_block(self.limits(), shape, 0, sources)?;
        let (rows, padding) = (self.rows(shape), Padding::of(sources));
        Ok(rows
            .iter()
            .map(|r| self.sum(*r, sources, padding))
            .collect())
    }

    fn tracker(&self, shape: Shape) -> Result<Tracker, CodeError> {
        self.limits().check(shape)?;
        Ok(Tracker::binary(shape, self.rows(shape)))
    }

    fn decode(
        &self,
        shape: Shape,
        sources: &[Option<Source<'_>>],
        parities: &[Parity<'_>],
    ) -> Result<Vec<Recovered>, CodeError> {
        let width = check_received(self.limits(), shape, sources, parities)?;
        let lost = sources.iter().enumerate().filter(|(_, s)| s.is_none());
        let unknowns = lost.fold(0, |set, (index, _)| set | bit(index));
        if unknowns == 0 {
            return Ok(Vec::new());
        }
        let all = self.rows(shape);
        let rows = parities.iter().map(|p| all[p.index]);
        let taken = peel::enough(rows, unknowns).ok_or(CodeError::Undecodable {
            missing: unknowns.count_ones() as usize,
            parities: parities.len(),
        })?;
        let known = sources.iter().flatten().map(|s| s.body);
        let brought = parities.iter().map(|p| p.body);
        let solver = Solver {
            kernel: self.kernel,
            rows: taken.iter().map(|t| all[parities[*t].index]).collect(),
            sides: taken.iter().map(|t| &parities[*t]).collect(),
            sources,
            padding: Padding {
                width,
                real: known.chain(brought).any(is_real),
            },
            values: Vec::with_capacity(taken.len()),
            slots: [0; Limits::UNIT.max_sources],
            solved: 0,
        };
        packets_of(solver.solve(unknowns), sources, width)
    }
}

/// The largest number of packets that are added in place, one by one. More are added as a new sum, four at a
/// time.
const IN_PLACE: usize = 2;

/// The properties that all parities of a unit share.
#[derive(Clone, Copy, Debug)]
struct Padding {
    /// Their length, which is that of the longest packet.
    width: usize,
    /// Whether they consist of bytes.
    real: bool,
}

impl Padding {
    fn of(sources: &[Source<'_>]) -> Self {
        let lens = sources.iter().map(|s| s.body.len());
        Self {
            width: lens.max().unwrap_or(0),
            real: sources.iter().any(|s| is_real(s.body)),
        }
    }
}

fn term<'a>(source: &Source<'a>) -> Term<'a> {
    Term {
        coefficient: 1,
        label: source.label(),
        body: source.body,
    }
}

fn term_of(symbol: &Symbol) -> Term<'_> {
    Term {
        coefficient: 1,
        label: symbol.label,
        body: symbol.content.as_body(),
    }
}

/// Carries out a [`Peeling`] on packets.
struct Solver<'a> {
    kernel: Kernel,
    /// Independent rows, as many as there are unknowns.
    rows: Vec<u128>,
    /// The parities of these rows.
    sides: Vec<&'a Parity<'a>>,
    sources: &'a [Option<Source<'a>>],
    padding: Padding,
    values: Vec<Symbol>,
    /// For each solved unknown, its index in `values`.
    slots: [u8; Limits::UNIT.max_sources],
    /// The unknowns that are solved.
    solved: u128,
}

impl Solver<'_> {
    /// Returns the unknowns with their indices.
    fn solve(mut self, unknowns: u128) -> Vec<(usize, Symbol)> {
        let plan = Peeling::new(&self.rows, unknowns);
        for &(row, unknown) in &plan.peeled {
            let value = self.rest(row);
            self.put(unknown, value);
        }
        if plan.aside != 0 {
            self.solve_aside(&plan);
        }
        let mut values: Vec<_> = self.values.into_iter().map(Some).collect();
        let slots = ones(self.solved).map(|u| (u, usize::from(self.slots[u])));
        slots
            .filter_map(|(u, slot)| Some((u, values[slot].take()?)))
            .collect()
    }

    /// Solves the unknowns that were set aside, and corrects the unknowns that depend on them.
    fn solve_aside(&mut self, plan: &Peeling) {
        let (depends, left) = plan.dependence(&self.rows);
        let sides: Vec<Symbol> = plan.left.iter().map(|row| self.rest(*row)).collect();
        // There is always an inverse, because the rows are independent.
        for (unknown, set) in plan.solved(&left).unwrap_or_default() {
            let terms: Vec<_> = ones(set).map(|place| term_of(&sides[place])).collect();
            let value = self.add_up(&terms);
            self.put(unknown, value);
        }
        for &(_, unknown) in &plan.peeled {
            let slot = usize::from(self.slots[unknown]);
            let aside: Vec<_> = ones(depends[unknown])
                .map(|u| usize::from(self.slots[u]))
                .collect();
            if aside.len() <= IN_PLACE {
                for from in aside {
                    if let Ok([to, from]) = self.values.get_disjoint_mut([slot, from]) {
                        to.add(self.kernel, 1, from);
                    }
                }
            } else {
                let slots = std::iter::once(&slot).chain(&aside);
                let terms: Vec<_> = slots.map(|slot| term_of(&self.values[*slot])).collect();
                self.values[slot] = self.add_up(&terms);
            }
        }
    }

    /// A parity minus the known packets and the solved unknowns.
    fn rest(&self, row: usize) -> Symbol {
        let set = self.rows[row];
        let side = self.sides[row];
        let mut terms = Vec::with_capacity(set.count_ones() as usize + 1);
        terms.push(Term {
            coefficient: 1,
            label: side.label,
            body: side.body,
        });
        for index in ones(set) {
            if let Some(source) = &self.sources[index] {
                terms.push(term(source));
            } else if self.solved & bit(index) != 0 {
                terms.push(term_of(&self.values[usize::from(self.slots[index])]));
            }
        }
        self.add_up(&terms)
    }

    fn add_up(&self, terms: &[Term<'_>]) -> Symbol {
        combine_within(self.kernel, terms, self.padding.width, self.padding.real)
    }

    fn put(&mut self, unknown: usize, value: Symbol) {
        self.slots[unknown] = self.values.len() as u8;
        self.solved |= bit(unknown);
        self.values.push(value);
    }
}

/// The rows of the most recently used units, the latest first.
#[derive(Default)]
struct Drawn(Mutex<Vec<(Shape, Arc<[u128]>)>>);

impl Drawn {
    /// The number of units: half a megabyte at most, and about as many shapes as a sender uses by turns.
    const KEPT: usize = 128;

    fn find(&self, shape: Shape) -> Option<Arc<[u128]>> {
        let mut units = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = units.iter().position(|(s, _)| *s == shape)?;
        units[..=at].rotate_right(1);
        units.first().map(|(_, rows)| Arc::clone(rows))
    }

    fn keep(&self, shape: Shape, rows: Arc<[u128]>) -> Arc<[u128]> {
        let mut units = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        units.truncate(Self::KEPT - 1);
        units.insert(0, (shape, Arc::clone(&rows)));
        rows
    }
}
